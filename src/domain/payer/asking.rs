//! When the partner is asked about what it may have told in vain: soon after a change, and more slowly with age.

use super::standing::{AccountStanding, Standing};
use crate::domain::event::{AgreementStatus, KycStatus};
use chrono::{DateTime, TimeDelta, Utc};

/// Pause after a change.
const SHORTEST: TimeDelta = TimeDelta::minutes(1);

/// Pause of what has not changed for long, and of what changes hardly ever.
const LONGEST: TimeDelta = TimeDelta::hours(24);

/// Part of its age after which the partner is asked again.
const PART: i32 = 4;

/// When the partner is asked next about something open that changed at a time.
fn next(now: DateTime<Utc>, changed_at: DateTime<Utc>) -> DateTime<Utc> {
    let pause = (now - changed_at) / PART;
    now + pause.clamp(SHORTEST, LONGEST)
}

/// When the partner is asked next about a payer; `None` when it has nothing more to tell. An approval may be taken back.
pub fn about_payer(now: DateTime<Utc>, changed_at: DateTime<Utc>, standing: Standing) -> Option<DateTime<Utc>> {
    let is_settled = matches!(
        standing.agreement,
        AgreementStatus::Completed | AgreementStatus::Rejected
    );
    match standing.kyc {
        KycStatus::Rejected => None,
        KycStatus::Approved if is_settled => Some(now + LONGEST),
        _ => Some(next(now, changed_at)),
    }
}

/// When the partner is asked next about a bank account; `None` when it has nothing more to tell.
pub fn about_account(
    now: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    standing: AccountStanding,
) -> Option<DateTime<Utc>> {
    standing.is_open().then(|| next(now, changed_at))
}
