//! Writes a changed payer with its bank accounts, and the events about it, in one transaction.

use crate::{
    ctx::Ctx,
    domain::{
        event::{ComplianceUpdated, Event, ForeignJson, PaymentDetailUpdated},
        payer::{
            CompliancePayer, RegisteredAccount,
            account::{self, AccountTold},
            compliance::ReportedCompliance,
            standing::PayerCompliance,
        },
    },
    flows::publish_all,
    ports::off_ramp::{AccountNews, PayerNews},
    store::{self, StoreError, Tx},
};

/// Converts news of the partner about a payer to the values of the domain.
pub(super) fn convert_payer_news(news: &PayerNews) -> ReportedCompliance {
    ReportedCompliance {
        partner: news.id.clone(),
        version: news.version,
        standing: PayerCompliance {
            kyc: news.kyc,
            agreement: news.agreement,
        },
        kyc_url: news.kyc_url.clone(),
        agreement_url: news.agreement_url.clone(),
    }
}

/// Converts news of the partner about a bank account to the values of the domain.
pub(super) fn convert_account_news(news: &AccountNews) -> AccountTold {
    AccountTold {
        version: news.version,
        status: news.status,
        rejection: news.rejection.clone(),
        raw: news.raw.clone(),
    }
}

/// The event about a changed payer.
pub(super) fn compliance_event(payer: &CompliancePayer, raw: &ForeignJson) -> Event {
    Event::ComplianceUpdated(Box::new(ComplianceUpdated {
        platform: payer.platform.clone(),
        payer: payer.id.clone(),
        client_user_id: payer.details.client_user_id.clone(),
        kyc: payer.standing.kyc,
        agreement: payer.standing.agreement,
        version: payer.version,
        raw: raw.clone(),
        at: payer.changed_at,
    }))
}

/// The event about a changed bank account.
pub(super) fn account_event(payer: &CompliancePayer, account: &RegisteredAccount) -> Event {
    Event::PaymentDetailUpdated(Box::new(PaymentDetailUpdated {
        platform: account.platform.clone(),
        payer: account.payer.clone(),
        payment_detail: account.payment_detail.clone(),
        client_user_id: payer.details.client_user_id.clone(),
        status: account.status,
        rejection_message: account.details.rejection.clone(),
        version: account.version,
        raw: account.details.raw.clone(),
        at: account.changed_at,
    }))
}

/// Writes a locked payer after news of the partner; returns whether the payer changed. Bank accounts that waited for
/// the approval of the payer are updated in the same commit.
pub(super) async fn write(
    ctx: &Ctx,
    tx: &Tx,
    before: &CompliancePayer,
    after: &CompliancePayer,
    raw: &ForeignJson,
) -> Result<bool, StoreError> {
    store::payers::update(tx, after).await?;
    if after.version == before.version {
        return Ok(false);
    }
    let mut events = vec![compliance_event(after, raw)];
    if after.standing.kyc != before.standing.kyc {
        for waiting in store::bank_accounts::list(tx, &after.platform, &after.id).await? {
            if let Some(released) = account::released(&waiting, after.standing.kyc, after.changed_at) {
                store::bank_accounts::update(tx, &released).await?;
                events.push(account_event(after, &released));
            }
        }
    }
    publish_all(ctx, tx, &events).await?;
    Ok(true)
}
