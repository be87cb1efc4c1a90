//! What partners tell by themselves: each piece of news goes to the noun that it is about.

use crate::{
    ctx::Ctx,
    domain::off_ramp_news::Taken,
    flows::{FlowError, FlowResult, off_ramp, payers},
    ports::off_ramp::News,
};
use std::time::Duration;
use tokio::time::sleep;

/// Pauses before news is taken again that stood in the way of the same news, or of other news of its record.
const PAUSES_MS: [u64; 3] = [20, 80, 320];

/// Takes news of the off-ramp partner. The same news again, and news that was overtaken, change nothing.
pub async fn run(ctx: &Ctx, news: &News) -> FlowResult<Taken> {
    for pause in PAUSES_MS.map(Duration::from_millis) {
        match taken(ctx, news).await {
            Err(FlowError::Unavailable(_)) => sleep(pause).await,
            ended => return ended,
        }
    }
    taken(ctx, news).await
}

async fn taken(ctx: &Ctx, news: &News) -> FlowResult<Taken> {
    match news {
        News::Payer(news) => payers::news::payer(ctx, news).await,
        News::Account(news) => payers::news::account(ctx, news).await,
        News::Order(news) => off_ramp::news::order(ctx, news).await,
    }
}
