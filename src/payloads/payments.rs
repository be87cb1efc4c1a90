//! Bodies of the payment events.

use super::{forms::ProcessorNames, pattern, placeholders as sample};
use crate::domain::{
    network::Network,
    payment::{PayerAccess, ReversalReason},
    request::terms::CustomerInfo,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The whole expected amount has arrived and is final.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentConfirmed {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.confirmed"], "examples" = ["payment.confirmed"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
    /// Who created the request.
    #[serde(flatten)]
    pub creator: Creator,
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
    /// Who created the request.
    #[serde(flatten)]
    pub creator: Creator,
}

/// A credited payment left the chain; the totals of its request were computed again without it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentReversedBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.reversed"], "examples" = ["payment.reversed"]))]
    pub event: &'static str,
    /// Id of the payment, as in a search of payments.
    #[schemars(length(max = 26), regex(pattern = pattern::ULID), extend("examples" = [sample::PAYMENT_ID]))]
    pub payment_id: String,
    /// Why the payment was reversed: the chain reorganised below a final block, or a comparison with the chain did not
    /// find the payment.
    #[schemars(with = "ReversalReason")]
    pub reason: &'static str,
    /// The reversed payment. The totals of its request exclude it.
    #[serde(flatten)]
    pub payment: PaymentBody,
    /// Who created the request.
    #[serde(flatten)]
    pub creator: Creator,
}

/// The variant of `payment.confirmed` for a client ID.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentConfirmedClientId {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.confirmed.client_id"], "examples" = ["payment.confirmed.client_id"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
    /// Who created the request.
    #[serde(flatten)]
    pub scope: ClientIdScope,
}

/// The variant of `payment.partial` for a client ID.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentPartialClientId {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.partial.client_id"], "examples" = ["payment.partial.client_id"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
    /// Who created the request.
    #[serde(flatten)]
    pub scope: ClientIdScope,
}

/// The variant of `payment.confirmed` for a secure payment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentConfirmedCheckout {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.confirmed.checkout"], "examples" = ["payment.confirmed.checkout"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
    /// Secure payment that created the request.
    #[serde(flatten)]
    pub scope: CheckoutScope,
}

/// The variant of `payment.partial` for a secure payment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PaymentPartialCheckout {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.partial.checkout"], "examples" = ["payment.partial.checkout"]))]
    pub event: &'static str,
    /// Facts of the payment.
    #[serde(flatten)]
    pub payment: PaymentBody,
    /// Secure payment that created the request.
    #[serde(flatten)]
    pub scope: CheckoutScope,
}

/// Creator of a request; both fields can be absent.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Creator {
    /// Client ID that created the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 64), regex(pattern = pattern::CLIENT_ID), extend("examples" = [sample::CLIENT_ID]))]
    pub client_id: Option<String>,
    /// Origin of the page that created the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 2048), extend("examples" = [sample::ORIGIN]))]
    pub origin: Option<String>,
}

/// Client ID that created a request.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientIdScope {
    /// Client ID that created the request.
    #[schemars(length(max = 64), regex(pattern = pattern::CLIENT_ID), extend("examples" = [sample::CLIENT_ID]))]
    pub client_id: String,
    /// Origin of the page that created the request; null if no page did.
    #[schemars(length(max = 2048), extend("examples" = [sample::ORIGIN]))]
    pub origin: Option<String>,
}

/// Secure payment that created a request.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutScope {
    /// Token of the secure payment; null for an endpoint that is not approved.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = [sample::SECURE_PAYMENT_TOKEN]))]
    pub secure_payment_token: Option<String>,
    /// Client ID that created the secure payment; null when an API key did.
    #[schemars(length(max = 64), regex(pattern = pattern::CLIENT_ID), extend("examples" = [sample::CLIENT_ID]))]
    pub client_id: Option<String>,
    /// Origin of the page that created the secure payment; null if no page did.
    #[schemars(length(max = 2048), extend("examples" = [sample::ORIGIN]))]
    pub origin: Option<String>,
}

/// Common fields of all payment events.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentBody {
    /// Id of the paid request.
    #[schemars(
        length(max = 66), regex(pattern = pattern::REQUEST_ID),
        extend("examples" = [sample::REQUEST_ID])
    )]
    pub request_id: String,
    /// The same value as requestId, under the older name.
    #[serde(rename = "requestID")]
    #[schemars(
        length(max = 66), regex(pattern = pattern::REQUEST_ID),
        extend("examples" = [sample::REQUEST_ID])
    )]
    pub request_id_upper: String,
    /// Reference that the payment carries on chain.
    #[schemars(length(max = 18), regex(pattern = pattern::REFERENCE), extend("examples" = [sample::REFERENCE]))]
    pub payment_reference: String,
    /// Page of a public explorer that shows the transaction.
    #[schemars(
        length(max = 2048),
        extend("format" = "uri", "examples" = [
            Network::Base.explorer_url(sample::TX_HASH)
        ])
    )]
    pub explorer: String,
    /// Amount that this payment settles, in the invoice currency.
    #[schemars(length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["100.5"]))]
    pub amount: String,
    /// Amount that all payments of the request settle so far, in the invoice currency.
    #[schemars(length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["100.5"]))]
    pub total_amount_paid: String,
    /// Amount due to the payee, in the invoice currency: the amount of the request without a fee that the payee bears.
    #[schemars(length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["100.5"]))]
    pub expected_amount: String,
    /// Time of the block that holds the payment.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Transaction of the payment.
    #[schemars(
        length(max = 66), regex(pattern = pattern::TX_HASH),
        extend("examples" = [sample::TX_HASH])
    )]
    pub tx_hash: String,
    /// Wallet that the money came from; null if the chain does not show it, and for an endpoint that is not approved.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYER]))]
    pub payer_address: Option<String>,
    /// Account of the person who paid; differs from payerAddress when a smart account paid. Null if unknown, and for an endpoint that is not approved.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYER]))]
    pub payer_eoa_address: Option<String>,
    /// Network of the payment.
    #[schemars(length(max = 32), regex(pattern = pattern::NETWORK), extend("examples" = ["base"]))]
    pub network: String,
    /// Symbol of the invoice currency.
    #[schemars(length(max = 64), regex(pattern = pattern::CURRENCY), extend("examples" = ["USDC"]))]
    pub currency: String,
    /// Symbol of the currency that was paid.
    #[schemars(length(max = 64), regex(pattern = pattern::CURRENCY), extend("examples" = ["USDC"]))]
    pub payment_currency: String,
    /// Whether the payment is paid out to a bank account.
    #[schemars(extend("examples" = [false]))]
    pub is_crypto_to_fiat: bool,
    /// Status of the payout to a bank account; empty for payments that stay on chain.
    #[schemars(length(max = 64), regex(pattern = pattern::CODE), extend("examples" = [""]))]
    pub sub_status: String,
    /// Part of the service that recognised the payment.
    #[schemars(length(max = 64), extend("examples" = ["service-network"]))]
    pub payment_processor: String,
    /// Fees that were paid with the payment.
    #[schemars(length(max = 16))]
    pub fees: Vec<EventFee>,
    /// Wallet that was paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYEE]))]
    pub payee: Option<String>,
    /// Customer, as given when the request was created; null for an endpoint that is not approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{ "firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.com" }]))]
    pub customer_info: Option<EventCustomer>,
    /// Reference of the merchant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 255), extend("examples" = ["order-1042"]))]
    pub reference: Option<String>,
    /// The recurring payment that executed this payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventRecurringPayment")]
    pub recurring_payment: Option<EventRecurringPayment>,
    /// Units of the invoice currency per unit of the payment currency, if the payment was converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["0.99985"]))]
    pub conversion_rate: Option<String>,
    /// The same rate as conversionRate, on the payer's side.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["0.99985"]))]
    pub conversion_rate_source: Option<String>,
    /// The same rate as conversionRate, on the payee's side.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["0.99985"]))]
    pub conversion_rate_destination: Option<String>,
    /// Amount that was paid, in the payment currency, if the payment was converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["100.515077"]))]
    pub converted_amount_source: Option<String>,
    /// The same amount as convertedAmountSource, on the payee's side.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["100.515077"]))]
    pub converted_amount_destination: Option<String>,
    /// Source of the rate: `chainlink` for price feeds on chain, `coingecko`, or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 64), extend("examples" = ["chainlink"]))]
    pub rate_provider: Option<String>,
    /// Amount paid beyond the expected amount, in the invoice currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["0.5"]))]
    pub excess_amount: Option<String>,
    /// How much of the required fees the payment did not pay, in the invoice currency. `amount` does not contain the fees, so the payment is credited with the whole `amount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["0.25"]))]
    pub fee_shortfall: Option<String>,
    /// Only for payments of a link that has an allow list or requires screening: `ok`, or the check that the payer fails. `unknown` while the payer is not screened, or if the chain does not show who paid. The money is credited in any case. Null for an endpoint that is not approved. Added by this service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PayerAccess>", extend("examples" = ["ok"]))]
    pub payer_access: Option<&'static str>,
}

/// A fee of a payment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventFee {
    /// What the fee is for.
    #[schemars(length(max = 32), extend("examples" = ["platform"]))]
    pub r#type: String,
    /// Amount in human units.
    #[schemars(length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["0.25"]))]
    pub amount: String,
    /// Symbol of its currency.
    #[schemars(length(max = 64), regex(pattern = pattern::CURRENCY), extend("examples" = ["USDC"]))]
    pub currency: String,
}

/// A recurring payment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EventRecurringPayment {
    /// Id of the recurring payment.
    #[schemars(length(max = 64), extend("examples" = ["01JZX6B2CD3E4F5G6H7J8K9MNP"]))]
    pub id: String,
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

/// The facts of a test delivery about a full payment.
pub(super) fn whole_sample(names: &ProcessorNames) -> PaymentBody {
    PaymentBody {
        request_id: sample::REQUEST_ID.to_owned(),
        request_id_upper: sample::REQUEST_ID.to_owned(),
        payment_reference: sample::REFERENCE.to_owned(),
        explorer: Network::Base.explorer_url(sample::TX_HASH),
        amount: "100.5".to_owned(),
        total_amount_paid: "100.5".to_owned(),
        expected_amount: "100.5".to_owned(),
        timestamp: sample::TIME.to_owned(),
        tx_hash: sample::TX_HASH.to_owned(),
        payer_address: Some(sample::PAYER.to_owned()),
        payer_eoa_address: Some(sample::PAYER.to_owned()),
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
        payee: Some(sample::PAYEE.to_owned()),
        customer_info: None,
        reference: Some("order-1042".to_owned()),
        recurring_payment: None,
        conversion_rate: None,
        conversion_rate_source: None,
        conversion_rate_destination: None,
        converted_amount_source: None,
        converted_amount_destination: None,
        rate_provider: None,
        excess_amount: None,
        fee_shortfall: None,
        payer_access: None,
    }
}

/// The facts of a test delivery about a partial payment.
pub(super) fn part_sample(names: &ProcessorNames) -> PaymentBody {
    PaymentBody {
        amount: "40".to_owned(),
        total_amount_paid: "40".to_owned(),
        ..whole_sample(names)
    }
}

/// A test delivery about a payment that left the chain.
pub(super) fn reversed_sample(names: &ProcessorNames) -> PaymentReversedBody {
    PaymentReversedBody {
        event: "payment.reversed",
        payment_id: sample::PAYMENT_ID.to_owned(),
        reason: ReversalReason::Reorganised.wire(),
        payment: PaymentBody {
            total_amount_paid: "0".to_owned(),
            ..whole_sample(names)
        },
        creator: creator_sample(),
    }
}

/// Creator of a test delivery: without any fields.
pub(super) fn creator_sample() -> Creator {
    Creator {
        client_id: None,
        origin: None,
    }
}

/// Client ID of a test delivery.
pub(super) fn client_id_sample() -> ClientIdScope {
    ClientIdScope {
        client_id: sample::CLIENT_ID.to_owned(),
        origin: Some(sample::ORIGIN.to_owned()),
    }
}

/// Secure payment of a test delivery.
pub(super) fn checkout_sample() -> CheckoutScope {
    CheckoutScope {
        secure_payment_token: Some(sample::SECURE_PAYMENT_TOKEN.to_owned()),
        client_id: Some(sample::CLIENT_ID.to_owned()),
        origin: Some(sample::ORIGIN.to_owned()),
    }
}
