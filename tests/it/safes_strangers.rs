//! What strangers can do with reports, foreign transactions and contracts that imitate Safes: no state changes, no event
//! is sent, and no link is locked.

use crate::support::{
    TestApp,
    chain::PAYER,
    links::{link_of, link_transactions, token_of},
    requests::PAYEE,
    safes::{SafeTraces, TestSafe, false_failures, false_successes, safe_report},
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use devnet::{TxReceiptLite, safe::SafeContracts};
use prs::domain::secure_payment::intent::IntentState;
use serde_json::{Value, json};

/// How long a report with the public client ID locks a link, in milliseconds.
const LOCK_MS: i64 = 3_600_000;

async fn link(app: &TestApp) -> String {
    token_of(&app.link(&link_of(&["1"])).await.expect(201))
}

fn transaction(hash: B256, payer: Option<&str>) -> Value {
    let mut body = json!({ "txHash": hash.to_string(), "chain": "SEPOLIA", "token": "FAU" });
    if let Some(payer) = payer {
        body["payerAddress"] = json!(payer);
    }
    body
}

fn hash(number: u8) -> B256 {
    B256::repeat_byte(number)
}

/// The statuses of opening a link and of its calldata.
async fn statuses(app: &TestApp, token: &str) -> [u16; 2] {
    let opened = app.open_link(token, "").send().await.status;
    [opened, app.calldata_of(token, None).await.status]
}

/// Hashes of final transactions that concern no open link: of an approval, of the payment of another link, of a plain
/// transfer of the amount to the payee, and of the execution of a Safe.
async fn foreign_transactions(app: &TestApp, contracts: &SafeContracts) -> [B256; 4] {
    let paid = link(app).await;
    let payer = app.account(PAYER);
    let calldata = app.calldata_of(&paid, Some(&payer)).await.expect(200);
    let steps = link_transactions(&calldata);
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    let token = app.devnet().tokens().fau;
    let payee: EvmAddress = PAYEE.parse().expect("an address");
    let amount = U256::from(10).pow(U256::from(18));
    let transfer = app.devnet().transfer(PAYER, token, payee, amount);
    let transfer = transfer.await.expect("mined");
    let safe = TestSafe::funded(app, contracts).await;
    let execution = safe.execute(&safe.one(&steps[0], 0)).await;
    let [approval, payment]: [TxReceiptLite; 2] = receipts.try_into().expect("an approval and a payment");
    app.settle().await;
    app.open_link(&paid, "").send().await.expect(409);
    [approval, payment, transfer, execution].map(|receipt| {
        assert!(receipt.status, "{} failed", receipt.tx_hash);
        receipt.tx_hash
    })
}

#[tokio::test]
async fn reports_of_strangers_change_nothing_without_a_proof() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let [foreign @ .., execution] = foreign_transactions(&app, &deployed[1]).await;
    let account = app.account(PAYER);
    let before = app.safe_traces().await;
    let (mut accepted, mut refused) = (0, 0);
    for contracts in &deployed {
        let version = contracts.version.text();
        let token = link(&app).await;
        for reported in foreign.into_iter().chain((0x31..0x36).map(hash)) {
            for payer in [None, Some(account.as_str())] {
                let body = transaction(reported, payer);
                app.report_as_stranger(&token, &body).await.expect(200);
                accepted += 1;
            }
        }
        let without_calldata = TestSafe::funded(&app, contracts).await.address;
        let poor = TestSafe::create(&app, contracts, contracts.singleton).await.address;
        app.safe_calldata(&token, poor).await.expect(200);
        let imitation = app.false_safe(contracts.singleton, "1.2.0").await;
        app.fund(imitation).await;
        app.safe_calldata(&token, imitation).await.expect(400);
        let calldata = "Only a Safe that got the calldata of this link can lock it";
        for (payer, sentence) in [
            (without_calldata, calldata),
            (poor, "Only a Safe that holds the amount can lock this link"),
            (imitation, calldata),
            (app.devnet().accounts()[PAYER].address, calldata),
        ] {
            // A hash of an execution of another Safe proves no more than one that was never mined.
            for reported in [execution, hash(0x41)] {
                let body = safe_report(reported, Some(payer));
                let answer = app.report_as_stranger(&token, &body).await;
                let message = answer.expect(403)["message"].to_string();
                assert!(message.contains(sentence), "{version}, {payer}: {message}");
                refused += 1;
            }
        }
        let nameless = app.report_as_stranger(&token, &safe_report(hash(0x42), None)).await;
        assert_eq!(
            nameless.wrong_fields(),
            ["payerAddress"],
            "{version}: {}",
            nameless.text
        );
        refused += 1;
        app.settle().await;
        assert_eq!(statuses(&app, &token).await, [200, 200], "{version}");
    }
    app.advance_ms(LOCK_MS + 1);
    app.settle().await;
    let after = app.safe_traces().await;
    tell("accepted reports", accepted, before, after);
    tell("refused reports", refused, before, after);
    assert_eq!((accepted, refused), (3 * 16, 3 * 9));
    assert_eq!(after, before);
}

/// Prints the traces that something left.
fn tell(what: &str, count: usize, before: SafeTraces, after: SafeTraces) {
    println!(
        "strangers: {count} {what}, {} state changes, {} events, {} locks",
        after.changes - before.changes,
        after.events - before.events,
        after.locks - before.locks
    );
}

#[tokio::test]
async fn events_of_other_contracts_do_not_end_the_lock_of_a_safe() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app.follow().await;
    let mut false_events = 0;
    let mut tokens = Vec::new();
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        let token = link(&app).await;
        let safe = TestSafe::funded(&app, contracts).await;
        let steps = link_transactions(&app.safe_calldata(&token, safe.address).await.expect(200));
        let locking = safe.hash(&safe.several(&steps, 0));
        let report = safe_report(locking, Some(safe.address));
        app.report_as_stranger(&token, &report).await.expect(200);
        let before = app.safe_traces().await;
        let imitation = app.false_safe(contracts.singleton, version).await;
        for call in false_successes(locking).into_iter().chain(false_failures(locking)) {
            app.send_as_stranger(imitation, call).await;
            app.settle().await;
            false_events += 1;
            assert_eq!(statuses(&app, &token).await, [423, 423], "{version}");
        }
        // The event of another Safe names another transaction.
        let other = TestSafe::funded(&app, contracts).await;
        other.execute(&other.one(&steps[0], 0)).await;
        app.settle().await;
        let stored = app.stored_report(&token, &locking).await.expect("a report");
        assert_eq!(stored.state, IntentState::AwaitingExecution, "{version}");
        let after = app.safe_traces().await;
        tell("false events", 4, before, after);
        assert_eq!(after, before, "{version}");
        assert_eq!(statuses(&app, &token).await, [423, 423], "{version}");
        tokens.push(token);
    }
    assert_eq!(false_events, 12);
    app.advance_ms(LOCK_MS + 1);
    app.settle().await;
    let after = app.safe_traces().await;
    assert_eq!((after.locks, after.events), (0, 0), "the locks ended at their deadline");
    for token in tokens {
        assert_eq!(statuses(&app, &token).await, [200, 200]);
    }
}

/// A stranger reports the hash of a genuine Safe for a Safe of their own, which forges a failure of it and then breaks.
#[tokio::test]
async fn a_forged_failure_ends_no_warning_and_keeps_no_owner_from_locking() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app.follow().await;
    let contracts = &app.safe_contracts().await[2];
    let token = link(&app).await;
    let genuine = TestSafe::funded(&app, contracts).await;
    let foreign = TestSafe::funded(&app, contracts).await;
    let steps = link_transactions(&app.safe_calldata(&token, genuine.address).await.expect(200));
    app.safe_calldata(&token, foreign.address).await.expect(200);
    let paying = genuine.several(&steps, 0);
    let locking = genuine.hash(&paying);
    app.report_as_owner(&token, &transaction(hash(7), None))
        .await
        .expect(200);
    let report = safe_report(locking, Some(foreign.address));
    app.report_as_stranger(&token, &report).await.expect(200);
    foreign.forge_failure(locking).await;
    app.settle().await;
    let stored = app.stored_report(&token, &locking).await.expect("a report");
    assert_eq!(stored.state, IntentState::Failed, "the search ends without a nonce");
    let opened = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(opened["inFlight"], true, "the other payment may still arrive");
    let report = safe_report(locking, Some(genuine.address));
    let refused = app.report_as_stranger(&token, &report).await;
    assert_eq!(
        refused.expect(409)["message"],
        "This transaction was reported for another Safe"
    );
    let answer = app.report_as_owner(&token, &report).await.expect(200);
    assert_eq!(answer["payerAddress"], genuine.address.to_string(), "{answer}");
    assert_eq!(answer["txHash"], Value::Null, "{answer}");
    assert_eq!(statuses(&app, &token).await, [423, 423]);
    genuine.execute(&paying).await;
    app.settle().await;
    app.open_link(&token, "").send().await.expect(409);
    let stored = app.stored_report(&token, &locking).await.expect("a report");
    assert_eq!(stored.state, IntentState::Executed);
}

/// A contract with the storage and the version of a Safe, but with other code.
#[tokio::test]
async fn an_imitation_of_a_safe_locks_nothing() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app.follow().await;
    let mut refused = 0;
    let before = app.safe_traces().await;
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        let token = link(&app).await;
        let imitation = app.false_safe(contracts.singleton, version).await;
        app.fund(imitation).await;
        let answer = app.safe_calldata(&token, imitation).await;
        assert_eq!(answer.wrong_fields(), ["isSafe"], "{version}: {}", answer.text);
        let report = safe_report(hash(1), Some(imitation));
        app.report_as_stranger(&token, &report).await.expect(403);
        for call in [false_failures(hash(1)), false_successes(hash(1))].concat() {
            app.send_as_stranger(imitation, call).await;
        }
        app.settle().await;
        assert_eq!(statuses(&app, &token).await, [200, 200], "{version}");
        refused += 2;
    }
    let after = app.safe_traces().await;
    tell("calls for an imitation", refused, before, after);
    assert_eq!(after, before);
}
