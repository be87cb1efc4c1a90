//! Payments as a version before wrote them, with keys as text, until they are moved to `payments`.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "former_payments")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Tenant of the request.
    pub platform_id: String,
    /// Client ID of the request.
    pub client_row: Option<String>,
    /// Row of the request.
    pub request_row: String,
    /// Public id of the request.
    pub request_id: String,
    /// Network.
    pub network: String,
    /// Transaction, 64 hexadecimal digits.
    pub tx_hash: String,
    /// Position among all events of the transaction.
    pub position: i32,
    /// Whether the position counts payments alone, as it did once; until the receipt is met again.
    pub counts_payments: bool,
    /// Height of the block.
    pub block_number: i64,
    /// Hash of the block, 64 hexadecimal digits.
    pub block_hash: String,
    /// Index of the event in its block.
    pub log_index: i64,
    /// Canonical address of the contract that emitted the event.
    pub proxy: String,
    /// Canonical address of the token, none for the native coin.
    pub token: Option<String>,
    /// Canonical address of the receiver.
    pub payee: String,
    /// Canonical address that the money came from.
    pub payer: Option<String>,
    /// Canonical address of the account behind the payer.
    pub payer_eoa: Option<String>,
    /// Token units that arrived.
    pub units: String,
    /// Token units that the event names.
    pub event_units: String,
    /// Token units of the fee.
    pub fee_units: String,
    /// Canonical address that received the fee.
    pub fee_address: Option<String>,
    /// Settlement units credited to the request.
    pub credited: String,
    /// Settlement units by which its fee falls short of what was handed out.
    pub fee_shortfall: Option<String>,
    /// Kind of the payment.
    pub kind: String,
    /// Currency id of the invoice.
    pub invoice_currency: String,
    /// Currency id of the payment.
    pub payment_currency: String,
    /// Merchant reference of the request.
    pub merchant_reference: Option<String>,
    /// Payment reference, 16 hexadecimal digits.
    pub reference: String,
    /// Time of the block.
    pub paid_at: DateTimeUtc,
    /// When the payment was recorded.
    pub created_at: DateTimeUtc,
    /// When it was reversed, while it is.
    pub reversed_at: Option<DateTimeUtc>,
    /// Why it is reversed, while it is.
    pub reversal_reason: Option<String>,
    /// Whether it was told, and that was not taken back.
    pub is_told: bool,
    /// Recurring payment that executed it.
    pub schedule_id: Option<String>,
    /// Rate by which it counts, a decimal text; none where the chain converted or nothing was converted.
    pub rate: Option<String>,
    /// Who told that rate.
    pub rate_provider: Option<String>,
    /// Fees that its transaction paid to further receivers: canonical addresses, each with `=` and token units, separated
    /// by commas; none without any.
    pub further_fees: Option<String>,
    /// Whether it settled a quote.
    pub is_quoted: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The request that the payment settles.
    #[sea_orm(
        belongs_to = "super::requests::Entity",
        from = "Column::RequestRow",
        to = "super::requests::Column::Id"
    )]
    Request,
}

impl Related<super::requests::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Request.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
