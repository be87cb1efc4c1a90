//! Orders by which payments reach bank accounts: news in any order, from anybody, at the same time, late, and chains that
//! take their payments back.

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
        oddity::{OddReason, Verdict},
        off_ramp::{FiatOrder, OrderState},
        off_ramp_sandbox::OffRampBehaviour,
    },
    flows::{
        off_ramp::{ask, list},
        payments::quarantine::{self, Wanted},
    },
    store,
    worker::follow_off_ramp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Orders of which news arrives at random.
const ORDERS: usize = 500;

/// The ways that an order can take, in the partner's words.
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
async fn whatever_order_news_comes_in_each_order_ends_where_the_partner_says() {
    let fiat = Fiat::start().await;
    // Its orders stay where they are, so that the test alone tells of them.
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
            // A third is lost, a third comes twice.
            for _ in 0..dice.below(3) {
                news.push((number, step as u64 + 1, status));
            }
        }
        ways.push(way);
    }
    dice.shuffle(&mut news);
    // What was lost is asked for: the last of each comes at last.
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
            "each once and forward: {told:?}"
        );
    }
    println!("{ORDERS} orders, {told} pieces of news, ends {finals:?}");
}

#[tokio::test]
async fn fifty_equal_callbacks_at_once_are_one_change() {
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
    // One that nobody opened comes again later.
    let unknown = fiat
        .partner
        .tell(&fiat.app, &order_news("ord_nobody", 2, "fiat_sent"))
        .await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn an_order_that_became_due_for_other_money_is_not_written_by_whoever_read_it_before() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("1").await;
    fiat.pay(&id, &account).await;
    let read = fiat.orders(false).await.remove(0).order;
    // It was stopped and became due again between two statements: state and version are what they were.
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
    assert!(!is_written.expect("asks"), "it was decided for the quote of before");
    assert_eq!(fiat.orders(false).await[0].order, again);
}

#[tokio::test]
async fn whoever_writes_request_and_order_locks_the_request_first() {
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
        // The news has come as far as it comes.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let written = store::off_ramp_orders::replace(&tx, &order, &order);
        let written = tokio::time::timeout(Duration::from_millis(500), written).await;
        drop(tx);
        written
    };
    let (told, written) = tokio::join!(told, closing);
    let is_written = written.expect("nobody who waits for the request holds the order");
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
async fn a_partner_that_is_away_for_an_hour_is_asked_until_it_is_back() {
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
    // Its callbacks of that hour are lost.
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
async fn an_order_without_news_for_a_day_is_a_line_a_row_and_a_number() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0005").await;
    let id = fiat.request("1").await;
    fiat.pay(&id, &account).await;
    fiat.seconds(6).await;
    let silent = async || {
        let wanted = list::Wanted {
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

/// Pays on a chain whose payments are final after three blocks; returns the request and the payment as it was sent.
async fn paid_late(fiat: &Fiat) -> (String, alloy::primitives::B256, Vec<u8>) {
    let (id, tx_hash, _) = paid_by_steps(fiat).await;
    let raw = fiat.app.devnet().raw_transaction(tx_hash).await.expect("a transaction");
    (id, tx_hash, raw)
}

/// The same with what its payer was asked to sign.
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
    assert_eq!(fiat.status(&id).await, "pending", "it is not final");
    fiat.mine(3).await;
    assert_eq!(fiat.status(&id).await, "processing");
    (id, tx_hash, steps)
}

#[tokio::test]
async fn a_reversal_before_the_order_stops_it_until_the_money_is_back() {
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

/// Takes a payment off the chain, and follows that.
async fn take_back(fiat: &Fiat, tx_hash: alloy::primitives::B256) {
    fiat.app.devnet().reorg(4).await.expect("reorganised");
    let _ = fiat.app.devnet().drop_transaction(tx_hash).await;
    fiat.mine(6).await;
}

/// Includes a payment that was taken off the chain, and follows that.
async fn include_again(fiat: &Fiat, raw: Vec<u8>) {
    let again = vec![(devnet::ReorgTransaction::Raw(raw), 0)];
    fiat.app.devnet().reorg_with(1, again).await.expect("included again");
    fiat.mine(4).await;
}

#[tokio::test]
async fn an_order_that_was_never_sent_can_still_be_stopped() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, raw) = paid_late(&fiat).await;
    // The partner fails until it is left alone.
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
async fn money_that_left_before_the_partner_was_reached_is_not_asked_for() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, raw) = paid_late(&fiat).await;
    fiat.partner.behave(OffRampBehaviour::Down);
    fiat.work().await;
    assert_eq!(
        fiat.partner.count("open_order").await,
        1,
        "whether it has the order is not known"
    );
    take_back(&fiat, tx_hash).await;
    let wanted = Wanted {
        reason: Some(OddReason::PaidOut),
        ..Wanted::default()
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
        "nobody asks for what is gone"
    );
    assert_eq!(
        (fiat.status(&id).await.as_str(), fiat.told(&id).await),
        ("processing", vec![])
    );
    let word = fiat.orders(false).await[0].order.word.clone().expect("a reason");
    assert!(word.contains("left the chain"), "{word}");
    // Once it is back, it is asked for as before.
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
async fn an_order_whose_money_came_back_in_another_transaction_goes_on_by_itself() {
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
        "nobody asks for what is gone"
    );
    let receipts = fiat.app.devnet().pay(PAYER, &steps).await.expect("mined");
    let other = receipts.last().expect("a payment").tx_hash;
    assert_ne!(other, tx_hash);
    fiat.mine(6).await;
    fiat.app.clock.advance(TimeDelta::minutes(10));
    fiat.work().await;
    let calls = fiat.partner.calls().await;
    let asked: Vec<_> = calls.iter().filter(|call| call.target.ends_with("/orders")).collect();
    assert_eq!(asked.len(), 2, "it is asked again");
    assert_eq!(
        (&asked[0].body["amount"], &asked[0].key),
        (&asked[1].body["amount"], &asked[1].key)
    );
    assert_eq!(asked[1].body["transactions"], serde_json::json!([other.to_string()]));
    assert_eq!(fiat.told(&id).await, ["payment.processing initiated"]);
}

#[tokio::test]
async fn what_is_asked_for_stays_the_same_whatever_arrives_later() {
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
async fn a_reversal_after_the_order_is_an_operators_case() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let (id, tx_hash, _) = paid_late(&fiat).await;
    fiat.work().await;
    take_back(&fiat, tx_hash).await;
    assert_eq!(fiat.status(&id).await, "processing");
    let wanted = Wanted {
        request_id: Some(id.clone()),
        ..Wanted::default()
    };
    let set_aside = quarantine::list(&fiat.app.ctx, &wanted, false, None)
        .await
        .expect("a list");
    assert_eq!(set_aside.len(), 1);
    assert_eq!(set_aside[0].oddity.reason, OddReason::PaidOut);
    for verdict in [Verdict::Accept, Verdict::Retry] {
        quarantine::decide(&fiat.app.ctx, &set_aside[0].id, verdict, None)
            .await
            .expect_err("money is gone");
    }
    // What the partner says is what is told.
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
    assert_eq!(seen.attempts, 2, "it is told again that the money is not there");
    quarantine::decide(
        &fiat.app.ctx,
        &set_aside[0].id,
        Verdict::Reject,
        Some("settled with the partner"),
    )
    .await
    .expect("it is decided");
}
