//! What a recorded payment and the chain say about the same money.

use crate::{
    domain::payment::{Observation, Settled},
    store::payments::PaymentRecord,
};

/// Whether a row records an event. A row that counts payments of its transaction is known by everything but its place,
/// which is not known yet.
///
/// Source: ADR-0013.
pub(super) fn is_of(payment: &PaymentRecord, observed: &Observation) -> bool {
    observed.network == payment.network
        && observed.tx_hash == payment.tx_hash
        && (payment.counts_payments || observed.position == payment.position)
        && observed.reference_topic == payment.reference.topic()
        && observed.proxy == payment.proxy
        && observed.token == payment.token
        && observed.payee == payment.payee
        && observed.units == payment.event_units
}

/// In which facts a recorded payment differs from what the chain proves.
pub(super) fn differences(payment: &PaymentRecord, settled: &Settled) -> Vec<&'static str> {
    let observed = &settled.observed;
    let facts = [
        (
            "block",
            observed.block_hash == payment.block_hash && observed.block_number == payment.block_number,
        ),
        ("proxy", observed.proxy == payment.proxy),
        ("token", observed.token == payment.token),
        ("payee", observed.payee == payment.payee),
        (
            "units",
            settled.proven.received_units == payment.units && observed.units == payment.event_units,
        ),
        (
            "fee",
            observed.fee_units == payment.fee_units && observed.fee_address == payment.fee_address,
        ),
        ("credit", settled.credited == payment.credited),
        ("time", settled.at == payment.paid_at),
    ];
    let other = facts.iter().filter(|(_, is_same)| !is_same);
    other.map(|(name, _)| *name).collect()
}
