//! What was set aside: the operator looks at it and decides.

use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        ids::{QuarantineId, RequestRowId},
        network::Network,
        oddity::{OddReason, QuarantineState, Verdict},
        refusal::Refusal,
        request::Request,
    },
    flows::FlowResult,
    store::{self, backlogs::BacklogReason, quarantine::QuarantineFilter},
};
use alloy::primitives::{B256, U256};
use chrono::TimeDelta;
use std::collections::{BTreeSet, HashMap};

pub use crate::store::quarantine::Quarantined;

/// Most rows of a list.
const LIST_MAX: u64 = 1_000;

/// Days for which something is kept after it was settled.
const KEPT_DAYS: i64 = 90;

/// Rows of one transaction.
const BATCH_ROWS: u64 = 500;

/// What the operator looks for; everything that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Network.
    pub network: Option<Network>,
    /// Public id of the request that it concerns.
    pub request_id: Option<String>,
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Why it was set aside.
    pub reason: Option<OddReason>,
    /// Least amount that arrived, in the payment currency of the request, which has to be given with it.
    pub min_amount: Option<Amount>,
}

impl Wanted {
    /// Whether nothing is given.
    fn is_anything(&self) -> bool {
        self.network.is_none() && self.request_id.is_none() && self.tx_hash.is_none() && self.reason.is_none()
    }
}

/// What was set aside, newest first, at most 1000, and older than `after`: what waits for somebody, or everything.
///
/// Errors: there is no such request; the amount is given without one, or is none of its currency.
pub async fn list(
    ctx: &Ctx,
    wanted: &Wanted,
    includes_decided: bool,
    after: Option<&QuarantineId>,
) -> FlowResult<Vec<Quarantined>> {
    let mut filter = filter(ctx, wanted).await?;
    if !includes_decided {
        filter.states = QuarantineState::ALL
            .into_iter()
            .filter(|state| state.is_open())
            .collect();
    }
    Ok(store::quarantine::list(ctx.db.reader(), &filter, after, LIST_MAX).await?)
}

async fn filter(ctx: &Ctx, wanted: &Wanted) -> FlowResult<QuarantineFilter> {
    let request = match &wanted.request_id {
        Some(id) => {
            let found = store::requests::of_any_platform(ctx.db.reader(), id).await?;
            Some(found.ok_or_else(|| Refusal::not_found(format!("there is no request {id}")))?)
        }
        None => None,
    };
    let min_units = match (&wanted.min_amount, &request) {
        (Some(amount), Some(request)) => Some(units(ctx, amount, request)?),
        (Some(_), None) => return Err(Refusal::invalid("an amount needs the request whose currency it is in").into()),
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
    let payment = payment.ok_or_else(|| Refusal::conflict("the payment currency left the catalogue"))?;
    let units = amount.to_units(payment.decimals);
    units.map_err(|why| Refusal::invalid(format!("the amount {why}")))
}

/// The requests that these concern, by their rows.
pub async fn concerned(ctx: &Ctx, quarantined: &[Quarantined]) -> FlowResult<HashMap<RequestRowId, Request>> {
    let concerned = quarantined.iter().filter_map(|one| one.oddity.concerned.as_ref());
    let rows: BTreeSet<_> = concerned
        .map(|concerned| (&concerned.platform, &concerned.request))
        .collect();
    Ok(store::requests::of_rows(ctx.db.reader(), rows).await?)
}

/// Leaves alone everything that is looked for and that nobody has decided, in one transaction; returns how many.
///
/// Errors: as [`list`]; nothing is looked for.
pub async fn reject_all(ctx: &Ctx, wanted: &Wanted, note: Option<&str>) -> FlowResult<u64> {
    if wanted.is_anything() {
        return Err(
            Refusal::invalid("say what to reject: an id, a network, a request, a transaction or a reason").into(),
        );
    }
    let filter = filter(ctx, wanted).await?;
    let tx = ctx.db.begin("reject_quarantined").await?;
    let rejected = store::quarantine::reject_all(&tx, &filter, note, ctx.clock.now()).await?;
    tx.commit().await?;
    tracing::info!(rejected, "left alone what was set aside");
    Ok(rejected)
}

/// One thing that was set aside. Errors: there is none with this id.
pub async fn show(ctx: &Ctx, id: &QuarantineId) -> FlowResult<Quarantined> {
    let found = store::quarantine::get(ctx.db.reader(), id).await?;
    Ok(found.ok_or_else(|| unknown(id))?)
}

/// Decides about something that was set aside. A retry and an acceptance have its block read again beside new ones;
/// the worker that follows the network does it with its next look. Returns the row after it; a decision that is
/// repeated leaves time and note of the first one.
///
/// Errors: there is none with this id; its state or reason does not allow the verdict.
pub async fn decide(ctx: &Ctx, id: &QuarantineId, verdict: Verdict, note: Option<&str>) -> FlowResult<Quarantined> {
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
        return Err(Refusal::conflict(format!("{id} changed at this moment; look at it again")).into());
    }
    if verdict != Verdict::Reject {
        let block = (odd.block_number, odd.block_number);
        store::backlogs::push(&tx, odd.network, block, BacklogReason::Quarantine, now).await?;
    }
    tx.commit().await?;
    tracing::info!(%id, network = %odd.network, verdict = verdict.wire(), "decided about what was set aside");
    show(ctx, id).await
}

fn unknown(id: &QuarantineId) -> Refusal {
    Refusal::not_found(format!("nothing with the id {id} was set aside"))
}

/// Forgets one batch of what was settled long ago; tells whether there may be more.
pub async fn sweep(ctx: &Ctx) -> FlowResult<bool> {
    let cutoff = ctx.clock.now() - TimeDelta::days(KEPT_DAYS);
    let tx = ctx.db.begin("sweep_quarantine").await?;
    let gone = store::quarantine::forget(&tx, cutoff, BATCH_ROWS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_ROWS)
}
