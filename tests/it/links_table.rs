//! Responses of every operation for a link in every state, before, at and after its expiry, printed as one table.

use crate::support::{
    Answer, TestApp,
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    screening::Providers,
};
use prs::flows::secure_payments::expire;
use serde_json::{Value, json};

const RECIPIENT: &str = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";
const BANNED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

/// Lifetime, in milliseconds, of the links in this table.
const LASTS_MS: i64 = 600_000;

/// How many milliseconds before the expiry of a link its history is created.
const LEAD_MS: i64 = 60_000;

/// What happened to a link before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// Nothing.
    Untouched,
    /// A payer reported a payment in flight.
    InFlight,
    /// Two of the five units of the link were paid.
    PartlyPaid,
    /// It was paid.
    PaidByAnother,
    /// Its owner withdrew it.
    Withdrawn,
    /// The link was replaced, because it was combined with another link.
    Combined,
    /// The link is the combination of two other links.
    Combination,
    /// The first of the two amounts of the link is paid.
    PartlyPaidBatch,
    /// Its recipient failed screening.
    Refused,
    /// The link was paid after it expired.
    PaidLate,
    /// The link was withdrawn and still paid.
    PaidAfterWithdrawal,
}

/// Time of the call, relative to the expiry of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReturnCondition {
    /// A minute before the link expires.
    Before,
    /// In the last millisecond before the link expires.
    At,
    /// In the millisecond in which the link expires.
    After,
    /// The call comes after the expiry of the link and a sweeper run.
    Swept,
}

use Past::*;
use ReturnCondition::*;

const OVER: [ReturnCondition; 2] = [After, Swept];
const EVER: [ReturnCondition; 4] = [Before, At, After, Swept];

const OPERATIONS: [&str; 8] = [
    "get", "pay", "intent", "events", "lookup", "page", "combine", "withdraw",
];

const EXPIRED: &str = "403 Secure payment has expired";
const GONE: &str = "403 Secure payment has been withdrawn";
const PAID: &str = "409 Secure payment has already been completed";
const CLOSED: &str = "403 Secure payment cannot be paid";
const NO_PAYOUT: &str = "400 must be the token of a payout link that you own and that can still be paid: ";
const NO_SINGLE: &str = "400 must be a link with exactly one payout";

/// Responses of the operations, in the order of [`OPERATIONS`].
fn expected(past: Past, when: ReturnCondition) -> [String; 8] {
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
            "400 must be an unpaid link: this one is partly paid",
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
                // The report of the payment is less than two minutes old, so the payment may still arrive.
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
        // The owner looks up the link by its request, and gets the combined link, which now pays the request.
        (Combined, is_over) => [
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            GONE.to_owned(),
            if is_over {
                "200 another link, expired, not_single_payment".to_owned()
            } else {
                "200 another link, pending, not_single_payment".to_owned()
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

/// A link, and the id of the request by which the owner finds the link.
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

    /// A link whose recipient fails screening: only its owner learns its token.
    async fn refused(&self) -> Link {
        let refused = self
            .app
            .refused_link(&self.providers, BANNED, Some(LASTS_MS / 1_000))
            .await;
        Link {
            token: refused.token,
            request: json!(refused.request),
        }
    }

    /// Creates a link with this history, a minute before its expiry.
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

    /// Advances the clock to the time of the call.
    async fn pass_until(&self, past: Past, when: ReturnCondition) {
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

    /// Calls every operation on a link with this history, and returns all responses. The reads and the withdrawal share
    /// one link; the combination gets a new link.
    async fn answers(&self, past: Past, when: ReturnCondition) -> [String; 8] {
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

/// The text of a table cell: the status of a response, followed by its error message or by the value that `facts`
/// selects.
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
async fn every_operation_has_a_response_for_every_link_state_and_time() {
    let providers = Providers::start().await;
    let app = TestApp::on_chain_as(providers.settings(), 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let owner = app.owner().await;
    let mut table = Table { app, providers, owner };
    let pasts: [(Past, &[ReturnCondition]); 11] = [
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
            // A session expires after a day.
            table.owner = table.app.owner().await;
        }
    }
    println!("links: {cells} cells, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
