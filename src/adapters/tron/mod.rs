//! Tron behind nodes that serve its HTTP API and JSON-RPC. [`super::nodes`] queries and compares the nodes; this module
//! has what is particular to Tron: how nodes return blocks, what the header of a block proves ([`content`]), and the
//! lookups for payers.

mod broadcast;
mod content;
mod lookups;
mod protocol;
mod wire;

use self::protocol::TronProtocol;
use super::nodes::{ChainOptions, NodeChain};
use crate::{
    domain::{address::Address, network::Family},
    ports::chain::ChainParts,
};
use anyhow::bail;
use reqwest::header::HeaderName;
use std::sync::Arc;

/// Header with the key of an account at a provider of nodes.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("tron-pro-api-key");

/// Lookups for payers on Tron, and the broadcast of their transactions.
struct TronChain {
    nodes: NodeChain,
    fallback_account: Option<Address>,
}

/// Checks the options and sets up the nodes. Nothing is sent before the first lookup. `fallback_account` is used for
/// estimates while no payer is named.
pub fn connect(options: ChainOptions, fallback_account: Option<Address>) -> anyhow::Result<ChainParts> {
    let network = options.network;
    if network.family() != Family::Tron || options.nodes.iter().any(|node| node.api.is_none()) {
        bail!("{network} has no HTTP API of Tron");
    }
    let contracts = options.contracts.iter();
    let proxies = contracts.filter(|contract| contract.kind.emits_payments());
    let proxies = proxies.map(|contract| contract.address.bytes()).collect();
    let nodes = NodeChain::new(Arc::new(TronProtocol::new(proxies)), options.clone())?;
    // Callers without credentials can cause payer lookups, so these use separate connections.
    let for_payers = Arc::new(TronChain {
        nodes: nodes.with_lines_apart(options)?,
        fallback_account,
    });
    Ok(ChainParts {
        followed: Arc::new(nodes),
        standings: for_payers.clone(),
        preparations: Some(for_payers.clone()),
        price_feeds: None,
        batch_fees: None,
        wallets: None,
        proofs: None,
        broadcast: Some(for_payers),
    })
}
