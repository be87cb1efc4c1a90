//! Reads backlog ranges of one chain in parallel with its new blocks, without a pause while a range is left.

use super::pace::{BlockNotices, RetryPauses};
use crate::{
    ctx::Ctx,
    flows::payments::{
        backlog::{self, BacklogSpeeds},
        lead::Leadership,
    },
    ports::chain::Chain,
};
use std::time::Duration;

/// Maximum pause after consecutive failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Runs until the term ends.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, poll: Duration, news: BlockNotices, leadership: &Leadership) {
    let network = chain.network();
    let pace = RetryPauses {
        base: poll,
        longest: BACK_OFF_MAX,
    };
    let rates = BacklogSpeeds::default();
    let fill = || async {
        let has_filled = backlog::run(ctx, chain, leadership, &rates).await?;
        Ok(if has_filled { Duration::ZERO } else { poll })
    };
    pace.keep_hearing(leadership.ended(), "filling in", Some(network), news, fill)
        .await;
}
