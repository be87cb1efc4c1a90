//! Payment requests.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "requests")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// ULID of the row.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Row of the client ID that created the request.
    pub client_row: Option<String>,
    /// Public text of the client ID that created the request.
    pub client_id: Option<String>,
    /// Page that created the request.
    pub origin: Option<String>,
    /// Public id.
    pub request_id: String,
    /// Salt of the reference, 16 hexadecimal digits.
    pub salt: String,
    /// Payment reference, 16 hexadecimal digits.
    pub reference: String,
    /// Keccak-256 of the reference, 64 hexadecimal digits.
    pub reference_topic: String,
    /// Kind of the request's payments.
    pub kind: String,
    /// State.
    pub status: String,
    /// Network of the payment currency.
    pub network: String,
    /// Canonical address of the receiver.
    pub payee: String,
    /// Canonical address of the expected payer.
    pub payer: Option<String>,
    /// Decimal amount in the invoice currency.
    pub amount: String,
    /// Currency id of the invoice.
    pub invoice_currency: String,
    /// Currency id of the payment.
    pub payment_currency: String,
    /// Canonical address of the token, none for the native coin.
    pub token: Option<String>,
    /// Expected settlement units.
    pub expected: String,
    /// Credited settlement units.
    pub credited: String,
    /// Fees that the credited payments paid to an orchestrator: units borne by the payer, a comma, and units borne by
    /// the payee. None without such a fee.
    pub orchestrator_fees: Option<String>,
    /// Number of credited payments.
    pub payment_count: i32,
    /// Transaction that completed the request, in the text form of the domain.
    pub tx_hash: Option<String>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Customer.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub customer: Option<Json>,
    /// Repetition.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub recurrence: Option<Json>,
    /// Whether the repetition is stopped.
    pub is_recurrence_stopped: bool,
    /// Parent of a generated request.
    pub original_request_id: Option<String>,
    /// Reference of the parent.
    pub original_request_reference: Option<String>,
    /// Whether the request may be paid out to a bank account.
    pub is_crypto_to_fiat: bool,
    /// Whether the partner was ordered to pay the request out.
    pub is_ordered: bool,
    /// Whether calldata was issued and a payment is still expected.
    pub is_listening: bool,
    /// Whether an event reported the request as confirmed, and no later event reported a reversal.
    pub is_told_paid: bool,
    /// Number of reported reversals.
    pub reversals: i32,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
    /// When the service recorded that the expected total had arrived.
    pub paid_at: Option<DateTimeUtc>,
    /// Recurring payment that pays the request.
    pub schedule_id: Option<String>,
    /// Number of the next period of a recurring request; 0 while the service has not computed it.
    pub next_period: i32,
    /// When the next period begins; none when the request does not repeat or is finished.
    pub next_period_at: Option<DateTimeUtc>,
    /// Row of the recurring request that this request repeats.
    pub parent_row: Option<String>,
    /// Number of the period for which the request was created.
    pub period: Option<i32>,
    /// Whether the token units of a payment of the request are determined by quotes.
    pub is_quoted: bool,
    /// Tolerance: number of settlement units that may be missing when the request counts as paid.
    pub tolerated: String,
    /// Whether a link that pays the request hides details from callers that are not approved.
    pub is_hidden: bool,
    /// Conversion path, maximum rate age and fees on top, fixed at creation; none if the request has none of these.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub price: Option<Json>,
    /// When the link that pays the request expires; none if no link pays it.
    pub link_until: Option<DateTimeUtc>,
    /// Row of the public client ID with which the request was created; empty if another credential created it.
    pub public_client: String,
    /// Orchestrator whose key was sent with the call that created the request.
    pub orchestrator_id: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
