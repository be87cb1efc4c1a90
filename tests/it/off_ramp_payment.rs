//! Requests to bank accounts, from the first call to the last event, on a real chain and with the scripted partner.

use crate::support::fiat::{CLIENT_USER, Fiat, for_bank};
use chrono::TimeDelta;
use serde_json::{Value, json};

/// The events of a successful payment.
const WELL: [&str; 6] = [
    "payment.processing initiated",
    "payment.processing pending_internal_assessment",
    "payment.processing ongoing_checks",
    "payment.processing sending_fiat",
    "payment.processing fiat_sent",
    "payment.confirmed fiat_sent",
];

#[tokio::test]
async fn a_payment_reaches_the_bank_and_reports_each_step_once() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("25").await;
    let read = fiat.app.read_request(&id).await;
    assert_eq!(
        (&read["payee"], &read["isCryptoToFiatAvailable"], &read["status"]),
        (&Value::Null, &json!(true), &json!("pending"))
    );

    let fee = format!("&feePercentage=2&feeAddress={}", fiat.app.account(5));
    let first = fiat.ask(&id, CLIENT_USER, &account, &fee).await.expect(200);
    let ends = first["metadata"]["quoteExpiresAt"].as_i64().expect("an end");
    assert_eq!(ends, (fiat.app.ctx.clock.now() + TimeDelta::minutes(15)).timestamp());
    let again = fiat.ask(&id, CLIENT_USER, &account, &fee).await.expect(200);
    assert_eq!(again, first, "the quote is still valid");
    assert_eq!(fiat.partner.count("quote").await, 1);

    fiat.send(&first).await;
    assert_eq!(fiat.status(&id).await, "processing");
    assert_eq!(fiat.told(&id).await, [""; 0], "the partner has not responded yet");
    fiat.seconds(8).await;
    assert_eq!(fiat.told(&id).await, WELL);
    assert_eq!(fiat.partner.count("open_order").await, 1);
    let read = fiat.app.read_request(&id).await;
    assert_eq!((&read["status"], &read["hasBeenPaid"]), (&json!("paid"), &json!(true)));
    assert_eq!(read["fees"][0]["type"], "crypto-to-fiat");

    let events = fiat.events(&id).await;
    let initiated = &events[0];
    assert_eq!(initiated["paymentProcessor"], "service-tech");
    let raw = initiated["rawPayload"].as_object().expect("an object");
    assert_eq!(raw.keys().collect::<Vec<_>>(), ["status", "providerId"]);
    let order = &fiat.orders(true).await[0];
    assert_eq!(initiated["offrampId"], order.order.id.as_str());
    assert_eq!(
        Some(initiated["rawPayload"]["providerId"].as_str().expect("an id")),
        order.order.partner_id.as_deref()
    );
    let confirmed = &events[5];
    for (member, value) in [
        ("isCryptoToFiat", json!(true)),
        ("paymentProcessor", json!("service-tech")),
        ("amount", json!("25")),
        ("totalAmountPaid", json!("25")),
        ("network", json!("sepolia")),
        ("txHash", read["txHash"].clone()),
        (
            "fees",
            json!([
                { "type": "crypto-to-fiat", "amount": "0.5", "currency": "USDC" },
                { "type": "offramp", "amount": "0.125", "currency": "USDC" },
            ]),
        ),
    ] {
        assert_eq!(confirmed[member], value, "{member}");
    }
    let refused = fiat.ask(&id, CLIENT_USER, &account, "").await;
    assert_eq!(refused.expect(400)["message"], "Request has already been paid");
}

#[tokio::test]
async fn an_expired_quote_is_replaced_and_its_address_still_counts() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0006").await;
    let id = fiat.request("10").await;
    let former = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.pass(60).await;
    let present = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    assert_ne!(former["transactions"], present["transactions"], "another address");
    assert_eq!(fiat.partner.count("quote").await, 2);
    fiat.pass(60).await;
    // The order is sent to the partner anyway, and the partner decides.
    fiat.send(&former).await;
    assert_eq!(fiat.status(&id).await, "processing");
    fiat.seconds(6).await;
    assert_eq!(
        fiat.told(&id).await,
        [
            "payment.processing initiated",
            "payment.processing pending_internal_assessment",
            "payment.failed failed"
        ]
    );
    assert_eq!(fiat.status(&id).await, "failed");
    let refused = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(400);
    assert_eq!(refused["message"], "The payment of this request failed or was refunded");
}

#[tokio::test]
async fn a_bounced_or_abandoned_payout_fails_the_request_once() {
    for (ending, told) in [
        (
            "0003",
            vec![
                "payment.processing initiated",
                "payment.processing pending_internal_assessment",
                "payment.processing ongoing_checks",
                "payment.processing sending_fiat",
                "payment.processing bounced",
                "payment.failed bounced",
            ],
        ),
        (
            "0004",
            vec![
                "payment.processing initiated",
                "payment.processing pending_internal_assessment",
                "payment.processing ongoing_checks",
                "payment.failed failed",
            ],
        ),
    ] {
        let fiat = Fiat::start().await;
        let account = fiat.compliant(CLIENT_USER, ending).await;
        let id = fiat.request("10").await;
        fiat.pay(&id, &account).await;
        fiat.seconds(8).await;
        assert_eq!(fiat.told(&id).await, told, "{ending}");
        assert_eq!(fiat.status(&id).await, "failed");
        let failed = fiat.events(&id).await.pop().expect("an event");
        assert_eq!(failed["paymentProcessor"], "service-tech");
        assert!(fiat.orders(false).await.is_empty());
    }
}

#[tokio::test]
async fn an_underpayment_waits_for_the_rest_and_an_excess_is_shown() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let other = fiat.add_account(CLIENT_USER, "4444").await;
    for _ in 0..3 {
        fiat.pass(1).await;
    }
    let id = fiat.request("10").await;
    let whole = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.send_units(&whole, 10_000_000, 4_000_000).await;
    fiat.seconds(3).await;
    assert_eq!(fiat.told(&id).await, ["payment.partial"]);
    assert_eq!(
        (fiat.status(&id).await.as_str(), fiat.partner.count("open_order").await),
        ("partially_paid", 0)
    );

    let refused = fiat.ask(&id, CLIENT_USER, &other, "").await.expect(400);
    assert_eq!(
        refused["errors"][0]["field"], "paymentDetailsId",
        "the first part went to another account"
    );
    let rest = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    assert_eq!(
        fiat.partner.count("quote").await,
        2,
        "the second quote is for the remaining amount"
    );
    fiat.send_units(&rest, 6_000_000, 7_500_000).await;
    fiat.seconds(8).await;
    let told = fiat.told(&id).await;
    assert_eq!(told[0], "payment.partial");
    assert_eq!(told[1..], WELL);
    let read = fiat.app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["excessAmount"]),
        (&json!("paid"), &json!("1.5"))
    );
    let calls = fiat.partner.calls().await;
    let orders: Vec<&Value> = calls
        .iter()
        .filter(|call| call.target.ends_with("/orders"))
        .map(|call| &call.body)
        .collect();
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0]["amount"], "11.5");
    assert_eq!(orders[0]["transactions"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_dollar_request_is_paid_out_at_its_quoted_amount() {
    use crate::support::rates::Feed;
    let feed = Feed::start().await;
    let fiat = Fiat::with(|settings| {
        settings.partners.rates = prs::settings::RateSource::Http;
        settings.conversion.feed_urls = vec![feed.url()];
    })
    .await;
    fiat.app.follow_chain_time().await;
    fiat.app.tells(&feed, "0.999").await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let mut input = for_bank("10");
    input["invoiceCurrency"] = json!("USD");
    let created = fiat
        .app
        .post("/v2/request")
        .with_key()
        .json(&input)
        .send()
        .await
        .expect(201);
    let id = created["requestId"].as_str().expect("an id");
    fiat.app.tells(&feed, "0.999").await;
    let calldata = fiat.ask(id, CLIENT_USER, &account, "").await.expect(200);
    // The requested amount stays the same, however the rate changes and however late the request is paid.
    fiat.app.pass(3_600).await;
    fiat.send(&calldata).await;
    assert_eq!(fiat.status(id).await, "processing");
    fiat.work().await;
    let calls = fiat.partner.calls().await;
    let order = calls
        .iter()
        .find(|call| call.target.ends_with("/orders"))
        .expect("an order");
    assert_eq!(order.body["amount"], "10.010011");
}

#[tokio::test]
async fn only_deposit_addresses_issued_for_the_request_count() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let (one, two) = (fiat.request("10").await, fiat.request("10").await);
    let of_one = fiat.ask(&one, CLIENT_USER, &account, "").await.expect(200);
    let of_two = fiat.ask(&two, CLIENT_USER, &account, "").await.expect(200);
    // Pays with the payment reference of one request and the deposit address of another request.
    let address = |calldata: &Value| {
        let data = calldata["transactions"]
            .as_array()
            .expect("a list")
            .last()
            .expect("a payment")["data"]
            .clone();
        hex::decode(data.as_str().expect("a text")).expect("hexadecimal")[36..68].to_vec()
    };
    let (from, to) = (address(&of_one), address(&of_two));
    let mut swapped = of_one.clone();
    let last = swapped["transactions"]
        .as_array_mut()
        .expect("a list")
        .last_mut()
        .expect("a payment");
    let data = last["data"]
        .as_str()
        .expect("a text")
        .replace(&hex::encode(&from), &hex::encode(&to));
    last["data"] = json!(data);
    fiat.send(&swapped).await;
    for id in [&one, &two] {
        assert_eq!(fiat.status(id).await, "pending");
    }
    fiat.send(&of_one).await;
    assert_eq!(
        (fiat.status(&one).await.as_str(), fiat.status(&two).await.as_str()),
        ("processing", "pending")
    );
}
