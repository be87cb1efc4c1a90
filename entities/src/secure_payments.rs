//! Secure payments.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payments")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// What payers have of it.
    pub token: String,
    /// Row of the client ID that created it.
    pub client_row: Option<String>,
    /// Public text of that client ID.
    pub client_id: Option<String>,
    /// Page that created it.
    pub origin: Option<String>,
    /// Whether its creator is paid or pays.
    pub flow: String,
    /// Whether it pays one request or several.
    pub kind: String,
    /// State. One that has expired may still stand as pending.
    pub status: String,
    /// Network of its payments.
    pub network: String,
    /// Canonical address of the payee of its destination; none where there is no destination.
    pub destination_wallet: Option<String>,
    /// Canonical address of the token of its destination.
    pub destination_token: Option<String>,
    /// Address of the wallet that is to pay a payout, as text; it is not held to it.
    pub creator: Option<String>,
    /// Reference of the merchant.
    pub reference: Option<String>,
    /// The merchant's own name of the payer.
    pub payer_identifier: Option<String>,
    /// The merchant's own name of the recipient.
    pub recipient_identifier: Option<String>,
    /// Where the payer may go after it is paid.
    pub redirect_url: Option<String>,
    /// What the button there says; none for the usual text.
    pub redirect_label: Option<String>,
    /// Which wallets are screened.
    pub access_mode: String,
    /// Who screens them.
    pub access_provider: Option<String>,
    /// Whether everything stays hidden until the payer is approved.
    pub hides_until_approved: bool,
    /// Whether the payee is shown masked.
    pub hides_payee: bool,
    /// Canonical addresses that may pay, a JSON array of texts; empty for everybody.
    #[sea_orm(column_type = "JsonBinary")]
    pub allowed_payers: Json,
    /// When somebody said last that a payment is on its way.
    pub hinted_at: Option<DateTimeUtc>,
    /// Attempts of payment pages: a JSON object with the random id and the time of each that is kept, and until when those
    /// warn that made room; none where no page asked a wallet to pay.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub attempts: Option<Json>,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Until when it can be paid.
    pub expires_at: DateTimeUtc,
    /// When the last of its requests was paid.
    pub completed_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
