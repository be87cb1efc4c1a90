//! What is odd about a payment: set aside by itself, seen by the operator, while everything else goes on.

use super::{
    amount::Percent,
    ids::{PlatformId, RequestRowId},
    ledger::SettlementUnits,
    network::Network,
    payment::Observation,
    request::Request,
    wire_text::wire_text,
};
use alloy::primitives::{B256, U256};

wire_text! {
    /// Why something was set aside. Source: ADR-0012.
    pub enum OddReason {
        /// An event of a watched contract is not what the contract would ever emit, or nothing says which request it pays.
        Unreadable = "unreadable",
        /// A node told of an event that the proven block does not hold.
        NotInBlock = "not_in_block",
        /// Nodes answered, and no answer proves the block.
        Unprovable = "unprovable",
        /// The event names a known request, and the money did not move.
        NothingMoved = "nothing_moved",
        /// It was converted along another path than is fixed for its request.
        PathNotHandedOut = "path_not_handed_out",
        /// It accepted rates of another age than is fixed for its request.
        RateAgeNotHandedOut = "rate_age_not_handed_out",
        /// No rate is known for the time at which it was paid.
        RateMissing = "rate_missing",
        /// It left the chain after the partner was asked to pay it out to a bank account.
        PaidOut = "paid_out",
    }
}

impl OddReason {
    /// Whether the money has arrived and only its terms are odd, so that the operator may have it credited.
    ///
    /// Source: decisions D38.
    pub const fn may_be_accepted(self) -> bool {
        matches!(self, Self::PathNotHandedOut | Self::RateAgeNotHandedOut)
    }
}

wire_text! {
    /// What became of something that was set aside.
    pub enum QuarantineState {
        /// Nobody has decided.
        Open = "open",
        /// The operator has its block read again.
        Retrying = "retrying",
        /// The operator has it credited.
        Accepted = "accepted",
        /// The operator has it left alone.
        Rejected = "rejected",
        /// It was read again, and nothing was odd any more.
        Settled = "settled",
        /// The money that it moved is too small a part of what is due to wait for somebody.
        Minor = "minor",
    }
}

wire_text! {
    /// What the operator decides about something that was set aside.
    pub enum Verdict {
        /// Read its block again.
        Retry = "retry",
        /// Credit it as it is.
        Accept = "accept",
        /// Leave it alone.
        Reject = "reject",
    }
}

impl QuarantineState {
    /// Whether somebody has to look at it.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Retrying)
    }

    /// The state after a verdict. What was accepted may be credited already, and what is settled needs no verdict.
    ///
    /// Errors: the sentence for the operator.
    pub fn after(self, verdict: Verdict, reason: OddReason) -> Result<Self, &'static str> {
        match (self, verdict) {
            (Self::Settled, _) => Err("it is settled: nothing was odd when it was read again"),
            (Self::Accepted, Verdict::Retry | Verdict::Reject) => Err("it was accepted and may be credited already"),
            (_, Verdict::Accept | Verdict::Retry) if reason == OddReason::PaidOut => {
                Err("its order was opened before its money left the chain; settle it with the partner, then reject it")
            }
            (_, Verdict::Accept) if reason == OddReason::RateMissing => {
                Err("nothing says how much it settles; name the rate of its time: prs admin rates accept")
            }
            (_, Verdict::Accept) if !reason.may_be_accepted() => {
                Err("nothing proves that its money arrived, or which request it pays; retry or reject it")
            }
            (_, Verdict::Retry) => Ok(Self::Retrying),
            (_, Verdict::Accept) => Ok(Self::Accepted),
            (_, Verdict::Reject) => Ok(Self::Rejected),
        }
    }
}

/// The request that something odd concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concerned {
    /// Tenant.
    pub platform: PlatformId,
    /// Row.
    pub request: RequestRowId,
    /// The money that moved for it, when any is proven to have.
    pub stake: Option<Stake>,
}

/// Money that moved and was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stake {
    /// Units of the payment currency that arrived at the payee.
    pub units: U256,
    /// How much of the request they would settle by the word of the payer, who chose path and rates.
    pub settlement: SettlementUnits,
    /// Whether the units are too small a part of what the request costs to wait for somebody.
    pub is_minor: bool,
}

impl Stake {
    /// The stake of a payment in a request that costs `whole` units of the payment currency by the rates that were handed
    /// out; less than `minor` of that is minor. Without such rates nothing is, because what it would settle proves nothing.
    pub fn of(units: U256, settlement: SettlementUnits, whole: Option<U256>, minor: Option<Percent>) -> Self {
        let least = minor.zip(whole).map(|(minor, whole)| minor.of(whole));
        Self {
            units,
            settlement,
            is_minor: least.is_some_and(|least| units < least),
        }
    }
}

impl Concerned {
    /// This request.
    pub fn of(request: &Request) -> Self {
        Self {
            platform: request.origin.platform.clone(),
            request: request.row.clone(),
            stake: None,
        }
    }
}

/// Something odd, by the transaction that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// Network.
    pub network: Network,
    /// Height of the block.
    pub block_number: u64,
    /// Transaction; `None` when it concerns the whole block.
    pub tx_hash: Option<B256>,
    /// Position of the event among all events of its transaction, where it is proven.
    pub position: Option<u32>,
    /// Why.
    pub reason: OddReason,
    /// For the operator: what was seen, and which nodes said so.
    pub detail: String,
    /// The request that it concerns, when it is known.
    pub concerned: Option<Concerned>,
}

impl Oddity {
    /// That several requests fit a transfer: nothing says which of them it pays, so that it is credited to none of them. `None`
    /// when no more than one does.
    ///
    /// Source: ADR-0025.
    pub fn of_several(observed: &Observation, fitting: &[&Request]) -> Option<Self> {
        let ids: Vec<&str> = fitting.iter().map(|request| request.id.as_str()).collect();
        (ids.len() > 1).then(|| Self {
            network: observed.network,
            block_number: observed.block_number,
            tx_hash: Some(observed.tx_hash),
            position: Some(observed.position),
            reason: OddReason::Unreadable,
            detail: format!("nothing says which request it pays: it fits {}", ids.join(" and ")),
            // It is shown to no tenant: which of them it concerns is what nobody knows.
            concerned: None,
        })
    }

    /// The money that moved, when any is proven to have.
    pub fn stake(&self) -> Option<&Stake> {
        self.concerned.as_ref()?.stake.as_ref()
    }

    /// The state in which it is set aside: whoever pays dust must not hide what waits for somebody.
    pub fn first_state(&self) -> QuarantineState {
        match self.stake() {
            Some(stake) if stake.is_minor => QuarantineState::Minor,
            _ => QuarantineState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_money_that_arrived_on_other_terms_may_be_accepted() {
        for reason in OddReason::ALL {
            let accepted = QuarantineState::Open.after(Verdict::Accept, reason);
            assert_eq!(accepted.is_ok(), reason.may_be_accepted(), "{reason:?}");
            let retried = QuarantineState::Open.after(Verdict::Retry, reason).ok();
            let is_read_again = reason != OddReason::PaidOut;
            assert_eq!(
                retried,
                is_read_again.then_some(QuarantineState::Retrying),
                "{reason:?}"
            );
            assert_eq!(
                QuarantineState::Open.after(Verdict::Reject, reason),
                Ok(QuarantineState::Rejected)
            );
        }
    }

    #[test]
    fn a_rejection_can_be_taken_back_and_an_acceptance_cannot() {
        let reason = OddReason::PathNotHandedOut;
        for verdict in Verdict::ALL {
            assert!(QuarantineState::Rejected.after(verdict, reason).is_ok(), "{verdict:?}");
            assert!(QuarantineState::Settled.after(verdict, reason).is_err(), "{verdict:?}");
            assert_eq!(
                QuarantineState::Accepted.after(verdict, reason).is_ok(),
                verdict == Verdict::Accept
            );
        }
    }
}
