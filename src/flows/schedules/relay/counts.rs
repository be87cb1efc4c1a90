//! Brings a schedule back in step with its contract, which counts the payments of a permit and refuses all but the next
//! one.

use super::{
    outcome::{advance, pass, take_back},
    round::Round,
};
use crate::{
    domain::{
        ledger::RequestStatus,
        relay::{RelayState, RelayTransaction, Tally, tally},
        request::Request,
        schedule::Schedule,
    },
    flows::FlowResult,
    store,
};

/// Why a payment waits that the contract counts in a block that is not final.
const UNSETTLED: &str = "the contract counts a payment in a block that is not final";

/// Why a payment waits while its service and the contract contradict each other.
const STILL_CREDITED: &str = "the contract does not count a payment that is credited";

/// Compares the counts after the chain refused a payment, and moves the schedule to where the contract is; `refused` is
/// the transaction that it refused in a block. `None` when both count alike, so that something else is the reason.
pub(super) async fn align(
    round: &Round<'_>,
    schedule: &Schedule,
    request: &Request,
    refused: Option<&RelayTransaction>,
) -> FlowResult<Option<bool>> {
    let permit = &schedule.permit;
    let next = round.relay.counted_next(permit).await?;
    if next == schedule.executed {
        return Ok(None);
    }
    let settled = round.relay.counted_by(permit, round.settled).await?;
    let ended = refused.map(|transaction| (transaction, RelayState::Reverted));
    match tally(schedule.executed, next, settled) {
        Tally::Even => Ok(None),
        Tally::Unsettled => pass(round, schedule, refused, UNSETTLED).await.map(Some),
        Tally::Behind => {
            let number = schedule.executed.saturating_add(1);
            let paid_by = request
                .ledger
                .tx_hash
                .filter(|_| request.ledger.status == RequestStatus::Paid);
            let paid_at = round.paid_at(request, paid_by.as_slice()).await?;
            tracing::warn!(
                schedule = %schedule.id, number, request = %request.id, is_credited = paid_at.is_some(),
                "somebody else executed a payment"
            );
            advance(round, schedule, paid_at, ended).await?;
            Ok(Some(true))
        }
        Tally::Ahead(count) => {
            // A credit is taken back by itself when its block is gone.
            let number = count.saturating_add(1);
            if let Some((_, request)) = round.execution(schedule, number).await? {
                let hashes = store::relays::hashes_of(round.ctx.db.reader(), schedule, number).await?;
                if round.paid_at(&request, &hashes).await?.is_some() {
                    return pass(round, schedule, refused, STILL_CREDITED).await.map(Some);
                }
            }
            tracing::warn!(schedule = %schedule.id, count, "the chain took payments back; they are executed again");
            take_back(round, schedule, count, ended).await?;
            Ok(Some(true))
        }
    }
}
