//! Invalid requests to bank accounts: each error has its own message.

use crate::support::{
    TestApp,
    app::forged,
    fiat::{CLIENT_USER, Fiat, for_bank},
    off_ramp::Scripted,
    requests::PAYEE,
    secrets::lines_logged_with,
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::domain::{off_ramp_refusal::OffRampRefusal, off_ramp_sandbox::OffRampBehaviour};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn bank_account_requests_reject_a_payee_and_unlisted_tokens() {
    let fiat = Fiat::start().await;
    let refused = async |member: &str, value: Value, field: &str, part: &str| {
        let mut body = for_bank("10");
        body[member] = value;
        if member == "paymentCurrency" {
            body["invoiceCurrency"] = body["paymentCurrency"].clone();
        }
        let answer = fiat.app.post("/v2/request").with_key().json(&body).send().await;
        let errors = answer.expect(400)["errors"].clone();
        assert_eq!(errors[0]["field"], field, "{errors}");
        assert!(
            errors[0]["message"].as_str().expect("a text").contains(part),
            "{errors}"
        );
    };
    refused(
        "payee",
        json!(PAYEE),
        "payee",
        "must be absent when isCryptoToFiatAvailable is true",
    )
    .await;
    for currency in ["FAU-sepolia", "USDT-sepolia", "ETH-sepolia-sepolia"] {
        refused("paymentCurrency", json!(currency), "paymentCurrency", "USDC").await;
    }
    // The bound destination of a client ID does not count.
    fiat.app.create_request(&for_bank("10")).await;
    let without = TestApp::start().await;
    let answer = without
        .post("/v2/request")
        .with_key()
        .json(&for_bank("10"))
        .send()
        .await;
    assert_eq!(answer.wrong_fields(), ["isCryptoToFiatAvailable"]);
}

/// Registers a compliant payer with three bank accounts, which are approved, failed and pending, and a rejected payer
/// with one account. Returns the ids of the four accounts.
async fn accounts_of_each_state(fiat: &Fiat) -> [String; 4] {
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let failed = fiat.add_account(CLIENT_USER, "0001").await;
    let pending = fiat.add_account(CLIENT_USER, "0002").await;
    fiat.register("no-user", "Rejected").await.expect(200);
    let of_rejected = fiat.add_account("no-user", "7891").await;
    for _ in 0..4 {
        fiat.pass(1).await;
    }
    [account, failed, pending, of_rejected]
}

#[tokio::test]
async fn both_ids_are_required_and_must_name_an_eligible_payer() {
    let fiat = Fiat::start().await;
    let [account, failed, pending, of_rejected] = accounts_of_each_state(&fiat).await;
    let id = fiat.request("10").await;
    let unknown = "7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d";
    let ask = async |query: &str| {
        fiat.app
            .get(&format!("/v2/request/{id}/pay?{query}"))
            .with_key()
            .send()
            .await
    };
    let user = "clientUserId=ada%2B1%40example.com";
    let mut sentences = Vec::new();
    for (query, field) in [
        (String::new(), "clientUserId"),
        (user.to_owned(), "paymentDetailsId"),
        (format!("paymentDetailsId={account}"), "clientUserId"),
        (
            format!("clientUserId=nobody&paymentDetailsId={account}"),
            "clientUserId",
        ),
        (format!("{user}&paymentDetailsId={unknown}"), "paymentDetailsId"),
        (format!("{user}&paymentDetailsId={of_rejected}"), "paymentDetailsId"),
        (format!("{user}&paymentDetailsId={failed}"), "paymentDetailsId"),
        (format!("{user}&paymentDetailsId={pending}"), "paymentDetailsId"),
        (
            format!("clientUserId=no-user&paymentDetailsId={of_rejected}"),
            "clientUserId",
        ),
        (format!("{user}&paymentDetailsId={account}&amount=5"), "amount"),
        (
            format!("{user}&paymentDetailsId={account}&chain=BASE&token=USDC"),
            "chain",
        ),
    ] {
        let answer = ask(&query).await.expect(400);
        let errors = answer["errors"].as_array().expect("fields").clone();
        assert_eq!(errors[0]["field"], field, "{query}: {answer}");
        sentences.push(format!("{field}: {}", errors[0]["message"].as_str().expect("a text")));
    }
    println!("{}", sentences.join("\n"));
    sentences.sort();
    sentences.dedup();
    assert_eq!(
        sentences.len(),
        9,
        "accounts of another payer look unknown: {sentences:?}"
    );
    assert_eq!(fiat.partner.count("quote").await, 0);
    ask(&format!("{user}&paymentDetailsId={account}")).await.expect(200);

    // Another tenant's payer, account and request look like unknown ones.
    let (other, _) = fiat.app.other_tenant().await;
    let theirs = fiat
        .app
        .post("/v2/request")
        .header("x-api-key", &other)
        .json(&for_bank("10"))
        .send()
        .await
        .expect(201);
    let theirs = theirs["requestId"].as_str().expect("an id").to_owned();
    let path = format!("/v2/request/{theirs}/pay?{user}&paymentDetailsId={account}");
    let foreign = fiat.app.get(&path).header("x-api-key", &other).send().await.expect(400);
    let nobody = ask(&format!("clientUserId=nobody&paymentDetailsId={account}"))
        .await
        .expect(400);
    let said = |answer: &Value| (answer["message"].clone(), answer["errors"].clone());
    assert_eq!(said(&foreign), said(&nobody));
    fiat.app.get(&path).with_key().send().await.expect(404);

    // Other requests reject both parameters.
    let plain = fiat
        .app
        .create_request(&json!({
            "payee": PAYEE, "amount": "1", "invoiceCurrency": "USDC-sepolia", "paymentCurrency": "USDC-sepolia",
        }))
        .await;
    let path = format!("/v2/request/{plain}/pay?{user}&paymentDetailsId={account}");
    let answer = fiat.app.get(&path).with_key().send().await;
    assert_eq!(answer.wrong_fields(), ["clientUserId", "paymentDetailsId"]);
    // A batch rejects requests to bank accounts.
    let body = json!({ "requestIds": [id] });
    let answer = fiat.app.post("/v2/payouts/batch").with_key().json(&body).send().await;
    let refused = answer.expect(400);
    assert!(
        refused["errors"][0]["message"]
            .as_str()
            .expect("a text")
            .contains("bank account"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_public_client_id_cannot_learn_the_state_of_a_payer() {
    let fiat = Fiat::start().await;
    let [account, failed, pending, of_rejected] = accounts_of_each_state(&fiat).await;
    fiat.register("erased-user", "Approved").await.expect(200);
    fiat.app.erase_payer("erased-user").await.expect(200);
    let request = fiat.request("10").await;
    let path =
        |user: &str, account: &str| format!("/v2/request/{request}/pay?clientUserId={user}&paymentDetailsId={account}");
    let ada = "ada%2B1%40example.com";
    let unknown = "7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d";
    let mut to_public = Vec::new();
    let mut to_key = Vec::new();
    for (user, account) in [
        ("nobody", account.as_str()),
        ("erased-user", &account),
        ("no-user", &account),
        ("no-user", &of_rejected),
        ("no-user", unknown),
        (ada, unknown),
        (ada, &of_rejected),
        (ada, &failed),
        (ada, &pending),
    ] {
        let path = path(user, account);
        let said = |mut answer: Value| {
            answer.as_object_mut().expect("an object").remove("requestId");
            answer.to_string()
        };
        to_public.push(said(forged(&fiat.app, Method::GET, &path).send().await.expect(400)));
        to_key.push(said(fiat.app.get(&path).with_key().send().await.expect(400)));
    }
    println!("{}", to_public[0]);
    to_public.dedup();
    assert_eq!(to_public.len(), 1, "{to_public:?}");
    to_key.sort();
    to_key.dedup();
    assert_eq!(
        to_key.len(),
        5,
        "the platform's key gets the specific reason: {to_key:?}"
    );
    // A caller that knows both ids can pay.
    let paid = forged(&fiat.app, Method::GET, &path(ada, &account)).send().await;
    paid.expect(200);
}

#[tokio::test]
async fn quote_refusal_reasons_reach_the_platform_but_not_pages() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let request = fiat.request("10").await;
    let path = format!("/v2/request/{request}/pay?clientUserId=ada%2B1%40example.com&paymentDetailsId={account}");
    let nothing = "The crypto-to-fiat provider has no offer for this payer, account and amount";
    for reason in OffRampRefusal::ALL {
        let says = json!({ "reason": reason.wire() }).to_string();
        fiat.partner.answer("quote", Some(Scripted::Says(400, says)));
        let told = fiat.app.get(&path).with_key().send().await.expect(400)["message"].clone();
        assert_eq!(told, format!("{nothing}: {}", reason.sentence()));
        let public = forged(&fiat.app, Method::GET, &path).send().await.expect(400)["message"].clone();
        assert_eq!(public, nothing);
        let line = format!("\"quote\" reason=\"{}\"", reason.wire());
        assert_eq!(lines_logged_with(&line), 2, "{line}");
    }
}

#[tokio::test]
async fn a_burst_of_public_quotes_does_not_block_the_platform() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let request = fiat.request("10").await;
    let path = format!("/v2/request/{request}/pay?clientUserId=ada%2B1%40example.com&paymentDetailsId={account}");
    fiat.partner.behave(OffRampBehaviour::Slow);
    let burst = join_all((0..30).map(|_| forged(&fiat.app, Method::GET, &path).send()));
    let own = async {
        // Waits until the burst of callbacks has arrived.
        tokio::time::sleep(Duration::from_millis(200)).await;
        fiat.register("own-user", "Approved").await
    };
    let (burst, own) = tokio::join!(burst, own);
    own.expect(200);
    let sentence = "Too many calls to the crypto-to-fiat provider are in progress; try again";
    let busy = burst.iter().filter(|answer| answer.status == 502);
    assert!(busy.clone().all(|answer| answer.json()["message"] == sentence));
    assert_eq!(busy.count(), 22, "a holder has 8 slots");
    assert_eq!(burst.iter().filter(|answer| answer.status == 200).count(), 8);
}

#[tokio::test]
async fn malformed_ids_get_a_message_for_each_field() {
    let fiat = Fiat::start().await;
    let request = fiat.request("10").await;
    let good = "7d9f3c52-6b1e-4a8d-9c20-5e4f3a2b1c0d";
    for (user, account, field, sentence) in [
        (
            "ada%0A",
            good,
            "clientUserId",
            "must be one line of 1 to 255 characters",
        ),
        ("%20", good, "clientUserId", "must be one line of 1 to 255 characters"),
        ("", good, "clientUserId", "must be one line of 1 to 255 characters"),
        (
            &"x".repeat(256),
            good,
            "clientUserId",
            "must be one line of 1 to 255 characters",
        ),
        ("ada", "%0A", "paymentDetailsId", "must be a UUID, for example"),
        (
            "ada",
            &"x".repeat(65),
            "paymentDetailsId",
            "must be a UUID, for example",
        ),
        ("ada", "", "paymentDetailsId", "must be a UUID, for example"),
    ] {
        let path = format!("/v2/request/{request}/pay?clientUserId={user}&paymentDetailsId={account}");
        let refused = fiat.app.get(&path).with_key().send().await;
        assert_eq!(refused.wrong_fields(), [field], "{path}: {}", refused.text);
        let told = refused.expect(400)["errors"][0]["message"].clone();
        assert!(told.as_str().is_some_and(|told| told.starts_with(sentence)), "{told}");
    }
}

#[tokio::test]
async fn amounts_too_large_for_the_partner_are_rejected_on_pay() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request(&format!("1{}", "0".repeat(64))).await;
    let refused = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(400);
    assert!(
        refused["message"].as_str().is_some_and(|why| why.contains("too large")),
        "{refused}"
    );
    assert_eq!(fiat.partner.count("quote").await, 0);
}
