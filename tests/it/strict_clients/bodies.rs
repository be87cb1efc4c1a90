//! Response bodies as the strict client in Rust models them.

use serde::{Deserialize, Deserializer};

/// Deserializes a member that must be present but may be null. Without this function, serde would accept a missing
/// member as null.
fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// Deserializes a member that may be missing but is never null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Declares response bodies that reject unknown members. `?` marks a member that may be null, and `~` a member that may
/// be missing.
macro_rules! bodies {
    ($($(#[$attr:meta])* $name:ident { $($body:tt)* })+) => {
        $(bodies!(@one $(#[$attr])* $name [] $($body)*);)+
    };
    (@one $(#[$attr:meta])* $name:ident [$($done:tt)*]) => {
        $(#[$attr])*
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        #[allow(dead_code, reason = "that a member can be read is what is tested")]
        pub struct $name { $($done)* }
    };
    (@one $(#[$attr:meta])* $name:ident [$($done:tt)*] $field:ident: ? $kind:ty, $($rest:tt)*) => {
        bodies!(@one $(#[$attr])* $name [$($done)*
            #[serde(deserialize_with = "or_null")] pub $field: Option<$kind>,] $($rest)*);
    };
    (@one $(#[$attr:meta])* $name:ident [$($done:tt)*] $field:ident: ~ $kind:ty, $($rest:tt)*) => {
        bodies!(@one $(#[$attr])* $name [$($done)*
            #[serde(default, deserialize_with = "given")] pub $field: Option<$kind>,] $($rest)*);
    };
    (@one $(#[$attr:meta])* $name:ident [$($done:tt)*] $field:ident: $kind:ty, $($rest:tt)*) => {
        bodies!(@one $(#[$attr])* $name [$($done)* pub $field: $kind,] $($rest)*);
    };
}

type Time = chrono::DateTime<chrono::Utc>;

bodies! {
    /// 201 of a new request.
    Created { request_id: String, payment_reference: String, }
    /// The position of a page.
    Page { total: u64, limit: u64, offset: u64, has_more: bool, }
    /// A page of requests.
    Requests { requests: Vec<RequestRow>, pagination: Page, }
    /// A request in a list.
    RequestRow {
        request_id: String, payment_reference: String, amount: ?String, invoice_currency: String,
        payment_currency: String, has_been_paid: bool, status: ?String, reference: ?String, created_at: ?Time,
        tx_hash: ?String, payee: ?String, payer: ?String,
    }
    /// A request.
    RequestView {
        has_been_paid: bool, payment_reference: String, request_id: String, is_listening: bool, tx_hash: ?String,
        recurrence: ~Recurrence, original_request_id: ~String, status: String, is_crypto_to_fiat_available: bool,
        original_request_payment_reference: ~String, payments: Vec<Payment>, is_recurrence_stopped: bool,
        customer_info: ?Customer, reference: ?String, amount_in_usd: ?String, conversion_rate: ?String,
        rate_source: ~String, conversion_breakdown: ?Breakdown, fees: ?Vec<RequestFee>, payee: ?String,
        request_amount: String, invoice_currency: String, payment_currency: String, paid_amount: String,
        excess_amount: ~String, detected_amount: ~String, quarantined_payments: ~Vec<QuarantinedPayment>,
        quarantined_payments_total: ~u64, payments_total: ~u32, payer_address: ?String, payer_eoa_address: ?String,
        created_at: Time,
    }
    /// A quarantined payment.
    QuarantinedPayment { tx_hash: String, position: ?u32, reason: String, state: String, amount: ?String, first_seen_at: Time, }
    /// A schedule.
    Recurrence { start_date: String, frequency: String, }
    /// A customer.
    Customer { first_name: ~String, last_name: ~String, email: ~String, address: ~CustomerAddress, }
    /// The address of a customer.
    CustomerAddress { street: ~String, city: ~String, state: ~String, postal_code: ~String, country: ~String, }
    /// The remaining amount of a request whose invoice and payment currencies differ.
    Breakdown {
        paid_amount: String, paid_amount_in_usd: ~String, remaining_amount: String, remaining_amount_in_usd: ~String,
        current_market_rate: ?String, current_market_rate_source: ?String, payments: Vec<Converted>,
    }
    /// A payment of a breakdown.
    Converted {
        amount: String, amount_in_usd: ~String, conversion_rate: ~String, rate_source: String, timestamp: Time,
    }
    /// A fee of a request.
    RequestFee { r#type: String, provider: String, amount: String, currency: String, }
    /// A page of payments.
    Search { payments: Vec<Payment>, pagination: Page, next_cursor: ?String, }
    /// A payment.
    Payment {
        id: String, amount: String, source_network: String, destination_network: String, source_tx_hash: ?String,
        destination_tx_hash: ?String, timestamp: Time, r#type: String, conversion_rate_source: ?String,
        conversion_rate_destination: ?String, converted_amount_source: ?String, converted_amount_destination: ?String,
        currency: String, payment_currency: String, fee_shortfall: ~String, fees: ?Vec<Fee>, recurring_payment_id: ?String,
        rate_provider: ?String, request: ~PaymentRequest, reversal: ~Reversal,
    }
    /// The reversal of a payment.
    Reversal { reversed_at: Time, reason: String, }
    /// The request of a payment.
    PaymentRequest {
        request_id: String, payment_reference: String, has_been_paid: bool, customer_info: ?Customer,
        reference: ?String,
    }
    /// The transactions that a payer signs.
    Payable { transactions: Vec<Step>, metadata: StepFacts, }
    /// A transaction.
    Step { data: String, to: String, value: BigNumber, chain_id: u64, }
    /// An amount in the form that JavaScript libraries for Ethereum serialize.
    BigNumber { r#type: String, hex: String, }
    /// Metadata of the transactions.
    StepFacts {
        steps_required: usize, needs_approval: bool, approval_transaction_index: ?usize,
        payment_transaction_index: usize, has_enough_balance: bool, has_enough_gas: bool,
        platform_fee: ~PlatformFee,
    }
    /// A fee on top of the amount.
    PlatformFee { percentage: String, address: String, }
    /// A page of events.
    EventPage { events: Vec<Event>, next_cursor: ?String, }
    /// An event.
    Event {
        id: String, event: String, request_id: ?String, client_id: ?String, is_test: bool, created_at: Time,
        body: String,
    }
    /// An event with its deliveries.
    EventDetail { event: Event, deliveries: Vec<Delivery>, }
    /// A page of deliveries.
    DeliveryPage { deliveries: Vec<Delivery>, next_cursor: ?String, }
    /// A delivery.
    Delivery {
        id: String, event_id: String, event: String, endpoint_id: String, url: ?String, state: String,
        retry_count: u32, is_test: bool, is_replay: bool, created_at: Time, next_attempt_at: ?Time, finished_at: ?Time,
        recovery_rounds: u32, next_round_at: ?Time,
    }
    /// A delivery with its attempts.
    DeliveryDetail { delivery: Delivery, tries: Vec<Try>, }
    /// An attempt.
    Try {
        round: u32, number: u32, started_at: Time, duration_ms: u64, status: ?u16, error: ?String, response: ?String,
    }
    /// A new webhook.
    HookCreated { id: String, secret: String, standard_secret: String, }
    /// All webhooks.
    Hooks { webhooks: Vec<Hook>, }
    /// A webhook.
    Hook {
        id: String, url: String, is_active: bool, created_at: Time, client_id: ~String, is_approved: bool,
        header_prefix: ~String,
    }
    /// The outcome of a sample.
    Tested { sent: u32, failed: u32, }
}

/// A fee of a payment.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "that a member can be read is what is tested")]
pub struct Fee {
    r#type: String,
    stage: String,
    provider: String,
    amount: String,
    #[serde(default, rename = "amountInUSD", deserialize_with = "given")]
    amount_in_usd: Option<String>,
    currency: String,
    #[serde(default, deserialize_with = "given")]
    receiver_address: Option<String>,
    network: String,
    rate_provider: String,
}

impl Page {
    /// The first page of a list that has this number of entries in total.
    pub fn of(total: u64) -> Self {
        Self {
            total,
            limit: 20,
            offset: 0,
            has_more: false,
        }
    }
}
