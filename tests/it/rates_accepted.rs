//! The operator accepts rates, and the payments that waited for these rates are credited.

use crate::support::{TestApp, rates::Feed, requests::request};
use prs::{
    domain::{
        ids::QuarantineId,
        network::Network,
        oddity::{ConcernedRequest, OddReason, Oddity, QuarantineState},
        pair::Pair,
        rate::Rate,
    },
    flows::rates::accept::{self, RateDecision},
    store::{self, Scope, quarantine::QuarantineFilter},
};

/// Makes the feed report a price of the dollar in yen. The prices of both dollar tokens follow: each costs one dollar.
async fn tells_yen(app: &TestApp, feed: &Feed, yen: &str) {
    app.pass(60).await;
    let as_of = app.ctx.clock.now().timestamp();
    let prices = format!(r#"{{"usd":1,"jpy":{yen},"last_updated_at":{as_of}}}"#);
    feed.tells_text(format!(r#"{{"usd-coin":{prices},"tether":{prices}}}"#));
    app.read_rates().await;
}

#[tokio::test]
async fn the_operator_accepts_the_newest_reading_and_no_earlier_glitch() {
    let (app, feed) = TestApp::quoting("1").await;
    let pair = Pair::new("USDC", "JPY");
    let mut times = Vec::new();
    for yen in ["150", "7500", "7500", "200", "201"] {
        tells_yen(&app, &feed, yen).await;
        times.push(app.ctx.clock.now());
    }
    let accepted = accept::run(&app.ctx, &pair, RateDecision::Held)
        .await
        .expect("accepted");
    assert_eq!(accepted.readings, 2);
    let mut found = Vec::new();
    for time in times {
        let rate = prs::flows::rates::at(&app.ctx, &pair, time).await.expect("a store");
        found.push(rate.ok().map(|applied| applied.rate.to_string()));
    }
    let expected = [Some("150"), None, None, Some("200"), Some("201")];
    assert_eq!(found, expected.map(|rate| rate.map(str::to_owned)));
    assert!(
        accept::run(&app.ctx, &pair, RateDecision::Held).await.is_err(),
        "earlier rates are unchanged"
    );
}

/// Creates a request and quarantines one payment of it in each of these blocks. The payments wait for a rate.
async fn wait_for_a_rate(app: &TestApp, invoice: &str, payment: &str, blocks: std::ops::Range<u64>) {
    let id = app.create_request(&request("10", invoice, payment)).await;
    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let found = store::requests::find(app.ctx.db.reader(), &scope, &id).await;
    let request = found.expect("a store").expect("a request");
    let tx = app.ctx.db.begin("set_aside").await.expect("a transaction");
    for block_number in blocks {
        let odd = Oddity {
            network: Network::Sepolia,
            block_number,
            tx_hash: None,
            position: None,
            reason: OddReason::RateMissing,
            detail: "no rate".to_owned(),
            concerned: Some(ConcernedRequest::of(&request)),
        };
        let row = QuarantineId(app.ctx.ids.ulid());
        store::quarantine::put(&tx, &odd, row, app.ctx.clock.now())
            .await
            .expect("a row");
    }
    tx.commit().await.expect("committed");
}

/// The blocks of the quarantined payments that the service is retrying, in ascending order.
async fn retried(app: &TestApp) -> Vec<u64> {
    let filter = QuarantineFilter {
        states: vec![QuarantineState::Retrying],
        ..QuarantineFilter::default()
    };
    let found = store::quarantine::list(app.ctx.db.reader(), &filter, None, 10_000).await;
    let mut blocks: Vec<u64> = found
        .expect("a store")
        .iter()
        .map(|row| row.oddity.block_number)
        .collect();
    blocks.sort_unstable();
    blocks
}

#[tokio::test]
async fn a_rate_releases_exactly_the_payments_waiting_for_its_pair() {
    let (app, _feed) = TestApp::quoting("1").await;
    wait_for_a_rate(&app, "USD", "USDC-sepolia", 1..2).await;
    wait_for_a_rate(&app, "JPY", "USDC-sepolia", 2..1_102).await;
    wait_for_a_rate(&app, "USD", "USDT-sepolia", 1_102..1_103).await;
    let accept = async |pair: Pair| {
        let word = RateDecision::Rate(Rate::parse("1").expect("a rate"), app.ctx.clock.now());
        accept::run(&app.ctx, &pair, word).await.expect("accepted");
    };
    accept(Pair::new("USDC", "USD")).await;
    assert_eq!(retried(&app).await, [1], "it is the oldest; a thousand others wait");
    accept(Pair::new("USDC", "JPY")).await;
    assert_eq!(retried(&app).await, (1..1_102).collect::<Vec<u64>>());
}
