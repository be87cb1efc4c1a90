//! What partners tell by themselves: each piece of news goes to the noun that it is about.

use crate::{
    ctx::Ctx,
    domain::off_ramp_news::Taken,
    flows::FlowResult,
    ports::off_ramp::{AccountNews, News, OrderNews, PayerNews},
};

/// Takes news of the off-ramp partner. The same news again, and news that was overtaken, change nothing.
pub async fn run(ctx: &Ctx, news: &News) -> FlowResult<Taken> {
    match news {
        News::Payer(news) => payer(ctx, news).await,
        News::Account(news) => account(ctx, news).await,
        News::Order(news) => order(ctx, news).await,
    }
}

async fn payer(_ctx: &Ctx, _news: &PayerNews) -> FlowResult<Taken> {
    Ok(Taken::Unknown)
}

async fn account(_ctx: &Ctx, _news: &AccountNews) -> FlowResult<Taken> {
    Ok(Taken::Unknown)
}

async fn order(_ctx: &Ctx, _news: &OrderNews) -> FlowResult<Taken> {
    Ok(Taken::Unknown)
}
