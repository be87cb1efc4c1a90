//! Receives news from partners, and passes each piece to the module for the kind of record that it is about.

use crate::{
    ctx::Ctx,
    domain::off_ramp_news::NewsResult,
    flows::{FlowError, FlowResult, off_ramp, payers},
    ports::off_ramp::PartnerNews,
};
use anyhow::anyhow;
use tokio::time::timeout;

/// Accepts news of the off-ramp partner. Repeated and outdated news changes nothing.
///
/// Only a few pieces of news are handled at a time. Transactions about one record wait for each other, and would
/// otherwise hold the connections that other callers need. Errors: too many pieces of news wait (503).
pub async fn run(ctx: &Ctx, news: &PartnerNews) -> FlowResult<NewsResult> {
    let place = timeout(ctx.waits.news, ctx.news.acquire()).await;
    let Ok(Ok(_place)) = place else {
        return Err(FlowError::NotYet(anyhow!(
            "news from the off-ramp partner waited too long for a free slot"
        )));
    };
    match news {
        PartnerNews::Payer(news) => payers::news::payer(ctx, news).await,
        PartnerNews::Account(news) => payers::news::account(ctx, news).await,
        PartnerNews::Order(news) => off_ramp::news::order(ctx, news).await,
    }
}
