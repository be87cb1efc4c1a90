//! Workers. Each worker runs a flow in a loop, with a fixed pace, bounded batches, backoff and shutdown.

mod catch_up;
pub mod chain_pace;
pub mod chain_states;
pub mod deliver_webhooks;
pub mod fill_in_chains;
pub mod follow_off_ramp;
mod follow_payers;
mod keep_partitions;
pub mod lead_chains;
mod mend_deliveries;
mod obstacles;
pub mod pace;
mod read_rates;
mod relay_schedules;
mod repeat_requests;
mod screen_payers;
pub mod sweep_events;
pub mod try_writes;
mod watch_chains;

use crate::ctx::Ctx;
use std::sync::Arc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Observable state of running workers.
#[derive(Clone, Default)]
pub struct Workers {
    /// State of each chain.
    pub chains: chain_states::ChainStates,
    /// State of database writes.
    pub writes: try_writes::WriteHealth,
}

/// Starts every worker. They end when `stop` is cancelled, after releasing their claims. When this instance is
/// `leaving`, it hands its networks over to another instance, but still delivers.
pub fn start(
    ctx: &Ctx,
    options: deliver_webhooks::DeliveryOptions,
    chains: lead_chains::LeadershipOptions,
    leaving: &CancellationToken,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Workers {
    let workers = Workers::default();
    // No caller waits for a worker, and its batches may be large.
    let ctx = &Ctx {
        db: ctx.db.patient(),
        ..ctx.clone()
    };
    let chains = Arc::new(chains);
    for chain in ctx.partners.chains.followed.values() {
        tasks.spawn(lead_chains::run(
            ctx.clone(),
            chain.clone(),
            chains.clone(),
            workers.chains.clone(),
            leaving.clone(),
        ));
    }
    for (network, relay) in ctx.partners.relays.iter() {
        let said = relay_schedules::announce(ctx.clone(), *network, relay.clone(), stop.clone());
        tasks.spawn(said);
    }
    tasks.spawn(deliver_webhooks::run(ctx.clone(), options, stop.clone()));
    tasks.spawn(mend_deliveries::run(ctx.clone(), stop.clone()));
    tasks.spawn(sweep_events::run(ctx.clone(), stop.clone()));
    tasks.spawn(keep_partitions::run(ctx.clone(), stop.clone()));
    tasks.spawn(repeat_requests::run(ctx.clone(), stop.clone()));
    tasks.spawn(screen_payers::run(ctx.clone(), stop.clone()));
    tasks.spawn(follow_payers::run(ctx.clone(), stop.clone()));
    tasks.spawn(follow_off_ramp::run(ctx.clone(), stop.clone()));
    tasks.spawn(read_rates::run(ctx.clone(), stop.clone()));
    workers
}
