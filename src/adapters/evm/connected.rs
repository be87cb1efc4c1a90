//! Connects an EVM network with all its capabilities.

use super::{
    ChainOptions, EvmChain, NodeChain, proof::EvmProofs, protocol::EvmProtocol, relay::EvmRelay,
    wallet::ContractWallets,
};
use crate::{
    domain::network::Family,
    ports::{chain::ChainParts, relay::Relay},
};
use alloy::signers::local::PrivateKeySigner;
use anyhow::bail;
use std::sync::Arc;

/// A connected EVM network.
pub struct ConnectedNetwork {
    nodes: Arc<NodeChain>,
    /// Its capabilities.
    pub parts: ChainParts,
}

/// Checks the options and sets up the nodes. Nothing is sent before the first lookup. `nodes_apart_bps` is the maximum
/// difference between nodes about a conversion, in basis points of the smallest result.
pub fn connect(options: ChainOptions, nodes_apart_bps: u16) -> anyhow::Result<ConnectedNetwork> {
    let network = options.network;
    if network.family() != Family::Evm {
        bail!("{network} is not an EVM network");
    }
    let protocol = Arc::new(EvmProtocol::new(network));
    let nodes = Arc::new(NodeChain::new(protocol.clone(), options.clone())?);
    let lookups = |nodes| EvmChain::new(nodes, &options, nodes_apart_bps);
    // Callers without credentials can cause payer lookups. These lookups use separate connections, so that a node that
    // they slow down stays available for reading payments.
    let for_payers = Arc::new(lookups(Arc::new(nodes.with_lines_apart(options.clone())?)));
    // Strangers choose the Safes whose executions are searched and proven, so these lookups use separate connections
    // too.
    let for_proofs = EvmProofs::new(nodes.with_lines_apart(options.clone())?);
    let wallets = ContractWallets::new(NodeChain::set_up(protocol, options)?)?;
    Ok(ConnectedNetwork {
        parts: ChainParts {
            followed: nodes.clone(),
            standings: for_payers.clone(),
            preparations: None,
            price_feeds: Some(for_payers.clone()),
            batch_fees: Some(for_payers),
            wallets: Some(Arc::new(wallets)),
            proofs: Some(Arc::new(for_proofs)),
            broadcast: None,
        },
        nodes,
    })
}

impl ConnectedNetwork {
    /// The relayer account on this network that signs with this key.
    pub fn relay(&self, key: PrivateKeySigner) -> Arc<dyn Relay> {
        Arc::new(EvmRelay::new(self.nodes.clone(), key))
    }
}
