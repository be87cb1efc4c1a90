//! What a recorded payment and the chain say about the same money.

use crate::{
    domain::{payment::Settled, request::Request},
    store::payments::PaymentRecord,
};

/// Something that a recorded payment and the chain may tell differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fact {
    /// In words.
    pub(super) name: &'static str,
    /// Whether it says how much is credited and to whom, and not only where and when it was paid and by whom.
    pub(super) is_money: bool,
}

/// In which facts a recorded payment differs from what the chain proves about it for a request.
pub(super) fn differences(payment: &PaymentRecord, settled: &Settled, request: &Request) -> Vec<Fact> {
    let (observed, proven) = (&settled.observed, &settled.proven);
    let money = [
        (
            "request",
            request.row == payment.request
                && request.id.as_str() == payment.request_id
                && request.origin.platform == payment.platform,
        ),
        ("proxy", observed.proxy == payment.proxy),
        ("token", observed.token == payment.token),
        ("payee", observed.payee == payment.payee),
        (
            "units",
            proven.received_units == payment.units && observed.units == payment.event_units,
        ),
        (
            "fee",
            observed.fee_units == payment.fee_units && observed.fee_address == payment.fee_address,
        ),
        ("credit", settled.credited == payment.credited),
    ];
    let place = [
        (
            "block",
            observed.block_hash == payment.block_hash
                && observed.block_number == payment.block_number
                && observed.log_index == payment.log_index,
        ),
        (
            "payer",
            proven.payer == payment.payer && proven.payer_eoa == payment.payer_eoa,
        ),
        ("time", settled.at == payment.paid_at),
    ];
    let facts = |facts: &[(&'static str, bool)], is_money| {
        let other = facts.iter().filter(|(_, is_same)| !is_same);
        other.map(|(name, _)| Fact { name, is_money }).collect::<Vec<_>>()
    };
    [facts(&money, true), facts(&place, false)].concat()
}

/// Whether the same money is somewhere else in the chain than it is recorded: a reorganisation put it there.
pub(super) fn has_moved(differences: &[Fact]) -> bool {
    !differences.is_empty() && differences.iter().all(|fact| !fact.is_money)
}
