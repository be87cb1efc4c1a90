//! What partners tell by themselves: each piece of news goes to the noun that it is about.

use crate::{
    ctx::Ctx,
    domain::off_ramp_news::Taken,
    flows::{FlowError, FlowResult, off_ramp, payers},
    ports::off_ramp::News,
};
use anyhow::anyhow;
use tokio::time::timeout;

/// Takes news of the off-ramp partner. The same news again, and news that was overtaken, change nothing.
///
/// A few are taken at a time: those of one record wait for each other in the database, and would keep its connections from
/// everybody else. Errors: too many wait (503).
pub async fn run(ctx: &Ctx, news: &News) -> FlowResult<Taken> {
    let place = timeout(ctx.waits.news, ctx.news.acquire()).await;
    let Ok(Ok(_place)) = place else {
        return Err(FlowError::NotYet(anyhow!(
            "news of the off-ramp partner waited for a place in vain"
        )));
    };
    match news {
        News::Payer(news) => payers::news::payer(ctx, news).await,
        News::Account(news) => payers::news::account(ctx, news).await,
        News::Order(news) => off_ramp::news::order(ctx, news).await,
    }
}
