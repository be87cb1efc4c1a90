//! Compares the payments table with the chain, block by block, and mends it when asked: what is missing is credited, what
//! the chain does not hold is reversed, what differs is reversed and credited as the chain shows it.

use super::{
    ahead::{Ahead, Known, Part},
    confirm::{self, Progress},
    facts,
    gather::{self, Match},
    reverse,
};
use crate::{
    ctx::Ctx,
    domain::{
        payment::{ReversalReason, Settled},
        refusal::Refusal,
        wire_text::wire_text,
    },
    flows::{FlowError, FlowResult},
    ports::chain::Chain,
    store::{self, payments::PaymentRecord},
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
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How they differ.
    pub kind: DifferenceKind,
    /// Height of the block.
    pub block_number: u64,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction.
    pub position: u32,
    /// Public id of the request.
    pub request_id: String,
    /// What differs, in words.
    pub detail: String,
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Payments that are the same on both sides.
    pub same: usize,
    /// Differences, in the order of the chain.
    pub differences: Vec<Difference>,
    /// Whether they were mended.
    pub is_fixed: bool,
}

/// Compares blocks `from` to `to`, both included, which must be final; mends what differs when `fix` says so.
///
/// Errors: a network that was never followed, a range that is not final yet.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, (from, to): (u64, u64), fix: bool) -> FlowResult<Report> {
    let network = chain.network();
    let cursor = store::cursors::load(ctx.db.reader(), network).await?;
    let cursor = cursor.ok_or_else(|| Refusal::not_found(format!("{network} has never been followed")))?;
    let settled = cursor.finalized.number;
    if from > to || to > settled {
        let sentence = format!("--from and --to must name final blocks, up to {settled}, the lower one first");
        return Err(Refusal::conflict(sentence).into());
    }
    let mut report = Report {
        is_fixed: fix,
        ..Report::default()
    };
    let mut ahead = Ahead::new(ctx, chain, (from, to), true, Known::Nothing);
    while let Some(part) = ahead.next().await? {
        compare(ctx, chain, &part, fix, &mut report).await?;
    }
    Ok(report)
}

/// Compares the blocks of one part.
async fn compare(ctx: &Ctx, chain: &dyn Chain, part: &Part, fix: bool, report: &mut Report) -> FlowResult<()> {
    let network = chain.network();
    let (from, read_to) = (part.from, part.read_to);
    let mut gathered = gather::gather(ctx, chain, part).await?;
    let recorded = store::payments::in_blocks(ctx.db.reader(), network, from, read_to).await?;
    let blocks: BTreeSet<u64> = recorded.iter().map(|payment| payment.block_number).collect();
    gather::read_more(ctx, chain, &mut gathered, blocks).await?;
    if let Some(number) = gathered.unproven.first() {
        return Err(FlowError::Unavailable(anyhow::anyhow!(
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
            facts::differences(payment, &found.settled)
        });
        let (kind, detail) = match differences {
            Some(differences) if differences.is_empty() => {
                report.same += 1;
                continue;
            }
            Some(differences) => (
                DifferenceKind::Different,
                format!("recorded with another {}", differences.join(", ")),
            ),
            None => (DifferenceKind::Gone, "the chain holds no such payment".to_owned()),
        };
        wrong.push(payment);
        found.push(Difference {
            kind,
            block_number: payment.block_number,
            tx_hash: payment.tx_hash,
            position: payment.position,
            request_id: payment.request_id.clone(),
            detail,
        });
    }
    let is_missing = |(key, found): &(&(B256, u32), &&Match)| found.departure.is_none() && !known.contains(key);
    for (key, missing) in on_chain.iter().filter(is_missing) {
        let Settled { observed, proven, .. } = &missing.settled;
        found.push(Difference {
            kind: DifferenceKind::Missing,
            block_number: observed.block_number,
            tx_hash: key.0,
            position: key.1,
            request_id: gathered.requests[missing.request_row].id.to_string(),
            detail: format!("{} units to {} are not recorded", proven.received_units, observed.payee),
        });
    }
    found.sort_by_key(|difference| (difference.block_number, difference.tx_hash, difference.position));
    if fix && !found.is_empty() {
        let now = ctx.clock.now();
        let tx = ctx.db.begin("reconcile").await?;
        reverse::run(ctx, &tx, &wrong, ReversalReason::NotOnChain, now).await?;
        // A row that was lost left its credit in the request.
        for (_, missing) in on_chain.iter().filter(is_missing) {
            let request = &gathered.requests[missing.request_row];
            reverse::recount(&tx, &request.origin.platform, request.id.as_str(), now).await?;
        }
        tx.commit().await?;
        // What is missing now is credited like any other payment; a crash in between leaves it missing and no worse.
        let mended = confirm::run(ctx, chain, (from, read_to), true, Progress::Nothing, None).await?;
        if mended != Some(read_to) {
            return Err(FlowError::Unavailable(anyhow::anyhow!(
                "blocks {from} to {read_to} of {network} were not read to their end; try again"
            )));
        }
    }
    report.differences.extend(found);
    Ok(())
}

fn key(settled: &Settled) -> (B256, u32) {
    (settled.observed.tx_hash, settled.observed.position)
}
