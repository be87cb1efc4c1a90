//! The chain adapter against nodes that fail or return false data: each fault must lead to the right result or to an
//! error.

mod events;
mod finality;
mod node;
mod nodes;
mod proofs;
mod step;

use alloy::primitives::B256;
use node::{CHAIN_ID, FEE_PROXY, FakeNode, RATES, Served};
use prs::{
    adapters::{
        evm::connect,
        nodes::{ChainOptions, NodeUrls},
    },
    domain::{
        address::Address,
        currency::{ContractKind, KnownContract},
        network::Network,
        payment::{BlockRef, SettledBlock},
        waits::Waits,
    },
    ports::chain::{Chain, ChainError, ChainParts, PriceFeeds, ReportedEvents},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, matchers::any};

/// Maximum difference between nodes about a conversion, in basis points.
const NODES_APART_BPS: u16 = 100;

/// The nodes of a test, and the chain adapter that reads them.
struct Bench {
    nodes: Vec<FakeNode>,
    chain: Arc<dyn Chain>,
    parts: ChainParts,
    _servers: Vec<MockServer>,
}

impl Bench {
    async fn new(served: impl IntoIterator<Item = Served>) -> Self {
        Self::with(served, |_| {}).await
    }

    async fn with(served: impl IntoIterator<Item = Served>, adjust: impl FnOnce(&mut ChainOptions)) -> Self {
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for served in served {
            // The chain is created before the first call, whose deadline is short.
            served.block(0, false);
            let node = FakeNode(Arc::new(Mutex::new(served)));
            let server = MockServer::start().await;
            Mock::given(any()).respond_with(node.clone()).mount(&server).await;
            nodes.push(node);
            servers.push(server);
        }
        let urls = servers
            .iter()
            .map(|server| format!("{}/v3/secret-key-0123456789", server.uri()));
        let mut options = ChainOptions {
            network: Network::Sepolia,
            chain_id: CHAIN_ID,
            nodes: urls.map(|url| NodeUrls::of_rpc(url.parse().unwrap())).collect(),
            api_key: None,
            confirmations: None,
            start_block: None,
            contracts: [
                (ContractKind::Erc20FeeProxy, FEE_PROXY),
                (ContractKind::ChainlinkConversionPath, RATES),
            ]
            .map(|(kind, address)| KnownContract {
                kind,
                address: Address::Evm(address),
                creation_block: 5,
                is_default: true,
            })
            .to_vec(),
            call_timeout: Duration::from_millis(500),
            lookup_timeout: Waits::default().nodes,
            agreement: None,
            agreement_fallback: None,
        };
        adjust(&mut options);
        let parts = connect(options, NODES_APART_BPS).unwrap().parts;
        Self {
            nodes,
            chain: Arc::clone(&parts.followed),
            parts,
            _servers: servers,
        }
    }

    fn rates(&self) -> &dyn PriceFeeds {
        self.parts.price_feeds.as_deref().unwrap()
    }

    async fn block(&self, number: u64) -> BlockRef {
        self.chain.block(number).await.unwrap().unwrap()
    }
}

/// Of each payment that the nodes report: its block number and the topic of its payment reference.
fn told(told: &ReportedEvents) -> Vec<(u64, Option<B256>)> {
    let hints = told.hints.iter();
    hints
        .map(|(hint, _)| (hint.block_number, hint.reference_topic))
        .collect()
}

/// What [`told`] must return for these payments, each given as block number and units.
fn payments(payments: &[(u64, u64)]) -> Vec<(u64, Option<B256>)> {
    let told = payments.iter();
    told.map(|(block, units)| (*block, Some(node::reference(*units))))
        .collect()
}

fn units(block: &SettledBlock) -> Vec<u64> {
    let observed = block.transactions.iter().flat_map(|proof| &proof.observations);
    observed.map(|observation| observation.units.to()).collect()
}

fn is_malformed<T>(answer: &Result<T, ChainError>) -> bool {
    matches!(answer, Err(ChainError::Malformed { .. }))
}

fn is_unavailable<T>(answer: &Result<T, ChainError>) -> bool {
    matches!(
        answer,
        Err(ChainError::Unavailable { .. } | ChainError::Disagreement { .. })
    )
}
