//! Executes the recurring payments of one network while this instance leads it, and measures the account that does.

use super::{
    obstacles::Obstacles,
    pace::{News, Pace},
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

/// Longest pause after failures in a row.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Why nothing is executed by an instance that was given no account.
const KEYLESS: &str = "payments are due, and relayer.private_key is not set";

/// Pause between two measurements of the account.
const MEASURING: Duration = Duration::from_secs(60);

/// What the leader of a network measures of the account.
const GAUGES: [&str; 4] = [OLDEST_DUE, PENDING, BALANCE, ADMITTED];
const OLDEST_DUE: &str = "prs_relayer_oldest_due_seconds";
const PENDING: &str = "prs_relayer_pending_transactions";
const BALANCE: &str = "prs_relayer_balance_coins";
const ADMITTED: &str = "prs_relayer_admitted";

/// Runs until the term ends. What is measured after it is the next leader's to say, so that no alert looks at old figures.
pub(super) async fn run(ctx: &Ctx, chain: &dyn Chain, looks: (Duration, News), leadership: &Leadership) {
    execute_and_measure(ctx, chain, looks, leadership).await;
    for name in GAUGES {
        set(name, chain.network(), f64::NAN);
    }
}

async fn execute_and_measure(ctx: &Ctx, chain: &dyn Chain, (poll, news): (Duration, News), leadership: &Leadership) {
    let network = chain.network();
    let pace = Pace {
        base: poll,
        longest: BACK_OFF_MAX,
    };
    let (sendings, obstacles) = (Sendings::default(), Obstacles::new(network));
    let Some(relay) = ctx.partners.relays.get(&network) else {
        let measure = || async {
            match measured_due(ctx, network).await? > 0.0 {
                true => obstacles.tell(&BTreeSet::from([KEYLESS.to_owned()])),
                false => obstacles.end(),
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
        // First, since it asks no node: a node that is gone is when somebody has to see it.
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

/// Measures for how many seconds the payment that is due the longest waits.
async fn measured_due(ctx: &Ctx, network: Network) -> FlowResult<f64> {
    let oldest_due = oldest_due(ctx, network).await?.as_seconds_f64();
    set(OLDEST_DUE, network, oldest_due);
    Ok(oldest_due)
}

/// Says once whether the contract of a network lets this service execute payments.
pub(super) async fn announce(ctx: Ctx, network: Network, relay: Arc<dyn Relay>, stop: CancellationToken) {
    let account = relay.address();
    let Some(contract) = contract(&ctx, network) else {
        tracing::info!(%network, "recurring payments are not offered: there is no contract for them");
        return;
    };
    let ask = async {
        loop {
            match relay.contract(contract).await {
                Ok(state) => return state.is_admitted,
                Err(ChainError::Unavailable { .. } | ChainError::Busy { .. }) => {}
                Err(error) => tracing::warn!(%network, %error, "the contract of recurring payments cannot be asked"),
            }
            tokio::time::sleep(BACK_OFF_MAX).await;
        }
    };
    match stop.run_until_cancelled(ask).await {
        Some(true) => tracing::info!(%network, %account, "recurring payments are offered"),
        Some(false) => tracing::warn!(
            %network, %account, %contract,
            "recurring payments are not offered: the contract does not give this account its relayer role"
        ),
        None => {}
    }
}

/// The contract whose role is asked for.
fn contract(ctx: &Ctx, network: Network) -> Option<Address> {
    ctx.catalogue
        .default_contract(network, ContractKind::Erc20RecurringPaymentProxy)
}

/// A balance as a gauge shows it: in whole coins, with what a float keeps behind the point.
fn coins(balance: alloy::primitives::U256) -> f64 {
    const UNITS_PER_COIN: f64 = 1e18;
    f64::from(balance) / UNITS_PER_COIN
}

fn set(name: &'static str, network: Network, value: f64) {
    metrics::gauge!(name, "network" => network.id()).set(value);
}
