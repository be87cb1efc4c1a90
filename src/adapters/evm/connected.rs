//! Connects an EVM network with all its capabilities.

use super::{EvmChain, EvmChainOptions, relay::EvmRelay, wallet::ContractWallets};
use crate::ports::{chain::ChainParts, relay::Relay};
use alloy::signers::local::PrivateKeySigner;
use std::sync::Arc;

/// A connected EVM network.
pub struct ConnectedNetwork {
    chain: Arc<EvmChain>,
    /// Its capabilities.
    pub parts: ChainParts,
}

/// Checks the options and sets up the nodes. Nothing is sent before the first lookup.
pub fn connect(options: EvmChainOptions) -> anyhow::Result<ConnectedNetwork> {
    let wallets = ContractWallets::new(options.clone())?;
    let chain = Arc::new(EvmChain::new(options.clone())?);
    // Callers without credentials can cause payer lookups. These lookups use separate connections, so that a node that
    // they slow down stays available for reading payments.
    let for_payers = Arc::new(chain.with_lines_apart(options.clone())?);
    // Strangers choose the Safes whose executions are searched and proven, so these lookups use separate connections
    // too.
    let for_proofs = Arc::new(chain.with_lines_apart(options)?);
    Ok(ConnectedNetwork {
        parts: ChainParts {
            followed: chain.clone(),
            standings: for_payers.clone(),
            price_feeds: Some(for_payers.clone()),
            batch_fees: Some(for_payers),
            wallets: Some(Arc::new(wallets)),
            proofs: Some(for_proofs),
        },
        chain,
    })
}

impl ConnectedNetwork {
    /// The relayer account on this network that signs with this key.
    pub fn relay(&self, key: PrivateKeySigner) -> Arc<dyn Relay> {
        Arc::new(EvmRelay::new(self.chain.clone(), key))
    }
}
