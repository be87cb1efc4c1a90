//! Executes the recurring payments of one network while this instance leads it, and measures the relayer account.

use super::{
    obstacles::LoggedObstacles,
    pace::{BlockNotices, RetryPauses},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        currency::ContractKind,
        network::Network,
        relay::{NOT_ADMITTED, PAUSED},
    },
    flows::{
        FlowResult,
        payments::lead::Leadership,
        schedules::relay::{self, Sendings, oldest_due},
    },
    ports::{
        chain::{Chain, ChainError},
        relay::Relay,
    },
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Maximum pause after consecutive failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Reason why an instance without an account executes nothing.
const KEYLESS: &str = "recurring payments are due, but relayer.private_key is not set";

/// Interval between two measurements of the account.
const MEASURING: Duration = Duration::from_secs(60);

/// Measurements of the account by the leader of a network.
const GAUGES: [&str; 4] = [OLDEST_DUE, PENDING, BALANCE, ADMITTED];
const OLDEST_DUE: &str = "prs_relayer_oldest_due_seconds";
const PENDING: &str = "prs_relayer_pending_transactions";
const BALANCE: &str = "prs_relayer_balance_coins";
const ADMITTED: &str = "prs_relayer_admitted";

/// Runs until the term ends. Then it clears its measurements, so that no alert uses old values.
pub(super) async fn run(ctx: &Ctx, chain: &dyn Chain, poll: Duration, news: BlockNotices, leadership: &Leadership) {
    execute_and_measure(ctx, chain, poll, news, leadership).await;
    for name in GAUGES {
        set(name, chain.network(), f64::NAN);
    }
}

async fn execute_and_measure(
    ctx: &Ctx,
    chain: &dyn Chain,
    poll: Duration,
    news: BlockNotices,
    leadership: &Leadership,
) {
    let network = chain.network();
    let pace = RetryPauses {
        base: poll,
        longest: BACK_OFF_MAX,
    };
    let (sendings, obstacles) = (Sendings::default(), LoggedObstacles::new(network));
    let Some(relay) = ctx.partners.relays.get(&network) else {
        let measure = || async {
            if measured_due(ctx, network).await? > 0.0 {
                obstacles.tell(&BTreeSet::from([KEYLESS.to_owned()]))
            } else {
                obstacles.end()
            }
            Ok(MEASURING)
        };
        let work = "measuring what is due";
        return pace.keep(leadership.ended(), work, Some(network), measure).await;
    };
    let relay = relay.as_ref();
    let execute = || async {
        let look = relay::run(ctx, relay, chain, leadership, &sendings).await?;
        set(PENDING, network, f64::from(look.pending));
        obstacles.tell(&look.obstacles);
        if look.has_begun && look.obstacles.is_empty() {
            obstacles.end();
        }
        Ok(if look.has_moved { Duration::ZERO } else { poll })
    };
    let measure = || async {
        // This measurement comes first because it needs no node: it must be up to date even if the node is gone.
        let oldest_due = measured_due(ctx, network).await?;
        let account = relay.account().await?;
        set(BALANCE, network, coins(account.balance));
        let mut found = BTreeSet::new();
        if let Some(contract) = contract(ctx, network) {
            let state = relay.contract(contract).await?;
            let causes = [(!state.is_admitted, NOT_ADMITTED), (state.is_paused, PAUSED)];
            found.extend(
                causes
                    .into_iter()
                    .filter(|(is_so, _)| *is_so)
                    .map(|(_, cause)| cause.to_owned()),
            );
            set(ADMITTED, network, if found.is_empty() { 1.0 } else { 0.0 });
        }
        obstacles.tell(&found);
        if found.is_empty() && oldest_due <= 0.0 {
            obstacles.end();
        }
        Ok(MEASURING)
    };
    tokio::join!(
        pace.keep_hearing(
            leadership.ended(),
            "executing recurring payments",
            Some(network),
            news,
            execute
        ),
        pace.keep(leadership.ended(), "measuring the relayer", Some(network), measure),
    );
}

/// Measures the waiting time of the longest overdue payment, in seconds.
async fn measured_due(ctx: &Ctx, network: Network) -> FlowResult<f64> {
    let oldest_due = oldest_due(ctx, network).await?.as_seconds_f64();
    set(OLDEST_DUE, network, oldest_due);
    Ok(oldest_due)
}

/// Logs once whether the contract of a network allows this service to execute payments.
pub(super) async fn announce(ctx: Ctx, network: Network, relay: Arc<dyn Relay>, stop: CancellationToken) {
    let account = relay.address();
    let Some(contract) = contract(&ctx, network) else {
        tracing::info!(%network, "recurring payments are unavailable: the network has no contract for them");
        return;
    };
    let ask = async {
        loop {
            match relay.contract(contract).await {
                Ok(state) => return state.is_admitted,
                Err(ChainError::Unavailable { .. } | ChainError::Busy { .. }) => {}
                Err(error) => tracing::warn!(%network, %error, "the recurring payments contract could not be queried"),
            }
            tokio::time::sleep(BACK_OFF_MAX).await;
        }
    };
    match stop.run_until_cancelled(ask).await {
        Some(true) => tracing::info!(%network, %account, "recurring payments are available"),
        Some(false) => tracing::warn!(
            %network, %account, %contract,
            "recurring payments are unavailable: the contract does not grant this account its relayer role"
        ),
        None => {}
    }
}

/// The contract whose role is checked.
fn contract(ctx: &Ctx, network: Network) -> Option<Address> {
    ctx.catalogue
        .default_contract(network, ContractKind::Erc20RecurringPaymentProxy)
}

/// A balance for a gauge: in coins, as a float.
fn coins(balance: alloy::primitives::U256) -> f64 {
    const UNITS_PER_COIN: f64 = 1e18;
    f64::from(balance) / UNITS_PER_COIN
}

fn set(name: &'static str, network: Network, value: f64) {
    metrics::gauge!(name, "network" => network.id()).set(value);
}
