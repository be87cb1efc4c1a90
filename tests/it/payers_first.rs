//! A payer is registered for the first time, and the partner's response is lost. The partner may have stored the payer,
//! so the payer can be erased, and an erased payer does not reappear.

use crate::support::{
    Answer, TestApp,
    off_ramp::{HANGS, Partner, Scripted},
    payers::{dollars, hurried_with_partner, person, with_partner},
};
use prs::domain::off_ramp_sandbox::OffRampBehaviour;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const ID: &str = "user-4711";

/// Milliseconds after which no call can be in flight any longer: the longest duration of a call, plus a margin.
const IN_FLIGHT_MS: i64 = 10_002;

fn waits(answer: &Answer) {
    assert_eq!(answer.status, 409, "{}", answer.text);
    assert!(
        answer.text.contains("erased automatically within seconds"),
        "{}",
        answer.text
    );
}

async fn until_called(partner: &Partner, operation: &str, times: usize) {
    while partner.count(operation).await < times {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asserts that neither the service nor the partner stores a payer, and that the last call to the partner was an
/// erasure.
async fn nobody_is_left(app: &TestApp, partner: &Partner) {
    app.payer(ID).await.expect(404);
    app.erase_payer(ID).await.expect(404);
    let calls = partner.calls().await;
    let last = calls.last().expect("calls");
    assert_eq!(
        last.method, "DELETE",
        "the erasure follows every registration: {calls:?}"
    );
    // A payer that is registered now is new to the partner.
    let registered = app.register_payer(&person(ID)).await.expect(200);
    assert_eq!(registered["status"]["kycStatus"], "not_started", "{registered}");
    let calls = partner.calls().await;
    let key = &calls.last().expect("calls").key;
    let erased = calls.iter().filter(|call| call.target.ends_with(key.as_str())).count();
    assert!(erased > 0, "the erasure used the key of the registration");
}

/// Registers a payer in such a way that the service does not get the partner's response. `way` selects the cause.
async fn registered_unheard(app: &TestApp, partner: &Partner, way: &str) {
    let before = partner.count("register").await;
    match way {
        "the partner is late" => {
            partner.answer("register", Some(Scripted::After(HANGS)));
            app.register_payer(&person(ID)).await.expect(502);
            partner.answer("register", None);
        }
        "the response is malformed" => {
            partner.behave(OffRampBehaviour::OtherPayer);
            app.register_payer(&person(ID)).await.expect(502);
            partner.behave(OffRampBehaviour::Normal);
        }
        "the caller is gone" => {
            partner.behave(OffRampBehaviour::Slow);
            let form = person(ID);
            tokio::select! {
                answer = app.register_payer(&form) => panic!("the call got a response: {}", answer.text),
                () = until_called(partner, "register", before + 1) => {}
            }
            partner.behave(OffRampBehaviour::Normal);
        }
        other => panic!("{other}"),
    }
    assert_eq!(partner.count("register").await, before + 1, "{way}");
    app.payer(ID).await.expect(404);
}

const WAYS: [&str; 3] = ["the partner is late", "the response is malformed", "the caller is gone"];

#[tokio::test]
async fn a_payer_with_a_lost_registration_response_can_be_erased() {
    let (app, partner) = hurried_with_partner().await;
    for way in WAYS {
        registered_unheard(&app, &partner, way).await;
        waits(&app.erase_payer(ID).await);
        waits(&app.erase_payer(ID).await);
        let again = app.register_payer(&person(ID)).await;
        assert_eq!(again.status, 409, "{}", again.text);
        app.follow_payers().await;
        let before = partner.count("erase_registered").await;
        app.advance_ms(IN_FLIGHT_MS);
        app.follow_payers().await;
        assert_eq!(partner.count("erase_registered").await, before + 1, "{way}");
        nobody_is_left(&app, &partner).await;
        app.erase_payer(ID).await.expect(200);

        // Once no call is in flight any longer, the payer is erased at once.
        registered_unheard(&app, &partner, way).await;
        app.advance_ms(IN_FLIGHT_MS);
        assert_eq!(app.erase_payer(ID).await.expect(200), json!({ "success": true }));
        nobody_is_left(&app, &partner).await;
        app.erase_payer(ID).await.expect(200);
    }
}

#[tokio::test]
async fn a_registration_with_a_lost_response_is_repeated_as_one() {
    let (app, partner) = hurried_with_partner().await;
    for way in WAYS {
        registered_unheard(&app, &partner, way).await;
        app.register_payer(&person(ID)).await.expect(200);
        app.account_of(ID, &dollars("7734509911")).await;
        // A call that no caller waits for may still be running.
        waits(&app.erase_payer(ID).await);
        app.advance_ms(IN_FLIGHT_MS);
        app.follow_payers().await;
        app.erase_payer(ID).await.expect(404);
    }
}

#[tokio::test]
async fn a_registration_refused_by_the_partner_leaves_no_record() {
    let (app, partner) = hurried_with_partner().await;
    let refusal = json!({ "reason": "invalid_person", "fields": ["lastName"] }).to_string();
    partner.answer("register", Some(Scripted::Says(422, refusal)));
    app.register_payer(&person(ID)).await.expect(400);
    app.erase_payer(ID).await.expect(404);
    partner.answer("register", None);

    // The partner does not respond to the erasure, which is retried.
    registered_unheard(&app, &partner, "the partner is late").await;
    app.advance_ms(IN_FLIGHT_MS);
    let down = Scripted::Says(503, json!({ "reason": "down" }).to_string());
    partner.answer("erase_registered", Some(down));
    let waiting = app.erase_payer(ID).await;
    assert_eq!(waiting.status, 502, "{}", waiting.text);
    assert!(waiting.text.contains("erased automatically"), "{}", waiting.text);
    app.register_payer(&person(ID)).await.expect(409);
    partner.answer("erase_registered", None);
    app.advance_ms(61_000);
    app.follow_payers().await;
    nobody_is_left(&app, &partner).await;
}

#[tokio::test]
async fn concurrent_first_registrations_never_restore_an_erased_payer() {
    let (app, partner) = with_partner().await;
    partner.answer("register", Some(Scripted::After(Duration::from_millis(800))));
    let (one, other) = (person(ID), person(ID));
    let first = app.register_payer(&one);
    let second = async {
        until_called(&partner, "register", 1).await;
        // The second call takes long, so that the payer, which the first call stored, can be erased meanwhile.
        partner.answer("register", Some(Scripted::After(Duration::from_secs(2))));
        app.register_payer(&other).await
    };
    let erasing = async {
        until_called(&partner, "register", 2).await;
        partner.answer("register", None);
        while app.payer(ID).await.status == 404 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        app.erase_payer(ID).await
    };
    let (first, second, erased) = tokio::join!(first, second, erasing);
    first.expect(200);
    waits(&erased);
    let second: Value = second.expect(409);
    assert!(
        second["message"]
            .as_str()
            .is_some_and(|why| why.contains("being erased")),
        "{second}"
    );
    app.advance_ms(IN_FLIGHT_MS);
    app.follow_payers().await;
    app.payer(ID).await.expect(404);
    app.erase_payer(ID).await.expect(404);
    let calls = partner.calls().await;
    assert_eq!(
        calls.last().map(|call| call.method.as_str()),
        Some("DELETE"),
        "{calls:?}"
    );
}

#[tokio::test]
async fn an_erasure_with_a_lost_response_holds_the_id_while_in_flight() {
    let (app, partner) = hurried_with_partner().await;
    app.register_payer(&person(ID)).await.expect(200);
    partner.answer("erase", Some(Scripted::Hangs));
    app.erase_payer(ID).await.expect(502);
    partner.answer("erase", None);
    let before = partner.count("erase").await;
    for _ in 0..2 {
        waits(&app.erase_payer(ID).await);
        app.follow_payers().await;
        app.register_payer(&person(ID)).await.expect(409);
    }
    assert_eq!(
        partner.count("erase").await,
        before,
        "the first call may still be running"
    );
    app.advance_ms(IN_FLIGHT_MS);
    app.follow_payers().await;
    assert_eq!(partner.count("erase").await, before + 1);
    app.register_payer(&person(ID)).await.expect(200);
    app.payer(ID).await.expect(200);
}

#[tokio::test]
async fn a_late_erasure_keeps_a_newer_registration_record() {
    let (app, partner) = with_partner().await;
    registered_unheard(&app, &partner, "the caller is gone").await;
    app.advance_ms(IN_FLIGHT_MS);
    partner.behave(OffRampBehaviour::Slow);
    let since = async {
        until_called(&partner, "erase_registered", 1).await;
        partner.behave(OffRampBehaviour::Normal);
        // Another instance ends the erasure, and the payer is registered again.
        app.advance_ms(61_000);
        app.follow_payers().await;
        assert_eq!(partner.count("erase_registered").await, 2);
        registered_unheard(&app, &partner, "the caller is gone").await;
    };
    let (erased, ()) = tokio::join!(app.erase_payer(ID), since);
    erased.expect(200);
    // A payer that the partner has stored since can be erased.
    waits(&app.erase_payer(ID).await);
}

#[tokio::test]
async fn a_registration_response_after_its_deadline_creates_no_payer() {
    let (app, partner) = with_partner().await;
    partner.behave(OffRampBehaviour::Slow);
    let later = async {
        until_called(&partner, "register", 1).await;
        app.advance_ms(IN_FLIGHT_MS);
    };
    let form = person(ID);
    let (late, ()) = tokio::join!(app.register_payer(&form), later);
    assert_eq!(late.status, 502, "{}", late.text);
    app.payer(ID).await.expect(404);
    partner.behave(OffRampBehaviour::Normal);
    app.erase_payer(ID).await.expect(200);
    nobody_is_left(&app, &partner).await;
}

#[tokio::test]
async fn an_erasure_concurrent_with_a_registration_finds_the_payer() {
    let (app, partner) = with_partner().await;
    let mut said = BTreeMap::new();
    for number in 0..40u64 {
        let id = format!("user-{number}");
        let form = person(&id);
        let erasing = async {
            until_called(&partner, "register", usize::try_from(number).expect("a few") + 1).await;
            tokio::time::sleep(Duration::from_millis(number % 20)).await;
            app.erase_payer(&id).await
        };
        let (registered, erased) = tokio::join!(app.register_payer(&form), erasing);
        *said.entry((registered.status, erased.status)).or_insert(0) += 1;
        let both = [(200, 200), (200, 409), (409, 409)];
        assert!(
            both.contains(&(registered.status, erased.status)),
            "{}, {}",
            registered.text,
            erased.text
        );
    }
    println!("a registration, an erasure: {said:?}");
}

#[tokio::test]
async fn a_registration_without_a_payer_is_erased_after_two_days() {
    let (app, partner) = with_partner().await;
    registered_unheard(&app, &partner, "the caller is gone").await;
    app.advance_ms(47 * 60 * 60 * 1_000);
    app.follow_payers().await;
    assert_eq!(partner.count("erase_registered").await, 0);
    app.advance_ms(60 * 60 * 1_000 + 1_000);
    app.follow_payers().await;
    assert_eq!(partner.count("erase_registered").await, 1);
    nobody_is_left(&app, &partner).await;
}

#[tokio::test]
async fn a_registration_recorded_by_a_fast_clock_is_not_in_flight() {
    let (app, partner) = hurried_with_partner().await;
    let day = 24 * 60 * 60 * 1_000;
    app.advance_ms(day);
    registered_unheard(&app, &partner, "the caller is gone").await;
    app.advance_ms(-day);
    app.erase_payer(ID).await.expect(200);
    nobody_is_left(&app, &partner).await;
    app.advance_ms(day);
    partner.answer("add_account", Some(Scripted::After(HANGS)));
    let unheard = app.add_account(ID, &dollars("7734509911")).await;
    assert_eq!(unheard.status, 502, "{}", unheard.text);
    partner.answer("add_account", None);
    waits(&app.erase_payer(ID).await);
    app.advance_ms(-day);
    app.erase_payer(ID).await.expect(200);
}
