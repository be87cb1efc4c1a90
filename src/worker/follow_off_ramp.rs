//! Opens and follows the orders that pay out to bank accounts, and measures open orders.

use super::pace::RetryPauses;
use crate::{
    ctx::Ctx,
    flows::off_ramp::{
        ask,
        list::{self, OrderFilter},
    },
};
use std::{collections::BTreeSet, sync::Mutex, time::Duration};
use tokio_util::sync::CancellationToken;

/// Pause between two measurements.
const MEASURING: Duration = Duration::from_secs(15);

/// Open orders: due, being opened, or with the partner.
const OPEN: &str = "prs_off_ramp_orders_open";
/// Age of the oldest open order, in seconds.
const OLDEST: &str = "prs_off_ramp_oldest_order_seconds";
/// Number of open orders without an update from the partner for a day.
const SILENT: &str = "prs_off_ramp_orders_silent";

/// Runs until `stop`. If no partner is configured, orders are only measured.
pub async fn run(ctx: Ctx, stop: CancellationToken) {
    if ctx.partners.off_ramp.is_none() {
        match list::measure(&ctx).await {
            Ok((0, _)) => return,
            Ok((open, _)) => tracing::warn!(
                open,
                "orders for payments to bank accounts are open, but partners.offramp is off: the service does not \
                 follow them"
            ),
            Err(error) => tracing::warn!(%error, "open orders could not be counted"),
        }
    }
    let told = Mutex::new(BTreeSet::new());
    let measure = || async {
        measure(&ctx, &told).await?;
        Ok(MEASURING)
    };
    tokio::join!(
        RetryPauses::EACH_SECOND.keep_batches(&ctx, &stop, "following orders", ask::run),
        RetryPauses::EACH_SECOND.keep(&stop, "measuring orders", None, measure),
    );
}

/// Measures open orders. Logs once each order that has had no update from the partner for a day.
async fn measure(ctx: &Ctx, told: &Mutex<BTreeSet<String>>) -> crate::flows::FlowResult<()> {
    let (open, oldest) = list::measure(ctx).await?;
    let silent = list::run(
        ctx,
        OrderFilter {
            all: false,
            silent: true,
        },
    )
    .await?;
    metrics::gauge!(OPEN).set(count(open));
    metrics::gauge!(OLDEST).set(oldest.as_seconds_f64());
    metrics::gauge!(SILENT).set(count(silent.len() as u64));
    let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = std::mem::take(&mut *told);
    for listed in silent {
        let id = listed.order.id.to_string();
        if !before.contains(&id) {
            tracing::warn!(
                order = %id,
                request = %listed.request_id,
                state = listed.order.state.wire(),
                since = %listed.order.changed_at,
                "an order has had no news for a day: contact the partner"
            );
        }
        told.insert(id);
    }
    Ok(())
}

/// Value for a gauge; there are fewer than 2³² orders.
fn count(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
