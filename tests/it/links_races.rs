//! Two who want different things of a link at the same time: one outcome each, and no money unseen.
//!
//! Each race is run many times with beginnings that are drawn by a seed, after one round for each order in which nobody
//! is late; what came of the rounds is printed.

use crate::support::{
    Answer, TestApp,
    chain::{PAYER, lead},
    dice::Dice,
    links::{link_of, link_transactions, payout_of, token_of},
};
use alloy::primitives::{Address, U256};
use prs::{
    domain::{ids::SecurePaymentToken, network::Network, secure_payment::SecurePaymentStatus},
    flows::secure_payments::expire,
    store::{self, Scope, Tx},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{sleep, timeout};

const RECIPIENT: &str = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";

/// Another account that pays.
const OTHER_PAYER: usize = 4;

/// Rounds of each race whose beginnings are drawn.
const DRAWN: usize = 24;

/// The latest beginnings that are drawn for both, in microseconds. The first one is a look at the chain, or a combination,
/// which take their time.
const LATE_US: (usize, usize) = (30_000, 250_000);

/// How long the links of these tests can be paid.
const LASTS_MS: i64 = 600_000;

/// Who begins how late.
#[derive(Debug, Clone, Copy)]
struct Starts {
    first: Duration,
    second: Duration,
}

impl Starts {
    /// One round in which the first one is alone until it is done, one in which the second one is, and the drawn ones.
    fn all(seed: u64) -> Vec<Self> {
        let long = Duration::from_secs(2);
        let mut all = vec![
            Self {
                first: Duration::ZERO,
                second: long,
            },
            Self {
                first: long,
                second: Duration::ZERO,
            },
        ];
        let mut dice = Dice::new(seed);
        let mut draw = |late_us| Duration::from_micros(u64::try_from(dice.below(late_us)).expect("small"));
        all.extend((0..DRAWN).map(|_| Self {
            first: draw(LATE_US.0),
            second: draw(LATE_US.1),
        }));
        all
    }

    /// Lets two begin so.
    async fn race<A, B>(self, first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
        let first = async {
            sleep(self.first).await;
            first.await
        };
        let second = async {
            sleep(self.second).await;
            second.await
        };
        tokio::join!(first, second)
    }
}

/// What came of the rounds of a race.
#[derive(Default)]
struct Tally(BTreeMap<String, usize>);

impl Tally {
    fn note(&mut self, outcome: impl Into<String>) {
        *self.0.entry(outcome.into()).or_default() += 1;
    }

    /// Prints the outcomes. Every one of these has to be among them, and no other one.
    fn end(self, race: &str, outcomes: &[&str]) {
        let shown: Vec<String> = self
            .0
            .iter()
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        let rounds: usize = self.0.values().sum();
        println!("{race}: {rounds} rounds, {}", shown.join(", "));
        let mut known: Vec<&str> = outcomes.to_vec();
        known.sort_unstable();
        let found: Vec<&str> = self.0.keys().map(String::as_str).collect();
        assert_eq!(found, known, "{race}");
    }
}

/// A service on a chain whose payers have allowed everything, so that each payment is one transaction.
async fn service() -> TestApp {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let contracts = app.devnet().contracts();
    for payer in [PAYER, OTHER_PAYER] {
        for spender in [contracts.erc20_fee_proxy, contracts.batch_conversion_payments] {
            let approved = app
                .devnet()
                .approve(payer, app.devnet().tokens().fau, spender, U256::MAX);
            approved.await.expect("mined");
        }
    }
    app
}

fn short(mut body: Value) -> Value {
    body["expiresIn"] = json!(LASTS_MS / 1_000);
    body
}

/// A payout link and its request.
struct Link {
    token: String,
    request: String,
}

impl Link {
    fn of(made: &Value) -> Self {
        let request = made["requestIds"][0].as_str().expect("an id").to_owned();
        Self {
            token: token_of(made),
            request,
        }
    }

    async fn payout(app: &TestApp) -> Self {
        Self::of(&app.payout_link(&short(payout_of(RECIPIENT, "1"))).await.expect(201))
    }

    async fn status(&self, app: &TestApp) -> SecurePaymentStatus {
        app.stored_link(&self.token).await.status
    }
}

async fn withdraw(app: &TestApp, token: &str) -> Answer {
    let path = format!("/v2/secure-payments/{token}/withdraw");
    app.post(&path).with_key().send().await
}

async fn combine(app: &TestApp, tokens: &[&str]) -> Answer {
    let call = app.post("/v2/secure-payments/batch-payouts").with_key();
    call.json(&json!({ "tokens": tokens })).send().await
}

/// Pays a link from an account; returns how many units arrive.
async fn pay(app: &TestApp, payer: usize, token: &str) -> U256 {
    let calldata = app.calldata_of(token, Some(&app.account(payer))).await.expect(200);
    send(app, payer, &calldata).await
}

async fn send(app: &TestApp, payer: usize, calldata: &Value) -> U256 {
    let steps = link_transactions(calldata);
    assert_eq!(steps.len(), 1, "everything is allowed");
    let receipts = app.devnet().pay(payer, &steps).await.expect("mined");
    assert!(receipts.iter().all(|receipt| receipt.status), "a payment failed");
    units(1)
}

fn units(whole: u64) -> U256 {
    U256::from(whole) * U256::from(10).pow(U256::from(18))
}

async fn fau_of(app: &TestApp, wallet: &str) -> U256 {
    let balance = app.devnet().balance_of(
        app.devnet().tokens().fau,
        wallet.parse::<Address>().expect("an address"),
    );
    balance.await.expect("a balance")
}

/// What was credited to a request, in whole tokens, and how often its payment was told.
async fn credited(app: &TestApp, request: &str) -> (usize, usize) {
    let payments = app.payments_of(request).await;
    assert!(payments.iter().all(|payment| payment["amount"] == "1"), "{payments:?}");
    let events = format!("/v2/events?event=payment.confirmed&requestId={request}");
    let events = app.get(&events).with_key().send().await.expect(200);
    let told = events["events"].as_array().expect("a list").len();
    (payments.len(), told)
}

#[tokio::test]
async fn two_payers_at_once_are_both_credited_and_the_link_is_paid_once() {
    let app = service().await;
    let mut tally = Tally::default();
    for starts in Starts::all(1) {
        let link = Link::payout(&app).await;
        let before = fau_of(&app, RECIPIENT).await;
        let both = [PAYER, OTHER_PAYER].map(|payer| app.account(payer));
        let [first, second] = &both;
        let (first, second) = tokio::join!(
            app.calldata_of(&link.token, Some(first)),
            app.calldata_of(&link.token, Some(second))
        );
        let (first, second) = (first.expect(200), second.expect(200));
        let paid = starts.race(send(&app, PAYER, &first), async {
            let paid = send(&app, OTHER_PAYER, &second).await;
            app.follow().await;
            paid
        });
        let (first, second) = paid.await;
        app.settle().await;
        assert_eq!(fau_of(&app, RECIPIENT).await - before, first + second);
        assert_eq!(link.status(&app).await, SecurePaymentStatus::Completed);
        let (payments, told) = credited(&app, &link.request).await;
        assert_eq!(payments, 2, "both are seen");
        assert_eq!(app.calldata_of(&link.token, None).await.status, 409);
        assert_eq!(told, 1, "the event of the payment that completed it");
        tally.note("completed once, both credited");
    }
    tally.end("two payers", &["completed once, both credited"]);
}

#[tokio::test]
async fn a_payment_beside_the_sweeper_completes_its_link() {
    let app = service().await;
    let mut tally = Tally::default();
    for starts in Starts::all(2) {
        let links = [Link::payout(&app).await, Link::payout(&app).await];
        for link in &links {
            pay(&app, PAYER, &link.token).await;
        }
        app.advance_ms(LASTS_MS + 1);
        let sweep = async { expire::run(&app.ctx).await.expect("a sweep") };
        starts.race(app.follow(), sweep).await;
        app.settle().await;
        for link in &links {
            assert_eq!(link.status(&app).await, SecurePaymentStatus::Completed);
            assert_eq!(credited(&app, &link.request).await, (1, 1));
        }
        tally.note("completed");
    }
    tally.end("payment and sweeper", &["completed"]);
}

#[tokio::test]
async fn a_payment_beside_a_combination_is_credited_and_paid_no_second_time() {
    let app = service().await;
    let mut tally = Tally::default();
    for starts in Starts::all(3) {
        let links = [Link::payout(&app).await, Link::payout(&app).await];
        let [paid, open] = &links;
        let before = fau_of(&app, RECIPIENT).await;
        pay(&app, PAYER, &paid.token).await;
        let tokens = [paid.token.as_str(), open.token.as_str()];
        let (_, combined) = starts.race(app.follow(), combine(&app, &tokens)).await;
        app.settle().await;
        assert_eq!(credited(&app, &paid.request).await, (1, 1));
        let statuses = (paid.status(&app).await, open.status(&app).await);
        let rest = match combined.status {
            201 => {
                let both = (SecurePaymentStatus::Invalidated, SecurePaymentStatus::Invalidated);
                assert_eq!(statuses, both);
                tally.note("combined");
                token_of(&combined.json())
            }
            400 => {
                assert_eq!(statuses, (SecurePaymentStatus::Completed, SecurePaymentStatus::Pending));
                assert_eq!(combined.wrong_fields(), ["tokens[0]"]);
                tally.note("paid first");
                open.token.clone()
            }
            _ => panic!("{} {}", combined.status, combined.text),
        };
        // What is left is paid by the link that is left, and nothing else.
        pay(&app, OTHER_PAYER, &rest).await;
        app.settle().await;
        assert_eq!(credited(&app, &open.request).await, (1, 1));
        assert_eq!(fau_of(&app, RECIPIENT).await - before, units(2));
        assert_eq!(app.stored_link(&rest).await.status, SecurePaymentStatus::Completed);
    }
    tally.end("payment and combination", &["combined", "paid first"]);
}

#[tokio::test]
async fn payments_of_everything_that_is_combined_complete_one_link() {
    let app = service().await;
    let mut tally = Tally::default();
    for starts in Starts::all(4) {
        let links = [Link::payout(&app).await, Link::payout(&app).await];
        for link in &links {
            pay(&app, PAYER, &link.token).await;
        }
        let tokens = [links[0].token.as_str(), links[1].token.as_str()];
        let (_, combined) = starts.race(app.follow(), combine(&app, &tokens)).await;
        app.settle().await;
        for link in &links {
            assert_eq!(credited(&app, &link.request).await, (1, 1));
        }
        match combined.status {
            201 => {
                let made = app.stored_link(&token_of(&combined.json())).await;
                assert_eq!(made.status, SecurePaymentStatus::Completed, "nothing of it is due");
                tally.note("combined, and completed");
            }
            400 => tally.note("paid first"),
            _ => panic!("{} {}", combined.status, combined.text),
        }
    }
    tally.end("payments and combination", &["combined, and completed", "paid first"]);
}

