//! The local chain and the local off-ramp partner.
//!
//! `prs dev` and the tests share this chain: the real `anvil` node with the published payment contracts, test tokens
//! and a few contracts of our own. All contracts have the same addresses on every start.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let chain = devnet::Devnet::start(devnet::Options::default()).await?;
//! let fau = chain.balance_of(chain.tokens().fau, chain.accounts()[1].address).await?;
//! # let _ = fau;
//! # Ok(())
//! # }
//! ```

pub mod batch;
mod bytecode;
mod control;
mod deployment;
mod node;
pub mod off_ramp;
mod rpc;
pub mod safe;
pub mod tron;

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use control::{Block, ReorgTransaction, TxReceiptLite};
pub use deployment::{
    Contracts, EUR_PRICE_E8_USD, FACTORY, GBP_PRICE_E8_USD, NATIVE_PRICE_E8_USD, RELAYER_INDEX,
    SMART_WALLET_OWNER_INDEX, TOKEN_PRICE_E8_USD, Tokens, currency_hash, native_currency_hash,
};
pub use node::{Account, BlockTime, Options, anvil_path, dir};
pub use rpc::RpcError;

/// A running chain with all contracts deployed. Dropping it stops the node.
pub struct Devnet {
    node: node::Node,
    rpc: rpc::Rpc,
    chain_id: u64,
    contracts: Contracts,
    tokens: Tokens,
}

impl Devnet {
    /// Starts a node and deploys everything.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let node = node::Node::start(&options).await?;
        let rpc = rpc::Rpc::new(node.url())?;
        rpc.wait_for_chain(options.chain_id, Duration::from_secs(10)).await?;
        // Otherwise the node prints every call.
        rpc.call("anvil_setLoggingEnabled", json!([false])).await?;
        let (contracts, tokens) = deployment::deploy(&rpc, node.accounts(), options.chain_id)
            .await
            .context("the contracts of the local chain could not be deployed")?;
        if options.block_time == BlockTime::Instant {
            rpc.call("evm_setAutomine", json!([true])).await?;
        }
        Ok(Self {
            node,
            rpc,
            chain_id: options.chain_id,
            contracts,
            tokens,
        })
    }

    /// The URL of the node's JSON-RPC.
    pub fn rpc_url(&self) -> &str {
        self.node.url()
    }

    /// Makes the node report its blocks, and counts them from now on. A caller can then wait for the next block without
    /// polling.
    pub async fn tell_blocks(&self) -> anyhow::Result<watch::Receiver<u64>> {
        self.rpc.call("anvil_setLoggingEnabled", json!([true])).await?;
        Ok(self.node.blocks())
    }

    /// The chain's id.
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// The node's ten accounts. The first one deployed the contracts and owns them.
    pub fn accounts(&self) -> &[Account] {
        self.node.accounts()
    }

    /// Addresses of the contracts.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// Addresses of the tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The facts about the chain that `prs dev --json` prints; `network` is the name that the service has for the
    /// chain.
    pub fn summary(&self, network: &str) -> Value {
        json!({
            "rpcUrl": self.rpc_url(),
            "chainId": self.chain_id,
            "network": network,
            "accounts": self.accounts(),
            "contracts": self.contracts,
            "tokens": self.tokens,
        })
    }
}
