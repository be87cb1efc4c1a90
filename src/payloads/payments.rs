//! Bodies of the payment events.

use super::Names;
use crate::domain::{
    amount::format_units,
    currency::{Catalogue, Currency},
    event::PaymentReceived,
    network::Family,
    request::{CustomerInfo, Request, Settlement},
};
use alloy::primitives::{U256, U512};
use chrono::SecondsFormat;
use schemars::JsonSchema;
use serde::Serialize;

/// Fraction digits of conversion rates.
const RATE_DECIMALS: u8 = 8;

/// The whole expected amount has arrived and is final.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentConfirmed {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.confirmed"], "examples" = ["payment.confirmed"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
}

/// A part of the expected amount has arrived and is final.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentPartial {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.partial"], "examples" = ["payment.partial"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
}

/// What both payment events tell.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentBody {
    /// The request that was paid.
    #[schemars(
        length(max = 66),
        extend("examples" = ["01e273ecc29d4b526df3a0f1f05ffc59372af8752c2b678096e49ac270416a7cdb"])
    )]
    pub request_id: String,
    /// The same value as requestId, under the older name.
    #[serde(rename = "requestID")]
    #[schemars(
        length(max = 66),
        extend("examples" = ["01e273ecc29d4b526df3a0f1f05ffc59372af8752c2b678096e49ac270416a7cdb"])
    )]
    pub request_id_upper: String,
    /// Reference that the payment carried on chain.
    #[schemars(length(max = 18), extend("examples" = ["0x9a3f5c1e7b2d4860"]))]
    pub payment_reference: String,
    /// Page of a public explorer that shows the transaction.
    #[schemars(
        length(max = 2048),
        extend("format" = "uri", "examples" = [
            "https://basescan.org/tx/0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071"
        ])
    )]
    pub explorer: String,
    /// What this payment settles, in the invoice currency.
    #[schemars(length(max = 108), extend("examples" = ["100.5"]))]
    pub amount: String,
    /// What all payments of the request settle so far, in the invoice currency.
    #[schemars(length(max = 108), extend("examples" = ["100.5"]))]
    pub total_amount_paid: String,
    /// What the request asks for, in the invoice currency.
    #[schemars(length(max = 108), extend("examples" = ["100.5"]))]
    pub expected_amount: String,
    /// Time of the block that holds the payment.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = ["2030-01-31T12:00:00.000Z"]))]
    pub timestamp: String,
    /// Transaction of the payment.
    #[schemars(
        length(max = 66),
        extend("examples" = ["0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071"])
    )]
    pub tx_hash: String,
    /// Wallet that the money came from; null when the chain does not tell.
    #[schemars(length(max = 42), extend("examples" = ["0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567"]))]
    pub payer_address: Option<String>,
    /// Account of the person who paid; differs from payerAddress when a smart account paid, null when unknown.
    #[schemars(length(max = 42), extend("examples" = ["0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567"]))]
    pub payer_eoa_address: Option<String>,
    /// Network of the payment.
    #[schemars(length(max = 32), extend("examples" = ["base"]))]
    pub network: String,
    /// Symbol of the invoice currency.
    #[schemars(length(max = 64), extend("examples" = ["USDC"]))]
    pub currency: String,
    /// Symbol of the currency that was paid.
    #[schemars(length(max = 64), extend("examples" = ["USDC"]))]
    pub payment_currency: String,
    /// Whether the money goes on to a bank account.
    #[schemars(extend("examples" = [false]))]
    pub is_crypto_to_fiat: bool,
    /// Progress of a payout to a bank account; empty for payments that stay on chain.
    #[schemars(length(max = 64), extend("examples" = [""]))]
    pub sub_status: String,
    /// Which part of the service recognised the payment.
    #[schemars(length(max = 64), extend("examples" = ["service-network"]))]
    pub payment_processor: String,
    /// Fees that were paid with it.
    #[schemars(length(max = 16))]
    pub fees: Vec<EventFee>,
    /// Client ID that created the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 64), extend("examples" = ["cli_abcdefghijklmnopqrstuvwxyz0123"]))]
    pub client_id: Option<String>,
    /// Page that created the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 2048), extend("examples" = ["https://shop.example.com"]))]
    pub origin: Option<String>,
    /// Wallet that was paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 42), extend("examples" = ["0xb07D2398d2004378cad234DA0EF14f1c94A530e4"]))]
    pub payee: Option<String>,
    /// Customer, as given when the request was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventCustomer")]
    pub customer_info: Option<EventCustomer>,
    /// Reference of the merchant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["order-1042"]))]
    pub reference: Option<String>,
    /// Units of the invoice currency for one unit of the payment currency, when the payment was converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), extend("examples" = ["0.99985"]))]
    pub conversion_rate: Option<String>,
    /// Invoice side of the conversion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), extend("examples" = ["100.5"]))]
    pub converted_amount_source: Option<String>,
    /// Payment side of the conversion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), extend("examples" = ["100.515077"]))]
    pub converted_amount_destination: Option<String>,
    /// Where the rate came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 64), extend("examples" = ["chainlink"]))]
    pub rate_provider: Option<String>,
    /// What was paid beyond the expected amount, in the invoice currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), extend("examples" = ["0.5"]))]
    pub excess_amount: Option<String>,
}

/// A fee of a payment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventFee {
    /// What the fee is for.
    #[schemars(length(max = 32), extend("examples" = ["platform"]))]
    pub r#type: String,
    /// Amount in human units.
    #[schemars(length(max = 108), extend("examples" = ["0.25"]))]
    pub amount: String,
    /// Symbol of its currency.
    #[schemars(length(max = 64), extend("examples" = ["USDC"]))]
    pub currency: String,
}

/// A customer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventCustomer {
    /// Given name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["Ada"]))]
    pub first_name: Option<String>,
    /// Family name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["Lovelace"]))]
    pub last_name: Option<String>,
    /// E-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 320), extend("examples" = ["ada@example.com"]))]
    pub email: Option<String>,
    /// Postal address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventAddress")]
    pub address: Option<EventAddress>,
}

/// A postal address.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventAddress {
    /// Street and number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["12 St James's Square"]))]
    pub street: Option<String>,
    /// City.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["London"]))]
    pub city: Option<String>,
    /// State or region.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["England"]))]
    pub state: Option<String>,
    /// Postal code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 32), extend("examples" = ["SW1Y 4JH"]))]
    pub postal_code: Option<String>,
    /// Country, two letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 2), extend("examples" = ["GB"]))]
    pub country: Option<String>,
}

impl From<&CustomerInfo> for EventCustomer {
    fn from(customer: &CustomerInfo) -> Self {
        Self {
            first_name: customer.first_name.clone(),
            last_name: customer.last_name.clone(),
            email: customer.email.clone(),
            address: customer.address.as_ref().map(|address| EventAddress {
                street: address.street.clone(),
                city: address.city.clone(),
                state: address.state.clone(),
                postal_code: address.postal_code.clone(),
                country: address.country.clone(),
            }),
        }
    }
}

/// The body of a payment event.
pub(super) fn body(received: &PaymentReceived, catalogue: &Catalogue, names: &Names) -> String {
    let payment = facts(received, catalogue, names);
    match received.settlement {
        Settlement::Confirmed => super::render(&PaymentConfirmed {
            event: "payment.confirmed",
            payment,
        }),
        Settlement::Partial => super::render(&PaymentPartial {
            event: "payment.partial",
            payment,
        }),
    }
}

fn facts(received: &PaymentReceived, catalogue: &Catalogue, names: &Names) -> PaymentBody {
    let PaymentReceived { request, payment, .. } = received;
    let (observed, proven) = (&payment.observed, &payment.proven);
    let invoice = catalogue.find(&request.invoice_currency);
    let paid_in = catalogue.find(&request.payment_currency);
    let tx_hash = observed.tx_hash.to_string();
    let explored = match observed.network.family() {
        Family::Evm => tx_hash.as_str(),
        Family::Tron => tx_hash.trim_start_matches("0x"),
    };
    let paid_decimals = paid_in.map_or(0, |currency| currency.decimals);
    let settled_decimals = paid_in.map_or(0, |currency| request.settlement_decimals(currency));
    let settled = |units| format_units(units, settled_decimals);
    let is_converted = request.is_converted();
    PaymentBody {
        request_id: request.id.to_string(),
        request_id_upper: request.id.to_string(),
        payment_reference: request.reference.to_string(),
        explorer: observed.network.explorer_url(explored),
        amount: settled(payment.credited),
        total_amount_paid: settled(request.credited),
        expected_amount: settled(request.expected),
        timestamp: payment.at.to_rfc3339_opts(SecondsFormat::Millis, true),
        tx_hash,
        payer_address: proven.payer.map(|payer| payer.to_string()),
        payer_eoa_address: proven.payer_eoa.map(|payer| payer.to_string()),
        network: observed.network.id().to_owned(),
        currency: symbol(invoice, &request.invoice_currency),
        payment_currency: symbol(paid_in, &request.payment_currency),
        is_crypto_to_fiat: request.is_crypto_to_fiat,
        sub_status: String::new(),
        payment_processor: names.processor_crypto.clone(),
        fees: fees(received, paid_in, paid_decimals),
        client_id: request.client_id.clone(),
        origin: request.origin.clone(),
        payee: Some(request.payee.to_string()),
        customer_info: request.customer.as_ref().map(EventCustomer::from),
        reference: request.merchant_reference.clone(),
        conversion_rate: is_converted
            .then(|| rate(payment.credited, settled_decimals, proven.received_units, paid_decimals))
            .flatten(),
        converted_amount_source: is_converted.then(|| settled(payment.credited)),
        converted_amount_destination: is_converted.then(|| format_units(proven.received_units, paid_decimals)),
        rate_provider: is_converted.then(|| "chainlink".to_owned()),
        excess_amount: excess(request, settled_decimals),
    }
}

fn symbol(currency: Option<&Currency>, id: &str) -> String {
    currency.map_or_else(|| id.to_owned(), |currency| currency.symbol.clone())
}

fn fees(received: &PaymentReceived, paid_in: Option<&Currency>, decimals: u8) -> Vec<EventFee> {
    let units = received.payment.observed.fee_units;
    if units.is_zero() {
        return Vec::new();
    }
    vec![EventFee {
        r#type: "platform".to_owned(),
        amount: format_units(units, decimals),
        currency: symbol(paid_in, &received.request.payment_currency),
    }]
}

fn excess(request: &Request, decimals: u8) -> Option<String> {
    let units = request.credited.checked_sub(request.expected)?;
    (!units.is_zero()).then(|| format_units(units, decimals))
}

/// Invoice units for one unit of the payment currency, rounded down; `None` when nothing was received.
fn rate(invoice_units: U256, invoice_decimals: u8, paid_units: U256, paid_decimals: u8) -> Option<String> {
    let power = |decimals: u8| U512::from(10).checked_pow(U512::from(decimals));
    let numerator = U512::from(invoice_units).checked_mul(power(paid_decimals.checked_add(RATE_DECIMALS)?)?)?;
    let denominator = U512::from(paid_units).checked_mul(power(invoice_decimals)?)?;
    let scaled = numerator.checked_div(denominator)?;
    let units = U256::checked_from_limbs_slice(scaled.as_limbs())?;
    Some(format_units(units, RATE_DECIMALS))
}

/// The facts of a test delivery.
pub(super) fn sample(names: &Names) -> PaymentBody {
    let request_id = "01e273ecc29d4b526df3a0f1f05ffc59372af8752c2b678096e49ac270416a7cdb".to_owned();
    let tx_hash = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071".to_owned();
    let payer = "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567".to_owned();
    PaymentBody {
        request_id: request_id.clone(),
        request_id_upper: request_id,
        payment_reference: "0x9a3f5c1e7b2d4860".to_owned(),
        explorer: crate::domain::network::Network::Base.explorer_url(&tx_hash),
        amount: "100.5".to_owned(),
        total_amount_paid: "100.5".to_owned(),
        expected_amount: "100.5".to_owned(),
        timestamp: "2030-01-31T12:00:00.000Z".to_owned(),
        tx_hash,
        payer_address: Some(payer.clone()),
        payer_eoa_address: Some(payer),
        network: "base".to_owned(),
        currency: "USDC".to_owned(),
        payment_currency: "USDC".to_owned(),
        is_crypto_to_fiat: false,
        sub_status: String::new(),
        payment_processor: names.processor_crypto.clone(),
        fees: vec![EventFee {
            r#type: "platform".to_owned(),
            amount: "0.25".to_owned(),
            currency: "USDC".to_owned(),
        }],
        client_id: None,
        origin: None,
        payee: Some("0xb07D2398d2004378cad234DA0EF14f1c94A530e4".to_owned()),
        customer_info: None,
        reference: Some("order-1042".to_owned()),
        conversion_rate: None,
        converted_amount_source: None,
        converted_amount_destination: None,
        rate_provider: None,
        excess_amount: None,
    }
}
