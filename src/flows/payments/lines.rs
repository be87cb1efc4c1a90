//! Lines and counts about payments, once what they tell is committed.

use crate::domain::{ids::RequestId, network::Network, payment::Observation};
use alloy::primitives::B256;

/// What a commit credited.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    /// Transaction and request of each payment that counts from now on.
    pub(super) payments: Vec<(B256, RequestId)>,
    /// New ones that fall short of a fee.
    pub(super) shortfalls: u64,
}

impl Confirmed {
    /// Tells it.
    pub(super) fn tell(&self, network: Network) {
        for (tx_hash, request) in &self.payments {
            tracing::info!(%network, %tx_hash, %request, "payment confirmed");
        }
        if self.shortfalls > 0 {
            metrics::counter!("prs_payment_fee_shortfalls_total", "network" => network.id()).increment(self.shortfalls);
        }
    }
}

/// Tells that payments of known requests were seen in blocks that are not final yet.
pub(super) fn seen(network: Network, observed: &[Observation]) {
    for payment in observed {
        tracing::info!(%network, tx_hash = %payment.tx_hash, block = payment.block_number, "payment seen");
    }
}
