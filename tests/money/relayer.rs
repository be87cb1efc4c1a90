//! Tests of the relayer, the account that executes recurring payments, behind two nodes. One node or both return false
//! data about the account.

use crate::{
    proxy::{Proxy, Tamper, Told},
    support::{
        TestApp, app,
        lines::Lines,
        schedules::{FIRST_DAY, MONTH_S, recurring, schedule},
    },
};
use devnet::{Devnet, Options, RELAYER_INDEX};
use prs::{
    boot::dev,
    domain::{network::Network, relay::NOT_ADMITTED},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A transaction count, in hexadecimal, that the account never reaches.
const TOO_MANY: &str = "0x100000";

/// Ten million gwei.
const DEAR: &str = "0x2386f26fc10000";

/// In milliseconds: the time that the relayer waits for a block before it raises the gas price, plus a few seconds.
const LONGER_THAN_A_BID_MS: i64 = 200_000;

/// A node that returns one fixed result for the listed methods.
struct Says(&'static [&'static str], &'static str);

impl Tamper for Says {
    fn tell(&self, call: &Value, result: Value) -> Told {
        let is_meant = self.0.iter().any(|method| call["method"] == *method);
        Told::Result(if is_meant { json!(self.1) } else { result })
    }
}

const COUNT: &[&str] = &["eth_getTransactionCount"];
const PRICES: &[&str] = &["eth_gasPrice", "eth_maxPriorityFeePerGas"];

/// Starts the service behind two honest nodes that must agree, with a schedule of monthly payments; also returns the
/// schedule's id.
async fn scheduled() -> (TestApp, [Proxy; 2], String) {
    let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
    let nodes = [Proxy::start(chain.rpc_url()).await, Proxy::start(chain.rpc_url()).await];
    let mut section = dev::chain_settings(&chain, nodes.iter().map(|node| node.url.clone()).collect());
    section.confirmations = Some(1);
    let mut settings = app::settings();
    settings.relayer.private_key = Some(chain.accounts()[RELAYER_INDEX].private_key.to_string());
    settings.chains.insert("sepolia".to_owned(), section);
    let app = TestApp::with(settings, Some(chain)).await;
    let made = schedule(&app, &recurring(&app, 3)).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    (app, nodes, id)
}

async fn assert_executed(app: &TestApp, id: &str, times: u8) {
    let read = app.read_schedule(id).await;
    let found = (&read["processedPayments"], &read["status"], &read["failureCount"]);
    assert_eq!(found, (&json!(times), &json!("active"), &json!(0)));
}

#[tokio::test]
async fn one_node_that_reports_a_high_gas_price_makes_no_payment_expensive() {
    let (app, [liar, _], id) = scheduled().await;
    app.both_to(FIRST_DAY).await;
    liar.tamper(Says(PRICES, DEAR));
    app.devnet().set_automine(false).await.expect("set");
    app.relay_once().await.expect("a look");
    assert!(liar.changed() >= 2, "the false count was read");
    let sent = app.pending_transactions().await;
    assert!(sent[0].bids[0].price.max_fee < 100_000_000_000, "{:?}", sent[0].bids);
    app.advance_ms(LONGER_THAN_A_BID_MS);
    app.relay_once().await.expect("a look");
    let raised = app.pending_transactions().await;
    assert_eq!(raised[0].bids.len(), 2);
    assert!(
        raised[0].bids[1].price.max_fee < 100_000_000_000,
        "{:?}",
        raised[0].bids
    );
    app.devnet().set_automine(true).await.expect("set");
    app.devnet().mine(1).await.expect("mined");
    app.execute().await;
    assert_executed(&app, &id, 1).await;
}

#[tokio::test]
async fn payments_wait_while_gas_costs_more_than_the_settings_allow() {
    let (app, nodes, id) = scheduled().await;
    app.both_to(FIRST_DAY).await;
    nodes.iter().for_each(|node| node.tamper(Says(PRICES, DEAR)));
    app.execute().await;
    assert!(app.pending_transactions().await.is_empty());
    assert_executed(&app, &id, 0).await;
    nodes.iter().for_each(Proxy::end);
    app.advance_ms(60_000);
    app.execute().await;
    assert_executed(&app, &id, 1).await;
}

#[tokio::test]
async fn one_node_with_a_wrong_transaction_count_blocks_no_payment() {
    let (app, [liar, _], id) = scheduled().await;
    for (month, count, executed) in [(0, TOO_MANY, 1), (1, "0x0", 2)] {
        liar.tamper(Says(COUNT, count));
        app.both_to(FIRST_DAY + month * MONTH_S).await;
        app.execute().await;
        assert!(liar.changed() > 0, "the false count was read");
        assert_executed(&app, &id, executed).await;
    }
}

#[tokio::test]
async fn a_payment_signed_with_a_nonce_gap_is_signed_again_without_it() {
    let (app, nodes, id) = scheduled().await;
    app.both_to(FIRST_DAY).await;
    nodes.iter().for_each(|node| node.tamper(Says(COUNT, TOO_MANY)));
    app.relay_once().await.expect("a look");
    nodes.iter().for_each(Proxy::end);
    for _ in 0..3 {
        app.relay_once().await.expect("a look");
    }
    let stranded = app.pending_transactions().await;
    assert_eq!((stranded.len(), stranded[0].nonce), (1, 0x10_0000));
    let (lines, _listening) = Lines::listen();
    app.advance_ms(LONGER_THAN_A_BID_MS);
    app.execute().await;
    let told = lines.text();
    assert!(
        told.contains("WARN") && told.contains("in_line=1048576 counted=0"),
        "{told}"
    );
    assert_executed(&app, &id, 1).await;
    app.both_to(FIRST_DAY + MONTH_S).await;
    app.execute().await;
    assert_executed(&app, &id, 2).await;
    assert!(app.pending_transactions().await.is_empty());
}

#[tokio::test]
async fn the_reason_that_stops_the_relayer_and_its_backlog_are_reported() {
    let (app, _nodes, id) = scheduled().await;
    let oldest_due = async || {
        let oldest = prs::flows::schedules::relay::oldest_due(&app.ctx, Network::Sepolia).await;
        oldest.expect("a read").num_seconds()
    };
    assert_eq!(oldest_due().await, 0, "nothing is due");
    app.both_to(FIRST_DAY).await;
    let relayer = app.account(RELAYER_INDEX);
    let balance = async |coins: &str| {
        let set = app.devnet().rpc("anvil_setBalance", json!([relayer, coins])).await;
        set.expect("set");
    };
    balance("0x0").await;
    let look = app.relay_once().await.expect("a look");
    let named: Vec<_> = look.obstacles.iter().collect();
    assert!(named.len() == 1 && named[0].contains("too few coins"), "{named:?}");
    app.advance_ms(40_000);
    assert_eq!(oldest_due().await, 40);
    balance("0xde0b6b3a7640000").await;
    app.revoke_relayer().await;
    let look = app.relay_once().await.expect("a look");
    let named: Vec<_> = look.obstacles.iter().collect();
    assert_eq!(named, [NOT_ADMITTED]);
    assert!(!look.has_begun);
    assert_executed(&app, &id, 0).await;
}

#[tokio::test]
async fn a_payment_that_is_in_flight_is_not_due() {
    let (app, _nodes, id) = scheduled().await;
    app.both_to(FIRST_DAY).await;
    app.relay_once().await.expect("a look");
    assert_eq!(app.pending_transactions().await.len(), 1);
    app.advance_ms(900_000);
    let oldest = prs::flows::schedules::relay::oldest_due(&app.ctx, Network::Sepolia).await;
    assert_eq!(oldest.expect("a read").num_seconds(), 0, "its block is awaited");
    app.execute().await;
    assert_executed(&app, &id, 1).await;
}
