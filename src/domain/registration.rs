//! Who may register: with an e-mail address, or with a wallet that signs in for the first time.

use super::{address::Address, ids::InviteId, refusal::Refusal};
use chrono::{DateTime, TimeDelta, Utc};

/// Lifetime of an invite.
pub const INVITE_LIFETIME: TimeDelta = TimeDelta::days(7);

/// Who may register. Existing accounts and wallets can always sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Everyone.
    Open,
    /// People with an invite.
    Invited,
    /// No one.
    Off,
}

/// Recipient of an invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invitee {
    /// Anyone with its code.
    Anybody,
    /// Anyone who has the code and registers with this e-mail address, normalised by `normal_email`.
    Email(String),
    /// This wallet. It needs no code, because its signature proves its identity.
    Wallet(Address),
}

/// Permission to register one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// Row.
    pub id: InviteId,
    /// What it requires.
    pub claim: Claim,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Time of expiry.
    pub expires_at: DateTime<Utc>,
}

/// How an invite is identified, and what a new user presents to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A code, for anyone or for one e-mail address.
    Code {
        /// Hexadecimal SHA-256 of the code.
        hash: String,
        /// Hexadecimal SHA-256 of the code followed by the e-mail address. `None` for an invite for anyone, and for a
        /// new user who registers with a wallet.
        email_hash: Option<String>,
    },
    /// The signature of a wallet.
    Wallet(Address),
}

/// Rejects a new user when registration is closed.
pub fn closed() -> Refusal {
    Refusal::forbidden("Registration is closed; contact the operator of this service")
}

/// Rejects a new user without an invite.
pub fn uninvited() -> Refusal {
    Refusal::forbidden("Registration requires an invite from the operator; send it as invite")
}

/// Rejects a new user with an invalid invite.
pub fn not_invited() -> Refusal {
    Refusal::forbidden("The invite is unknown, used, expired or for another person; ask the operator for a new one")
}
