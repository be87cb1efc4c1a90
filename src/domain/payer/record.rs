//! What is kept of payers and their bank accounts.

use super::{BankAccount, Person, standing::Standing};
use crate::domain::{
    event::{AgreementStatus, ForeignJson, KycStatus, PaymentDetailStatus},
    ids::{BankAccountId, PayerId, PlatformId},
    off_ramp::PaidOutTo,
};
use chrono::{DateTime, Utc};
use std::fmt;

/// All that names a payer.
#[derive(Clone, PartialEq, Eq)]
pub struct PayerDetails {
    /// The tenant's own id.
    pub client_user_id: String,
    /// The form.
    pub person: Person,
    /// The partner's own id.
    pub partner: String,
    /// Where the payer proves who they are, while there is something to do.
    pub kyc_url: Option<String>,
    /// Where the payer agrees to the terms, while there is something to do.
    pub agreement_url: Option<String>,
}

/// A payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payer {
    /// Row.
    pub id: PayerId,
    /// Tenant.
    pub platform: PlatformId,
    /// The public id, a UUID.
    pub user_id: String,
    /// Identity and terms.
    pub standing: Standing,
    /// Number of the last change that was told; 0 before the first.
    pub version: u64,
    /// Number of the last change of the partner that is known.
    pub partner_version: u64,
    /// When it was registered.
    pub created_at: DateTime<Utc>,
    /// When identity or terms changed last.
    pub changed_at: DateTime<Utc>,
    /// When the partner is asked next.
    pub ask_at: Option<DateTime<Utc>>,
    /// Whether erasure was asked for and is not done.
    pub is_erasing: bool,
    /// Whether its tenant wants it erased, and money is on its way still.
    pub is_leaving: bool,
    /// Until when a call that hands the partner something of it, or has it forgotten, may be in flight.
    pub in_flight_until: Option<DateTime<Utc>>,
    /// All that names it.
    pub details: PayerDetails,
}

/// A first registration that the partner may have taken, and that came to no payer here yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerRegistration {
    /// Under which the partner keeps the payer.
    pub partner_key: String,
    /// Tenant.
    pub platform: PlatformId,
    /// Until when a call that hands the partner the form, or has it forgotten, may be in flight.
    pub in_flight_until: DateTime<Utc>,
    /// Whether erasure was asked for and is not done.
    pub is_erasing: bool,
}

/// All that names the holder of a bank account.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountDetails {
    /// The form.
    pub account: BankAccount,
    /// The partner's own id.
    pub partner: String,
    /// Why the partner refused it.
    pub rejection: Option<String>,
    /// What the partner told last, for the event.
    pub raw: ForeignJson,
}

/// A bank account of a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredAccount {
    /// Row.
    pub id: BankAccountId,
    /// Tenant.
    pub platform: PlatformId,
    /// Payer.
    pub payer: PayerId,
    /// The public id, a UUID.
    pub payment_detail: String,
    /// Keyed hash of what was handed in, and of how often it failed before.
    pub content_hash: String,
    /// State.
    pub status: PaymentDetailStatus,
    /// What the partner told while the payer was not approved; it counts once the payer is.
    pub told: Option<PaymentDetailStatus>,
    /// Number of the last change that was told.
    pub version: u64,
    /// Number of the last change of the partner that is known.
    pub partner_version: u64,
    /// When it was added.
    pub created_at: DateTime<Utc>,
    /// When the state changed last.
    pub changed_at: DateTime<Utc>,
    /// When the partner is asked next.
    pub ask_at: Option<DateTime<Utc>>,
    /// All that names its holder.
    pub details: AccountDetails,
}

/// A payer who may pay, and the bank account that is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayableBy {
    /// To whom the money goes.
    pub to: PaidOutTo,
    /// Whether the payer is to be erased once its money has arrived.
    pub is_leaving: bool,
    /// The partner's own id of the payer.
    pub partner_payer: String,
    /// The partner's own id of the bank account.
    pub partner_account: String,
    /// Currency of the bank account, ISO 4217 in lower case.
    pub currency: String,
}

impl Payer {
    /// Identity.
    pub fn kyc(&self) -> KycStatus {
        self.standing.kyc
    }

    /// Terms.
    pub fn agreement(&self) -> AgreementStatus {
        self.standing.agreement
    }
}

impl fmt::Debug for PayerDetails {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PayerDetails")
    }
}

impl fmt::Debug for AccountDetails {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AccountDetails")
    }
}
