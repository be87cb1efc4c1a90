//! Follows one chain at its pace, without a pause while it is behind.

use super::{
    catch_up::{CatchUp, CatchUpStatus},
    chain_pace::ChainPace,
    chain_states::{ChainOutcome, ChainStates, PollFailure},
    pace::{BlockNotices, RetryPauses},
};
use crate::{
    ctx::Ctx,
    domain::network::Network,
    flows::payments::{
        lead::Leadership,
        safe_outcomes,
        watch::{self, WatchPosition, WatchResult},
    },
    ports::chain::Chain,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Maximum pause after consecutive failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Runs until the term ends.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    poll: Duration,
    news: BlockNotices,
    states: &ChainStates,
    leadership: &Leadership,
) {
    let network = chain.network();
    let pace = RetryPauses {
        base: poll,
        longest: BACK_OFF_MAX,
    };
    let looks = Mutex::new(ChainPace::new(poll));
    let behind = Mutex::new(CatchUp::default());
    let looks = || looks.lock().unwrap_or_else(PoisonError::into_inner);
    let has_told_of_start = AtomicBool::new(false);
    let follow = || async {
        if !has_told_of_start.load(Ordering::Relaxed) {
            watch::tell_of_start(ctx, chain).await?;
            has_told_of_start.store(true, Ordering::Relaxed);
        }
        // An idle chain is not polled: only the database is queried whether a payment is expected now. Every request is
        // in the database before it can be paid.
        let is_idle = looks().is_idle();
        if is_idle && !watch::is_awaited(ctx, network).await? {
            states.leave_alone(network, ctx.clock.steady() + news.pause_max(poll));
            return Ok(poll);
        }
        let (look, pause) = match watch::run(ctx, chain, leadership).await {
            Ok(WatchResult::At(position)) => {
                gauge(network, &position);
                let mut behind = behind.lock().unwrap_or_else(PoisonError::into_inner);
                tell(
                    network,
                    behind.look(position.confirmed, position.finalized, ctx.clock.steady()),
                );
                drop(behind);
                let pause = looks().pause(&position, ctx.clock.now());
                let pause = if position.is_awaited { pause } else { pause.min(poll) };
                (ChainOutcome::Followed(position), Ok(pause))
            }
            // A halted chain keeps the usual poll interval: such a poll only reads one row, and the operator waits for
            // its effect.
            Ok(WatchResult::Halted(reason)) => (ChainOutcome::Halted(reason), Ok(poll)),
            Err(error) => (ChainOutcome::Failed(PollFailure::of(&error)), Err(error)),
        };
        let until_next = news.pause_max(pause.as_ref().copied().unwrap_or_default());
        states.set(network, look, ctx.clock.now(), ctx.clock.steady() + until_next);
        pause
    };
    // The executions of Safes are searched beside the chain: strangers choose what is searched, and no credit waits for
    // it. A report outlives the wait for its payment, so an idle chain is searched too.
    let search = || async {
        safe_outcomes::run(ctx, chain).await?;
        Ok(poll)
    };
    let (ended, told) = (leadership.ended(), news.clone());
    tokio::join!(
        pace.keep_hearing(ended, "following the chain", Some(network), told, follow),
        pace.keep(ended, "searching the executions of Safes", Some(network), search),
    );
}

fn tell(network: Network, progress: Option<CatchUpStatus>) {
    match progress {
        Some(CatchUpStatus::Behind {
            blocks_left,
            blocks_per_s,
            left_s,
        }) => tracing::info!(%network, blocks_left, blocks_per_s, left_s, "catching up"),
        Some(CatchUpStatus::CaughtUp { blocks, took_s }) => tracing::info!(%network, blocks, took_s, "caught up"),
        None => {}
    }
}

fn gauge(network: Network, position: &WatchPosition) {
    let set = |name: &'static str, number: u64| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a gauge is an f64, which is exact for whole numbers below 2^52; block numbers and seconds are \
                      smaller"
        )]
        metrics::gauge!(name, "network" => network.id()).set(number as f64);
    };
    set("prs_chain_head", position.head.number);
    let head_s = u64::try_from(position.head.time.timestamp()).unwrap_or(0);
    set("prs_chain_head_timestamp_seconds", head_s);
    set("prs_chain_seen", position.seen);
    set("prs_chain_confirmed", position.confirmed);
    set(
        "prs_chain_lag_blocks",
        position.finalized.saturating_sub(position.confirmed),
    );
}
