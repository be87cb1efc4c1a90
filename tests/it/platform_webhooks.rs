//! Endpoints of a whole platform, in addition to those of its client IDs.

use crate::support::{TestApp, receiver::Receiver, requests::fau};
use poem::http::Method;
use serde_json::{Value, json};

async fn list(app: &TestApp) -> Vec<Value> {
    let listed = app.get("/v1/webhook").with_key().send().await.expect(200);
    listed["webhooks"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn an_api_key_manages_endpoints_of_the_platform_and_of_its_client_ids() {
    let app = TestApp::start().await;
    let url = json!({ "url": "https://shop.example.com/all" });
    app.post("/v1/webhook").with_key().json(&url).send().await.expect(201);
    app.post("/v1/webhook").with_key().json(&url).send().await.expect(409);
    let scoped = json!({ "url": "https://shop.example.com/all", "clientId": app.backend_client });
    let created = app
        .post("/v1/webhook")
        .with_key()
        .json(&scoped)
        .send()
        .await
        .expect(201);
    app.post("/v1/webhook")
        .with_client()
        .json(&url)
        .send()
        .await
        .expect(409);
    let listed = list(&app).await;
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|endpoint| endpoint.get("secret").is_none()));
    assert!(listed[0].get("clientId").is_none());
    assert_eq!(listed[1]["clientId"], app.backend_client.as_str());
    let own = app.get("/v1/webhook").with_client().send().await.expect(200);
    assert_eq!(own["webhooks"], json!([listed[1]]), "a client ID sees its own");
    let platform_wide = format!("/v1/webhook/{}", listed[0]["id"].as_str().expect("an id"));
    for method in [Method::PUT, Method::DELETE] {
        let foreign = app.call(method, &platform_wide).with_client().send().await;
        assert_eq!(foreign.expect(404)["message"], "Webhook not found");
    }
    let (other_key, _) = app.other_tenant().await;
    for method in [Method::PUT, Method::DELETE] {
        let call = app.call(method, &platform_wide).header("x-api-key", &other_key);
        call.send().await.expect(404);
    }
    let scoped = format!("/v1/webhook/{}", created["id"].as_str().expect("an id"));
    let toggled = app.call(Method::PUT, &scoped).with_key().send().await.expect(200);
    assert_eq!(
        (&toggled["isActive"], &toggled["clientId"]),
        (&json!(false), &json!(app.backend_client))
    );
    app.call(Method::DELETE, &scoped).with_key().send().await.expect(200);
    app.call(Method::DELETE, &platform_wide)
        .with_key()
        .send()
        .await
        .expect(200);
    assert!(list(&app).await.is_empty());
}

#[tokio::test]
async fn a_client_id_of_another_platform_cannot_be_used() {
    let app = TestApp::start().await;
    let (_, foreign) = app.other_tenant().await;
    for client in [foreign.as_str(), "cli_unknown"] {
        let body = json!({ "url": "https://shop.example.com/hooks", "clientId": client });
        let refused = app.post("/v1/webhook").with_key().json(&body).send().await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["clientId".to_owned()])
        );
        let body = json!({ "eventType": "payment.confirmed", "clientId": client });
        let refused = app.post("/v1/webhook/test").with_key().json(&body).send().await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["clientId".to_owned()])
        );
    }
    let body = json!({ "url": "https://shop.example.com/hooks", "clientId": app.page_client });
    let refused = app.post("/v1/webhook").with_client().json(&body).send().await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["clientId".to_owned()])
    );
    let body = json!({ "url": "https://shop.example.com/hooks", "clientId": app.backend_client });
    app.post("/v1/webhook")
        .with_client()
        .json(&body)
        .send()
        .await
        .expect(201);
}

#[tokio::test]
async fn a_test_delivery_reaches_only_the_selected_endpoints() {
    let app = TestApp::start().await;
    let (all, own) = (Receiver::start().await, Receiver::start().await);
    let body = json!({ "url": all.url() });
    app.post("/v1/webhook").with_key().json(&body).send().await.expect(201);
    app.register(&own.url()).await;
    let test = async |body: Value| {
        let sent = app.post("/v1/webhook/test").with_key().json(&body).send().await;
        assert_eq!(sent.expect(200), json!({ "sent": 1, "failed": 0 }));
        (all.received().await.len(), own.received().await.len())
    };
    assert_eq!(test(json!({ "eventType": "compliance.updated" })).await, (1, 0));
    let scoped = json!({ "eventType": "payment.confirmed", "clientId": app.backend_client });
    assert_eq!(test(scoped).await, (1, 1));
}

#[tokio::test]
async fn a_platform_wide_endpoint_receives_every_payment_event() {
    let app = TestApp::on_chain().await;
    let (all, own) = (Receiver::start().await, Receiver::start().await);
    let body = json!({ "url": all.url() });
    app.post("/v1/webhook").with_key().json(&body).send().await.expect(201);
    app.register(&own.url()).await;
    app.paid_request("1").await;
    app.settle().await;
    assert_eq!((all.received().await.len(), own.received().await.len()), (1, 1));
    let by_key = app.create_request_as(("x-api-key", &app.key), &fau("1")).await;
    app.pay(&by_key, "").await;
    app.settle().await;
    assert_eq!((all.received().await.len(), own.received().await.len()), (2, 1));
    assert_eq!(all.received().await[1].json()["requestId"], by_key);
}
