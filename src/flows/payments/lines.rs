//! Log lines and metrics about payments, written after the commit.

use crate::domain::{
    ids::RequestId,
    network::Network,
    oddity::Oddity,
    payment::{Observation, ReversalReason},
};
use alloy::primitives::B256;

/// Payments that a commit credited or quarantined.
#[derive(Debug, Default)]
pub(super) struct CommittedPayments {
    /// Transaction and request of each payment that counts from now on.
    pub(super) payments: Vec<(B256, RequestId)>,
    /// Number of new payments with a fee shortfall.
    pub(super) shortfalls: u64,
    /// Payments that were not credited.
    pub(super) odd: Vec<Oddity>,
}

impl CommittedPayments {
    /// Logs these payments and increments their metrics.
    pub(super) fn tell(&self, network: Network) {
        for odd in &self.odd {
            tracing::warn!(%network, block = odd.block_number, tx_hash = ?odd.tx_hash, reason = odd.reason.wire(), odd.detail, "payment quarantined");
        }
        for (tx_hash, request) in &self.payments {
            tracing::info!(%network, %tx_hash, %request, "payment confirmed");
        }
        if self.shortfalls > 0 {
            metrics::counter!("prs_payment_fee_shortfalls_total", "network" => network.id()).increment(self.shortfalls);
        }
    }
}

/// A payment whose credit a commit reversed.
#[derive(Debug)]
pub(super) struct ReversedPayment {
    /// Its network.
    pub(super) network: Network,
    /// Its transaction.
    pub(super) tx_hash: B256,
    /// Its request.
    pub(super) request: RequestId,
    /// Reason.
    pub(super) reason: ReversalReason,
}

/// Logs the payments that a commit reversed.
pub(super) fn reversed(payments: &[ReversedPayment]) {
    for payment in payments {
        let ReversedPayment {
            network,
            tx_hash,
            request,
            reason,
        } = payment;
        tracing::warn!(%network, %tx_hash, %request, reason = reason.wire(), "payment reversed");
        metrics::counter!("prs_payments_reversed_total", "network" => network.id()).increment(1);
    }
}

/// Logs payments of known requests in blocks that are not final yet.
pub(super) fn seen(network: Network, observed: &[Observation]) {
    for payment in observed {
        tracing::info!(%network, tx_hash = %payment.tx_hash, block = payment.block_number, "payment seen");
    }
}
