//! First registrations whose answer nobody heard: whoever the partner may have taken can be erased, and nobody who was erased
//! comes back.

use crate::support::{
    Answer, TestApp,
    off_ramp::{HANGS, Partner, Scripted},
    payers::{dollars, hurried_with_partner, person, with_partner},
};
use prs::domain::off_ramp_sandbox::OffRampBehaviour;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const ID: &str = "user-4711";

/// For how long a call may be in flight, and a moment.
const IN_FLIGHT_MS: i64 = 10_002;

fn waits(answer: &Answer) {
    assert_eq!(answer.status, 409, "{}", answer.text);
    assert!(
        answer.text.contains("erased by itself within seconds"),
        "{}",
        answer.text
    );
}

async fn until_called(partner: &Partner, operation: &str, times: usize) {
    while partner.count(operation).await < times {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Nobody is known, here or at the partner, which heard last that it is to forget.
async fn nobody_is_left(app: &TestApp, partner: &Partner) {
    app.payer(ID).await.expect(404);
    app.erase_payer(ID).await.expect(404);
    let calls = partner.calls().await;
    let last = calls.last().expect("calls");
    assert_eq!(last.method, "DELETE", "after all that was handed over: {calls:?}");
    // A payer who is registered now is a new one there.
    let registered = app.register_payer(&person(ID)).await.expect(200);
    assert_eq!(registered["status"]["kycStatus"], "not_started", "{registered}");
    let calls = partner.calls().await;
    let key = &calls.last().expect("calls").key;
    let erased = calls.iter().filter(|call| call.target.ends_with(key.as_str())).count();
    assert!(erased > 0, "the partner was asked by the key of the registration");
}

/// Registers somebody while the answer of the partner is lost, in each way in which it can be.
async fn registered_unheard(app: &TestApp, partner: &Partner, way: &str) {
    let before = partner.count("register").await;
    match way {
        "the partner is late" => {
            partner.answer("register", Some(Scripted::After(HANGS)));
            app.register_payer(&person(ID)).await.expect(502);
            partner.answer("register", None);
        }
        "the answer is odd" => {
            partner.behave(OffRampBehaviour::OtherPayer);
            app.register_payer(&person(ID)).await.expect(502);
            partner.behave(OffRampBehaviour::Normal);
        }
        "the caller is gone" => {
            partner.behave(OffRampBehaviour::Slow);
            let form = person(ID);
            tokio::select! {
                answer = app.register_payer(&form) => panic!("it is answered: {}", answer.text),
                () = until_called(partner, "register", before + 1) => {}
            }
            partner.behave(OffRampBehaviour::Normal);
        }
        other => panic!("{other}"),
    }
    assert_eq!(partner.count("register").await, before + 1, "{way}");
    app.payer(ID).await.expect(404);
}

const WAYS: [&str; 3] = ["the partner is late", "the answer is odd", "the caller is gone"];

#[tokio::test]
async fn whoever_was_registered_by_a_call_that_nobody_heard_can_be_erased() {
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

        // Later, when nothing is in flight any more, it is erased at once.
        registered_unheard(&app, &partner, way).await;
        app.advance_ms(IN_FLIGHT_MS);
        assert_eq!(app.erase_payer(ID).await.expect(200), json!({ "success": true }));
        nobody_is_left(&app, &partner).await;
        app.erase_payer(ID).await.expect(200);
    }
}

#[tokio::test]
async fn a_registration_that_nobody_heard_is_made_again_and_is_one() {
    let (app, partner) = hurried_with_partner().await;
    for way in WAYS {
        registered_unheard(&app, &partner, way).await;
        app.register_payer(&person(ID)).await.expect(200);
        app.account_of(ID, &dollars("7734509911")).await;
        // What nobody waits for may still be at work.
        waits(&app.erase_payer(ID).await);
        app.advance_ms(IN_FLIGHT_MS);
        app.follow_payers().await;
        app.erase_payer(ID).await.expect(404);
    }
}

#[tokio::test]
async fn what_the_partner_did_not_take_is_noted_nowhere() {
    let (app, partner) = hurried_with_partner().await;
    let refusal = json!({ "reason": "invalid_person", "fields": ["lastName"] }).to_string();
    partner.answer("register", Some(Scripted::Says(422, refusal)));
    app.register_payer(&person(ID)).await.expect(400);
    app.erase_payer(ID).await.expect(404);
    partner.answer("register", None);

    // The partner does not answer when it is asked to forget, and is asked again.
    registered_unheard(&app, &partner, "the partner is late").await;
    app.advance_ms(IN_FLIGHT_MS);
    let down = Scripted::Says(503, json!({ "reason": "down" }).to_string());
    partner.answer("erase_registered", Some(down));
    let waiting = app.erase_payer(ID).await;
    assert_eq!(waiting.status, 502, "{}", waiting.text);
    assert!(waiting.text.contains("erased by itself"), "{}", waiting.text);
    app.register_payer(&person(ID)).await.expect(409);
    partner.answer("erase_registered", None);
    app.advance_ms(61_000);
    app.follow_payers().await;
    nobody_is_left(&app, &partner).await;
}

#[tokio::test]
async fn of_first_registrations_at_once_none_brings_back_who_was_erased() {
    let (app, partner) = with_partner().await;
    partner.answer("register", Some(Scripted::After(Duration::from_millis(800))));
    let (one, other) = (person(ID), person(ID));
    let first = app.register_payer(&one);
    let second = async {
        until_called(&partner, "register", 1).await;
        // It is answered long after the first one, so that somebody is there who can be erased meanwhile.
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
async fn an_erasure_that_nobody_heard_keeps_the_id_until_it_can_reach_nobody() {
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
    assert_eq!(partner.count("erase").await, before, "the first one may be at work");
    app.advance_ms(IN_FLIGHT_MS);
    app.follow_payers().await;
    assert_eq!(partner.count("erase").await, before + 1);
    app.register_payer(&person(ID)).await.expect(200);
    app.payer(ID).await.expect(200);
}

#[tokio::test]
async fn a_note_that_was_made_since_is_kept_by_an_erasure_that_ends_late() {
    let (app, partner) = with_partner().await;
    registered_unheard(&app, &partner, "the caller is gone").await;
    app.advance_ms(IN_FLIGHT_MS);
    partner.behave(OffRampBehaviour::Slow);
    let since = async {
        until_called(&partner, "erase_registered", 1).await;
        partner.behave(OffRampBehaviour::Normal);
        // Somebody else ends the erasure, and the payer is registered anew.
        app.advance_ms(61_000);
        app.follow_payers().await;
        assert_eq!(partner.count("erase_registered").await, 2);
        registered_unheard(&app, &partner, "the caller is gone").await;
    };
    let (erased, ()) = tokio::join!(app.erase_payer(ID), since);
    erased.expect(200);
    // Whom the partner has taken since can be erased.
    waits(&app.erase_payer(ID).await);
}

#[tokio::test]
async fn a_registration_that_is_answered_when_its_call_was_given_up_makes_no_payer() {
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
async fn an_erasure_beside_the_end_of_a_first_registration_finds_somebody() {
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
async fn whom_the_partner_took_for_nobody_is_forgotten_after_two_days() {
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
async fn what_a_clock_noted_that_was_ahead_is_in_flight_no_more() {
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
