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
    /// The token of its link.
    pub token: String,
    /// Row of the client ID that created the secure payment.
    pub client_row: Option<String>,
    /// Public text of the client ID that created the secure payment.
    pub client_id: Option<String>,
    /// Page that created the secure payment.
    pub origin: Option<String>,
    /// Whether the creator is paid or pays.
    pub flow: String,
    /// Whether the secure payment pays one request or several.
    pub kind: String,
    /// State. An expired secure payment may still be stored as pending.
    pub status: String,
    /// Network of the secure payment's payments.
    pub network: String,
    /// Canonical address of the payee of the destination; none without a destination.
    pub destination_wallet: Option<String>,
    /// Canonical address of the token of the destination.
    pub destination_token: Option<String>,
    /// Address of the wallet that is expected to pay a payout, as text. The service does not enforce it.
    pub creator: Option<String>,
    /// Reference of the merchant.
    pub reference: Option<String>,
    /// The merchant's own name for the payer.
    pub payer_identifier: Option<String>,
    /// The merchant's own name for the recipient.
    pub recipient_identifier: Option<String>,
    /// URL of a button that the payment page shows after the payment.
    pub redirect_url: Option<String>,
    /// Label of the button that opens the redirect URL; none for the usual text.
    pub redirect_label: Option<String>,
    /// Which wallets are screened.
    pub access_mode: String,
    /// The screening provider.
    pub access_provider: Option<String>,
    /// Whether all details stay hidden until the payer is approved.
    pub hides_until_approved: bool,
    /// Whether the payee is shown masked.
    pub hides_payee: bool,
    /// Canonical addresses that may pay, a JSON array of texts; empty when everyone may.
    #[sea_orm(column_type = "JsonBinary")]
    pub allowed_payers: Json,
    /// When a payment in flight was last reported.
    pub hinted_at: Option<DateTimeUtc>,
    /// Attempts of payment pages, as a JSON object. It contains the random id and the time of each stored attempt, and
    /// the expiry of the warnings of attempts that were dropped to make room. None if no page asked a wallet to pay.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub attempts: Option<Json>,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When it expires.
    pub expires_at: DateTimeUtc,
    /// When the last request of the secure payment was paid.
    pub completed_at: Option<DateTimeUtc>,
    /// Orchestrator whose key was sent with the call that created the secure payment.
    pub orchestrator_id: Option<String>,
    /// Until when a Safe that is about to pay locks the secure payment; none without a lock.
    pub locked_until: Option<DateTimeUtc>,
    /// Canonical address of this Safe, if it is known.
    pub locked_by: Option<String>,
    /// Hash of the transaction of this Safe, 64 hexadecimal digits; none without a lock.
    pub lock_hash: Option<String>,
    /// When the owner last ended a lock; callers with a public credential cannot lock the secure payment after it.
    pub locks_released_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
