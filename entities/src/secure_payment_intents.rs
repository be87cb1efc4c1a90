//! Transactions, transactions of Safes and user operations that payers report for a secure payment. A report alone
//! settles nothing.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payment_intents")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// The secure payment.
    pub secure_payment_id: String,
    /// Hash of the transaction, of the transaction of a Safe, or of the user operation: 64 hexadecimal digits.
    pub hash: String,
    /// Canonical address of the account that pays.
    pub payer: Option<String>,
    /// Canonical address of the externally owned account that controls the paying account.
    pub payer_eoa: Option<String>,
    /// When it was reported.
    pub created_at: DateTimeUtc,
    /// Network on which the payer pays.
    pub network: String,
    /// Symbol of the token with which the payer pays.
    pub token: String,
    /// What the hash identifies.
    pub kind: String,
    /// State of the report.
    pub state: String,
    /// Amount that the payer reported, a decimal text.
    pub amount: Option<String>,
    /// Until when a Safe may execute its transaction, or when a broadcast payment expires; none for others.
    pub deadline: Option<DateTimeUtc>,
    /// Last block in which the execution was searched; none unless it is searched.
    pub searched_to: Option<i64>,
    /// When the execution was last searched, or first reported; none unless it is searched.
    pub searched_at: Option<DateTimeUtc>,
    /// Hash of the transaction in which the Safe executed, 64 hexadecimal digits; none before.
    pub executed_by: Option<String>,
    /// Which call of a user operation pays which child of a multicall: a JSON array; none without a user operation.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub transaction_indices: Option<Json>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
