//! Compares recorded payments with the chain, block by block, and fixes differences on request. A missing payment is
//! credited. A payment that is not on the chain is reversed. A payment that differs is reversed and credited again. If
//! only its position or time differs, no money moved, so no event is sent. A request whose ledger does not match its
//! payments is recounted.
//!
//! All differences of one request are fixed in one commit, so that no valid payment stays reversed. If this commit
//! fails, each difference is fixed separately. A difference that cannot be fixed is reported, and the others are still
//! fixed.

use super::{
    ahead::{BlocksAhead, RequiredBlocks, SettledBlocks},
    confirm,
    gather::{self, GatheredPayments},
    lead::Mandate,
    lines, never_followed, reverse,
};
use crate::{
    ctx::Ctx,
    domain::{
        block_range::BlockRange,
        ids::QuarantineId,
        payment::ReversalReason,
        payment_match::PaymentMatch,
        payment_record::PaymentRecord,
        reconciliation::{ComparedBlocks, ComparisonResult, DifferenceKind, FoundDifference, RecordDifference},
        refusal::Refusal,
        request::Request,
    },
    flows::{FlowError, FlowResult},
    ports::chain::Chain,
    store::{self, Scope, payments::UnreadablePayment, requests::UnreadableRequest},
};
use alloy::primitives::B256;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Deref,
};

/// Result of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReconciliationReport {
    /// Number of equal payments.
    pub same: usize,
    /// Number of differences.
    pub differences: usize,
    /// Number of differences that could not be fixed, and of payments, requests and blocks that could not be compared.
    pub failures: usize,
}

/// Maximum attempts to fix a request that changes concurrently.
const COMMITS_MAX: usize = 3;

/// Callback for each difference, called when the difference was found or fixed. Later steps may still fail.
pub type DifferenceListener<'a> = &'a mut (dyn FnMut(&RecordDifference) + Send);

/// Compares the final blocks of a range; fixes differences if `fix` is set.
///
/// Errors: a network that was never followed; a range that is not final yet; nodes or a database that do not respond,
/// after some differences were reported. A block that no node currently proves is reported and skipped.
pub async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    range: BlockRange,
    fix: bool,
    tell: DifferenceListener<'_>,
) -> FlowResult<ReconciliationReport> {
    let network = chain.network();
    let cursor = store::cursors::load(ctx.db.reader(), network).await?;
    let cursor = cursor.ok_or_else(|| never_followed(network))?;
    let settled = cursor.finalized.number;
    if range.from > range.to || range.to > settled {
        let sentence = format!(
            "--from and --to must be settled blocks, at most {settled}, and --from must not be greater than --to"
        );
        return Err(Refusal::conflict(sentence).into());
    }
    let mandate = Mandate::Mending(network, range.to);
    let mend = fix.then_some((ReversalReason::NotOnChain, &mandate));
    let mut report = ReconciliationReport::default();
    let mut named = BTreeSet::new();
    let mut ahead = BlocksAhead::new(ctx, chain, range, true, RequiredBlocks::Nothing);
    while let Some(part) = ahead.next().await? {
        let mut tell = |found: &RecordDifference| {
            named.insert(found.request_id.clone());
            tell(found);
        };
        compare(ctx, chain, &part, mend, &mut report, &mut tell).await?;
    }
    // A request whose ledger is credited but that has no payments is searched here, because no block leads to it.
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

/// After a reorganisation of final blocks, the blocks are settled again. Compares the first part of them with the
/// recorded payments, and fixes differences. Returns the last compared height.
pub(super) async fn after_rewind(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    range: BlockRange,
) -> FlowResult<u64> {
    let network = chain.network();
    let mut tell = |found: &RecordDifference| tracing::warn!(%network, kind = found.kind.wire(), place = ?found.place, request = found.request_id, found.detail, "fixed after a reorganisation");
    let mend = Some((ReversalReason::Reorganised, mandate));
    let Some(part) = BlocksAhead::new(ctx, chain, range, true, RequiredBlocks::Nothing)
        .next()
        .await?
    else {
        return Ok(range.to);
    };
    let mut report = ReconciliationReport::default();
    let unproven = compare(ctx, chain, &part, mend, &mut report, &mut tell).await?;
    if let Some(number) = unproven.first() {
        return Err(FlowError::NotYet(anyhow::anyhow!(
            "no node currently proves block {number} of {network}; retry later"
        )));
    }
    if report.failures > 0 {
        tracing::error!(
            %network, part.from, part.read_to, report.failures,
            "payments differ from the chain and could not be fixed; compare them with prs reconcile"
        );
    }
    Ok(part.read_to)
}

impl ReconciliationReport {
    fn count(&mut self, found: &RecordDifference) {
        self.differences += 1;
        self.failures += usize::from(found.unmended.is_some() || found.kind == DifferenceKind::Uncompared);
    }
}

/// Compares the blocks of one part, and fixes differences if a reversal reason is given. Returns the blocks that no
/// node currently proves.
async fn compare(
    ctx: &Ctx,
    chain: &dyn Chain,
    part: &SettledBlocks,
    mend: Option<(ReversalReason, &Mandate)>,
    report: &mut ReconciliationReport,
    tell: DifferenceListener<'_>,
) -> FlowResult<Vec<u64>> {
    let network = chain.network();
    let range = part.range();
    let (mut recorded, mut unreadable) = store::payments::in_blocks(ctx.db.reader(), network, range).await?;
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
    let unread: BTreeMap<&str, &UnreadablePayment> = unreadable.iter().map(|row| (row.id.as_str(), row)).collect();
    let contracts = ctx.catalogue.contracts(network).iter();
    let blocks = ComparedBlocks {
        range,
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
    let mending = FixingContext {
        ctx,
        chain,
        gathered: &gathered,
    };
    let mut set_aside = Ok(());
    if let Some((reason, mandate)) = mend
        && !found.is_empty()
    {
        mending.all(&mut found, reason, mandate).await;
        set_aside = mending.set_aside(range, &accepted, mandate).await;
    }
    let mut told: Vec<RecordDifference> = Vec::new();
    told.extend(unread.into_values().map(not_read));
    told.extend(unproven.iter().map(|number| not_proven(*number)));
    told.extend(uncompared);
    told.extend(gathered.unreadable.iter().map(request_not_read));
    for row in paid_requests {
        let request = &gathered.requests[row];
        // A request is recounted when a payment is reversed or credited, but not when only the position of a payment
        // changes.
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
    // An error is returned after the loop, so that the caller gets each fixed difference first.
    set_aside?;
    Ok(unproven.into_iter().collect())
}

/// The difference for an unreadable recorded payment.
fn not_read(row: &UnreadablePayment) -> RecordDifference {
    RecordDifference {
        kind: DifferenceKind::Uncompared,
        place: None,
        request_id: row.request_id.clone(),
        detail: format!("row {} of payments cannot be read: {}", row.id, row.error),
        unmended: None,
    }
}

/// The difference for an unreadable request, whose payments cannot be compared.
fn request_not_read(request: &UnreadableRequest) -> RecordDifference {
    RecordDifference {
        kind: DifferenceKind::Uncompared,
        place: None,
        request_id: request.id.clone(),
        detail: format!("the row of the request cannot be read: {}", request.error),
        unmended: None,
    }
}

/// The difference for a block that no node currently proves.
fn not_proven(number: u64) -> RecordDifference {
    RecordDifference {
        kind: DifferenceKind::Uncompared,
        place: None,
        request_id: String::new(),
        detail: format!("no node currently proves block {number}; compare it again"),
        unmended: None,
    }
}

/// Context for fixing differences.
struct FixingContext<'a> {
    ctx: &'a Ctx,
    chain: &'a dyn Chain,
    gathered: &'a GatheredPayments,
}

impl FixingContext<'_> {
    /// Fixes differences, and records why a difference could not be fixed. Differences that concern the same requests
    /// are fixed in one commit.
    async fn all(&self, found: &mut [FoundDifference<'_>], reason: ReversalReason, mandate: &Mandate) {
        for mut found in self.grouped(found) {
            let together: Vec<&FoundDifference<'_>> = found.iter().map(|one| &**one).collect();
            let Err(error) = self.together(&together, reason, mandate).await else {
                continue;
            };
            if found.len() == 1 || self.requests_of(&found).len() > 1 {
                // The differences concern several requests. Fixing only some of them could credit one request with the
                // payment of another request.
                for one in found {
                    one.difference.unmended = Some(format!("{error:#}"));
                }
                continue;
            }
            // Payments on the chain are credited first. If that fails, the wrong records of the request are not
            // reversed, so that its ledger does not lose the amount.
            found.sort_by_key(|one| one.proven.is_none());
            let mut is_missing = false;
            for one in found {
                let mended = if is_missing && one.proven.is_none() {
                    Err(FlowError::NotYet(anyhow::anyhow!(
                        "another payment of the request could not be fixed"
                    )))
                } else {
                    self.together(&[&*one], reason, mandate).await
                };
                if let Err(error) = mended {
                    is_missing |= one.proven.is_some();
                    one.difference.unmended = Some(format!("{error:#}"));
                }
            }
        }
    }

    /// Groups differences that concern the same requests. A difference may concern two requests, because a row may
    /// record the payment of another request.
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

    /// The requests that differences concern: the request in the record, and the request that the payment on the chain
    /// pays.
    fn requests_of<'f, 'a: 'f>(&self, found: &[impl Deref<Target = FoundDifference<'a>>]) -> BTreeSet<String> {
        let by_chain = found.iter().filter_map(|one| one.proven);
        let by_chain = by_chain.map(|proven| self.gathered.requests[proven.request_row].id.to_string());
        let by_rows = found.iter().map(|one| one.difference.request_id.clone());
        by_chain.chain(by_rows).collect()
    }

    /// Reverses wrong records and credits the payments on the chain, in one commit.
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
            "the request kept changing while its payments were fixed; try again"
        )))
    }

    /// Quarantines unexpected payments in blocks that were read again, like those in newly settled blocks.
    async fn set_aside(
        &self,
        blocks: BlockRange,
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

/// Like [`recount`], but reports a request that cannot be compared or fixed.
async fn recounted(ctx: &Ctx, request: &Request, mandate: Option<&Mandate>) -> Option<RecordDifference> {
    recount(ctx, request, mandate).await.unwrap_or_else(|error| {
        Some(RecordDifference {
            kind: DifferenceKind::Uncompared,
            place: None,
            request_id: request.id.to_string(),
            detail: format!("the ledger of the request cannot be compared or recounted: {error:#}"),
            unmended: None,
        })
    })
}

/// Compares the ledger of a request with its recorded payments, and recounts it if there is a mandate.
async fn recount(ctx: &Ctx, request: &Request, mandate: Option<&Mandate>) -> FlowResult<Option<RecordDifference>> {
    let recorded = store::payments::list_of_request(ctx.db.reader(), request).await?;
    if request.ledger.recounted(&PaymentRecord::credits(&recorded)) == request.ledger {
        return Ok(None);
    }
    // Read again in one transaction, because a payment may have been credited in the meantime.
    let tx = ctx.db.begin("recount_request").await?;
    let scope = Scope::of_platform(&request.origin.platform);
    let Some(request) = store::requests::find(&tx, &scope, request.id.as_str()).await? else {
        return Ok(None);
    };
    let recorded = store::payments::list_of_request(&tx, &request).await?;
    let counted = request.ledger.recounted(&PaymentRecord::credits(&recorded));
    if counted == request.ledger {
        return Ok(None);
    }
    let detail = format!(
        "the ledger of the request states {} with {} units from {} payments, but its recorded payments give {} with \
         {} units from {} payments",
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
    Ok(Some(RecordDifference {
        kind: DifferenceKind::Miscounted,
        place: None,
        request_id: request.id.to_string(),
        detail,
        unmended: None,
    }))
}
