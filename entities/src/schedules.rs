//! Recurring payments.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "schedules")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Public id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Row of the client ID that created the recurring payment.
    pub client_row: Option<String>,
    /// Public text of the client ID that created the recurring payment.
    pub client_id: Option<String>,
    /// Page that created the recurring payment.
    pub origin: Option<String>,
    /// Network.
    pub network: String,
    /// Canonical address of the contract that executes the payments.
    pub contract: String,
    /// Canonical address of the payer.
    pub payer: String,
    /// Canonical address of the token.
    pub token: String,
    /// Canonical address of the receiver.
    pub payee: String,
    /// Canonical address of the receiver of the fee, none without a fee.
    pub fee_address: Option<String>,
    /// Token units of each payment.
    pub amount: String,
    /// Token units of the fee of each payment.
    pub fee: String,
    /// Token units that the relayer gets for each payment.
    pub relayer_fee: String,
    /// Seconds from one payment to the next.
    pub period_s: i64,
    /// Unix time from which the first payment is due.
    pub first_payment_s: i64,
    /// Number of payments.
    pub total_payments: i32,
    /// Random number of the permit.
    pub nonce: String,
    /// Unix time until which payments can be executed.
    pub deadline_s: i64,
    /// Signature of the payer, 130 hexadecimal digits; none until the payer submits it.
    pub signature: Option<String>,
    /// State.
    pub status: String,
    /// Payments that are final.
    pub executed: i32,
    /// Failures since the last payment.
    pub failures: i32,
    /// Why the last attempt failed.
    pub failure_reason: Option<String>,
    /// When the relayer checks the recurring payment next.
    pub wake_at: Option<DateTimeUtc>,
    /// Time of the last payment.
    pub last_paid_at: Option<DateTimeUtc>,
    /// Counts the changes.
    pub version: i64,
    /// Amount of each payment in the requested currency.
    pub asked_amount: String,
    /// Id of the currency of `asked_amount`.
    pub asked_currency: String,
    /// Time of creation.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
