//! Takes what the partner tells of payers and bank accounts, by a callback or when it is asked.

use crate::{
    ctx::Ctx,
    domain::{
        off_ramp_news::Taken,
        payer::{Payer, RegisteredAccount, account, compliance},
    },
    flows::{
        FlowResult,
        payers::{account_key, change, disbelieved::disbelieved, payer_key},
        publish,
    },
    ports::off_ramp::{AccountNews, PayerNews},
    store,
};

/// Takes news of a payer.
pub async fn payer(ctx: &Ctx, news: &PayerNews) -> FlowResult<Taken> {
    match store::payers::find_by_partner(ctx.db.reader(), &news.id).await? {
        Some(found) => about(ctx, &found, news).await,
        None => Ok(Taken::Unknown),
    }
}

/// Takes news of a known payer; those of another one are not believed, as if nobody was known.
pub(super) async fn about(ctx: &Ctx, found: &Payer, news: &PayerNews) -> FlowResult<Taken> {
    let told = change::told(news);
    let tx = ctx.db.begin("payer_news").await?;
    let locked = store::payers::lock(&tx, &found.platform, &found.id).await?;
    let Some(before) = locked.filter(|payer| !payer.is_erasing) else {
        return Ok(Taken::Unknown);
    };
    let key = payer_key(ctx, &before.platform, &before.details.client_user_id);
    if before.details.partner != news.id || key != news.key {
        return Ok(under_another_key("payer"));
    }
    let Some(after) = compliance::heard(&before, &told, ctx.clock.now()) else {
        return Ok(Taken::Nothing);
    };
    let has_changed = change::write(ctx, &tx, (&before, &after), &news.raw).await?;
    if !has_changed && told.standing != before.standing {
        tracing::warn!(
            payer = %before.id, kyc = before.kyc().wire(), agreement = before.agreement().wire(),
            told_kyc = news.kyc.wire(), told_agreement = news.agreement.wire(),
            "the off-ramp partner tells a state that cannot follow"
        );
    }
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(if has_changed { Taken::Changed } else { Taken::Nothing })
}

/// Takes news of a bank account.
pub async fn account(ctx: &Ctx, news: &AccountNews) -> FlowResult<Taken> {
    match store::bank_accounts::find_by_partner(ctx.db.reader(), &news.id).await? {
        Some(found) => about_account(ctx, &found, news).await,
        None => Ok(Taken::Unknown),
    }
}

/// Takes news of a known bank account; those of another one, or of another payer, are not believed.
pub(super) async fn about_account(ctx: &Ctx, found: &RegisteredAccount, news: &AccountNews) -> FlowResult<Taken> {
    let tx = ctx.db.begin("bank_account_news").await?;
    let locked = store::payers::lock(&tx, &found.platform, &found.payer).await?;
    let Some(payer) = locked.filter(|payer| !payer.is_erasing) else {
        return Ok(Taken::Unknown);
    };
    let before = store::bank_accounts::find(&tx, &found.platform, &found.payer, &found.payment_detail).await?;
    let Some(before) = before else {
        return Ok(Taken::Unknown);
    };
    let user = &payer.details.client_user_id;
    let key = account_key(ctx, &payer.platform, user, &before.content_hash);
    if before.details.partner != news.id || payer.details.partner != news.payer || key != news.key {
        return Ok(under_another_key("account"));
    }
    let told = change::account_told(news);
    let Some(after) = account::heard(&before, told, payer.kyc(), ctx.clock.now()) else {
        return Ok(Taken::Nothing);
    };
    store::bank_accounts::update(&tx, &after).await?;
    let has_changed = after.version != before.version;
    if has_changed {
        publish(ctx, &tx, &change::account_event(&payer, &after)).await?;
    }
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(if has_changed { Taken::Changed } else { Taken::Nothing })
}

fn under_another_key(what: &'static str) -> Taken {
    disbelieved(what, "it tells something under the id of somebody else");
    Taken::Unknown
}
