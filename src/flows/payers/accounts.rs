//! Adds bank accounts to payers, and lists them.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        event::PaymentDetailStatus,
        ids::BankAccountId,
        off_ramp_refusal::OffRampRefusal,
        payer::{
            ACCOUNT_FIELDS, AccountDetails, BankAccount, CompliancePayer, RegisteredAccount, account, bank_rules,
            standing::AccountStanding,
        },
        refusal::{FieldError, Refusal},
    },
    flows::{
        FlowError, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
        payers::{
            account_key, change, hand::hand, known, not_done, partner, register::uuid, report_other_record,
            turns::turn, unknown,
        },
        publish_all,
    },
    ports::off_ramp::{AccountNews, OffRampError},
    store::{self, StoreError, Tx},
};

/// A bank account with its payer.
pub type PayerAccount = (CompliancePayer, RegisteredAccount);

/// Adds a bank account. An existing account that has not failed is not added again.
///
/// Errors:
/// - 404: an unknown payer.
/// - 400: the partner refuses the account.
/// - 502: the partner does not respond or returns the record of another account.
/// - 409: the payer has the maximum number of accounts.
///
/// Source: interface §4.5; rules S.6.
pub async fn add(
    ctx: &Ctx,
    caller: &PlatformCaller,
    client_user_id: &str,
    form: &BankAccount,
    call: RepeatableCall<PayerAccount>,
) -> FlowResult<KeyedResult<PayerAccount>> {
    let platform = &caller.platform;
    idempotency::once(ctx, caller, call, ResponseStorage::OfPayer, async |keeper| {
        let payer = known(ctx, platform, client_user_id).await?;
        let there = store::bank_accounts::list(ctx.db.reader(), platform, &payer.id).await?;
        let same = there.iter().filter(|account| account.details.account == *form);
        if let Some(same) = same.clone().find(|account| !has_failed(account)) {
            let owned = (payer.clone(), same.clone());
            let tx = ctx.db.begin("answer_for_bank_account").await?;
            keeper.commit_of(tx, &owned, Some(&payer.id)).await?;
            return Ok(owned);
        }
        admit_another(ctx, &there)?;
        let failures = u64::try_from(same.count()).unwrap_or(u64::MAX);
        let content_hash = store::bank_accounts::content_hash(ctx.db.reader(), &payer.id, form, failures)?;
        let key = account_key(ctx, platform, client_user_id, &content_hash);
        let added = partner(ctx)?.add_account(&key, &payer.details.partner, form);
        let turn = turn(ctx, caller).await.map_err(|error| refused(&error))?;
        let answered = hand(ctx, turn, &payer, added).await?;
        let news = answered
            .ok_or_else(|| unknown(client_user_id))?
            .map_err(|error| refused(&error))?;
        if news.payer != payer.details.partner {
            return Err(report_other_record("add_account"));
        }
        let (tx, owned) = match commit(ctx, &payer, form, &content_hash, &news).await? {
            Some(done) => done,
            // A concurrent call added it, and it is found now.
            None => commit(ctx, &payer, form, &content_hash, &news)
                .await?
                .ok_or_else(|| report_other_record("add_account"))?,
        };
        keeper.commit_of(tx, &owned, Some(&payer.id)).await?;
        ctx.due.notify_one();
        Ok(owned)
    })
    .await
}

fn has_failed(account: &RegisteredAccount) -> bool {
    account.status == PaymentDetailStatus::Failed || account.told == Some(PaymentDetailStatus::Failed)
}

/// Errors: with one more account the payer exceeds the cap (409). Failed accounts have a separate cap.
fn admit_another(ctx: &Ctx, there: &[RegisteredAccount]) -> Result<(), Refusal> {
    let failed = there.iter().filter(|account| has_failed(account)).count();
    let usable = there.len() - failed;
    let another = |count| u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1);
    ctx.caps.admit_bank_accounts(another(usable))?;
    ctx.caps.admit_failed_accounts(another(failed))
}

/// Stores the partner's response; the transaction remains open. `None` when a concurrent call stored the account, or an
/// account with the same partner id.
async fn commit(
    ctx: &Ctx,
    payer: &CompliancePayer,
    form: &BankAccount,
    content_hash: &str,
    news: &AccountNews,
) -> FlowResult<Option<(Tx, PayerAccount)>> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("add_bank_account").await?;
    let locked = store::payers::lock(&tx, &payer.platform, &payer.id).await?;
    let locked = locked.filter(|payer| !payer.is_erasing);
    let payer = locked.ok_or_else(|| unknown(&payer.details.client_user_id))?;
    let there = store::bank_accounts::list(&tx, &payer.platform, &payer.id).await?;
    if let Some(same) = there.iter().find(|account| account.content_hash == content_hash) {
        return if same.details.partner == news.id {
            Ok(Some((tx, (payer, same.clone()))))
        } else {
            Err(report_other_record("add_account"))
        };
    }
    admit_another(ctx, &there)?;
    let new = account::handed_in(RegisteredAccount {
        id: BankAccountId(ctx.ids.ulid()),
        platform: payer.platform.clone(),
        payer: payer.id.clone(),
        payment_detail: uuid(ctx.ids.as_ref()),
        content_hash: content_hash.to_owned(),
        status: AccountStanding::NEW.status,
        told: AccountStanding::NEW.told,
        version: 0,
        partner_version: 0,
        created_at: now,
        changed_at: now,
        ask_at: None,
        details: AccountDetails {
            account: form.clone(),
            partner: news.id.clone(),
            rejection: None,
            raw: news.raw.clone(),
        },
    });
    let told = change::convert_account_news(news);
    let now_known = account::heard(&new, told, payer.kyc(), now).unwrap_or_else(|| new.clone());
    match store::bank_accounts::insert(&tx, &now_known).await {
        Err(StoreError::Conflict(_)) => return Ok(None),
        other => other?,
    }
    let mut events = vec![change::account_event(&payer, &new)];
    if now_known.version != new.version {
        events.push(change::account_event(&payer, &now_known));
    }
    publish_all(ctx, &tx, &events).await?;
    Ok(Some((tx, (payer, now_known))))
}

/// The bank accounts of a payer, oldest first, or only the account that the caller names. Errors: an unknown payer or
/// account (404).
pub async fn list(
    ctx: &Ctx,
    caller: &PlatformCaller,
    client_user_id: &str,
    payment_detail: Option<&str>,
) -> FlowResult<(CompliancePayer, Vec<RegisteredAccount>)> {
    let payer = known(ctx, &caller.platform, client_user_id).await?;
    let reader = ctx.db.reader();
    let accounts = match payment_detail {
        None => store::bank_accounts::list(reader, &caller.platform, &payer.id).await?,
        Some(id) => {
            let found = store::bank_accounts::find(reader, &caller.platform, &payer.id, id).await?;
            vec![found.ok_or_else(|| Refusal::not_found("This payer has no payment details with this ID"))?]
        }
    };
    Ok((payer, accounts))
}

/// Message when the partner refuses a bank account.
fn refused(error: &OffRampError) -> FlowError {
    let OffRampError::Refused { reason, fields } = error else {
        return not_done(error);
    };
    let named = ACCOUNT_FIELDS
        .iter()
        .filter(|name| fields.iter().any(|field| field == *name));
    let named: Vec<FieldError> = named
        .map(|name| FieldError::new(*name, "is not accepted by the off-ramp partner"))
        .collect();
    if named.is_empty() && *reason != OffRampRefusal::InvalidAccount {
        let why = reason.sentence();
        return Refusal::invalid(format!("The off-ramp partner does not accept this bank account: {why}")).into();
    }
    let mut refusal = Refusal::invalid(bank_rules::INVALID);
    refusal.fields = named;
    refusal.into()
}
