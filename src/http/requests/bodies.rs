//! Bodies of the operations on requests.

use crate::{
    domain::{
        currency::Catalogue,
        ledger::RequestStatus,
        oddity::{OddReason, QuarantineState},
        refusal::Refusal,
        request::plan::{NewRequest, PAYEE_MISSING, invoice_currency, payment_currency},
    },
    http::{
        forms::{
            calldata::PaymentCalldata,
            paging::Page,
            payment::{CustomerInfo, FeeType, Payment, PaymentRateSource},
            recurrence::{Frequency, StartDayText},
            text::LINE,
        },
        operation::*,
    },
};
use poem_openapi::Union;

words! {
    /// State of a request
    RequestStatus as "RequestStatus";
    /// Why a payment was set aside
    OddReason as "QuarantineReason";
    /// What became of a payment that was set aside
    QuarantineState as "QuarantineState";
}

text! {
    /// Id of a request of whatever system.
    OriginalIdText {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "01e7864ca7b90a80f58f3995a9da4466f5c04f41fb719a23abb397d1addf5aa017",
        hint: "must be one line of 1 to 255 characters, without control characters, invisible ones and marks of the writing direction",
    }
    /// Payment reference of a request of whatever system.
    OriginalReferenceText {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "0xb3581f0b0f74cc61",
        hint: "must be one line of 1 to 255 characters, without control characters, invisible ones and marks of the writing direction",
    }
}

/// Repetition of a request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Recurrence {
    /// First due day, today or later
    pub start_date: StartDayText,
    /// Period
    pub frequency: Frequency,
}

/// A new payment request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateRequestBody {
    /// Wallet that is expected to pay; for the record only
    pub payer: Option<WalletText>,
    /// Wallet that is paid, on the network of `paymentCurrency`; required unless the client ID is bound to a payee destination
    /// or `isCryptoToFiatAvailable` is true, with which it must be absent
    pub payee: Option<WalletText>,
    /// Amount in the invoice currency, human units
    pub amount: AskedAmountText,
    /// Currency that the amount is written in
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in
    pub payment_currency: CurrencyIdText,
    /// Makes it a recurring request
    pub recurrence: Option<Recurrence>,
    /// Whether the money goes to a bank account: `GET /v2/request/{requestId}/pay` then names payer and account. Paid in USDC
    /// on mainnet, matic, arbitrum-one or sepolia. Example: `false`
    pub is_crypto_to_fiat_available: Option<bool>,
    /// Customer, for receipts and search
    pub customer_info: Option<CustomerInfo>,
    /// Your own reference, found again by payment search
    pub reference: Option<MerchantReference>,
    /// Request that this one was generated from
    pub original_request_id: Option<OriginalIdText>,
    /// Reference of that request
    pub original_request_payment_reference: Option<OriginalReferenceText>,
}

impl Example for CreateRequestBody {
    /// What most callers send; it works as it stands on a service with Sepolia.
    fn example() -> Self {
        Self {
            payer: None,
            payee: Some(WalletText::example()),
            amount: AskedAmountText::example(),
            invoice_currency: CurrencyIdText::example(),
            payment_currency: CurrencyIdText::example(),
            recurrence: None,
            is_crypto_to_fiat_available: None,
            customer_info: None,
            reference: Some(MerchantReference::example()),
            original_request_id: None,
            original_request_payment_reference: None,
        }
    }
}

/// The identifiers of a new request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestCreated {
    /// Reference that its payments carry on chain
    pub payment_reference: ReferenceText,
    /// Id for all other operations
    pub request_id: RequestIdText,
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

impl From<PaymentRateSource> for RateSource {
    fn from(source: PaymentRateSource) -> Self {
        match source {
            PaymentRateSource::Lifi => Self::Lifi,
            PaymentRateSource::Chainlink => Self::Chainlink,
            PaymentRateSource::Coingecko => Self::Coingecko,
            PaymentRateSource::Unknown => Self::Unknown,
        }
    }
}

/// One payment of a converted request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConvertedPayment {
    /// Amount in the invoice currency. Example: `4`
    pub amount: AmountText,
    /// The same in US dollars, when the invoice currency is the dollar. Example: `4`
    pub amount_in_usd: Option<AmountText>,
    /// Invoice units for one unit of the payment currency. Example: `0.9997`
    pub conversion_rate: Option<AmountText>,
    /// Where the rate comes from
    pub rate_source: PaymentRateSource,
    /// Time of the payment
    pub timestamp: Instant,
}

/// What was paid and what is left of a converted request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConversionBreakdown {
    /// Paid so far, in the invoice currency. Example: `4`
    pub paid_amount: AmountText,
    /// The same in US dollars, when the invoice currency is the dollar. Example: `4`
    pub paid_amount_in_usd: Option<AmountText>,
    /// Still to be paid, in the invoice currency. Example: `6.5`
    pub remaining_amount: AmountText,
    /// The same in US dollars, when the invoice currency is the dollar. Example: `6.5`
    pub remaining_amount_in_usd: Option<AmountText>,
    /// Invoice units for one unit of the payment currency now; null once paid, and while nobody tells a rate. Example: `0.9997`
    pub current_market_rate: OrNull<AmountText>,
    /// Where that rate comes from
    pub current_market_rate_source: OrNull<PaymentRateSource>,
    /// The payments of `payments`, in the same order
    #[oai(validator(max_items = 100))]
    pub payments: Vec<ConvertedPayment>,
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
    pub amount: AmountText,
    /// Symbol of that currency
    pub currency: SymbolText,
}

/// A payment request and what happened to it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RequestStatusView {
    /// Whether the whole amount has arrived and is final. Example: `false`
    pub has_been_paid: bool,
    /// Reference that its payments carry on chain
    pub payment_reference: ReferenceText,
    /// Id of the request
    pub request_id: RequestIdText,
    /// Whether calldata was issued and the payment is awaited. Example: `false`
    pub is_listening: bool,
    /// Transaction that completed it; null before
    pub tx_hash: OrNull<TxHash>,
    /// Repetition; absent for a single request
    pub recurrence: Option<Recurrence>,
    /// Request that this one was generated from; absent when there is none. Example: `01e7864ca7b90a80f58f3995a9da4466f5c04f41fb719a23abb397d1addf5aa017`
    #[oai(validator(max_length = 255))]
    pub original_request_id: Option<String>,
    /// Recurring payment that pays it; absent when none does. An addition of this service
    pub recurring_payment_id: Option<UlidText>,
    /// State
    pub status: RequestStatus,
    /// Whether the payment is paid out to a bank account. Example: `false`
    pub is_crypto_to_fiat_available: bool,
    /// Reference of the request that this one was generated from. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 255))]
    pub original_request_payment_reference: Option<String>,
    /// Final payments, oldest first. Of more than 100 the largest, of equal ones the newest;
    /// `GET /v2/payments?requestId=` finds all
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// How many final payments there are; absent while `payments` holds all. An addition of this service. Example: `2003`
    pub payments_total: Option<u32>,
    /// Whether the repetition is stopped. Example: `false`
    pub is_recurrence_stopped: bool,
    /// Customer as given at creation
    pub customer_info: OrNull<CustomerInfo>,
    /// Your own reference
    pub reference: OrNull<MerchantReference>,
    /// Requested amount in US dollars; null when the currency has no dollar price here
    pub amount_in_usd: OrNull<AmountText>,
    /// Invoice units for one unit of the payment currency; null when partly paid or paid by several payments. Example: `1`
    pub conversion_rate: OrNull<AmountText>,
    /// Where the rate comes from; absent when nothing is converted
    pub rate_source: Option<RateSource>,
    /// Progress of a converted request that is partly paid or paid by several payments
    pub conversion_breakdown: OrNull<ConversionBreakdown>,
    /// Fees that were paid with `payments`, at most 100; empty while nothing is paid
    #[oai(validator(max_items = 100))]
    pub fees: OrNull<Vec<RequestFee>>,
    /// Wallet that is paid; null when a bank account gets the money
    pub payee: OrNull<WalletText>,
    /// Requested amount in the invoice currency
    pub request_amount: AmountText,
    /// Id of the invoice currency
    pub invoice_currency: CurrencyIdText,
    /// Id of the payment currency
    pub payment_currency: CurrencyIdText,
    /// Paid so far and final, in the invoice currency. Example: `0`
    pub paid_amount: AmountText,
    /// Paid beyond the requested amount; absent when nothing is. Example: `0.5`
    pub excess_amount: Option<AmountText>,
    /// Seen on chain and not final yet; absent when nothing is
    pub detected_amount: Option<AmountText>,
    /// Payments that were set aside until the operator of the service decides, and rejected ones after them, the largest
    /// first; absent when there are none. An addition of this service
    #[oai(validator(max_items = 100))]
    pub quarantined_payments: Option<Vec<QuarantinedPayment>>,
    /// How many were set aside, counted up to 10000; absent while `quarantinedPayments` holds all. An addition of this
    /// service. Example: `1205`
    pub quarantined_payments_total: Option<u64>,
    /// Account that the completing payment came from
    pub payer_address: OrNull<WalletText>,
    /// Externally owned account behind it, when it is known
    pub payer_eoa_address: OrNull<WalletText>,
    /// Time of creation
    pub created_at: Instant,
}

/// A payment of the request that was seen on chain and set aside instead of being credited.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct QuarantinedPayment {
    /// Transaction that holds it
    pub tx_hash: TxHash,
    /// Position of its event among all events of the transaction; null while it is not proven. Example: `2`
    pub position: OrNull<u32>,
    /// Why it was set aside
    pub reason: OddReason,
    /// What became of it
    pub state: QuarantineState,
    /// What arrived at the payee, in the payment currency; null where no money is proven to have moved. What it would
    /// settle of the request is not told: its payer chose the rates. Example: `10.5`
    pub amount: OrNull<AmountText>,
    /// When it was seen first
    pub first_seen_at: Instant,
}

/// A request in a list.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RequestSummaryRow {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Reference that its payments carry on chain
    pub payment_reference: ReferenceText,
    /// Requested amount
    pub amount: OrNull<AmountText>,
    /// Id of the invoice currency
    pub invoice_currency: CurrencyIdText,
    /// Id of the payment currency
    pub payment_currency: CurrencyIdText,
    /// Whether the whole amount has arrived. Example: `false`
    pub has_been_paid: bool,
    /// State
    pub status: OrNull<RequestStatus>,
    /// Your own reference
    pub reference: OrNull<MerchantReference>,
    /// Time of creation
    pub created_at: OrNull<Instant>,
    /// Transaction that completed it
    pub tx_hash: OrNull<TxHash>,
    /// Wallet that is paid; null when a bank account gets the money
    pub payee: OrNull<WalletText>,
    /// Expected payer
    pub payer: OrNull<WalletText>,
    /// Recurring payment that pays it; absent when none does. An addition of this service
    pub recurring_payment_id: Option<UlidText>,
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
    /// `true` stops the repetition, `false` resumes it. Example: `false`
    pub is_recurrence_stopped: bool,
}

/// A changed request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestUpdated {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Whether the repetition is stopped. Example: `false`
    pub is_recurrence_stopped: bool,
}

/// A cancelled request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestCancelled {
    /// Id of the request
    pub request_id: RequestIdText,
    /// State: `cancelled`. Example: `cancelled`
    pub status: RequestStatus,
}

/// Approval that goes with a payment intent.
#[derive(Debug, Clone, Object)]
pub struct IntentApproval {
    /// Token
    pub to: WalletText,
    /// Encoded call. Example: `0x095ea7b3`
    #[oai(validator(max_length = 100000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Native coin, in its smallest unit. Example: `0`
    #[oai(validator(max_length = 80, pattern = "^[0-9]+$"))]
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

/// Source chain of a crosschain payment; not in this version
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

/// Source token of a crosschain payment; not in this version
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

impl CreateRequestBody {
    /// Reads the values, as far as they can be judged without the request that they make; `is_payee_needed` of a caller
    /// for whom no payee destination can stand in.
    ///
    /// Errors: every wrong field.
    pub(super) fn read(self, catalogue: &Catalogue, is_payee_needed: bool) -> Result<NewRequest, Refusal> {
        let mut checks = Checks::new();
        let amount = checks.take("amount", self.amount.value());
        let invoice = invoice_currency(catalogue, self.invoice_currency.as_str());
        let invoice = checks.take("invoiceCurrency", invoice);
        let payment = payment_currency(catalogue, self.payment_currency.as_str());
        let payment = checks.take("paymentCurrency", payment);
        let payee = self.payee.and_then(|text| checks.take("payee", text.value()));
        if is_payee_needed {
            checks.fail("payee", PAYEE_MISSING);
        }
        let payer = self.payer.and_then(|text| checks.take("payer", text.value()));
        let recurrence = self.recurrence.and_then(|recurrence| {
            let start = checks.take("recurrence.startDate", recurrence.start_date.value())?;
            Some((start, recurrence.frequency))
        });
        let ((amount, invoice), payment) = checks.finish_with(amount.zip(invoice).zip(payment))?;
        Ok(NewRequest {
            payee,
            payer,
            amount,
            invoice,
            payment,
            recurrence,
            is_crypto_to_fiat: self.is_crypto_to_fiat_available.unwrap_or(false),
            customer: self.customer_info.map(Into::into),
            merchant_reference: self.reference.map(String::from),
            original_request_id: self.original_request_id.map(String::from),
            original_request_reference: self.original_request_payment_reference.map(String::from),
        })
    }
}
