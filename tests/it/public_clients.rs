//! Client IDs with allowed domains are public: a caller that reads one off a page and forges its `Origin` gets no money
//! credited, no personal data and no secrets.

use crate::{
    documents::event_fits_its_schema,
    support::{
        Answer, TestApp,
        app::{PAGE, forged, settings},
        chain::PAYER,
        receiver::Receiver,
        requests::{PAYEE, fau},
        session::sign_in,
        wallet::{TestWallet, token},
    },
};
use poem::http::Method;
use prs::{domain::webhook::sign, settings::ClientIdManagement};
use serde_json::{Value, json};

const STRANGER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

#[track_caller]
fn refused(answer: &Answer, status: u16, part: &str) {
    assert_eq!(answer.status, status, "{}", answer.text);
    let message = answer.json()["message"].as_str().expect("text").to_owned();
    assert!(message.contains(part), "{message}");
}

#[tokio::test]
async fn dust_to_another_payee_is_never_a_payment_of_a_bound_merchant() {
    let app = TestApp::on_chain().await;
    let bearer = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let post = async |path: &str, body: &Value| {
        let call = app.post(path).header("authorization", &bearer);
        call.json(body).send().await.expect(201)
    };
    let destination = json!({ "tokenAddress": token(&app, "FAU-sepolia"), "chainId": 11_155_111 });
    let destination = post("/v1/payee-destination", &destination).await;
    let shop = json!({
        "label": "Shop", "allowedDomains": [PAGE], "payeeDestinationId": destination["id"],
    });
    let shop = post("/v1/client-ids", &shop).await;
    let receiver = Receiver::start().await;
    post("/v1/webhook", &json!({ "url": receiver.url() })).await;

    let ask = async |payee: &str| {
        let mut body = fau("0.000000000000000001");
        body["payee"] = json!(payee);
        body["reference"] = json!("order-1042");
        let call = app.post("/v2/request").header("origin", PAGE);
        let call = call.header("x-client-id", shop["clientId"].as_str().expect("text"));
        call.json(&body).send().await
    };
    let credited = ask(STRANGER).await;
    assert_eq!(credited.wrong_fields(), ["payee"], "{}", credited.text);
    refused(&credited, 400, "Validation failed");
    let own = destination["walletAddress"].as_str().map(str::to_owned);
    let own = own.unwrap_or_else(|| TestWallet::new(7).address().to_string());
    assert!(
        credited.text.contains(&own),
        "the response states the valid values: {}",
        credited.text
    );
    ask(&own.to_lowercase()).await.expect(201);
    app.settle().await;
    assert!(receiver.received().await.is_empty());
}

/// The body of a request with a customer and a payer, so that it contains all kinds of personal data.
fn ordered(app: &TestApp) -> Value {
    let mut body = fau("1");
    body["payer"] = json!(app.account(PAYER));
    body["customerInfo"] = json!({ "firstName": "Adelheid", "address": { "city": "Appenzell" } });
    body
}

/// Creates a request with the public client ID and pays it; returns its id.
async fn paid(app: &TestApp) -> String {
    let created = forged(app, Method::POST, "/v2/request")
        .json(&ordered(app))
        .send()
        .await;
    let id = created.expect(201)["requestId"].as_str().expect("text").to_owned();
    app.pay(&id, "").await;
    app.settle().await;
    id
}

#[track_caller]
fn names_nobody(app: &TestApp, text: &str) {
    let payer = app.account(PAYER);
    for told in ["Adelheid", "Appenzell", &payer, &payer.to_lowercase()] {
        assert!(!text.contains(told), "{told} in {text}");
    }
}

#[tokio::test]
async fn responses_to_a_public_client_id_contain_no_personal_data() {
    let app = TestApp::on_chain().await;
    let id = paid(&app).await;
    for (path, members) in [
        (
            format!("/v2/request/{id}"),
            &["/customerInfo", "/payerAddress", "/payerEoaAddress"][..],
        ),
        ("/v2/request".to_owned(), &["/requests/0/payer"]),
        (
            format!("/v2/payments?requestId={id}"),
            &["/payments/0/request/customerInfo"],
        ),
    ] {
        let told = app.get(&path).with_key().send().await.expect(200);
        let answer = forged(&app, Method::GET, &path).send().await;
        let kept_back = answer.expect(200);
        for member in members {
            let to_key = told.pointer(member);
            assert!(to_key.is_some_and(|value| !value.is_null()), "{path} {member}: {told}");
            assert_eq!(kept_back.pointer(member), Some(&Value::Null), "{path} {member}");
        }
        names_nobody(&app, &answer.text);
    }
}

#[tokio::test]
async fn unapproved_endpoints_of_public_client_ids_get_no_personal_data() {
    let app = TestApp::on_chain().await;
    let (all, scoped, own) = (
        Receiver::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let url = json!({ "url": all.url() });
    app.post("/v1/webhook").with_key().json(&url).send().await.expect(201);
    let url = json!({ "url": scoped.url(), "clientId": app.page_client });
    app.post("/v1/webhook").with_key().json(&url).send().await.expect(201);
    let url = json!({ "url": own.url() });
    let created = forged(&app, Method::POST, "/v1/webhook")
        .json(&url)
        .send()
        .await
        .expect(201);
    let (id, secret) = (
        created["id"].as_str().expect("text"),
        created["secret"].as_str().expect("text"),
    );

    let request = paid(&app).await;
    for receiver in [&all, &scoped] {
        let body = receiver.received().await[0].json();
        assert_eq!(body["customerInfo"], ordered(&app)["customerInfo"]);
        assert_eq!(body["payerAddress"], app.account(PAYER));
    }
    let heard = own.received().await;
    names_nobody(&app, &heard[0].body);
    let body = heard[0].json();
    event_fits_its_schema(&body);
    assert_eq!(
        (&body["requestId"], &body["event"]),
        (&json!(request), &json!("payment.confirmed"))
    );
    for member in ["customerInfo", "payerAddress", "payerEoaAddress"] {
        assert_eq!(body.get(member), Some(&Value::Null), "{member}");
    }
    let signature = heard[0].header("x-service-signature").expect("signed");
    assert_eq!(signature, sign(secret, heard[0].body.as_bytes()));

    // Endpoints that an API key registered for the client ID are hidden from visitors of the page.
    let listed = forged(&app, Method::GET, "/v1/webhook").send().await.expect(200);
    let seen: Vec<&Value> = listed["webhooks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["url"])
        .collect();
    assert_eq!(seen, [&own.url()]);
    assert_eq!(listed["webhooks"][0]["isApproved"], false);

    let path = format!("/v1/webhook/{id}/approve");
    refused(
        &forged(&app, Method::POST, &path).send().await,
        403,
        "is not accepted for this operation",
    );
    let (foreign, _) = app.other_tenant().await;
    let call = app.post(&path).header("x-api-key", &foreign);
    refused(&call.send().await, 404, "Webhook not found");
    for _ in 0..2 {
        let approved = app.post(&path).with_key().send().await.expect(200);
        assert_eq!(
            (&approved["isApproved"], &approved["url"]),
            (&json!(true), &json!(own.url()))
        );
    }
    paid(&app).await;
    let body = own.received().await[1].json();
    assert_eq!(body["customerInfo"], ordered(&app)["customerInfo"]);
    assert_eq!(body["payerAddress"], app.account(PAYER));

    let listed = forged(&app, Method::GET, "/v1/webhook").send().await.expect(200);
    assert_eq!(listed["webhooks"], json!([]));
    for method in [Method::PUT, Method::DELETE] {
        let path = format!("/v1/webhook/{id}");
        refused(&forged(&app, method, &path).send().await, 404, "Webhook not found");
    }
    let sample = json!({ "eventType": "payment.confirmed" });
    let tested = forged(&app, Method::POST, "/v1/webhook/test")
        .json(&sample)
        .send()
        .await;
    assert_eq!(tested.expect(200), json!({ "sent": 0, "failed": 0 }));
}

#[tokio::test]
async fn samples_for_unapproved_endpoints_match_their_schemas() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let url = json!({ "url": receiver.url() });
    forged(&app, Method::POST, "/v1/webhook")
        .json(&url)
        .send()
        .await
        .expect(201);
    for kind in prs::domain::event::CLIENT_KINDS {
        let sample = json!({ "eventType": kind });
        let sent = forged(&app, Method::POST, "/v1/webhook/test")
            .json(&sample)
            .send()
            .await;
        assert_eq!(sent.expect(200), json!({ "sent": 1, "failed": 0 }), "{kind}");
        let body = receiver.received().await.pop().expect("a delivery").json();
        assert_eq!(body["event"], kind);
        event_fits_its_schema(&body);
    }
}

#[tokio::test]
async fn public_client_ids_cannot_read_the_event_log_or_secrets() {
    let app = TestApp::start().await;
    let url = json!({ "url": "https://shop.example.com/hooks" });
    let created = forged(&app, Method::POST, "/v1/webhook")
        .json(&url)
        .send()
        .await
        .expect(201);
    let hook = created["id"].as_str().expect("text");
    let since = json!({ "since": "2020-01-01T00:00:00.000Z" });
    for (method, path, body) in [
        (Method::GET, "/v2/events".to_owned(), None),
        (Method::GET, "/v2/events/stream".to_owned(), None),
        (Method::GET, "/v2/deliveries".to_owned(), None),
        (Method::GET, "/v2/deliveries/summary".to_owned(), None),
        (Method::POST, "/v2/events/replay".to_owned(), Some(since)),
        (
            Method::POST,
            format!("/v1/webhook/{hook}/rotate-secret"),
            Some(json!({ "overlapSeconds": 0 })),
        ),
    ] {
        let call = forged(&app, method.clone(), &path);
        let call = match &body {
            Some(body) => call.json(body),
            None => call,
        };
        refused(&call.send().await, 403, "is public and cannot call this operation");
        if method == Method::GET && !path.ends_with("stream") {
            app.get(&path).with_client().send().await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_guessed_idempotency_key_reveals_no_secret() {
    let app = TestApp::start().await;
    let url = json!({ "url": "https://shop.example.com/hooks" });
    let call = || forged(&app, Method::POST, "/v1/webhook").header("idempotency-key", "hook-1");
    call().json(&url).send().await.expect(201);
    let guessed = call().json(&url).send().await;
    refused(&guessed, 409, "contains a secret");
    let request = || forged(&app, Method::POST, "/v2/request").header("idempotency-key", "order-1");
    let first = request().json(&fau("1")).send().await.expect(201);
    let again = request().json(&fau("1")).send().await.expect(201);
    assert_eq!(again, first, "a response without a secret is returned again");
}

#[tokio::test]
async fn a_stranger_cannot_occupy_a_pages_idempotency_key() {
    let app = TestApp::start().await;
    let pages = json!({ "label": "Two shops", "allowedDomains": [PAGE, "https://other.example.com"] });
    let client = app
        .post("/v2/client-ids")
        .with_key()
        .json(&pages)
        .send()
        .await
        .expect(201)["clientId"]
        .clone();
    let create = |page: &'static str, amount: &'static str| {
        let call = app
            .post("/v2/request")
            .header("origin", page)
            .header("idempotency-key", "order-1");
        let call = call
            .header("x-client-id", client.as_str().expect("text"))
            .json(&fau(amount));
        async move { call.send().await }
    };
    let stranger = create(PAGE, "1000").await.expect(201);
    let own = create(PAGE, "1").await;
    assert_ne!(own.expect(201), stranger, "another body makes another call");
    assert_eq!(own.header("idempotency-replayed"), None);
    let elsewhere = create("https://other.example.com", "1").await;
    assert_ne!(elsewhere.expect(201), own.json(), "so does another page");
    let again = create(PAGE, "1").await;
    assert_eq!(again.expect(201), own.json());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn the_operator_decides_which_client_ids_manage_endpoints() {
    for (setting, to_public, to_backend) in [
        (ClientIdManagement::All, 201, 201),
        (ClientIdManagement::Backend, 403, 201),
        (ClientIdManagement::Off, 403, 403),
    ] {
        let mut settings = settings();
        settings.webhooks.client_id_management = setting;
        let app = TestApp::with(settings, None).await;
        let url = |path: &str| json!({ "url": format!("https://shop.example.com/{path}") });
        let public = forged(&app, Method::POST, "/v1/webhook")
            .json(&url("public"))
            .send()
            .await;
        let backend = app.post("/v1/webhook").with_client().json(&url("backend")).send().await;
        assert_eq!((public.status, backend.status), (to_public, to_backend), "{setting:?}");
        if to_public == 403 {
            refused(&public, 403, "manage endpoints on this service");
            let listed = forged(&app, Method::GET, "/v1/webhook").send().await;
            refused(&listed, 403, "manage endpoints on this service");
        }
        app.post("/v1/webhook")
            .with_key()
            .json(&url("key"))
            .send()
            .await
            .expect(201);
    }
}

#[tokio::test]
async fn a_client_id_that_was_public_never_becomes_a_secret() {
    let app = TestApp::start().await;
    let bearer = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let send = async |method: Method, path: &str, body: Value| {
        let call = app.call(method, path).header("authorization", &bearer);
        call.json(&body).send().await
    };
    let events = async |client: &Value| {
        let call = app.get("/v2/events").header("origin", PAGE);
        let call = call.header("x-client-id", client["clientId"].as_str().expect("text"));
        call.send().await.status
    };
    let path = |client: &Value| format!("/v1/client-ids/{}", client["id"].as_str().expect("text"));
    let body = json!({ "label": "Shop", "allowedDomains": [PAGE] });
    let shop = send(Method::POST, "/v1/client-ids", body).await.expect(201);
    for more in [json!({}), json!({ "label": "Server" }), json!({ "status": "revoked" })] {
        let mut change = json!({ "allowedDomains": [] });
        let members = more.as_object().cloned().expect("an object");
        change.as_object_mut().expect("an object").extend(members);
        let answer = send(Method::PUT, &path(&shop), change).await;
        assert_eq!(answer.wrong_fields(), ["allowedDomains"], "{}", answer.text);
        assert!(
            answer
                .text
                .contains("stays public; create another client ID for servers"),
            "{}",
            answer.text
        );
    }
    assert_eq!(events(&shop).await, 403, "the event log stays closed");

    let body = json!({ "label": "Server" });
    let server = send(Method::POST, "/v1/client-ids", body).await.expect(201);
    assert_eq!(events(&server).await, 200);
    let change = json!({ "allowedDomains": [PAGE] });
    send(Method::PUT, &path(&server), change).await.expect(200);
    assert_eq!(events(&server).await, 403, "once it has pages it is public");
}

/// The path of the public client ID, with the id of its row in the API.
async fn page_client_path(app: &TestApp) -> String {
    let list = app.get("/v2/client-ids").with_key().send().await.expect(200);
    let clients = list
        .as_array()
        .or_else(|| list["clientIds"].as_array())
        .expect("a list");
    let page = clients
        .iter()
        .find(|client| client["clientId"] == json!(app.page_client));
    format!("/v2/client-ids/{}", page.expect("listed")["id"].as_str().expect("text"))
}

#[tokio::test]
async fn unapproved_endpoints_are_disabled_with_their_client_id() {
    let app = TestApp::on_chain().await;
    let (strange, scoped) = (Receiver::start().await, Receiver::start().await);
    let url = json!({ "url": strange.url() });
    let call = forged(&app, Method::POST, "/v1/webhook").json(&url);
    let hook = call.send().await.expect(201)["id"].clone();
    let url = json!({ "url": scoped.url(), "clientId": app.page_client });
    app.post("/v1/webhook").with_key().json(&url).send().await.expect(201);
    let path = page_client_path(&app).await;
    let mut requests = Vec::new();
    for _ in 0..4 {
        let created = forged(&app, Method::POST, "/v2/request").json(&fau("1")).send().await;
        requests.push(created.expect(201)["requestId"].as_str().expect("text").to_owned());
    }
    let heard = async |app: &TestApp, request: &str| {
        app.pay(request, "").await;
        app.settle().await;
        (strange.received().await.len(), scoped.received().await.len())
    };
    let set = async |status: &str| {
        let call = app.call(Method::PUT, &path).with_key();
        call.json(&json!({ "status": status })).send().await.expect(200);
    };
    assert_eq!(heard(&app, &requests[0]).await, (1, 1));
    set("inactive").await;
    assert_eq!(heard(&app, &requests[1]).await, (1, 2));
    set("active").await;
    assert_eq!(heard(&app, &requests[2]).await, (2, 3));
    app.call(Method::DELETE, &path).with_key().send().await.expect(200);
    let list = app.get("/v1/webhook").with_key().send().await.expect(200);
    for one in list["webhooks"].as_array().expect("a list") {
        assert_eq!(one["isActive"], json!(one["id"] != hook), "{one}");
    }
    // Enabled by its owner, it still receives nothing.
    let toggle = format!("/v1/webhook/{}", hook.as_str().expect("text"));
    app.call(Method::PUT, &toggle).with_key().send().await.expect(200);
    assert_eq!(heard(&app, &requests[3]).await, (2, 4));
}

#[tokio::test]
async fn unapproved_endpoints_stop_when_public_client_ids_may_not_manage() {
    let app = TestApp::on_chain().await;
    let strange = Receiver::start().await;
    let url = json!({ "url": strange.url() });
    forged(&app, Method::POST, "/v1/webhook")
        .json(&url)
        .send()
        .await
        .expect(201);
    paid(&app).await;
    assert_eq!(strange.received().await.len(), 1);
    let app = app
        .restarted_with(|settings| settings.webhooks.client_id_management = ClientIdManagement::Backend)
        .await;
    paid(&app).await;
    assert_eq!(strange.received().await.len(), 1);
}

#[tokio::test]
async fn a_public_client_id_cannot_search_payments_by_payer() {
    let app = TestApp::on_chain().await;
    let id = paid(&app).await;
    let payer = app.account(PAYER);
    for (query, to_key, to_public) in [
        (format!("walletAddress={payer}"), 1, 0),
        (format!("walletAddress={payer}&requestId={id}"), 1, 0),
        (format!("walletAddress={PAYEE}"), 1, 1),
        (format!("walletAddress={PAYEE}&requestId={id}"), 1, 1),
    ] {
        let path = format!("/v2/payments?{query}");
        let count = |answer: Answer| answer.expect(200)["payments"].as_array().map(Vec::len);
        let by_key = count(app.get(&path).with_key().send().await);
        let by_public = count(forged(&app, Method::GET, &path).send().await);
        assert_eq!((by_key, by_public), (Some(to_key), Some(to_public)), "{query}");
    }
}

#[tokio::test]
async fn a_public_client_id_stops_only_its_own_requests() {
    let app = TestApp::start().await;
    let mut body = fau("1");
    body["recurrence"] = json!({ "startDate": "2030-01-01", "frequency": "MONTHLY" });
    let of_platform = app.create_request(&body).await;
    let own = forged(&app, Method::POST, "/v2/request").json(&body).send().await;
    let own = own.expect(201)["requestId"].as_str().expect("text").to_owned();
    let stop = async |id: &str| {
        let call = forged(&app, Method::PATCH, &format!("/v2/request/{id}"));
        call.json(&json!({ "isRecurrenceStopped": true })).send().await
    };
    refused(&stop(&of_platform).await, 403, "that it created");
    assert_eq!(app.read_request(&of_platform).await["isRecurrenceStopped"], false);
    stop(&own).await.expect(200);
}
