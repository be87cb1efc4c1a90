//! Safes as payers of links, in every version: which wallets count as Safes, and how the lock of a link begins and ends.

use crate::{
    documents::event_fits_its_schema,
    support::{
        TestApp,
        app::forged,
        chain::{PAYER, look},
        links::{link_of, link_transactions, token_of},
        receiver::{Received, Receiver},
        safes::{SafeStep, TestSafe, safe_report, with_safe_gas},
    },
};
use alloy::primitives::{Address as EvmAddress, B256};
use chrono::{DateTime, TimeDelta, Utc};
use devnet::{
    TxReceiptLite,
    safe::{SafeContracts, SafeTx, SafeVersion},
};
use poem::http::Method;
use prs::domain::{
    network::Network,
    secure_payment::intent::{IntentState, PaymentIntent},
};
use serde_json::{Value, json};

/// How long a report with the public client ID locks a link, in milliseconds.
const LOCK_MS: i64 = 3_600_000;

/// A service with a payee destination, and a receiver of all events of the platform.
async fn service() -> (TestApp, Receiver) {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let call = app.post("/v1/webhook").with_key();
    call.json(&json!({ "url": receiver.url() })).send().await.expect(201);
    // The service searches executions from the block that it has reached at the report.
    app.follow().await;
    (app, receiver)
}

/// A link and its request.
struct Link {
    token: String,
    request: String,
}

impl Link {
    /// Creates a link of one token.
    async fn new(app: &TestApp) -> Self {
        Self::of(app, "1").await
    }

    /// Creates a link of this amount.
    async fn of(app: &TestApp, amount: &str) -> Self {
        let made = app.link(&link_of(&[amount])).await.expect(201);
        Self {
            token: token_of(&made),
            request: made["requestIds"][0].as_str().expect("an id").to_owned(),
        }
    }

    /// The statuses of opening the link and of its calldata for an ordinary wallet.
    async fn statuses(&self, app: &TestApp) -> [u16; 2] {
        let opened = app.open_link(&self.token, "").send().await.status;
        let calldata = app.calldata_of(&self.token, Some(&app.account(PAYER))).await;
        [opened, calldata.status]
    }

    /// The events about the request of the link that arrived, in their order.
    async fn events(&self, receiver: &Receiver) -> Vec<Value> {
        let told = receiver.received().await;
        let bodies = told.iter().map(Received::json);
        bodies
            .filter(|body| body["requestId"] == self.request.as_str())
            .collect()
    }

    /// The kinds of [`Self::events`].
    async fn kinds(&self, receiver: &Receiver) -> Vec<String> {
        let events = self.events(receiver).await;
        let kinds = events
            .iter()
            .map(|body| body["event"].as_str().expect("a kind").to_owned());
        kinds.collect()
    }
}

/// A link that a Safe with the amount has locked with the public client ID.
struct LockedLink<'a> {
    app: &'a TestApp,
    link: Link,
    safe: TestSafe<'a>,
    /// The calls of the payment: the approval and the payment itself.
    steps: Vec<SafeStep>,
    transaction: SafeTx,
    hash: B256,
    until: DateTime<Utc>,
}

impl<'a> LockedLink<'a> {
    /// Locks a link for the transaction that `plan` makes of the calls of the payment.
    async fn new(
        app: &'a TestApp,
        contracts: &'a SafeContracts,
        link: Link,
        plan: impl FnOnce(&TestSafe<'a>, &[SafeStep]) -> SafeTx,
    ) -> Self {
        let safe = TestSafe::funded(app, contracts).await;
        let calldata = app.safe_calldata(&link.token, safe.address).await.expect(200);
        let steps = link_transactions(&calldata);
        assert_eq!(steps.len(), 2, "an approval and a payment");
        let transaction = plan(&safe, &steps);
        let hash = safe.hash(&transaction);
        let until = app.ctx.clock.now() + TimeDelta::milliseconds(LOCK_MS);
        let reported = app
            .report_as_stranger(&link.token, &safe_report(hash, Some(safe.address)))
            .await;
        let reported = reported.expect(200);
        assert_eq!(
            (
                &reported["safeTxHash"],
                &reported["safePaymentDeadline"],
                &reported["payerAddress"]
            ),
            (
                &json!(hash.to_string()),
                &json!(until.timestamp()),
                &json!(safe.address.to_string())
            )
        );
        assert_eq!(reported.get("txHash"), None, "nothing is executed yet");
        Self {
            app,
            link,
            safe,
            steps,
            transaction,
            hash,
            until,
        }
    }

    /// Locks a new link for a transaction with all calls of the payment.
    async fn paying(app: &'a TestApp, contracts: &'a SafeContracts) -> Self {
        let link = Link::new(app).await;
        Self::new(app, contracts, link, |safe, steps| safe.several(steps, 0)).await
    }

    /// Checks that the owner and strangers get the envelope of a locked link.
    async fn check_locked(&self) {
        let (app, token) = (self.app, &self.link.token);
        let path = format!("/v2/secure-payments/{token}");
        let pay = format!("{path}/pay?wallet={}", app.account(PAYER));
        let own = format!("{path}/pay?wallet={}&isSafe=true", self.safe.address);
        for call in [
            app.get(&path).with_client(),
            app.get(&path).with_key(),
            forged(app, Method::GET, &path),
            app.get(&pay).with_client(),
            forged(app, Method::GET, &pay),
            app.get(&own).with_client(),
        ] {
            let locked = call.send().await.expect(423);
            assert_eq!(
                (
                    &locked["statusCode"],
                    &locked["message"],
                    &locked["error"],
                    &locked["status"]
                ),
                (
                    &json!(423),
                    &json!("Secure payment is in progress"),
                    &json!("Locked"),
                    &json!("pending")
                )
            );
            assert_eq!(
                locked["requestStatuses"],
                json!([{
                    "requestId": self.link.request,
                    "hasBeenPaid": false,
                    "txHash": null,
                    "safeTxHash": self.hash.to_string(),
                    "chainId": app.devnet().chain_id(),
                    "safePaymentDeadline": self.until.timestamp(),
                }])
            );
        }
    }

    async fn execute(&self) -> TxReceiptLite {
        self.safe.execute(&self.transaction).await
    }

    async fn report(&self) -> PaymentIntent {
        let report = self.app.stored_report(&self.link.token, &self.hash).await;
        report.expect("a report")
    }
}

#[tokio::test]
async fn only_a_real_safe_gets_calldata_for_a_safe() {
    let (app, _) = service().await;
    let link = Link::new(&app).await;
    let mut short = link_of(&["1"]);
    short["expiresIn"] = json!(1_800);
    let short = token_of(&app.link(&short).await.expect(201));
    let account = app.account(PAYER);
    let unknown = EvmAddress::repeat_byte(0x77);
    let mut imitations = vec![app.devnet().contracts().smart_wallet, app.devnet().tokens().fau];
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        for singleton in [contracts.singleton, contracts.singleton_l2] {
            let safe = TestSafe::create(&app, contracts, singleton).await;
            let calldata = app.safe_calldata(&link.token, safe.address).await.expect(200);
            let metadata = &calldata["metadata"];
            assert_eq!(link_transactions(&calldata).len(), 2, "{version}");
            assert_eq!(
                (&metadata["hasEnoughBalance"], metadata.get("hasEnoughGas")),
                (&json!(false), None),
                "{version}"
            );
            let opened = format!("?wallet={}&isSafe=true", safe.address);
            app.open_link(&link.token, &opened).send().await.expect(200);
        }
        let safe = TestSafe::funded(&app, contracts).await;
        let steps = link_transactions(&app.safe_calldata(&link.token, safe.address).await.expect(200));
        safe.execute(&safe.one(&steps[0], 0)).await;
        let address = safe.address.to_string();
        let usual = app.calldata_of(&link.token, Some(&address)).await.expect(200);
        assert_eq!(link_transactions(&usual).len(), 1, "{version}: the allowance exists");
        assert_eq!(
            (
                &usual["metadata"]["hasEnoughGas"],
                usual["metadata"].get("safePaymentDeadline")
            ),
            (&json!(false), None),
            "{version}"
        );
        let calldata = app.safe_calldata(&link.token, safe.address).await.expect(200);
        assert_eq!(
            link_transactions(&calldata),
            steps,
            "{version}: the approval is always included"
        );
        assert_eq!(calldata["metadata"]["hasEnoughBalance"], true, "{version}");
        let now = app.ctx.clock.now().timestamp();
        for (token, by_owner, by_stranger) in [(&link.token, 86_400, 3_600), (&short, 1_800, 1_800)] {
            let path = format!("/v2/secure-payments/{token}/pay?wallet={address}&isSafe=true");
            for (call, lasts) in [
                (app.get(&path).with_client(), by_owner),
                (forged(&app, Method::GET, &path), by_stranger),
            ] {
                let calldata = call.send().await.expect(200);
                assert_eq!(calldata["metadata"]["safePaymentDeadline"], now + lasts, "{version}");
            }
        }
        for other in SafeVersion::ALL.into_iter().filter(|other| *other != contracts.version) {
            imitations.push(app.false_safe(contracts.singleton, other.text()).await);
        }
        imitations.push(app.false_safe(contracts.singleton_l2, "1.2.0").await);
        imitations.push(app.false_safe(unknown, version).await);
        for (query, fields) in [
            ("isSafe=true".to_owned(), "wallet"),
            (format!("wallet={address}&isSafe=perhaps"), "isSafe"),
            (format!("wallet={account}&isSafe=true"), "isSafe"),
            (format!("wallet={address}&isSafe=true&eoaWallet={account}"), "eoaWallet"),
            (
                format!("wallet={address}&isSafe=true&chain=SEPOLIA&token=FAU"),
                "chain token",
            ),
        ] {
            check_refused(&app, &link, &query, fields).await;
        }
    }
    for imitation in &imitations {
        check_refused(&app, &link, &format!("wallet={imitation}&isSafe=true"), "isSafe").await;
    }
    let query = format!("/pay?wallet={account}&isSafe=false");
    let calldata = app.open_link(&link.token, &query).send().await.expect(200);
    assert_eq!(calldata["metadata"].get("safePaymentDeadline"), None);
}

/// Checks that the link and its calldata are refused because of these fields.
async fn check_refused(app: &TestApp, link: &Link, query: &str, fields: &str) {
    for path in ["", "/pay"] {
        let refused = app.open_link(&link.token, &format!("{path}?{query}")).send().await;
        assert_eq!(
            (refused.status, refused.wrong_fields().join(" ")),
            (400, fields.to_owned()),
            "{path}?{query}"
        );
    }
}

#[tokio::test]
async fn a_safe_locks_its_link_until_its_payment_is_final() {
    let (app, receiver) = service().await;
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        let locked = LockedLink::paying(&app, contracts).await;
        locked.check_locked().await;
        app.settle().await;
        locked.check_locked().await;
        assert_eq!(locked.report().await.state, IntentState::AwaitingExecution, "{version}");
        let receipt = locked.execute().await;
        locked.check_locked().await;
        app.settle().await;

        let report = locked.report().await;
        assert_eq!(
            (report.state, report.executed_by),
            (IntentState::Executed, Some(receipt.tx_hash)),
            "{version}"
        );
        let link = &locked.link;
        assert_eq!(app.stored_link(&link.token).await.lock, None, "{version}");
        assert_eq!(link.statuses(&app).await, [409, 409], "{version}");
        let paid = app.open_link(&link.token, "").send().await.expect(409);
        assert_eq!(
            (&paid["status"], &paid["requestStatuses"]),
            (
                &json!("completed"),
                &json!([{
                    "requestId": link.request,
                    "hasBeenPaid": true,
                    "txHash": receipt.tx_hash.to_string(),
                }])
            ),
            "{version}"
        );
        let again = safe_report(locked.hash, Some(locked.safe.address));
        app.report_as_stranger(&link.token, &again).await.expect(409);
        let events = link.events(&receiver).await;
        assert_eq!(link.kinds(&receiver).await, ["payment.confirmed"], "{version}");
        let payer = locked.safe.address.to_string();
        assert_eq!(
            (&events[0]["payerAddress"], &events[0]["txHash"]),
            (&json!(payer), &json!(receipt.tx_hash.to_string())),
            "{version}"
        );
        assert_eq!(
            app.read_request(&link.request).await["payerAddress"],
            payer,
            "{version}"
        );
    }
}

/// What a failing transaction of a Safe does, whether it contains the payment of the link, and how it is made of the
/// calls of the link and of another link.
type FailingCase = (
    &'static str,
    bool,
    fn(&TestSafe<'_>, &[SafeStep], &[SafeStep]) -> SafeTx,
);

/// The first two pay the link without an approval. The others pay another link whose amount exceeds every approval.
const FAILING: [FailingCase; 4] = [
    ("payment among several calls", true, |safe, own, _| {
        safe.several(&own[1..], 0)
    }),
    ("payment alone", true, |safe, own, _| safe.one(&own[1], 0)),
    ("payment of another link", false, |safe, _, other| {
        safe.several(&other[1..], 0)
    }),
    ("approval, and payment of another link", false, |safe, own, other| {
        safe.several(&[own[0].clone(), other[1].clone()], 0)
    }),
];

#[tokio::test]
async fn a_failed_execution_frees_the_link_and_only_its_payment_is_reported() {
    let (app, receiver) = service().await;
    let other = Link::of(&app, "5").await;
    let (mut reported, mut silent) = (0, 0);
    for contracts in &app.safe_contracts().await {
        let spare = TestSafe::funded(&app, contracts).await;
        let foreign = app.safe_calldata(&other.token, spare.address).await.expect(200);
        let foreign = link_transactions(&foreign);
        for (case, is_reported, plan) in FAILING {
            let name = format!("{case}, {}", contracts.version.text());
            let link = Link::new(&app).await;
            let locked = LockedLink::new(&app, contracts, link, |safe, steps| {
                with_safe_gas(plan(safe, steps, &foreign))
            })
            .await;
            let receipt = locked.execute().await;
            app.settle().await;
            let link = &locked.link;
            let report = locked.report().await;
            assert_eq!(
                (report.state, report.executed_by),
                (IntentState::Failed, Some(receipt.tx_hash)),
                "{name}"
            );
            assert_eq!(app.stored_link(&link.token).await.lock, None, "{name}");
            assert_eq!(link.statuses(&app).await, [200, 200], "{name}");
            let events = link.events(&receiver).await;
            if is_reported {
                reported += 1;
                assert_eq!(link.kinds(&receiver).await, ["payment.failed"], "{name}");
                event_fits_its_schema(&events[0]);
                let explorer = format!("https://sepolia.etherscan.io/tx/{}", receipt.tx_hash);
                assert_eq!(
                    (&events[0]["subStatus"], &events[0]["explorer"]),
                    (&json!("safe_execution_failed"), &json!(explorer)),
                    "{name}"
                );
            } else {
                silent += 1;
                assert_eq!(events, Vec::<Value>::new(), "{name}");
            }
            // A repeated report of the failed transaction locks nothing, and the Safe can pay with its next one.
            let again = safe_report(locked.hash, Some(locked.safe.address));
            let again = app.report_as_stranger(&link.token, &again).await.expect(200);
            assert_eq!(again["txHash"], receipt.tx_hash.to_string(), "{name}");
            assert_eq!(link.statuses(&app).await, [200, 200], "{name}");
            let next = locked.safe.several(&locked.steps, 1);
            let sent = safe_report(locked.safe.hash(&next), Some(locked.safe.address));
            app.report_as_stranger(&link.token, &sent).await.expect(200);
            assert_eq!(link.statuses(&app).await, [423, 423], "{name}");
            locked.safe.execute(&next).await;
            app.settle().await;
            assert_eq!(link.statuses(&app).await, [409, 409], "{name}");
            let kinds: &[&str] = if is_reported {
                &["payment.failed", "payment.confirmed"]
            } else {
                &["payment.confirmed"]
            };
            assert_eq!(link.kinds(&receiver).await, kinds, "{name}");
        }
    }
    assert_eq!(other.statuses(&app).await, [200, 200]);
    assert_eq!(other.events(&receiver).await, Vec::<Value>::new());
    println!("failed executions of Safes: {reported} reported, {silent} silent");
}

#[tokio::test]
async fn the_execution_of_a_safe_that_is_named_later_ends_the_lock() {
    let (app, receiver) = service().await;
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        let link = Link::new(&app).await;
        let safe = TestSafe::funded(&app, contracts).await;
        let steps = link_transactions(&app.safe_calldata(&link.token, safe.address).await.expect(200));
        let failing = with_safe_gas(safe.several(&steps[1..], 0));
        let hash = safe.hash(&failing);
        let report = async || app.stored_report(&link.token, &hash).await.expect("a report");
        let unnamed = safe_report(hash, None);
        app.report_as_owner(&link.token, &unnamed).await.expect(200);
        assert_eq!(report().await.state, IntentState::Reported, "{version}");
        let named = safe_report(hash, Some(safe.address));
        let named = app.report_as_owner(&link.token, &named).await.expect(200);
        assert_eq!(named["payerAddress"], safe.address.to_string(), "{version}");
        assert_eq!(report().await.state, IntentState::AwaitingExecution, "{version}");
        let receipt = safe.execute(&failing).await;
        assert_eq!(link.statuses(&app).await, [423, 423], "{version}");
        app.settle().await;
        let ended = report().await;
        assert_eq!(
            (ended.state, ended.executed_by),
            (IntentState::Failed, Some(receipt.tx_hash)),
            "{version}"
        );
        assert_eq!(link.statuses(&app).await, [200, 200], "{version}");
        assert_eq!(link.kinds(&receiver).await, ["payment.failed"], "{version}");
    }
}

#[tokio::test]
async fn without_an_execution_a_lock_ends_at_its_deadline_in_silence() {
    let (app, receiver) = service().await;
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        let late = LockedLink::paying(&app, contracts).await;
        let replaced = LockedLink::paying(&app, contracts).await;
        // Another transaction uses the nonce, and the locked one can never be executed. No event says so.
        replaced.safe.execute(&replaced.safe.one(&replaced.steps[0], 0)).await;
        app.settle().await;
        app.advance_ms(LOCK_MS);
        app.settle().await;
        for locked in [&late, &replaced] {
            locked.check_locked().await;
            assert_eq!(locked.report().await.state, IntentState::AwaitingExecution, "{version}");
        }
        app.advance_ms(1);
        for locked in [&late, &replaced] {
            assert_eq!(locked.link.statuses(&app).await, [200, 200], "{version}");
        }
        app.settle().await;
        for locked in [&late, &replaced] {
            let report = locked.report().await;
            assert_eq!(
                (report.state, report.executed_by),
                (IntentState::DeadlinePassed, None),
                "{version}"
            );
            assert_eq!(locked.link.statuses(&app).await, [200, 200], "{version}");
            assert_eq!(locked.link.events(&receiver).await, Vec::<Value>::new(), "{version}");
        }
        // The deadline is no verdict: a late execution is credited.
        late.execute().await;
        app.settle().await;
        assert_eq!(late.link.statuses(&app).await, [409, 409], "{version}");
        assert_eq!(late.link.kinds(&receiver).await, ["payment.confirmed"], "{version}");
        assert_eq!(late.report().await.state, IntentState::DeadlinePassed, "{version}");
    }
}

#[tokio::test]
async fn a_lock_ends_at_its_deadline_while_blocks_keep_coming() {
    let (app, _) = service().await;
    let contracts = app.safe_contracts().await;
    let late = LockedLink::paying(&app, &contracts[0]).await;
    app.settle().await;
    app.advance_ms(LOCK_MS + 1);
    let chain = app.ctx.partners.chains.followed[&Network::Sepolia].clone();
    for _ in 0..3 {
        app.devnet().mine(1).await.expect("mined");
        look(&app.ctx, chain.as_ref()).await.expect("a pass");
    }
    assert_eq!(late.report().await.state, IntentState::DeadlinePassed);
}

#[tokio::test]
async fn a_lock_can_be_released_and_stops_no_payment() {
    let (app, receiver) = service().await;
    let (foreign_key, _) = app.other_tenant().await;
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        released_by_its_owner(&app, &receiver, contracts, &foreign_key).await;

        // Another wallet got calldata before the lock, and pays during the lock.
        let link = Link::new(&app).await;
        let payer = app.account(PAYER);
        let calldata = app.calldata_of(&link.token, Some(&payer)).await.expect(200);
        let locked = LockedLink::new(&app, contracts, link, |safe, steps| safe.several(steps, 0)).await;
        app.send_calldata(&calldata).await;
        locked.check_locked().await;
        app.settle().await;
        let link = &locked.link;
        assert_eq!(link.statuses(&app).await, [409, 409], "{version}");
        let events = link.events(&receiver).await;
        assert_eq!(link.kinds(&receiver).await, ["payment.confirmed"], "{version}");
        assert_eq!(events[0]["payerAddress"], payer, "{version}");
        app.advance_ms(LOCK_MS + 1);
        app.settle().await;
        assert_eq!(locked.report().await.state, IntentState::DeadlinePassed, "{version}");
        assert_eq!(link.kinds(&receiver).await, ["payment.confirmed"], "{version}");
    }
}

async fn released_by_its_owner(app: &TestApp, receiver: &Receiver, contracts: &SafeContracts, foreign_key: &str) {
    let version = contracts.version.text();
    let locked = LockedLink::paying(app, contracts).await;
    let (link, safe) = (&locked.link, &locked.safe);
    let path = format!("/v2/secure-payments/{}/release", link.token);
    forged(app, Method::POST, &path).send().await.expect(403);
    let foreign = app.post(&path).header("x-api-key", foreign_key).send().await;
    assert_eq!(foreign.expect(404)["message"], "Secure payment not found", "{version}");
    locked.check_locked().await;

    let released = app.release_link(&link.token).await.expect(200);
    assert_eq!(
        released,
        json!({ "token": link.token, "status": "pending", "isLocked": false }),
        "{version}"
    );
    assert_eq!(app.release_link(&link.token).await.expect(200), released, "{version}");
    assert_eq!(link.statuses(app).await, [200, 200], "{version}");
    assert_eq!(locked.report().await.state, IntentState::Released, "{version}");

    // From now on, only the owner can lock the link.
    let same = safe_report(locked.hash, Some(safe.address));
    app.report_as_stranger(&link.token, &same).await.expect(200);
    assert_eq!(
        link.statuses(app).await,
        [200, 200],
        "{version}: the released hash locks nothing"
    );
    let next = safe.several(&locked.steps, 1);
    let next = safe_report(safe.hash(&next), Some(safe.address));
    let refused = app.report_as_stranger(&link.token, &next).await.expect(403);
    assert_eq!(
        refused["message"], "The creator of this link ended the lock of a Safe, so only the creator can lock it again",
        "{version}"
    );
    assert_eq!(link.statuses(app).await, [200, 200], "{version}");
    let by_owner = app.report_as_owner(&link.token, &next).await.expect(200);
    let deadline = app.ctx.clock.now().timestamp() + 86_400;
    assert_eq!(by_owner["safePaymentDeadline"], deadline, "{version}");
    assert_eq!(link.statuses(app).await, [423, 423], "{version}");
    app.release_link(&link.token).await.expect(200);
    assert_eq!(link.statuses(app).await, [200, 200], "{version}");
    let by_owner = app.report_as_owner(&link.token, &same).await.expect(200);
    assert_eq!(by_owner["safePaymentDeadline"], deadline, "{version}");
    assert_eq!(
        link.statuses(app).await,
        [423, 423],
        "{version}: the released hash again"
    );
    assert_eq!(locked.report().await.state, IntentState::AwaitingExecution, "{version}");
    app.release_link(&link.token).await.expect(200);
    app.settle().await;
    assert_eq!(link.events(receiver).await, Vec::<Value>::new(), "{version}");

    // The Safe executes the released transaction, which pays the link.
    locked.execute().await;
    app.settle().await;
    assert_eq!(link.statuses(app).await, [409, 409], "{version}");
    assert_eq!(link.kinds(receiver).await, ["payment.confirmed"], "{version}");
    assert_eq!(locked.report().await.state, IntentState::Released, "{version}");
}
