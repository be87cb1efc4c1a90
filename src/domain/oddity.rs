//! Unexpected payments: each is quarantined for the operator, while all other payments are credited as usual.

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
    /// Why a payment was quarantined. Source: ADR-0012.
    pub enum OddReason {
        /// An event of a watched contract has a form that the contract never emits, or it is ambiguous which request it
        /// pays.
        Unreadable = "unreadable",
        /// A node reported an event that the proven block does not contain.
        NotInBlock = "not_in_block",
        /// Nodes responded, but no response proves the block.
        Unprovable = "unprovable",
        /// The event names a known request, but nothing was transferred.
        NothingMoved = "nothing_moved",
        /// The conversion path of the payment differs from that of its request.
        PathNotHandedOut = "path_not_handed_out",
        /// The maximum rate age that the payment accepts differs from the one of its request.
        RateAgeNotHandedOut = "rate_age_not_handed_out",
        /// No rate is known for the time of the payment.
        RateMissing = "rate_missing",
        /// The payment left the chain after its payout to a bank account was ordered from the partner.
        PaidOut = "paid_out",
    }
}

impl OddReason {
    /// Whether the payment has arrived and only its terms are unexpected, so that the operator may accept it.
    ///
    /// Source: decisions D38.
    pub const fn may_be_accepted(self) -> bool {
        matches!(self, Self::PathNotHandedOut | Self::RateAgeNotHandedOut)
    }
}

wire_text! {
    /// State of a quarantined payment.
    pub enum QuarantineState {
        /// No decision yet.
        Open = "open",
        /// The operator ordered another read of the block with the payment.
        Retrying = "retrying",
        /// The operator accepted the payment, so it will be credited.
        Accepted = "accepted",
        /// The operator rejected it.
        Rejected = "rejected",
        /// A repeated read of the block found nothing unexpected in the payment.
        Settled = "settled",
        /// The amount is too small a part of the amount due to need a decision.
        Minor = "minor",
    }
}

wire_text! {
    /// Decision of the operator about a quarantined payment.
    pub enum OperatorDecision {
        /// Read its block again.
        Retry = "retry",
        /// Credit it unchanged.
        Accept = "accept",
        /// Do not credit it.
        Reject = "reject",
    }
}

impl QuarantineState {
    /// Whether the entry waits for a decision or a repeated read.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Retrying)
    }

    /// The state after a decision of the operator. An accepted payment cannot be rejected or read again, because it may
    /// already be credited. A payment that a repeated read found in order needs no decision.
    ///
    /// Errors: the message for the operator.
    pub fn after(self, verdict: OperatorDecision, reason: OddReason) -> Result<Self, &'static str> {
        match (self, verdict) {
            (Self::Settled, _) => Err("the service read the payment again and found it correct"),
            (Self::Accepted, OperatorDecision::Retry | OperatorDecision::Reject) => {
                Err("the payment may already be credited")
            }
            (_, OperatorDecision::Accept | OperatorDecision::Retry) if reason == OddReason::PaidOut => Err(
                "the payout was ordered before the payment left the chain; settle the payout with the \
                 partner, then reject the payment",
            ),
            (_, OperatorDecision::Accept) if reason == OddReason::RateMissing => {
                Err("the amount that the payment settles is unknown; set the rate for its time: prs admin rates accept")
            }
            (_, OperatorDecision::Accept) if !reason.may_be_accepted() => {
                Err("there is no proof that the payment arrived, or which request it pays; retry or reject the payment")
            }
            (_, OperatorDecision::Retry) => Ok(Self::Retrying),
            (_, OperatorDecision::Accept) => Ok(Self::Accepted),
            (_, OperatorDecision::Reject) => Ok(Self::Rejected),
        }
    }
}

/// The request that an unexpected payment concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcernedRequest {
    /// Tenant.
    pub platform: PlatformId,
    /// Row.
    pub request: RequestRowId,
    /// The proven amount, if any.
    pub stake: Option<AmountAtStake>,
}

/// Amount of a quarantined payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountAtStake {
    /// Units of the payment currency that arrived at the payee.
    pub units: U256,
    /// Amount of the request that these units would settle, by the path and rates that the payer chose.
    pub settlement: SettlementUnits,
    /// Whether the amount is too small a part of the cost of the request to need a decision.
    pub is_minor: bool,
}

impl AmountAtStake {
    /// The amount of a quarantined payment. `whole` is the cost of the request in units of the payment currency at the
    /// issued rates. A payment of less than the percentage `minor` of this cost is minor. If `whole` is unknown, no
    /// payment is minor: the payer chose the rates of `settlement`, so it proves nothing.
    pub fn of(units: U256, settlement: SettlementUnits, whole: Option<U256>, minor: Option<Percent>) -> Self {
        let least = minor.zip(whole).map(|(minor, whole)| minor.of(whole));
        Self {
            units,
            settlement,
            is_minor: least.is_some_and(|least| units < least),
        }
    }
}

impl ConcernedRequest {
    /// This request.
    pub fn of(request: &Request) -> Self {
        Self {
            platform: request.origin.platform.clone(),
            request: request.row.clone(),
            stake: None,
        }
    }
}

/// An unexpected payment or event, with its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// Network.
    pub network: Network,
    /// Height of the block.
    pub block_number: u64,
    /// Transaction; `None` when the entry concerns the whole block.
    pub tx_hash: Option<B256>,
    /// Position of the event among all events of its transaction, if proven.
    pub position: Option<u32>,
    /// Why.
    pub reason: OddReason,
    /// Details for the operator: what was seen, and which nodes reported it.
    pub detail: String,
    /// The request concerned, when known.
    pub concerned: Option<ConcernedRequest>,
}

impl Oddity {
    /// The quarantine entry for a transfer that matches several requests. Such a transfer is not credited, because the
    /// request that it pays is ambiguous. `None` when at most one request matches.
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
            detail: format!(
                "the transfer matches several requests, so it is not credited: {}",
                ids.join(" and ")
            ),
            // The entry is shown to no tenant, because it is unknown whose request the transfer pays.
            concerned: None,
        })
    }

    /// The proven amount, if any.
    pub fn stake(&self) -> Option<&AmountAtStake> {
        self.concerned.as_ref()?.stake.as_ref()
    }

    /// The first quarantine state. Minor payments get their own state, so that dust does not hide payments that need a
    /// decision.
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
    fn only_payments_on_other_terms_can_be_accepted() {
        for reason in OddReason::ALL {
            let accepted = QuarantineState::Open.after(OperatorDecision::Accept, reason);
            assert_eq!(accepted.is_ok(), reason.may_be_accepted(), "{reason:?}");
            let retried = QuarantineState::Open.after(OperatorDecision::Retry, reason).ok();
            let is_read_again = reason != OddReason::PaidOut;
            assert_eq!(
                retried,
                is_read_again.then_some(QuarantineState::Retrying),
                "{reason:?}"
            );
            assert_eq!(
                QuarantineState::Open.after(OperatorDecision::Reject, reason),
                Ok(QuarantineState::Rejected)
            );
        }
    }

    #[test]
    fn a_rejection_can_be_revoked_but_an_acceptance_cannot() {
        let reason = OddReason::PathNotHandedOut;
        for verdict in OperatorDecision::ALL {
            assert!(QuarantineState::Rejected.after(verdict, reason).is_ok(), "{verdict:?}");
            assert!(QuarantineState::Settled.after(verdict, reason).is_err(), "{verdict:?}");
            assert_eq!(
                QuarantineState::Accepted.after(verdict, reason).is_ok(),
                verdict == OperatorDecision::Accept
            );
        }
    }
}
