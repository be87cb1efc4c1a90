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
            paging::PageRange,
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
    /// Why a payment was quarantined
    OddReason as "QuarantineReason";
    /// State of a quarantined payment
    QuarantineState as "QuarantineState";
}

text! {
    /// Id of a request of this service or of another system.
    OriginalIdText {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "01e7864ca7b90a80f58f3995a9da4466f5c04f41fb719a23abb397d1addf5aa017",
        hint: "must be one line of 1 to 255 characters, without control, invisible or text direction characters",
    }
    /// Payment reference of a request of this service or of another system.
    OriginalReferenceText {
        pattern: LINE,
        length_min: 1,
        length_max: 255,
        example: "0xb3581f0b0f74cc61",
        hint: "must be one line of 1 to 255 characters, without control, invisible or text direction characters",
    }
}

/// Recurrence of a request.
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
    /// Expected payer wallet; informational, not enforced
    pub payer: Option<WalletText>,
    /// Wallet that receives the payment, on the network of `paymentCurrency`. Required unless the client ID is bound to
    /// a payee destination or `isCryptoToFiatAvailable` is true; must be absent when `isCryptoToFiatAvailable` is true
    pub payee: Option<WalletText>,
    /// Amount in the invoice currency, in human units
    pub amount: AskedAmountText,
    /// Currency of `amount`
    pub invoice_currency: CurrencyIdText,
    /// Currency that the payer pays in
    pub payment_currency: CurrencyIdText,
    /// Makes the request recurring
    pub recurrence: Option<Recurrence>,
    /// Whether the payment goes to a bank account; `GET /v2/request/{requestId}/pay` then takes the payer and the
    /// account. The payment currency must be USDC on mainnet, matic, arbitrum-one or sepolia. Example: `false`
    pub is_crypto_to_fiat_available: Option<bool>,
    /// Customer, for receipts and search
    pub customer_info: Option<CustomerInfo>,
    /// Your own reference; a filter of payment search
    pub reference: Option<MerchantReference>,
    /// Request that this request was generated from
    pub original_request_id: Option<OriginalIdText>,
    /// Reference of that request
    pub original_request_payment_reference: Option<OriginalReferenceText>,
}

impl Example for CreateRequestBody {
    /// A typical example body. It works unchanged on a service with Sepolia enabled.
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
    /// Reference that payments of the request carry on chain
    pub payment_reference: ReferenceText,
    /// Id of the request, used in all other operations
    pub request_id: RequestIdText,
}

/// Source of a conversion rate; `mixed` when several sources contributed
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
    /// `amount` in US dollars; absent unless the invoice currency is the dollar. Example: `4`
    pub amount_in_usd: Option<AmountText>,
    /// Invoice units per unit of the payment currency. Example: `0.9997`
    pub conversion_rate: Option<AmountText>,
    /// Source of the rate
    pub rate_source: PaymentRateSource,
    /// Time of the payment
    pub timestamp: Instant,
}

/// Paid and remaining amounts of a converted request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConversionBreakdown {
    /// Amount paid so far, in the invoice currency. Example: `4`
    pub paid_amount: AmountText,
    /// `paidAmount` in US dollars; absent unless the invoice currency is the dollar. Example: `4`
    pub paid_amount_in_usd: Option<AmountText>,
    /// Amount still to be paid, in the invoice currency. Example: `6.5`
    pub remaining_amount: AmountText,
    /// `remainingAmount` in US dollars; absent unless the invoice currency is the dollar. Example: `6.5`
    pub remaining_amount_in_usd: Option<AmountText>,
    /// Current invoice units per unit of the payment currency; null once the request is paid, and while no rate is
    /// available. Example: `0.9997`
    pub current_market_rate: OrNull<AmountText>,
    /// Source of the current rate
    pub current_market_rate_source: OrNull<PaymentRateSource>,
    /// Amount and rate of each entry of `payments` of the request, in the same order
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

/// A payment request with its state and payments.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RequestStatusView {
    /// Whether the whole amount has arrived and is final. Example: `false`
    pub has_been_paid: bool,
    /// Reference that payments of the request carry on chain
    pub payment_reference: ReferenceText,
    /// Id of the request
    pub request_id: RequestIdText,
    /// Whether calldata was issued and a payment is expected. Example: `false`
    pub is_listening: bool,
    /// Transaction that completed the request; null until then
    pub tx_hash: OrNull<TxHash>,
    /// Recurrence; absent for a single request
    pub recurrence: Option<Recurrence>,
    /// Request that this request was generated from; absent when there is none.
    /// Example: `01e7864ca7b90a80f58f3995a9da4466f5c04f41fb719a23abb397d1addf5aa017`
    #[oai(validator(max_length = 255))]
    pub original_request_id: Option<String>,
    /// Recurring payment that pays this request; absent when there is none. Added by this service
    pub recurring_payment_id: Option<UlidText>,
    /// State
    pub status: RequestStatus,
    /// Whether the payment is paid out to a bank account. Example: `false`
    pub is_crypto_to_fiat_available: bool,
    /// Payment reference of the request that this request was generated from. Example: `0xb3581f0b0f74cc61`
    #[oai(validator(max_length = 255))]
    pub original_request_payment_reference: Option<String>,
    /// Final payments, oldest first. If there are more than 100, the list contains the 100 largest, and among equal
    /// amounts the newest; `GET /v2/payments?requestId=` finds all payments
    #[oai(validator(max_items = 100))]
    pub payments: Vec<Payment>,
    /// Number of final payments; absent while `payments` contains all of them. Added by this service. Example: `2003`
    pub payments_total: Option<u32>,
    /// Whether the recurrence is stopped. Example: `false`
    pub is_recurrence_stopped: bool,
    /// Customer as given at creation
    pub customer_info: OrNull<CustomerInfo>,
    /// Your own reference
    pub reference: OrNull<MerchantReference>,
    /// Requested amount in US dollars; null when the service has no dollar price for the currency
    pub amount_in_usd: OrNull<AmountText>,
    /// Invoice units per unit of the payment currency; null when the request is partly paid, or paid by several
    /// payments. Example: `1`
    pub conversion_rate: OrNull<AmountText>,
    /// Source of the rate; absent without conversion
    pub rate_source: Option<RateSource>,
    /// Progress of a converted request that is partly paid or paid by several payments
    pub conversion_breakdown: OrNull<ConversionBreakdown>,
    /// Fees paid with `payments`, at most 100; empty while nothing is paid
    #[oai(validator(max_items = 100))]
    pub fees: OrNull<Vec<RequestFee>>,
    /// Wallet that receives the payment; null when a bank account does
    pub payee: OrNull<WalletText>,
    /// Requested amount in the invoice currency, including the fee of an orchestrator that the payee bears
    pub request_amount: AmountText,
    /// Id of the invoice currency
    pub invoice_currency: CurrencyIdText,
    /// Id of the payment currency
    pub payment_currency: CurrencyIdText,
    /// Final amount that the payee received so far, in the invoice currency. Example: `0`
    pub paid_amount: AmountText,
    /// Amount that the payee received beyond the amount due; absent when there is none. The amount due is the requested
    /// amount minus a fee that the payee bears. Example: `0.5`
    pub excess_amount: Option<AmountText>,
    /// Amount seen on chain that is not final yet; absent when there is none
    pub detected_amount: Option<AmountText>,
    /// Quarantined payments that wait for a decision of the service operator, followed by rejected ones, largest first;
    /// absent when there are none. Added by this service
    #[oai(validator(max_items = 100))]
    pub quarantined_payments: Option<Vec<QuarantinedPayment>>,
    /// Number of quarantined payments, counted up to 10000; absent while `quarantinedPayments` contains all of them. Added
    /// by this service. Example: `1205`
    pub quarantined_payments_total: Option<u64>,
    /// Account that sent the completing payment
    pub payer_address: OrNull<WalletText>,
    /// Externally owned account behind `payerAddress`, when known
    pub payer_eoa_address: OrNull<WalletText>,
    /// Time of creation
    pub created_at: Instant,
}

/// A payment of the request that was seen on chain and quarantined instead of credited.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct QuarantinedPayment {
    /// Transaction that contains the payment
    pub tx_hash: TxHash,
    /// Position of the payment's event among all events of the transaction; null while the payment is not proven.
    /// Example: `2`
    pub position: OrNull<u32>,
    /// Why the payment was quarantined
    pub reason: OddReason,
    /// State of the quarantined payment
    pub state: QuarantineState,
    /// Amount that the payee received, in the payment currency; null when no transfer is proven. The response does not
    /// show which part of the request the payment would settle, because its payer chose the rates. Example: `10.5`
    pub amount: OrNull<AmountText>,
    /// When the payment was first seen
    pub first_seen_at: Instant,
}

/// A request in a list.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RequestSummaryRow {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Reference that payments of the request carry on chain
    pub payment_reference: ReferenceText,
    /// Requested amount
    pub amount: OrNull<AmountText>,
    /// Id of the invoice currency
    pub invoice_currency: CurrencyIdText,
    /// Id of the payment currency
    pub payment_currency: CurrencyIdText,
    /// Whether the whole amount has arrived and is final. Example: `false`
    pub has_been_paid: bool,
    /// State
    pub status: OrNull<RequestStatus>,
    /// Your own reference
    pub reference: OrNull<MerchantReference>,
    /// Time of creation
    pub created_at: OrNull<Instant>,
    /// Transaction that completed the request
    pub tx_hash: OrNull<TxHash>,
    /// Wallet that receives the payment; null when a bank account does
    pub payee: OrNull<WalletText>,
    /// Expected payer
    pub payer: OrNull<WalletText>,
    /// Recurring payment that pays this request; absent when there is none. Added by this service
    pub recurring_payment_id: Option<UlidText>,
}

/// One page of requests, newest first.
#[derive(Debug, Clone, Object)]
pub struct RequestList {
    /// The requests
    #[oai(validator(max_items = 100))]
    pub requests: Vec<RequestSummaryRow>,
    /// Position of the page
    pub pagination: PageRange,
}

/// Changes to a request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct UpdateRequestBody {
    /// `true` stops the recurrence, `false` resumes it. Example: `false`
    pub is_recurrence_stopped: bool,
}

/// A changed request.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RequestUpdated {
    /// Id of the request
    pub request_id: RequestIdText,
    /// Whether the recurrence is stopped. Example: `false`
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

/// Approval transaction of a payment intent.
#[derive(Debug, Clone, Object)]
pub struct IntentApproval {
    /// Token
    pub to: WalletText,
    /// Encoded call. Example: `0x095ea7b3`
    #[oai(validator(max_length = 100000, pattern = "^0x([0-9a-f]{2})*$"))]
    pub data: String,
    /// Amount of the native coin, in its smallest unit. Example: `0`
    #[oai(validator(max_length = 80, pattern = "^[0-9]+$"))]
    pub value: String,
}

/// Metadata of a payment intent.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct IntentMetadata {
    /// Whether the token accepts signed approvals. Example: `true`
    #[oai(rename = "supportsEIP2612")]
    pub supports_eip2612: bool,
}

/// The older form of a crosschain response: an intent to sign. This service returns calldata instead; the form stays in
/// the document for clients that were generated from the reference.
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
    /// Metadata of the intent
    pub metadata: IntentMetadata,
}

/// What the payer signs: transactions, or an intent in the older crosschain form.
#[derive(Debug, Clone, Union)]
pub enum PayResponse {
    /// Transactions
    Calldata(Box<PaymentCalldata>),
    /// Intent
    Intent(PaymentIntentCalldata),
}

/// Source chain of a crosschain payment; not supported in this version
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

/// Source token of a crosschain payment; not supported in this version
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
    /// Parses the values that can be checked without the request itself. `is_payee_needed` is true when the body names
    /// no payee, the caller has no client ID that could be bound to a payee destination, and the payment does not go to
    /// a bank account.
    ///
    /// Errors: every invalid field.
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
