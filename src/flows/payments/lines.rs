//! Lines and counts about payments, once what they tell is committed.

use crate::domain::{
    ids::RequestId,
    network::Network,
    oddity::Oddity,
    payment::{Observation, ReversalReason},
};
use alloy::primitives::B256;

/// What a commit credited and set aside.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    /// Transaction and request of each payment that counts from now on.
    pub(super) payments: Vec<(B256, RequestId)>,
    /// New ones that fall short of a fee.
    pub(super) shortfalls: u64,
    /// What was not credited.
    pub(super) odd: Vec<Oddity>,
}

impl Confirmed {
    /// Tells it.
    pub(super) fn tell(&self, network: Network) {
        for odd in &self.odd {
            tracing::warn!(%network, block = odd.block_number, tx_hash = ?odd.tx_hash, reason = odd.reason.wire(), odd.detail, "set aside");
        }
        for (tx_hash, request) in &self.payments {
            tracing::info!(%network, %tx_hash, %request, "payment confirmed");
        }
        if self.shortfalls > 0 {
            metrics::counter!("prs_payment_fee_shortfalls_total", "network" => network.id()).increment(self.shortfalls);
        }
    }
}

/// A payment whose credit a commit took back.
#[derive(Debug)]
pub(super) struct Reversed {
    /// Its network.
    pub(super) network: Network,
    /// Its transaction.
    pub(super) tx_hash: B256,
    /// Its request.
    pub(super) request: RequestId,
    /// Why.
    pub(super) reason: ReversalReason,
}

/// Tells which payments a commit reversed.
pub(super) fn reversed(payments: &[Reversed]) {
    for payment in payments {
        let Reversed {
            network,
            tx_hash,
            request,
            reason,
        } = payment;
        tracing::warn!(%network, %tx_hash, %request, reason = reason.wire(), "payment reversed");
        metrics::counter!("prs_payments_reversed_total", "network" => network.id()).increment(1);
    }
}

/// Tells that payments of known requests were seen in blocks that are not final yet.
pub(super) fn seen(network: Network, observed: &[Observation]) {
    for payment in observed {
        tracing::info!(%network, tx_hash = %payment.tx_hash, block = payment.block_number, "payment seen");
    }
}
