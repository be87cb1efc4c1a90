//! The local chain and the local off-ramp partner.
//!
//! The chain is the one that `prs dev` and the tests share: the real `anvil` node with the published payment contracts,
//! test tokens and a few contracts of our own, all at the same addresses every time.
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

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use control::{Block, ReorgTransaction, TxReceiptLite};
pub use deployment::{
    Contracts, EUR_PRICE_E8_USD, GBP_PRICE_E8_USD, NATIVE_PRICE_E8_USD, RELAYER_INDEX, SMART_WALLET_OWNER_INDEX,
    TOKEN_PRICE_E8_USD, Tokens, currency_hash, native_currency_hash,
};
pub use node::{Account, BlockTime, Options, anvil_path, dir};
pub use rpc::RpcError;

/// A running chain with everything deployed. Dropping it ends the node.
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
        // The node prints every call otherwise.
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

    /// Where the node answers JSON-RPC.
    pub fn rpc_url(&self) -> &str {
        self.node.url()
    }

    /// Has the node tell of its blocks, and counts them from here on: who waits for the next one need not ask for it.
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

    /// Where the contracts are.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// Where the tokens are.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// What `prs dev --json` prints about the chain; `network` is the name under which it serves the chain.
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
