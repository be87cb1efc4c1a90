//! Stored data of payers and their bank accounts.

use super::{BankAccount, DescribedPayer, standing::PayerCompliance};
use crate::domain::{
    event::{AgreementStatus, ForeignJson, KycStatus, PaymentDetailStatus},
    ids::{BankAccountId, PayerId, PlatformId},
    off_ramp::PaidOutTo,
};
use chrono::{DateTime, Utc};
use std::fmt;

/// All personal data of a payer.
#[derive(Clone, PartialEq, Eq)]
pub struct PayerDetails {
    /// The tenant's own id of the payer.
    pub client_user_id: String,
    /// Submitted data.
    pub person: DescribedPayer,
    /// The partner's id of the payer.
    pub partner: String,
    /// Page where the payer proves their identity; `None` when nothing is left to do.
    pub kyc_url: Option<String>,
    /// Page where the payer agrees to the terms; `None` when nothing is left to do.
    pub agreement_url: Option<String>,
}

/// A payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompliancePayer {
    /// Row.
    pub id: PayerId,
    /// Tenant.
    pub platform: PlatformId,
    /// The public id, a UUID.
    pub user_id: String,
    /// Identity and agreement.
    pub standing: PayerCompliance,
    /// Number of the last reported change of the payer; 0 before the first.
    pub version: u64,
    /// Number of the last known change of the partner.
    pub partner_version: u64,
    /// When it was registered.
    pub created_at: DateTime<Utc>,
    /// When identity or agreement last changed.
    pub changed_at: DateTime<Utc>,
    /// When the partner is queried next.
    pub ask_at: Option<DateTime<Utc>>,
    /// Whether an erasure was requested and is not finished.
    pub is_erasing: bool,
    /// Whether the tenant requested the erasure of the payer while a payout was still in progress.
    pub is_leaving: bool,
    /// Time until which a call to the partner may be in flight that sends the payer's data or requests the erasure.
    pub in_flight_until: Option<DateTime<Utc>>,
    /// All its personal data.
    pub details: PayerDetails,
}

/// A first registration of a payer that was sent to the partner and is not stored as a payer yet. The partner may have
/// accepted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerRegistration {
    /// Key under which the partner stores the payer.
    pub partner_key: String,
    /// Tenant.
    pub platform: PlatformId,
    /// Time until which a call to the partner may be in flight that sends the data or requests the erasure.
    pub in_flight_until: DateTime<Utc>,
    /// Whether an erasure was requested and is not finished.
    pub is_erasing: bool,
}

/// All personal data of the holder of a bank account.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountDetails {
    /// Submitted data.
    pub account: BankAccount,
    /// The partner's id of the account.
    pub partner: String,
    /// Why the partner rejected it.
    pub rejection: Option<String>,
    /// Last news of the partner in its original form, for the event.
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
    /// Keyed hash of the submitted data and of the number of earlier failures of the same data.
    pub content_hash: String,
    /// State.
    pub status: PaymentDetailStatus,
    /// News that the partner sent while the payer was not approved. It takes effect once the payer is approved.
    pub told: Option<PaymentDetailStatus>,
    /// Number of the last reported change of the account.
    pub version: u64,
    /// Number of the last known change of the partner.
    pub partner_version: u64,
    /// When it was added.
    pub created_at: DateTime<Utc>,
    /// When the state last changed.
    pub changed_at: DateTime<Utc>,
    /// When the partner is queried next.
    pub ask_at: Option<DateTime<Utc>>,
    /// All personal data of the holder of the account.
    pub details: AccountDetails,
}

/// A payer who may pay, and the bank account to which the payment is paid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayableBy {
    /// Payer and bank account of the payout.
    pub to: PaidOutTo,
    /// Whether the payer is erased once the payout has arrived.
    pub is_leaving: bool,
    /// The partner's id of the payer.
    pub partner_payer: String,
    /// The partner's id of the bank account.
    pub partner_account: String,
    /// Currency of the bank account, ISO 4217 in lower case.
    pub currency: String,
}

impl CompliancePayer {
    /// Identity status.
    pub fn kyc(&self) -> KycStatus {
        self.standing.kyc
    }

    /// Agreement status.
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
