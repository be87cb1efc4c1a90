//! Handles the partner's news of payers and bank accounts, from a callback or a query.

use crate::{
    ctx::Ctx,
    domain::{
        off_ramp_news::NewsResult,
        payer::{CompliancePayer, RegisteredAccount, account, compliance},
    },
    flows::{
        FlowResult,
        payers::{account_key, change, disbelieved::disbelieved, payer_key},
        publish,
    },
    ports::off_ramp::{AccountNews, PayerNews},
    store,
};

/// Handles news of a payer.
pub async fn payer(ctx: &Ctx, news: &PayerNews) -> FlowResult<NewsResult> {
    match store::payers::find_by_partner(ctx.db.reader(), &news.id).await? {
        Some(found) => about(ctx, &found, news).await,
        None => Ok(NewsResult::Unknown),
    }
}

/// Handles news of a known payer. News whose id or key belongs to another payer is rejected as unknown.
pub(super) async fn about(ctx: &Ctx, found: &CompliancePayer, news: &PayerNews) -> FlowResult<NewsResult> {
    let told = change::convert_payer_news(news);
    let tx = ctx.db.begin("payer_news").await?;
    let locked = store::payers::lock(&tx, &found.platform, &found.id).await?;
    let Some(before) = locked.filter(|payer| !payer.is_erasing) else {
        return Ok(NewsResult::Unknown);
    };
    let key = payer_key(ctx, &before.platform, &before.details.client_user_id);
    if before.details.partner != news.id || key != news.key {
        return Ok(under_another_key("payer"));
    }
    let Some(after) = compliance::heard(&before, &told, ctx.clock.now()) else {
        return Ok(NewsResult::Nothing);
    };
    let has_changed = change::write(ctx, &tx, &before, &after, &news.raw).await?;
    if !has_changed && told.standing != before.standing {
        tracing::warn!(
            payer = %before.id, kyc = before.kyc().wire(), agreement = before.agreement().wire(),
            told_kyc = news.kyc.wire(), told_agreement = news.agreement.wire(),
            "the off-ramp partner reports an invalid state transition"
        );
    }
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(if has_changed {
        NewsResult::Changed
    } else {
        NewsResult::Nothing
    })
}

/// Handles news of a bank account.
pub async fn account(ctx: &Ctx, news: &AccountNews) -> FlowResult<NewsResult> {
    match store::bank_accounts::find_by_partner(ctx.db.reader(), &news.id).await? {
        Some(found) => about_account(ctx, &found, news).await,
        None => Ok(NewsResult::Unknown),
    }
}

/// Handles news of a known bank account. News whose id or key belongs to another account or payer is rejected as
/// unknown.
pub(super) async fn about_account(ctx: &Ctx, found: &RegisteredAccount, news: &AccountNews) -> FlowResult<NewsResult> {
    let tx = ctx.db.begin("bank_account_news").await?;
    let locked = store::payers::lock(&tx, &found.platform, &found.payer).await?;
    let Some(payer) = locked.filter(|payer| !payer.is_erasing) else {
        return Ok(NewsResult::Unknown);
    };
    let before = store::bank_accounts::find(&tx, &found.platform, &found.payer, &found.payment_detail).await?;
    let Some(before) = before else {
        return Ok(NewsResult::Unknown);
    };
    let user = &payer.details.client_user_id;
    let key = account_key(ctx, &payer.platform, user, &before.content_hash);
    if before.details.partner != news.id || payer.details.partner != news.payer || key != news.key {
        return Ok(under_another_key("account"));
    }
    let told = change::convert_account_news(news);
    let Some(after) = account::heard(&before, told, payer.kyc(), ctx.clock.now()) else {
        return Ok(NewsResult::Nothing);
    };
    store::bank_accounts::update(&tx, &after).await?;
    let has_changed = after.version != before.version;
    if has_changed {
        publish(ctx, &tx, &change::account_event(&payer, &after)).await?;
    }
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(if has_changed {
        NewsResult::Changed
    } else {
        NewsResult::Nothing
    })
}

fn under_another_key(what: &'static str) -> NewsResult {
    disbelieved(
        what,
        "the news has the id of one record and the key or payer of another",
    );
    NewsResult::Unknown
}
