//! Payments on a real chain: what is credited, reported and found by a search.

use crate::support::{
    TestApp,
    chain::{FACTORY, PAYER, creation_of, smart_wallet_call, transactions},
    receiver::Receiver,
    requests::{PAYEE, fau, request},
};
use alloy::primitives::U256;
use devnet::batch::{MetaDetail, RequestDetail, batchPaymentsCall};
use prs::domain::webhook::sign;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

#[tokio::test]
async fn a_token_payment_is_confirmed_with_a_complete_event() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    let (_, secret) = app.register(&receiver.url()).await;
    let mut input = fau("1.5");
    input["reference"] = json!("INV-7");
    let id = app.create_request(&input).await;
    let receipt = app.pay(&id, "").await;
    app.settle().await;

    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["hasBeenPaid"], &read["status"], &read["isListening"]),
        (&json!(true), &json!("paid"), &json!(false))
    );
    assert_eq!(read["txHash"], receipt.tx_hash.to_string());
    assert_eq!(read["payerAddress"], app.account(PAYER));
    let payments = app.payments_of(&id).await;
    assert_eq!(payments.len(), 1);
    assert_eq!(payments[0]["amount"], "1.5");
    assert_eq!(payments[0]["type"], "direct");
    assert_eq!(payments[0]["request"]["reference"], "INV-7");

    let received = receiver.received().await;
    assert_eq!(received.len(), 1, "{received:?}");
    let event = received[0].json();
    assert_eq!(event["event"], "payment.confirmed");
    assert_eq!(event["requestId"], id.as_str());
    assert_eq!(event["requestID"], id.as_str());
    assert_eq!(event["paymentReference"], read["paymentReference"]);
    for (member, value) in [
        ("amount", "1.5"),
        ("totalAmountPaid", "1.5"),
        ("expectedAmount", "1.5"),
        ("network", "sepolia"),
        ("currency", "FAU"),
        ("paymentCurrency", "FAU"),
        ("subStatus", ""),
        ("paymentProcessor", "service-network"),
        ("reference", "INV-7"),
    ] {
        assert_eq!(event[member], value, "{member}");
    }
    assert_eq!(event["isCryptoToFiat"], false);
    assert_eq!(event["fees"], json!([]));
    assert_eq!(event["txHash"], receipt.tx_hash.to_string());
    assert_eq!(event["payerAddress"], app.account(PAYER));
    assert_eq!(event["payerEoaAddress"], app.account(PAYER));
    assert_eq!(
        event["explorer"],
        format!("https://sepolia.etherscan.io/tx/{}", receipt.tx_hash)
    );
    assert!(event["timestamp"].as_str().expect("a time").ends_with('Z'));
    assert_eq!(
        received[0].header("x-service-signature"),
        Some(sign(&secret, received[0].body.as_bytes()).as_str())
    );
    assert_eq!(received[0].header("x-service-retry-count"), Some("0"));
    assert_eq!(received[0].header("x-service-test"), None);
    assert_eq!(received[0].header("content-type"), Some("application/json"));
    assert_eq!(received[0].header("x-service-delivery").map(str::len), Some(26));
}

#[tokio::test]
async fn a_native_payment_with_a_fee_is_confirmed() {
    let app = TestApp::on_chain().await;
    let input = request("0.25", "ETH-sepolia", "ETH-sepolia-sepolia");
    let id = app.create_request(&input).await;
    let fee_address = app.account(6);
    let receipt = app
        .pay(&id, &format!("&feePercentage=2.5&feeAddress={fee_address}"))
        .await;
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(read["status"], "paid");
    assert_eq!(read["paidAmount"], "0.25", "the fee is on top and settles nothing");
    assert_eq!(
        read["fees"],
        json!([{ "type": "platform", "provider": "service-network", "amount": "0.00625", "currency": "ETH-sepolia" }])
    );
    let payment = &app.payments_in(receipt.tx_hash).await[0];
    assert_eq!(payment["fees"][0]["receiverAddress"], fee_address);
}

#[tokio::test]
async fn partial_payments_add_up_and_an_excess_is_shown() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("10")).await;
    app.pay(&id, "&amount=4").await;
    app.settle().await;
    let part = app.read_request(&id).await;
    assert_eq!(
        (&part["status"], &part["paidAmount"]),
        (&json!("partially_paid"), &json!("4"))
    );
    assert_eq!(part.get("conversionRate"), Some(&json!(null)));
    // Two payers get calldata for the remaining amount, and both pay.
    let steps = transactions(&app.calldata(&id, "").await);
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    app.settle().await;
    let full = app.read_request(&id).await;
    assert_eq!(
        (&full["status"], &full["paidAmount"], &full["excessAmount"]),
        (&json!("paid"), &json!("16"), &json!("6"))
    );
    assert_eq!(app.payments_of(&id).await.len(), 3);
    let kinds: Vec<Value> = receiver
        .received()
        .await
        .iter()
        .map(|one| one.json()["event"].clone())
        .collect();
    assert_eq!(
        kinds,
        ["payment.partial", "payment.confirmed"],
        "a payment after completion sends no event"
    );
    let again = app.get(&format!("/v2/request/{id}/pay")).with_key().send().await;
    assert_eq!(again.expect(400)["message"], "Request has already been paid");
}

/// A request may get any number of small payments. A commit must not read all earlier payments of the request: with
/// enough of them the transaction would time out, and no later payment on the network would be credited.
#[tokio::test]
async fn a_payment_is_credited_without_reading_earlier_ones() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("10")).await;
    app.pay(&id, "&amount=4").await;
    app.settle().await;
    let set = |credited: &str| format!("UPDATE payments SET credited = {credited} WHERE request_id = '{id}'");
    let run = async |sql: String| app.ctx.db.writer().execute_unprepared(&sql).await.expect("an update");
    run(set("credited || ' unreadable'")).await;
    app.pay(&id, "&amount=3").await;
    app.settle().await;
    run(set("replace(credited, ' unreadable', '')")).await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("partially_paid"), &json!("7"))
    );
    assert_eq!(app.payments_of(&id).await.len(), 2);
}

#[tokio::test]
async fn a_dollar_request_is_paid_through_the_price_feeds() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let input = request("12.34", "USD", "FAU-sepolia");
    let id = app.create_request(&input).await;
    assert_eq!(app.read_request(&id).await["conversionRate"], "1");
    let receipt = app.pay(&id, "").await;
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"], &read["amountInUsd"]),
        (&json!("paid"), &json!("12.34"), &json!("12.34"))
    );
    assert_eq!(read["rateSource"], "chainlink");
    let payment = &app.payments_in(receipt.tx_hash).await[0];
    assert_eq!(
        (&payment["type"], &payment["amount"], &payment["convertedAmountSource"]),
        (&json!("conversion"), &json!("12.34"), &json!("12.34"))
    );
    assert_eq!(
        (&payment["currency"], &payment["paymentCurrency"]),
        (&json!("USD"), &json!("FAU"))
    );
    let event = receiver.received().await[0].json();
    assert_eq!(
        (&event["currency"], &event["amount"], &event["rateProvider"]),
        (&json!("USD"), &json!("12.34"), &json!("chainlink"))
    );
}

#[tokio::test]
async fn a_fee_on_transfer_token_credits_the_received_amount() {
    let app = TestApp::on_chain_with_token("USDC", |chain| chain.tokens().fee_on_transfer).await;
    let input = request("10", "USDC-sepolia", "USDC-sepolia");
    let id = app.create_request(&input).await;
    let receipt = app.pay(&id, "").await;
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("partially_paid"), &json!("9.99")),
        "0.1 % was the token's fee"
    );
    let payments = app.payments_in(receipt.tx_hash).await;
    assert_eq!(payments.len(), 1);
    assert_eq!(payments[0]["amount"], "9.99");
    app.pay(&id, "").await;
    app.settle().await;
    assert_eq!(
        app.payments_of(&id).await.len(),
        2,
        "the rest is requested and counted too"
    );
}

#[tokio::test]
async fn a_worthless_token_with_a_known_reference_is_not_credited() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("10")).await;
    let mut steps = transactions(&app.calldata(&id, "").await);
    let (_, data, _) = steps.last_mut().expect("a payment");
    // The first argument of the proxy call is the token.
    data[16..36].copy_from_slice(app.devnet().tokens().worthless.as_slice());
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    assert!(
        receipts.last().expect("a receipt").status,
        "the proxy accepts any token"
    );
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "pending");
    assert!(app.payments_of(&id).await.is_empty());
}

#[tokio::test]
async fn another_payee_with_the_same_reference_is_not_credited() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("10")).await;
    let mut steps = transactions(&app.calldata(&id, "").await);
    let attacker = app.devnet().accounts()[7].address;
    steps.last_mut().expect("a payment").1[48..68].copy_from_slice(attacker.as_slice());
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "pending");
}

#[tokio::test]
async fn a_smart_account_payment_names_the_account_and_its_owner() {
    let app = TestApp::on_chain().await;
    let wallet = app.devnet().contracts().smart_wallet;
    let id = app.create_request(&fau("2")).await;
    let calldata = app
        .get(&format!("/v2/request/{id}/pay?wallet={wallet}"))
        .with_client()
        .send()
        .await
        .expect(200);
    app.devnet()
        .transfer(
            PAYER,
            app.devnet().tokens().fau,
            wallet,
            U256::from(10).pow(U256::from(19)),
        )
        .await
        .expect("funded");
    app.send_through_smart_wallet(transactions(&calldata)).await;
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(read["status"], "paid");
    assert_eq!(read["payerAddress"], wallet.to_string());
    assert_eq!(
        read["payerEoaAddress"],
        json!(null),
        "the account called another contract than a payment contract"
    );
}

/// A native payment emits no transfer event. If a smart account pays, the sender of the transaction is not the payer,
/// and a refund to that sender would be lost.
#[tokio::test]
async fn a_native_payment_names_the_paying_contract_or_no_payer() {
    let app = TestApp::on_chain().await;
    let devnet = app.devnet();
    let wallet = devnet.contracts().smart_wallet;
    let owner = devnet.accounts()[devnet::SMART_WALLET_OWNER_INDEX].address;
    let coin = json!({ "payee": PAYEE, "amount": "0.01", "invoiceCurrency": "ETH-sepolia-sepolia", "paymentCurrency": "ETH-sepolia-sepolia" });
    let paid =
        async |wrap: &dyn Fn(alloy::primitives::Address, Vec<u8>, U256) -> (alloy::primitives::Address, Vec<u8>)| {
            let id = app.create_request(&coin).await;
            let (to, data, value) = transactions(&app.calldata(&id, "").await).pop().expect("a payment");
            let (to, data) = wrap(to, data, value);
            let sent = devnet.send(devnet::SMART_WALLET_OWNER_INDEX, to, data, value).await;
            assert!(sent.expect("mined").status);
            app.settle().await;
            let read = app.read_request(&id).await;
            assert_eq!(read["status"], "paid");
            (read["payerAddress"].clone(), read["payerEoaAddress"].clone())
        };
    let owner = json!(owner.to_string());
    assert_eq!(
        paid(&|to, data, _| (to, data)).await,
        (owner.clone(), owner),
        "straight"
    );
    let through = paid(&|to, data, value| (wallet, smart_wallet_call(to, data, value))).await;
    assert_eq!(
        through,
        (json!(wallet.to_string()), json!(null)),
        "through one contract"
    );
    let (second, creation) = creation_of("SmartWallet", &alloy::sol_types::SolValue::abi_encode(&wallet));
    devnet.send(PAYER, FACTORY, creation, U256::ZERO).await.expect("mined");
    let nested = |to, data, value| {
        let inner = smart_wallet_call(to, data, value);
        (wallet, smart_wallet_call(second, inner, value))
    };
    assert_eq!(paid(&nested).await, (json!(null), json!(null)), "through two contracts");
}

alloy::sol! {
    function approve(address spender, uint256 amount);
}

#[tokio::test]
async fn every_payment_of_a_batch_is_credited_to_its_own_request() {
    use alloy::sol_types::SolCall;
    let app = TestApp::on_chain().await;
    let chain = app.devnet();
    let (first, second) = (app.create_request(&fau("1")).await, app.create_request(&fau("2")).await);
    let mut details = Vec::new();
    for (id, units) in [(&first, 1u64), (&second, 2)] {
        let reference = app.read_request(id).await["paymentReference"]
            .as_str()
            .expect("text")
            .to_owned();
        details.push(RequestDetail {
            recipient: PAYEE.parse().expect("an address"),
            requestAmount: U256::from(units) * U256::from(10).pow(U256::from(18)),
            path: vec![chain.tokens().fau],
            paymentReference: hex::decode(reference).expect("hexadecimal").into(),
            feeAmount: U256::ZERO,
            maxToSpend: U256::ZERO,
            maxRateTimespan: U256::ZERO,
        });
    }
    let batch = chain.contracts().batch_conversion_payments;
    let approval = approveCall {
        spender: batch,
        amount: U256::MAX,
    }
    .abi_encode();
    let call = batchPaymentsCall {
        metaDetails: vec![MetaDetail {
            paymentNetworkId: U256::from(1),
            requestDetails: details,
        }],
        pathsToUSD: Vec::new(),
        feeAddress: chain.accounts()[6].address,
    };
    let steps = [
        (chain.tokens().fau, approval, U256::ZERO),
        (batch, call.abi_encode(), U256::ZERO),
    ];
    let receipts = chain.pay(PAYER, &steps).await.expect("mined");
    assert!(receipts[1].status, "the batch succeeds");
    app.settle().await;
    assert_eq!(app.read_request(&first).await["status"], "paid");
    assert_eq!(app.read_request(&second).await["status"], "paid");
    let payments = app.payments_in(receipts[1].tx_hash).await;
    assert_eq!(payments.len(), 2, "all payments of the transaction are found");
    for id in [&first, &second] {
        assert_eq!(
            app.read_request(id).await["payerAddress"],
            app.account(PAYER),
            "the account that funded the batch, not the contract"
        );
    }
}

#[tokio::test]
async fn payments_can_be_searched_by_every_parameter() {
    let app = TestApp::on_chain().await;
    let mut input = fau("3");
    input["reference"] = json!("INV-9");
    let id = app.create_request(&input).await;
    let receipt = app.pay(&id, "").await;
    app.settle().await;
    let reference = app.read_request(&id).await["paymentReference"]
        .as_str()
        .expect("text")
        .to_owned();
    let time = app.payments_of(&id).await[0]["timestamp"]
        .as_str()
        .expect("a time")
        .to_owned();
    let payer = app.account(PAYER);
    for query in [
        format!("txHash={}", receipt.tx_hash),
        format!("walletAddress={payer}"),
        format!("walletAddress={}", payer.to_lowercase()),
        format!("walletAddress={PAYEE}"),
        format!("paymentReference={reference}"),
        format!("paymentReference={}", reference.trim_start_matches("0x")),
        format!("requestId={id}"),
        "reference=INV-9".to_owned(),
        "type=direct".to_owned(),
        "invoiceCurrency=FAU-sepolia".to_owned(),
        "invoiceCurrency=FAU".to_owned(),
        "paymentCurrency=FAU-sepolia&type=direct".to_owned(),
        format!("requestId={id}&fromDate={time}&toDate={time}"),
    ] {
        let found = app
            .get(&format!("/v2/payments?{query}"))
            .with_key()
            .send()
            .await
            .expect(200);
        assert_eq!(found["payments"].as_array().expect("a list").len(), 1, "{query}");
        assert_eq!(
            found["pagination"],
            json!({ "total": 1, "limit": 20, "offset": 0, "hasMore": false }),
            "{query}"
        );
    }
    for query in [
        "reference=INV-8",
        "type=conversion",
        "paymentCurrency=USDC-sepolia",
        "requestId=01ff&reference=INV-9",
        "reference=INV-9&toDate=2001-01-01T00:00:00Z",
    ] {
        let found = app
            .get(&format!("/v2/payments?{query}"))
            .with_key()
            .send()
            .await
            .expect(200);
        assert_eq!(found["payments"], json!([]), "{query}");
    }
    let (other_key, _) = app.other_tenant().await;
    let foreign = app
        .get(&format!("/v2/payments?txHash={}", receipt.tx_hash))
        .header("x-api-key", &other_key)
        .send()
        .await;
    assert_eq!(
        foreign.expect(200)["payments"],
        json!([]),
        "the hash is public, the payment is not"
    );
}
