//! Follows one chain at its pace, without a pause while it is behind.

use crate::{
    ctx::Ctx,
    domain::network::Network,
    flows::payments::watch::{self, Position, Step},
    ports::chain::Chain,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Pause between two looks when the settings name none.
pub const POLL_DEFAULT: Duration = Duration::from_secs(2);

/// Longest pause after failures in a row.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Pause of each network.
pub type Polls = HashMap<Network, Duration>;

/// Where a chain stands, for the health page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Followed.
    Following(Position),
    /// Stopped until the operator has looked at it.
    Halted(String),
    /// The last look failed.
    Failing,
}

/// Where each chain stands; a chain that was not looked at yet is missing.
#[derive(Clone, Default)]
pub struct Positions(Arc<RwLock<BTreeMap<Network, Standing>>>);

impl Positions {
    /// A copy of all positions.
    pub fn all(&self) -> BTreeMap<Network, Standing> {
        self.0.read().map(|positions| positions.clone()).unwrap_or_default()
    }

    fn set(&self, network: Network, standing: Standing) {
        if let Ok(mut positions) = self.0.write() {
            positions.insert(network, standing);
        }
    }
}

/// Runs until `stop`.
pub async fn run(ctx: Ctx, chain: Arc<dyn Chain>, poll: Duration, positions: Positions, stop: CancellationToken) {
    let network = chain.network();
    let mut failures: u32 = 0;
    while !stop.is_cancelled() {
        // A step holds no state outside its transactions, so stopping in the middle of one loses nothing.
        let step = tokio::select! {
            step = watch::run(&ctx, chain.as_ref()) => step,
            () = stop.cancelled() => return,
        };
        let pause = match step {
            Ok(Step::At(position)) => {
                failures = 0;
                gauge(network, &position);
                positions.set(network, Standing::Following(position));
                if position.moved && position.seen < position.head.number {
                    Duration::ZERO
                } else {
                    poll
                }
            }
            Ok(Step::Halted(reason)) => {
                positions.set(network, Standing::Halted(reason));
                BACK_OFF_MAX
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                tracing::warn!(%network, failures, %error, "the chain could not be followed");
                positions.set(network, Standing::Failing);
                poll.saturating_mul(1 << failures.min(6)).min(BACK_OFF_MAX)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn gauge(network: Network, position: &Position) {
    let blocks = |name: &'static str, number: u64| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "gauges are floats; block numbers stay far below 2^52"
        )]
        metrics::gauge!(name, "network" => network.id()).set(number as f64);
    };
    blocks("prs_chain_head", position.head.number);
    blocks("prs_chain_seen", position.seen);
    blocks("prs_chain_confirmed", position.confirmed);
    blocks(
        "prs_chain_lag_blocks",
        position.head.number.saturating_sub(position.seen),
    );
}
