//! Endpoints and deliveries.

use crate::support::{TestApp, receiver::Receiver};
use futures_util::future::join_all;
use poem::http::Method;
use serde_json::json;

#[tokio::test]
async fn endpoints_are_registered_listed_toggled_and_deleted() {
    let app = TestApp::start().await;
    let (id, secret) = app.register("https://shop.example.com/hooks").await;
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let list = || async { app.get("/v1/webhook").with_client().send().await.expect(200)["webhooks"].clone() };
    let listed = list().await;
    assert_eq!(listed[0]["url"], "https://shop.example.com/hooks");
    assert_eq!(listed[0]["isActive"], true);
    assert!(listed[0].get("secret").is_none());
    let path = format!("/v1/webhook/{id}");
    let toggled = app.call(Method::PUT, &path).with_client().send().await.expect(200);
    assert_eq!((&toggled["id"], &toggled["isActive"]), (&json!(id), &json!(false)));
    assert_eq!(
        app.call(Method::PUT, &path).with_client().send().await.expect(200)["isActive"],
        true
    );
    let same = json!({ "url": "https://shop.example.com/hooks" });
    app.post("/v1/webhook")
        .with_client()
        .json(&same)
        .send()
        .await
        .expect(409);
    let (_, other_client) = app.other_tenant().await;
    for method in [Method::PUT, Method::DELETE] {
        let foreign = app
            .call(method, &path)
            .header("x-client-id", &other_client)
            .send()
            .await;
        assert_eq!(foreign.expect(404)["message"], "Webhook not found");
    }
    app.call(Method::DELETE, &path).with_client().send().await.expect(200);
    app.call(Method::DELETE, &path).with_client().send().await.expect(404);
    assert_eq!(list().await, json!([]));
    app.get("/v1/webhook").send().await.expect(401);
}

#[tokio::test]
async fn concurrent_toggles_all_take_effect() {
    let app = TestApp::start().await;
    let (id, _) = app.register("https://shop.example.com/hooks").await;
    let path = format!("/v1/webhook/{id}");
    let toggle = || app.call(Method::PUT, &path).with_client().send();
    let answers = join_all((0..6).map(|_| toggle())).await;
    let states = answers.iter().map(|answer| answer.expect(200)["isActive"] == true);
    assert_eq!(states.filter(|is_active| *is_active).count(), 3);
    assert_eq!(toggle().await.expect(200)["isActive"], false);
}

#[tokio::test]
async fn urls_of_internal_networks_are_rejected() {
    let app = TestApp::start().await;
    for url in [
        "ftp://example.com",
        "http://example.com",
        "https://u:p@example.com",
        "https://10.0.0.1",
        "https://169.254.169.254/latest",
        "https://[::ffff:127.0.0.1]/",
        "https://0x0a.1",
        "nonsense",
        "/relative",
    ] {
        let answer = app
            .post("/v1/webhook")
            .with_client()
            .json(&json!({ "url": url }))
            .send()
            .await;
        assert_eq!(answer.status, 400, "{url}");
        assert_eq!(answer.wrong_fields(), ["url"], "{url}");
    }
}

#[tokio::test]
async fn a_test_delivery_is_signed_and_marked() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let nothing = json!({ "eventType": "payment.confirmed" });
    assert_eq!(
        app.post("/v1/webhook/test")
            .with_client()
            .json(&nothing)
            .send()
            .await
            .expect(200),
        json!({ "sent": 0, "failed": 0 })
    );
    let (_, secret) = app.register(&receiver.url()).await;
    for kind in prs::domain::event::CLIENT_KINDS {
        let answer = app.send_sample(kind).await;
        assert_eq!(answer, json!({ "sent": 1, "failed": 0 }), "{kind}");
        let last = receiver.received().await.pop().expect("a delivery");
        assert_eq!(last.json()["event"], kind);
        assert_eq!(last.header("x-service-test"), Some("true"));
        assert_eq!(
            last.header("x-service-signature"),
            Some(prs::domain::webhook::sign(&secret, last.body.as_bytes()).as_str())
        );
    }
    receiver.answer(500);
    let failed = app.post("/v1/webhook/test").with_client().json(&nothing).send().await;
    assert_eq!(failed.expect(200), json!({ "sent": 0, "failed": 1 }));
    let count = receiver.received().await.len();
    app.advance_ms(60_000);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), count, "a test delivery is not retried");
    let unknown = app
        .post("/v1/webhook/test")
        .with_client()
        .json(&json!({ "eventType": "payment.maybe" }))
        .send()
        .await;
    assert_eq!(unknown.expect(400)["errors"][0]["field"], "eventType");
}

#[tokio::test]
async fn a_failed_delivery_is_retried_three_times_with_the_same_bytes() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    receiver.answer(500);
    app.paid_request("1").await;
    app.settle().await;
    let mut seen = 1;
    for (pause, name) in [(1_000, "first"), (5_000, "second"), (15_000, "third")] {
        app.advance_ms(pause - 1);
        app.deliver().await;
        assert_eq!(receiver.received().await.len(), seen, "the {name} retry is never early");
        app.advance_ms(1);
        app.deliver().await;
        seen += 1;
        assert_eq!(receiver.received().await.len(), seen, "the {name} retry comes in time");
    }
    app.advance_ms(3_600_000);
    app.deliver().await;
    let all = receiver.received().await;
    assert_eq!(all.len(), 4, "four attempts in total");
    let counts: Vec<_> = all
        .iter()
        .map(|one| one.header("x-service-retry-count").unwrap_or_default())
        .collect();
    assert_eq!(counts, ["0", "1", "2", "3"]);
    assert!(all.iter().all(|one| one.body == all[0].body), "the same bytes");
    assert!(
        all.iter()
            .all(|one| one.header("x-service-delivery") == all[0].header("x-service-delivery")),
        "the same id"
    );
}

#[tokio::test]
async fn a_disabled_endpoint_no_longer_receives_anything() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    let (id, _) = app.register(&receiver.url()).await;
    receiver.answer(500);
    app.paid_request("1").await;
    app.settle().await;
    app.call(Method::PUT, &format!("/v1/webhook/{id}"))
        .with_client()
        .send()
        .await
        .expect(200);
    app.advance_ms(60_000);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "the waiting delivery is cancelled");
    app.call(Method::PUT, &format!("/v1/webhook/{id}"))
        .with_client()
        .send()
        .await
        .expect(200);
    receiver.answer(200);
    let second = app.paid_request("1").await;
    app.settle().await;
    let last = receiver.received().await;
    assert_eq!(last.len(), 2, "new events are delivered again");
    assert_eq!(last[1].json()["requestId"], second.as_str());
}

#[tokio::test]
async fn events_go_to_the_client_id_that_created_the_request() {
    let app = TestApp::on_chain().await;
    let (mine, other) = (Receiver::start().await, Receiver::start().await);
    app.register(&mine.url()).await;
    let page = app.page_client.clone();
    let body = json!({ "url": other.url() });
    let call = app
        .post("/v1/webhook")
        .header("x-client-id", &page)
        .header("origin", crate::support::app::PAGE)
        .json(&body);
    call.send().await.expect(201);
    app.paid_request("1").await;
    app.settle().await;
    assert_eq!(mine.received().await.len(), 1);
    assert!(other.received().await.is_empty());
}

#[tokio::test]
async fn headers_are_sent_under_every_prefix_unless_an_endpoint_chose_one() {
    let mut settings = crate::support::app::settings();
    let prefixes = ["x-service", "x-published"].map(str::to_owned).to_vec();
    settings.webhooks.header_prefix = prs::settings::HeaderPrefix::Several(prefixes);
    let app = TestApp::with(settings, None).await;
    let (both, one) = (Receiver::start().await, Receiver::start().await);
    app.register(&both.url()).await;
    let create = async |prefix: &str| {
        let body = json!({ "url": one.url(), "headerPrefix": prefix });
        app.post("/v1/webhook").with_client().json(&body).send().await
    };
    let refused = create("x-unknown").await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.wrong_fields(), ["headerPrefix"]);
    create("x-published").await.expect(201);
    let list = app.get("/v1/webhook").with_client().send().await.expect(200);
    let chosen = |number: usize| list["webhooks"][number].get("headerPrefix").cloned();
    assert_eq!((chosen(0), chosen(1)), (None, Some("x-published".into())));
    app.send_sample("payment.confirmed").await;
    let names = ["signature", "delivery", "retry-count", "test"];
    let to_both = both.received().await.remove(0);
    for name in names {
        let of = |prefix: &str| to_both.header(&format!("{prefix}-{name}")).map(str::to_owned);
        assert!(of("x-service").is_some(), "{name}");
        assert_eq!(of("x-service"), of("x-published"), "{name}");
    }
    let to_one = one.received().await.remove(0);
    for name in names {
        assert!(to_one.header(&format!("x-published-{name}")).is_some(), "{name}");
        assert_eq!(to_one.header(&format!("x-service-{name}")), None, "{name}");
    }
    assert!(to_one.header("webhook-signature").is_some());
}
