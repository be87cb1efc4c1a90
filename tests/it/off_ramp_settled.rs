//! A payer with a payment in progress is not erased, and only the operator can close a request that no order pays out.

use crate::support::{
    app::forged,
    chain::{PAYER, transactions},
    fiat::{CLIENT_USER, Fiat},
    off_ramp::{Change, Scripted},
    secrets::{holds, lines_logged_with},
};
use chrono::TimeDelta;
use prs::{
    domain::{off_ramp::OrderState, off_ramp_sandbox::OffRampBehaviour, refusal::RefusalKind},
    flows::{
        FlowError,
        off_ramp::{close, list},
    },
    settings::OffRampSource,
    worker::follow_off_ramp,
};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A time in seconds after which every quote has expired.
const QUOTE_ENDS: i64 = 16 * 60;

async fn cannot_be_erased(fiat: &Fiat, why: &str) {
    let refused = fiat.app.erase_payer(CLIENT_USER).await;
    assert_eq!(refused.status, 409, "{why}: {}", refused.text);
    assert!(refused.text.contains("is in progress"), "{}", refused.text);
    assert_eq!(fiat.partner.count("erase").await, 0, "{why}");
}

async fn cancel(fiat: &Fiat, id: &str) {
    let call = fiat.app.post(&format!("/v2/request/{id}/cancel")).with_key();
    call.json(&json!({})).send().await.expect(200);
}

/// The operator's list of unsettled requests. Each entry has the request's state, the amount that arrived, and the
/// amount that was ordered from the partner.
async fn unsettled(fiat: &Fiat) -> Vec<(String, String, Option<String>)> {
    let listed = list::unsettled(&fiat.app.ctx).await.expect("a list");
    let shown = listed.into_iter().map(|one| {
        let asked = one.asked.map(|asked| asked.to_string());
        (
            one.request.ledger.status.wire().to_owned(),
            one.arrived.to_string(),
            asked,
        )
    });
    shown.collect()
}

async fn refused(fiat: &Fiat, id: &str) -> RefusalKind {
    match close::run(&fiat.app.ctx, id, "a note").await {
        Err(FlowError::Refused(refusal)) => refusal.kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_payer_with_a_valid_quote_or_a_seen_payment_is_not_erased() {
    let fiat = Fiat::final_after(3, |_| ()).await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    fiat.mine(3).await;
    let id = fiat.request("5").await;
    let steps = transactions(&fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200));
    cannot_be_erased(&fiat, "a quote is valid").await;
    fiat.pass(QUOTE_ENDS).await;
    fiat.app.devnet().pay(PAYER, &steps).await.expect("mined");
    fiat.app.follow().await;
    assert_eq!(fiat.status(&id).await, "pending");
    cannot_be_erased(&fiat, "the payment is not final").await;
    fiat.mine(3).await;
    cannot_be_erased(&fiat, "the payout is pending").await;
    fiat.seconds(8).await;
    assert_eq!(fiat.status(&id).await, "paid");
    fiat.app.erase_payer(CLIENT_USER).await.expect(200);
}

#[tokio::test]
async fn partial_cancelled_and_excess_payments_wait_for_the_operator() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let part = fiat.request("10").await;
    let calldata = fiat.ask(&part, CLIENT_USER, &account, "").await.expect(200);
    fiat.send_units(&calldata, 10_000_000, 1).await;
    fiat.pass(QUOTE_ENDS).await;
    cannot_be_erased(&fiat, "a part of one request").await;
    let closed = close::run(&fiat.app.ctx, &part, "dust, returned by the partner")
        .await
        .expect("closed");
    assert_eq!(closed.ledger.status.wire(), "failed");
    assert_eq!(fiat.told(&part).await, ["payment.partial", "payment.failed failed"]);
    fiat.ask(&part, CLIENT_USER, &account, "").await.expect(400);
    close::run(&fiat.app.ctx, &part, "once more")
        .await
        .expect("it is closed");
    assert_eq!(fiat.told(&part).await.len(), 2, "reported once");
    assert!(unsettled(&fiat).await.is_empty());

    // A payer that is due for erasure is not erased if a platform registers the payer again.
    fiat.register(CLIENT_USER, "Approved").await.expect(200);
    let cancelled = fiat.request("10").await;
    let calldata = fiat.ask(&cancelled, CLIENT_USER, &account, "").await.expect(200);
    assert_eq!(
        refused(&fiat, &cancelled).await,
        RefusalKind::Conflict,
        "nothing has arrived"
    );
    cancel(&fiat, &cancelled).await;
    fiat.send(&calldata).await;
    fiat.pass(QUOTE_ENDS).await;
    cannot_be_erased(&fiat, "money of a cancelled request").await;
    assert_eq!(
        unsettled(&fiat).await,
        [("cancelled".to_owned(), "10".to_owned(), None)]
    );
    close::run(&fiat.app.ctx, &cancelled, "returned").await.expect("closed");
    assert_eq!(fiat.status(&cancelled).await, "cancelled");

    fiat.register(CLIENT_USER, "Approved").await.expect(200);
    let twice = fiat.request("10").await;
    let calldata = fiat.ask(&twice, CLIENT_USER, &account, "").await.expect(200);
    fiat.send(&calldata).await;
    fiat.work().await;
    assert_eq!(
        refused(&fiat, &twice).await,
        RefusalKind::Conflict,
        "the partner already has the order"
    );
    fiat.seconds(8).await;
    fiat.send(&calldata).await;
    fiat.pass(QUOTE_ENDS).await;
    // Any sender can pay to an issued address: an excess does not block an erasure.
    fiat.app.erase_payer(CLIENT_USER).await.expect(200);
    assert_eq!(
        unsettled(&fiat).await,
        [("paid".to_owned(), "20".to_owned(), Some("10".to_owned()))]
    );
    close::run(&fiat.app.ctx, &twice, "returned").await.expect("closed");
    assert_eq!(fiat.status(&twice).await, "paid");
    assert_eq!(refused(&fiat, "no-such-request").await, RefusalKind::NotFound);
}

#[tokio::test]
async fn a_payer_is_not_erased_before_the_chain_is_read_past_its_quotes() {
    let fiat = Fiat::start().await;
    // The blocks of the node have earlier times than the quote.
    fiat.pass(10 * 365 * 24 * 60 * 60).await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("5").await;
    fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.pass(QUOTE_ENDS).await;
    fiat.mine(1).await;
    cannot_be_erased(&fiat, "whether it was paid in time is unknown").await;
    let ten_years = 10 * 366 * 24 * 60 * 60;
    fiat.app.devnet().increase_time(ten_years).await.expect("mined");
    fiat.app.follow().await;
    fiat.app.erase_payer(CLIENT_USER).await.expect(200);
}

#[tokio::test]
async fn a_payer_due_for_erasure_gets_no_quote_until_registered_again() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let (quoted, new) = (fiat.request("5").await, fiat.request("6").await);
    fiat.ask(&quoted, CLIENT_USER, &account, "").await.expect(200);
    cannot_be_erased(&fiat, "a quote is valid").await;
    // Issued calldata can still be paid.
    fiat.ask(&quoted, CLIENT_USER, &account, "").await.expect(200);
    let asked = fiat.partner.count("quote").await;
    let refused = fiat.ask(&new, CLIENT_USER, &account, "").await;
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("this one is erased once"), "{}", refused.text);
    assert_eq!(fiat.partner.count("quote").await, asked);
    fiat.register(CLIENT_USER, "Approved").await.expect(200);
    fiat.ask(&new, CLIENT_USER, &account, "").await.expect(200);
    cannot_be_erased(&fiat, "a quote is valid").await;
    fiat.pass(QUOTE_ENDS).await;
    fiat.mine(1).await;
    fiat.app.erase_payer(CLIENT_USER).await.expect(200);
}

#[tokio::test]
async fn a_quote_in_progress_is_withheld_once_its_payer_is_to_be_erased() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let (quoted, new) = (fiat.request("5").await, fiat.request("6").await);
    fiat.ask(&quoted, CLIENT_USER, &account, "").await.expect(200);
    fiat.partner.behave(OffRampBehaviour::Slow);
    let erasing = async {
        while fiat.partner.count("quote").await < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cannot_be_erased(&fiat, "a quote is valid").await;
    };
    let (refused, ()) = tokio::join!(fiat.ask(&new, CLIENT_USER, &account, ""), erasing);
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("this one is erased once"), "{}", refused.text);
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.ask(&quoted, CLIENT_USER, &account, "").await.expect(200);
}

#[tokio::test]
async fn pages_cannot_tell_a_payer_being_erased_from_an_unknown_one() {
    let fiat = Fiat::start().await;
    let (account, other) = (
        fiat.compliant(CLIENT_USER, "7890").await,
        fiat.add_account(CLIENT_USER, "1234").await,
    );
    for _ in 0..3 {
        fiat.pass(1).await;
    }
    let id = fiat.request("5").await;
    fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    cannot_be_erased(&fiat, "a quote is valid").await;
    let mut said = Vec::new();
    for user in ["ada%2B1%40example.com", "nobody"] {
        let path = format!("/v2/request/{id}/pay?clientUserId={user}&paymentDetailsId={other}");
        let begun = Instant::now();
        let mut refused = forged(&fiat.app, Method::GET, &path).send().await.expect(400);
        assert!(
            begun.elapsed() >= Duration::from_millis(60),
            "{user} is refused earlier than others"
        );
        refused.as_object_mut().expect("an object").remove("requestId");
        said.push(refused);
    }
    assert_eq!(said[0], said[1]);
}

#[tokio::test]
async fn a_concurrent_erasure_and_quote_run_one_after_the_other() {
    let fiat = Fiat::start().await;
    let mut erased = 0;
    for number in 0..8 {
        let user = format!("user-{number}");
        let account = fiat.compliant(&user, "7890").await;
        let id = fiat.request("5").await;
        let (erasure, asked) = tokio::join!(fiat.app.erase_payer(&user), fiat.ask(&id, &user, &account, ""));
        let statuses = (erasure.status, asked.status);
        // The status is 502 if the partner erased the payer before the quote was requested.
        assert!(
            [(200, 400), (200, 502), (409, 200)].contains(&statuses),
            "{statuses:?}: {} {}",
            erasure.text,
            asked.text
        );
        erased += usize::from(erasure.status == 200);
    }
    println!("8 races, {erased} payers erased");
}

#[tokio::test]
async fn an_erasure_removes_partner_ids_and_late_money_goes_to_the_operator() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let (paid, late) = (fiat.request("5").await, fiat.request("6").await);
    fiat.pay(&paid, &account).await;
    fiat.seconds(8).await;
    let calldata = fiat.ask(&late, CLIENT_USER, &account, "").await.expect(200);
    fiat.pass(QUOTE_ENDS).await;
    let payer = fiat.app.partner_id(CLIENT_USER).await;
    let of_account = fiat.app.stored_accounts(CLIENT_USER).await[0].details.partner.clone();
    fiat.app.erase_payer(CLIENT_USER).await.expect(200);
    let stored = fiat.app.stored();
    for id in [&payer, &of_account] {
        assert!(!holds(&stored, id), "{id} identifies the payer at the partner");
    }

    fiat.send(&calldata).await;
    assert_eq!(fiat.status(&late).await, "processing", "a late payment still counts");
    for _ in 0..3 {
        fiat.work().await;
        fiat.app.clock.advance(TimeDelta::minutes(10));
    }
    assert_eq!(fiat.partner.count("open_order").await, 1, "only the previous order");
    let open = fiat.orders(false).await;
    let order = &open.iter().find(|one| one.request_id == late).expect("it waits").order;
    assert_eq!((order.state, order.failures, &order.asked), (OrderState::Due, 3, &None));
    let word = order.word.as_deref().expect("why it waits");
    assert!(word.ends_with("is not called: the payer was erased"), "{word}");
    close::run(&fiat.app.ctx, &late, "returned by the partner")
        .await
        .expect("closed");
    assert_eq!(fiat.told(&late).await, ["payment.failed failed"]);
}

#[tokio::test]
async fn an_unaccepted_order_can_be_closed_and_ignores_later_news() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("5").await;
    fiat.pay(&id, &account).await;
    fiat.partner.behave(OffRampBehaviour::Down);
    fiat.work().await;
    let closed = close::run(&fiat.app.ctx, &id, "the partner went out of business")
        .await
        .expect("closed");
    assert_eq!(closed.ledger.status.wire(), "failed");
    assert_eq!(fiat.orders(true).await[0].order.state, OrderState::Failed);
    fiat.partner.behave(OffRampBehaviour::Normal);
    fiat.partner_is_tried_again().await;
    for _ in 0..3 {
        fiat.app.clock.advance(TimeDelta::minutes(20));
        fiat.work().await;
    }
    assert_eq!(fiat.partner.count("open_order").await, 1, "the order is no longer sent");
    assert_eq!(fiat.told(&id).await, ["payment.failed failed"]);
    assert!(unsettled(&fiat).await.is_empty());
}

#[tokio::test]
async fn the_id_of_another_order_is_rejected_and_retried_more_slowly() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let (one, two) = (fiat.request("5").await, fiat.request("5").await);
    fiat.pay(&one, &account).await;
    fiat.work().await;
    let known = fiat.orders(true).await[0].order.partner_id.clone();
    let same = vec![("id", Change::To(json!(known.expect("it is opened"))))];
    fiat.partner.answer("open_order", Some(Scripted::Changed(same)));
    fiat.pay(&two, &account).await;
    for _ in 0..4 {
        fiat.work().await;
        fiat.app.clock.advance(TimeDelta::minutes(1));
    }
    let listed = fiat.orders(true).await;
    let odd = &listed
        .iter()
        .find(|order| order.request_id == two)
        .expect("an order")
        .order;
    assert_eq!((odd.state, odd.failures), (OrderState::Asked, 4));
    assert!(
        odd.word.as_deref().is_some_and(|word| word.contains("another order")),
        "{odd:?}"
    );
    assert_eq!(fiat.told(&two).await, [""; 0]);
    fiat.partner.answer("open_order", None);
    fiat.app.clock.advance(TimeDelta::minutes(10));
    fiat.work().await;
    // The partner already has this order, and finds it by its key.
    let told = fiat.told(&two).await;
    assert_eq!(told, ["payment.processing fiat_sent", "payment.confirmed fiat_sent"]);
}

#[tokio::test]
async fn an_order_postponed_by_a_fast_clock_is_retried_at_once() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("5").await;
    fiat.pay(&id, &account).await;
    fiat.app.clock.advance(TimeDelta::days(1));
    fiat.partner
        .answer("open_order", Some(Scripted::Says(503, "{}".to_owned())));
    fiat.work().await;
    assert_eq!(fiat.orders(true).await[0].order.state, OrderState::Asked);
    fiat.partner.answer("open_order", None);
    fiat.app.clock.advance(TimeDelta::days(-1));
    fiat.work().await;
    assert_ne!(fiat.orders(true).await[0].order.state, OrderState::Asked);
}

#[tokio::test]
async fn money_for_a_closed_request_does_not_block_an_erasure() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("5").await;
    let calldata = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.send_units(&calldata, 5_000_000, 1).await;
    fiat.pass(QUOTE_ENDS).await;
    fiat.mine(1).await;
    cannot_be_erased(&fiat, "a partial payment arrived").await;
    close::run(&fiat.app.ctx, &id, "sent back").await.expect("closes");
    fiat.send_units(&calldata, 5_000_000, 1).await;
    fiat.app.erase_payer(CLIENT_USER).await.expect(200);
}

#[tokio::test]
async fn orders_waiting_for_a_disabled_partner_are_logged_at_startup() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("5").await;
    fiat.pay(&id, &account).await;
    let without = fiat
        .app
        .beside(|settings| settings.partners.offramp = OffRampSource::Off)
        .await;
    let stop = CancellationToken::new();
    let worker = tokio::spawn(follow_off_ramp::run(without.ctx.clone(), stop.clone()));
    for _ in 0..100 {
        if lines_logged_with("partners.offramp is off") > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stop.cancel();
    worker.await.expect("it ends");
    assert_eq!(lines_logged_with("partners.offramp is off"), 1);
}
