//! Bodies of payments, and the customers and fees that requests show too.

use crate::{
    domain::{payment::PaymentKind, request::terms},
    http::forms::{
        null::OrNull,
        paging::Page,
        wire::{
            AmountText, Instant, MerchantReference, NetworkText, ReferenceText, RequestIdText, SymbolText, TxHash,
            UlidText, WalletText,
        },
        words::words,
    },
};
use poem_openapi::{Enum, Object, types::Email};

words! {
    /// Kind of a payment
    PaymentKind as "PaymentType";
}

/// Postal address of a customer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CustomerAddress {
    /// Street and number. Example: `1 Main Street`
    #[oai(validator(max_length = 255))]
    pub street: Option<String>,
    /// City. Example: `London`
    #[oai(validator(max_length = 100))]
    pub city: Option<String>,
    /// State or region. Example: `Greater London`
    #[oai(validator(max_length = 100))]
    pub state: Option<String>,
    /// Postal code. Example: `SW1A 1AA`
    #[oai(validator(max_length = 20))]
    pub postal_code: Option<String>,
    /// Country, two letters. Example: `GB`
    #[oai(validator(min_length = 2, max_length = 2))]
    pub country: Option<String>,
}

/// Who the customer is, for receipts.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CustomerInfo {
    /// Given name. Example: `Ada`
    #[oai(validator(min_length = 1, max_length = 100))]
    pub first_name: Option<String>,
    /// Family name. Example: `Lovelace`
    #[oai(validator(min_length = 1, max_length = 100))]
    pub last_name: Option<String>,
    /// E-mail address. Example: `ada@example.com`
    #[oai(validator(max_length = 255))]
    pub email: Option<Email>,
    /// Postal address
    pub address: Option<CustomerAddress>,
}

/// Kind of a fee
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "kebab-case")]
pub enum FeeType {
    /// Network fee
    Gas,
    /// Fee of the platform
    Platform,
    /// Fee of a bridge
    Crosschain,
    /// Fee of a conversion to a bank account
    CryptoToFiat,
    /// Fee of an off-ramp
    Offramp,
}

/// Where the rate of one payment comes from
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum PaymentRateSource {
    /// Bridge
    Lifi,
    /// On-chain price feeds
    Chainlink,
    /// Rate service
    Coingecko,
    /// Not known
    Unknown,
}

/// Where in the flow of the money a fee was charged
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum FeeStage {
    /// On the way from the payer
    Sending,
    /// On the way to the payee
    Receiving,
    /// In the payment contract
    Proxying,
    /// On the way back
    Refunding,
}

/// Fee of a payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Fee {
    /// Kind
    #[oai(rename = "type")]
    pub kind: FeeType,
    /// Where it was charged
    pub stage: FeeStage,
    /// Who charged it. Example: `service-network`
    #[oai(validator(max_length = 64))]
    pub provider: String,
    /// Amount in the currency of the fee, human units. Example: `0.25`
    pub amount: AmountText,
    /// The same in US dollars; absent when the currency has no dollar price here. Example: `0.25`
    #[oai(rename = "amountInUSD")]
    pub amount_in_usd: Option<AmountText>,
    /// Symbol of the currency
    pub currency: SymbolText,
    /// Receiver
    pub receiver_address: Option<WalletText>,
    /// Network on which it was charged
    pub network: NetworkText,
    /// Where the dollar price comes from. Example: `unknown`
    #[oai(validator(max_length = 32))]
    pub rate_provider: String,
}

/// The request that a payment settles.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentRequestSummary {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Reference that its payments carry on chain
    pub payment_reference: ReferenceText,
    /// Whether the whole amount has arrived. Example: `true`
    pub has_been_paid: bool,
    /// Customer as given at creation
    pub customer_info: OrNull<CustomerInfo>,
    /// Your own reference
    pub reference: OrNull<MerchantReference>,
}

/// A settled payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Payment {
    /// Id of the payment
    pub id: UlidText,
    /// Amount that it settles, in the invoice currency, human units
    pub amount: AmountText,
    /// Network it was paid on
    pub source_network: NetworkText,
    /// Network it was received on
    pub destination_network: NetworkText,
    /// Transaction on the source network
    pub source_tx_hash: OrNull<TxHash>,
    /// Transaction on the destination network
    pub destination_tx_hash: OrNull<TxHash>,
    /// Time of its block
    pub timestamp: Instant,
    /// Kind
    #[oai(rename = "type")]
    pub kind: PaymentKind,
    /// Invoice units for one unit of the payment currency, where it was paid; null when nothing was converted. Example: `0.9997`
    pub conversion_rate_source: OrNull<AmountText>,
    /// The same where it was received. Example: `0.9997`
    pub conversion_rate_destination: OrNull<AmountText>,
    /// Amount in the payment currency, where it was paid; null when nothing was converted. Example: `10.503`
    pub converted_amount_source: OrNull<AmountText>,
    /// The same where it was received. Example: `10.503`
    pub converted_amount_destination: OrNull<AmountText>,
    /// Symbol of the invoice currency
    pub currency: SymbolText,
    /// Symbol of the payment currency
    pub payment_currency: SymbolText,
    /// Fees that were paid with it
    #[oai(validator(max_items = 16))]
    pub fees: OrNull<Vec<Fee>>,
    /// Schedule that it belongs to
    pub recurring_payment_id: OrNull<UlidText>,
    /// Where the rate comes from; null when nothing was converted
    pub rate_provider: OrNull<PaymentRateSource>,
    /// The request that it settles; absent inside that request
    pub request: Option<PaymentRequestSummary>,
}

/// One page of payments, newest first.
#[derive(Debug, Clone, Object)]
pub struct PaymentSearchResult {
    /// The payments
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// Where the page lies
    pub pagination: Page,
}

impl From<CustomerInfo> for terms::CustomerInfo {
    fn from(info: CustomerInfo) -> Self {
        Self {
            first_name: info.first_name,
            last_name: info.last_name,
            email: info.email.map(|email| email.0),
            address: info.address.map(|address| terms::CustomerAddress {
                street: address.street,
                city: address.city,
                state: address.state,
                postal_code: address.postal_code,
                country: address.country,
            }),
        }
    }
}

impl From<terms::CustomerInfo> for CustomerInfo {
    fn from(info: terms::CustomerInfo) -> Self {
        Self {
            first_name: info.first_name,
            last_name: info.last_name,
            email: info.email.map(Email),
            address: info.address.map(|address| CustomerAddress {
                street: address.street,
                city: address.city,
                state: address.state,
                postal_code: address.postal_code,
                country: address.country,
            }),
        }
    }
}
