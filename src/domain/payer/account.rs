//! Changes of a bank account after news of the partner, and after its payer was approved. Source: rules S.6.

use super::{RegisteredAccount, asking, standing::AccountStanding};
use crate::domain::event::{ForeignJson, KycStatus, PaymentDetailStatus};
use chrono::{DateTime, Utc};

/// News of the partner about a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountTold {
    /// Number of the change.
    pub version: u64,
    /// State.
    pub status: PaymentDetailStatus,
    /// Why it was rejected.
    pub rejection: Option<String>,
    /// Original news, for the event.
    pub raw: ForeignJson,
}

impl RegisteredAccount {
    /// The state, and stored news of the partner that takes effect once the payer is approved.
    pub fn standing(&self) -> AccountStanding {
        AccountStanding {
            status: self.status,
            told: self.told,
        }
    }

    fn with(&self, standing: AccountStanding, now: DateTime<Utc>) -> Self {
        let has_changed = standing.status != self.status;
        let changed_at = if has_changed { now } else { self.changed_at };
        Self {
            status: standing.status,
            told: standing.told,
            version: self.version + u64::from(has_changed),
            changed_at,
            ask_at: asking::about_account(now, changed_at, standing),
            ..self.clone()
        }
    }
}

/// A bank account after news of the partner; `None` when the news is outdated.
pub fn heard(
    account: &RegisteredAccount,
    told: AccountTold,
    kyc: KycStatus,
    now: DateTime<Utc>,
) -> Option<RegisteredAccount> {
    if told.version <= account.partner_version {
        return None;
    }
    let before = account.standing();
    let after = before.hear(told.status, kyc);
    let mut next = account.with(after, now);
    next.partner_version = told.version;
    if after != before {
        next.details.rejection = told.rejection;
        next.details.raw = told.raw;
    }
    Some(next)
}

/// A newly submitted bank account. Its first state is always reported, whatever state the partner returned.
pub fn handed_in(new: RegisteredAccount) -> RegisteredAccount {
    RegisteredAccount {
        version: 1,
        ask_at: asking::about_account(new.created_at, new.created_at, new.standing()),
        ..new
    }
}

/// A bank account after its payer was approved; `None` when the account does not change.
pub fn released(account: &RegisteredAccount, kyc: KycStatus, now: DateTime<Utc>) -> Option<RegisteredAccount> {
    let standing = account.standing().release(kyc);
    (standing != account.standing()).then(|| account.with(standing, now))
}
