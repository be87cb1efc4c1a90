//! Compares what is recorded with the chain, block by block, and mends it when asked: what is missing is credited, what
//! the chain does not hold is reversed, what differs is reversed and credited as the chain shows it. Where only the place
//! or the time differs no money moved, so that nothing is told. A request whose account is not that of its payments is
//! counted again.

use super::{
    ahead::{Ahead, Known, Part},
    confirm::{self, Progress},
    facts,
    gather::{self, Match},
    lead::Mandate,
    lines, reverse,
};
use crate::{
    ctx::Ctx,
    domain::{
        payment::{ReversalReason, Settled},
        refusal::Refusal,
        request::Request,
        wire_text::wire_text,
    },
    flows::{FlowError, FlowResult},
    ports::chain::Chain,
    store::{self, Scope, payments::PaymentRecord},
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, BTreeSet};

wire_text! {
    /// How the payments table and the chain differ.
    pub enum DifferenceKind {
        /// The chain holds a payment of a known request that is not recorded.
        Missing = "missing",
        /// A recorded payment is not on the chain.
        Gone = "gone",
        /// A recorded payment is on the chain with other facts.
        Different = "different",
        /// The state or the amounts of a request are not what its recorded payments make them.
        Miscounted = "miscounted",
    }
}

/// Where an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Height of the block.
    pub block_number: u64,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction.
    pub position: u32,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How they differ.
    pub kind: DifferenceKind,
    /// The payment; `None` when it is about a request alone.
    pub place: Option<Place>,
    /// Public id of the request.
    pub request_id: String,
    /// What differs, in words.
    pub detail: String,
}

/// What a comparison found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Payments that are the same on both sides.
    pub same: usize,
    /// Differences.
    pub differences: usize,
}

/// Who hears of each difference: when it was found, or when it was mended. What comes after it may still fail.
pub type Tell<'a> = &'a mut (dyn FnMut(&Difference) + Send);

/// Compares blocks `from` to `to`, both included, which must be final; mends what differs when `fix` says so.
///
/// Errors: a network that was never followed, a range that is not final yet; a block that nobody proves now, after what
/// was told of before it.
pub async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    (from, to): (u64, u64),
    fix: bool,
    tell: Tell<'_>,
) -> FlowResult<Report> {
    let network = chain.network();
    let cursor = store::cursors::load(ctx.db.reader(), network).await?;
    let cursor = cursor.ok_or_else(|| Refusal::not_found(format!("{network} has never been followed")))?;
    let settled = cursor.finalized.number;
    if from > to || to > settled {
        let sentence = format!("--from and --to must name final blocks, up to {settled}, the lower one first");
        return Err(Refusal::conflict(sentence).into());
    }
    let mandate = Mandate::Mending(network, to);
    let mend = fix.then_some((ReversalReason::NotOnChain, &mandate));
    let mut report = Report::default();
    let mut named = BTreeSet::new();
    let mut ahead = Ahead::new(ctx, chain, (from, to), true, Known::Nothing);
    while let Some(part) = ahead.next().await? {
        let mut tell = |found: &Difference| {
            named.insert(found.request_id.clone());
            tell(found);
        };
        compare(ctx, chain, &part, mend, &mut report, &mut tell).await?;
    }
    // Nothing in any block leads to a request that has an account and no payment.
    for request in store::requests::accounts_of_nothing(ctx.db.reader(), network).await? {
        if !named.contains(request.id.as_str())
            && let Some(found) = recount(ctx, &request, fix.then_some(&mandate)).await?
        {
            report.differences += 1;
            tell(&found);
        }
    }
    Ok(report)
}

/// Compares the first part of blocks that were settled again after others had been final there, and mends what differs;
/// returns the last height that was compared.
pub(super) async fn after_rewind(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    (from, to): (u64, u64),
) -> FlowResult<u64> {
    let network = chain.network();
    let mut tell = |found: &Difference| tracing::warn!(%network, kind = found.kind.wire(), place = ?found.place, request = found.request_id, found.detail, "mended after a reorganisation");
    let mend = Some((ReversalReason::Reorganised, mandate));
    let Some(part) = Ahead::new(ctx, chain, (from, to), true, Known::Nothing).next().await? else {
        return Ok(to);
    };
    compare(ctx, chain, &part, mend, &mut Report::default(), &mut tell).await?;
    Ok(part.read_to)
}

/// Compares the blocks of one part, and mends what differs when there is a reason for which to reverse.
async fn compare(
    ctx: &Ctx,
    chain: &dyn Chain,
    part: &Part,
    mend: Option<(ReversalReason, &Mandate)>,
    report: &mut Report,
    tell: Tell<'_>,
) -> FlowResult<()> {
    let network = chain.network();
    let (from, read_to) = (part.from, part.read_to);
    let mut gathered = gather::gather(ctx, chain, part).await?;
    let recorded = store::payments::in_blocks(ctx.db.reader(), network, from, read_to).await?;
    let blocks: BTreeSet<u64> = recorded.iter().map(|payment| payment.block_number).collect();
    gather::read_more(ctx, chain, &mut gathered, blocks).await?;
    if let Some(number) = gathered.unproven.first() {
        return Err(FlowError::NotYet(anyhow::anyhow!(
            "no node proves block {number} of {network} at the moment; try again"
        )));
    }
    let on_chain: BTreeMap<(B256, u32), &Match> = gathered
        .matches
        .iter()
        .map(|found| (key(&found.settled), found))
        .collect();
    let tx_hashes: BTreeSet<B256> = on_chain.keys().map(|(tx_hash, _)| *tx_hash).collect();
    let tx_hashes: Vec<B256> = tx_hashes.into_iter().collect();
    let accepted = store::quarantine::accepted(ctx.db.reader(), network, &tx_hashes).await?;
    // A payment that is recorded with another block would be missed by its height.
    let elsewhere = store::payments::of_transactions(ctx.db.reader(), network, &tx_hashes).await?;
    let is_elsewhere = |payment: &&PaymentRecord| !(from..=read_to).contains(&payment.block_number);
    let mut credited: Vec<&PaymentRecord> = recorded.iter().chain(elsewhere.iter().filter(is_elsewhere)).collect();
    credited.retain(|payment| payment.reversal.is_none());
    // A row whose place is not known yet takes none that another row has.
    credited.sort_by_key(|payment| payment.counts_payments);
    let mut known: BTreeSet<(B256, u32)> = BTreeSet::new();
    let mut wrong: Vec<&PaymentRecord> = Vec::new();
    let mut found: Vec<Difference> = Vec::new();
    for payment in credited {
        let found_on_chain = match payment.counts_payments {
            false => on_chain.get_key_value(&(payment.tx_hash, payment.position)),
            true => on_chain
                .iter()
                .find(|(key, found)| !known.contains(key) && facts::is_of(payment, &found.settled.observed)),
        };
        let differences = found_on_chain.map(|(key, found)| {
            known.insert(*key);
            facts::differences(payment, &found.settled, &gathered.requests[found.request_row])
        });
        // The same money elsewhere is put there when it is read again; everything else is taken back first.
        let is_wrong = differences
            .as_deref()
            .is_none_or(|differences| !facts::has_moved(differences));
        let (kind, detail) = match differences {
            Some(differences) if differences.is_empty() => {
                report.same += 1;
                continue;
            }
            Some(differences) => {
                let names: Vec<&str> = differences.iter().map(|fact| fact.name).collect();
                let detail = format!("recorded with another {}", names.join(", "));
                (DifferenceKind::Different, detail)
            }
            None => (DifferenceKind::Gone, "the chain holds no such payment".to_owned()),
        };
        if is_wrong {
            wrong.push(payment);
        }
        found.push(Difference {
            kind,
            place: Some(Place {
                block_number: payment.block_number,
                tx_hash: payment.tx_hash,
                position: payment.position,
            }),
            request_id: payment.request_id.clone(),
            detail,
        });
    }
    let is_missing = |(key, found): &(&(B256, u32), &&Match)| {
        (found.departure.is_none() || accepted.contains(*key)) && !known.contains(key)
    };
    for (key, missing) in on_chain.iter().filter(is_missing) {
        let Settled { observed, proven, .. } = &missing.settled;
        found.push(Difference {
            kind: DifferenceKind::Missing,
            place: Some(Place {
                block_number: observed.block_number,
                tx_hash: key.0,
                position: key.1,
            }),
            request_id: gathered.requests[missing.request_row].id.to_string(),
            detail: format!("{} units to {} are not recorded", proven.received_units, observed.payee),
        });
    }
    found.sort_by_key(|difference| difference.place);
    if let Some((reason, mandate)) = mend
        && !found.is_empty()
    {
        let now = ctx.clock.now();
        let tx = ctx.db.begin("reconcile").await?;
        let reversed = reverse::run(ctx, &tx, &wrong, reason, now).await?;
        mandate.commit(tx).await?;
        lines::reversed(&reversed);
        // What is missing now is credited like any other payment; a crash in between leaves it missing and no worse.
        let mended = confirm::run(ctx, chain, mandate, (from, read_to), true, Progress::Nothing, None).await?;
        if mended != Some(read_to) {
            return Err(FlowError::NotYet(anyhow::anyhow!(
                "blocks {from} to {read_to} of {network} were not read to their end; try again"
            )));
        }
    }
    let rows: BTreeSet<usize> = on_chain.values().map(|found| found.request_row).collect();
    for row in rows {
        let request = &gathered.requests[row];
        // A payment that differs makes its request differ, and both are mended together.
        if found
            .iter()
            .all(|difference| difference.request_id != request.id.as_str())
        {
            found.extend(recount(ctx, request, mend.map(|(_, mandate)| mandate)).await?);
        }
    }
    report.differences += found.len();
    found.iter().for_each(tell);
    Ok(())
}

/// Compares the account of a request with its recorded payments, and counts it again when there is a mandate to.
async fn recount(ctx: &Ctx, request: &Request, mandate: Option<&Mandate>) -> FlowResult<Option<Difference>> {
    let recorded = store::payments::list_of_request(ctx.db.reader(), request).await?;
    if reverse::recounted(request, &recorded) == request.ledger {
        return Ok(None);
    }
    // Read again in one transaction: a payment may have been credited meanwhile.
    let tx = ctx.db.begin("recount_request").await?;
    let scope = Scope {
        platform: request.origin.platform.clone(),
        client: None,
    };
    let Some(request) = store::requests::find(&tx, &scope, request.id.as_str()).await? else {
        return Ok(None);
    };
    let counted = reverse::recounted(&request, &store::payments::list_of_request(&tx, &request).await?);
    if counted == request.ledger {
        return Ok(None);
    }
    let detail = format!(
        "is {} with {} units of {} payments, and its payments make it {} with {} of {}",
        request.ledger.status.wire(),
        request.ledger.credited,
        request.ledger.payment_count,
        counted.status.wire(),
        counted.credited,
        counted.payment_count
    );
    if let Some(mandate) = mandate {
        reverse::recount(ctx, &tx, &scope.platform, request.id.as_str(), ctx.clock.now()).await?;
        mandate.commit(tx).await?;
    }
    Ok(Some(Difference {
        kind: DifferenceKind::Miscounted,
        place: None,
        request_id: request.id.to_string(),
        detail,
    }))
}

fn key(settled: &Settled) -> (B256, u32) {
    (settled.observed.tx_hash, settled.observed.position)
}
