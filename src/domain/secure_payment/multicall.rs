//! Multicalls: links that pay the requests of several payout links in one transaction. The other links, its children,
//! stay payable on their own.

use super::{PaymentFlow, SecurePayment, SecurePaymentKind, SecurePaymentStatus};
use crate::domain::{
    child_failure::{BlockedChildren, ChildFacts, ChildFailure, ExceededCap},
    ids::SecurePaymentToken,
    network::Family,
    paying::batch_contract::admit_families,
    refusal::Refusal,
    request::Request,
    wire_text::wire_text,
};
use alloy::primitives::U256;
use chrono::{DateTime, Utc};

/// Maximum number of children on one network.
pub const CHILDREN_MAX: usize = 150;

/// Maximum number of children on several networks.
pub const CHILDREN_ACROSS_MAX: usize = 20;

wire_text! {
    /// How a multicall is paid.
    pub enum ExecutionKind {
        /// On one EVM network.
        EvmSameChain = "evm_same_chain",
        /// From one EVM network to another.
        EvmCrossChain = "evm_cross_chain",
        /// Several payments at once on Tron.
        TronBatch = "tron_batch",
    }
}

/// Checks how a caller wants to pay a multicall. Errors: in one transaction on Tron (400). Source: decisions D4.
pub fn admit_kind(kind: Option<ExecutionKind>) -> Result<(), Refusal> {
    let is_on_tron = kind == Some(ExecutionKind::TronBatch);
    admit_families(is_on_tron.then_some(Family::Tron).into_iter())
}

wire_text! {
    /// State of a multicall. Source: rules S.3.
    pub enum MulticallStatus {
        /// Nothing is paid.
        Pending = "pending",
        /// Nothing is paid, and the first child has expired.
        Expired = "expired",
        /// Every child is paid.
        Completed = "completed",
        /// Some children are paid.
        PartiallySettled = "partially_settled",
    }
}

wire_text! {
    /// Why a multicall cannot pay a link. Source: rules P.3.7.
    pub enum BlockReason {
        /// No such link exists.
        NotFound = "not_found",
        /// The link belongs to another user.
        NotOwned = "not_owned",
        /// The link pays its creator, not a recipient.
        NotOutgoing = "not_outgoing",
        /// The link has several requests.
        NotSinglePayment = "not_single_payment",
        /// The link appears twice, or its creator differs from that of the first link.
        InvalidChildLinkage = "invalid_child_linkage",
        /// It is paid.
        AlreadyPaid = "already_paid",
        /// The chain shows an unconfirmed payment, or a Safe is about to pay.
        RequestProcessing = "request_processing",
        /// It has expired.
        SecurePaymentExpired = "secure_payment_expired",
        /// The link was withdrawn, or combined with others.
        SecurePaymentNotPending = "secure_payment_not_pending",
        /// The recipient may not be paid.
        ComplianceFailed = "compliance_failed",
        /// Its request cannot be paid.
        NotPayableChild = "not_payable_child",
    }
}

wire_text! {
    /// How to continue when a multicall cannot pay a link.
    pub enum RecoveryAction {
        /// Create the multicall without this link.
        RemoveChild = "remove_child",
        /// Create the multicall with fewer links.
        RecreateReduced = "recreate_reduced",
        /// Wait for a new quote.
        WaitForQuoteRefresh = "wait_for_quote_refresh",
        /// Choose another route.
        SwitchRoute = "switch_route",
        /// Wait until the payment in flight is decided.
        RecreateAfterCooldown = "recreate_after_cooldown",
        /// Ask the operator.
        SupportRequired = "support_required",
    }
}

impl BlockReason {
    /// How to continue.
    pub const fn recovery(self) -> RecoveryAction {
        match self {
            Self::RequestProcessing => RecoveryAction::RecreateAfterCooldown,
            Self::ComplianceFailed => RecoveryAction::SupportRequired,
            Self::NotPayableChild => RecoveryAction::SwitchRoute,
            _ => RecoveryAction::RemoveChild,
        }
    }
}

/// Code of an exceeded number of children.
pub const CAP_EXCEEDED: &str = "cap_exceeded";

/// Facts about a child; the link is `None` when it no longer exists.
pub fn facts_of(link: Option<&SecurePayment>, request: &Request, now: DateTime<Utc>) -> ChildFacts {
    ChildFacts {
        request_id: request.id.0.clone(),
        has_been_paid: request.ledger.has_been_paid(),
        status: link.map(|link| link.status_at(now).wire()),
        request_status: request.ledger.status.wire(),
        expires_at: link.map(|link| link.expires_at),
        network: request.terms.network,
        currency: request.terms.payment_currency.clone(),
    }
}

impl BlockReason {
    /// The failure of a child.
    pub fn failure(self, position: usize, token: &SecurePaymentToken, facts: Option<ChildFacts>) -> ChildFailure {
        ChildFailure {
            position: Some(position),
            token: token.0.clone(),
            reason: self.wire(),
            recovery: self.recovery().wire(),
            facts,
        }
    }
}

/// Checks the number of children. Errors: there are too many (400).
pub fn check_count(actual: usize, is_across: bool) -> Result<(), Refusal> {
    let maximum = if is_across { CHILDREN_ACROSS_MAX } else { CHILDREN_MAX };
    if actual <= maximum {
        return Ok(());
    }
    Err(Refusal::blocked(BlockedChildren {
        failures: vec![ChildFailure {
            position: None,
            token: "*".to_owned(),
            reason: CAP_EXCEEDED,
            recovery: RecoveryAction::RecreateReduced.wire(),
            facts: None,
        }],
        cap: Some(ExceededCap { maximum, actual }),
    }))
}

/// Checks the children of a multicall. Errors: every child that it cannot pay, in their order (400).
pub fn check_children(failures: Vec<ChildFailure>) -> Result<(), Refusal> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(Refusal::blocked(BlockedChildren { failures, cap: None }))
}

/// Sums of a multicall in one currency or in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountTotals {
    /// Sum of the requested amounts.
    pub gross: U256,
    /// Sum of the fees that payers bear.
    pub by_payer: U256,
    /// Sum of the fees that payees bear.
    pub by_payee: U256,
    /// Decimals of the sums.
    pub decimals: u8,
}

impl AmountTotals {
    /// The sums of several payments; `None` without payments, for different decimals, and beyond 256 bits.
    pub fn of(parts: impl Iterator<Item = Self>) -> Option<Self> {
        let add = |sum: Option<Self>, part: Self| {
            let Some(sum) = sum else { return Some(Some(part)) };
            let is_same = sum.decimals == part.decimals;
            is_same.then_some(())?;
            Some(Some(Self {
                gross: sum.gross.checked_add(part.gross)?,
                by_payer: sum.by_payer.checked_add(part.by_payer)?,
                by_payee: sum.by_payee.checked_add(part.by_payee)?,
                decimals: sum.decimals,
            }))
        };
        let mut parts = parts;
        parts.try_fold(None, add)?
    }
}

/// Why a multicall cannot pay a link; `None` if it can. `is_seen` says whether the chain shows an unconfirmed payment.
pub fn block_of(link: &SecurePayment, requests: &[Request], is_seen: bool, now: DateTime<Utc>) -> Option<BlockReason> {
    if link.flow != PaymentFlow::Pay {
        return Some(BlockReason::NotOutgoing);
    }
    if link.kind() != SecurePaymentKind::Single || link.is_multicall() {
        return Some(BlockReason::NotSinglePayment);
    }
    match link.status_at(now) {
        SecurePaymentStatus::Completed => Some(BlockReason::AlreadyPaid),
        SecurePaymentStatus::Expired => Some(BlockReason::SecurePaymentExpired),
        SecurePaymentStatus::Invalidated => Some(BlockReason::SecurePaymentNotPending),
        SecurePaymentStatus::ComplianceFailed => Some(BlockReason::ComplianceFailed),
        SecurePaymentStatus::Pending if requests.iter().all(|request| request.payable().is_err()) => {
            Some(BlockReason::NotPayableChild)
        }
        // Anyone can report a payment, so a report alone blocks nothing.
        SecurePaymentStatus::Pending if is_seen || link.locked_at(now).is_some() => {
            Some(BlockReason::RequestProcessing)
        }
        SecurePaymentStatus::Pending => None,
    }
}

impl MulticallStatus {
    /// The state of a multicall with this many paid children.
    pub const fn of(paid: usize, all: usize, is_over: bool) -> Self {
        match (paid, is_over) {
            (0, true) => Self::Expired,
            (0, false) => Self::Pending,
            (paid, _) if paid == all => Self::Completed,
            _ => Self::PartiallySettled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_multicall_follows_from_its_paid_children() {
        use MulticallStatus::{Completed, Expired, PartiallySettled, Pending};
        for (paid, is_over, expected) in [
            (0, false, Pending),
            (0, true, Expired),
            (1, false, PartiallySettled),
            (1, true, PartiallySettled),
            (2, false, Completed),
            (2, true, Completed),
        ] {
            assert_eq!(MulticallStatus::of(paid, 2, is_over), expected, "{paid} {is_over}");
        }
    }
}
