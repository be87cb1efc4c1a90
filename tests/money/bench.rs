//! The service on the real local chain or on the stand-in for Tron, behind nodes that can return false data. Helpers
//! pay several requests at once.

use crate::{
    proxy::Proxy,
    support::{
        TestApp,
        chain::step,
        requests::PAYEE,
        tron_calls::{self, TronPayment},
    },
};
use alloy::{
    primitives::{Address as EvmAddress, B256, U256},
    sol_types::SolCall,
};
use chrono::TimeDelta;
use devnet::{
    Devnet, Options,
    batch::{MetaDetail, RequestDetail, batchPaymentsCall},
    tron::{TronDevnet, TronOptions},
};
use prs::{
    adapters::clock::SystemClock,
    boot::dev,
    domain::{
        block_range::BlockRange,
        network::{Family, Network},
        payment_record::PaymentRecord,
    },
    flows::payments::{reconcile, watch::WatchResult},
    ports::{chain::Chain, clock::Clock},
    settings::{ChainSettings, Settings},
    store,
};
use serde_json::json;
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// Gas for each payment in a transaction, added to [`GAS_BASE`] for the gas limit. A payment uses less.
const GAS_PER_PAYMENT: u64 = 60_000;
const GAS_BASE: u64 = 500_000;

/// Time limit of a node call.
const CALL_TIMEOUT_MS: u64 = 200;

/// Number of steps without progress after which the service counts as idle.
const STILL_STEPS: usize = 3;

/// Time limit for following honest nodes on a busy machine.
const SETTLING_MAX: Duration = Duration::from_secs(20);

/// The longest time for which the service avoids a node after failures, plus a margin.
const AFTER_FAILURES: Duration = Duration::from_secs(40);

/// Index of the list of token payments in a call of the batch contract.
pub const TOKENS: u64 = 1;
/// Index of the list of native payments in a call of the batch contract.
pub const NATIVE: u64 = 3;

/// A request that waits for its payment.
#[derive(Debug, Clone)]
pub struct Open {
    /// Public id.
    pub id: String,
    /// Its payment reference.
    pub reference: Vec<u8>,
    /// The requested amount in units.
    pub units: U256,
}

/// A payment and its transaction.
#[derive(Debug, Clone)]
pub struct Paid {
    /// Transaction.
    pub tx_hash: B256,
    /// The block that first included the transaction.
    pub block_number: u64,
    /// The requests that it pays.
    pub requests: Vec<Open>,
}

/// Number of nodes of the stand-in for Tron.
const TRON_NODES: usize = 2;

/// The accounts of the stand-in for Tron that can pay. Payments of other accounts fail.
const TRON_PAYERS: [usize; 2] = [2, 3];

/// Index of an account of the stand-in for Tron whose payments fail.
pub const TRON_PAUPER: usize = 4;

/// The chain behind the nodes of a service.
#[derive(Clone)]
pub enum Ground {
    Evm(Arc<Devnet>),
    Tron(Arc<TronDevnet>),
}

impl Ground {
    /// Starts a chain of a family. Some of its accounts have approved the payment contract.
    pub async fn start(family: Family) -> Self {
        match family {
            Family::Evm => Self::Evm(chain().await),
            Family::Tron => {
                let options = TronOptions {
                    nodes: TRON_NODES,
                    ..TronOptions::default()
                };
                let chain = TronDevnet::start(options).await.expect("the stand-in starts");
                for index in TRON_PAYERS {
                    tron_calls::approve(&chain, index).await;
                }
                chain.mine(5).await.expect("mined");
                Self::Tron(Arc::new(chain))
            }
        }
    }

    /// Mines blocks.
    pub async fn mine(&self, count: u64) {
        match self {
            Self::Evm(chain) => chain.mine(count).await.expect("mined"),
            Self::Tron(chain) => drop(chain.mine(count).await.expect("mined")),
        }
    }

    fn network(&self) -> Network {
        match self {
            Self::Evm(_) => Network::Sepolia,
            Self::Tron(_) => Network::Tron,
        }
    }

    /// URL of a node. Nodes of the local chain are one node behind several proxies, and so are those of Tron beyond the
    /// first ones.
    fn node_url(&self, index: usize) -> &str {
        match self {
            Self::Evm(chain) => chain.rpc_url(),
            Self::Tron(chain) => chain.api_url(index % TRON_NODES).expect("a node"),
        }
    }

    /// The settings of the network, behind these nodes.
    fn settings(&self, nodes: Vec<String>) -> ChainSettings {
        match self {
            Self::Evm(chain) => ChainSettings {
                confirmations: None,
                start_block: None,
                ..dev::chain_settings(chain, nodes)
            },
            Self::Tron(_) => ChainSettings {
                api_urls: nodes,
                ..ChainSettings::default()
            },
        }
    }

    /// The currency of requests, and its number of decimals.
    const fn currency(&self) -> (&'static str, u32) {
        match self {
            Self::Evm(_) => ("FAU-sepolia", 18),
            Self::Tron(_) => ("USDT-tron", 6),
        }
    }

    /// The payee of requests.
    fn payee(&self) -> &str {
        match self {
            Self::Evm(_) => PAYEE,
            Self::Tron(chain) => &chain.summary().accounts[1].address,
        }
    }
}

/// The service and its nodes.
pub struct Bench {
    /// The service.
    pub app: TestApp,
    /// The nodes of the service, in order of preference.
    pub nodes: Vec<Proxy>,
    /// The chain.
    pub ground: Ground,
    drawn: u64,
}

/// Starts a local chain on which every account has approved the batch contract to spend its tokens.
pub async fn chain() -> Arc<Devnet> {
    let chain = Devnet::start(Options::default()).await.expect("the local chain starts");
    let batch = chain.contracts().batch_conversion_payments;
    for index in 0..chain.accounts().len() {
        let approved = chain.approve(index, chain.tokens().fau, batch, U256::MAX).await;
        assert!(approved.expect("mined").status);
    }
    chain.mine(5).await.expect("mined");
    Arc::new(chain)
}

impl Bench {
    /// Starts the service with its own database, behind this number of honest nodes.
    pub async fn start(chain: &Arc<Devnet>, nodes: usize, adjust: impl FnOnce(&mut ChainSettings)) -> Self {
        Self::start_on(&Ground::Evm(chain.clone()), nodes, adjust).await
    }

    /// Like [`Self::start`], on a chain of any family.
    pub async fn start_on(ground: &Ground, nodes: usize, adjust: impl FnOnce(&mut ChainSettings)) -> Self {
        let mut proxies = Vec::new();
        for index in 0..nodes {
            proxies.push(Proxy::start(ground.node_url(index)).await);
        }
        let mut section = ground.settings(proxies.iter().map(|proxy| proxy.url.clone()).collect());
        section.call_timeout_ms = CALL_TIMEOUT_MS;
        adjust(&mut section);
        let mut settings = crate::support::app::settings();
        settings.chains.insert(ground.network().id().to_owned(), section);
        let local = match ground {
            Ground::Evm(chain) => Some(chain.clone()),
            Ground::Tron(_) => None,
        };
        let app = TestApp::with(settings, local).await;
        // The blocks of the chain have the time of the machine.
        let now = app.ctx.clock.now();
        app.clock.advance(SystemClock.now() - now + TimeDelta::seconds(90));
        Self {
            app,
            nodes: proxies,
            ground: ground.clone(),
            drawn: 0,
        }
    }

    /// Starts the service again, in a new process on the same database.
    pub async fn restarted(self) -> Self {
        self.restarted_with(|_| {}).await
    }

    /// Like [`Self::restarted`], with other settings.
    pub async fn restarted_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let app = self.app.restarted_with(change).await;
        Self { app, ..self }
    }

    /// Creates a request in the test token, with an amount that no other request has.
    pub async fn request(&mut self) -> Open {
        self.drawn += 1;
        let (currency, decimals) = self.ground.currency();
        let units = U256::from(self.drawn) * U256::from(10).pow(U256::from(decimals - 2));
        let amount = format!("{}.{:02}", self.drawn / 100, self.drawn % 100);
        self.request_in(currency, &amount, units).await
    }

    /// Creates a request in a currency.
    pub async fn request_in(&self, currency: &str, amount: &str, units: U256) -> Open {
        let body = json!({
            "payee": self.ground.payee(),
            "amount": amount,
            "invoiceCurrency": currency,
            "paymentCurrency": currency,
        });
        let created = self.app.post("/v2/request").with_client().json(&body).send().await;
        let created = created.expect(201);
        let text = |name: &str| created[name].as_str().expect("text").to_owned();
        Open {
            id: text("requestId"),
            reference: hex::decode(text("paymentReference")).expect("hexadecimal"),
            units,
        }
    }

    /// Creates this number of requests.
    pub async fn requests(&mut self, count: usize) -> Vec<Open> {
        let mut requests = Vec::new();
        for _ in 0..count {
            requests.push(self.request().await);
        }
        requests
    }

    /// Creates and pays requests, each group in a block of its own. A group is the index of its payer, and the number
    /// of its requests. On Tron, each request has a transaction of its own, because no contract pays several.
    pub async fn pay_in_blocks(&mut self, groups: &[(usize, usize)]) -> Vec<Paid> {
        let mut paid = Vec::new();
        for (from_index, count) in groups {
            let requests = self.requests(*count).await;
            match self.ground.clone() {
                Ground::Evm(_) => paid.push(self.pay(*from_index, requests).await),
                Ground::Tron(chain) => paid.extend(self.pay_on_tron(&chain, *from_index, requests).await),
            }
        }
        paid
    }

    async fn pay_on_tron(&self, chain: &TronDevnet, from_index: usize, requests: Vec<Open>) -> Vec<Paid> {
        chain.set_hold(true).await.expect("set");
        let mut sent = Vec::new();
        for open in requests {
            let payment = TronPayment {
                to: tron_calls::bytes_of(self.ground.payee()),
                units: open.units,
                reference: open.reference.clone(),
                fee: U256::ZERO,
                fee_address: EvmAddress::ZERO,
            };
            sent.push((tron_calls::pay(chain, from_index, payment).await, open));
        }
        chain.set_hold(false).await.expect("set");
        let block_number = chain.mine(1).await.expect("mined").head_number;
        let paid = sent.into_iter().map(|(tx_hash, open)| Paid {
            tx_hash,
            block_number,
            requests: vec![open],
        });
        paid.collect()
    }

    /// Pays requests in the test token in one transaction, which is mined at once.
    pub async fn pay(&self, from_index: usize, requests: Vec<Open>) -> Paid {
        self.pay_groups(from_index, vec![(TOKENS, requests)]).await
    }

    /// Pays several groups of requests in one transaction. All requests of a group are paid by the same kind of
    /// payment, whose index comes first.
    pub async fn pay_groups(&self, from_index: usize, groups: Vec<(u64, Vec<Open>)>) -> Paid {
        let chain = self.app.devnet();
        let count: usize = groups.iter().map(|(_, requests)| requests.len()).sum();
        let value: U256 = groups
            .iter()
            .filter(|(kind, _)| *kind == NATIVE)
            .flat_map(|(_, requests)| requests)
            .map(|open| open.units)
            .sum();
        let call = batch_call(chain, &groups);
        let transaction = json!({
            "from": chain.accounts()[from_index].address,
            "to": chain.contracts().batch_conversion_payments,
            "input": hex::encode_prefixed(call),
            "value": value,
            "gas": format!("{:#x}", GAS_BASE + GAS_PER_PAYMENT * u64::try_from(count).expect("64 bits")),
        });
        let tx_hash = chain
            .rpc("eth_sendTransaction", json!([transaction]))
            .await
            .expect("sent");
        let tx_hash: B256 = tx_hash.as_str().expect("text").parse().expect("a hash");
        let receipt = chain.wait_for_receipt(tx_hash).await.expect("mined");
        assert!(receipt.status, "the batch succeeds");
        Paid {
            tx_hash,
            block_number: receipt.block_number,
            requests: groups.into_iter().flat_map(|(_, requests)| requests).collect(),
        }
    }

    /// The adapter with which the service reads the chain.
    pub fn adapter(&self) -> Arc<dyn Chain> {
        let followed = &self.app.ctx.partners.chains.followed;
        followed.get(&self.ground.network()).expect("enabled").clone()
    }

    /// Runs one step of the service and advances its clock, so that postponed work becomes due.
    pub async fn step(&self) -> Result<WatchResult, String> {
        self.app.clock.advance(TimeDelta::seconds(2));
        let step = step(&self.app.ctx, self.adapter().as_ref()).await;
        step.map_err(|error| format!("{error:?}"))
    }

    /// Runs steps until `is_done`, or until this number of steps failed or changed nothing. Returns the reason if the
    /// service halted the chain.
    pub async fn follow(&self, patience: usize, is_done: impl AsyncFn() -> bool) -> Option<String> {
        let mut still = 0;
        while still < patience {
            match self.step().await {
                Ok(WatchResult::Halted(reason)) => return Some(reason),
                Ok(WatchResult::At(position)) if position.moved => {}
                Ok(WatchResult::At(_)) | Err(_) => still += 1,
            }
            if is_done().await {
                break;
            }
        }
        None
    }

    /// Runs steps until `is_done`. Gives up after the longest time for which the service avoids a node that failed.
    pub async fn follow_after_failures(&self, is_done: impl AsyncFn() -> bool) -> Option<String> {
        let end = Instant::now() + AFTER_FAILURES;
        loop {
            let halted = self.follow(1, &is_done).await;
            if halted.is_some() || is_done().await || Instant::now() > end {
                return halted;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs steps until there is nothing more to read. Panics if the chain halts or stays unreachable.
    pub async fn settle(&self) {
        let end = Instant::now() + SETTLING_MAX;
        let mut still = 0;
        while still < STILL_STEPS {
            match self.step().await {
                Ok(WatchResult::At(position)) if position.moved => still = 0,
                Ok(WatchResult::At(_)) => still += 1,
                Ok(WatchResult::Halted(reason)) => panic!("halted: {reason}"),
                Err(error) if Instant::now() > end => panic!("the chain cannot be followed: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Compares the final blocks from this block on with the chain and fixes the differences, as `prs reconcile --fix`
    /// does.
    pub async fn reconcile(&self, from: u64) {
        let cursor = store::cursors::load(self.app.ctx.db.reader(), self.ground.network()).await;
        let to = cursor.expect("a store").expect("a cursor").finalized.number;
        let compared = reconcile::run(
            &self.app.ctx,
            self.adapter().as_ref(),
            BlockRange { from, to },
            true,
            &mut |_| {},
        )
        .await;
        compared.expect("every block is proven");
    }

    /// Every credited payment.
    pub async fn credited(&self) -> Vec<PaymentRecord> {
        let reader = self.app.ctx.db.reader();
        let blocks = BlockRange { from: 0, to: u64::MAX };
        let payments = store::payments::in_blocks(reader, self.ground.network(), blocks).await;
        payments.expect("payments are read").0
    }

    /// Whether each of the requests is credited.
    pub async fn has_credited(&self, paid: &[Paid]) -> bool {
        let credited: HashSet<String> = self
            .credited()
            .await
            .into_iter()
            .map(|payment| payment.request_id)
            .collect();
        let mut requests = paid.iter().flat_map(|paid| &paid.requests);
        requests.all(|open| credited.contains(&open.id))
    }

    /// Asserts that exactly these payments are credited: each once, with its amount and the block that includes it.
    pub async fn assert_credited(&self, paid: &[Paid]) {
        let mut expected: Vec<_> = paid
            .iter()
            .flat_map(|paid| {
                paid.requests
                    .iter()
                    .map(|open| (open.id.clone(), paid.tx_hash, open.units))
            })
            .collect();
        let mut found: Vec<_> = self
            .credited()
            .await
            .into_iter()
            .map(|payment| (payment.request_id, payment.tx_hash, payment.credited))
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
        for open in paid.iter().flat_map(|paid| &paid.requests) {
            assert_eq!(self.app.read_request(&open.id).await["status"], "paid");
        }
    }
}

fn batch_call(chain: &Devnet, groups: &[(u64, Vec<Open>)]) -> Vec<u8> {
    let native = devnet::native_currency_hash(chain.chain_id());
    let detail = |kind: u64, open: &Open| RequestDetail {
        recipient: PAYEE.parse().expect("an address"),
        requestAmount: open.units,
        path: vec![if kind == NATIVE { native } else { chain.tokens().fau }],
        paymentReference: open.reference.clone().into(),
        feeAmount: U256::ZERO,
        maxToSpend: U256::ZERO,
        maxRateTimespan: U256::ZERO,
    };
    let groups = groups.iter().map(|(kind, requests)| MetaDetail {
        paymentNetworkId: U256::from(*kind),
        requestDetails: requests.iter().map(|open| detail(*kind, open)).collect(),
    });
    batchPaymentsCall {
        metaDetails: groups.collect(),
        pathsToUSD: Vec::new(),
        feeAddress: chain.accounts()[6].address,
    }
    .abi_encode()
}
