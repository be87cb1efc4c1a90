//! Leads one network, or stands by until whoever leads it is gone.

use super::{chain_states::ChainStates, fill_in_chains, pace::News, relay_schedules, watch_chains};
use crate::{
    ctx::Ctx,
    domain::network::Network,
    flows::payments::lead::{self, Leadership},
    ports::chain::Chain,
};
use chrono::TimeDelta;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Pause between two looks at a chain when the settings name none.
pub const POLL_DEFAULT: Duration = Duration::from_secs(2);

/// Pause between two looks at who leads.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);

/// Looks at a lease until it would end without being renewed.
const RENEWALS_PER_LEASE: u32 = 3;

/// How networks are led.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of this instance, the same after a restart and that of no other one.
    pub instance: String,
    /// How long others wait for a leader that is out of reach.
    pub lease: Duration,
    /// Pause between two looks at each network.
    pub polls: HashMap<Network, Duration>,
    /// What tells of new blocks of a network, where something does.
    pub news: HashMap<Network, News>,
}

/// Runs until `stop`, then hands over.
pub(super) async fn run(
    ctx: Ctx,
    chain: Arc<dyn Chain>,
    options: Arc<Options>,
    states: ChainStates,
    stop: CancellationToken,
) {
    let network = chain.network();
    // What waits for the lease must not outlast it.
    let clerk = Ctx {
        db: ctx.db.answering_within(options.lease / RENEWALS_PER_LEASE),
        ..ctx.clone()
    };
    let lease = TimeDelta::from_std(options.lease).unwrap_or(TimeDelta::MAX);
    states.begin(network, ctx.clock.steady());
    while !stop.is_cancelled() {
        let asked = Instant::now();
        match lead::begin(&clerk, network, &options.instance, lease, &stop).await {
            Ok(Some(leadership)) => {
                tracing::info!(%network, term = leadership.number(), instance = options.instance, "leads the network");
                states.lead(network, leadership.number(), ctx.clock.steady());
                let poll = options.polls.get(&network).copied().unwrap_or(POLL_DEFAULT);
                let looks = || (poll, options.news.get(&network).cloned().unwrap_or_default());
                tokio::join!(
                    watch_chains::run(&ctx, chain.as_ref(), looks(), &states, &leadership),
                    fill_in_chains::run(&ctx, chain.as_ref(), looks(), &leadership),
                    relay_schedules::run(&ctx, chain.as_ref(), looks(), &leadership),
                    keep(&clerk, network, &leadership, options.lease, asked),
                );
                states.stand_by(network, ctx.clock.steady() + STANDBY_PAUSE);
                hand_over(&clerk, network, &leadership).await;
            }
            Ok(None) => states.stand_by(network, ctx.clock.steady() + STANDBY_PAUSE),
            Err(error) => tracing::warn!(%network, %error, "nobody knows who leads the network"),
        }
        stop.run_until_cancelled(tokio::time::sleep(STANDBY_PAUSE)).await;
    }
}

/// Renews the lease until the term ends. One that could not be renewed in its time is given up: others may lead.
async fn keep(ctx: &Ctx, network: Network, leadership: &Leadership, lease: Duration, begun: Instant) {
    let pause = lease / RENEWALS_PER_LEASE;
    let span = TimeDelta::from_std(lease).unwrap_or(TimeDelta::MAX);
    let ended = leadership.ended();
    let mut renewed = begun;
    while ended.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let asked = Instant::now();
        match lead::renew(ctx, leadership, span).await {
            Ok(true) => renewed = asked,
            Ok(false) => {
                tracing::warn!(%network, term = leadership.number(), "another instance took the network over");
                return;
            }
            Err(error) => tracing::warn!(%network, term = leadership.number(), %error, "the lease was not renewed"),
        }
        if renewed.elapsed() >= lease {
            tracing::warn!(%network, term = leadership.number(), "the lease ended without being renewed");
            ended.cancel();
        }
    }
}

async fn hand_over(ctx: &Ctx, network: Network, leadership: &Leadership) {
    match lead::resign(ctx, leadership).await {
        Ok(()) => tracing::info!(%network, term = leadership.number(), "leads the network no longer"),
        Err(error) => {
            tracing::warn!(%network, term = leadership.number(), %error, "the lease could not be handed over; it ends by itself")
        }
    }
}
