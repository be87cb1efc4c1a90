//! Settled payments: appended once; one that leaves the chain stays and is marked.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payments")]
pub struct Model {
    /// Tenant of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Client ID of the request.
    pub client_row: Option<String>,
    /// Row of the request.
    pub request_row: String,
    /// Public id of the request.
    pub request_id: String,
    /// Network.
    pub network: String,
    /// Transaction, 32 bytes.
    pub tx_hash: Vec<u8>,
    /// Position among all events of the transaction.
    pub position: i32,
    /// Height of the block.
    pub block_number: i64,
    /// Hash of the block, 32 bytes.
    pub block_hash: Vec<u8>,
    /// Index of the event in its block.
    pub log_index: i64,
    /// Contract that emitted the event: the 20 bytes of an address, after 0x41 on Tron.
    pub proxy: Vec<u8>,
    /// Token, none for the native coin.
    pub token: Option<Vec<u8>>,
    /// Receiver.
    pub payee: Vec<u8>,
    /// Where the money came from.
    pub payer: Option<Vec<u8>>,
    /// Account behind the payer.
    pub payer_eoa: Option<Vec<u8>>,
    /// Token units that arrived.
    pub units: String,
    /// Token units that the event names.
    pub event_units: String,
    /// Token units of the fee.
    pub fee_units: String,
    /// Receiver of the fee.
    pub fee_address: Option<Vec<u8>>,
    /// Settlement units credited to the request.
    pub credited: String,
    /// Settlement units by which the fees on top fall short.
    pub fee_shortfall: Option<String>,
    /// Kind of the payment.
    pub kind: String,
    /// Currency id of the invoice.
    pub invoice_currency: String,
    /// Currency id of the payment.
    pub payment_currency: String,
    /// Merchant reference of the request.
    pub merchant_reference: Option<String>,
    /// Payment reference, eight bytes.
    pub reference: Vec<u8>,
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
    /// Which group of the platform's payments it belongs to.
    pub group_key: i64,
    /// Which group of its client ID's payments it belongs to.
    pub client_group_key: Option<i64>,
    /// Whether a link hides it from who is not approved, as its request says.
    pub is_hidden: bool,
    /// Whether who paid might have; none where everybody might.
    pub payer_access: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The request that the payment settles.
    #[sea_orm(
        belongs_to = "super::requests::Entity",
        from = "(Column::PlatformId, Column::RequestRow)",
        to = "(super::requests::Column::PlatformId, super::requests::Column::Id)"
    )]
    Request,
}

impl Related<super::requests::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Request.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
