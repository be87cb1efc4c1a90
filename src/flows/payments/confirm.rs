//! Makes payments final: looks where the nodes tell of payments of known requests, takes what those blocks prove, credits
//! it once, and writes the events and deliveries in the same commit.

use super::{
    ahead::{Ahead, Known, Part},
    gather::{Gathered, gather},
    lead::Mandate,
    lines::Confirmed,
    links, rewind,
};
use crate::{
    ctx::Ctx,
    domain::{
        crediting::{CountedPayment, Crediting, credit},
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
        cursors::{Cursor, Mark},
        payments::SettledPayment,
    },
};
use alloy::primitives::B256;
use futures_util::future::join;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

/// Settled blocks whose hashes are kept to find out where a reorganisation began: as many as are undone without asking,
/// and some more. Source: rules B.2 (1).
const HASHES_KEPT: u64 = rewind::BLOCKS_MAX + 32;

/// How often a commit is tried again when a request changed under it.
const COMMITS_MAX: usize = 3;

/// Time for which a look at a chain catches up; afterwards it looks again at the head and at what is final.
pub(super) const CATCHING_UP: Duration = Duration::from_secs(2);

/// Which memory of the chain moves with a commit.
#[derive(Debug, Clone)]
pub(super) enum Progress {
    /// The newest settled block, which is read up to; and the newest final one, which was seen before the cursor was found
    /// to be still on the chain.
    Cursor(Cursor, BlockRef),
    /// A range that is filled in beside.
    Backlog(Backlog),
}

/// Settles final blocks from `from` to `to`, commit by commit: while one is written, what the next one needs is read. No
/// range is begun after `until`. Returns the last height that was settled; `None` when somebody else was faster.
///
/// Errors: the first part cannot be read, or a commit fails. What was committed before stays.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    (from, to): (u64, u64),
    proves_absence: bool,
    mut progress: Progress,
    until: Option<Instant>,
) -> FlowResult<Option<u64>> {
    let known = match &progress {
        Progress::Cursor(..) => Known::Noted,
        Progress::Backlog(backlog) => match backlog.reason {
            BacklogReason::Unproven | BacklogReason::Quarantine => Known::Every,
            BacklogReason::Start | BacklogReason::Rescan | BacklogReason::Rewound => Known::SetAside,
        },
    };
    let mut ahead = Ahead::new(ctx, chain, (from, to), proves_absence, known);
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
                tracing::debug!(network = %chain.network(), %error, "nothing was read ahead");
                None
            }
        };
    }
    Ok(settled)
}

/// Settles one part in one commit; `false` when it was read for a state of the chain that is no longer the stored one.
async fn settle(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    part: &Part,
    progress: &mut Progress,
) -> FlowResult<bool> {
    if let (Progress::Backlog(backlog), Some((number, _))) = (&*progress, part.failed.first())
        && backlog.reason == BacklogReason::Unproven
    {
        // The range is this block alone: to go on would be to forget it.
        return Err(FlowError::NotYet(anyhow::anyhow!(
            "block {number} still cannot be proven"
        )));
    }
    // What was final may have changed while the range before this one was written.
    if let Progress::Cursor(cursor, _) = &*progress
        && part.is_later_range
        && chain.agreed(cursor.finalized.number).await?.hash != cursor.finalized.hash
    {
        return Ok(false);
    }
    let reached = match &*progress {
        Progress::Cursor(cursor, tip) => Some(reached(chain, part, cursor, *tip).await?),
        Progress::Backlog(_) => None,
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

/// The block that the cursor moves to. A chain whose final blocks may be replaced must not have been reorganised between
/// the look at the cursor and the reading: the end that was seen before both is still there, or is where the cursor moves
/// to, so that the next look finds out.
async fn reached(chain: &dyn Chain, part: &Part, cursor: &Cursor, tip: BlockRef) -> FlowResult<BlockRef> {
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

/// Moves the memory of the chain; `None` when it is no longer where it was read.
async fn advance(
    ctx: &Ctx,
    tx: &Tx,
    progress: &Progress,
    read_to: u64,
    reached: Option<BlockRef>,
) -> FlowResult<Option<Progress>> {
    match (progress, reached) {
        (Progress::Cursor(cursor, tip), Some(block)) => {
            let mark = Mark {
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
                // The chain went on from what was final, so there is nothing to go back to.
                may_rewind: false,
                updated_at: ctx.clock.now(),
                ..cursor.clone()
            };
            store::observations::delete_up_to(tx, cursor.network, mark.number).await?;
            store::cursors::push_blocks(tx, cursor.network, &[block]).await?;
            store::cursors::prune_blocks(tx, cursor.network, mark.number, HASHES_KEPT).await?;
            let is_moved = store::cursors::replace(tx, cursor, &next).await?;
            Ok(is_moved.then_some(Progress::Cursor(next, *tip)))
        }
        (Progress::Backlog(backlog), _) => {
            let is_moved = store::backlogs::advance(tx, backlog, read_to, ctx.clock.now()).await?;
            let next = Backlog {
                next: read_to + 1,
                failures: 0,
                ..backlog.clone()
            };
            Ok(is_moved.then_some(Progress::Backlog(next)))
        }
        (Progress::Cursor(..), None) => Ok(Some(progress.clone())),
    }
}

/// Writes what was gathered, of whole blocks where it names the first of them; returns what was credited and set aside, or
/// nothing when a request changed meanwhile, so that nothing may be kept.
pub(super) async fn write(
    ctx: &Ctx,
    chain: &dyn Chain,
    tx: &Tx,
    from: Option<u64>,
    gathered: Gathered,
) -> FlowResult<Option<Confirmed>> {
    let Gathered {
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
        store::quarantine::settle_blocks(tx, network, (from, read_to), &unproven, now).await?;
    }
    for number in unproven {
        store::backlogs::push(tx, network, (number, number), BacklogReason::Unproven, now).await?;
    }
    let departed = matches.iter().filter(|payment| payment.departure.is_some());
    let departed: Vec<B256> = departed.map(|payment| payment.settled.observed.tx_hash).collect();
    let accepted = store::quarantine::accepted(tx, network, &departed).await?;
    // What is recorded was credited before, and stays.
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
            // Without a rate nothing says how much it settles, whatever was decided before.
            Some(departure) if departure.reason == OddReason::RateMissing => odd.push(departure),
            // A transfer that several requests fit is odd once.
            Some(departure) if !is_recorded && odd.contains(&departure) => {}
            Some(departure) if !is_recorded && !is_accepted(departure.reason) => odd.push(departure),
            _ => credited.push((payment.settled, payment.request_row)),
        }
    }
    for odd in &odd {
        store::quarantine::put(tx, odd, QuarantineId(ctx.ids.ulid()), now).await?;
    }
    let mut confirmed = Confirmed {
        odd,
        ..Confirmed::default()
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
    let Crediting {
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

/// The account of a request without what is credited just now, which is recorded already. A payment whose row was lost
/// left its credit behind: what counts is what is recorded.
async fn before(tx: &Tx, request: &Request, fresh: &HashSet<(B256, u32)>) -> FlowResult<Ledger> {
    if request.ledger.payment_count == 0 {
        return Ok(request.ledger.clone());
    }
    let mut recorded = store::payments::list_of_request(tx, request).await?;
    recorded.retain(|payment| !fresh.contains(&payment.place()));
    Ok(request.ledger.recounted(&PaymentRecord::credits(&recorded)))
}

/// The payments that count from now on, in their order, those that came back too; those that count already stand as
/// `None`, and are put where they are now.
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
    // A row that cannot be read is named by the comparison with the chain, and keeps no other payment waiting.
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
