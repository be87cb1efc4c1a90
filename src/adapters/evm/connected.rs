//! Connects an EVM network: everything that this service asks of it.

use super::{EvmChain, EvmChainOptions, relay::EvmRelay, wallet::ContractWallets};
use crate::ports::{chain::ChainParts, relay::Relay};
use alloy::signers::local::PrivateKeySigner;
use std::sync::Arc;

/// An EVM network that is connected.
pub struct Connected {
    chain: Arc<EvmChain>,
    /// What it offers.
    pub parts: ChainParts,
}

/// Checks the options and sets up the nodes. Nothing is sent before the first question.
pub fn connect(options: EvmChainOptions) -> anyhow::Result<Connected> {
    let wallets = ContractWallets::new(options.clone())?;
    let chain = Arc::new(EvmChain::new(options.clone())?);
    // A stranger may send the lookups of a payer. A node that they make slow must stay available for reading payments.
    let for_payers = Arc::new(chain.with_lines_apart(options)?);
    Ok(Connected {
        parts: ChainParts {
            followed: chain.clone(),
            standings: for_payers.clone(),
            price_feeds: Some(for_payers.clone()),
            batch_fees: Some(for_payers),
            wallets: Some(Arc::new(wallets)),
        },
        chain,
    })
}

impl Connected {
    /// The account of a key on this network.
    pub fn relay(&self, key: PrivateKeySigner) -> Arc<dyn Relay> {
        Arc::new(EvmRelay::new(self.chain.clone(), key))
    }
}
