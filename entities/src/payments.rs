//! Settled payments. Rows are never deleted: a payment that leaves the chain stays and is marked as reversed.

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
    /// Token units that the event states.
    pub event_units: String,
    /// Token units of the fee.
    pub fee_units: String,
    /// Receiver of the fee.
    pub fee_address: Option<Vec<u8>>,
    /// Settlement units credited to the request.
    pub credited: String,
    /// Settlement units of the fees on top that the payment did not cover.
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
    /// When the payment was reversed; none unless it is reversed now.
    pub reversed_at: Option<DateTimeUtc>,
    /// Why the payment was reversed; none unless it is reversed now.
    pub reversal_reason: Option<String>,
    /// Whether an event reported the payment, and no later event reported its reversal.
    pub is_told: bool,
    /// Recurring payment that executed this payment.
    pub schedule_id: Option<String>,
    /// Rate that was applied, a decimal text; none if the chain converted the amount, or if nothing was converted.
    pub rate: Option<String>,
    /// Source of the applied rate.
    pub rate_provider: Option<String>,
    /// Fees that the transaction paid to further receivers, separated by commas. Each consists of a canonical address,
    /// `=` and token units. None without further fees.
    pub further_fees: Option<String>,
    /// The part of the fees of the payment that went to an orchestrator: token units borne by the payer, a comma, and
    /// token units borne by the payee. None without such a fee.
    pub orchestrator_fees: Option<String>,
    /// Whether the payment settled a quote.
    pub is_quoted: bool,
    /// Key of the group that contains the payment among the groups of the whole platform.
    pub group_key: i64,
    /// Key of the group that contains the payment among the groups of its client ID; none without a client ID.
    pub client_group_key: Option<i64>,
    /// Whether a link hides the payment from callers that are not approved; copied from the request.
    pub is_hidden: bool,
    /// Whether the payer was allowed to pay; none if everyone was allowed.
    pub payer_access: Option<String>,
    /// Network on which the payer paid.
    pub source_network: String,
    /// Transaction of the payer on this network, 32 bytes.
    pub source_tx_hash: Vec<u8>,
    /// Where the money came from on this network.
    pub source_payer: Option<Vec<u8>>,
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
