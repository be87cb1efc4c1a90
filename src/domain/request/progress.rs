//! Paid and remaining amounts of a request and its rate, in human units.

use super::{Request, terms::Terms};
use crate::domain::{
    address::Address,
    amount::format_units,
    currency::{Catalogue, Currency, FIAT_CHAIN_DECIMALS},
    ledger::SettlementUnits,
    rate::{RATE_DECIMALS, ratio},
    rates::AppliedRate,
};
use alloy::primitives::U256;

/// Decimals of settlement units and of the payment currency of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Decimals of settlement units.
    pub settlement: u8,
    /// Of the payment currency.
    pub payment: u8,
}

impl Scale {
    /// The decimals of a settlement between two currencies, by their ids.
    pub fn of(catalogue: &Catalogue, invoice: &str, payment: &str) -> Self {
        let digits = catalogue.find(payment).map_or(0, |currency| currency.decimals);
        Self {
            settlement: if invoice == payment {
                digits
            } else {
                FIAT_CHAIN_DECIMALS
            },
            payment: digits,
        }
    }

    /// Settlement units as a human amount.
    pub fn amount(self, units: SettlementUnits) -> String {
        format_units(units, self.settlement)
    }

    /// Units of the payment currency as a human amount.
    pub fn paid(self, units: U256) -> String {
        format_units(units, self.payment)
    }

    /// Invoice units per unit of the payment currency.
    pub fn rate(self, part: CreditedPayment) -> Option<String> {
        if let Some(applied) = part.applied {
            return Some(applied.rate.to_string());
        }
        ratio(part.credited, self.settlement, part.units, self.payment, RATE_DECIMALS)
    }

    /// The fee of a payment as a human amount. `None` for zero units, and for an event without a fee receiver, because
    /// it transferred no fee.
    pub fn fee(self, units: U256, receiver: Option<Address>) -> Option<String> {
        (!units.is_zero() && receiver.is_some()).then(|| self.paid(units))
    }
}

/// The amounts of one payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditedPayment {
    /// Amount of the request that the payment settled.
    pub credited: SettlementUnits,
    /// Units of the payment currency that arrived.
    pub units: U256,
    /// The applied off-chain rate; `None` without a conversion, and for a conversion on chain.
    pub applied: Option<AppliedRate>,
}

/// Amounts of a request in its invoice currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestProgress {
    /// Paid and final.
    pub paid: String,
    /// Remaining amount.
    pub remaining: String,
    /// Amount paid beyond the requested amount, if any.
    pub excess: Option<String>,
    /// Amount seen on chain that is not final yet, if any.
    pub detected: Option<String>,
    /// Invoice units per unit of the payment currency. `None` while no rate is known. Also `None` for a request that is
    /// partly paid or paid by several payments, because each payment has its own rate.
    pub rate: Option<String>,
    /// Whether each payment is shown with its own rate. True for a converted request that is partly paid or paid by
    /// several payments.
    pub is_broken_down: bool,
    /// Whether the invoice currency counts as the US dollar.
    pub is_in_dollars: bool,
}

impl RequestProgress {
    /// The amounts of a request after its final payments. `detected` is in settlement units; `market_rate` is the
    /// current rate.
    pub fn of(
        request: &Request,
        catalogue: &Catalogue,
        first: Option<CreditedPayment>,
        detected: SettlementUnits,
        market_rate: Option<&str>,
    ) -> Self {
        let Request { terms, ledger, .. } = request;
        let Terms {
            invoice_currency,
            payment_currency,
            ..
        } = terms;
        let scale = Scale::of(catalogue, invoice_currency, payment_currency);
        let is_split = ledger.payment_count > 1 || (ledger.payment_count == 1 && !ledger.has_been_paid());
        let rate = match (is_split, terms.is_converted(), first) {
            (true, ..) => None,
            (false, false, _) => Some("1".to_owned()),
            (false, true, Some(part)) => scale.rate(part),
            (false, true, None) => market_rate.map(str::to_owned),
        };
        Self {
            paid: scale.amount(ledger.credited),
            remaining: scale.amount(ledger.remaining()),
            excess: ledger.excess().map(|units| scale.amount(units)),
            detected: (!detected.is_zero()).then(|| scale.amount(detected)),
            rate,
            is_broken_down: terms.is_converted() && is_split,
            is_in_dollars: catalogue.find(invoice_currency).is_some_and(Currency::is_dollar),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        amount::Amount,
        currency::CurrencyKind,
        ids::{PlatformId, RequestId, RequestRowId},
        ledger::{Ledger, RequestStatus},
        network::Network,
        payment::PaymentKind,
        reference::PaymentReference,
        request::{Origin, price::PriceTerms},
    };
    use chrono::DateTime;
    use std::collections::{BTreeSet, HashMap};

    fn currency(id: &str, symbol: &str, decimals: u8, kind: CurrencyKind) -> Currency {
        let network = (kind != CurrencyKind::Fiat).then_some(Network::Sepolia);
        Currency {
            id: id.into(),
            kind,
            ..Currency::sample(symbol, decimals, network)
        }
    }

    fn catalogue() -> Catalogue {
        let currencies = vec![
            currency("USD", "USD", 2, CurrencyKind::Fiat),
            currency("EUR", "EUR", 2, CurrencyKind::Fiat),
            currency("USDC-sepolia", "USDC", 6, CurrencyKind::Erc20),
            currency("ETH-sepolia", "ETH", 18, CurrencyKind::Native),
        ];
        Catalogue::new(currencies, HashMap::new(), BTreeSet::from([Network::Sepolia]))
    }

    fn request(invoice: &str, payment: &str, ledger: Ledger) -> Request {
        let payee = Address::Evm(alloy::primitives::Address::with_last_byte(1));
        Request {
            row: RequestRowId("r".into()),
            id: RequestId("01".into()),
            salt: String::new(),
            reference: PaymentReference([0; 8]),
            origin: Origin {
                platform: PlatformId("p".into()),
                client: None,
                client_id: None,
                page: None,
                orchestrator: None,
            },
            terms: Terms {
                kind: PaymentKind::Direct,
                network: Network::Sepolia,
                payee: Some(payee),
                payer: None,
                amount: Amount::parse("10").unwrap(),
                invoice_currency: invoice.into(),
                payment_currency: payment.into(),
                token: None,
                merchant_reference: None,
                customer: None,
                recurrence: None,
                original_request_id: None,
                original_request_reference: None,
                is_crypto_to_fiat: false,
                schedule: None,
                is_quoted: false,
                price: PriceTerms::default(),
            },
            ledger,
            created_at: DateTime::UNIX_EPOCH,
            is_hidden: false,
            link_until: None,
            is_by_public_client: false,
        }
    }

    fn ledger(expected: u64, credited: u64, payment_count: u32) -> Ledger {
        Ledger {
            credited: U256::from(credited),
            payment_count,
            status: match credited {
                0 => RequestStatus::Pending,
                _ if credited >= expected => RequestStatus::Paid,
                _ => RequestStatus::PartiallyPaid,
            },
            ..Ledger::new(U256::from(expected))
        }
    }

    fn progress(invoice: &str, payment: &str, ledger: Ledger, first: Option<CreditedPayment>) -> RequestProgress {
        RequestProgress::of(
            &request(invoice, payment, ledger),
            &catalogue(),
            first,
            U256::ZERO,
            Some("3000"),
        )
    }

    /// A thousand dollars paid with half a coin.
    fn half_a_coin() -> CreditedPayment {
        CreditedPayment {
            credited: U256::from(1_000 * 10_u64.pow(8)),
            units: U256::from(5 * 10_u64.pow(17)),
            applied: None,
        }
    }

    #[test]
    fn remaining_and_excess_amounts_are_in_the_invoice_currency() {
        let part = progress("USDC-sepolia", "USDC-sepolia", ledger(10_000_000, 4_500_000, 1), None);
        assert_eq!((part.paid.as_str(), part.remaining.as_str()), ("4.5", "5.5"));
        assert_eq!((part.excess, part.rate, part.is_broken_down), (None, None, false));
        let full = progress("USDC-sepolia", "USDC-sepolia", ledger(10_000_000, 12_000_000, 1), None);
        assert_eq!((full.paid.as_str(), full.remaining.as_str()), ("12", "0"));
        assert_eq!((full.excess.as_deref(), full.rate.as_deref()), (Some("2"), Some("1")));
        assert_eq!(full.detected, None);
    }

    #[test]
    fn the_shown_rate_is_current_then_that_of_the_payment_or_each_part() {
        let expected = 1_000 * 10_u64.pow(8);
        let before = progress("USD", "ETH-sepolia", ledger(expected, 0, 0), None);
        assert_eq!((before.rate.as_deref(), before.is_broken_down), (Some("3000"), false));
        let paid = progress("USD", "ETH-sepolia", ledger(expected, expected, 1), Some(half_a_coin()));
        assert_eq!((paid.rate.as_deref(), paid.is_broken_down), (Some("2000"), false));
        for (credited, count) in [(expected / 2, 1), (expected, 2)] {
            let split = progress(
                "USD",
                "ETH-sepolia",
                ledger(expected, credited, count),
                Some(half_a_coin()),
            );
            assert_eq!((split.rate, split.is_broken_down), (None, true));
        }
    }

    #[test]
    fn only_dollars_and_dollar_tokens_count_as_dollars() {
        for (invoice, is_in_dollars) in [
            ("USD", true),
            ("USDC-sepolia", true),
            ("EUR", false),
            ("ETH-sepolia", false),
            ("gone", false),
        ] {
            let shown = progress(invoice, "ETH-sepolia", ledger(1, 0, 0), None);
            assert_eq!(shown.is_in_dollars, is_in_dollars, "{invoice}");
        }
        assert!(!currency("DAI", "DAI", 18, CurrencyKind::Native).is_dollar());
    }

    #[test]
    fn a_fee_without_a_receiver_is_absent() {
        let scale = Scale::of(&catalogue(), "USD", "USDC-sepolia");
        assert_eq!((scale.settlement, scale.payment), (FIAT_CHAIN_DECIMALS, 6));
        let receiver = Some(Address::Evm(alloy::primitives::Address::with_last_byte(2)));
        assert_eq!(scale.fee(U256::from(250_000), receiver).as_deref(), Some("0.25"));
        assert_eq!(scale.fee(U256::from(250_000), None), None);
        assert_eq!(scale.fee(U256::ZERO, receiver), None);
    }
}
