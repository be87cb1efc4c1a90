//! Changes of a payer after news of the partner, and after its tenant registered it. Source: rules S.5.

use super::{CompliancePayer, DescribedPayer, PayerDetails, asking, standing::PayerCompliance};
use crate::domain::ids::{PayerId, PlatformId};
use chrono::{DateTime, Utc};

/// News of the partner about a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCompliance {
    /// The partner's id of the payer.
    pub partner: String,
    /// Number of the change.
    pub version: u64,
    /// Identity and agreement.
    pub standing: PayerCompliance,
    /// Page where the payer proves their identity.
    pub kyc_url: Option<String>,
    /// Page where the payer agrees to the terms.
    pub agreement_url: Option<String>,
}

/// A payer after news of the partner; `None` when the news is outdated.
pub fn heard(payer: &CompliancePayer, told: &ReportedCompliance, now: DateTime<Utc>) -> Option<CompliancePayer> {
    if told.version <= payer.partner_version {
        return None;
    }
    Some(after(payer, told, payer.standing.hear(told.standing), now))
}

/// A payer after the tenant registered it again, with the partner's response.
pub fn registered_again(
    payer: &CompliancePayer,
    person: DescribedPayer,
    told: &ReportedCompliance,
    now: DateTime<Utc>,
) -> CompliancePayer {
    let is_other = told.partner != payer.details.partner;
    let mut next = if is_other || told.version > payer.partner_version {
        after(payer, told, payer.standing.register(told.standing), now)
    } else {
        payer.clone()
    };
    if next.standing.takes_data() {
        next.details.person = person;
    }
    next
}

/// A payer that the tenant registers for the first time.
pub fn registered(
    id: PayerId,
    platform: PlatformId,
    user_id: String,
    client_user_id: String,
    person: DescribedPayer,
    told: &ReportedCompliance,
    now: DateTime<Utc>,
) -> CompliancePayer {
    let new = CompliancePayer {
        id,
        platform,
        user_id,
        standing: PayerCompliance::NEW,
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
    after(&new, told, PayerCompliance::NEW.hear(told.standing), now)
}

fn after(
    payer: &CompliancePayer,
    told: &ReportedCompliance,
    standing: PayerCompliance,
    now: DateTime<Utc>,
) -> CompliancePayer {
    let has_changed = standing != payer.standing;
    let changed_at = if has_changed { now } else { payer.changed_at };
    CompliancePayer {
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
