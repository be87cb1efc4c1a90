//! Quarantined payments, which the operator inspects and decides.

use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        block_range::BlockRange,
        ids::{QuarantineId, RequestRowId},
        network::Network,
        oddity::{OddReason, OperatorDecision, QuarantineState},
        refusal::Refusal,
        request::Request,
    },
    flows::FlowResult,
    store::{self, backlogs::BacklogReason, quarantine::QuarantineFilter},
};
use alloy::primitives::{B256, U256};
use chrono::TimeDelta;
use std::collections::{BTreeSet, HashMap};

pub use crate::store::quarantine::QuarantineEntry;

/// Maximum rows of a list.
const LIST_MAX: u64 = 1_000;

/// Days for which a row is stored after it was settled.
const KEPT_DAYS: i64 = 90;

/// Rows of one transaction.
const BATCH_ROWS: u64 = 500;

/// Filters of the operator, which combine with AND.
#[derive(Debug, Clone, Default)]
pub struct QuarantineQuery {
    /// Network.
    pub network: Option<Network>,
    /// Public id of the request that the payment concerns.
    pub request_id: Option<String>,
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Reason of the quarantine.
    pub reason: Option<OddReason>,
    /// Minimum amount, in the payment currency of the request. A filter with an amount also needs a request.
    pub min_amount: Option<Amount>,
}

impl QuarantineQuery {
    /// Whether there is no filter.
    fn is_anything(&self) -> bool {
        self.network.is_none() && self.request_id.is_none() && self.tx_hash.is_none() && self.reason.is_none()
    }
}

/// Quarantined payments that are older than `after`, newest first, at most 1000: either only undecided payments, or
/// all.
///
/// Errors: an unknown request; an amount without a request; an amount that is not valid in the payment currency of the
/// request.
pub async fn list(
    ctx: &Ctx,
    wanted: &QuarantineQuery,
    includes_decided: bool,
    after: Option<&QuarantineId>,
) -> FlowResult<Vec<QuarantineEntry>> {
    let mut filter = filter(ctx, wanted).await?;
    if !includes_decided {
        filter.states = QuarantineState::ALL
            .into_iter()
            .filter(|state| state.is_open())
            .collect();
    }
    Ok(store::quarantine::list(ctx.db.reader(), &filter, after, LIST_MAX).await?)
}

async fn filter(ctx: &Ctx, wanted: &QuarantineQuery) -> FlowResult<QuarantineFilter> {
    let request = match &wanted.request_id {
        Some(id) => {
            let found = store::requests::of_any_platform(ctx.db.reader(), id).await?;
            Some(found.ok_or_else(|| Refusal::not_found(format!("there is no request {id}")))?)
        }
        None => None,
    };
    let min_units = match (&wanted.min_amount, &request) {
        (Some(amount), Some(request)) => Some(units(ctx, amount, request)?),
        (Some(_), None) => {
            return Err(Refusal::invalid(
                "a minimum amount requires a request, because the amount is in the currency of the request",
            )
            .into());
        }
        (None, _) => None,
    };
    Ok(QuarantineFilter {
        network: wanted.network,
        request: request.map(|request| request.row),
        tx_hash: wanted.tx_hash,
        reason: wanted.reason,
        min_units,
        currencies: None,
        states: Vec::new(),
    })
}

fn units(ctx: &Ctx, amount: &Amount, request: &Request) -> Result<U256, Refusal> {
    let payment = ctx.catalogue.find(&request.terms.payment_currency);
    let payment = payment.ok_or_else(|| Refusal::conflict("the payment currency is no longer in the catalogue"))?;
    let units = amount.to_units(payment.decimals);
    units.map_err(|why| Refusal::invalid(format!("the amount {why}")))
}

/// The requests of quarantined payments, by row.
pub async fn concerned(ctx: &Ctx, quarantined: &[QuarantineEntry]) -> FlowResult<HashMap<RequestRowId, Request>> {
    let concerned = quarantined.iter().filter_map(|one| one.oddity.concerned.as_ref());
    let rows: BTreeSet<_> = concerned
        .map(|concerned| (&concerned.platform, &concerned.request))
        .collect();
    Ok(store::requests::of_rows(ctx.db.reader(), rows).await?)
}

/// Rejects all matching undecided payments in one transaction; returns their number.
///
/// Errors: those of [`list`]; no filter.
pub async fn reject_all(ctx: &Ctx, wanted: &QuarantineQuery, note: Option<&str>) -> FlowResult<u64> {
    if wanted.is_anything() {
        return Err(
            Refusal::invalid("specify what to reject: an id, a network, a request, a transaction or a reason").into(),
        );
    }
    let filter = filter(ctx, wanted).await?;
    let tx = ctx.db.begin("reject_quarantined").await?;
    let rejected = store::quarantine::reject_all(&tx, &filter, note, ctx.clock.now()).await?;
    tx.commit().await?;
    tracing::info!(rejected, "rejected quarantined payments");
    Ok(rejected)
}

/// One quarantined payment. Errors: unknown id.
pub async fn show(ctx: &Ctx, id: &QuarantineId) -> FlowResult<QuarantineEntry> {
    let found = store::quarantine::get(ctx.db.reader(), id).await?;
    Ok(found.ok_or_else(|| unknown(id))?)
}

/// Decides about a quarantined payment. After a retry or an acceptance, the worker that follows the network reads its
/// block again in its next step. Returns the changed row; a repeated decision keeps the time and note of the first one.
///
/// Errors: unknown id; the state or reason of the payment does not allow the verdict.
pub async fn decide(
    ctx: &Ctx,
    id: &QuarantineId,
    verdict: OperatorDecision,
    note: Option<&str>,
) -> FlowResult<QuarantineEntry> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("decide_quarantined").await?;
    let quarantined = store::quarantine::get(&tx, id).await?.ok_or_else(|| unknown(id))?;
    let (odd, before) = (&quarantined.oddity, quarantined.state);
    let after = before
        .after(verdict, odd.reason)
        .map_err(|why| Refusal::conflict(format!("{id} is {}: {why}", before.wire())))?;
    if after == before && !after.is_open() {
        return Ok(quarantined);
    }
    if !store::quarantine::set_state(&tx, &quarantined, after, note, now).await? {
        return Err(Refusal::conflict(format!(
            "another process has changed {id} in the meantime; show it again before you decide"
        ))
        .into());
    }
    if verdict != OperatorDecision::Reject {
        let block = BlockRange::single(odd.block_number);
        store::backlogs::push(&tx, odd.network, block, BacklogReason::Quarantine, now).await?;
    }
    tx.commit().await?;
    tracing::info!(
        %id, network = %odd.network, verdict = verdict.wire(),
        "the decision of the operator about a quarantined payment was recorded"
    );
    show(ctx, id).await
}

fn unknown(id: &QuarantineId) -> Refusal {
    Refusal::not_found(format!("no quarantined payment has the id {id}"))
}

/// Deletes one batch of rows that were settled long ago; returns whether there may be more.
pub async fn sweep(ctx: &Ctx) -> FlowResult<bool> {
    let cutoff = ctx.clock.now() - TimeDelta::days(KEPT_DAYS);
    let tx = ctx.db.begin("sweep_quarantine").await?;
    let gone = store::quarantine::forget(&tx, cutoff, BATCH_ROWS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_ROWS)
}
