//! What is odd about a payment: set aside by itself, seen by the operator, while everything else goes on.

use super::{network::Network, wire_text::wire_text};
use alloy::primitives::B256;

wire_text! {
    /// Why something was set aside. Source: ADR-0012.
    pub enum OddReason {
        /// An event of a watched contract is not what the contract would ever emit.
        Unreadable = "unreadable",
        /// A node told of an event that the proven block does not hold.
        NotInBlock = "not_in_block",
        /// Nodes answered, and no answer proves the block.
        Unprovable = "unprovable",
        /// The event names a known request, and the money did not move.
        NothingMoved = "nothing_moved",
        /// It was converted along a path that was not handed out.
        PathNotHandedOut = "path_not_handed_out",
        /// It accepted older rates than was handed out.
        RateAgeNotHandedOut = "rate_age_not_handed_out",
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
}
