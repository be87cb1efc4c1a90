//! A payer after the partner told something, and after its tenant registered it. Source: rules S.5.

use super::{Payer, PayerDetails, Person, asking, standing::Standing};
use crate::domain::ids::{PayerId, PlatformId};
use chrono::{DateTime, Utc};

/// What the partner tells of a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its own id of the payer.
    pub partner: String,
    /// Number of the change.
    pub version: u64,
    /// Identity and terms.
    pub standing: Standing,
    /// Where the payer proves who they are.
    pub kyc_url: Option<String>,
    /// Where the payer agrees to the terms.
    pub agreement_url: Option<String>,
}

/// A payer after the partner told something; `None` when that was overtaken by what is known.
pub fn heard(payer: &Payer, told: &Told, now: DateTime<Utc>) -> Option<Payer> {
    if told.version <= payer.partner_version {
        return None;
    }
    Some(after(payer, told, payer.standing.hear(told.standing), now))
}

/// A payer after the tenant registered it again, with what the partner answered.
pub fn registered_again(payer: &Payer, person: Person, told: &Told, now: DateTime<Utc>) -> Payer {
    let is_other = told.partner != payer.details.partner;
    let mut next = match is_other || told.version > payer.partner_version {
        true => after(payer, told, payer.standing.register(told.standing), now),
        false => payer.clone(),
    };
    if next.standing.takes_data() {
        next.details.person = person;
    }
    next
}

/// A payer whom the tenant registers for the first time.
pub fn registered(
    (id, platform, user_id): (PayerId, PlatformId, String),
    (client_user_id, person): (String, Person),
    told: &Told,
    now: DateTime<Utc>,
) -> Payer {
    let new = Payer {
        id,
        platform,
        user_id,
        standing: Standing::NEW,
        version: 0,
        partner_version: 0,
        created_at: now,
        changed_at: now,
        ask_at: None,
        is_erasing: false,
        is_leaving: false,
        in_flight_until: None,
        details: PayerDetails {
            client_user_id,
            person,
            partner: told.partner.clone(),
            kyc_url: None,
            agreement_url: None,
        },
    };
    after(&new, told, Standing::NEW.hear(told.standing), now)
}

fn after(payer: &Payer, told: &Told, standing: Standing, now: DateTime<Utc>) -> Payer {
    let has_changed = standing != payer.standing;
    let changed_at = if has_changed { now } else { payer.changed_at };
    Payer {
        standing,
        version: payer.version + u64::from(has_changed),
        partner_version: told.version,
        changed_at,
        ask_at: asking::about_payer(now, changed_at, standing),
        details: PayerDetails {
            partner: told.partner.clone(),
            kyc_url: told.kyc_url.clone(),
            agreement_url: told.agreement_url.clone(),
            ..payer.details.clone()
        },
        ..payer.clone()
    }
}
