//! SQL: free functions that take a transaction or connection; every finder takes the owner first.
//!
//! Reads go to [`Db::reader`]; writes go to a [`Tx`], or to [`Db::writer`] when the operation is one statement. Rows are
//! turned back into domain values on the way out, and a row that does not parse is an error, never a default.

pub mod accounts;
pub mod backlogs;
pub mod bank_accounts;
pub mod challenges;
pub mod client_ids;
pub mod clock_jumps;
mod columns;
pub mod cursors;
mod db;
pub mod delivery_log;
pub mod destinations;
pub mod devices;
pub mod endpoints;
pub mod event_log;
pub mod fee_configs;
pub mod handed_out;
pub mod idempotency;
pub mod invites;
pub mod key_material;
pub mod keys;
pub mod leaders;
pub mod live_schedules;
pub mod observations;
pub mod off_ramp_bindings;
pub mod off_ramp_orders;
pub mod off_ramp_quotes;
pub mod orchestrator_links;
pub mod orchestrators;
pub mod outbox;
pub mod owners;
pub mod partitions;
mod payer_details;
pub mod payer_keys;
pub mod payer_registrations;
pub mod payers;
pub mod payments;
#[cfg(test)]
mod plans;
pub mod platforms;
pub mod presence;
pub mod quarantine;
mod queue;
pub mod quotes;
pub mod rate_tiers;
pub mod rates;
mod reach;
pub mod recovery;
pub mod relays;
pub mod repeats;
pub mod requests;
pub mod safe_payers;
pub mod schedules;
mod schema;
pub mod screenings;
mod sealed;
pub mod sealed_rows;
pub mod secure_payment_names;
pub mod secure_payments;
mod session;
pub mod sessions;
mod sqlite_files;
pub mod time;

use crate::domain::{
    caller::{OrchestratorCaller, PlatformCaller},
    ids::{ClientRowId, OwnerId, PlatformId},
};
pub use db::{Db, MigrationState, Tx};
use sea_orm::{DbErr, RuntimeErr, SqlErr, sqlx};
pub use sealed::Sealing;
pub use sqlite_files::Durability;

/// Another request of the network has the same reference and payee; the caller draws a new salt.
pub const REQUEST_REFERENCE: &str = "requests_reference_key";
/// The payment event is already recorded.
pub const PAYMENT_IDENTITY: &str = "payments_event_key";
/// The owner already has an endpoint with this URL.
pub const ENDPOINT_URL: &str = "webhook_endpoints_url";
/// The wallet already has this destination, or another destination in use.
pub const DESTINATION: &str = "payee_destinations_key";
/// The idempotency key is already taken.
pub const IDEMPOTENCY_KEY: &str = "idempotency_keys_pkey";

/// The client ID already has a link to an orchestrator, active or ended.
pub const ORCHESTRATOR_LINK: &str = "orchestrator_links_pkey";

/// The orchestrator already has a fee config with the same scope, flow and bearer.
pub const FEE_CONFIG: &str = "fee_configs_scope_key";

/// The payer already exists: another call registered it, or the partner's id belongs to another payer.
pub const PAYER: &str = "payers_key";
/// The bank account already exists, or the partner's id belongs to another bank account.
pub const BANK_ACCOUNT: &str = "bank_accounts_key";

/// Maximum number of matches that a search counts one by one. If no count is stored, a larger result reports this
/// number as its total. Source: decisions D15.
pub const TOTAL_MAX: u64 = 10_000;

/// Maximum number of revoked keys, and of revoked client IDs, in a list, so that lists stay short after years of
/// rotations.
pub const REVOKED_LISTED_MAX: u64 = 1_000;

/// The known constraints. Each has its name in flows, its names in PostgreSQL, and the columns that SQLite reports
/// instead of a name.
const CONSTRAINTS: [(&str, &[&str], &[&str]); 9] = [
    (
        REQUEST_REFERENCE,
        &["requests_reference_key"],
        &["requests.network, requests.reference, requests.payee"],
    ),
    (
        PAYMENT_IDENTITY,
        &["payments_event_key"],
        &["payments.tx_hash, payments.network, payments.position"],
    ),
    (
        ENDPOINT_URL,
        &["webhook_endpoints_client_url_key", "webhook_endpoints_platform_url_key"],
        &[
            "webhook_endpoints.owner_id, webhook_endpoints.client_row, webhook_endpoints.url",
            "webhook_endpoints.owner_id, webhook_endpoints.url",
        ],
    ),
    (
        DESTINATION,
        &["payee_destinations_key", "payee_destinations_active_key"],
        &[
            "payee_destinations.platform_id, payee_destinations.wallet, payee_destinations.network, payee_destinations.token",
            "payee_destinations.platform_id, payee_destinations.wallet",
        ],
    ),
    (
        IDEMPOTENCY_KEY,
        &["idempotency_keys_pkey"],
        &["idempotency_keys.owner_id, idempotency_keys.scope, idempotency_keys.key"],
    ),
    (
        ORCHESTRATOR_LINK,
        &["orchestrator_links_pkey"],
        &["orchestrator_links.platform_id, orchestrator_links.client_row"],
    ),
    (
        FEE_CONFIG,
        &["fee_configs_scope_key"],
        &["fee_configs.orchestrator_id, fee_configs.scope, fee_configs.flow, fee_configs.bearer"],
    ),
    (
        PAYER,
        &["payers_client_user_key", "payers_partner_key"],
        &["payers.platform_id, payers.client_user_hash", "payers.partner_hash"],
    ),
    (
        BANK_ACCOUNT,
        &["bank_accounts_content_key", "bank_accounts_partner_key"],
        &["bank_accounts.content_hash", "bank_accounts.partner_hash"],
    ),
];

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A write violates a named constraint: another transaction was first.
    #[error("conflict with {0}")]
    Conflict(&'static str),
    /// The database does not respond in time.
    #[error("database unavailable: {0}")]
    Unavailable(anyhow::Error),
    /// The disk of the database is full. Reads still work; writes work again once there is space.
    #[error("the database disk is full: {0}")]
    Full(anyhow::Error),
    /// A row or statement is not what this program expects.
    #[error("broken: {0}")]
    Broken(anyhow::Error),
}

impl From<DbErr> for StoreError {
    fn from(error: DbErr) -> Self {
        if let Some(SqlErr::UniqueConstraintViolation(message)) = error.sql_err() {
            return match constraint(&error, &message) {
                Some(name) => Self::Conflict(name),
                None => Self::Broken(error.into()),
            };
        }
        if is_full(&error) {
            Self::Full(error.into())
        } else if is_unavailable(&error) {
            Self::Unavailable(error.into())
        } else {
            Self::Broken(error.into())
        }
    }
}

fn driver_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error.as_ref()),
        _ => None,
    }
}

fn constraint(error: &DbErr, message: &str) -> Option<&'static str> {
    let name = driver_error(error)
        .and_then(sqlx::Error::as_database_error)
        .and_then(|error| error.constraint());
    // For a partitioned table, only the message contains the name.
    known_constraint(name.or_else(|| message.split('"').nth(1)), message)
}

fn known_constraint(name: Option<&str>, message: &str) -> Option<&'static str> {
    // The constraints of partitions have the same name with a number appended.
    let name = name.map(|name| name.trim_end_matches(|letter: char| letter.is_ascii_digit()));
    let name = name.map(|name| name.trim_end_matches('_'));
    // SQLite lists the columns after a colon and reports no name.
    let listed = message.rsplit(": ").next();
    CONSTRAINTS
        .iter()
        .find(|(_, names, columns)| {
            name.is_some_and(|name| names.contains(&name)) || listed.is_some_and(|listed| columns.contains(&listed))
        })
        .map(|(known, _, _)| *known)
}

/// Whether the disk is full: `SQLITE_FULL`, or `disk_full` of PostgreSQL.
fn is_full(error: &DbErr) -> bool {
    let code = driver_error(error)
        .and_then(sqlx::Error::as_database_error)
        .and_then(|refused| refused.code());
    code.is_some_and(|code| code == "13" || code == "53100")
}

/// Whether the same call may succeed later without any change by the caller.
fn is_unavailable(error: &DbErr) -> bool {
    // Every failure to connect counts, also an unknown role or database: after a fail-over, a server may not know them
    // yet.
    if matches!(error, DbErr::ConnectionAcquire(_) | DbErr::Conn(_)) {
        return true;
    }
    let Some(error) = driver_error(error) else {
        return false;
    };
    match error {
        sqlx::Error::Database(refused) => match refused.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
            // Busy, locked, read-only, interrupted, I/O error, cannot open.
            Some(refused) => matches!(session::sqlite_code(refused), Some(5 | 6 | 8 | 9 | 10 | 14)),
            None => {
                let code = refused.code().unwrap_or_default();
                // Classes and codes of PostgreSQL: connection lost, resources exhausted, cancelled or shut down, system
                // error. Also: lock not available, read-only, serialisation failure, deadlock, a transaction that was
                // idle or took too long.
                ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class))
                    || matches!(&*code, "55P03" | "25006" | "40001" | "40P01" | "25P03" | "25P04")
            }
        },
        error => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
        ),
    }
}

/// The rows that a statement may read or write: all rows of a platform, or only those of one of its client IDs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID; `None` sees all rows of the platform.
    pub client: Option<ClientRowId>,
}

impl Scope {
    /// All rows of a platform.
    pub fn of_platform(platform: &PlatformId) -> Self {
        Self {
            platform: platform.clone(),
            client: None,
        }
    }
}

impl From<&PlatformCaller> for Scope {
    fn from(caller: &PlatformCaller) -> Self {
        Self {
            platform: caller.platform.clone(),
            client: caller.client().cloned(),
        }
    }
}

/// The endpoints and stored responses that a statement may read or write: those of a platform, of one of its client
/// IDs, or of an orchestrator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Client ID; `None` sees all rows of the owner.
    pub client: Option<ClientRowId>,
    /// Whether the credential is public. A public credential sees only unapproved endpoints, and no response with a
    /// secret is returned to it twice. Source: decisions D32; decisions D34.
    pub is_public: bool,
}

impl From<&Holder> for Holder {
    fn from(holder: &Holder) -> Self {
        holder.clone()
    }
}

impl From<&PlatformCaller> for Holder {
    fn from(caller: &PlatformCaller) -> Self {
        Self {
            owner: (&caller.platform).into(),
            client: caller.client().cloned(),
            is_public: caller.is_public(),
        }
    }
}

impl From<&OrchestratorCaller> for Holder {
    fn from(caller: &OrchestratorCaller) -> Self {
        Self {
            owner: (&caller.id).into(),
            client: None,
            is_public: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_recognised_by_name_partition_name_and_columns() {
        for name in ["requests_reference_key", "requests_reference_key_102195"] {
            assert_eq!(known_constraint(Some(name), ""), Some(REQUEST_REFERENCE), "{name}");
        }
        assert_eq!(known_constraint(Some("requests_pkey_102195"), ""), None);
        let listed = "UNIQUE constraint failed: requests.network, requests.reference, requests.payee";
        assert_eq!(known_constraint(None, listed), Some(REQUEST_REFERENCE));
    }
}
