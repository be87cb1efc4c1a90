//! Conflicting concurrent operations on a link: each has one outcome, and no payment is missed.
//!
//! Each race first runs once in each order without overlap. Then it runs many times with random start delays from a
//! fixed seed. The test prints how often each outcome occurred.

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

/// Account of a second payer.
const OTHER_PAYER: usize = 4;

/// Number of rounds with random start delays in each race.
const DRAWN: usize = 24;

/// Maximum random start delays of the first and the second operation, in microseconds. The second maximum is larger,
/// because the first operation is often a pass over the chain or a combination of links, which take long.
const LATE_US: (usize, usize) = (30_000, 250_000);

/// Lifetime, in milliseconds, of the links in these tests.
const LASTS_MS: i64 = 600_000;

/// Start delays of the two operations of a race.
#[derive(Debug, Clone, Copy)]
struct Starts {
    first: Duration,
    second: Duration,
}

impl Starts {
    /// All rounds of a race. In the first round, the first operation ends before the second starts. In the second
    /// round, it is the other way round. All further rounds have random start delays.
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

    /// Starts two operations, each after its delay, and waits for both.
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

/// Counts how often each outcome of a race occurred.
#[derive(Default)]
struct Tally(BTreeMap<String, usize>);

impl Tally {
    fn note(&mut self, outcome: impl Into<String>) {
        *self.0.entry(outcome.into()).or_default() += 1;
    }

    /// Prints the outcomes. Asserts that every expected outcome occurred, and no unexpected one.
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

/// A service on a chain with unlimited allowances of the payers, so that each payment is one transaction.
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

/// Pays a link from an account; returns the paid units.
async fn pay(app: &TestApp, payer: usize, token: &str) -> U256 {
    let calldata = app.calldata_of(token, Some(&app.account(payer))).await.expect(200);
    send(app, payer, &calldata).await
}

async fn send(app: &TestApp, payer: usize, calldata: &Value) -> U256 {
    let steps = link_transactions(calldata);
    assert_eq!(steps.len(), 1, "the allowance is missing");
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

/// The number of payments of one token each that were credited to a request, and the number of its `payment.confirmed`
/// events.
async fn credited(app: &TestApp, request: &str) -> (usize, usize) {
    let payments = app.payments_of(request).await;
    assert!(payments.iter().all(|payment| payment["amount"] == "1"), "{payments:?}");
    let events = format!("/v2/events?event=payment.confirmed&requestId={request}");
    let events = app.get(&events).with_key().send().await.expect(200);
    let told = events["events"].as_array().expect("a list").len();
    (payments.len(), told)
}

#[tokio::test]
async fn two_concurrent_payers_are_both_credited_and_one_completes_the_link() {
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
        assert_eq!(told, 1, "one event for the payment that completed it");
        tally.note("completed once, both credited");
    }
    tally.end("two payers", &["completed once, both credited"]);
}

#[tokio::test]
async fn a_payment_concurrent_with_the_sweeper_completes_its_link() {
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
async fn a_payment_concurrent_with_combining_is_credited_once() {
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
        // The rest can be paid only by the remaining link.
        pay(&app, OTHER_PAYER, &rest).await;
        app.settle().await;
        assert_eq!(credited(&app, &open.request).await, (1, 1));
        assert_eq!(fau_of(&app, RECIPIENT).await - before, units(2));
        assert_eq!(app.stored_link(&rest).await.status, SecurePaymentStatus::Completed);
    }
    tally.end("payment and combination", &["combined", "paid first"]);
}

#[tokio::test]
async fn payments_of_all_originals_complete_the_combined_link() {
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
                assert_eq!(made.status, SecurePaymentStatus::Completed, "nothing is due for it");
                tally.note("combined, and completed");
            }
            400 => tally.note("paid first"),
            _ => panic!("{} {}", combined.status, combined.text),
        }
    }
    tally.end("payments and combination", &["combined, and completed", "paid first"]);
}

#[tokio::test]
async fn a_withdrawal_concurrent_with_a_payment_has_one_outcome() {
    let app = service().await;
    let mut tally = Tally::default();
    for starts in Starts::all(5) {
        let made = app.link(&short(link_of(&["1"]))).await.expect(201);
        let link = Link::of(&made);
        pay(&app, PAYER, &link.token).await;
        let (_, withdrawn) = starts.race(app.follow(), withdraw(&app, &link.token)).await;
        app.settle().await;
        assert_eq!(credited(&app, &link.request).await, (1, 1));
        match (withdrawn.status, link.status(&app).await) {
            (200, SecurePaymentStatus::Invalidated) => tally.note("withdrawn"),
            (409, SecurePaymentStatus::Completed) => tally.note("paid first"),
            (status, stored) => panic!("{status} and {stored:?}"),
        }
        assert_eq!(app.read_request(&link.request).await["status"], "paid");
    }
    tally.end("payment and withdrawal", &["paid first", "withdrawn"]);
}

#[tokio::test]
async fn one_of_two_concurrent_combinations_succeeds() {
    let app = service().await;
    let mut tally = Tally::default();
    for (round, starts) in Starts::all(6).into_iter().enumerate() {
        let links = [
            Link::payout(&app).await,
            Link::payout(&app).await,
            Link::payout(&app).await,
        ];
        let [one, two, three] = [&links[0].token, &links[1].token, &links[2].token].map(String::as_str);
        // In the same order, in reverse order, and with one link in common.
        let second: &[&str] = match round % 3 {
            0 => &[one, two],
            1 => &[two, one],
            _ => &[three, two],
        };
        let (first, second) = starts.race(combine(&app, &[one, two]), combine(&app, second)).await;
        let made: Vec<&Answer> = [&first, &second]
            .into_iter()
            .filter(|made| made.status == 201)
            .collect();
        let refused = [&first, &second].into_iter().find(|made| made.status == 400);
        assert_eq!(made.len(), 1, "{} and {}", first.text, second.text);
        assert!(refused.is_some(), "{} and {}", first.text, second.text);
        let made = made[0].json();
        let paid_by_it = made["requestIds"].as_array().expect("a list");
        for link in &links {
            let is_in_it = paid_by_it.contains(&json!(link.request));
            let expected = if is_in_it {
                SecurePaymentStatus::Invalidated
            } else {
                SecurePaymentStatus::Pending
            };
            assert_eq!(link.status(&app).await, expected);
        }
        tally.note(if first.status == 201 { "the first" } else { "the second" });
    }
    tally.end("two combinations", &["the first", "the second"]);
}

#[tokio::test]
async fn a_combination_concurrent_with_a_withdrawal_is_all_or_nothing() {
    let app = service().await;
    let mut tally = Tally::default();
    for starts in Starts::all(7) {
        let links = [Link::payout(&app).await, Link::payout(&app).await];
        let tokens = [links[0].token.as_str(), links[1].token.as_str()];
        let (combined, withdrawn) = starts
            .race(combine(&app, &tokens), withdraw(&app, &links[1].token))
            .await;
        withdrawn.expect(200);
        assert_eq!(links[1].status(&app).await, SecurePaymentStatus::Invalidated);
        match (combined.status, links[0].status(&app).await) {
            (201, SecurePaymentStatus::Invalidated) => tally.note("combined"),
            (400, SecurePaymentStatus::Pending) => tally.note("withdrawn first"),
            (status, stored) => panic!("{status} and {stored:?}"),
        }
    }
    tally.end("combination and withdrawal", &["combined", "withdrawn first"]);
}

#[tokio::test]
async fn a_combination_concurrent_with_the_sweeper_expires_with_its_links() {
    let app = TestApp::start().await;
    let mut tally = Tally::default();
    for starts in Starts::all(8) {
        let links = [Link::payout(&app).await, Link::payout(&app).await];
        // The last millisecond before the links expire, and the millisecond after it.
        app.advance_ms(LASTS_MS);
        let tokens = [links[0].token.as_str(), links[1].token.as_str()];
        let sweep = async {
            app.advance_ms(1);
            expire::run(&app.ctx).await.expect("a sweep")
        };
        let (combined, _) = starts.race(combine(&app, &tokens), sweep).await;
        while expire::run(&app.ctx).await.expect("a sweep") {}
        let statuses = [links[0].status(&app).await, links[1].status(&app).await];
        match combined.status {
            201 => {
                assert_eq!(statuses, [SecurePaymentStatus::Invalidated; 2]);
                let made = app.stored_link(&token_of(&combined.json())).await;
                assert_eq!(made.status, SecurePaymentStatus::Expired);
                tally.note("combined");
            }
            400 => {
                assert_eq!(statuses, [SecurePaymentStatus::Expired; 2]);
                tally.note("expired first");
            }
            _ => panic!("{} {}", combined.status, combined.text),
        }
    }
    tally.end("combination and sweeper", &["combined", "expired first"]);
}

#[tokio::test]
async fn the_sweeper_does_not_deadlock_on_locked_links() {
    let app = TestApp::start().await;
    let mut first = payout_of(RECIPIENT, "1");
    first["expiresIn"] = json!(900);
    // The second link expires before the first, so the sweeper handles it first.
    let first = token_of(&app.payout_link(&first).await.expect(201));
    let second = token_of(&app.payout_link(&short(payout_of(RECIPIENT, "1"))).await.expect(201));
    app.advance_ms(900_001);
    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let lock = async |tx: &Tx, token: &str| {
        let tokens = [SecurePaymentToken(token.to_owned())];
        let locked = store::secure_payments::lock_all(tx, &scope, &tokens).await;
        locked.expect("the lock is free")
    };
    let tx = app.ctx.db.begin("another writer").await.expect("begins");
    lock(&tx, &first).await;
    let working = async {
        sleep(Duration::from_millis(300)).await;
        lock(&tx, &second).await;
        tx.commit().await.expect("commits");
    };
    let both = async { tokio::join!(expire::run(&app.ctx), working) };
    let (swept, ()) = timeout(Duration::from_secs(10), both)
        .await
        .expect("the sweeper does not block");
    swept.expect("a sweep");
    expire::run(&app.ctx).await.expect("another one");
    for token in [&first, &second] {
        assert_eq!(app.stored_link(token).await.status, SecurePaymentStatus::Expired);
    }
}

#[tokio::test]
async fn concurrent_intents_share_one_cap_and_each_hash_takes_one_slot() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let link = Link::of(&app.link(&link_of(&["1"])).await.expect(201));
    let path = format!("/v2/secure-payments/{}/intent", link.token);
    let send = async |number: u8| {
        let hash = format!("0x{}", hex::encode([number; 32]));
        let body = json!({ "txHash": hash, "chain": "SEPOLIA", "token": "FAU" });
        loop {
            let answer = app.post(&path).with_client().json(&body).send().await;
            // On a busy machine some may get no connection; then nothing happened, and they retry.
            if answer.status != 503 {
                return answer;
            }
        }
    };
    // Sixty reports of the owner with fifty distinct hashes.
    let answers = futures_util::future::join_all((0..60).map(|number| send(number % 50))).await;
    let kept: std::collections::BTreeSet<String> = answers
        .iter()
        .filter(|answer| answer.status == 200)
        .map(|answer| answer.json()["intentId"].as_str().expect("an id").to_owned())
        .collect();
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for answer in &answers {
        *statuses.entry(answer.status).or_default() += 1;
    }
    println!("intents: 60 at once, {} kept, {statuses:?}", kept.len());
    assert_eq!(kept.len(), 40);
    assert_eq!(
        statuses.keys().copied().collect::<Vec<u16>>(),
        [200, 429],
        "{statuses:?}"
    );
}

/// Two instances follow the local chain, but only one at a time. The second instance starts and takes over between two
/// commits of the first.
#[tokio::test]
async fn a_payment_seen_by_two_instances_completes_its_link_once() {
    let app = service().await;
    let other = app.beside(|_| {}).await;
    let mut tally = Tally::default();
    for starts in Starts::all(9) {
        let link = Link::payout(&app).await;
        pay(&app, PAYER, &link.token).await;
        let look = async |app: &TestApp| {
            let followed = app.ctx.partners.chains.followed.get(&Network::Sepolia).cloned();
            let chain = followed.expect("enabled");
            let leadership = lead(&app.ctx, Network::Sepolia).await;
            // An instance that lost leadership may fail; the other one continues.
            prs::flows::payments::watch::run(&app.ctx, chain.as_ref(), &leadership)
                .await
                .is_ok()
        };
        starts.race(look(&app), look(&other)).await;
        app.settle().await;
        assert_eq!(link.status(&app).await, SecurePaymentStatus::Completed);
        assert_eq!(credited(&app, &link.request).await, (1, 1));
        tally.note("completed");
    }
    tally.end("two instances", &["completed"]);
}
