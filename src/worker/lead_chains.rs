//! Leads one network while this instance holds the lease of the network. Otherwise stays on standby until the leader is
//! gone.

use super::{chain_states::ChainStates, fill_in_chains, pace::BlockNotices, relay_schedules, watch_chains};
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

/// Default poll interval of a chain.
pub const POLL_DEFAULT: Duration = Duration::from_secs(2);

/// Interval between two checks of the leader.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);

/// Number of renewals within the lifetime of a lease.
const RENEWALS_PER_LEASE: u32 = 3;

/// Options for leading networks.
#[derive(Debug, Clone)]
pub struct LeadershipOptions {
    /// Unique name of this instance, the same after a restart.
    pub instance: String,
    /// How long other instances wait for an unreachable leader.
    pub lease: Duration,
    /// Poll interval of each network.
    pub polls: HashMap<Network, Duration>,
    /// Notification of new blocks of a network. Only the local chain of `prs dev` sends it.
    pub news: HashMap<Network, BlockNotices>,
}

/// Runs until `stop`, then hands the network over.
pub(super) async fn run(
    ctx: Ctx,
    chain: Arc<dyn Chain>,
    options: Arc<LeadershipOptions>,
    states: ChainStates,
    stop: CancellationToken,
) {
    let network = chain.network();
    // A database call about the lease times out after a part of the lease, so that waiting for the database does not
    // outlast the lease.
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
                tracing::info!(
                    %network, term = leadership.number(), instance = options.instance,
                    "this instance leads the network"
                );
                states.lead(network, leadership.number(), ctx.clock.steady());
                let poll = options.polls.get(&network).copied().unwrap_or(POLL_DEFAULT);
                let news = || options.news.get(&network).cloned().unwrap_or_default();
                tokio::join!(
                    watch_chains::run(&ctx, chain.as_ref(), poll, news(), &states, &leadership),
                    fill_in_chains::run(&ctx, chain.as_ref(), poll, news(), &leadership),
                    relay_schedules::run(&ctx, chain.as_ref(), poll, news(), &leadership),
                    keep(&clerk, network, &leadership, options.lease, asked),
                );
                states.stand_by(network, ctx.clock.steady() + STANDBY_PAUSE);
                hand_over(&clerk, network, &leadership).await;
            }
            Ok(None) => states.stand_by(network, ctx.clock.steady() + STANDBY_PAUSE),
            Err(error) => tracing::warn!(%network, %error, "the leader of the network could not be determined"),
        }
        stop.run_until_cancelled(tokio::time::sleep(STANDBY_PAUSE)).await;
    }
}

/// Renews the lease until the term ends. A lease that could not be renewed in time is given up, so that other instances
/// may lead.
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
                tracing::warn!(%network, term = leadership.number(), "another instance took over the network");
                return;
            }
            Err(error) => {
                tracing::warn!(
                    %network, term = leadership.number(), %error,
                    "the lease of this instance on the network could not be renewed"
                );
            }
        }
        if renewed.elapsed() >= lease {
            tracing::warn!(%network, term = leadership.number(), "the lease expired");
            ended.cancel();
        }
    }
}

async fn hand_over(ctx: &Ctx, network: Network, leadership: &Leadership) {
    match lead::resign(ctx, leadership).await {
        Ok(()) => tracing::info!(%network, term = leadership.number(), "this instance no longer leads the network"),
        Err(error) => {
            tracing::warn!(
                %network, term = leadership.number(), %error,
                "the lease of this instance on the network could not be released; it will expire"
            )
        }
    }
}
