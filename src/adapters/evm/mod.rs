//! EVM networks behind JSON-RPC nodes. [`super::nodes`] queries and compares the nodes; this module has what is particular
//! to EVM networks: the proof of a block by the roots of its header ([`evidence`]), contract lookups and the relayer.

mod connected;
mod evidence;
mod one_block;
mod payer;
mod proof;
mod protocol;
mod receipts;
mod relay;
mod safes;
mod signature_check;
mod wallet;
mod wallet_owners;

pub use self::connected::{ConnectedNetwork, connect};
pub use self::relay::signing_key;
use super::nodes::{ChainOptions, NodeChain};
use crate::domain::currency::{ContractKind, KnownContract};
use alloy::primitives::Address as EvmAddress;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// Lookups on the contracts and accounts of an EVM network.
struct EvmChain {
    nodes: Arc<NodeChain>,
    rates: Option<EvmAddress>,
    nodes_apart_bps: u16,
    /// The block height that contract lookups currently use, and when its use began.
    common_height: Mutex<Option<(u64, Instant)>>,
}

impl EvmChain {
    /// Lookups over these nodes. `nodes_apart_bps` is the maximum difference between nodes about a conversion, in basis
    /// points of the smallest result.
    fn new(nodes: Arc<NodeChain>, options: &ChainOptions, nodes_apart_bps: u16) -> Self {
        let mut rates: Vec<&KnownContract> = options
            .contracts
            .iter()
            .filter(|contract| contract.kind == ContractKind::ChainlinkConversionPath)
            .collect();
        rates.sort_by_key(|contract| !contract.is_default);
        Self {
            nodes,
            rates: rates.first().map(|contract| contract.address.bytes()),
            nodes_apart_bps,
            common_height: Mutex::default(),
        }
    }
}
