//! Writes what became of a payer with its bank accounts, and the events that tell it, in one transaction.

use crate::{
    ctx::Ctx,
    domain::{
        event::{ComplianceUpdated, Event, ForeignJson, PaymentDetailUpdated},
        payer::{
            Payer, RegisteredAccount,
            account::{self, AccountTold},
            compliance::Told,
            standing::Standing,
        },
    },
    flows::publish_all,
    ports::off_ramp::{AccountNews, PayerNews},
    store::{self, StoreError, Tx},
};

/// What a partner tells of a payer, for the rules.
pub(super) fn told(news: &PayerNews) -> Told {
    Told {
        partner: news.id.clone(),
        version: news.version,
        standing: Standing {
            kyc: news.kyc,
            agreement: news.agreement,
        },
        kyc_url: news.kyc_url.clone(),
        agreement_url: news.agreement_url.clone(),
    }
}

/// What a partner tells of a bank account, for the rules.
pub(super) fn account_told(news: &AccountNews) -> AccountTold {
    AccountTold {
        version: news.version,
        status: news.status,
        rejection: news.rejection.clone(),
        raw: news.raw.clone(),
    }
}

/// That a payer changed.
pub(super) fn compliance_event(payer: &Payer, raw: &ForeignJson) -> Event {
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

/// That a bank account changed.
pub(super) fn account_event(payer: &Payer, account: &RegisteredAccount) -> Event {
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

/// Writes a payer that is locked after the partner told something; tells whether it changed. Bank accounts that waited for
/// its approval follow in the same commit.
pub(super) async fn write(
    ctx: &Ctx,
    tx: &Tx,
    (before, after): (&Payer, &Payer),
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
