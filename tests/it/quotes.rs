//! Requests in currencies that no on-chain price feed converts: quoted by an off-chain rate, paid in tokens, and
//! settled by the quote or by the rate at the block's time.

use crate::support::{
    TestApp,
    chain::{PAYER, transactions},
    rates::{Feed, rated_by},
    receiver::Receiver,
    requests::request,
};
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use chrono::{DateTime, TimeDelta, Utc};
use devnet::TxReceiptLite;
use prs::{
    domain::{
        block_range::BlockRange, oddity::OddReason, pair::Pair, paying::fee_proxy::Erc20FeeProxy, rate::Rate,
        reconciliation::RecordDifference,
    },
    flows::{
        payments::{
            quarantine::{self, QuarantineQuery},
            reconcile,
        },
        rates::accept::{self, RateDecision},
    },
};
use serde_json::{Value, json};

type Direct = Erc20FeeProxy::transferFromWithReferenceAndFeeCall;
type Steps = Vec<(Address, Vec<u8>, U256)>;

fn dollars(amount: &str) -> Value {
    request(amount, "USD", "USDC-sepolia")
}

fn paid_by(steps: &Steps) -> Direct {
    Direct::abi_decode(&steps.last().expect("a payment").1).expect("a payment through the fee proxy")
}

async fn steps(app: &TestApp, id: &str, query: &str) -> Steps {
    transactions(&app.calldata(id, query).await)
}

async fn send(app: &TestApp, steps: &Steps) -> TxReceiptLite {
    let receipts = app.devnet().pay(PAYER, steps).await.expect("mined");
    assert!(
        receipts.iter().all(|receipt| receipt.status),
        "the transaction succeeds"
    );
    app.settle().await;
    receipts.last().expect("a payment").clone()
}

/// Pays with the calldata of the service after the payer changed the amount.
async fn pay_units(app: &TestApp, id: &str, units: u64) -> TxReceiptLite {
    let mut changed = steps(app, id, "").await;
    let mut call = paid_by(&changed);
    call.amount = U256::from(units);
    changed.last_mut().expect("a payment").1 = call.abi_encode();
    send(app, &changed).await
}

#[tokio::test]
async fn a_quote_paid_in_time_settles_the_promised_amount() {
    let (app, feed) = TestApp::quoting("0.97").await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&dollars("10")).await;
    let before = app.read_request(&id).await;
    assert_eq!(
        (&before["conversionRate"], &before["rateSource"]),
        (&json!("0.97"), &json!("unknown"))
    );
    let answer = app.calldata(&id, "").await;
    let ends_at = app.ctx.clock.now().timestamp() + 600;
    assert_eq!(answer["metadata"]["quoteExpiresAt"], json!(ends_at));
    let handed = transactions(&answer);
    assert_eq!(paid_by(&handed).amount, U256::from(10_309_279), "rounded up");
    // The rate falls, and the quote holds until it expires.
    app.pass(300).await;
    app.tells(&feed, "0.96").await;
    let receipt = send(&app, &handed).await;

    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"], &read["conversionRate"]),
        (&json!("paid"), &json!("10"), &json!("0.97"))
    );
    assert_eq!(read.get("excessAmount"), None);
    let payment = &app.payments_in(receipt.tx_hash).await[0];
    for (member, value) in [
        ("type", "conversion"),
        ("amount", "10"),
        ("currency", "USD"),
        ("paymentCurrency", "USDC"),
        ("convertedAmountSource", "10.309279"),
        ("convertedAmountDestination", "10.309279"),
        ("conversionRateSource", "0.97"),
        ("conversionRateDestination", "0.97"),
        ("rateProvider", "unknown"),
    ] {
        assert_eq!(payment[member], value, "{member}");
    }
    let event = receiver.received().await[0].json();
    for (member, value) in [
        ("event", "payment.confirmed"),
        ("amount", "10"),
        ("currency", "USD"),
        ("paymentCurrency", "USDC"),
        ("conversionRate", "0.97"),
        ("conversionRateSource", "0.97"),
        ("conversionRateDestination", "0.97"),
        ("convertedAmountSource", "10.309279"),
        ("convertedAmountDestination", "10.309279"),
        ("rateProvider", "unknown"),
    ] {
        assert_eq!(event[member], value, "{member}");
    }
    let paid = app
        .devnet()
        .balance_of(app.devnet().tokens().usdc, app.account(1).parse().expect("an address"));
    assert!(paid.await.expect("a balance") >= U256::from(10_309_279));
}

#[tokio::test]
async fn an_expired_quote_after_a_rate_drop_is_not_credited_in_full() {
    let (app, feed) = TestApp::quoting("1").await;
    let id = app.create_request(&dollars("10")).await;
    let old = steps(&app, &id, "").await;
    assert_eq!(paid_by(&old).amount, U256::from(10_000_000));
    app.pass(700).await;
    app.tells(&feed, "0.96").await;
    send(&app, &old).await;
    let part = app.read_request(&id).await;
    assert_eq!(
        (&part["status"], &part["paidAmount"]),
        (&json!("partially_paid"), &json!("9.6"))
    );
    let breakdown = &part["conversionBreakdown"];
    assert_eq!(
        (&breakdown["remainingAmount"], &breakdown["currentMarketRate"]),
        (&json!("0.4"), &json!("0.96"))
    );
    assert_eq!(breakdown["payments"][0]["conversionRate"], "0.96");
    let rest = steps(&app, &id, "").await;
    assert_eq!(
        paid_by(&rest).amount,
        U256::from(416_667),
        "the remaining amount, rounded up"
    );
    send(&app, &rest).await;
    let paid = app.read_request(&id).await;
    assert_eq!((&paid["status"], &paid["paidAmount"]), (&json!("paid"), &json!("10")));
    assert_eq!(
        paid["conversionRate"],
        json!(null),
        "each payment has a rate of its own"
    );
}

#[tokio::test]
async fn partial_payments_have_their_own_quotes_and_an_excess_is_shown() {
    let (app, feed) = TestApp::quoting("0.97").await;
    let id = app.create_request(&dollars("10")).await;
    let four = steps(&app, &id, "&amount=4").await;
    app.pass(60).await;
    app.tells(&feed, "0.98").await;
    let six = steps(&app, &id, "&amount=6").await;
    send(&app, &six).await;
    send(&app, &four).await;
    let read = app.read_request(&id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("10")));
    let rates: Vec<&Value> = read["conversionBreakdown"]["payments"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|payment| &payment["conversionRate"])
        .collect();
    assert_eq!(rates, ["0.98", "0.97"]);
    send(&app, &four).await;
    let more = app.read_request(&id).await;
    assert_eq!((&more["status"], &more["excessAmount"]), (&json!("paid"), &json!("4")));
}

#[tokio::test]
async fn half_a_percent_may_be_missing_and_no_more() {
    let (app, _feed) = TestApp::quoting("1").await;
    for (units, status) in [(9_950_000, "paid"), (9_949_999, "partially_paid")] {
        let id = app.create_request(&dollars("10")).await;
        pay_units(&app, &id, units).await;
        let read = app.read_request(&id).await;
        assert_eq!(read["status"], status, "{units}");
    }
    let exact = request("10", "USDC-sepolia", "USDC-sepolia");
    let id = app.create_request(&exact).await;
    pay_units(&app, &id, 9_999_999).await;
    assert_eq!(
        app.read_request(&id).await["status"],
        "partially_paid",
        "a direct payment has no tolerance"
    );
}

#[tokio::test]
async fn a_partial_quote_settles_its_part_however_little_remains() {
    let (app, _feed) = TestApp::quoting("1").await;
    let id = app.create_request(&dollars("10")).await;
    let part = steps(&app, &id, "&amount=9.95").await;
    send(&app, &part).await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("partially_paid"), &json!("9.95"))
    );
    let chain = app.ctx.partners.chains.followed[&prs::domain::network::Network::Sepolia].clone();
    let to = app.follow().await.confirmed;
    let mut tell = |found: &RecordDifference| panic!("{found:?}");
    let compared = reconcile::run(&app.ctx, chain.as_ref(), BlockRange { from: 1, to }, true, &mut tell).await;
    assert_eq!(
        compared.expect("compared").differences,
        0,
        "a recount gives the same result"
    );
    let rest = steps(&app, &id, "").await;
    assert_eq!(paid_by(&rest).amount, U256::from(50_000));
    send(&app, &rest).await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn fees_are_counted_in_tokens_and_shortfalls_in_dollars() {
    let (app, _feed) = TestApp::quoting("0.96").await;
    let fee_address = app.account(6);
    let query = format!("&feePercentage=2.5&feeAddress={fee_address}");
    let id = app.create_request(&dollars("9.6")).await;
    let handed = steps(&app, &id, &query).await;
    assert_eq!(
        (paid_by(&handed).amount, paid_by(&handed).feeAmount),
        (U256::from(10_000_000), U256::from(250_000))
    );
    let receipt = send(&app, &handed).await;
    let payment = &app.payments_in(receipt.tx_hash).await[0];
    assert_eq!(
        (&payment["amount"], &payment["fees"][0]["amount"]),
        (&json!("9.6"), &json!("0.25"))
    );
    assert_eq!(payment.get("feeShortfall"), None);

    let id = app.create_request(&dollars("9.6")).await;
    let mut without = steps(&app, &id, &query).await;
    let mut call = paid_by(&without);
    call.feeAmount = U256::ZERO;
    without.last_mut().expect("a payment").1 = call.abi_encode();
    let receipt = send(&app, &without).await;
    let payment = &app.payments_in(receipt.tx_hash).await[0];
    assert_eq!(
        (&payment["amount"], &payment["feeShortfall"]),
        (&json!("9.6"), &json!("0.24"))
    );
}

#[tokio::test]
async fn a_payment_without_a_rate_for_its_time_waits_for_one() {
    let (app, feed) = TestApp::quoting("1").await;
    let id = app.create_request(&dollars("10")).await;
    let old = steps(&app, &id, "").await;
    let other = app.create_request(&request("1", "USDC-sepolia", "USDC-sepolia")).await;
    // The feed stops responding, and its last rate becomes too old to use.
    feed.fails(503);
    app.pass(1_000).await;
    app.read_rates().await;
    send(&app, &old).await;
    let waiting = app.read_request(&id).await;
    assert_eq!(
        (&waiting["status"], &waiting["paidAmount"]),
        (&json!("pending"), &json!("0"))
    );
    assert_eq!(waiting["quarantinedPayments"][0]["reason"], "rate_missing");
    assert_eq!(waiting["quarantinedPayments"][0]["amount"], "10");
    app.pay(&other, "").await;
    app.settle().await;
    assert_eq!(
        app.read_request(&other).await["status"],
        "paid",
        "all other payments proceed"
    );

    let wanted = QuarantineQuery {
        reason: Some(OddReason::RateMissing),
        ..QuarantineQuery::default()
    };
    let set_aside = quarantine::list(&app.ctx, &wanted, false, None).await.expect("a list");
    let detail = &set_aside[0].oddity.detail;
    let time: DateTime<Utc> = detail.rsplit("--at ").next().expect("a time").parse().expect("a time");
    let word = RateDecision::Rate(Rate::parse("0.98").expect("a rate"), time);
    accept::run(&app.ctx, &Pair::new("USDC", "USD"), word)
        .await
        .expect("accepted");
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (
            &read["status"],
            &read["paidAmount"],
            &read["conversionBreakdown"]["payments"][0]["conversionRate"]
        ),
        (&json!("partially_paid"), &json!("9.8"), &json!("0.98"))
    );
    assert_eq!(read.get("quarantinedPayments"), None);
}

#[tokio::test]
async fn a_rate_drop_that_lasted_counts_retroactively() {
    let feed = Feed::start().await;
    let mut settings = rated_by(&[&feed]);
    // A token without a price limit.
    settings.conversion.peg_bps = 10_000;
    let app = TestApp::on_chain_as(settings, 1).await;
    app.follow_chain_time().await;
    app.tells(&feed, "1").await;
    let id = app.create_request(&dollars("10")).await;
    let old = steps(&app, &id, "").await;
    app.pass(700).await;
    app.tells(&feed, "0.7").await;
    let path = format!("/v2/request/{id}/pay");
    let refused = app.get(&path).with_key().send().await.expect(502);
    let message = refused["message"].as_str().expect("a sentence");
    assert!(message.contains("USDC") && message.contains("USD"), "{message}");
    assert_eq!(app.read_request(&id).await["conversionRate"], json!(null));
    send(&app, &old).await;
    assert_eq!(
        app.read_request(&id).await["quarantinedPayments"][0]["reason"],
        "rate_missing"
    );
    app.pass(450).await;
    app.tells(&feed, "0.71").await;
    app.get(&path).with_key().send().await.expect(502);
    app.pass(450).await;
    app.tells(&feed, "0.72").await;
    app.get(&path).with_key().send().await.expect(200);
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("partially_paid"), &json!("7")),
        "by the rate at the time of the payment"
    );
}

#[tokio::test]
async fn the_operator_can_accept_a_held_rate_but_no_future_rate() {
    let (app, feed) = TestApp::quoting("1").await;
    let pair = Pair::new("USDC", "USD");
    assert!(
        accept::run(&app.ctx, &pair, RateDecision::Held).await.is_err(),
        "nothing is held back"
    );
    assert!(
        accept::run(&app.ctx, &Pair::new("ETH", "USD"), RateDecision::Held)
            .await
            .is_err()
    );
    feed.tells("1.3", app.ctx.clock.now());
    app.read_rates().await;
    let id = app.create_request(&dollars("13")).await;
    let path = format!("/v2/request/{id}/pay");
    app.get(&path).with_key().send().await.expect(502);
    let said = |ahead_ms| {
        let time = app.ctx.clock.now() + TimeDelta::milliseconds(ahead_ms);
        RateDecision::Rate(Rate::parse("1.3").expect("a rate"), time)
    };
    for ahead_ms in [1, 3_600_000] {
        let refused = accept::run(&app.ctx, &pair, said(ahead_ms)).await.expect_err("refused");
        assert!(refused.to_string().starts_with("--at: "), "{refused}");
    }
    app.get(&path).with_key().send().await.expect(502);
    accept::run(&app.ctx, &pair, said(0)).await.expect("accepted");
    let answer = app.get(&path).with_key().send().await.expect(200);
    assert_eq!(paid_by(&transactions(&answer)).amount, U256::from(10_000_000));
}

#[tokio::test]
async fn the_value_of_a_payment_survives_deletion_of_its_rate() {
    let (app, _feed) = TestApp::quoting("0.98").await;
    let id = app.create_request(&dollars("10")).await;
    pay_units(&app, &id, 5_000_000).await;
    let before = app.read_request(&id).await;
    assert_eq!(before["paidAmount"], "4.9");
    let later = app.ctx.clock.now() + TimeDelta::days(500);
    let forgotten = prs::store::rates::forget(app.ctx.db.writer(), later, 1_000).await;
    assert!(forgotten.expect("a store") > 0);
    let chain = app.ctx.partners.chains.followed[&prs::domain::network::Network::Sepolia].clone();
    let to = app.follow().await.confirmed;
    let mut tell = |found: &RecordDifference| panic!("{found:?}");
    let compared = reconcile::run(&app.ctx, chain.as_ref(), BlockRange { from: 1, to }, true, &mut tell).await;
    assert_eq!(compared.expect("compared").differences, 0);
    assert_eq!(
        app.read_request(&id).await,
        Value::Object({
            let mut same = before.as_object().expect("an object").clone();
            // There is no current rate either.
            same["conversionBreakdown"]["currentMarketRate"] = json!(null);
            same["conversionBreakdown"]["currentMarketRateSource"] = json!(null);
            same
        })
    );
}

#[tokio::test]
async fn routes_and_requests_need_a_rate_feed() {
    let (app, _feed) = TestApp::quoting("1").await;
    let routes = app
        .get("/v2/currencies/USD/conversion-routes?network=sepolia")
        .with_key();
    let routes = routes.send().await.expect(200);
    let ids: Vec<&str> = routes["conversionRoutes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|route| route["id"].as_str())
        .collect();
    assert!(ids.contains(&"USDC-sepolia"), "{ids:?}");
    for (invoice, payment, status) in [
        ("USD", "USDC-sepolia", 201),
        ("JPY", "USDT-sepolia", 201),
        ("CNY", "USDC-sepolia", 201),
        ("JPY", "FAU-sepolia", 400),
        ("JPY", "ETH-sepolia", 400),
        ("USDT-sepolia", "USDC-sepolia", 400),
    ] {
        let call = app.post("/v2/request").with_key().json(&request("1", invoice, payment));
        assert_eq!(call.send().await.status, status, "{invoice} in {payment}");
    }
    let without = TestApp::start().await;
    let call = without.post("/v2/request").with_key().json(&dollars("1"));
    assert_eq!(call.send().await.wrong_fields(), ["paymentCurrency"]);
}

#[tokio::test]
async fn quotes_for_chosen_amounts_are_limited_per_credential() {
    let (app, _feed) = TestApp::quoting("1").await;
    let create = app.post("/v2/request").with_client().json(&dollars("1000"));
    let created = create.send().await.expect(201);
    let id = created["requestId"].as_str().expect("an id");
    let path_of = |amount: u32| format!("/v2/request/{id}/pay?amount={amount}");
    let by_client = |amount: u32| app.get(&path_of(amount)).with_client().send();
    for amount in 301..=400 {
        by_client(amount).await.expect(200);
    }
    by_client(401).await.expect(400);
    let ask = |amount: u32| app.get(&path_of(amount)).with_key().send();
    for amount in 1..=100 {
        ask(amount).await.expect(200);
        ask(amount).await.expect(200);
    }
    let refused = ask(101).await.expect(400);
    assert!(
        refused["message"].as_str().expect("a sentence").contains("100"),
        "{refused}"
    );
    ask(100).await.expect(200);
    let path = format!("/v2/request/{id}/pay");
    app.get(&path).with_key().send().await.expect(200);
    app.get(&path).with_client().send().await.expect(200);
    // Another caller gets a quote with the same terms. It is a separate quote, and does not extend the validity of the
    // first.
    app.pass(300).await;
    app.tells(&_feed, "1").await;
    ask(100).await.expect(200);
    by_client(1).await.expect(400);
    app.pass(301).await;
    app.tells(&_feed, "1").await;
    by_client(1).await.expect(200);
    ask(101).await.expect(200);
    ask(100).await.expect(200);
    app.pass(601).await;
    app.tells(&_feed, "1").await;
    ask(101).await.expect(200);
}
