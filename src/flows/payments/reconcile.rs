//! Compares what is recorded with the chain, block by block, and mends it when asked: what is missing is credited, what
//! the chain does not hold is reversed, what differs is reversed and credited as the chain shows it. Where only the place
//! or the time differs no money moved, so that nothing is told. A request whose account is not that of its payments is
//! counted again.
//!
//! What belongs to one request is mended in one commit, so that no true payment stays reversed. Where that cannot be, each
//! difference is mended by itself, and one that cannot be is named while the rest goes on.

use super::{
    ahead::{Ahead, Known, Part},
    confirm,
    gather::{self, Gathered},
    lead::Mandate,
    lines, reverse,
};
use crate::{
    ctx::Ctx,
    domain::{
        ids::QuarantineId,
        payment::ReversalReason,
        payment_match::PaymentMatch,
        payment_record::PaymentRecord,
        reconciliation::{ComparedBlocks, ComparisonResult, Difference, DifferenceKind, FoundDifference},
        refusal::Refusal,
        request::Request,
    },
    flows::{FlowError, FlowResult},
    ports::chain::Chain,
    store::{self, Scope, payments::Unreadable, requests::UnreadableRequest},
};
use alloy::primitives::B256;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Deref,
};

/// What a comparison found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Payments that are the same on both sides.
    pub same: usize,
    /// Differences.
    pub differences: usize,
    /// Those of them that were to be mended and could not be, and what could not be compared.
    pub failures: usize,
}

/// How often a request that changed meanwhile is tried to be mended again.
const COMMITS_MAX: usize = 3;

/// Who hears of each difference: when it was found, or when it was mended. What comes after it may still fail.
pub type Tell<'a> = &'a mut (dyn FnMut(&Difference) + Send);

/// Compares blocks `from` to `to`, both included, which must be final; mends what differs when `fix` says so.
///
/// Errors: a network that was never followed, a range that is not final yet; nodes or a database that do not answer, after
/// what was told of before. A block that no node proves now is reported and skipped.
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
    let (requests, unreadable) = store::requests::accounts_of_nothing(ctx.db.reader(), network).await?;
    for found in unreadable.iter().map(request_not_read) {
        if !named.contains(&found.request_id) {
            report.count(&found);
            tell(&found);
        }
    }
    for request in requests {
        if !named.contains(request.id.as_str())
            && let Some(found) = recounted(ctx, &request, fix.then_some(&mandate)).await
        {
            report.count(&found);
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
    let mut report = Report::default();
    let unproven = compare(ctx, chain, &part, mend, &mut report, &mut tell).await?;
    if let Some(number) = unproven.first() {
        return Err(FlowError::NotYet(anyhow::anyhow!(
            "no node proves block {number} of {network} at the moment; try again"
        )));
    }
    if report.failures > 0 {
        tracing::error!(%network, part.from, part.read_to, report.failures, "payments differ from the chain and could not be mended; compare them with prs reconcile");
    }
    Ok(part.read_to)
}

impl Report {
    fn count(&mut self, found: &Difference) {
        self.differences += 1;
        self.failures += usize::from(found.unmended.is_some() || found.kind == DifferenceKind::Uncompared);
    }
}

/// Compares the blocks of one part, and mends what differs when there is a reason for which to reverse. Returns the blocks
/// that no node proves now.
async fn compare(
    ctx: &Ctx,
    chain: &dyn Chain,
    part: &Part,
    mend: Option<(ReversalReason, &Mandate)>,
    report: &mut Report,
    tell: Tell<'_>,
) -> FlowResult<Vec<u64>> {
    let network = chain.network();
    let (from, read_to) = (part.from, part.read_to);
    let (mut recorded, mut unreadable) = store::payments::in_blocks(ctx.db.reader(), network, from, read_to).await?;
    let blocks: BTreeSet<u64> = recorded.iter().map(|payment| payment.block_number).collect();
    let gathered = gather::gather_with(ctx, chain, part, blocks).await?;
    let unproven: BTreeSet<u64> = gathered.unproven.iter().copied().collect();
    recorded.retain(|payment| !unproven.contains(&payment.block_number));
    let tx_hashes = gathered.matches.iter().map(|found| found.settled.observed.tx_hash);
    let tx_hashes: BTreeSet<B256> = tx_hashes.collect();
    let tx_hashes: Vec<B256> = tx_hashes.into_iter().collect();
    let accepted = store::quarantine::accepted(ctx.db.reader(), network, &tx_hashes).await?;
    let (of_transactions, further) =
        store::payments::readable_of_transactions(ctx.db.reader(), network, &tx_hashes).await?;
    unreadable.extend(further);
    let unreadable_requests = gathered.unreadable.iter().map(|request| request.id.as_str()).collect();
    let unread: BTreeMap<&str, &Unreadable> = unreadable.iter().map(|row| (row.id.as_str(), row)).collect();
    let contracts = ctx.catalogue.contracts(network).iter();
    let blocks = ComparedBlocks {
        range: (from, read_to),
        recorded: &recorded,
        of_transactions: &of_transactions,
        matches: &gathered.matches,
        requests: &gathered.requests,
        unreadable_requests: &unreadable_requests,
        unreadable_places: &unread.values().filter_map(|row| row.place).collect(),
        accepted: &accepted,
        followed: &contracts.map(|known| known.address).collect(),
    };
    let ComparisonResult {
        same,
        mut found,
        uncompared,
        paid_requests,
    } = blocks.compare();
    report.same += same;
    let mending = Mending {
        ctx,
        chain,
        gathered: &gathered,
    };
    let mut set_aside = Ok(());
    if let Some(mend) = mend
        && !found.is_empty()
    {
        mending.all(&mut found, mend).await;
        set_aside = mending.set_aside((from, read_to), &accepted, mend.1).await;
    }
    let mut told: Vec<Difference> = Vec::new();
    told.extend(unread.into_values().map(not_read));
    told.extend(unproven.iter().map(|number| not_proven(*number)));
    told.extend(uncompared);
    told.extend(gathered.unreadable.iter().map(request_not_read));
    for row in paid_requests {
        let request = &gathered.requests[row];
        // A payment that is taken back or credited has its request counted again; one that is put elsewhere has not.
        let is_counted = |found: &FoundDifference<'_>| {
            let is_own = found.difference.request_id == request.id.as_str();
            is_own && (found.wrong.is_some() || found.difference.kind != DifferenceKind::Different)
        };
        let is_told = told.iter().any(|one| one.request_id == request.id.as_str());
        if !is_told && !found.iter().any(is_counted) {
            let counted = recounted(ctx, request, mend.map(|(_, mandate)| mandate)).await;
            told.extend(counted);
        }
    }
    for difference in found.iter().map(|found| &found.difference).chain(&told) {
        report.count(difference);
        tell(difference);
    }
    // The error comes after the loop, so that the caller hears of each difference that was mended.
    set_aside?;
    Ok(unproven.into_iter().collect())
}

/// A recorded payment that this program cannot read.
fn not_read(row: &Unreadable) -> Difference {
    Difference {
        kind: DifferenceKind::Uncompared,
        place: None,
        request_id: row.request_id.clone(),
        detail: format!("row {} of payments cannot be read: {}", row.id, row.error),
        unmended: None,
    }
}

/// A request whose payments cannot be compared, because this program cannot read it.
fn request_not_read(request: &UnreadableRequest) -> Difference {
    Difference {
        kind: DifferenceKind::Uncompared,
        place: None,
        request_id: request.id.clone(),
        detail: format!("the row of the request cannot be read: {}", request.error),
        unmended: None,
    }
}

/// A block whose content no node proves now.
fn not_proven(number: u64) -> Difference {
    Difference {
        kind: DifferenceKind::Uncompared,
        place: None,
        request_id: String::new(),
        detail: format!("no node proves block {number} at the moment; compare it again"),
        unmended: None,
    }
}

/// What differences are mended with.
struct Mending<'a> {
    ctx: &'a Ctx,
    chain: &'a dyn Chain,
    gathered: &'a Gathered,
}

impl Mending<'_> {
    /// Mends differences, those that belong together in one commit, and notes why one could not be mended.
    async fn all(&self, found: &mut [FoundDifference<'_>], (reason, mandate): (ReversalReason, &Mandate)) {
        for mut found in self.grouped(found) {
            let together: Vec<&FoundDifference<'_>> = found.iter().map(|one| &**one).collect();
            let Err(error) = self.together(&together, reason, mandate).await else {
                continue;
            };
            if found.len() == 1 || self.requests_of(&found).len() > 1 {
                // Half of a mend would credit one request with the payment of another one.
                for one in found {
                    one.difference.unmended = Some(format!("{error:#}"));
                }
                continue;
            }
            // What is on the chain is credited first: what takes its place in the rows is not taken back without it.
            found.sort_by_key(|one| one.proven.is_none());
            let mut is_missing = false;
            for one in found {
                let mended = match is_missing && one.proven.is_none() {
                    true => Err(FlowError::NotYet(anyhow::anyhow!(
                        "another payment of the request could not be mended"
                    ))),
                    false => self.together(&[&*one], reason, mandate).await,
                };
                if let Err(error) = mended {
                    is_missing |= one.proven.is_some();
                    one.difference.unmended = Some(format!("{error:#}"));
                }
            }
        }
    }

    /// Differences in groups without a request in common: a row may record the payment of another request than its own.
    fn grouped<'f, 'a>(&self, found: &'f mut [FoundDifference<'a>]) -> Vec<Vec<&'f mut FoundDifference<'a>>> {
        let mut groups: Vec<Vec<&mut FoundDifference<'_>>> = Vec::new();
        let mut group_of: HashMap<String, usize> = HashMap::new();
        for one in found {
            let requests = self.requests_of(std::slice::from_ref(&&*one));
            let mut touched: BTreeSet<usize> = requests.iter().filter_map(|id| group_of.get(id)).copied().collect();
            let first = touched.pop_first().unwrap_or_else(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            for further in touched {
                let moved = std::mem::take(&mut groups[further]);
                groups[first].extend(moved);
                for group in group_of.values_mut().filter(|group| **group == further) {
                    *group = first;
                }
            }
            group_of.extend(requests.into_iter().map(|id| (id, first)));
            groups[first].push(one);
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// The requests that differences are about: those whose payments they are by the rows, and by the chain.
    fn requests_of<'f, 'a: 'f>(&self, found: &[impl Deref<Target = FoundDifference<'a>>]) -> BTreeSet<String> {
        let by_chain = found.iter().filter_map(|one| one.proven);
        let by_chain = by_chain.map(|proven| self.gathered.requests[proven.request_row].id.to_string());
        let by_rows = found.iter().map(|one| one.difference.request_id.clone());
        by_chain.chain(by_rows).collect()
    }

    /// Takes back what is wrong and credits what the chain shows, in one commit.
    async fn together(
        &self,
        found: &[&FoundDifference<'_>],
        reason: ReversalReason,
        mandate: &Mandate,
    ) -> FlowResult<()> {
        let (ctx, chain) = (self.ctx, self.chain);
        let wrong: Vec<&PaymentRecord> = found.iter().filter_map(|one| one.wrong).collect();
        let proven: Vec<&PaymentMatch> = found.iter().filter_map(|one| one.proven).collect();
        for _ in 0..COMMITS_MAX {
            let tx = ctx.db.begin("reconcile").await?;
            let reversed = reverse::run(ctx, &tx, &wrong, reason, ctx.clock.now()).await?;
            let again = self.gathered.again(&tx, chain, &proven).await?;
            let Some(confirmed) = confirm::write(ctx, chain, &tx, None, again).await? else {
                continue;
            };
            mandate.commit(tx).await?;
            lines::reversed(&reversed);
            confirmed.tell(chain.network());
            ctx.due.notify_one();
            return Ok(());
        }
        Err(FlowError::NotYet(anyhow::anyhow!(
            "the request kept changing while its payments were mended; try again"
        )))
    }

    /// Sets aside for the operator what is odd in blocks that were read again, as when they are settled.
    async fn set_aside(
        &self,
        blocks: (u64, u64),
        accepted: &HashSet<(B256, u32)>,
        mandate: &Mandate,
    ) -> FlowResult<()> {
        let now = self.ctx.clock.now();
        let departed = self
            .gathered
            .matches
            .iter()
            .filter(|found| !accepted.contains(&(found.settled.observed.tx_hash, found.settled.observed.position)));
        let departed = departed.filter_map(|found| found.departure.as_ref());
        let tx = self.ctx.db.begin("set_aside").await?;
        let unproven = &self.gathered.unproven;
        store::quarantine::settle_blocks(&tx, self.chain.network(), blocks, unproven, now).await?;
        for odd in self.gathered.odd.iter().chain(departed) {
            store::quarantine::put(&tx, odd, QuarantineId(self.ctx.ids.ulid()), now).await?;
        }
        mandate.commit(tx).await
    }
}

/// The same as [`recount`], where a request that cannot be compared or mended is named.
async fn recounted(ctx: &Ctx, request: &Request, mandate: Option<&Mandate>) -> Option<Difference> {
    recount(ctx, request, mandate).await.unwrap_or_else(|error| {
        Some(Difference {
            kind: DifferenceKind::Uncompared,
            place: None,
            request_id: request.id.to_string(),
            detail: format!("its account cannot be compared or counted again: {error:#}"),
            unmended: None,
        })
    })
}

/// Compares the account of a request with its recorded payments, and counts it again when there is a mandate to.
async fn recount(ctx: &Ctx, request: &Request, mandate: Option<&Mandate>) -> FlowResult<Option<Difference>> {
    let recorded = store::payments::list_of_request(ctx.db.reader(), request).await?;
    if request.ledger.recounted(&PaymentRecord::credits(&recorded)) == request.ledger {
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
    let recorded = store::payments::list_of_request(&tx, &request).await?;
    let counted = request.ledger.recounted(&PaymentRecord::credits(&recorded));
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
        unmended: None,
    }))
}
