//! Calldata: the transactions that a payer signs.

use crate::support::{
    TestApp,
    chain::{PAYER, transactions},
    requests::{PAYEE, fau, request},
    wallet::token,
};
use alloy::{primitives::U256, sol_types::SolCall};
use prs::{
    domain::{address::Address, client_id::ClientId, paying::fee_proxy::Erc20FeeProxy},
    store,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn without_a_wallet_no_node_is_queried_and_approval_is_included() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    let answer = app
        .get(&format!("/v2/request/{id}/pay"))
        .with_client()
        .send()
        .await
        .expect(200);
    assert_eq!(answer["transactions"].as_array().expect("a list").len(), 2);
    assert_eq!(
        answer["transactions"][0]["value"],
        json!({ "type": "BigNumber", "hex": "0x00" })
    );
    assert!(
        answer["transactions"][0]["data"]
            .as_str()
            .expect("text")
            .starts_with("0x095ea7b3")
    );
    assert!(
        answer["transactions"][1]["data"]
            .as_str()
            .expect("text")
            .starts_with("0xc219a14d")
    );
    let metadata = &answer["metadata"];
    assert_eq!(metadata["stepsRequired"], 2);
    assert_eq!(metadata["needsApproval"], true);
    assert_eq!(metadata["approvalTransactionIndex"], 0);
    assert_eq!(metadata["paymentTransactionIndex"], 1);
    assert_eq!(
        (&metadata["hasEnoughBalance"], &metadata["hasEnoughGas"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(app.read_request(&id).await["isListening"], true);
}

#[tokio::test]
async fn a_node_outage_costs_at_most_three_seconds_and_only_its_callers() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    let begun = Instant::now();
    let answer = app
        .get(&format!("/v2/request/{id}/pay?wallet={PAYEE}"))
        .with_client()
        .send()
        .await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let body = answer.expect(502);
    assert_eq!(
        (&body["statusCode"], &body["error"]),
        (&json!(502), &json!("Bad Gateway"))
    );
    assert!(
        !answer.text.contains("127.0.0.1"),
        "addresses of nodes are not revealed: {}",
        answer.text
    );
    app.get(&format!("/v2/request/{id}"))
        .with_client()
        .send()
        .await
        .expect(200);
    app.get(&format!("/v2/payments?requestId={id}"))
        .with_client()
        .send()
        .await
        .expect(200);
}

#[tokio::test]
async fn a_wallet_without_balance_is_reported() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("1")).await;
    let stranger = "0x00000000000000000000000000000000000000aa";
    let answer = app
        .get(&format!("/v2/request/{id}/pay?wallet={stranger}"))
        .with_client()
        .send()
        .await
        .expect(200);
    assert_eq!(answer["metadata"]["hasEnoughBalance"], false);
    assert_eq!(answer["metadata"]["hasEnoughGas"], false);
    let rich = app.calldata(&id, "").await;
    assert_eq!(
        (&rich["metadata"]["hasEnoughBalance"], &rich["metadata"]["hasEnoughGas"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn an_allowance_that_covers_amount_and_fee_needs_no_approval() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("1")).await;
    let (token, proxy) = (app.devnet().tokens().fau, app.devnet().contracts().erc20_fee_proxy);
    let whole = U256::from(10).pow(U256::from(18));
    app.devnet()
        .approve(PAYER, token, proxy, whole)
        .await
        .expect("approved");
    assert_eq!(app.calldata(&id, "").await["metadata"]["needsApproval"], false);
    let with_fee = format!("&feePercentage=1&feeAddress={}", app.account(6));
    let answer = app.calldata(&id, &with_fee).await;
    assert_eq!(answer["metadata"]["needsApproval"], true, "the allowance lacks the fee");
    assert_eq!(
        answer["metadata"]["platformFee"],
        json!({ "percentage": "1", "address": app.account(6) })
    );
    assert_eq!(
        app.calldata(&id, "").await["metadata"]["approvalTransactionIndex"],
        json!(null)
    );
}

#[tokio::test]
async fn an_allowance_of_a_usdt_like_token_is_reset_before_it_is_raised() {
    let app = TestApp::on_chain().await;
    let id = app
        .create_request(&request("100", "USDT-sepolia", "USDT-sepolia"))
        .await;
    let (token, proxy) = (app.devnet().tokens().usdt, app.devnet().contracts().erc20_fee_proxy);
    app.devnet()
        .approve(PAYER, token, proxy, U256::from(1))
        .await
        .expect("approved");
    let answer = app.calldata(&id, "").await;
    assert_eq!(answer["metadata"]["stepsRequired"], 3);
    assert_eq!(answer["metadata"]["approvalTransactionIndex"], 1);
    let receipts = app.devnet().pay(PAYER, &transactions(&answer)).await.expect("mined");
    assert!(
        receipts.iter().all(|receipt| receipt.status),
        "the token accepts every step"
    );
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn a_partial_payment_never_exceeds_the_remaining_amount() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&request("5", "USDT-sepolia", "USDT-sepolia")).await;
    let amount = |answer: &Value| {
        let (_, data, _) = transactions(answer).pop().expect("a payment");
        U256::from_be_slice(&data[68..100])
    };
    assert_eq!(amount(&app.calldata(&id, "&amount=2").await), U256::from(2_000_000));
    assert_eq!(amount(&app.calldata(&id, "&amount=7").await), U256::from(5_000_000));
    app.pay(&id, "&amount=2").await;
    app.settle().await;
    assert_eq!(amount(&app.calldata(&id, "").await), U256::from(3_000_000));
}

#[tokio::test]
async fn the_fee_of_a_client_id_overrides_the_fee_of_the_call() {
    let app = TestApp::start().await;
    let receiver = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
    let members = json!({ "feePercentage": "3", "feeAddress": receiver });
    let client = app.shop_client(&members).await;
    let id = app.create_request(&fau("1")).await;
    let path = format!("/v2/request/{id}/pay?feePercentage=1&feeAddress=0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
    let call = app
        .get(&path)
        .header("x-client-id", client["clientId"].as_str().expect("text"));
    let answer = call
        .header("origin", "https://shop.example.com")
        .send()
        .await
        .expect(200);
    assert_eq!(
        answer["metadata"]["platformFee"],
        json!({ "percentage": "3", "address": receiver })
    );
}

#[tokio::test]
async fn a_client_id_fee_to_a_token_contract_is_rejected_and_not_dropped() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    let body = json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com"], "feePercentage": "3",
                       "feeAddress": "0x90F79bf6EB2c4f870365E785982E1f101E93b906" });
    let created = app.post("/v2/client-ids").with_key().json(&body).send().await;
    let created = created.expect(201);
    let client = created["clientId"].as_str().expect("text");
    let stored = store::client_ids::find_by_client_id(app.ctx.db.reader(), client).await;
    let since = ClientId {
        fee_address: Some(Address::parse(&token(&app, "FAU-sepolia")).expect("an address")),
        ..stored.expect("reads").expect("a client ID")
    };
    let tx = app.ctx.db.begin("test").await.expect("a transaction");
    store::client_ids::update(&tx, &since).await.expect("stored");
    tx.commit().await.expect("commits");
    let call = app.get(&format!("/v2/request/{id}/pay")).header("x-client-id", client);
    let refused = call.header("origin", "https://shop.example.com").send().await;
    assert_eq!(
        (refused.status, &refused.json()["message"]),
        (
            400,
            &json!(
                "feeAddress of the client ID must be a wallet: this is the address of a token or payment contract, \
                 and payments sent there are lost"
            )
        )
    );
    let path = format!("/v2/client-ids/{}", created["id"].as_str().expect("text"));
    let revoked = app.call(poem::http::Method::DELETE, &path).with_key().send().await;
    assert_eq!(revoked.status, 200, "{}", revoked.text);
}

#[tokio::test]
async fn a_remainder_below_the_smallest_unit_can_still_be_paid() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&request("10", "USD", "USDT-sepolia")).await;
    // Half a unit of the token remains due; the amount is the second argument.
    let mut steps = transactions(&app.calldata(&id, "").await);
    let payment = &mut steps.last_mut().expect("a payment").1;
    let units = U256::from_be_slice(&payment[36..68]) - U256::from(50);
    payment[36..68].copy_from_slice(&units.to_be_bytes::<32>());
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    app.settle().await;
    let part = app.read_request(&id).await;
    assert_eq!(
        (&part["status"], &part["paidAmount"]),
        (&json!("partially_paid"), &json!("9.9999995"))
    );
    let payee = PAYEE.parse().expect("an address");
    let token = app.devnet().tokens().usdt;
    let before = app.devnet().balance_of(token, payee).await.expect("a balance");
    app.pay(&id, "").await;
    app.settle().await;
    let full = app.read_request(&id).await;
    assert_eq!(
        (&full["status"], &full["excessAmount"]),
        (&json!("paid"), &json!("0.00000052"))
    );
    assert_eq!(
        app.devnet().balance_of(token, payee).await.expect("a balance") - before,
        U256::ONE
    );
}

#[tokio::test]
async fn calldata_without_a_wallet_resets_usdt_like_allowances() {
    let app = TestApp::on_chain().await;
    let id = app
        .create_request(&request("100", "USDT-sepolia", "USDT-sepolia"))
        .await;
    let path = format!("/v2/request/{id}/pay");
    let answer = app.get(&path).with_client().send().await.expect(200);
    assert_eq!(answer["metadata"]["stepsRequired"], 3);
    assert_eq!(answer["metadata"]["approvalTransactionIndex"], 1);
    let (token, proxy) = (app.devnet().tokens().usdt, app.devnet().contracts().erc20_fee_proxy);
    for allowance in [0, 1] {
        app.devnet()
            .approve(PAYER, token, proxy, U256::ZERO)
            .await
            .expect("reset");
        app.devnet()
            .approve(PAYER, token, proxy, U256::from(allowance))
            .await
            .expect("approved");
        let receipts = app.devnet().pay(PAYER, &transactions(&answer)).await.expect("mined");
        assert!(
            receipts.iter().all(|receipt| receipt.status),
            "with an allowance of {allowance}"
        );
    }
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn a_fee_on_the_largest_amounts_is_exact_or_rejected() {
    let app = TestApp::start().await;
    // 2^255 units.
    let half = "57896044618658097711785492504343953926634992332820282019728.792003956564819968";
    let id = app.create_request(&fau(half)).await;
    let fee = |percent: &str| {
        format!("/v2/request/{id}/pay?feePercentage={percent}&feeAddress=0x90F79bf6EB2c4f870365E785982E1f101E93b906")
    };
    let answer = app.get(&fee("2.5")).with_client().send().await.expect(200);
    let steps = transactions(&answer);
    let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&steps.last().expect("a payment").1)
        .expect("a payment");
    assert_eq!(call.amount, U256::ONE << 255);
    assert_eq!(call.feeAmount, (U256::ONE << 255) / U256::from(40));
    let refused = app.get(&fee("100")).with_client().send().await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["amount"]);
}

#[tokio::test]
async fn an_amount_that_cannot_be_converted_is_rejected_at_creation() {
    let app = TestApp::on_chain().await;
    let largest = format!("1{}", "0".repeat(30));
    let id = app.create_request(&request(&largest, "USD", "FAU-sepolia")).await;
    let doubled = format!("&feePercentage=100&feeAddress={}", app.account(6));
    assert_eq!(app.calldata(&id, &doubled).await["metadata"]["hasEnoughBalance"], false);
    let refused = app
        .post("/v2/request")
        .with_key()
        .json(&request(&format!("{largest}.01"), "USD", "FAU-sepolia"))
        .send()
        .await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["amount"]);
}
