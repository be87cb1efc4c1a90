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
    /// Row of the client ID that created it.
    pub client_row: Option<String>,
    /// Public text of that client ID.
    pub client_id: Option<String>,
    /// Page that created it.
    pub origin: Option<String>,
    /// Public id.
    pub request_id: String,
    /// Salt of the reference, 16 hexadecimal digits.
    pub salt: String,
    /// Payment reference, 16 hexadecimal digits.
    pub reference: String,
    /// Keccak-256 of the reference, 64 hexadecimal digits.
    pub reference_topic: String,
    /// Kind of its payments.
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
    /// Number of credited payments.
    pub payment_count: i32,
    /// Transaction that completed it, as the domain wrote it.
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
    /// Whether it may be paid out to a bank account.
    pub is_crypto_to_fiat: bool,
    /// Whether the partner was asked to pay it out.
    pub is_ordered: bool,
    /// Whether calldata was issued.
    pub is_listening: bool,
    /// Whether it was told as confirmed, and that was not taken back.
    pub is_told_paid: bool,
    /// How often something was taken back.
    pub reversals: i32,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
    /// When the expected total was recorded as arrived.
    pub paid_at: Option<DateTimeUtc>,
    /// Recurring payment that pays it.
    pub schedule_id: Option<String>,
    /// Number of the period that comes next of a recurring request; 0 when the program has yet to find it.
    pub next_period: i32,
    /// When it begins; none when the request does not repeat, or no more.
    pub next_period_at: Option<DateTimeUtc>,
    /// Row of the recurring request that this one repeats.
    pub parent_row: Option<String>,
    /// Number of its period.
    pub period: Option<i32>,
    /// Whether it is paid by quotes.
    pub is_quoted: bool,
    /// How much may be missing when it counts as paid, in settlement units.
    pub tolerated: String,
    /// Whether a link that pays it hides something from who is not approved.
    pub is_hidden: bool,
    /// Path and rate age of its conversion and the fees on top, fixed at its creation; none where nothing is.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub price: Option<Json>,
    /// Until when the link that pays it can be paid; none where no link pays it.
    pub link_until: Option<DateTimeUtc>,
    /// Row of the public client ID that it was made with; empty where it was made with none.
    pub public_client: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
