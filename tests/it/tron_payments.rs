//! Payments on Tron as payers, payees and strangers make them: every transaction that the service returns is executed,
//! and the balances on the chain are compared with what the service credits.

use crate::{
    documents::event_fits_its_schema,
    sessions::{answered, challenge, token},
    support::{
        TestApp,
        links::{link_of, payout_of, token_of},
        receiver::Receiver,
    },
    tron_chain::{Ground, hash_of, transactions},
};
use devnet::tron::{TronAccountChange, TronTokenChange};
use futures_util::future::join_all;
use prs::domain::{address::Address, network::Network};
use serde_json::{Value, json};

/// Units of one USDT.
const USDT: u128 = 1_000_000;

/// The body of a payout link in USDT.
fn payout(ground: &Ground, amount: &str) -> Value {
    let mut body = payout_of(ground.account(1), amount);
    body["network"] = json!("tron");
    body["currency"] = json!("USDT-tron");
    body["creatorWalletAddress"] = json!(ground.account(1));
    body
}

/// Events that an endpoint has received since the last look, each with a body that fits its schema.
async fn events(receiver: &Receiver) -> Vec<Value> {
    let received = receiver.received().await;
    let bodies: Vec<Value> = received.iter().map(|one| one.json()).collect();
    bodies.iter().for_each(event_fits_its_schema);
    bodies
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event"].as_str().expect("a kind"))
        .collect()
}

async fn request_of(app: &TestApp, made: &Value) -> Value {
    app.read_request(made["requestIds"][0].as_str().expect("an id")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tronweb_wallet_signs_in_and_its_link_is_paid_and_confirmed() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let (payer, payee) = (ground.account(0), ground.account(1));
    let asked = challenge(app, payee).await;
    let message = asked["message"].as_str().expect("text");
    let signature = ground.tronweb.sign_message(ground.holder(1), message).await;
    let answer = answered(&asked, &signature.expect("a signature"));
    let signed_in = app.post("/v1/auth/wallet/verify").json(&answer).send().await;
    let body = signed_in.expect(200);
    assert_eq!((&body["address"], &body["walletType"]), (&json!(payee), &json!("tron")));
    let session = format!("Bearer {}", token(&signed_in));
    let post = async |path: &str, body: Value| {
        let call = app.post(path).header("authorization", &session);
        call.json(&body).send().await.expect(201)
    };
    let usdt = &ground.devnet.summary().tokens.usdt;
    post(
        "/v1/payee-destination",
        json!({ "tokenAddress": usdt, "chainId": Network::Tron.chain_id() }),
    )
    .await;
    let key = post("/v1/api-keys", json!({ "label": "Shop" })).await;
    let receiver = Receiver::start().await;
    let endpoint = app
        .post("/v1/webhook")
        .header("x-api-key", key["apiKey"].as_str().expect("text"));
    endpoint
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    let made = post("/v2/secure-payments", link_of(&["12.345678"])).await;
    let link = token_of(&made);
    let before = ground.balances([0, 1]).await;
    let hash = ground.pay_link(&link, 0).await;
    assert_eq!(events(&receiver).await, [] as [Value; 0], "the payment is not final");
    ground.settle().await;
    let after = ground.balances([0, 1]).await;
    assert_eq!(before[0] - after[0], 12_345_678);
    assert_eq!(after[1] - before[1], 12_345_678);
    let told = events(&receiver).await;
    let [confirmed] = told.as_slice() else {
        panic!("{told:?}");
    };
    for (member, expected) in [
        ("event", json!("payment.confirmed")),
        ("requestId", made["requestIds"][0].clone()),
        ("amount", json!("12.345678")),
        ("txHash", json!(hash)),
        (
            "explorer",
            json!(format!("https://tronscan.org/#/transaction/{}", &hash[2..])),
        ),
        ("payerAddress", json!(payer)),
        ("payerEoaAddress", json!(payer)),
        ("payee", json!(payee)),
        ("network", json!("tron")),
    ] {
        assert_eq!(confirmed[member], expected, "{member}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_paid_in_parts_and_too_much_is_excess() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let receiver = ground.receiver().await;
    let id = app.create_request(&ground.usdt("10")).await;
    let before = ground.balances([0, 1]).await;
    ground.send_all(0, &ground.part(&id, 0, "4").await).await;
    ground.settle().await;
    assert_eq!(kinds(&events(&receiver).await), ["payment.partial"]);
    // Both payments of the rest are signed before one of them is on the chain.
    let mut signed = Vec::new();
    for _ in 0..2 {
        let calldata = ground.part(&id, 0, "6").await;
        let [payment] = transactions(&calldata) else {
            panic!("{calldata}");
        };
        signed.push(ground.sign(0, payment).await);
        ground.devnet.mine(1).await.expect("mined");
    }
    for transaction in &signed {
        ground.send(transaction).await;
    }
    ground.settle().await;
    let told = events(&receiver).await;
    assert_eq!(kinds(&told), ["payment.partial", "payment.confirmed"]);
    assert_eq!(told[1]["totalAmountPaid"], "10");
    let request = app.read_request(&id).await;
    assert_eq!(
        (&request["status"], &request["excessAmount"]),
        (&json!("paid"), &json!("6")),
        "{request}"
    );
    let payments = app.payments_of(&id).await;
    assert_eq!(payments.len(), 3);
    for transaction in &signed {
        let hash = hash_of(transaction);
        assert!(payments.iter().any(|payment| payment["sourceTxHash"] == hash), "{hash}");
    }
    let after = ground.balances([0, 1]).await;
    assert_eq!((before[0] - after[0], after[1] - before[1]), (16 * USDT, 16 * USDT));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_after_the_expiry_of_its_link_is_credited() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let receiver = ground.receiver().await;
    let mut body = payout(&ground, "3");
    body["expiresIn"] = json!(600);
    let made = app.payout_link(&body).await.expect(201);
    let link = token_of(&made);
    let calldata = ground.calldata(&link, 0).await;
    let [approval, payment] = transactions(&calldata) else {
        panic!("{calldata}");
    };
    let (approval, payment) = (ground.sign(0, approval).await, ground.sign(0, payment).await);
    ground.broadcast(&link, &approval).await.expect(200);
    app.advance_ms(600_001);
    for transaction in [&approval, &payment] {
        let refused = ground.broadcast(&link, transaction).await.expect(403);
        assert_eq!(refused["message"], "Secure payment has expired");
    }
    // The wallet sends it on its own.
    let hash = ground.send(&payment).await;
    ground.settle().await;
    let request = request_of(app, &made).await;
    assert_eq!((&request["status"], &request["txHash"]), (&json!("paid"), &json!(hash)));
    assert_eq!(kinds(&events(&receiver).await), ["payment.confirmed"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payout_is_paid_with_the_transactions_of_its_response() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let mut body = ground.usdt("7.5");
    body["payerWallet"] = json!(ground.account(2));
    let made = app.post("/v2/payouts").with_key().json(&body).send().await.expect(201);
    assert_eq!(made["metadata"]["stepsRequired"], 2, "{made}");
    let before = ground.balances([2, 1]).await;
    let hash = ground.send_all(2, &made).await;
    ground.settle().await;
    let after = ground.balances([2, 1]).await;
    assert_eq!((before[0] - after[0], after[1] - before[1]), (7_500_000, 7_500_000));
    let request = app.read_request(made["requestId"].as_str().expect("an id")).await;
    assert_eq!((&request["status"], &request["txHash"]), (&json!("paid"), &json!(hash)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_with_a_fee_pays_both_receivers_and_is_found_and_exported() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let mut body = payout(&ground, "33.333333");
    body["feePercentage"] = json!("2.5");
    body["feeAddress"] = json!(ground.account(2));
    let made = app.payout_link(&body).await.expect(201);
    let before = ground.balances([0, 1, 2]).await;
    let hash = ground.pay_link(&token_of(&made), 0).await;
    ground.settle().await;
    let after = ground.balances([0, 1, 2]).await;
    let (paid, fee) = (33_333_333, 833_333);
    assert_eq!(
        [before[0] - after[0], after[1] - before[1], after[2] - before[2]],
        [paid + fee, paid, fee]
    );
    let found = ground.found(&format!("txHash={hash}")).await;
    let [payment] = found.as_slice() else {
        panic!("{found:?}");
    };
    let fees = &payment["fees"];
    assert_eq!(
        (&fees[0]["amount"], &fees[0]["receiverAddress"]),
        (&json!("0.833333"), &json!(ground.account(2))),
        "{payment}"
    );
    let plain = app.get(&format!("/v2/payments?txHash={}", &hash[2..])).with_key();
    let refused = plain.send().await.expect(400);
    assert_eq!(refused["errors"][0]["field"], "txHash", "{refused}");
    for account in [0, 1] {
        let path = format!("/v2/payments/export?walletAddress={}", ground.account(account));
        let exported = app.get(&path).with_key().send().await;
        let rows: Vec<&str> = exported.text.lines().skip(1).filter(|row| !row.is_empty()).collect();
        let [row] = rows.as_slice() else {
            panic!("{}", exported.text);
        };
        for text in [&hash, "33.333333", "tron", ground.account(2)] {
            assert!(row.contains(text), "{text}: {row}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_listed_wallet_pays_in_its_own_letter_case() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let listed = ground.account(0);
    let lower = listed.to_lowercase();
    let swapped: String = listed
        .char_indices()
        .map(|(place, letter)| match place {
            5.. if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
            _ => letter,
        })
        .collect();
    // Only incoming links have a list.
    let payee = Address::parse(ground.account(1)).expect("an address");
    app.is_paid_on(Network::Tron, payee, "USDT-tron").await;
    let mut body = link_of(&["2"]);
    for wallet in [&lower, &swapped] {
        body["accessPolicy"] = json!({ "allowedPayerAddresses": [wallet] });
        let refused = app.link(&body).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["accessPolicy.allowedPayerAddresses[0]"]);
    }
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [listed] });
    let made = app.link(&body).await.expect(201);
    let link = token_of(&made);
    for wallet in [&lower, &swapped] {
        let refused = app.calldata_of(&link, Some(wallet)).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["wallet"]);
    }
    app.calldata_of(&link, Some(ground.account(3))).await.expect(403);
    // A wallet that is not listed signs what the listed wallet would sign.
    let open = app.payout_link(&payout(&ground, "2")).await.expect(201);
    let approval = ground
        .sign(3, &transactions(&ground.calldata(&token_of(&open), 3).await)[0])
        .await;
    ground.broadcast(&link, &approval).await.expect(403);
    ground.pay_link(&link, 0).await;
    ground.settle().await;
    assert_eq!(request_of(app, &made).await["status"], "paid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_pays_only_its_own_link_and_only_once() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let receiver = ground.receiver().await;
    let made = app.payout_link(&payout(&ground, "5")).await.expect(201);
    let (link, twin) = (
        token_of(&made),
        token_of(&app.payout_link(&payout(&ground, "5")).await.expect(201)),
    );
    let calldata = ground.calldata(&link, 0).await;
    let [approval, payment] = transactions(&calldata) else {
        panic!("{calldata}");
    };
    let (approval, payment) = (ground.sign(0, approval).await, ground.sign(0, payment).await);
    // The payment comes before its approval, which is a step of both links.
    let early = ground.broadcast(&twin, &payment).await;
    assert!(
        early.expect(400).to_string().contains("payment reference differs"),
        "{}",
        early.text
    );
    ground.broadcast(&twin, &approval).await.expect(200);
    let before = ground.balances([0, 1]).await;
    let calls = (0..8).map(|_| ground.broadcast(&link, &payment));
    for answer in join_all(calls).await {
        assert_eq!(answer.expect(200)["result"], true);
    }
    let differing = ground.broadcast(&twin, &payment).await;
    differing.expect(400);
    ground.settle().await;
    let paid = ground.broadcast(&link, &payment).await.expect(403);
    assert_eq!(paid["message"], "Secure payment has already been completed");
    let after = ground.balances([0, 1]).await;
    assert_eq!((before[0] - after[0], after[1] - before[1]), (5 * USDT, 5 * USDT));
    assert_eq!(kinds(&events(&receiver).await), ["payment.confirmed"]);
    assert_eq!(ground.found(&format!("txHash={}", hash_of(&payment))).await.len(), 1);
    let open = app.open_link(&twin, "").send().await.expect(200);
    assert_eq!(open["status"], "pending");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_that_can_pay_nothing_broadcast_nothing() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let link = token_of(&app.payout_link(&payout(&ground, "5")).await.expect(201));
    let steps = ground.calldata(&link, 4).await;
    let approval = ground.sign(4, &transactions(&steps)[0]).await;
    let address = ground.account(4).to_owned();
    let change = TronAccountChange {
        address: address.clone(),
        activated: Some(false),
        ..TronAccountChange::default()
    };
    ground.devnet.change_account(&change).await.expect("removed");
    let refused = ground.broadcast(&link, &approval).await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["signedTransaction.raw_data_hex"]);
    assert!(refused.text.contains("is not activated"), "{}", refused.text);
    let change = TronAccountChange {
        activated: Some(true),
        balance: Some(0),
        ..change
    };
    ground.devnet.change_account(&change).await.expect("activated");
    let blocked = TronTokenChange {
        symbol: "USDT".to_owned(),
        block: vec![address.clone()],
        ..TronTokenChange::default()
    };
    ground.devnet.change_token(&blocked).await.expect("blocked");
    let refused = ground.broadcast(&link, &approval).await;
    refused.expect(400);
    assert!(refused.text.contains("is frozen by the issuer"), "{}", refused.text);
    let freed = TronTokenChange {
        symbol: "USDT".to_owned(),
        unblock: vec![address],
        ..TronTokenChange::default()
    };
    ground.devnet.change_token(&freed).await.expect("freed");
    let shown = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(shown["inFlight"], false, "nothing was recorded: {shown}");
}
