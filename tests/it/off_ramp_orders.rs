//! Orders that pay out to bank accounts: callbacks that arrive out of order, concurrently, late or for unknown orders,
//! and payments that leave the chain.

use crate::support::{
    chain::{PAYER, transactions},
    dice::Dice,
    fiat::{CLIENT_USER, Fiat},
    off_ramp::order_news,
    secrets::lines_logged_with,
};
use chrono::TimeDelta;
use futures_util::future::join_all;
use prs::{
    domain::{
        ids::OffRampQuoteId,
        oddity::{OddReason, OperatorDecision},
        off_ramp::{FiatOrder, OrderState},
        off_ramp_sandbox::OffRampBehaviour,
    },
    flows::{
        off_ramp::{ask, list},
        payments::quarantine::{self, QuarantineQuery},
    },
    store,
    worker::follow_off_ramp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Number of orders whose callbacks arrive in random order.
const ORDERS: usize = 500;

/// The sequences of states that an order can pass through, in the names that the partner uses.
const WAYS: [&[&str]; 5] = [
    &[
        "initiated",
        "pending_internal_assessment",
        "ongoing_checks",
        "sending_fiat",
        "fiat_sent",
    ],
    &["initiated", "ongoing_checks", "sending_fiat", "fiat_sent"],
    &[
        "initiated",
        "pending_internal_assessment",
        "ongoing_checks",
        "sending_fiat",
        "bounced",
    ],
    &[
        "initiated",
        "pending_internal_assessment",
        "sending_fiat",
        "fiat_sent",
        "bounced",
    ],
    &["initiated", "pending_internal_assessment", "ongoing_checks", "failed"],
];

#[tokio::test]
async fn shuffled_order_news_ends_in_the_partners_final_state() {
    let fiat = Fiat::start().await;
    // Orders of this account do not advance, so only the test reports news of them.
    let account = fiat.compliant(CLIENT_USER, "0005").await;
    let mut requests = Vec::new();
    for number in 0..ORDERS {
        let id = fiat.request("1").await;
        let steps = transactions(&fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200));
        // The first payment approves enough for all.
        let from = if number == 0 { 0 } else { steps.len() - 1 };
        fiat.app.devnet().pay(PAYER, &steps[from..]).await.expect("mined");
        requests.push(id);
    }
    fiat.app.follow().await;
    fiat.work().await;
    let opened: BTreeMap<String, String> = fiat
        .orders(true)
        .await
        .into_iter()
        .map(|one| (one.request_id, one.order.partner_id.expect("it is opened")))
        .collect();
    assert_eq!((opened.len(), fiat.partner.count("open_order").await), (ORDERS, ORDERS));

    let mut dice = Dice::new(20_261_123);
    let mut news: Vec<(usize, u64, &str)> = Vec::new();
    let mut ways = Vec::new();
    for number in 0..ORDERS {
        let way = WAYS[dice.below(WAYS.len())];
        for (step, status) in way.iter().enumerate().skip(1) {
            // A third of the callbacks is lost, and a third arrives twice.
            for _ in 0..dice.below(3) {
                news.push((number, step as u64 + 1, status));
            }
        }
        ways.push(way);
    }
    dice.shuffle(&mut news);
    // States whose callbacks were lost are polled: for each order, the service gets the last state at the end.
    news.extend(
        ways.iter()
            .enumerate()
            .map(|(number, way)| (number, way.len() as u64, way[way.len() - 1])),
    );
    let told = news.len();
    for (number, version, status) in news {
        let id = &opened[&requests[number]];
        let answer = fiat.partner.tell(&fiat.app, &order_news(id, version, status)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let mut finals: BTreeMap<&str, usize> = BTreeMap::new();
    for (request, way) in requests.iter().zip(&ways) {
        let told = fiat.told(request).await;
        let last = way[way.len() - 1];
        *finals.entry(last).or_default() += 1;
        let count = |kind: &str| told.iter().filter(|one| one.starts_with(kind)).count();
        let (confirmed, failed) = (count("payment.confirmed"), count("payment.failed"));
        match last {
            "fiat_sent" => assert_eq!((confirmed, failed), (1, 0), "{told:?}"),
            _ => assert!(confirmed <= 1 && failed == 1, "{told:?}"),
        }
        let state = if last == "fiat_sent" { "paid" } else { "failed" };
        assert_eq!(fiat.status(request).await, state, "{told:?}");
        let steps: Vec<usize> = told
            .iter()
            .filter_map(|one| one.strip_prefix("payment.processing "))
            .map(|status| {
                OrderState::ALL
                    .iter()
                    .position(|state| state.wire() == status)
                    .expect("a state")
            })
            .collect();
        assert!(
            steps.windows(2).all(|two| two[0] < two[1]),
            "each step once and in order: {told:?}"
        );
    }
    println!("{ORDERS} orders, {told} pieces of news, ends {finals:?}");
}

#[tokio::test]
async fn fifty_equal_concurrent_callbacks_cause_one_change() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0005").await;
    let id = fiat.request("1").await;
    fiat.pay(&id, &account).await;
    fiat.work().await;
    let order = fiat.orders(false).await[0]
        .order
        .partner_id
        .clone()
        .expect("it is opened");
    for (version, status) in [(2, "sending_fiat"), (3, "fiat_sent")] {
        let body = order_news(&order, version, status);
        let answers = join_all((0..50).map(|_| fiat.partner.tell(&fiat.app, &body))).await;
        let taken = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(
            taken,
            50,
            "{:?}",
            answers.iter().map(|answer| answer.status).collect::<BTreeSet<_>>()
        );
    }
    assert_eq!(
        fiat.told(&id).await,
        [
            "payment.processing initiated",
            "payment.processing sending_fiat",
            "payment.processing fiat_sent",
            "payment.confirmed fiat_sent"
        ]
    );
    // The news of an unknown order is refused, so the partner retries it.
    let unknown = fiat
        .partner
        .tell(&fiat.app, &order_news("ord_nobody", 2, "fiat_sent"))
        .await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_stale_read_cannot_overwrite_an_order_for_another_quote() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("1").await;
    fiat.pay(&id, &account).await;
    let read = fiat.orders(false).await.remove(0).order;
    // Between two SQL statements, the order was stopped and became due again for another quote. Its state and version
    // are unchanged.
    let again = FiatOrder {
        quote: OffRampQuoteId(read.quote.as_str().chars().rev().collect()),
        ..read.clone()
    };
    let db = fiat.app.ctx.db.writer();
    let is_written = store::off_ramp_orders::replace(db, &read, &again).await;
    assert!(is_written.expect("writes"));
    let asked = FiatOrder {
        state: OrderState::Asked,
        ..read.clone()
    };
    let is_written = store::off_ramp_orders::replace(db, &read, &asked).await;
    assert!(!is_written.expect("asks"), "the decision was for the previous quote");
    assert_eq!(fiat.orders(false).await[0].order, again);
}

#[tokio::test]
async fn writers_of_request_and_order_lock_the_request_first() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0005").await;
    let id = fiat.request("1").await;
    fiat.pay(&id, &account).await;
    fiat.work().await;
    let order = fiat.orders(false).await.remove(0).order;
    let theirs = order.partner_id.clone().expect("it is opened");
    let db = &fiat.app.ctx.db;
    let request = store::requests::of_any_platform(db.reader(), &id).await;
    let request = request.expect("reads").expect("a request");
    let tx = db.begin("close_off_ramp").await.expect("begins");
    store::requests::lock(&tx, &request).await.expect("locks");
    let news = order_news(&theirs, 7, "fiat_sent");
    let told = fiat.partner.tell(&fiat.app, &news);
    let closing = async {
        // The news has been processed as far as possible.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let written = store::off_ramp_orders::replace(&tx, &order, &order);
        let written = tokio::time::timeout(Duration::from_millis(500), written).await;
        drop(tx);
        written
    };
    let (told, written) = tokio::join!(told, closing);
    let is_written = written.expect("a writer that waits for the request does not hold the order");
    assert!(is_written.expect("writes"));
    told.expect(200);
    assert_eq!(fiat.status(&id).await, "paid");
}

#[tokio::test]
async fn two_instances_open_an_order_once() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let beside = fiat.app.beside(|_| ()).await;
    let mut requests = Vec::new();
    for _ in 0..10 {
        let id = fiat.request("1").await;
        fiat.pay(&id, &account).await;
        requests.push(id);
    }
    for _ in 0..5 {
        let (one, other) = tokio::join!(ask::run(&fiat.app.ctx), ask::run(&beside.ctx));
        one.and(other).expect("orders are followed");
    }
    assert_eq!(fiat.partner.count("open_order").await, requests.len());
    for id in &requests {
        assert_eq!(fiat.told(id).await, ["payment.processing initiated"]);
    }
}

#[tokio::test]
async fn a_partner_down_for_an_hour_is_retried_until_it_is_back() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("1").await;
    let waiting = fiat.request("1").await;
    fiat.pay(&waiting, &account).await;
    fiat.work().await;
    fiat.partner.behave(OffRampBehaviour::Down);
    let calldata = fiat.ask(&id, CLIENT_USER, &account, "").await;
    assert_eq!(calldata.status, 502);
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.app.clock.advance(TimeDelta::minutes(2));
    let calldata = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.partner.behave(OffRampBehaviour::Down);
    fiat.send(&calldata).await;
    for _ in 0..60 {
        fiat.work().await;
        fiat.app.clock.advance(TimeDelta::minutes(1));
    }
    assert_eq!(fiat.status(&id).await, "processing");
    let open = fiat.orders(false).await;
    let asked = open.iter().find(|one| one.request_id == id).expect("it is open");
    assert!(asked.order.failures >= 5, "{:?}", asked.order);
    assert_eq!(asked.order.state, OrderState::Asked);
    // The callbacks of that hour are lost.
    fiat.partner.behave(OffRampBehaviour::Silent);
    fiat.partner_is_tried_again().await;
    for _ in 0..40 {
        fiat.work().await;
        fiat.app.clock.advance(TimeDelta::minutes(1));
        fiat.partner.tell_due(&fiat.app).await;
    }
    for request in [&id, &waiting] {
        assert_eq!(fiat.status(request).await, "paid");
        assert_eq!(
            fiat.told(request).await.last().map(String::as_str),
            Some("payment.confirmed fiat_sent")
        );
    }
    let calls = fiat.partner.calls().await;
    let keys: BTreeSet<&str> = calls
        .iter()
        .filter(|call| call.target.ends_with("/orders"))
        .map(|call| call.key.as_str())
        .collect();
    assert_eq!(keys.len(), 2);
}

#[tokio::test]
async fn an_order_without_news_for_a_day_is_logged_listed_and_counted() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0005").await;
    let id = fiat.request("1").await;
    fiat.pay(&id, &account).await;
    fiat.seconds(6).await;
    let silent = async || {
        let wanted = list::OrderFilter {
            all: false,
            silent: true,
        };
        let listed = list::run(&fiat.app.ctx, wanted).await.expect("a list");
        listed.into_iter().map(|one| one.request_id).collect::<Vec<_>>()
    };
    fiat.pass(23 * 3_600).await;
    assert!(silent().await.is_empty());
    fiat.pass(2 * 3_600).await;
    assert_eq!(silent().await, [id.as_str()]);
    let stop = CancellationToken::new();
    let worker = tokio::spawn(follow_off_ramp::run(fiat.app.ctx.clone(), stop.clone()));
    let line = "an order has had no news for a day";
    for _ in 0..100 {
        if lines_logged_with(line) > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    worker.await.expect("it ends");
    assert_eq!(lines_logged_with(line), 1);
    let measured = fiat.app.get("/metrics").send().await.text;
    for gauge in ["prs_off_ramp_orders_open 1", "prs_off_ramp_orders_silent 1"] {
        assert!(measured.lines().any(|shown| shown == gauge), "{gauge}: {measured}");
    }
}

/// Pays on a chain whose payments are final after three blocks. Returns the request, the hash of the payment and its
/// signed bytes.
async fn paid_late(fiat: &Fiat) -> (String, alloy::primitives::B256, Vec<u8>) {
    let (id, tx_hash, _) = paid_by_steps(fiat).await;
    let raw = fiat.app.devnet().raw_transaction(tx_hash).await.expect("a transaction");
    (id, tx_hash, raw)
}

/// Pays on a chain whose payments are final after three blocks. Returns the request, the hash of the payment and the
/// steps that the payer signed.
async fn paid_by_steps(
    fiat: &Fiat,
) -> (
    String,
    alloy::primitives::B256,
    Vec<(alloy::primitives::Address, Vec<u8>, alloy::primitives::U256)>,
) {
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    fiat.mine(3).await;
    let id = fiat.request("5").await;
    let steps = transactions(&fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200));
    let receipts = fiat.app.devnet().pay(PAYER, &steps).await.expect("mined");
    let tx_hash = receipts.last().expect("a payment").tx_hash;
    assert_eq!(fiat.status(&id).await, "pending", "the payment is not final");
    fiat.mine(3).await;
    assert_eq!(fiat.status(&id).await, "processing");
    (id, tx_hash, steps)
}

#[tokio::test]
async fn a_reversal_before_the_order_holds_it_until_the_money_returns() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, raw) = paid_late(&fiat).await;
    fiat.app.devnet().reorg(4).await.expect("reorganised");
    let _ = fiat.app.devnet().drop_transaction(tx_hash).await;
    fiat.mine(2).await;
    assert_eq!(fiat.status(&id).await, "pending");
    fiat.work().await;
    assert_eq!(fiat.orders(true).await[0].order.state, OrderState::Stopped);
    assert_eq!(fiat.partner.count("open_order").await, 0);
    assert_eq!(fiat.told(&id).await, [""; 0]);
    include_again(&fiat, raw).await;
    assert_eq!(fiat.status(&id).await, "processing");
    fiat.seconds(8).await;
    assert_eq!(fiat.status(&id).await, "paid");
    assert_eq!(fiat.partner.count("open_order").await, 1);
    let confirmed = fiat.told(&id).await;
    assert_eq!(
        confirmed
            .iter()
            .filter(|one| one.starts_with("payment.confirmed"))
            .count(),
        1
    );
}

/// Removes a payment from the chain and follows the chain.
async fn take_back(fiat: &Fiat, tx_hash: alloy::primitives::B256) {
    fiat.app.devnet().reorg(4).await.expect("reorganised");
    let _ = fiat.app.devnet().drop_transaction(tx_hash).await;
    fiat.mine(6).await;
}

/// Includes a removed payment again and follows the chain.
async fn include_again(fiat: &Fiat, raw: Vec<u8>) {
    let again = vec![(devnet::ReorgTransaction::Raw(raw), 0)];
    fiat.app.devnet().reorg_with(1, again).await.expect("included again");
    fiat.mine(4).await;
}

#[tokio::test]
async fn an_order_that_was_never_sent_can_still_be_stopped() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, raw) = paid_late(&fiat).await;
    // The partner fails until its circuit breaker opens.
    fiat.partner.behave(OffRampBehaviour::Down);
    let partner = fiat.app.ctx.partners.off_ramp.as_deref().expect("a partner");
    for _ in 0..3 {
        partner.payer("nobody").await.expect_err("it is down");
    }
    fiat.work().await;
    assert_eq!(fiat.partner.count("open_order").await, 0, "nothing is sent");
    let order = fiat.orders(true).await.pop().expect("an order").order;
    assert_eq!((order.state, order.failures, order.asked), (OrderState::Due, 1, None));
    take_back(&fiat, tx_hash).await;
    assert_eq!(fiat.status(&id).await, "pending");
    assert_eq!(fiat.orders(true).await[0].order.state, OrderState::Stopped);
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.partner_is_tried_again().await;
    fiat.seconds(8).await;
    assert_eq!(fiat.partner.count("open_order").await, 0);
    assert_eq!(fiat.told(&id).await, [""; 0]);
    include_again(&fiat, raw).await;
    fiat.seconds(8).await;
    assert_eq!(fiat.status(&id).await, "paid");
    assert_eq!(fiat.partner.count("open_order").await, 1);
}

#[tokio::test]
async fn no_payout_is_ordered_for_a_payment_that_left_the_chain() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, raw) = paid_late(&fiat).await;
    fiat.partner.behave(OffRampBehaviour::Down);
    fiat.work().await;
    assert_eq!(
        fiat.partner.count("open_order").await,
        1,
        "whether the partner has the order is unknown"
    );
    take_back(&fiat, tx_hash).await;
    let wanted = QuarantineQuery {
        reason: Some(OddReason::PaidOut),
        ..QuarantineQuery::default()
    };
    let set_aside = quarantine::list(&fiat.app.ctx, &wanted, false, None).await;
    assert_eq!(set_aside.expect("a list").len(), 1);
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.partner_is_tried_again().await;
    for _ in 0..20 {
        fiat.work().await;
        fiat.app.clock.advance(TimeDelta::minutes(10));
    }
    assert_eq!(
        fiat.partner.count("open_order").await,
        1,
        "no payout is ordered for removed money"
    );
    assert_eq!(
        (fiat.status(&id).await.as_str(), fiat.told(&id).await),
        ("processing", vec![])
    );
    let word = fiat.orders(false).await[0].order.word.clone().expect("a reason");
    assert!(word.contains("no longer on the chain"), "{word}");
    // Once the payment is back, the order is sent as before.
    include_again(&fiat, raw).await;
    fiat.app.clock.advance(TimeDelta::minutes(10));
    fiat.work().await;
    let calls = fiat.partner.calls().await;
    let asked: Vec<_> = calls.iter().filter(|call| call.target.ends_with("/orders")).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!((&asked[0].body, &asked[0].key), (&asked[1].body, &asked[1].key));
    assert_eq!(fiat.told(&id).await, ["payment.processing initiated"]);
}

#[tokio::test]
async fn an_order_resumes_when_its_money_returns_in_another_transaction() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, steps) = paid_by_steps(&fiat).await;
    fiat.partner.behave(OffRampBehaviour::Down);
    fiat.work().await;
    take_back(&fiat, tx_hash).await;
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.partner_is_tried_again().await;
    fiat.app.clock.advance(TimeDelta::minutes(10));
    fiat.work().await;
    assert_eq!(
        fiat.partner.count("open_order").await,
        1,
        "no payout is ordered for removed money"
    );
    let receipts = fiat.app.devnet().pay(PAYER, &steps).await.expect("mined");
    let other = receipts.last().expect("a payment").tx_hash;
    assert_ne!(other, tx_hash);
    fiat.mine(6).await;
    fiat.app.clock.advance(TimeDelta::minutes(10));
    fiat.work().await;
    let calls = fiat.partner.calls().await;
    let asked: Vec<_> = calls.iter().filter(|call| call.target.ends_with("/orders")).collect();
    assert_eq!(asked.len(), 2, "the order is sent again");
    assert_eq!(
        (&asked[0].body["amount"], &asked[0].key),
        (&asked[1].body["amount"], &asked[1].key)
    );
    assert_eq!(asked[1].body["transactions"], serde_json::json!([other.to_string()]));
    assert_eq!(fiat.told(&id).await, ["payment.processing initiated"]);
}

#[tokio::test]
async fn later_payments_do_not_change_the_ordered_amount() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("5").await;
    let calldata = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.send(&calldata).await;
    fiat.partner.behave(OffRampBehaviour::Down);
    fiat.work().await;
    fiat.send(&calldata).await;
    assert_eq!(fiat.app.read_request(&id).await["excessAmount"], "5");
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.partner_is_tried_again().await;
    fiat.app.clock.advance(TimeDelta::minutes(1));
    fiat.work().await;
    let calls = fiat.partner.calls().await;
    let asked = calls.iter().filter(|call| call.target.ends_with("/orders"));
    let asked: Vec<_> = asked
        .map(|call| (&call.body["amount"], call.body["transactions"].as_array().map(Vec::len)))
        .collect();
    assert_eq!(asked, [(&serde_json::json!("5"), Some(1)); 2]);
}

#[tokio::test]
async fn a_reversal_after_the_order_goes_to_the_operator() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, _) = paid_late(&fiat).await;
    fiat.work().await;
    take_back(&fiat, tx_hash).await;
    assert_eq!(fiat.status(&id).await, "processing");
    let wanted = QuarantineQuery {
        request_id: Some(id.clone()),
        ..QuarantineQuery::default()
    };
    let set_aside = quarantine::list(&fiat.app.ctx, &wanted, false, None)
        .await
        .expect("a list");
    assert_eq!(set_aside.len(), 1);
    assert_eq!(set_aside[0].oddity.reason, OddReason::PaidOut);
    for verdict in [OperatorDecision::Accept, OperatorDecision::Retry] {
        quarantine::decide(&fiat.app.ctx, &set_aside[0].id, verdict, None)
            .await
            .expect_err("money is gone");
    }
    // The events report what the partner says.
    fiat.seconds(8).await;
    let told = fiat.told(&id).await;
    assert_eq!(
        told.last().map(String::as_str),
        Some("payment.confirmed fiat_sent"),
        "{told:?}"
    );
    assert_eq!(fiat.status(&id).await, "paid");
    let seen = quarantine::show(&fiat.app.ctx, &set_aside[0].id)
        .await
        .expect("it is there");
    assert_eq!(seen.attempts, 2, "the missing money is reported again");
    quarantine::decide(
        &fiat.app.ctx,
        &set_aside[0].id,
        OperatorDecision::Reject,
        Some("settled with the partner"),
    )
    .await
    .expect("it is decided");
}
