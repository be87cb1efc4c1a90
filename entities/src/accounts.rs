//! People who sign in with e-mail and password.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "accounts")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// The platform of this account.
    pub platform_id: String,
    /// Encrypted e-mail address.
    pub email: String,
    /// Keyed hash of the e-mail address in lower case.
    pub email_hash: Option<String>,
    /// Argon2id hash of the password, as a PHC string.
    pub password_hash: String,
    /// Time of the registration.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
