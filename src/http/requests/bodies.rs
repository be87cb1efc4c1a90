//! Bodies of the operations on requests, and how they become what flows take and give.

use crate::{
    domain::{
        calldata, ledger,
        request::{self, plan::NewRequest, terms},
    },
    http::{
        forms::{
            null::OrNull,
            paging::Page,
            wire::{AmountText, CurrencyIdText, Instant, MerchantReference, WalletText},
        },
        payments::Payment,
    },
};
use poem_openapi::{
    Enum, Object, Union,
    types::{Email, Example},
};

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

/// How often a recurring request repeats: daily, weekly, monthly, yearly
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "UPPERCASE")]
pub enum RecurrenceFrequency {
    /// Every day
    Daily,
    /// Every week
    Weekly,
    /// Every month
    Monthly,
    /// Every year
    Yearly,
}

/// Repetition of a request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Recurrence {
    /// First due day, today or later. Example: `2030-01-01`
    #[oai(validator(max_length = 32))]
    pub start_date: String,
    /// Period
    pub frequency: RecurrenceFrequency,
}

/// A new payment request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateRequestBody {
    /// Wallet that is expected to pay; for the record only
    pub payer: Option<WalletText>,
    /// Wallet that is paid, on the network of `paymentCurrency`; required for payments on chain
    pub payee: Option<WalletText>,
    /// Amount in the invoice currency, human units
    pub amount: AmountText,
    /// Currency that the amount is written in
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in
    pub payment_currency: CurrencyIdText,
    /// Makes it a recurring request
    pub recurrence: Option<Recurrence>,
    /// Whether the payment is paid out to a bank account. Example: `false`
    pub is_crypto_to_fiat_available: Option<bool>,
    /// Customer, for receipts and search
    pub customer_info: Option<CustomerInfo>,
    /// Your own reference, found again by payment search
    pub reference: Option<MerchantReference>,
    /// Request that this one was generated from. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(min_length = 1, max_length = 255))]
    pub original_request_id: Option<String>,
    /// Reference of that request. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(min_length = 1, max_length = 255))]
    pub original_request_payment_reference: Option<String>,
}

impl Example for CreateRequestBody {
    /// What most callers send; it works as it stands on a service with Sepolia.
    fn example() -> Self {
        Self {
            payer: None,
            payee: Some(WalletText::written(WalletText::EXAMPLE)),
            amount: AmountText::written(AmountText::EXAMPLE),
            invoice_currency: CurrencyIdText::written(CurrencyIdText::EXAMPLE),
            payment_currency: CurrencyIdText::written(CurrencyIdText::EXAMPLE),
            recurrence: None,
            is_crypto_to_fiat_available: None,
            customer_info: None,
            reference: Some(MerchantReference::written(MerchantReference::EXAMPLE)),
            original_request_id: None,
            original_request_payment_reference: None,
        }
    }
}

/// The identifiers of a new request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestCreated {
    /// Reference that its payments carry on chain. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 18))]
    pub payment_reference: String,
    /// Id for all other operations. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 66))]
    pub request_id: String,
}

/// State of a request
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum RequestStatus {
    /// Nothing final has arrived
    Pending,
    /// Less than the expected total has arrived
    PartiallyPaid,
    /// Money is on its way through a bridge or a bank
    Processing,
    /// The expected total has arrived
    Paid,
    /// Execution failed
    Failed,
    /// Money went back to the payer
    Refunded,
    /// Withdrawn
    Cancelled,
}

/// Where a conversion rate comes from; `mixed` when several sources contributed
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum RateSource {
    /// Bridge
    Lifi,
    /// On-chain price feeds
    Chainlink,
    /// Rate service
    Coingecko,
    /// Not known
    Unknown,
    /// Several sources
    Mixed,
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

/// One payment of a converted request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConvertedPayment {
    /// Amount in the invoice currency. Example: `10`
    #[oai(validator(max_length = 110))]
    pub amount: String,
    /// The same in US dollars, when the invoice currency is the dollar. Example: `10`
    #[oai(validator(max_length = 110))]
    pub amount_in_usd: Option<String>,
    /// Invoice units for one unit of the payment currency. Example: `0.9997`
    #[oai(validator(max_length = 110))]
    pub conversion_rate: Option<String>,
    /// Where the rate comes from
    pub rate_source: PaymentRateSource,
    /// Time of the payment. Example: `2026-01-31T12:00:00.000Z`
    #[oai(validator(max_length = 32))]
    pub timestamp: String,
}

/// What was paid and what is left of a converted request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConversionBreakdown {
    /// Paid so far, in the invoice currency. Example: `10`
    #[oai(validator(max_length = 110))]
    pub paid_amount: String,
    /// The same in US dollars, when the invoice currency is the dollar. Example: `10`
    #[oai(validator(max_length = 110))]
    pub paid_amount_in_usd: Option<String>,
    /// Still to be paid, in the invoice currency. Example: `90`
    #[oai(validator(max_length = 110))]
    pub remaining_amount: String,
    /// The same in US dollars, when the invoice currency is the dollar. Example: `90`
    #[oai(validator(max_length = 110))]
    pub remaining_amount_in_usd: Option<String>,
    /// Invoice units for one unit of the payment currency now; null once paid, and while no node answers. Example: `0.9997`
    #[oai(validator(max_length = 110))]
    pub current_market_rate: OrNull<String>,
    /// Where that rate comes from
    pub current_market_rate_source: OrNull<PaymentRateSource>,
    /// The payments so far
    #[oai(validator(max_items = 10000))]
    pub payments: Vec<ConvertedPayment>,
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

/// Fee that was paid with a request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestFee {
    /// Kind
    #[oai(rename = "type")]
    pub kind: FeeType,
    /// Who charged it. Example: `service-network`
    #[oai(validator(max_length = 64))]
    pub provider: String,
    /// Amount in the currency of the fee, human units. Example: `0.25`
    #[oai(validator(max_length = 110))]
    pub amount: String,
    /// Symbol of that currency. Example: `USDC`
    #[oai(validator(max_length = 32))]
    pub currency: String,
}

/// A payment request and what happened to it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RequestStatusView {
    /// Whether the whole amount has arrived and is final. Example: `true`
    pub has_been_paid: bool,
    /// Reference that its payments carry on chain. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 18))]
    pub payment_reference: String,
    /// Id of the request. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 66))]
    pub request_id: String,
    /// Whether calldata was issued and the payment is awaited. Example: `false`
    pub is_listening: bool,
    /// Transaction that completed it; null before. Example: `0x5d5b1f0cbe0f9ee0d1f4f2b7c8c1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3`
    #[oai(validator(max_length = 66))]
    pub tx_hash: OrNull<String>,
    /// Repetition; absent for a single request
    pub recurrence: Option<Recurrence>,
    /// Request that this one was generated from; absent when there is none. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 255))]
    pub original_request_id: Option<String>,
    /// State
    pub status: RequestStatus,
    /// Whether the payment is paid out to a bank account. Example: `false`
    pub is_crypto_to_fiat_available: bool,
    /// Reference of the request that this one was generated from. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 255))]
    pub original_request_payment_reference: Option<String>,
    /// Final payments, oldest first
    #[oai(validator(max_items = 10000))]
    pub payments: Vec<Payment>,
    /// Whether the repetition is stopped. Example: `false`
    pub is_recurrence_stopped: bool,
    /// Customer as given at creation
    pub customer_info: OrNull<CustomerInfo>,
    /// Your own reference. Example: `INV-1042`
    #[oai(validator(max_length = 255))]
    pub reference: OrNull<String>,
    /// Requested amount in US dollars; null when the currency has no dollar price here. Example: `10.5`
    #[oai(validator(max_length = 110))]
    pub amount_in_usd: OrNull<String>,
    /// Invoice units for one unit of the payment currency; null when partly paid or paid by several payments. Example: `1`
    #[oai(validator(max_length = 110))]
    pub conversion_rate: OrNull<String>,
    /// Where the rate comes from; absent when nothing is converted
    pub rate_source: Option<RateSource>,
    /// Progress of a converted request that is partly paid or paid by several payments
    pub conversion_breakdown: OrNull<ConversionBreakdown>,
    /// Fees that were paid with it; empty while nothing is paid
    #[oai(validator(max_items = 10000))]
    pub fees: OrNull<Vec<RequestFee>>,
    /// Wallet that is paid. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub payee: String,
    /// Requested amount in the invoice currency. Example: `10.5`
    #[oai(validator(max_length = 110))]
    pub request_amount: String,
    /// Id of the invoice currency. Example: `USDC-sepolia`
    #[oai(validator(max_length = 64))]
    pub invoice_currency: String,
    /// Id of the payment currency. Example: `USDC-sepolia`
    #[oai(validator(max_length = 64))]
    pub payment_currency: String,
    /// Paid so far and final, in the invoice currency. Example: `10.5`
    #[oai(validator(max_length = 110))]
    pub paid_amount: String,
    /// Paid beyond the requested amount; absent when nothing is. Example: `0.5`
    #[oai(validator(max_length = 110))]
    pub excess_amount: Option<String>,
    /// Seen on chain and not final yet; absent when nothing is. Example: `10.5`
    #[oai(validator(max_length = 110))]
    pub detected_amount: Option<String>,
    /// Account that the completing payment came from. Example: `0x27B7BcF3e8C2E2D8D2C3b1D7C8b5a4C3b2A1F0E9`
    #[oai(validator(max_length = 42))]
    pub payer_address: OrNull<String>,
    /// Externally owned account behind it, when it is known. Example: `0x27B7BcF3e8C2E2D8D2C3b1D7C8b5a4C3b2A1F0E9`
    #[oai(validator(max_length = 42))]
    pub payer_eoa_address: OrNull<String>,
    /// Time of creation
    pub created_at: Instant,
}

/// A request in a list.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestSummaryRow {
    /// Id of the request. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 66))]
    pub request_id: String,
    /// Reference that its payments carry on chain. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 18))]
    pub payment_reference: String,
    /// Requested amount. Example: `10.5`
    #[oai(validator(max_length = 110))]
    pub amount: OrNull<String>,
    /// Id of the invoice currency. Example: `USDC-sepolia`
    #[oai(validator(max_length = 64))]
    pub invoice_currency: String,
    /// Id of the payment currency. Example: `USDC-sepolia`
    #[oai(validator(max_length = 64))]
    pub payment_currency: String,
    /// Whether the whole amount has arrived. Example: `true`
    pub has_been_paid: bool,
    /// State
    pub status: OrNull<RequestStatus>,
    /// Your own reference. Example: `INV-1042`
    #[oai(validator(max_length = 255))]
    pub reference: OrNull<String>,
    /// Time of creation
    pub created_at: OrNull<Instant>,
    /// Transaction that completed it. Example: `0x5d5b1f0cbe0f9ee0d1f4f2b7c8c1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3`
    #[oai(validator(max_length = 66))]
    pub tx_hash: OrNull<String>,
    /// Wallet that is paid. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub payee: OrNull<String>,
    /// Expected payer. Example: `0x27B7BcF3e8C2E2D8D2C3b1D7C8b5a4C3b2A1F0E9`
    #[oai(validator(max_length = 42))]
    pub payer: OrNull<String>,
}

/// One page of requests, newest first.
#[derive(Debug, Clone, Object)]
pub struct RequestList {
    /// The requests
    #[oai(validator(max_items = 100))]
    pub requests: Vec<RequestSummaryRow>,
    /// Where the page lies
    pub pagination: Page,
}

/// Change of a request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct UpdateRequestBody {
    /// `true` stops the repetition, `false` resumes it. Example: `true`
    pub is_recurrence_stopped: bool,
}

/// A changed request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestUpdated {
    /// Id of the request. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 66))]
    pub request_id: String,
    /// Whether the repetition is stopped. Example: `true`
    pub is_recurrence_stopped: bool,
}

/// Marks a value as a big number
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum BigNumberType {
    /// The only value
    BigNumber,
}

/// An unsigned 256-bit number.
#[derive(Debug, Clone, Object)]
pub struct BigNumber {
    /// Always `BigNumber`
    #[oai(rename = "type")]
    pub kind: BigNumberType,
    /// The number, `0x` and an even count of hexadecimal digits. Example: `0x00`
    #[oai(validator(max_length = 66, pattern = "^0x([0-9a-f]{2})+$"))]
    pub hex: String,
}

impl From<alloy::primitives::U256> for BigNumber {
    fn from(value: alloy::primitives::U256) -> Self {
        let bytes = value.to_be_bytes_trimmed_vec();
        let bytes = if bytes.is_empty() { vec![0] } else { bytes };
        Self {
            kind: BigNumberType::BigNumber,
            hex: hex::encode_prefixed(bytes),
        }
    }
}

/// A transaction for the payer to sign and send.
#[derive(Debug, Clone, Object)]
pub struct Transaction {
    /// Encoded call. Example: `0x095ea7b3000000000000000000000000399f5ee127ce7432e4921a61b8cf52b0af52cbfeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff`
    #[oai(validator(max_length = 100000))]
    pub data: String,
    /// Contract that is called. Example: `0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238`
    #[oai(validator(max_length = 42))]
    pub to: String,
    /// Native coin that goes with it, in its smallest unit
    pub value: BigNumber,
}

/// Fee on top of the amount.
#[derive(Debug, Clone, Object)]
pub struct PlatformFee {
    /// Rate in percent. Example: `2.5`
    #[oai(validator(max_length = 6))]
    pub percentage: String,
    /// Receiver. Example: `0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7`
    #[oai(validator(max_length = 42))]
    pub address: String,
}

/// What is known about the transactions.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CalldataMetadata {
    /// Number of transactions. Example: `2`
    #[oai(validator(minimum(value = "1"), maximum(value = "100")))]
    pub steps_required: u32,
    /// Whether an approval is among them. Example: `true`
    pub needs_approval: bool,
    /// Position of the approval; null when there is none. Example: `0`
    pub approval_transaction_index: OrNull<u32>,
    /// Position of the payment, always the last. Example: `1`
    pub payment_transaction_index: u32,
    /// Whether the wallet holds the amount and the fee; true when no wallet was given. Example: `true`
    pub has_enough_balance: bool,
    /// Whether the wallet holds the network fee; true when no wallet was given. Example: `true`
    pub has_enough_gas: bool,
    /// Fee of the platform; absent when there is none
    pub platform_fee: Option<PlatformFee>,
}

/// Transactions that pay a request, in the order of their execution.
#[derive(Debug, Clone, Object)]
pub struct PaymentCalldata {
    /// Approvals first, payment last
    #[oai(validator(min_items = 1, max_items = 100))]
    pub transactions: Vec<Transaction>,
    /// What is known about them
    pub metadata: CalldataMetadata,
}

/// Approval that goes with a payment intent.
#[derive(Debug, Clone, Object)]
pub struct IntentApproval {
    /// Token. Example: `0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238`
    #[oai(validator(max_length = 42))]
    pub to: String,
    /// Encoded call. Example: `0x095ea7b3`
    #[oai(validator(max_length = 100000))]
    pub data: String,
    /// Native coin, in its smallest unit. Example: `0`
    #[oai(validator(max_length = 80))]
    pub value: String,
}

/// What is known about a payment intent.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct IntentMetadata {
    /// Whether the token takes signed approvals. Example: `true`
    #[oai(rename = "supportsEIP2612")]
    pub supports_eip2612: bool,
}

/// The older form of a crosschain answer: an intent to sign. This service answers with calldata instead; the form
/// stays in the document for clients that were generated from the reference.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PaymentIntentCalldata {
    /// Id of the intent. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 64))]
    pub payment_intent_id: String,
    /// Typed data to sign, as JSON text. Example: `{}`
    #[oai(validator(max_length = 100000))]
    pub payment_intent: String,
    /// Typed data of the approval, as JSON text. Example: `{}`
    #[oai(validator(max_length = 100000))]
    pub approval_permit_payload: OrNull<String>,
    /// Approval transaction
    pub approval_calldata: OrNull<IntentApproval>,
    /// What is known about it
    pub metadata: IntentMetadata,
}

/// What the payer needs: transactions, or in the older crosschain form an intent.
#[derive(Debug, Clone, Union)]
pub enum PayResponse {
    /// Transactions
    Calldata(PaymentCalldata),
    /// Intent
    Intent(PaymentIntentCalldata),
}

/// Source chain of a crosschain payment
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "UPPERCASE")]
pub enum SourceChain {
    /// Base
    Base,
    /// Optimism
    Optimism,
    /// Arbitrum One
    Arbitrum,
    /// Ethereum
    Ethereum,
}

/// Source token of a crosschain payment
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "UPPERCASE")]
pub enum SourceToken {
    /// USD Coin
    Usdc,
    /// Tether USD
    Usdt,
    /// Dai
    Dai,
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

impl From<ledger::RequestStatus> for RequestStatus {
    fn from(status: ledger::RequestStatus) -> Self {
        match status {
            ledger::RequestStatus::Pending => Self::Pending,
            ledger::RequestStatus::PartiallyPaid => Self::PartiallyPaid,
            ledger::RequestStatus::Processing => Self::Processing,
            ledger::RequestStatus::Paid => Self::Paid,
            ledger::RequestStatus::Failed => Self::Failed,
            ledger::RequestStatus::Refunded => Self::Refunded,
            ledger::RequestStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<terms::Recurrence> for Recurrence {
    fn from(recurrence: terms::Recurrence) -> Self {
        Self {
            start_date: recurrence.start_date,
            frequency: match recurrence.frequency {
                terms::Frequency::Daily => RecurrenceFrequency::Daily,
                terms::Frequency::Weekly => RecurrenceFrequency::Weekly,
                terms::Frequency::Monthly => RecurrenceFrequency::Monthly,
                terms::Frequency::Yearly => RecurrenceFrequency::Yearly,
            },
        }
    }
}

pub(super) fn new_request(body: CreateRequestBody) -> NewRequest {
    NewRequest {
        payee: body.payee.map(|text| text.as_str().to_owned()),
        bound: None,
        payer: body.payer.map(|text| text.as_str().to_owned()),
        amount: body.amount.as_str().to_owned(),
        invoice_currency: body.invoice_currency.as_str().to_owned(),
        payment_currency: body.payment_currency.as_str().to_owned(),
        recurrence: body.recurrence.map(|recurrence| {
            let frequency = match recurrence.frequency {
                RecurrenceFrequency::Daily => terms::Frequency::Daily,
                RecurrenceFrequency::Weekly => terms::Frequency::Weekly,
                RecurrenceFrequency::Monthly => terms::Frequency::Monthly,
                RecurrenceFrequency::Yearly => terms::Frequency::Yearly,
            };
            (recurrence.start_date, frequency.wire().to_owned())
        }),
        is_crypto_to_fiat: body.is_crypto_to_fiat_available.unwrap_or(false),
        customer: body.customer_info.map(Into::into),
        merchant_reference: body.reference.map(|text| text.as_str().to_owned()),
        original_request_id: body.original_request_id,
        original_request_reference: body.original_request_payment_reference,
    }
}

pub(super) fn created(request: &request::Request) -> RequestCreated {
    RequestCreated {
        payment_reference: request.reference.to_string(),
        request_id: request.id.to_string(),
    }
}

pub(super) fn row(request: request::Request) -> RequestSummaryRow {
    let (terms, ledger) = (request.terms, request.ledger);
    RequestSummaryRow {
        request_id: request.id.to_string(),
        payment_reference: request.reference.to_string(),
        amount: OrNull(Some(terms.amount.to_string())),
        invoice_currency: terms.invoice_currency,
        payment_currency: terms.payment_currency,
        has_been_paid: ledger.has_been_paid(),
        status: OrNull(Some(ledger.status.into())),
        reference: OrNull(terms.merchant_reference),
        created_at: OrNull(Some(Instant(request.created_at))),
        tx_hash: OrNull(ledger.tx_hash),
        payee: OrNull(Some(terms.payee.to_string())),
        payer: OrNull(terms.payer.map(|payer| payer.to_string())),
    }
}

pub(super) fn calldata(calldata: &calldata::Calldata) -> PaymentCalldata {
    // A plan has a handful of steps.
    let position = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    PaymentCalldata {
        transactions: calldata
            .steps
            .iter()
            .map(|step| Transaction {
                data: hex::encode_prefixed(&step.calldata),
                to: step.to.to_string(),
                value: step.value.into(),
            })
            .collect(),
        metadata: CalldataMetadata {
            steps_required: position(calldata.steps.len()),
            needs_approval: calldata.approval_index.is_some(),
            approval_transaction_index: OrNull(calldata.approval_index.map(position)),
            payment_transaction_index: position(calldata.payment_index),
            has_enough_balance: calldata.has_enough_balance,
            has_enough_gas: calldata.has_enough_gas,
            platform_fee: calldata.fee.map(|fee| PlatformFee {
                percentage: fee.percent.to_string(),
                address: fee.address.to_string(),
            }),
        },
    }
}
