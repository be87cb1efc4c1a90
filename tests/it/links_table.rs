//! What every operation answers for a link in every state, before, at and after its end: one printed table.

use crate::support::{
    Answer, TestApp,
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    screening::Providers,
};
use prs::{domain::screening::SandboxAnswer, flows::secure_payments::expire};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

const RECIPIENT: &str = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";
const BANNED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

/// How long the links of this table can be paid.
const LASTS_MS: i64 = 600_000;

/// How long before its end a link is made what its row says.
const LEAD_MS: i64 = 60_000;

/// What became of a link before it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// Nothing.
    Untouched,
    /// Somebody said that a payment is on its way.
    InFlight,
    /// Two of its five units arrived.
    PartlyPaid,
    /// Another one paid it.
    PaidByAnother,
    /// Its owner withdrew it.
    Withdrawn,
    /// It was combined with another one.
    Combined,
    /// It came of two that were combined.
    Combination,
    /// The first of two amounts of it is paid.
    PartlyPaidBatch,
    /// Its recipient did not pass the screening.
    Refused,
    /// It was paid when its time was over.
    PaidLate,
    /// It was withdrawn, and paid all the same.
    PaidAfterWithdrawal,
}

/// When it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// A minute before its end.
    Before,
    /// In its last millisecond.
    At,
    /// In the one after.
    After,
    /// After its end, once the sweeper has been there.
    Swept,
}

use Past::*;
use When::*;

const OVER: [When; 2] = [After, Swept];
const EVER: [When; 4] = [Before, At, After, Swept];

const OPERATIONS: [&str; 8] = [
    "get", "pay", "intent", "events", "lookup", "page", "combine", "withdraw",
];

const EXPIRED: &str = "403 Secure payment has expired";
const GONE: &str = "403 Secure payment has been withdrawn";
const PAID: &str = "409 Secure payment has already been completed";
const CLOSED: &str = "403 Secure payment cannot be paid";
const NO_PAYOUT: &str = "400 must be the token of a payout link of yours that can still be paid: ";
const NO_SINGLE: &str = "400 must be a link with one payout: this one is something else";

/// What each operation answers, in the order of [`OPERATIONS`].
fn expected(past: Past, when: When) -> [String; 8] {
    let is_over = OVER.contains(&when);
    let not = |sentence: &str| format!("{NO_PAYOUT}{}", &sentence[4..]);
    match (past, is_over) {
        (Untouched, false) => [
            "200 pending",
            "200 due 5",
            "200",
            "202",
            "200 pending",
            "200 pending",
            "201",
            "200 invalidated",
        ]
        .map(str::to_owned),
        (InFlight, false) => [
            "200 pending, in flight",
            "200 due 5",
            "200",
            "202",
            "200 pending",
            "200 pending, in flight",
            "201",
            "200 invalidated",
        ]
        .map(str::to_owned),
        (PartlyPaid, false) => [
            "200 pending",
            "200 due 3",
            "200",
            "202",
            "200 pending",
            "200 pending",
            "400 must be a link for which nothing has arrived: this one is paid in part",
            "200 invalidated",
        ]
        .map(str::to_owned),
        (PartlyPaidBatch, false) => [
            "200 pending",
            "200 due 1 of 2",
            "200",
            "202",
            "200 pending, not_outgoing",
            "200 pending",
            NO_SINGLE,
            "200 invalidated",
        ]
        .map(str::to_owned),
        (Combination, false) => [
            "200 pending",
            "200 due 2 of 2",
            "200",
            "202",
            "200 pending, not_single_payment",
            "200 pending",
            NO_SINGLE,
            "200 invalidated",
        ]
        .map(str::to_owned),
        (Untouched | InFlight | PartlyPaid, true) => [
            EXPIRED.to_owned(),
            EXPIRED.to_owned(),
            EXPIRED.to_owned(),
            EXPIRED.to_owned(),
            "200 expired, secure_payment_expired".to_owned(),
            match past {
                // The hint is younger than two minutes: it may arrive late.
                InFlight => "410 expired, in flight".to_owned(),
                _ => "410 expired".to_owned(),
            },
            not(EXPIRED),
            "200 invalidated".to_owned(),
        ],
        (PartlyPaidBatch | Combination, true) => [
            EXPIRED,
            EXPIRED,
            EXPIRED,
            EXPIRED,
            match past {
                Combination => "200 expired, not_single_payment",
                _ => "200 expired, not_outgoing",
            },
            "410 expired",
            NO_SINGLE,
            "200 invalidated",
        ]
        .map(str::to_owned),
        (PaidByAnother | PaidLate, _) => [
            PAID.to_owned(),
            PAID.to_owned(),
            PAID.to_owned(),
            "202".to_owned(),
            "200 completed, already_paid, by the payer".to_owned(),
            "200 completed".to_owned(),
            not(PAID),
            PAID.to_owned(),
        ],
        (Withdrawn, _) => [
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            "200 invalidated, secure_payment_not_pending".to_owned(),
            "410 invalidated".to_owned(),
            not(GONE),
            "200 invalidated".to_owned(),
        ],
        (PaidAfterWithdrawal, _) => [
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            "200 invalidated, secure_payment_not_pending, by the payer".to_owned(),
            "410 invalidated".to_owned(),
            not(GONE),
            "200 invalidated".to_owned(),
        ],
        // Its request is found with the link that pays it now.
        (Combined, is_over) => [
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            match is_over {
                true => "200 another link, expired, not_single_payment".to_owned(),
                false => "200 another link, pending, not_single_payment".to_owned(),
            },
            "410 invalidated".to_owned(),
            not(GONE),
            "200 invalidated".to_owned(),
        ],
        (Refused, _) => [
            CLOSED.to_owned(),
            CLOSED.to_owned(),
            CLOSED.to_owned(),
            CLOSED.to_owned(),
            "200 compliance_failed, compliance_failed".to_owned(),
            "410 compliance_failed".to_owned(),
            not(CLOSED),
            "409 Secure payment cannot be paid".to_owned(),
        ],
    }
}

/// A link, and the request that its owner looks it up by.
struct Link {
    token: String,
    request: Value,
}

impl Link {
    fn of(made: &Value) -> Self {
        Self {
            token: token_of(made),
            request: made["requestIds"][0].clone(),
        }
    }
}

struct Table {
    app: TestApp,
    providers: Providers,
    owner: String,
}

impl Table {
    async fn payout(&self) -> Link {
        let mut body = payout_of(RECIPIENT, "5");
        body["expiresIn"] = json!(LASTS_MS / 1_000);
        Link::of(&self.app.payout_link(&body).await.expect(201))
    }

    async fn combine(&self, tokens: [&str; 2]) -> Answer {
        let call = self.app.post("/v2/secure-payments/batch-payouts").with_key();
        call.json(&json!({ "tokens": tokens })).send().await
    }

    async fn withdraw(&self, link: &Link) -> Answer {
        let path = format!("/v2/secure-payments/{}/withdraw", link.token);
        self.app.post(&path).with_key().send().await
    }

    async fn intent(&self, link: &Link) -> Answer {
        let path = format!("/v2/secure-payments/{}/intent", link.token);
        let body = json!({ "txHash": HASH, "chain": "SEPOLIA", "token": "FAU" });
        self.app.post(&path).with_client().json(&body).send().await
    }

    /// A link whose recipient does not pass: nobody but its owner learns its token.
    async fn refused(&self) -> Link {
        self.providers.answer(BANNED, None, SandboxAnswer::Rejected);
        let mut body = payout_of(BANNED, "5");
        body["expiresIn"] = json!(LASTS_MS / 1_000);
        body["accessPolicy"] = json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" });
        self.app.payout_link(&body).await.expect(403);
        let reader = self.app.ctx.db.reader();
        let newest = "SELECT token, request_id FROM secure_payments JOIN secure_payment_items \
                      ON secure_payments.id = secure_payment_id WHERE status = 'compliance_failed' \
                      ORDER BY secure_payments.id DESC LIMIT 1";
        let newest = Statement::from_string(reader.get_database_backend(), newest);
        let row = reader.query_one_raw(newest).await.expect("reads").expect("a link");
        let text = |name: &str| row.try_get::<String>("", name).expect("text");
        Link {
            token: text("token"),
            request: json!(text("request_id")),
        }
    }

    /// Makes a link with a past; a minute is left of its time.
    async fn with_past(&self, past: Past) -> Link {
        let app = &self.app;
        let pass = || app.advance_ms(LASTS_MS - LEAD_MS);
        match past {
            PartlyPaidBatch => {
                let mut body = link_of(&["2", "3"]);
                body["expiresIn"] = json!(LASTS_MS / 1_000);
                let link = Link::of(&app.link(&body).await.expect(201));
                pass();
                app.pay_past_link(&link.request, "2").await;
                app.settle().await;
                return link;
            }
            Refused => {
                let link = self.refused().await;
                pass();
                return link;
            }
            _ => {}
        }
        let link = self.payout().await;
        pass();
        match past {
            Untouched => {}
            InFlight => drop(self.intent(&link).await.expect(200)),
            PartlyPaid => {
                app.pay_past_link(&link.request, "2").await;
                app.settle().await;
            }
            PaidByAnother => {
                app.pay_link(&link.token).await;
                app.settle().await;
            }
            Withdrawn => drop(self.withdraw(&link).await.expect(200)),
            Combined => {
                let other = self.payout().await;
                self.combine([&link.token, &other.token]).await.expect(201);
            }
            Combination => {
                let other = self.payout().await;
                let made = self.combine([&link.token, &other.token]).await.expect(201);
                return Link::of(&made);
            }
            PaidAfterWithdrawal => {
                let calldata = app
                    .calldata_of(&link.token, Some(&app.account(PAYER)))
                    .await
                    .expect(200);
                self.withdraw(&link).await.expect(200);
                app.send_calldata(&calldata).await;
                app.settle().await;
            }
            PaidLate => {
                let calldata = app
                    .calldata_of(&link.token, Some(&app.account(PAYER)))
                    .await
                    .expect(200);
                app.advance_ms(LEAD_MS + 1);
                app.send_calldata(&calldata).await;
                app.settle().await;
            }
            PartlyPaidBatch | Refused => unreachable!("made above"),
        }
        link
    }

    /// Lets the time pass until a link is called.
    async fn pass_until(&self, past: Past, when: When) {
        let left = if past == PaidLate { -1 } else { LEAD_MS };
        match when {
            Before => {}
            At => self.app.advance_ms(left),
            After => self.app.advance_ms(left + 1),
            Swept => {
                self.app.advance_ms(left + 1);
                assert!(!expire::run(&self.app.ctx).await.expect("a sweep"));
            }
        }
    }

    /// What each operation answers: those that change nothing and a withdrawal to one link, a combination to another one.
    async fn answers(&self, past: Past, when: When) -> [String; 8] {
        let link = self.with_past(past).await;
        self.pass_until(past, when).await;
        let (app, token) = (&self.app, link.token.as_str());
        let get = shown(&app.open_link(token, "").send().await, status);
        let pay = shown(&app.calldata_of(token, None).await, due);
        let found = app.find_link(&self.owner, &link.request).await;
        let lookup = shown(&found, |body| looked_up(body, token, &app.account(PAYER)));
        let document = app.get(&format!("/pay/{token}")).send().await;
        let state = app.get(&format!("/pay/{token}/state")).send().await.expect(200);
        let page = format!("{} {}", document.status, status(&state).trim_start());
        let intent = shown(&self.intent(&link).await, |_| String::new());
        let step = json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z" });
        let report = app.post(&format!("/v2/secure-payments/{token}/events")).with_client();
        let events = shown(&report.json(&step).send().await, |_| String::new());
        let withdrawn = self.withdraw(&link).await;
        let withdraw = shown(&withdrawn, |body| format!(" {}", text(&body["status"])));
        let again = self.with_past(past).await;
        self.pass_until(past, when).await;
        let partner = self.payout().await;
        let combined = self.combine([&again.token, &partner.token]).await;
        let combine = shown(&combined, |_| String::new());
        [get, pay, intent, events, lookup, page, combine, withdraw]
    }
}

/// An answer in a cell: its status, and its message or what of it counts.
fn shown(answer: &Answer, facts: impl FnOnce(&Value) -> String) -> String {
    let body = answer.json();
    let told = match (answer.status, &body["errors"][0]["message"]) {
        (200..300, _) => facts(&body),
        (_, Value::String(sentence)) => format!(" {sentence}"),
        _ => format!(" {}", text(&body["message"])),
    };
    format!("{}{told}", answer.status)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("text in {value}"))
}

fn status(body: &Value) -> String {
    let is_in_flight = body["inFlight"] == true || body["inFlight"].is_object();
    let in_flight = if is_in_flight { ", in flight" } else { "" };
    format!(" {}{in_flight}", text(&body["status"]))
}

fn due(body: &Value) -> String {
    match body["requestIds"].as_array() {
        Some(ids) if body["batchPaymentTransaction"].is_object() => format!(" due {} of 2", ids.len()),
        _ => format!(" due {}", text(&body["metadata"]["requiredAmount"])),
    }
}

fn looked_up(body: &Value, token: &str, payer: &str) -> String {
    let other = if body["token"] == token { "" } else { " another link," };
    let block = body["blockReason"].as_str().map(|reason| format!(", {reason}"));
    let by = if body["payerAddress"] == payer {
        ", by the payer"
    } else {
        ""
    };
    format!("{other} {}{}{by}", text(&body["status"]), block.unwrap_or_default())
}

#[tokio::test]
async fn every_operation_answers_every_state_before_at_and_after_the_end_of_a_link() {
    let providers = Providers::start().await;
    let app = TestApp::on_chain_as(providers.settings(), 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let owner = app.owner().await;
    let mut table = Table { app, providers, owner };
    let pasts: [(Past, &[When]); 11] = [
        (Untouched, &EVER),
        (InFlight, &EVER),
        (PartlyPaid, &EVER),
        (PartlyPaidBatch, &EVER),
        (Combination, &EVER),
        (PaidByAnother, &EVER),
        (PaidLate, &OVER),
        (Withdrawn, &EVER),
        (PaidAfterWithdrawal, &EVER),
        (Combined, &EVER),
        (Refused, &EVER),
    ];
    let (mut cells, mut wrong) = (0, Vec::new());
    println!("| state | when | {} |", OPERATIONS.join(" | "));
    println!("|{}", "---|".repeat(2 + OPERATIONS.len()));
    for (past, whens) in pasts {
        for when in whens {
            let answers = table.answers(past, *when).await;
            println!("| {past:?} | {when:?} | {} |", answers.join(" | "));
            for ((operation, answer), expected) in OPERATIONS.iter().zip(&answers).zip(expected(past, *when)) {
                cells += 1;
                if *answer != expected {
                    wrong.push(format!(
                        "{past:?} {when:?} {operation}: {answer:?} instead of {expected:?}"
                    ));
                }
            }
            // A session ends with its day.
            table.owner = table.app.owner().await;
        }
    }
    println!("links: {cells} cells, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
