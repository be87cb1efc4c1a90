//! What partners tell by themselves: each piece of news goes to the noun that it is about.

use crate::{
    ctx::Ctx,
    domain::off_ramp_news::Taken,
    flows::{FlowResult, off_ramp, payers},
    ports::off_ramp::News,
};

/// Takes news of the off-ramp partner. The same news again, and news that was overtaken, change nothing.
pub async fn run(ctx: &Ctx, news: &News) -> FlowResult<Taken> {
    match news {
        News::Payer(news) => payers::news::payer(ctx, news).await,
        News::Account(news) => payers::news::account(ctx, news).await,
        News::Order(news) => off_ramp::news::order(ctx, news).await,
    }
}
