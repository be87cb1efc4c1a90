//! Follows one chain at its pace, without a pause while it is behind.

use super::{
    catch_up::{CatchUp, Progress},
    chain_pace::ChainPace,
    chain_states::{ChainStates, Failing, Look},
    pace::{News, Pace},
};
use crate::{
    ctx::Ctx,
    domain::network::Network,
    flows::payments::{
        lead::Leadership,
        watch::{self, Position, Step},
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

/// Longest pause after failures in a row.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Runs until the term ends.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    (poll, news): (Duration, News),
    states: &ChainStates,
    leadership: &Leadership,
) {
    let network = chain.network();
    let pace = Pace {
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
        // The database knows of a request before anybody can pay it.
        let is_idle = looks().is_idle();
        if is_idle && !watch::is_awaited(ctx, network).await? {
            states.leave_alone(network, ctx.clock.steady() + news.pause_max(poll));
            return Ok(poll);
        }
        let (look, pause) = match watch::run(ctx, chain, leadership).await {
            Ok(Step::At(position)) => {
                gauge(network, &position);
                let mut behind = behind.lock().unwrap_or_else(PoisonError::into_inner);
                tell(
                    network,
                    behind.look(position.confirmed, position.finalized, ctx.clock.steady()),
                );
                drop(behind);
                let pause = looks().pause(&position, ctx.clock.now());
                let pause = if position.is_awaited { pause } else { pause.min(poll) };
                (Look::Followed(position), Ok(pause))
            }
            // One row is read, and the operator is waiting for it.
            Ok(Step::Halted(reason)) => (Look::Halted(reason), Ok(poll)),
            Err(error) => (Look::Failed(Failing::of(&error)), Err(error)),
        };
        let until_next = news.pause_max(pause.as_ref().copied().unwrap_or_default());
        states.set(network, look, ctx.clock.now(), ctx.clock.steady() + until_next);
        pause
    };
    let (ended, told) = (leadership.ended(), news.clone());
    pace.keep_hearing(ended, "following the chain", Some(network), told, follow)
        .await;
}

fn tell(network: Network, progress: Option<Progress>) {
    match progress {
        Some(Progress::Behind {
            blocks_left,
            blocks_per_s,
            left_s,
        }) => tracing::info!(%network, blocks_left, blocks_per_s, left_s, "catching up"),
        Some(Progress::CaughtUp { blocks, took_s }) => tracing::info!(%network, blocks, took_s, "caught up"),
        None => {}
    }
}

fn gauge(network: Network, position: &Position) {
    let set = |name: &'static str, number: u64| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "gauges are floats; block numbers and seconds stay far below 2^52"
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
