//! When the partner is queried for news that may have been lost: soon after a change, and then less often.

use super::standing::{AccountStanding, PayerCompliance};
use crate::domain::event::{AgreementStatus, KycStatus};
use chrono::{DateTime, TimeDelta, Utc};

/// Pause after a change.
const SHORTEST: TimeDelta = TimeDelta::minutes(1);

/// Pause for records that have not changed for long, and for records that hardly ever change.
const LONGEST: TimeDelta = TimeDelta::hours(24);

/// The partner is queried again after this fraction of the time since the last change.
const PART: i32 = 4;

/// When the partner is queried next about an open record that last changed at `changed_at`.
fn next(now: DateTime<Utc>, changed_at: DateTime<Utc>) -> DateTime<Utc> {
    let pause = (now - changed_at) / PART;
    now + pause.clamp(SHORTEST, LONGEST)
}

/// When the partner is queried next about a payer; `None` when no more news is expected. An approval can be revoked, so
/// news about an approved payer is expected.
pub fn about_payer(now: DateTime<Utc>, changed_at: DateTime<Utc>, standing: PayerCompliance) -> Option<DateTime<Utc>> {
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

/// When the partner is queried next about a bank account; `None` when no more news is expected.
pub fn about_account(
    now: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    standing: AccountStanding,
) -> Option<DateTime<Utc>> {
    standing.is_open().then(|| next(now, changed_at))
}
