//! Confirms payments. Finds the blocks in which nodes report payments of known requests, and credits each payment that
//! these blocks prove once. Writes the events and deliveries in the same commit.

use super::{
    ahead::{BlocksAhead, RequiredBlocks, SettledBlocks},
    gather::{GatheredPayments, gather},
    lead::Mandate,
    lines::CommittedPayments,
    links, rewind,
};
use crate::{
    ctx::Ctx,
    domain::{
        block_range::BlockRange,
        crediting::{CountedPayment, CreditingResult, credit},
        ids::{PaymentId, QuarantineId},
        ledger::Ledger,
        oddity::OddReason,
        payment::{BlockRef, Finality},
        payment_record::PaymentRecord,
        reconciliation::is_moved,
        request::Request,
    },
    flows::{FlowError, FlowResult, off_ramp, publish_all},
    ports::chain::{Chain, ChainError},
    store::{
        self, Tx,
        backlogs::{Backlog, BacklogReason},
        cursors::{Cursor, ReachedBlock},
        payments::SettledPayment,
    },
};
use alloy::primitives::B256;
use futures_util::future::join;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

/// Number of settled blocks whose hashes are stored, to find the start of a reorganisation. It is larger than the
/// number of blocks that are undone automatically. Source: rules B.2 (1).
const HASHES_KEPT: u64 = rewind::BLOCKS_MAX + 32;

/// Maximum attempts of a commit when a request changes concurrently.
const COMMITS_MAX: usize = 3;

/// Maximum time for which a step catches up. The next step queries the head and the final block again.
pub(super) const CATCHING_UP: Duration = Duration::from_secs(2);

/// The stored position that moves with a commit.
#[derive(Debug, Clone)]
pub(super) enum ChainProgress {
    /// The cursor, and the newest final block. The block was read first, then the cursor was checked to be still on the
    /// chain.
    Cursor(Cursor, BlockRef),
    /// A range of older blocks that is read separately.
    Backlog(Backlog),
}

/// Settles the final blocks of a range, commit by commit. While one commit is written, the data of the next one is
/// read. No range is started after `until`. Returns the last settled height; `None` when another instance was faster.
///
/// Errors: the first part cannot be read, or a commit fails. Earlier commits stay.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    range: BlockRange,
    proves_absence: bool,
    mut progress: ChainProgress,
    until: Option<Instant>,
) -> FlowResult<Option<u64>> {
    let known = match &progress {
        ChainProgress::Cursor(..) => RequiredBlocks::Noted,
        ChainProgress::Backlog(backlog) => match backlog.reason {
            BacklogReason::Unproven | BacklogReason::Quarantine => RequiredBlocks::Every,
            BacklogReason::Start | BacklogReason::Rescan | BacklogReason::Rewound => RequiredBlocks::SetAside,
        },
    };
    let mut ahead = BlocksAhead::new(ctx, chain, range, proves_absence, known);
    let mut present = ahead.next().await?;
    let mut settled = None;
    while let Some(part) = present {
        let goes_on = ahead.is_within_range() || until.is_none_or(|until| Instant::now() < until);
        let read = async { if goes_on { ahead.next().await } else { Ok(None) } };
        let (committed, next) = join(settle(ctx, chain, mandate, &part, &mut progress), read).await;
        if !committed? {
            return Ok(settled);
        }
        settled = Some(part.read_to);
        present = match next {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(network = %chain.network(), %error, "the next blocks could not be read in advance");
                None
            }
        };
    }
    Ok(settled)
}

/// Settles one part in one commit; `false` when the part was read for an outdated state of the chain.
async fn settle(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    part: &SettledBlocks,
    progress: &mut ChainProgress,
) -> FlowResult<bool> {
    if let (ChainProgress::Backlog(backlog), Some((number, _))) = (&*progress, part.failed.first())
        && backlog.reason == BacklogReason::Unproven
    {
        // An `Unproven` range consists of this one block. Moving its start would remove the range, and the block would
        // never be read.
        return Err(FlowError::NotYet(anyhow::anyhow!(
            "block {number} still cannot be proven"
        )));
    }
    // A reorganisation may have replaced final blocks while the previous part was written.
    if let ChainProgress::Cursor(cursor, _) = &*progress
        && part.is_later_range
        && chain.agreed(cursor.finalized.number).await?.hash != cursor.finalized.hash
    {
        return Ok(false);
    }
    let reached = match &*progress {
        ChainProgress::Cursor(cursor, tip) => Some(reached(chain, part, cursor, *tip).await?),
        ChainProgress::Backlog(_) => None,
    };
    for _ in 0..COMMITS_MAX {
        let gathered = gather(ctx, chain, part).await?;
        let tx = ctx.db.begin("confirm_blocks").await?;
        let Some(confirmed) = write(ctx, chain, &tx, Some(part.from), gathered).await? else {
            continue;
        };
        let Some(moved) = advance(ctx, &tx, progress, part.read_to, reached).await? else {
            return Ok(false);
        };
        mandate.commit(tx).await?;
        *progress = moved;
        confirmed.tell(chain.network());
        ctx.due.notify_one();
        return Ok(true);
    }
    Err(FlowError::NotYet(anyhow::anyhow!(
        "requests kept changing while their payments were confirmed"
    )))
}

/// The block that the cursor moves to. Also checks that `tip`, the newest final block when the step began, is still on
/// the chain. No query is made for this check if nodes report finality by tag, because such blocks are not replaced.
/// Errors: the chain was reorganised; the next step handles this.
async fn reached(chain: &dyn Chain, part: &SettledBlocks, cursor: &Cursor, tip: BlockRef) -> FlowResult<BlockRef> {
    let reorganised = || {
        chain.forget_final();
        ChainError::Unavailable {
            network: chain.network(),
            reason: "the chain was reorganised while it was read".to_owned(),
        }
    };
    if part.read_to == tip.number {
        return match part.reached {
            Some(shown) if shown.hash != tip.hash => Err(reorganised().into()),
            _ => Ok(tip),
        };
    }
    let reached = match part.reached {
        Some(shown) => shown,
        None => chain.agreed(part.read_to).await?,
    };
    if cursor.finality != Some(Finality::Tag) && chain.agreed(tip.number).await?.hash != tip.hash {
        return Err(reorganised().into());
    }
    Ok(reached)
}

/// Moves the stored position of the chain; `None` when it has changed since it was read.
async fn advance(
    ctx: &Ctx,
    tx: &Tx,
    progress: &ChainProgress,
    read_to: u64,
    reached: Option<BlockRef>,
) -> FlowResult<Option<ChainProgress>> {
    match (progress, reached) {
        (ChainProgress::Cursor(cursor, tip), Some(block)) => {
            let mark = ReachedBlock {
                number: block.number,
                hash: block.hash,
            };
            let next = Cursor {
                finalized: mark,
                seen: if cursor.seen.number < mark.number {
                    mark
                } else {
                    cursor.seen
                },
                // New blocks follow the stored final block, so the operator's permission to rewind is no longer needed.
                may_rewind: false,
                updated_at: ctx.clock.now(),
                ..cursor.clone()
            };
            store::observations::delete_up_to(tx, cursor.network, mark.number).await?;
            store::cursors::push_blocks(tx, cursor.network, &[block]).await?;
            store::cursors::prune_blocks(tx, cursor.network, mark.number, HASHES_KEPT).await?;
            let is_moved = store::cursors::replace(tx, cursor, &next).await?;
            Ok(is_moved.then_some(ChainProgress::Cursor(next, *tip)))
        }
        (ChainProgress::Backlog(backlog), _) => {
            let is_moved = store::backlogs::advance(tx, backlog, read_to, ctx.clock.now()).await?;
            let next = Backlog {
                next: read_to + 1,
                failures: 0,
                ..backlog.clone()
            };
            Ok(is_moved.then_some(ChainProgress::Backlog(next)))
        }
        (ChainProgress::Cursor(..), None) => Ok(Some(progress.clone())),
    }
}

/// Writes the gathered payments. If `from` is given, the payments are those of whole blocks from this number on.
/// Returns the credited and quarantined payments; `None` when a request changed concurrently, so that the caller must
/// not commit.
pub(super) async fn write(
    ctx: &Ctx,
    chain: &dyn Chain,
    tx: &Tx,
    from: Option<u64>,
    gathered: GatheredPayments,
) -> FlowResult<Option<CommittedPayments>> {
    let GatheredPayments {
        read_to,
        requests,
        matches,
        mut odd,
        unproven,
        ..
    } = gathered;
    let now = ctx.clock.now();
    let network = chain.network();
    if let Some(from) = from {
        let range = BlockRange { from, to: read_to };
        store::quarantine::settle_blocks(tx, network, range, &unproven, now).await?;
    }
    for number in unproven {
        let block = BlockRange::single(number);
        store::backlogs::push(tx, network, block, BacklogReason::Unproven, now).await?;
    }
    let departed = matches.iter().filter(|payment| payment.departure.is_some());
    let departed: Vec<B256> = departed.map(|payment| payment.settled.observed.tx_hash).collect();
    let accepted = store::quarantine::accepted(tx, network, &departed).await?;
    // Recorded payments were credited before, and stay credited.
    let (recorded, _) = store::payments::readable_of_transactions(tx, network, &departed).await?;
    let recorded: HashSet<_> = recorded
        .iter()
        .map(|payment| (payment.place(), &payment.request))
        .collect();
    let mut credited = Vec::with_capacity(matches.len());
    for payment in matches {
        let observed = &payment.settled.observed;
        let place = (observed.tx_hash, observed.position);
        let is_recorded = recorded.contains(&(place, &requests[payment.request_row].row));
        let is_accepted = |reason: OddReason| reason.may_be_accepted() && accepted.contains(&place);
        match payment.departure {
            // A payment without a rate cannot be credited, even if the operator accepted it, because its amount in the
            // request's currency is unknown.
            Some(departure) if departure.reason == OddReason::RateMissing => odd.push(departure),
            // A transfer that matches several requests is quarantined once, not once for each request.
            Some(departure) if !is_recorded && odd.contains(&departure) => {}
            Some(departure) if !is_recorded && !is_accepted(departure.reason) => odd.push(departure),
            _ => credited.push((payment.settled, payment.request_row)),
        }
    }
    for odd in &odd {
        store::quarantine::put(tx, odd, QuarantineId(ctx.ids.ulid()), now).await?;
    }
    let mut confirmed = CommittedPayments {
        odd,
        ..CommittedPayments::default()
    };
    let recorded: Vec<SettledPayment<'_>> = credited
        .iter()
        .map(|(settled, request_row)| SettledPayment {
            id: PaymentId(ctx.ids.ulid()),
            request: &requests[*request_row],
            settled,
            created_at: now,
        })
        .collect();
    if recorded.is_empty() {
        return Ok(Some(confirmed));
    }
    let written = store::payments::insert_new(tx, &recorded).await?;
    let counted = reinstate(tx, chain, &recorded, &written).await?;
    crate::fail_at("confirm_blocks", "recorded");
    let credits = credited.iter().zip(&counted).filter(|(_, counted)| counted.is_some());
    let mut fresh: BTreeMap<usize, HashSet<(B256, u32)>> = BTreeMap::new();
    for ((settled, request_row), _) in credits {
        let place = (settled.observed.tx_hash, settled.observed.position);
        fresh.entry(*request_row).or_default().insert(place);
    }
    let mut ledgers: BTreeMap<usize, Ledger> = BTreeMap::new();
    for (request_row, fresh) in fresh {
        ledgers.insert(request_row, before(tx, &requests[request_row], &fresh).await?);
    }
    let paid: Vec<&Request> = ledgers.keys().map(|row| &requests[*row]).collect();
    let tokens = links::tokens(tx, &paid, ctx.webhooks.scoped_variants).await?;
    let tokens = ctx.webhooks.scoped_variants.then_some(&tokens);
    let payments = credited.into_iter().zip(counted);
    let payments = payments.filter_map(|((settled, row), counted)| Some((settled, row, counted?)));
    let CreditingResult {
        ledgers,
        events,
        told,
        payments,
        shortfalls,
    } = credit(&requests, ledgers, payments, tokens);
    (confirmed.payments, confirmed.shortfalls) = (payments, shortfalls);
    let changes: Vec<_> = ledgers.iter().map(|(row, ledger)| (&requests[*row], ledger)).collect();
    if !store::requests::advance_all(tx, &changes, now).await? {
        return Ok(None);
    }
    links::follow(tx, &changes, now).await?;
    off_ramp::follow::run(ctx, tx, &changes, now).await?;
    crate::fail_at("confirm_blocks", "followed");
    store::payments::set_told(tx, &told, true).await?;
    crate::fail_at("confirm_blocks", "credited");
    publish_all(ctx, tx, &events).await?;
    Ok(Some(confirmed))
}

/// The ledger of a request without the payments of this commit, whose rows are already written.
///
/// The recorded payments are read only if their number differs from the ledger, for example after a row was lost. A
/// request may have any number of small payments, and one more payment must not cost a read of all of them.
async fn before(tx: &Tx, request: &Request, fresh: &HashSet<(B256, u32)>) -> FlowResult<Ledger> {
    let counted = u64::from(request.ledger.payment_count);
    if counted == 0 || store::payments::count_of_request(tx, request).await? == counted + fresh.len() as u64 {
        return Ok(request.ledger.clone());
    }
    let mut recorded = store::payments::list_of_request(tx, request).await?;
    recorded.retain(|payment| !fresh.contains(&payment.place()));
    Ok(request.ledger.recounted(&PaymentRecord::credits(&recorded)))
}

/// For each payment, in order, the payment if it counts from now on: it is new, or it was reversed and is reinstated.
/// `None` for a payment that already counted; only its position in the chain is updated.
async fn reinstate(
    tx: &Tx,
    chain: &dyn Chain,
    payments: &[SettledPayment<'_>],
    written: &HashSet<PaymentId>,
) -> FlowResult<Vec<Option<CountedPayment>>> {
    let recorded_before = payments.iter().filter(|payment| !written.contains(&payment.id));
    let tx_hashes: Vec<B256> = recorded_before
        .map(|payment| payment.settled.observed.tx_hash)
        .collect();
    // The reconciliation reports unreadable rows; they do not delay other payments.
    let (stored, _) = store::payments::readable_of_transactions(tx, chain.network(), &tx_hashes).await?;
    let stored: HashMap<_, _> = stored.iter().map(|payment| (payment.place(), payment)).collect();
    let mut counted = Vec::with_capacity(payments.len());
    for payment in payments {
        let observed = &payment.settled.observed;
        counted.push(match stored.get(&(observed.tx_hash, observed.position)) {
            _ if written.contains(&payment.id) => Some(CountedPayment {
                id: payment.id.clone(),
                is_new: true,
                is_told: false,
            }),
            Some(stored) if stored.reversal.is_some() => {
                let back = store::payments::reinstate(tx, payment).await?;
                back.map(|back| CountedPayment {
                    id: back.id,
                    is_new: false,
                    is_told: back.is_told,
                })
            }
            Some(stored) => {
                if is_moved(stored, payment.settled, payment.request) {
                    store::payments::relocate(tx, payment).await?;
                }
                None
            }
            None => None,
        });
    }
    Ok(counted)
}
