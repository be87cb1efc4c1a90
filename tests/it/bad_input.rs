//! Invalid input: each case returns a 4xx that names the field and the valid format.

use crate::support::{
    Answer, TestApp,
    requests::{PAYEE, fau},
};
use poem::http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[track_caller]
fn names(answer: &Answer, field: &str) {
    let json = answer.json();
    assert_eq!(answer.status, 400, "{field}: {json}");
    assert_eq!(json["statusCode"], 400);
    assert_eq!(json["error"], "Bad Request");
    assert!(json["message"].is_string());
    let errors = json["errors"].as_array().unwrap_or_else(|| panic!("errors in {json}"));
    let found = errors
        .iter()
        .find(|error| error["field"] == field)
        .unwrap_or_else(|| panic!("{field} in {json}"));
    assert!(
        found["message"].as_str().is_some_and(|message| message.len() > 8),
        "{found}"
    );
}

#[tokio::test]
async fn an_invalid_value_names_its_field() {
    let app = TestApp::start().await;
    let long = "x".repeat(256);
    let cases: Vec<(&str, &str, Value)> = vec![
        ("amount", "amount", json!("0")),
        ("amount", "amount", json!("-1")),
        ("amount", "amount", json!("1e3")),
        ("amount", "amount", json!("１０")),
        ("amount", "amount", json!(10)),
        ("amount", "amount", json!("")),
        ("amount", "amount", json!("1.0000000000000000001")),
        ("amount", "amount", json!("9".repeat(78))),
        ("amount", "amount", json!(null)),
        ("payee", "payee", json!("0x70997970c51812dc3A010C7d01b50e0d17dc79C8")),
        ("payee", "payee", json!("0x0000000000000000000000000000000000000000")),
        ("payee", "payee", json!("0x70997970C51812dc3A010C7d01b50e0d17dc79C")),
        ("payee", "payee", json!("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t")),
        ("payee", "payee", json!("0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238")),
        ("payer", "payer", json!("nobody")),
        ("invoiceCurrency", "invoiceCurrency", json!("NOPE-sepolia")),
        ("paymentCurrency", "paymentCurrency", json!("NOPE-sepolia")),
        ("paymentCurrency", "paymentCurrency", json!("USD")),
        ("paymentCurrency", "paymentCurrency", json!("USDC-base")),
        ("paymentCurrency", "paymentCurrency", json!("USDC-sepolia")),
        ("paymentCurrency", "paymentCurrency", json!("USDT-tron")),
        ("reference", "reference", json!("")),
        ("reference", "reference", json!(long)),
        (
            "recurrence",
            "recurrence.startDate",
            json!({ "startDate": "2020-01-01", "frequency": "DAILY" }),
        ),
        (
            "recurrence",
            "recurrence.startDate",
            json!({ "startDate": "2030-01-01T23:00:00-05:00", "frequency": "DAILY" }),
        ),
        (
            "recurrence",
            "recurrence.frequency",
            json!({ "startDate": "2030-01-01", "frequency": "HOURLY" }),
        ),
        ("customerInfo", "customerInfo.email", json!({ "email": "no-address" })),
        (
            "customerInfo",
            "customerInfo.address.country",
            json!({ "address": { "country": "GBR" } }),
        ),
        ("isCryptoToFiatAvailable", "isCryptoToFiatAvailable", json!(true)),
        ("isCryptoToFiatAvailable", "isCryptoToFiatAvailable", json!("true")),
    ];
    for (member, field, value) in cases {
        let mut input = fau("1");
        input[member] = value.clone();
        let answer = app.post("/v2/request").with_key().json(&input).send().await;
        names(&answer, field);
        if let Some(text) = value.as_str().filter(|text| text.len() > 30) {
            assert!(!answer.text.contains(text), "input is not echoed: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn an_evm_payee_is_rejected_for_a_tron_currency() {
    let app = TestApp::start().await;
    let mut input = fau("1");
    input["invoiceCurrency"] = json!("USDT-tron");
    input["paymentCurrency"] = json!("USDT-tron");
    let answer = app.post("/v2/request").with_key().json(&input).send().await;
    names(&answer, "paymentCurrency");
    assert!(answer.text.contains("not enabled"), "{}", answer.text);
}

#[tokio::test]
async fn amounts_with_more_decimals_than_the_token_are_rejected() {
    let app = TestApp::start().await;
    let mut input = fau("1");
    input["invoiceCurrency"] = json!("USDC-sepolia");
    input["paymentCurrency"] = json!("USDC-sepolia");
    input["amount"] = json!("1.0000001");
    let answer = app.post("/v2/request").with_key().json(&input).send().await;
    names(&answer, "amount");
    assert!(answer.text.contains("at most 6 fraction digits"), "{}", answer.text);
}

#[tokio::test]
async fn one_response_names_every_invalid_field() {
    let app = TestApp::start().await;
    let input = json!({ "payee": 7, "amount": "0.00", "invoiceCurrency": "", "customerInfo": { "email": "no" } });
    let mut fields = app
        .post("/v2/request")
        .with_key()
        .json(&input)
        .send()
        .await
        .wrong_fields();
    fields.sort();
    assert_eq!(
        fields,
        [
            "amount",
            "customerInfo.email",
            "invoiceCurrency",
            "payee",
            "paymentCurrency"
        ]
    );
    let input = json!({ "payee": "0x0000000000000000000000000000000000000000", "amount": "1", "invoiceCurrency": "A", "paymentCurrency": "B" });
    let mut fields = app
        .post("/v2/request")
        .with_key()
        .json(&input)
        .send()
        .await
        .wrong_fields();
    fields.sort();
    assert_eq!(fields, ["invoiceCurrency", "payee", "paymentCurrency"]);
    let query = "txHash=0x1&walletAddress=x&type=gift&fromDate=yesterday&toDate=2026-01-01&limit=101&offset=-1";
    let mut fields = app
        .get(&format!("/v2/payments?{query}"))
        .with_key()
        .send()
        .await
        .wrong_fields();
    fields.sort();
    assert_eq!(
        fields,
        [
            "fromDate",
            "limit",
            "offset",
            "toDate",
            "txHash",
            "type",
            "walletAddress"
        ]
    );
}

#[tokio::test]
async fn a_search_names_all_invalid_parameters_in_one_response() {
    let app = TestApp::start().await;
    let dates = "fromDate=2026-01-02T00:00:00Z&toDate=2026-01-01T00:00:00Z";
    for (query, wrong) in [
        ("limit=0".to_owned(), ["limit", "query"].as_slice()),
        (format!("limit=0&type=direct&{dates}"), &["limit", "toDate"]),
        (format!("type=nix&{dates}"), &["toDate", "type"]),
        ("limit=0&invoiceCurrency=XXX".to_owned(), &["invoiceCurrency", "limit"]),
        (
            "invoiceCurrency=XXX&paymentCurrency=YYY".to_owned(),
            &["invoiceCurrency", "paymentCurrency"],
        ),
        (
            format!("invoiceCurrency=XXX&cursor={}", "A".repeat(64)),
            &["cursor", "invoiceCurrency"],
        ),
        ("type=nix".to_owned(), &["type"]),
    ] {
        let answer = app.get(&format!("/v2/payments?{query}")).with_key().send().await;
        let mut fields = answer.wrong_fields();
        fields.sort();
        assert_eq!(fields, wrong, "{query}");
    }
    for (query, wrong) in [
        (format!("format=xml&{dates}"), ["format", "query", "toDate"].as_slice()),
        (
            format!("txHash=0x1&invoiceCurrency=XXX&{dates}"),
            &["invoiceCurrency", "toDate", "txHash"],
        ),
    ] {
        let answer = app.get(&format!("/v2/payments/export?{query}")).with_key().send().await;
        let mut fields = answer.wrong_fields();
        fields.sort();
        assert_eq!(fields, wrong, "{query}");
    }
}

#[tokio::test]
async fn search_parameters_are_validated() {
    let app = TestApp::start().await;
    let hash_65 = format!("0x{}", "a".repeat(63));
    for (query, field) in [
        (format!("txHash={hash_65}"), "txHash"),
        ("reference=a&limit=101".to_owned(), "limit"),
        ("reference=a&limit=0".to_owned(), "limit"),
        ("reference=a&limit=ten".to_owned(), "limit"),
        ("reference=a&offset=10001".to_owned(), "offset"),
        ("reference=a&fromDate=2026-02-30T00:00:00Z".to_owned(), "fromDate"),
        (
            "reference=a&fromDate=2026-02-28T00:00:00%2B00:00".to_owned(),
            "fromDate",
        ),
        ("reference=a&toDate=2026-02-28T00:00:00-05:00".to_owned(), "toDate"),
        ("reference=a&toDate=2026-01-01T00:00:00%2B01:00".to_owned(), "toDate"),
        (
            "walletAddress=0x70997970c51812dc3A010C7d01b50e0d17dc79C8".to_owned(),
            "walletAddress",
        ),
        ("invoiceCurrency=DOUBLOON".to_owned(), "invoiceCurrency"),
        ("paymentCurrency=USDC-atlantis".to_owned(), "paymentCurrency"),
        ("type=gift".to_owned(), "type"),
    ] {
        names(
            &app.get(&format!("/v2/payments?{query}")).with_key().send().await,
            field,
        );
    }
    let order = "reference=a&fromDate=2026-01-02T00:00:00Z&toDate=2026-01-01T00:00:00Z";
    let answer = app
        .get(&format!("/v2/payments?{order}"))
        .with_key()
        .send()
        .await
        .expect(400);
    assert_eq!(
        answer["errors"][0],
        json!({ "field": "toDate", "message": "toDate must be after or equal to fromDate" })
    );
    for query in [
        "",
        "limit=5",
        "fromDate=2026-01-01T00:00:00Z&toDate=2026-01-02T00:00:00Z",
    ] {
        let answer = app
            .get(&format!("/v2/payments?{query}"))
            .with_key()
            .send()
            .await
            .expect(400);
        assert_eq!(answer["message"], "Validation failed");
        assert_eq!(
            answer["errors"][0]["message"],
            "At least one search parameter must be provided"
        );
    }
}

#[tokio::test]
async fn calldata_parameters_are_validated() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    for (query, field) in [
        ("wallet=0x1", "wallet"),
        ("amount=0", "amount"),
        ("amount=1.0000000000000000001", "amount"),
        ("feePercentage=1", "feeAddress"),
        ("feeAddress=0x90F79bf6EB2c4f870365E785982E1f101E93b906", "feePercentage"),
        (
            "feePercentage=100.01&feeAddress=0x90F79bf6EB2c4f870365E785982E1f101E93b906",
            "feePercentage",
        ),
        (
            "feePercentage=1&feeAddress=0x0000000000000000000000000000000000000000",
            "feeAddress",
        ),
        ("chain=BASE", "token"),
        ("token=USDC", "chain"),
        ("chain=BASE&token=USDC", "chain"),
        ("clientUserId=me", "clientUserId"),
    ] {
        names(
            &app.get(&format!("/v2/request/{id}/pay?{query}"))
                .with_key()
                .send()
                .await,
            field,
        );
    }
    let refused = app
        .get(&format!("/v2/request/{id}/pay?wallet=0x12"))
        .with_key()
        .send()
        .await;
    assert_eq!(
        refused.expect(400)["errors"],
        json!([{ "field": "wallet", "message": "Invalid Ethereum address" }])
    );
    let unknown = app.get("/v2/request/01ff/pay").with_key().send().await;
    assert!(unknown.status == 404 || unknown.status == 400, "{}", unknown.text);
}

#[tokio::test]
async fn bodies_other_than_json_objects_are_rejected() {
    let app = TestApp::start().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let nested = format!("{{\"payee\":{deep}}}");
    for text in [
        "",
        "{",
        "[]",
        "null",
        "\"text\"",
        nested.as_str(),
        "{\"amount\":\"1\",\"amount\":\"2\"}",
        "{\"a\":1}x",
    ] {
        let answer = app.post("/v2/request").with_key().text(text).send().await;
        assert_eq!(answer.status, 400, "{text}: {}", answer.text);
        assert_eq!(answer.json()["error"], "Bad Request");
    }
    let twice = app
        .post("/v2/request")
        .with_key()
        .text("{\"amount\":\"1\",\"amount\":\"2\"}")
        .send()
        .await;
    assert!(twice.text.contains("amount"), "the member is named: {}", twice.text);
    let large = json!({ "reference": "x".repeat(2_000_000) });
    let answer = app.post("/v2/request").with_key().json(&large).send().await;
    assert_eq!(answer.expect(413)["error"], "Payload Too Large");
    let form = app.post("/v2/request").with_key().form(fau("1").to_string());
    form.send().await.expect(400);
}

#[tokio::test]
async fn missing_and_invalid_credentials_are_rejected() {
    let app = TestApp::start().await;
    let none = app.get("/v2/currencies").send().await;
    assert_eq!(none.expect(401)["error"], "Unauthorized");
    app.get("/v2/currencies")
        .header("x-api-key", "sk_unknown")
        .send()
        .await
        .expect(401);
    app.get("/v2/currencies")
        .header("x-client-id", "cli_unknown")
        .send()
        .await
        .expect(401);
    let misplaced = app.get("/v2/client-ids").with_client().send().await.expect(403);
    assert_eq!(misplaced["hint"], "This operation requires x-api-key");
    let page = app.page_client.clone();
    let missing = app.get("/v2/currencies").header("x-client-id", &page).send().await;
    assert_eq!(missing.expect(401)["message"], "Origin header is required");
    for origin in [
        "http://localhost:3001",
        "https://localhost:3000",
        "http://evil-localhost:3000",
        "null",
        "http://localhost:3000.evil.com",
    ] {
        let foreign = app
            .get("/v2/currencies")
            .header("x-client-id", &page)
            .header("origin", origin)
            .send()
            .await;
        assert_eq!(foreign.status, 403, "{origin}");
    }
    let good = app
        .get("/v2/currencies")
        .header("x-client-id", &page)
        .header("origin", "http://localhost:3000")
        .send()
        .await;
    good.expect(200);
    assert_eq!(
        good.header("access-control-allow-origin"),
        Some("http://localhost:3000")
    );
    assert!(
        good.header("vary")
            .is_some_and(|vary| vary.to_lowercase().contains("origin"))
    );
}

#[tokio::test]
async fn a_revoked_key_is_rejected_and_two_keys_work_in_parallel() {
    let app = TestApp::start().await;
    let new = &prs::flows::keys::create(&app.ctx, &app.platform, Some("second"))
        .await
        .expect("a key");
    app.get("/v2/currencies")
        .header("x-api-key", new.key.reveal())
        .send()
        .await
        .expect(200);
    app.get("/v2/currencies").with_key().send().await.expect(200);
    prs::flows::keys::revoke(&app.ctx, &app.platform, &new.row.id)
        .await
        .expect("revoked");
    let app = app.restarted().await;
    app.get("/v2/currencies")
        .header("x-api-key", new.key.reveal())
        .send()
        .await
        .expect(401);
    app.get("/v2/currencies").with_key().send().await.expect(200);
}

#[tokio::test]
async fn unknown_routes_and_methods_return_the_same_body_shape() {
    let app = TestApp::start().await;
    let unknown = app.get("/v2/nowhere").send().await;
    let body = unknown.expect(404);
    let members: Vec<&String> = body.as_object().expect("an object").keys().take(3).collect();
    assert_eq!(members, ["statusCode", "message", "error"]);
    assert_eq!(
        (&body["statusCode"], &body["message"], &body["error"]),
        (&json!(404), &json!("Cannot GET /v2/nowhere"), &json!("Not Found"))
    );
    let method = app.call(Method::DELETE, "/v2/request").send().await;
    assert_eq!(method.expect(405)["error"], "Method Not Allowed");
    let allow = method.header("allow").expect("Allow");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    assert!(method.header("x-request-id").is_some());
}

#[tokio::test]
async fn displayed_texts_reject_control_and_invisible_characters() {
    let app = TestApp::start().await;
    let request = |more: Value| {
        let mut body = fau("1");
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().expect("an object"));
        app.post("/v2/request").with_key().json(&body)
    };
    for mark in [
        "\n",
        "\r",
        "\u{1b}[2J",
        "\u{85}",
        "\u{9b}2J",
        "\u{2028}",
        "\u{202e}",
        "\u{2066}",
        "\u{200f}",
        "\u{200b}",
        "\u{2060}",
        "\u{feff}",
        "\u{ad}",
        "\u{180e}",
        "\u{3164}",
        "\u{fff9}",
        "\u{fffb}",
        "\u{fffe}",
        "\u{e0041}",
        "\u{e007f}",
    ] {
        let text = format!("Web{mark} shop");
        for (field, more) in [
            ("reference", json!({ "reference": text })),
            (
                "customerInfo.firstName",
                json!({ "customerInfo": { "firstName": text } }),
            ),
            (
                "customerInfo.address.street",
                json!({ "customerInfo": { "address": { "street": text } } }),
            ),
        ] {
            names(&request(more).send().await, field);
        }
        let body = json!({ "label": text, "allowedDomains": ["https://example.com"] });
        names(&app.post("/v2/client-ids").with_key().json(&body).send().await, "label");
    }
    for fine in [
        "Zoë & Søn GmbH",
        "مثال",
        "👩\u{200d}👧 shop",
        "می\u{200c}خواهم",
        "❤\u{fe0f}",
    ] {
        let answer = request(json!({ "reference": fine })).send().await;
        assert_eq!(answer.status, 201, "{fine}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_number_without_a_fraction_is_an_integer_in_any_notation() {
    let app = TestApp::start().await;
    let call = async |expiry: &str| {
        let body = format!(
            r#"{{"label":"Shop","allowedDomains":["https://shop.example.com"],"defaultPreApprovalExpiry":{expiry}}}"#
        );
        app.post("/v2/client-ids").with_key().text(body).send().await
    };
    for written in ["600", "600.0", "6e2", "6.0E+2"] {
        let created = call(written).await.expect(201);
        assert_eq!(created["defaultPreApprovalExpiry"].to_string(), "600", "{written}");
    }
    for written in ["600.5", "6e-2", "-1.0", "1e20", "1e300", "9223372036854775808"] {
        names(&call(written).await, "defaultPreApprovalExpiry");
    }
}

#[tokio::test]
async fn a_response_names_at_most_a_thousand_invalid_fields_and_says_so() {
    let app = TestApp::start().await;
    let limits = json!({
        "label": "Shop", "allowedDomains": ["https://shop.example.com"],
        "allowedPayees": ["0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567"], "allowedCurrencies": ["USDT-base"],
        "allowedNetworks": ["base"], "maxAmount": { "amount": "1", "currency": "USDT-base" },
    });
    let client = app.post("/v2/client-ids").with_key().json(&limits).send().await;
    let client = client.expect(201)["clientId"].as_str().expect("text").to_owned();
    let post = async |body: Value| {
        let call = app.post("/v2/payouts/batch").header("x-client-id", &client);
        let call = call.header("origin", "https://shop.example.com");
        call.json(&body).send().await
    };
    let of = |requests: Value| json!({ "payer": PAYEE, "requests": requests });
    let call = async |requests: Value| post(of(requests)).await;
    let beyond = fau("10");
    let each = call(json!([beyond])).await.wrong_fields().len();
    assert!(each > 5, "{each} limits");
    // By the schema, four fields are missing in each entry and more are invalid.
    let ids: Vec<String> = (0..200).map(|number| format!("no id {number}")).collect();
    let by_schema = json!({ "payer": 1, "requests": vec![json!({}); 200], "requestIds": ids });
    for body in [of(json!(vec![beyond; 200])), by_schema] {
        let refused = post(body).await;
        assert_eq!(refused.status, 400);
        assert_eq!(refused.wrong_fields().len(), 1_000);
        let hint = refused.json()["hint"].clone();
        assert_eq!(
            hint,
            "More than 1000 fields are wrong; `errors` lists the first 1000 of them"
        );
    }
    let refused = call(json!(vec![1; 199])).await;
    assert_eq!((refused.wrong_fields().len(), refused.json().get("hint")), (199, None));
    let refused = call(json!(vec![1; 1_100])).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["requests".to_owned()])
    );
}

#[tokio::test]
async fn an_overlong_text_gets_one_description_of_its_format() {
    let app = TestApp::start().await;
    let body = fau(&"1".repeat(200));
    let refused = app.post("/v2/request").with_key().json(&body).send().await;
    assert_eq!(refused.wrong_fields(), ["amount"]);
    assert_eq!(refused.text.matches("for example").count(), 1, "{}", refused.text);
}

#[tokio::test]
async fn a_call_must_have_exactly_one_valid_host_header() {
    let app = TestApp::start().await;
    let address = app.listen().await;
    let status = async |version: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
        let head = format!(
            "GET /v2/currencies HTTP/{version}\r\nx-api-key: {}\r\nconnection: close\r\n{hosts}\r\n",
            app.key
        );
        let mut stream = TcpStream::connect(address).await.expect("connects");
        stream.write_all(head.as_bytes()).await.expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        assert!(answer.contains("x-request-id: "), "{answer}");
        answer[9..12].to_owned()
    };
    let own = address.to_string();
    for good in [own.as_str(), "api.example.com", "[::1]:8080", "localhost"] {
        assert_eq!(status("1.1", &[good]).await, "200", "{good}");
    }
    assert_eq!(status("1.0", &[]).await, "200", "HTTP/1.0 needs no host");
    assert_eq!(status("1.1", &[]).await, "400", "no host");
    assert_eq!(status("1.1", &[&own, "evil.example"]).await, "400", "two hosts");
    assert_eq!(status("1.1", &[&own, &own]).await, "400", "the same host twice");
    for bad in ["a b", "a@b", "a/b", "a, b", "a:b", ""] {
        assert_eq!(status("1.1", &[bad]).await, "400", "{bad}");
    }
}
