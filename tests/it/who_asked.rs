//! Any caller can use a public client ID. If such a caller sets fees, the fees apply only to the response to this
//! caller. They do not change what other callers get.

use crate::support::{
    TestApp,
    app::{Answer, PAGE},
    chain::{PAYER, transactions},
    requests::fau,
};
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use futures_util::future::join_all;
use prs::domain::paying::fee_proxy::Erc20FeeProxy;
use serde_json::{Value, json};

type Direct = Erc20FeeProxy::transferFromWithReferenceAndFeeCall;

const STRANGER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

/// The caller that requests calldata.
#[derive(Debug, Clone, Copy)]
enum Asker {
    Key,
    Backend,
    Public,
}

async fn ask(app: &TestApp, asker: Asker, id: &str, query: &str) -> Answer {
    let call = app.get(&format!("/v2/request/{id}/pay?{query}"));
    let call = match asker {
        Asker::Key => call.with_key(),
        Asker::Backend => call.with_client(),
        Asker::Public => call.header("x-client-id", &app.page_client).header("origin", PAGE),
    };
    call.send().await
}

fn fee(hundredths: u32) -> String {
    format!("feePercentage=1.{hundredths:02}&feeAddress={STRANGER}")
}

/// Pays with the transactions of a response after `change` altered the payment call, which is the last transaction.
async fn pay<C: SolCall>(app: &TestApp, answer: Answer, change: impl FnOnce(&mut C)) {
    let mut steps = transactions(&answer.expect(200));
    let payment = &mut steps.last_mut().expect("a payment").1;
    let mut call = C::abi_decode(payment).expect("the expected call");
    change(&mut call);
    *payment = call.abi_encode();
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    assert!(
        receipts.iter().all(|receipt| receipt.status),
        "the transaction succeeds"
    );
    app.settle().await;
}

fn strip_fee(call: &mut Direct) {
    call.feeAmount = U256::ZERO;
    call.feeAddress = Address::ZERO;
}

async fn shortfall(app: &TestApp, id: &str) -> Value {
    let read = app.read_request(id).await;
    assert_eq!(read["status"], "paid", "{read}");
    read["payments"][0].get("feeShortfall").cloned().unwrap_or(json!(null))
}

#[tokio::test]
async fn fees_chosen_with_a_public_client_id_block_no_other_caller() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    for hundredths in 0..100 {
        ask(&app, Asker::Public, &id, &fee(hundredths)).await.expect(200);
    }
    for asker in [Asker::Key, Asker::Backend, Asker::Public] {
        ask(&app, asker, &id, "").await.expect(200);
        let own = format!("feePercentage=2.5&feeAddress={STRANGER}");
        let answer = ask(&app, asker, &id, &own).await.expect(200);
        assert_eq!(answer["metadata"]["platformFee"]["percentage"], "2.5", "{asker:?}");
    }
}

#[tokio::test]
async fn a_credential_that_used_up_its_fees_blocks_only_itself() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    for hundredths in 0..100 {
        ask(&app, Asker::Backend, &id, &fee(hundredths)).await.expect(200);
    }
    let further = format!("feePercentage=3&feeAddress={STRANGER}");
    let refused = ask(&app, Asker::Backend, &id, &further).await.expect(400);
    let sentence = "This credential has already used 100 different fees for this request; use one of them, or no \
                    fee";
    assert_eq!(refused["message"], sentence);
    ask(&app, Asker::Backend, &id, &fee(7)).await.expect(200);
    ask(&app, Asker::Backend, &id, "").await.expect(200);
    for asker in [Asker::Key, Asker::Public] {
        ask(&app, asker, &id, &further).await.expect(200);
    }
}

#[tokio::test]
async fn the_limit_on_fees_holds_for_concurrent_calls() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    for hundredths in 0..90 {
        ask(&app, Asker::Key, &id, &fee(hundredths)).await.expect(200);
    }
    let queries: Vec<String> = (0..40)
        .map(|hundredths| format!("feePercentage=2.{hundredths:02}&feeAddress={STRANGER}"))
        .collect();
    let answers = join_all(queries.iter().map(|query| ask(&app, Asker::Key, &id, query))).await;
    let statuses = |wanted: u16| answers.iter().filter(|answer| answer.status == wanted).count();
    assert_eq!((statuses(200), statuses(400)), (10, 30));
}

#[tokio::test]
async fn a_fee_chosen_with_a_public_client_id_is_no_shortfall() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("2")).await;
    let query = format!("feePercentage=100&feeAddress={STRANGER}");
    let answer = ask(&app, Asker::Public, &id, &query).await;
    pay::<Direct>(&app, answer, strip_fee).await;
    assert_eq!(shortfall(&app, &id).await, json!(null));
}

#[tokio::test]
async fn a_payer_cannot_remove_a_shortfall_by_another_lookup() {
    let app = TestApp::on_chain().await;
    let receiver = app.account(6);
    for (asker, expected) in [(Asker::Public, json!("0.05")), (Asker::Backend, json!(null))] {
        let id = app.create_request(&fau("2")).await;
        let query = format!("feePercentage=2.5&feeAddress={receiver}");
        ask(&app, Asker::Key, &id, &query).await.expect(200);
        let bare = ask(&app, asker, &id, "").await;
        pay::<Direct>(&app, bare, |_| {}).await;
        assert_eq!(shortfall(&app, &id).await, expected, "{asker:?}");
    }
}

#[tokio::test]
async fn the_fee_of_a_public_client_id_binds_every_caller_that_uses_it() {
    let app = TestApp::on_chain().await;
    let members = json!({ "feePercentage": "3", "feeAddress": app.account(6) });
    let client = app.shop_client(&members).await;
    let client = client["clientId"].as_str().expect("text");
    let id = app.create_request(&fau("2")).await;
    let path = format!("/v2/request/{id}/pay");
    let call = app.get(&path).header("x-client-id", client);
    let answer = call.header("origin", "https://shop.example.com").send().await;
    ask(&app, Asker::Public, &id, "").await.expect(200);
    pay::<Direct>(&app, answer, strip_fee).await;
    assert_eq!(shortfall(&app, &id).await, json!("0.06"));
}
