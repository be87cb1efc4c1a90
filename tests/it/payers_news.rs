//! States of payers and bank accounts. Tests every state with every possible report of the partner, and reports that
//! are repeated, reordered or lost.

use crate::support::{
    TestApp,
    dice::Dice,
    off_ramp::{Change, Partner, Scripted, account_news, payer_news},
    payers::{dollars, person, with_partner},
};
use futures_util::future::join_all;
use prs::{
    domain::off_ramp_news::NewsResult,
    flows::provider_news,
    store::{self, Scope, event_log::EventFilter},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const KYC: [&str; 5] = ["not_started", "pending", "approved", "rejected", "retry_required"];
const AGREEMENT: [&str; 5] = ["not_started", "pending", "completed", "rejected", "failed"];

/// Whether a report `told` of the partner may replace the identity state `from` of a payer. A report may skip states.
fn kyc_after(from: &str, told: &str) -> bool {
    match from {
        "not_started" => told != "not_started",
        "pending" => matches!(told, "approved" | "rejected" | "retry_required"),
        "retry_required" => matches!(told, "pending" | "approved" | "rejected"),
        "approved" => told == "rejected",
        _ => false,
    }
}

/// Whether a report `told` of the partner may replace the state `from` of a payer's agreement to the terms.
fn agreement_after(from: &str, told: &str) -> bool {
    match from {
        "not_started" => told != "not_started",
        "pending" => matches!(told, "completed" | "rejected" | "failed"),
        "failed" => matches!(told, "pending" | "completed" | "rejected"),
        _ => false,
    }
}

/// Creates a payer and brings it to these states of its identity and of its agreement to the terms; returns the id that
/// the partner gave it.
async fn brought_to(app: &TestApp, partner: &Partner, id: &str, kyc: &str, agreement: &str) -> String {
    app.register_payer(&person(id)).await.expect(200);
    let theirs = app.partner_id(id).await;
    if (kyc, agreement) != ("not_started", "not_started") {
        partner
            .tell(app, &payer_news(&theirs, 10, kyc, agreement))
            .await
            .expect(200);
    }
    theirs
}

async fn states(app: &TestApp, id: &str) -> (Value, Value) {
    let known = app.payer(id).await.expect(200);
    (known["kycStatus"].clone(), known["agreementStatus"].clone())
}

/// Prints one row of a table of states.
fn show(table: &str, from: &str, trigger: &str, to: &Value, legal: bool) {
    println!(
        "{table:<10} {from:<16} {trigger:<28} {} {to}",
        if legal { "->" } else { "--" }
    );
}

#[tokio::test]
async fn every_payer_state_accepts_only_legal_transitions() {
    let (app, partner) = with_partner().await;
    let (mut cells, mut legal_ones, mut number) = (0, 0, 0);
    let mut fresh = || {
        number += 1;
        format!("user-{number:04}")
    };
    for from in KYC {
        for told in KYC {
            let id = fresh();
            let theirs = brought_to(&app, &partner, &id, from, "pending").await;
            let before = app.told("compliance.updated").await.len();
            partner
                .tell(&app, &payer_news(&theirs, 11, told, "pending"))
                .await
                .expect(200);
            let is_legal = kyc_after(from, told);
            let expected = if is_legal { told } else { from };
            assert_eq!(
                states(&app, &id).await,
                (json!(expected), json!("pending")),
                "{from} {told}"
            );
            let after = app.told("compliance.updated").await.len();
            assert_eq!(after - before, usize::from(is_legal), "{from} {told}");
            show("identity", from, &format!("news {told}"), &json!(expected), is_legal);
            cells += 1;
            legal_ones += usize::from(is_legal);
        }
        // The tenant registers again: only a rejected payer starts again.
        let id = fresh();
        let theirs = brought_to(&app, &partner, &id, from, "completed").await;
        let changes = [
            ("version", json!(11)),
            ("kycStatus", json!("not_started")),
            ("agreementStatus", json!("not_started")),
        ];
        let changes = changes.map(|(name, value)| (name, Change::To(value))).to_vec();
        partner.answer("register", Some(Scripted::Changed(changes)));
        app.register_payer(&person(&id)).await.expect(200);
        partner.answer("register", None);
        let is_legal = from == "rejected";
        let expected = if is_legal {
            ("not_started", "not_started")
        } else {
            (from, "completed")
        };
        assert_eq!(
            states(&app, &id).await,
            (json!(expected.0), json!(expected.1)),
            "{from}"
        );
        assert_eq!(app.partner_id(&id).await, theirs);
        show("identity", from, "POST /v2/payer", &json!(expected.0), is_legal);
        cells += 1;
        legal_ones += usize::from(is_legal);
    }
    for from in AGREEMENT {
        for told in AGREEMENT {
            let id = fresh();
            let theirs = brought_to(&app, &partner, &id, "pending", from).await;
            partner
                .tell(&app, &payer_news(&theirs, 11, "pending", told))
                .await
                .expect(200);
            let is_legal = agreement_after(from, told);
            let expected = if is_legal { told } else { from };
            assert_eq!(
                states(&app, &id).await,
                (json!("pending"), json!(expected)),
                "{from} {told}"
            );
            show("agreement", from, &format!("news {told}"), &json!(expected), is_legal);
            cells += 1;
            legal_ones += usize::from(is_legal);
        }
        for says in [true, false] {
            let id = fresh();
            brought_to(&app, &partner, &id, "pending", from).await;
            let changes = [
                ("version", json!(11)),
                ("kycStatus", json!("pending")),
                ("agreementStatus", json!("completed")),
            ];
            let changes = changes.map(|(name, value)| (name, Change::To(value))).to_vec();
            partner.answer("agree", Some(Scripted::Changed(changes)));
            let answer = app.agree(&id, &json!({ "agreementCompleted": says })).await;
            partner.answer("agree", None);
            let is_refused = says && matches!(from, "rejected" | "failed");
            assert_eq!(
                answer.status,
                if is_refused { 400 } else { 200 },
                "{from} {says}: {}",
                answer.text
            );
            assert!(
                !is_refused || answer.text.contains(&format!("The agreement is {from}")),
                "{}",
                answer.text
            );
            let is_legal = says && matches!(from, "not_started" | "pending");
            let expected = if is_legal { "completed" } else { from };
            assert_eq!(states(&app, &id).await.1, expected, "{from} {says}");
            show("agreement", from, &format!("PATCH {says}"), &json!(expected), is_legal);
            cells += 1;
            legal_ones += usize::from(is_legal);
        }
    }
    println!("{cells} cells of payers, {legal_ones} of them legal");
    assert_eq!(cells, 5 * 5 + 5 + 5 * 5 + 10);
}

#[tokio::test]
async fn every_account_state_accepts_only_legal_transitions() {
    let (app, partner) = with_partner().await;
    let (mut cells, mut legal_ones, mut number) = (0, 0, 0);
    for kyc in KYC {
        for from in ["pending", "approved", "failed"] {
            for told in ["pending", "approved", "failed"] {
                number += 1;
                let id = format!("user-{number:04}");
                let theirs = brought_to(&app, &partner, &id, "not_started", "pending").await;
                let detail = app.account_of(&id, &dollars("1234567890")).await;
                let account = app.stored_accounts(&id).await[0].details.partner.clone();
                // News that arrives before the identity is approved waits for the approval.
                let tell = async |version: u64, status: &str| {
                    let news = account_news(&account, &theirs, version, status);
                    partner.tell(&app, &news).await.expect(200)
                };
                if kyc != "not_started" {
                    partner
                        .tell(&app, &payer_news(&theirs, 12, kyc, "pending"))
                        .await
                        .expect(200);
                }
                let is_open = kyc == "approved";
                if from != "pending" {
                    tell(10, from).await;
                }
                tell(11, told).await;
                let shown = app.accounts(&id).await[0]["status"].clone();
                let heard = match from {
                    "pending" => told,
                    // An approval that does not count yet is replaced by later news.
                    "approved" if !is_open && told == "failed" => "failed",
                    _ => from,
                };
                let expected = if is_open { heard } else { "pending" };
                assert_eq!(shown, expected, "{kyc} {from} {told}");
                let of_account = |events: Vec<Value>| {
                    let events = events
                        .into_iter()
                        .filter(|event| event["paymentDetailsId"] == detail.as_str());
                    events.map(|event| event["status"].clone()).collect::<Vec<_>>()
                };
                let events = of_account(app.told("payment_detail.updated").await);
                let mut wanted = vec![json!("pending")];
                wanted.extend((expected != "pending").then(|| json!(expected)));
                assert!(events.len() == wanted.len() || number > 90, "{events:?}");
                if kyc == "pending" || kyc == "retry_required" || kyc == "not_started" {
                    partner
                        .tell(&app, &payer_news(&theirs, 20, "approved", "pending"))
                        .await
                        .expect(200);
                    assert_eq!(
                        app.accounts(&id).await[0]["status"],
                        heard,
                        "the news received meanwhile counts now"
                    );
                }
                let is_legal = from == "pending" && told != "pending";
                show(
                    "account",
                    &format!("{from} ({kyc})"),
                    &format!("news {told}"),
                    &shown,
                    is_legal && is_open,
                );
                cells += 1;
                legal_ones += usize::from(is_legal && is_open);
            }
        }
    }
    println!("{cells} cells of bank accounts, {legal_ones} of them change the state at once");
    assert_eq!(cells, 45);
}

#[tokio::test]
async fn equal_concurrent_callbacks_change_and_report_once() {
    let (app, partner) = with_partner().await;
    let theirs = brought_to(&app, &partner, "user-4711", "pending", "completed").await;
    let before = app.told("compliance.updated").await.len();
    let news = payer_news(&theirs, 11, "approved", "completed");
    let answers = join_all((0..50).map(|_| partner.tell(&app, &news))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(app.told("compliance.updated").await.len(), before + 1);
    assert_eq!(states(&app, "user-4711").await, (json!("approved"), json!("completed")));
}

#[tokio::test]
async fn news_with_another_payers_key_is_rejected() {
    let (app, partner) = with_partner().await;
    let theirs = brought_to(&app, &partner, "user-4711", "pending", "pending").await;
    app.account_of("user-4711", &dollars("7734509911")).await;
    let account = app.stored_accounts("user-4711").await[0].details.partner.clone();
    let news = [
        ("payer", payer_news(&theirs, 90, "approved", "completed")),
        ("account", account_news(&account, &theirs, 90, "failed")),
    ];
    for (record, news) in news {
        let mut bent = news.clone();
        bent[record]["key"] = json!("ab".repeat(32));
        partner.tell(&app, &bent).await.expect(404);
        assert_eq!(states(&app, "user-4711").await, (json!("pending"), json!("pending")));
        assert_eq!(app.accounts("user-4711").await[0]["status"], "pending");
    }
}

#[tokio::test]
async fn a_state_counts_regardless_of_its_message_text() {
    let (app, partner) = with_partner().await;
    let theirs = brought_to(&app, &partner, "user-4711", "approved", "completed").await;
    app.account_of("user-4711", &dollars("7734509911")).await;
    let account = app.stored_accounts("user-4711").await[0].details.partner.clone();
    let mut news = account_news(&account, &theirs, 90, "failed");
    news["account"]["rejection"] = json!("\u{202e}not \u{200b}known");
    partner.tell(&app, &news).await.expect(200);
    assert_eq!(app.accounts("user-4711").await[0]["status"], "failed");
    let told = app.told("payment_detail.updated").await.pop().expect("told");
    assert_eq!(told["rejectionMessage"], "not known");
}

#[tokio::test]
async fn records_with_a_wrong_key_are_counted_and_retried_more_slowly() {
    let (app, partner) = with_partner().await;
    brought_to(&app, &partner, "user-4711", "pending", "pending").await;
    app.account_of("user-4711", &dollars("7734509911")).await;
    let wrong = || {
        Some(Scripted::Changed(vec![
            ("key", Change::To(json!("ab".repeat(32)))),
            ("version", Change::To(json!(90))),
        ]))
    };
    let disbelieved = async |what: &str| {
        let measured = app.get("/metrics").send().await.text;
        let name = format!("prs_off_ramp_disbelieved_total{{operation=\"{what}\"}} ");
        let line = measured.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("{name} is missing"))
            .parse::<u64>()
            .expect("a number")
    };
    for what in ["payer", "account"] {
        partner.answer(what, wrong());
        let (asked, seen) = (partner.count(what).await, disbelieved(what).await);
        for _ in 0..48 {
            app.advance_ms(5 * 60 * 1_000);
            app.follow_payers().await;
        }
        let asked = partner.count(what).await - asked;
        println!("{what}: asked {asked} times in four hours");
        assert!((1..24).contains(&asked), "{what}: asked {asked} times in four hours");
        assert!(disbelieved(what).await > seen, "{what}");
        partner.answer(what, None);
    }
    assert_eq!(states(&app, "user-4711").await, (json!("pending"), json!("pending")));
}

#[tokio::test]
async fn callbacks_waiting_for_one_record_do_not_block_the_database() {
    let (app, partner) = with_partner().await;
    let theirs = brought_to(&app, &partner, "user-4711", "pending", "completed").await;
    let payer = app.stored_payer("user-4711").await;
    let news = payer_news(&theirs, 11, "approved", "completed");
    let tx = app.ctx.db.begin("hold_payer").await.expect("begins");
    let held = store::payers::lock(&tx, &app.platform, &payer.id).await;
    held.expect("locks").expect("a payer");
    let told = join_all((0..20).map(|_| partner.tell(&app, &news)));
    let beside = async {
        // The callbacks arrive first.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let begun = Instant::now();
        let shown = app.payer("user-4711").await;
        drop(tx);
        (shown, begun.elapsed())
    };
    let (told, (shown, took)) = tokio::join!(told, beside);
    shown.expect(200);
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(told.iter().all(|answer| answer.status == 200));
}

#[tokio::test]
async fn news_of_unknown_or_other_tenants_records_changes_nothing() {
    let (app, partner) = with_partner().await;
    let unknown = payer_news("pyr_nobody", 5, "approved", "completed");
    assert_eq!(
        partner.tell(&app, &unknown).await.status,
        404,
        "the partner sends it again"
    );
    brought_to(&app, &partner, "user-4711", "approved", "completed").await;
    let other = brought_to(&app, &partner, "user-4712", "approved", "completed").await;
    app.account_of("user-4711", &dollars("1234567890")).await;
    let account = app.stored_accounts("user-4711").await[0].details.partner.clone();
    let told = partner
        .tell(&app, &account_news(&account, &other, 10, "approved"))
        .await;
    assert!(told.status >= 400, "{}", told.text);
    assert_eq!(app.accounts("user-4711").await[0]["status"], "pending");
    let unknown = account_news("acc_nobody", &other, 10, "approved");
    assert_eq!(partner.tell(&app, &unknown).await.status, 404);
}

/// Passes one report of the partner to the flow that handles callbacks; returns the outcome.
async fn hear(app: &TestApp, partner: &Partner, message: &Value) -> NewsResult {
    let message = partner.keyed(message);
    let off_ramp = app.ctx.partners.off_ramp.as_ref().expect("a partner");
    let news = off_ramp.news(message.to_string().as_bytes()).expect("readable");
    provider_news::run(&app.ctx, &news).await.expect("taken")
}

/// Draws a random sequence of legal states of a payer at the partner. Returns the report of each step, the last report
/// about the payer, and a report about the account.
fn walk(dice: &mut Dice, payer: &str, account: &str) -> (Vec<Value>, Value, Value) {
    let (mut kyc, mut agreement, mut version) = ("not_started", "not_started", 20);
    let mut told = Vec::new();
    for _ in 0..1 + dice.below(6) {
        let next = |from: &str, all: [&'static str; 5], follows: fn(&str, &str) -> bool, dice: &mut Dice| {
            let legal: Vec<&'static str> = all.into_iter().filter(|to| follows(from, to)).collect();
            (!legal.is_empty()).then(|| legal[dice.below(legal.len())])
        };
        if dice.happens(60) {
            kyc = next(kyc, KYC, kyc_after, dice).unwrap_or(kyc)
        } else {
            agreement = next(agreement, AGREEMENT, agreement_after, dice).unwrap_or(agreement)
        }
        version += 1;
        told.push(payer_news(payer, version, kyc, agreement));
        if kyc == "rejected" {
            break;
        }
    }
    let last = told.last().expect("one").clone();
    let outcome = ["pending", "approved", "failed"][dice.below(3)];
    let of_account = account_news(account, payer, 21, outcome);
    told.push(of_account.clone());
    (told, last, of_account)
}

#[tokio::test]
async fn reordered_repeated_and_lost_news_ends_in_one_final_event() {
    const ROUNDS: usize = 500;
    let (app, partner) = with_partner().await;
    let mut dice = Dice::new(14);
    let (mut heard, mut lost, mut changed) = (0, 0, 0);
    for round in 0..ROUNDS {
        let id = format!("canary-user-{round:04}");
        app.register_payer(&person(&id)).await.expect(200);
        let detail = app.account_of(&id, &dollars("1234567890")).await;
        let stored = app.stored_payer(&id).await;
        let account = app.stored_accounts(&id).await[0].details.partner.clone();
        let (told, last, of_account) = walk(&mut dice, &stored.details.partner, &account);
        let mut messages = Vec::new();
        for message in &told {
            if dice.happens(25) {
                lost += 1;
                continue;
            }
            let times = 1 + dice.below(3);
            messages.extend(std::iter::repeat_n(message.clone(), times));
        }
        dice.shuffle(&mut messages);
        for message in &messages {
            changed += usize::from(hear(&app, &partner, message).await == NewsResult::Changed);
            heard += 1;
        }
        // Lost news is polled, here at once.
        let (last, of_account) = (partner.keyed(&last), partner.keyed(&of_account));
        partner.answer("payer", Some(Scripted::Says(200, last["payer"].to_string())));
        partner.answer("account", Some(Scripted::Says(200, of_account["account"].to_string())));
        let (db, now) = (app.ctx.db.writer(), Some(app.ctx.clock.now()));
        let asked = store::payers::ask_again(db, &app.stored_payer(&id).await, now).await;
        asked.expect("written");
        let open = app.stored_accounts(&id).await.remove(0);
        let asked = store::bank_accounts::ask_again(db, &open, now).await;
        asked.expect("written");
        app.follow_payers().await;
        let now = app.stored_payer(&id).await;
        let payer = &last["payer"];
        assert_eq!(now.kyc().wire(), payer["kycStatus"], "round {round}");
        assert_eq!(now.agreement().wire(), payer["agreementStatus"], "round {round}");
        let is_approved = payer["kycStatus"] == "approved";
        let wanted = if is_approved {
            of_account["account"]["status"].clone()
        } else {
            json!("pending")
        };
        let account = &app.stored_accounts(&id).await[0];
        let was_approved = events_of(&app, &id)
            .await
            .iter()
            .any(|event| event["kycStatus"] == "approved");
        if is_approved || !was_approved {
            assert_eq!(account.status.wire(), wanted, "round {round}");
        }
        let events = events_of(&app, &id).await;
        let of_payer: Vec<&Value> = events
            .iter()
            .filter(|event| event["event"] == "compliance.updated")
            .collect();
        let state = |event: &Value| (event["kycStatus"].clone(), event["agreementStatus"].clone());
        let told: Vec<_> = of_payer.iter().map(|event| state(event)).collect();
        let begin = (json!("not_started"), json!("not_started"));
        assert_eq!(told.last().unwrap_or(&begin), &state(payer), "round {round}");
        assert!(
            told.windows(2).all(|pair| pair[0] != pair[1]),
            "round {round}: {told:?}"
        );
        let finals = events
            .iter()
            .filter(|event| event["paymentDetailsId"] == detail.as_str() && event["status"] != "pending");
        assert_eq!(
            finals.count(),
            usize::from(account.status.wire() != "pending"),
            "round {round}"
        );
    }
    println!("{ROUNDS} rounds: {heard} messages heard, {lost} lost, {changed} changes by messages");
}

/// The events of one payer, the oldest first.
async fn events_of(app: &TestApp, id: &str) -> Vec<Value> {
    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let filter = EventFilter {
        limit: 60,
        ..EventFilter::default()
    };
    let newest = store::event_log::events(app.ctx.db.reader(), &scope, &filter)
        .await
        .expect("reads");
    let bodies = newest.into_iter().rev().filter_map(|event| event.body.text());
    let bodies = bodies.map(|body| serde_json::from_str::<Value>(&body).expect("JSON"));
    bodies.filter(|body| body["clientUserId"] == id).collect()
}

#[tokio::test]
async fn open_records_are_polled_less_with_age_and_settled_ones_rarely() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    let mut asked = Vec::new();
    for minute in 0..(24 * 60) {
        let before = partner.count("payer").await;
        app.follow_payers().await;
        if partner.count("payer").await > before {
            asked.push(minute);
        }
        app.advance_ms(60_000);
    }
    println!("asked in minutes {asked:?}");
    assert_eq!(asked.first(), Some(&1));
    let pauses: Vec<i32> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1] + 1), "{pauses:?}");
    assert!(pauses.last().is_some_and(|pause| *pause > 120), "{pauses:?}");
    let theirs = app.partner_id("user-4711").await;
    partner
        .tell(&app, &payer_news(&theirs, 11, "rejected", "pending"))
        .await
        .expect(200);
    let before = partner.count("payer").await;
    app.advance_ms(30 * 24 * 3_600_000);
    app.follow_payers().await;
    assert_eq!(
        partner.count("payer").await,
        before,
        "a rejected payer is no longer polled"
    );
}

#[tokio::test]
async fn a_withdrawn_approval_is_noticed_despite_a_lost_callback() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    let theirs = app.partner_id("user-4711").await;
    partner.decide_kyc(&theirs, "approve", app.ctx.clock.now());
    partner.decide_agreement(&theirs, "agree", app.ctx.clock.now());
    partner.tell_due(&app).await;
    assert_eq!(app.payer("user-4711").await.expect(200)["isCompliant"], true);
    partner.decide_kyc(&theirs, "reject", app.ctx.clock.now());
    app.advance_ms(25 * 3_600_000);
    app.follow_payers().await;
    let known = app.payer("user-4711").await.expect(200);
    assert_eq!(
        (&known["kycStatus"], &known["isCompliant"]),
        (&json!("rejected"), &json!(false))
    );
}
