//! The chain adapter against nodes that fail and lie: each fault has to end in the right answer or in none.

mod events;
mod finality;
mod node;
mod nodes;
mod proofs;

use chrono::{DateTime, Utc};
use node::{CHAIN_ID, FEE_PROXY, FakeNode, GENESIS_S, RATES, Served};
use prs::{
    adapters::evm::{EvmChain, EvmChainOptions},
    domain::{
        address::Address,
        currency::{ContractKind, KnownContract},
        network::Network,
        payment::{BlockRef, Observation},
    },
    ports::{
        chain::{Chain, ChainError, Witness},
        clock::Clock,
    },
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, matchers::any};

/// Stands at the time of the newest block of the usual chain.
struct FixedClock(DateTime<Utc>);

impl Clock for FixedClock {
    fn now(&self) -> DateTime<Utc> {
        self.0
    }

    fn steady(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// Nodes and the chain that reads them.
struct Bench {
    nodes: Vec<FakeNode>,
    chain: EvmChain,
    _servers: Vec<MockServer>,
}

impl Bench {
    async fn new(served: impl IntoIterator<Item = Served>) -> Self {
        Self::with(served, |_| {}).await
    }

    async fn with(served: impl IntoIterator<Item = Served>, adjust: impl FnOnce(&mut EvmChainOptions)) -> Self {
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for served in served {
            let node = FakeNode(Arc::new(Mutex::new(served)));
            let server = MockServer::start().await;
            Mock::given(any()).respond_with(node.clone()).mount(&server).await;
            nodes.push(node);
            servers.push(server);
        }
        let head = nodes
            .iter()
            .map(|node| node.0.lock().unwrap().blocks)
            .max()
            .unwrap_or(0);
        let now_s = i64::try_from(GENESIS_S + head * 12).unwrap();
        let urls = servers
            .iter()
            .map(|server| format!("{}/v3/secret-key-0123456789", server.uri()));
        let mut options = EvmChainOptions {
            network: Network::Sepolia,
            chain_id: CHAIN_ID,
            rpc_urls: urls.map(|url| url.parse().unwrap()).collect(),
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
            clock: Arc::new(FixedClock(DateTime::from_timestamp(now_s, 0).unwrap())),
        };
        adjust(&mut options);
        Self {
            nodes,
            chain: EvmChain::new(options).unwrap(),
            _servers: servers,
        }
    }

    async fn block(&self, number: u64) -> BlockRef {
        self.chain.block(number, Witness::First).await.unwrap().unwrap()
    }
}

fn units(found: &[Observation]) -> Vec<u64> {
    found.iter().map(|observation| observation.units.to()).collect()
}

fn is_malformed<T>(answer: &Result<T, ChainError>) -> bool {
    matches!(answer, Err(ChainError::Malformed { .. }))
}
