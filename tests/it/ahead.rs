//! A worker that catches up fetches later blocks before it has committed earlier ones. These tests check that this
//! changes no result.

use crate::support::{
    TestApp,
    chain::{look, step},
    receiver::Receiver,
    requests::{PAYEE, request},
};
use alloy::primitives::{B256, U256, keccak256};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    ctx::Ctx,
    domain::{
        address::Address,
        block_range::BlockRange,
        currency::ContractKind,
        network::Network,
        payment::{BlockRef, Finality, Hint, Observation, SettledBlock, TxProof},
        reference::PaymentReference,
    },
    flows::payments::{rescan, watch::WatchResult},
    ports::chain::{Chain, ChainError, ChainTip, NewBlock, ReportedEvents},
    store::{self, Scope, backlogs::BacklogReason, event_log::EventFilter},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

const NETWORK: Network = Network::Sepolia;

/// The coin of the network.
const COIN: &str = "ETH-sepolia-sepolia";

/// Units of each payment.
const UNITS: u64 = 1_000;

/// What the scripted chain does once, when the service fetches the events of a certain block.
enum Turn {
    Nothing,
    /// A reorganisation replaces the blocks below this height.
    Reorganised(u64),
    /// The operator starts a rescan.
    Rescanned(u64),
}

/// A scripted chain whose blocks are all final. Its payments are listed by block, each with its payment reference.
struct Scripted {
    ctx: Ctx,
    proxy: Address,
    payments: BTreeMap<u64, Vec<PaymentReference>>,
    head: AtomicU64,
    turn: Turn,
    has_turned: AtomicBool,
    /// The first block of each range whose events the service fetched.
    listed: Mutex<Vec<u64>>,
    /// Each block whose proof the service requested, with the number of payments that were recorded at that time.
    proven: Mutex<Vec<(u64, usize)>>,
}

impl Scripted {
    fn new(app: &TestApp, head: u64, payments: BTreeMap<u64, Vec<PaymentReference>>, turn: Turn) -> Self {
        let contracts = app.ctx.catalogue.contracts(NETWORK);
        let proxy = contracts
            .iter()
            .find(|contract| contract.kind == ContractKind::EthereumFeeProxy && contract.is_default);
        Self {
            ctx: app.ctx.clone(),
            proxy: proxy.expect("a proxy").address,
            payments,
            head: AtomicU64::new(head),
            turn,
            has_turned: AtomicBool::new(false),
            listed: Mutex::default(),
            proven: Mutex::default(),
        }
    }

    fn hash(&self, number: u64) -> B256 {
        let is_other = match self.turn {
            Turn::Reorganised(at) => number < at && self.has_turned.load(Ordering::SeqCst),
            _ => false,
        };
        keccak256(format!("{number} {is_other}"))
    }

    fn at(&self, number: u64) -> BlockRef {
        let second = TimeDelta::seconds(i64::try_from(number).expect("a small number"));
        BlockRef {
            number,
            hash: self.hash(number),
            parent_hash: self.hash(number.saturating_sub(1)),
            time: DateTime::<Utc>::UNIX_EPOCH + second,
        }
    }

    fn observed(&self, number: u64) -> Vec<Observation> {
        let references = self.payments.get(&number).into_iter().flatten();
        let observed = (0..).zip(references).map(|(index, reference)| Observation {
            network: NETWORK,
            tx_hash: keccak256(number.to_be_bytes()),
            position: index,
            block_number: number,
            block_hash: self.hash(number),
            log_index: u64::from(index),
            proxy: self.proxy,
            reference_topic: reference.topic(),
            token: None,
            payee: Address::parse(PAYEE).expect("an address"),
            units: U256::from(UNITS),
            fee_units: U256::ZERO,
            fee_address: None,
            conversion: None,
        });
        observed.collect()
    }

    async fn recorded(&self) -> usize {
        let head = self.head.load(Ordering::SeqCst);
        let rows = store::payments::in_blocks(self.ctx.db.reader(), NETWORK, BlockRange { from: 0, to: head }).await;
        rows.expect("rows").0.len()
    }
}

#[async_trait]
impl Chain for Scripted {
    fn network(&self) -> Network {
        NETWORK
    }

    fn start_block(&self) -> Option<u64> {
        None
    }

    async fn tip(&self, _: Option<Finality>) -> Result<ChainTip, ChainError> {
        let head = self.at(self.head.load(Ordering::SeqCst));
        Ok(ChainTip {
            head,
            finalized: head,
            finality: Finality::Tag,
            is_current: true,
        })
    }

    fn forget_final(&self) {}

    async fn block(&self, number: u64) -> Result<Option<BlockRef>, ChainError> {
        Ok(Some(self.at(number)))
    }

    async fn agreed(&self, number: u64) -> Result<BlockRef, ChainError> {
        Ok(self.at(number))
    }

    async fn new_blocks(&self, _: u64, _: u64) -> Result<Vec<NewBlock>, ChainError> {
        Ok(Vec::new())
    }

    async fn list_events(&self, from: u64, to: u64, _: bool) -> Result<ReportedEvents, ChainError> {
        self.listed.lock().expect("a list").push(from);
        let now = self.ctx.clock.now();
        match self.turn {
            Turn::Reorganised(at) if from == at => self.has_turned.store(true, Ordering::SeqCst),
            Turn::Rescanned(at) if from == at && !self.has_turned.swap(true, Ordering::SeqCst) => {
                while self.recorded().await == 0 {
                    tokio::task::yield_now().await;
                }
                let everything = BlockRange {
                    from: 1,
                    to: self.head.load(Ordering::SeqCst),
                };
                let writer = self.ctx.db.writer();
                let pushed = store::backlogs::push(writer, NETWORK, everything, BacklogReason::Rescan, now);
                pushed.await.expect("pushed");
            }
            _ => {}
        }
        let observed = (from..=to).flat_map(|number| self.observed(number));
        let hint = |observed: Observation| Hint {
            block_number: observed.block_number,
            block_hash: observed.block_hash,
            tx_hash: observed.tx_hash,
            log_index: observed.log_index,
            reference_topic: Some(observed.reference_topic),
        };
        Ok(ReportedEvents {
            hints: observed.map(|observed| (hint(observed), vec![0])).collect(),
            unlisted: BTreeSet::new(),
            read_to: to,
            reached: Some(self.at(to)),
        })
    }

    async fn settled(&self, number: u64) -> Result<SettledBlock, ChainError> {
        let block = self.at(number);
        let sender = Address::parse("0x90F79bf6EB2c4f870365E785982E1f101E93b906").expect("an address");
        let proof = TxProof {
            tx_hash: keccak256(number.to_be_bytes()),
            block_number: number,
            block_hash: block.hash,
            succeeded: true,
            from: sender,
            to: Some(self.proxy),
            input: Vec::new(),
            observations: self.observed(number),
            transfers: Vec::new(),
            unreadable: Vec::new(),
        };
        Ok(SettledBlock {
            block,
            transactions: vec![proof],
        })
    }

    async fn settled_all(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)> {
        let recorded = self.recorded().await;
        let mut answers = Vec::new();
        for number in numbers {
            self.proven.lock().expect("a list").push((*number, recorded));
            answers.push((*number, self.settled(*number).await));
        }
        answers
    }

    async fn noted(&self, block: &BlockRef) -> Result<SettledBlock, ChainError> {
        self.settled(block.number).await
    }
}

/// Creates a request that is paid in the native coin; returns the request's id and payment reference.
async fn requested(app: &TestApp, amount: &str) -> (String, PaymentReference) {
    let id = app.create_request(&request(amount, COIN, COIN)).await;
    let read = app.read_request(&id).await;
    let reference = read["paymentReference"].as_str().and_then(PaymentReference::parse);
    (id, reference.expect("a reference"))
}

async fn follow(app: &TestApp, chain: &Scripted) {
    for _ in 0..20 {
        match step(&app.ctx, chain).await.expect("a step") {
            WatchResult::At(position) if !position.moved => return,
            WatchResult::At(_) => {}
            WatchResult::Halted(reason) => panic!("halted: {reason}"),
        }
    }
    panic!("the chain is never fully read");
}

async fn assert_paid(app: &TestApp, id: &str, amount: &str) {
    let read = app.read_request(id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!(amount)));
}

#[tokio::test]
async fn payments_across_commits_are_reported_once_and_in_chain_order() {
    const REQUESTS: usize = 40;
    const BLOCKS: u64 = 320;
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let mut requests = Vec::new();
    for _ in 0..REQUESTS {
        requests.push(requested(&app, "0.000000000000008").await);
    }
    let paid_by = |number: u64| &requests[usize::try_from(number - 1).expect("small") % REQUESTS];
    let payments = (1..=BLOCKS).map(|number| (number, vec![paid_by(number).1])).collect();
    let chain = Scripted::new(&app, 0, payments, Turn::Nothing);
    follow(&app, &chain).await;
    chain.head.store(BLOCKS, Ordering::SeqCst);
    follow(&app, &chain).await;

    assert_eq!(*chain.listed.lock().expect("a list"), [1], "no range is listed twice");
    let proven = chain.proven.lock().expect("a list").clone();
    let numbers: Vec<u64> = proven.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=BLOCKS).collect::<Vec<_>>(), "no block is proven twice");
    let recorded_before_last = proven.last().expect("blocks").1;
    assert_eq!(
        recorded_before_last, 0,
        "the last blocks were proven before the first were committed"
    );

    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let filter = EventFilter {
        limit: 1_000,
        ..EventFilter::default()
    };
    let events = store::event_log::events(app.ctx.db.reader(), &scope, &filter).await;
    let events = events.expect("events").into_iter().rev();
    let told: Vec<(String, Option<String>)> = events.map(|event| (event.kind, event.request_id)).collect();
    let completes = |number: u64| number > BLOCKS - u64::try_from(REQUESTS).expect("small");
    let of_chain = (1..=BLOCKS).map(|number| {
        let kind = if completes(number) {
            "payment.confirmed"
        } else {
            "payment.partial"
        };
        (kind.to_owned(), Some(paid_by(number).0.clone()))
    });
    assert_eq!(told, of_chain.collect::<Vec<_>>());
    for (id, _) in &requests {
        assert_paid(&app, id, "0.000000000000008").await;
    }
    app.deliver().await;
    let received = receiver.received().await;
    let bodies: BTreeMap<String, u32> = received.iter().fold(BTreeMap::new(), |mut bodies, one| {
        *bodies.entry(one.body.clone()).or_default() += 1;
        bodies
    });
    assert_eq!(bodies.len(), told.len(), "each event was delivered");
    assert!(
        bodies.values().all(|count| *count == 1),
        "each event was delivered once"
    );
}

#[tokio::test]
async fn read_ahead_data_is_dropped_when_a_final_block_changes() {
    let app = TestApp::start().await;
    let (before, first) = requested(&app, "0.000000000000001").await;
    let (after, second) = requested(&app, "0.000000000000001").await;
    let payments = BTreeMap::from([(1_500, vec![first]), (2_500, vec![second])]);
    let chain = Scripted::new(&app, 0, payments, Turn::Reorganised(2_001));
    follow(&app, &chain).await;
    chain.head.store(3_000, Ordering::SeqCst);
    look(&app.ctx, &chain).await.expect("a step");
    assert_eq!(*chain.listed.lock().expect("a list"), [1, 2_001]);
    let cursor = store::cursors::load(app.ctx.db.reader(), NETWORK)
        .await
        .expect("a read");
    assert_eq!(cursor.map(|cursor| cursor.finalized.number), Some(2_000));
    assert_paid(&app, &before, "0.000000000000001").await;
    let step = look(&app.ctx, &chain).await.expect("a step");
    assert!(matches!(step, WatchResult::Halted(_)), "{step:?}");
    assert_eq!(app.read_request(&after).await["status"], "pending");
    assert_eq!(chain.recorded().await, 1);
}

#[tokio::test]
async fn a_rescanned_range_is_read_again_from_its_first_block() {
    let app = TestApp::start().await;
    let (before, first) = requested(&app, "0.000000000000001").await;
    let (after, second) = requested(&app, "0.000000000000001").await;
    let payments = BTreeMap::from([(1_500, vec![first]), (2_500, vec![second])]);
    let chain = Scripted::new(&app, 3_000, payments, Turn::Rescanned(2_001));
    follow(&app, &chain).await;
    rescan::run(&app.ctx, NETWORK, 1).await.expect("queued");
    follow(&app, &chain).await;
    assert_eq!(*chain.listed.lock().expect("a list"), [1, 2_001, 1, 2_001]);
    assert_eq!(chain.recorded().await, 2);
    for id in [&before, &after] {
        assert_paid(&app, id, "0.000000000000001").await;
    }
}
