//! Loops around one flow each: fixed pace, bounded batch, back-off, shutdown.

pub mod chain_pace;
pub mod chain_states;
pub mod deliver_webhooks;
pub mod fill_in_chains;
mod pace;
mod seal_rows;
pub mod sweep_events;
pub mod watch_chains;

use crate::ctx::Ctx;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a running worker shows to the outside.
#[derive(Clone, Default)]
pub struct Workers {
    /// What is known of each chain.
    pub chains: chain_states::ChainStates,
}

/// Starts every worker; they end when `stop` is cancelled, after releasing what they hold.
pub fn start(
    ctx: &Ctx,
    options: deliver_webhooks::Options,
    polls: watch_chains::Polls,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Workers {
    let workers = Workers::default();
    // Nobody waits for a worker, and what it writes at once may be large.
    let ctx = &Ctx {
        db: ctx.db.patient(),
        ..ctx.clone()
    };
    for (network, chain) in &ctx.partners.chains.followed {
        let poll = polls.get(network).copied().unwrap_or(watch_chains::POLL_DEFAULT);
        tasks.spawn(watch_chains::run(
            ctx.clone(),
            chain.clone(),
            poll,
            workers.chains.clone(),
            stop.clone(),
        ));
        tasks.spawn(fill_in_chains::run(ctx.clone(), chain.clone(), poll, stop.clone()));
    }
    tasks.spawn(deliver_webhooks::run(ctx.clone(), options, stop.clone()));
    tasks.spawn(sweep_events::run(ctx.clone(), stop.clone()));
    tasks.spawn(seal_rows::run(ctx.clone(), stop.clone()));
    workers
}
