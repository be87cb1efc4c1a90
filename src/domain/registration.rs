//! Who may open an account: register with an e-mail address, or sign in with a wallet that never did.

use super::{address::Address, ids::InviteId, refusal::Refusal};
use chrono::{DateTime, TimeDelta, Utc};

/// How long an invite can be used.
pub const INVITE_LIFETIME: TimeDelta = TimeDelta::days(7);

/// Who may open an account. Accounts and wallets that are there sign in either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Anybody.
    Open,
    /// Who has an invite.
    Invited,
    /// Nobody.
    Off,
}

/// Whom an invite is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invitee {
    /// Whoever shows its code.
    Anybody,
    /// Whoever shows its code and registers with this e-mail address, as `normal_email` writes it.
    Email(String),
    /// This wallet, which needs no code: its signature shows who it is.
    Wallet(Address),
}

/// Permission to open one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// Row.
    pub id: InviteId,
    /// What has to be shown for it.
    pub claim: Claim,
    /// Time of its making.
    pub created_at: DateTime<Utc>,
    /// First moment at which it is too late.
    pub expires_at: DateTime<Utc>,
}

/// What an invite is known by, and what a newcomer shows for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A code, for whoever has it or for one e-mail address.
    Code {
        /// Hexadecimal SHA-256 of the code.
        hash: String,
        /// Hexadecimal SHA-256 of the code and the e-mail address behind it. Of an invite: `None` when it is for
        /// anybody; of a newcomer: `None` when it is a wallet.
        email_hash: Option<String>,
    },
    /// The signature of a wallet.
    Wallet(Address),
}

/// The refusal of a newcomer where nobody opens accounts.
pub fn closed() -> Refusal {
    Refusal::forbidden("No accounts are opened here; ask the operator of this service")
}

/// The refusal of a newcomer who shows nothing.
pub fn uninvited() -> Refusal {
    Refusal::forbidden("Accounts are opened with an invite of the operator; send it as invite")
}

/// The refusal of a newcomer whose invite does not fit.
pub fn not_invited() -> Refusal {
    Refusal::forbidden("The invite is unknown, used, expired or for somebody else; ask the operator for another one")
}
