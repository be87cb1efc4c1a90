//! Fills in ranges of one chain beside its new blocks: without a pause while one is behind, whatever is awaited.

use super::pace::{News, Pace};
use crate::{
    ctx::Ctx,
    flows::payments::{
        backlog::{self, Rates},
        lead::Leadership,
    },
    ports::chain::Chain,
};
use std::time::Duration;

/// Longest pause after failures in a row.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Runs until the term ends.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, (poll, news): (Duration, News), leadership: &Leadership) {
    let network = chain.network();
    let pace = Pace {
        base: poll,
        longest: BACK_OFF_MAX,
    };
    let rates = Rates::default();
    let fill = || async {
        let has_filled = backlog::run(ctx, chain, leadership, &rates).await?;
        Ok(if has_filled { Duration::ZERO } else { poll })
    };
    pace.keep_hearing(leadership.ended(), "filling in", Some(network), news, fill)
        .await;
}
