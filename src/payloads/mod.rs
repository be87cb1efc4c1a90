//! Bodies of webhooks: what each event says, rendered once, stored, signed and sent unchanged.

pub mod payments;
mod render;

pub use render::{normalise, render};

use crate::domain::{currency::Catalogue, event::Event};
use payments::{PaymentConfirmed, PaymentPartial};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Names in bodies that an operator can choose. Source: decisions D11.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// `paymentProcessor` of payments that stay on chain.
    pub processor_crypto: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            processor_crypto: "service-network".to_owned(),
        }
    }
}

/// One kind of event, as receivers see it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Name on the wire.
    pub name: &'static str,
    /// Name of its schema in the document.
    pub component: &'static str,
    /// One line for the document.
    pub summary: &'static str,
    /// When it is sent and what to do with it.
    pub description: &'static str,
    /// Its schema.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    sample: fn(&Names) -> String,
}

/// Every kind, in the order of the document.
pub const KINDS: [Kind; 2] = [
    Kind {
        name: "payment.confirmed",
        component: "PaymentConfirmed",
        summary: "A request is paid",
        description: "The whole expected amount has arrived and its last payment is final. Deliver the goods.",
        schema: PaymentConfirmed::json_schema,
        sample: |names| {
            render(&PaymentConfirmed {
                event: "payment.confirmed",
                payment: payments::sample(names),
            })
        },
    },
    Kind {
        name: "payment.partial",
        component: "PaymentPartial",
        summary: "A part of a request is paid",
        description: "A payment is final, but the total is still below the expected amount. More payments may follow.",
        schema: PaymentPartial::json_schema,
        sample: |names| {
            let payment = payments::sample(names);
            render(&PaymentPartial {
                event: "payment.partial",
                payment: payments::PaymentBody {
                    amount: "40".to_owned(),
                    total_amount_paid: "40".to_owned(),
                    ..payment
                },
            })
        },
    },
];

/// The body of an event: the bytes that are stored, signed and sent.
pub fn body(event: &Event, catalogue: &Catalogue, names: &Names) -> String {
    match event {
        Event::PaymentReceived(received) => payments::body(received, catalogue, names),
    }
}

/// A body with placeholder values for test deliveries; `None` when there is no such kind.
pub fn sample(kind: &str, names: &Names) -> Option<String> {
    KINDS
        .iter()
        .find(|known| known.name == kind)
        .map(|known| (known.sample)(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        address::Address,
        amount::Amount,
        currency::{Currency, CurrencyKind},
        event::PaymentReceived,
        ids::{PlatformId, RequestId, RequestRowId},
        network::Network,
        payment::{Observation, ObservedConversion, PaymentKind, ProvenTransfer, Settled},
        reference::PaymentReference,
        request::{CustomerInfo, Request, RequestStatus, Settlement},
    };
    use alloy::primitives::{B256, U256};
    use chrono::DateTime;
    use serde_json::Value;
    use std::collections::HashMap;

    fn currency(id: &str, symbol: &str, decimals: u8, network: Option<Network>) -> Currency {
        Currency {
            id: id.to_owned(),
            aliases: Vec::new(),
            name: symbol.to_owned(),
            symbol: symbol.to_owned(),
            decimals,
            address: String::new(),
            network,
            kind: network.map_or(CurrencyKind::Fiat, |_| CurrencyKind::Erc20),
            hash: String::new(),
            conversion_paths: HashMap::new(),
        }
    }

    fn received(invoice: &str, settlement: Settlement) -> (Event, Catalogue) {
        let catalogue = Catalogue::new(
            vec![
                currency("USD", "USD", 2, None),
                currency("USDC-base", "USDC", 6, Some(Network::Base)),
            ],
            HashMap::new(),
            [Network::Base].into(),
        );
        let wallet = Address::parse("0xb07D2398d2004378cad234DA0EF14f1c94A530e4").unwrap();
        let is_fiat = invoice == "USD";
        let units = U256::from(100_515_077_u64);
        let credited = if is_fiat { U256::from(10_050_000_000_u64) } else { units };
        let request = Request {
            row: RequestRowId(String::new()),
            platform: PlatformId(String::new()),
            client: None,
            client_id: Some("cli_1".to_owned()),
            origin: None,
            id: RequestId("01ab".to_owned()),
            salt: String::new(),
            reference: PaymentReference([1; 8]),
            kind: PaymentKind::Direct,
            status: RequestStatus::Paid,
            network: Network::Base,
            payee: wallet,
            payer: None,
            amount: Amount::parse("100.5").unwrap(),
            invoice_currency: invoice.to_owned(),
            payment_currency: "USDC-base".to_owned(),
            token: Some(wallet),
            expected: if is_fiat { credited } else { U256::from(100_500_000_u64) },
            credited,
            payment_count: 1,
            tx_hash: None,
            merchant_reference: Some("order \u{2028} \"1\"".to_owned()),
            customer: Some(CustomerInfo {
                first_name: Some("Ada".to_owned()),
                ..CustomerInfo::default()
            }),
            recurrence: None,
            is_recurrence_stopped: false,
            original_request_id: None,
            original_request_reference: None,
            is_crypto_to_fiat: false,
            is_listening: false,
            created_at: DateTime::UNIX_EPOCH,
        };
        let observed = Observation {
            network: Network::Base,
            tx_hash: B256::repeat_byte(7),
            ordinal: 0,
            block_number: 1,
            block_hash: B256::ZERO,
            log_index: 0,
            proxy: wallet,
            reference_topic: B256::ZERO,
            token: Some(wallet),
            payee: wallet,
            units,
            fee_units: U256::from(250_000),
            fee_address: Some(wallet),
            conversion: is_fiat.then_some(ObservedConversion {
                invoice_units: credited,
                invoice_fee_units: U256::ZERO,
                currency: wallet,
                max_rate_timespan_s: 0,
            }),
        };
        let payment = Settled {
            observed,
            proven: ProvenTransfer {
                received_units: units,
                payer: Some(wallet),
                payer_eoa: None,
            },
            credited,
            at: DateTime::from_timestamp_millis(1_900_000_000_123).unwrap(),
        };
        let event = Event::PaymentReceived(Box::new(PaymentReceived {
            settlement,
            request,
            payment,
        }));
        (event, catalogue)
    }

    #[test]
    fn a_confirmed_payment_tells_every_member_of_the_contract() {
        let (event, catalogue) = received("USDC-base", Settlement::Confirmed);
        let text = body(&event, &catalogue, &Names::default());
        assert!(text.starts_with(r#"{"event":"payment.confirmed","requestId":"01ab","requestID":"01ab","#));
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["amount"], "100.515077");
        assert_eq!(body["totalAmountPaid"], "100.515077");
        assert_eq!(body["expectedAmount"], "100.5");
        assert_eq!(body["excessAmount"], "0.015077");
        assert_eq!(body["timestamp"], "2030-03-17T17:46:40.123Z");
        assert_eq!(body["network"], "base");
        assert_eq!(body["currency"], "USDC");
        assert_eq!(body["payerEoaAddress"], Value::Null);
        assert_eq!(body["subStatus"], "");
        assert_eq!(body["paymentProcessor"], "service-network");
        assert_eq!(body["fees"][0]["amount"], "0.25");
        assert_eq!(body["clientId"], "cli_1");
        assert_eq!(body["customerInfo"]["firstName"], "Ada");
        assert_eq!(body["reference"], "order \u{2028} \"1\"");
        assert!(body.get("origin").is_none());
        assert!(body.get("conversionRate").is_none());
        assert_eq!(text, normalise(body).to_string());
    }

    #[test]
    fn a_converted_payment_tells_both_sides() {
        let (event, catalogue) = received("USD", Settlement::Partial);
        let body: Value = serde_json::from_str(&body(&event, &catalogue, &Names::default())).unwrap();
        assert_eq!(body["event"], "payment.partial");
        assert_eq!(body["currency"], "USD");
        assert_eq!(body["paymentCurrency"], "USDC");
        assert_eq!(body["amount"], "100.5");
        assert_eq!(body["convertedAmountSource"], "100.5");
        assert_eq!(body["convertedAmountDestination"], "100.515077");
        assert_eq!(body["conversionRate"], "0.99985");
        assert_eq!(body["rateProvider"], "chainlink");
        assert!(body.get("excessAmount").is_none());
    }

    #[test]
    fn every_kind_that_clients_receive_has_a_sample() {
        for kind in crate::domain::event::CLIENT_KINDS {
            let body: Value = serde_json::from_str(&sample(kind, &Names::default()).unwrap()).unwrap();
            assert_eq!(body["event"], kind);
        }
        assert_eq!(sample("payment.unknown", &Names::default()), None);
    }
}
