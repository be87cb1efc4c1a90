//! Creating, reading, listing and changing requests.

use crate::support::{
    TestApp,
    requests::{PAYEE, fau},
};
use poem::http::Method;
use serde_json::json;

#[tokio::test]
async fn a_request_is_created_and_read_back() {
    let app = TestApp::start().await;
    let mut input = fau("1.50");
    input["reference"] = json!("INV-1042");
    input["payer"] = json!("0x90F79bf6EB2c4f870365E785982E1f101E93b906");
    input["customerInfo"] = json!({ "firstName": "Ada", "email": "ada@example.com", "address": { "country": "GB" } });
    input["somethingElse"] = json!({ "is": "ignored" });
    let created = app.post("/v2/request").with_key().json(&input).send().await.expect(201);
    let id = created["requestId"].as_str().expect("an id");
    assert!(id.starts_with("01") && id.len() == 66, "{id}");
    assert_eq!(created["paymentReference"].as_str().expect("a reference").len(), 18);
    let read = app.read_request(id).await;
    assert_eq!(read["status"], "pending");
    assert_eq!(read["hasBeenPaid"], false);
    assert_eq!(read["requestAmount"], "1.5");
    assert_eq!(read["paidAmount"], "0");
    assert_eq!(read["paymentReference"], created["paymentReference"]);
    assert_eq!(read["reference"], "INV-1042");
    assert_eq!(read["customerInfo"], input["customerInfo"]);
    assert_eq!(read["payments"], json!([]));
    assert_eq!(read["fees"], json!([]));
    assert_eq!(read["conversionRate"], "1");
    assert_eq!(read["isListening"], false);
    for absent in [
        "recurrence",
        "originalRequestId",
        "originalRequestPaymentReference",
        "detectedAmount",
        "excessAmount",
    ] {
        assert!(read.get(absent).is_none(), "{absent} in {read}");
    }
    for null in [
        "txHash",
        "amountInUsd",
        "conversionBreakdown",
        "payerAddress",
        "payerEoaAddress",
    ] {
        assert_eq!(read.get(null), Some(&json!(null)), "{null} in {read}");
    }
}

#[tokio::test]
async fn omitted_fields_are_null_and_numbers_are_integers() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1.50")).await;
    let read = app.read_request(&id).await;
    assert_eq!(read.get("customerInfo"), Some(&json!(null)));
    assert_eq!(read.get("reference"), Some(&json!(null)));
    let list = app.get("/v2/request").with_key().send().await;
    assert!(
        list.text
            .ends_with(r#""pagination":{"total":1,"limit":20,"offset":0,"hasMore":false}}"#),
        "{}",
        list.text
    );
    assert_eq!(list.expect(200)["requests"][0].get("payer"), Some(&json!(null)));
    let coin = json!({ "payee": PAYEE, "amount": "1", "invoiceCurrency": "ETH-sepolia-sepolia", "paymentCurrency": "ETH-sepolia-sepolia" });
    let id = app.create_request(&coin).await;
    let pay = app.get(&format!("/v2/request/{id}/pay")).with_client().send().await;
    let steps =
        r#""stepsRequired":1,"needsApproval":false,"approvalTransactionIndex":null,"paymentTransactionIndex":0"#;
    assert!(pay.text.contains(steps), "{}", pay.text);
}

#[tokio::test]
async fn a_dollar_token_has_its_amount_in_dollars() {
    let app = TestApp::start().await;
    let mut input = fau("1.50");
    input["invoiceCurrency"] = json!("USDC-sepolia");
    input["paymentCurrency"] = json!("fUSDC-sepolia");
    let id = app.create_request(&input).await;
    let read = app.read_request(&id).await;
    assert_eq!(read["amountInUsd"], "1.5");
    assert_eq!(
        read["paymentCurrency"], "USDC-sepolia",
        "an alias becomes the canonical id"
    );
}

#[tokio::test]
async fn a_request_belongs_to_its_tenant() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1.50")).await;
    let (other_key, other_client) = app.other_tenant().await;
    for (method, path) in [
        (Method::GET, format!("/v2/request/{id}")),
        (Method::GET, format!("/v2/request/{id}/pay")),
        (Method::PATCH, format!("/v2/request/{id}")),
    ] {
        let mut unknown_path = path.clone();
        unknown_path = unknown_path.replace(&id, &format!("01{}", "0".repeat(64)));
        let change = json!({ "isRecurrenceStopped": true });
        let foreign = app
            .call(method.clone(), &path)
            .header("x-api-key", &other_key)
            .json(&change)
            .send()
            .await;
        let unknown = app
            .call(method, &unknown_path)
            .header("x-api-key", &other_key)
            .json(&change)
            .send()
            .await;
        assert_eq!(foreign.expect(404)["message"], unknown.expect(404)["message"], "{path}");
    }
    let list = app
        .get("/v2/request")
        .header("x-client-id", &other_client)
        .send()
        .await
        .expect(200);
    assert_eq!(list["requests"], json!([]));
    let own = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(own["requests"][0]["requestId"], id.as_str());
}

#[tokio::test]
async fn a_list_is_paged_newest_first_and_limited_to_the_client_id() {
    let app = TestApp::start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(app.create_request(&fau("1.50")).await);
        app.advance_ms(1);
    }
    app.post("/v2/request")
        .with_key()
        .json(&fau("1.50"))
        .send()
        .await
        .expect(201);
    let page = app.get("/v2/request?limit=2").with_client().send().await.expect(200);
    assert_eq!(
        page["pagination"],
        json!({ "total": 3, "limit": 2, "offset": 0, "hasMore": true })
    );
    assert_eq!(page["requests"][0]["requestId"], ids[2].as_str());
    let rest = app
        .get("/v2/request?limit=2&offset=2")
        .with_client()
        .send()
        .await
        .expect(200);
    assert_eq!(rest["requests"].as_array().expect("a list").len(), 1);
    assert_eq!(rest["pagination"]["hasMore"], false);
    let all = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(all["pagination"]["total"], 4);
    let wallet = app
        .get(&format!("/v2/request?walletAddress={PAYEE}"))
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(wallet["pagination"]["total"], 4);
    let nobody = app
        .get("/v2/request?walletAddress=0x90F79bf6EB2c4f870365E785982E1f101E93b906")
        .with_key()
        .send()
        .await;
    assert_eq!(nobody.expect(200)["pagination"]["total"], 0);
}

#[tokio::test]
async fn a_start_date_has_exactly_one_format() {
    let app = TestApp::start().await;
    let mut input = fau("1");
    for text in [
        "  2030-01-01",
        "\t2030-01-01",
        "2030-01-01 ",
        "2030-1-1",
        "+12030-01-01",
        "-2030-01-01",
        "2030-02-30",
        "2030-01-01 00:00:00Z",
        "2030-01-01T25:00:00Z",
        "2030-01-01T00:00:00",
        "2030",
    ] {
        input["recurrence"] = json!({ "startDate": text, "frequency": "DAILY" });
        let answer = app.post("/v2/request").with_key().json(&input).send().await;
        assert_eq!(answer.status, 400, "{text:?}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), ["recurrence.startDate"], "{text:?}");
    }
}

#[tokio::test]
async fn a_recurrence_is_stopped_and_resumed() {
    let app = TestApp::start().await;
    let mut input = fau("1.50");
    input["recurrence"] = json!({ "startDate": "2030-01-01", "frequency": "MONTHLY" });
    let id = app.create_request(&input).await;
    assert_eq!(app.read_request(&id).await["recurrence"], input["recurrence"]);
    for time in ["2030-01-01T23:59:59Z", "2030-01-01T23:59:59+00:00"] {
        let mut timed = input.clone();
        timed["recurrence"]["startDate"] = json!(time);
        let timed = app.create_request(&timed).await;
        assert_eq!(
            app.read_request(&timed).await["recurrence"],
            input["recurrence"],
            "{time}"
        );
    }
    for stopped in [true, false] {
        let change = json!({ "isRecurrenceStopped": stopped });
        let answer = app
            .call(Method::PATCH, &format!("/v2/request/{id}"))
            .with_client()
            .json(&change)
            .send()
            .await;
        assert_eq!(
            answer.expect(200),
            json!({ "requestId": id, "isRecurrenceStopped": stopped })
        );
        assert_eq!(app.read_request(&id).await["isRecurrenceStopped"], stopped);
    }
    let single = app.create_request(&fau("1.50")).await;
    let change = json!({ "isRecurrenceStopped": true });
    let refused = app
        .call(Method::PATCH, &format!("/v2/request/{single}"))
        .with_client()
        .json(&change)
        .send()
        .await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.wrong_fields(), ["isRecurrenceStopped"]);
}
