//! Synchronises a schedule with its contract. The contract counts the executed payments of a permit, and executes only
//! the payment with the next number.

use super::{
    outcome::{advance, pass, take_back},
    round::Round,
};
use crate::{
    domain::{
        ledger::RequestStatus,
        relay::{FailureTally, RelayState, RelayTransaction, tally},
        request::Request,
        schedule::Schedule,
    },
    flows::FlowResult,
    store,
};

/// Reason for a delay: the contract counts a payment in a block that is not final.
const UNSETTLED: &str = "the contract has counted the payment in a block that is not final yet";

/// Reason for a delay: this service has credited a payment that the contract does not count.
const STILL_CREDITED: &str = "the service has credited a payment that the contract has not counted";

/// Compares the number of executed payments in the schedule and in the contract, after the chain refused a payment.
/// Moves the schedule to the state of the contract if they differ. `refused` is the transaction that reverted, if the
/// payment was refused in a block and not in a simulation. Returns `None` when both counts are equal, which means that
/// the refusal has another reason.
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
        FailureTally::Even => Ok(None),
        FailureTally::Unsettled => pass(round, schedule, refused, UNSETTLED).await.map(Some),
        FailureTally::Behind => {
            let number = schedule.executed.saturating_add(1);
            let paid_by = request
                .ledger
                .tx_hash
                .filter(|_| request.ledger.status == RequestStatus::Paid);
            let paid_at = round.paid_at(request, paid_by.as_slice()).await?;
            tracing::warn!(
                schedule = %schedule.id, number, request = %request.id, is_credited = paid_at.is_some(),
                "another account executed a recurring payment"
            );
            advance(round, schedule, paid_at, ended).await?;
            Ok(Some(true))
        }
        FailureTally::Ahead(count) => {
            // If the block of a credited payment is no longer on the chain, the worker that follows the chain reverses
            // the credit.
            let number = count.saturating_add(1);
            if let Some((_, request)) = round.execution(schedule, number).await? {
                let hashes = store::relays::hashes_of(round.ctx.db.reader(), schedule, number).await?;
                if round.paid_at(&request, &hashes).await?.is_some() {
                    return pass(round, schedule, refused, STILL_CREDITED).await.map(Some);
                }
            }
            tracing::warn!(
                schedule = %schedule.id, count,
                "recurring payments left the chain; they will be executed again"
            );
            take_back(round, schedule, count, ended).await?;
            Ok(Some(true))
        }
    }
}
