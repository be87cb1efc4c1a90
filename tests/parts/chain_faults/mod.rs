//! Payments on a real node, behind a proxy that returns false data. Each payment is credited once with its amount, or
//! the service halts the chain and reports why. A payment that did not happen is never credited.
//!
//! Source: rules B.2; rules D.12; rules D.13; rules D.14; rules D.18.

mod liar;

use crate::support::{
    TestApp,
    chain::{PAYER, step, transactions},
    requests::fau,
};
use chrono::TimeDelta;
use devnet::Devnet;
use liar::{Liar, Lie};
use prs::{
    adapters::clock::SystemClock, boot::dev, domain::network::Network, flows::payments::watch::WatchResult,
    ports::clock::Clock,
};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Payments of each run.
const PAYMENTS: usize = 20;

/// Number of blocks after which a payment is final in these tests.
const CONFIRMATIONS: u64 = 3;

/// Number of steps without progress after which a run stops following.
const STILL_STEPS: usize = 20;

/// How the service reads the payments, after they are mined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Block by block, near the head.
    AtHead,
    /// By ranges of final blocks, as a service does that catches up after an outage.
    CatchingUp,
}

/// The outcome of a run.
#[derive(Debug)]
struct Outcome {
    /// Number of payments credited once with the right amount.
    credited: usize,
    /// The reason if the service halted the chain.
    halted: Option<String>,
    /// The time until all payments were credited. `None` if they were not all credited while the node returned false
    /// data.
    settled_ms: Option<u128>,
    /// Number of changed responses.
    lies: u64,
}

/// Position of the false node in the list of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Second,
    FirstOfThree,
}

struct Run {
    app: TestApp,
    liar: Liar,
    requests: Vec<(String, String)>,
}

async fn start(chain: &Arc<Devnet>, place: Place, confirmations: Option<u64>) -> Run {
    let liar = Liar::start(chain.rpc_url()).await;
    // URLs of nodes have to be distinct. All honest nodes are the same process here.
    let honest = |name: &str| format!("{}/?{name}", chain.rpc_url().trim_end_matches('/'));
    let nodes = match place {
        Place::First => vec![liar.url.clone(), honest("a")],
        Place::Second => vec![honest("a"), liar.url.clone()],
        Place::FirstOfThree => vec![liar.url.clone(), honest("a"), honest("b")],
    };
    let mut section = dev::chain_settings(chain, nodes);
    section.confirmations = confirmations;
    section.call_timeout_ms = 250;
    section.start_block = Some(chain.block_number().await.expect("a height") + 1);
    let mut settings = crate::support::app::settings();
    settings.chains.insert("sepolia".to_owned(), section);
    let app = TestApp::with(settings, Some(chain.clone())).await;
    // The blocks of the chain have the time of the machine.
    let now = app.ctx.clock.now();
    app.clock.advance(SystemClock.now() - now + TimeDelta::seconds(90));
    // The service first follows the chain at its final block, so all later payments are new to it.
    app.follow().await;
    Run {
        app,
        liar,
        requests: Vec::new(),
    }
}

impl Run {
    /// Creates the requests, and pays each of them in a separate block once the node returns false data.
    async fn pay(&mut self, count: usize, lie: Lie) {
        let mut steps = Vec::new();
        for number in 1..=count {
            let amount = format!("{number}.25");
            let id = self.app.create_request(&fau(&amount)).await;
            let calldata = self.app.calldata(&id, "").await;
            steps.push(transactions(&calldata));
            self.requests.push((id, amount));
        }
        self.liar.tell(lie).await;
        for steps in steps {
            let receipts = self.app.devnet().pay(PAYER, &steps).await.expect("mined");
            assert!(receipts.iter().all(|receipt| receipt.status), "a step failed");
        }
    }

    /// Follows the chain for this long, through errors. Ends early once all payments are credited or the chain halts.
    async fn follow(&self, within: Duration) -> Option<String> {
        let chain = self
            .app
            .ctx
            .partners
            .chains
            .followed
            .get(&Network::Sepolia)
            .expect("enabled")
            .clone();
        let end = Instant::now() + within;
        let mut still_steps = 0;
        while Instant::now() < end && still_steps < STILL_STEPS {
            match step(&self.app.ctx, chain.as_ref()).await {
                Ok(WatchResult::Halted(reason)) => return Some(reason),
                Ok(WatchResult::At(position)) if position.moved => {
                    still_steps = 0;
                    continue;
                }
                Ok(WatchResult::At(_)) => still_steps += 1,
                Err(_) => still_steps = 0,
            }
            if self.count("payments").await >= self.requests.len() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    async fn count(&self, rows: &str) -> usize {
        let db = self.app.ctx.db.reader();
        let sql = format!("SELECT CAST(count(*) AS BIGINT) AS n FROM {rows}");
        let row = db
            .query_one_raw(sea_orm::Statement::from_string(db.get_database_backend(), sql))
            .await
            .expect("counted")
            .expect("a row");
        usize::try_from(row.try_get::<i64>("", "n").expect("a number")).expect("positive")
    }

    /// Number of payments that are credited. Panics if a payment is credited twice or with another amount.
    async fn credited(&self, lie: Lie) -> usize {
        let mut credited = 0;
        for (id, amount) in &self.requests {
            let payments = self.app.payments_of(id).await;
            assert!(payments.len() <= 1, "{lie:?}: credited twice: {payments:?}");
            let read = self.app.read_request(id).await;
            if let Some(payment) = payments.first() {
                assert_eq!(payment["amount"], amount.as_str(), "{lie:?}: a wrong credit");
                assert_eq!(
                    (&read["status"], &read["paidAmount"]),
                    (&json!("paid"), &json!(amount)),
                    "{lie:?}"
                );
                credited += 1;
            } else {
                assert_eq!(
                    (&read["status"], &read["paidAmount"]),
                    (&json!("pending"), &json!("0")),
                    "{lie:?}"
                );
            }
        }
        assert_eq!(
            self.count("payments").await,
            credited,
            "{lie:?}: a payment without a request"
        );
        credited
    }

    async fn finish(self, lie: Lie, patience: Duration) -> Outcome {
        let started = Instant::now();
        let mut halted = self.follow(patience).await;
        let settled = self.credited(lie).await == self.requests.len();
        let settled_ms = settled.then(|| started.elapsed().as_millis());
        let lies = self.liar.told();
        if !settled && halted.is_none() {
            self.liar.tell(Lie::None).await;
            halted = self.follow(Duration::from_secs(8)).await;
        }
        let outcome = Outcome {
            credited: self.credited(lie).await,
            halted,
            settled_ms,
            lies,
        };
        println!("{lie:?}: {outcome:?}");
        outcome
    }
}

async fn node() -> Arc<Devnet> {
    Arc::new(
        Devnet::start(devnet::Options::default())
            .await
            .expect("the local chain starts"),
    )
}

async fn run(chain: &Arc<Devnet>, lie: Lie, place: Place, reading: Reading) -> Outcome {
    let mut run = start(chain, place, Some(CONFIRMATIONS)).await;
    run.pay(PAYMENTS, lie).await;
    let blocks = match reading {
        Reading::AtHead => CONFIRMATIONS,
        Reading::CatchingUp => CONFIRMATIONS + 70,
    };
    chain.mine(blocks).await.expect("mined");
    run.finish(lie, Duration::from_secs(3)).await
}

/// Runs each kind of false data, with the false node at every position in the list and with every way of reading.
async fn everywhere(lies: &[Lie]) -> Vec<(Lie, Place, Reading, Outcome)> {
    let chain = node().await;
    let mut outcomes = Vec::new();
    for lie in lies {
        for (place, reading) in [
            (Place::First, Reading::AtHead),
            (Place::First, Reading::CatchingUp),
            (Place::Second, Reading::AtHead),
        ] {
            let outcome = run(&chain, *lie, place, reading).await;
            outcomes.push((*lie, place, reading, outcome));
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_omitted_by_one_node_come_from_the_other() {
    for (lie, place, reading, outcome) in everywhere(&[Lie::DropLogs, Lie::EmptyLogs]).await {
        assert!(outcome.lies > 0, "{lie:?} {place:?} {reading:?}: nothing was omitted");
        assert_eq!(
            (outcome.credited, &outcome.halted),
            (PAYMENTS, &None),
            "{lie:?} {place:?} {reading:?}"
        );
        assert!(
            outcome.settled_ms.is_some(),
            "{lie:?} {place:?} {reading:?}: only after the false data ended"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_invented_and_forged_events_cause_no_wrong_credit_or_halt() {
    let lies = [
        Lie::DupLogs,
        Lie::SwapAmount,
        Lie::SwapAmountEverywhere,
        Lie::WrongHash,
        Lie::InventedPayment,
        Lie::FakeLog,
    ];
    for (lie, place, reading, outcome) in everywhere(&lies).await {
        assert!(outcome.lies > 0, "{lie:?} {place:?} {reading:?}: nothing was changed");
        assert_eq!(
            (outcome.credited, &outcome.halted),
            (PAYMENTS, &None),
            "{lie:?} {place:?} {reading:?}: {outcome:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_node_is_replaced_within_two_seconds() {
    let chain = node().await;
    for lie in [
        Lie::RefusedWith200,
        Lie::Status(429),
        Lie::Status(500),
        Lie::Timeout,
        Lie::Cut,
        Lie::NullBlock,
        Lie::WrongChain,
        Lie::RangeError,
        Lie::Stale,
        Lie::Lag(40),
    ] {
        let outcome = run(&chain, lie, Place::FirstOfThree, Reading::AtHead).await;
        assert_eq!((outcome.credited, &outcome.halted), (PAYMENTS, &None), "{lie:?}");
        let settled_ms = outcome.settled_ms.unwrap_or(u128::MAX);
        assert!(settled_ms <= 3_000, "{lie:?}: {settled_ms} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failing_node_of_two_delays_payments_but_loses_none() {
    let chain = node().await;
    for lie in [Lie::Status(500), Lie::NullBlock, Lie::Stale] {
        let outcome = run(&chain, lie, Place::First, Reading::AtHead).await;
        assert_eq!(outcome.settled_ms, None, "{lie:?}: a single node was trusted");
        assert_eq!((outcome.credited, &outcome.halted), (PAYMENTS, &None), "{lie:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_second_node_delays_nothing_permanently() {
    let chain = node().await;
    for reading in [Reading::AtHead, Reading::CatchingUp] {
        let outcome = run(&chain, Lie::Lag(2), Place::Second, reading).await;
        assert_eq!((outcome.credited, &outcome.halted), (PAYMENTS, &None), "{reading:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_only_one_node_calls_final_is_not_trusted() {
    let chain = node().await;
    for place in [Place::First, Place::Second] {
        let mut run = start(&chain, place, None).await;
        run.pay(PAYMENTS, Lie::FinalizedAhead).await;
        run.follow(Duration::from_millis(500)).await;
        let early: Vec<Value> = run.app.payments_of(&run.requests[PAYMENTS - 1].0).await;
        assert!(early.is_empty(), "the newest payment is not final yet");
        chain.mine(4).await.expect("mined");
        let outcome = run.finish(Lie::FinalizedAhead, Duration::from_secs(3)).await;
        assert_eq!((outcome.credited, &outcome.halted), (PAYMENTS, &None), "{place:?}");
    }
}
