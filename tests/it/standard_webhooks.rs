//! The published libraries of Standard Webhooks, from npm and from PyPI, verify real deliveries. The libraries are
//! installed from the pinned lists in `tests/standard_webhooks`, once for each target folder.

use crate::support::{TestApp, published, receiver::Receiver};
use prs::{
    adapters::clock::SystemClock,
    domain::event::{CLIENT_KINDS, ORCHESTRATOR_KINDS},
    ports::clock::Clock,
};
use serde_json::{Value, json};
use std::process::Command;

/// The files that list the libraries, and the scripts that run them.
const FILES: [&str; 5] = [
    "package.json",
    "package-lock.json",
    "requirements.txt",
    "verify.mjs",
    "verify.py",
];

/// The verdicts of both libraries on each delivery.
fn verdicts(deliveries: &[Value]) -> [Vec<bool>; 2] {
    let folder = published::installed("standard_webhooks", &FILES, |folder| {
        published::run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")));
        let mut pip = Command::new(folder.join("venv/bin/pip"));
        pip.current_dir(folder)
            .args(["install", "--quiet", "--require-hashes", "-r", "requirements.txt"]);
        published::run(&mut pip);
    });
    let judge = |mut program: Command, script: &str| {
        program.arg(folder.join(script));
        published::verdicts(program, deliveries)
    };
    [
        judge(Command::new("node"), "verify.mjs"),
        judge(Command::new(folder.join("venv/bin/python")), "verify.py"),
    ]
}

/// The newest delivery as the libraries get it: body, headers, and the secret to verify them with.
async fn newest(receiver: &Receiver, secret: &str) -> Value {
    let last = receiver.received().await.pop().expect("a delivery");
    let headers: serde_json::Map<String, Value> = last
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    json!({ "secret": secret, "headers": headers, "body": last.body })
}

async fn deliver_sample(app: &TestApp, kind: &str) {
    let body = json!({ "eventType": kind });
    let answer = app.post("/v1/webhook/test").with_key().json(&body).send().await;
    assert_eq!(answer.expect(200), json!({ "sent": 1, "failed": 0 }), "{kind}");
}

#[tokio::test]
async fn published_libraries_accept_every_kind_and_both_secrets_of_a_rotation() {
    let app = TestApp::start().await;
    // The libraries refuse deliveries older than five minutes, so the service has to use the time of the machine.
    app.clock.advance(SystemClock.now() - app.ctx.clock.now());
    let receiver = Receiver::start().await;
    let endpoint = json!({ "url": receiver.url() });
    let created = app
        .post("/v1/webhook")
        .with_key()
        .json(&endpoint)
        .send()
        .await
        .expect(201);
    let secret = created["standardSecret"].as_str().expect("a secret").to_owned();
    let mut good = Vec::new();
    for kind in CLIENT_KINDS {
        deliver_sample(&app, kind).await;
        good.push(newest(&receiver, &secret).await);
    }
    let orchestrator = prs::flows::orchestrators::create::run(&app.ctx, "Partner")
        .await
        .expect("created");
    let partner = Receiver::start().await;
    let created = app
        .post("/v2/orchestrators/webhooks")
        .header("x-orchestrator-key", orchestrator.key.reveal())
        .json(&json!({ "url": partner.url() }))
        .send()
        .await
        .expect(201);
    for kind in ORCHESTRATOR_KINDS {
        app.post("/v2/orchestrators/webhooks/test")
            .header("x-orchestrator-key", orchestrator.key.reveal())
            .json(&json!({ "eventType": kind }))
            .send()
            .await
            .expect(200);
        good.push(newest(&partner, created["standardSecret"].as_str().expect("a secret")).await);
    }
    let path = format!("/v1/webhook/{}/rotate-secret", app_endpoint(&app).await);
    let rotated = app.post(&path).with_key().json(&json!({})).send().await.expect(200);
    let next = rotated["standardSecret"].as_str().expect("a secret").to_owned();
    deliver_sample(&app, "payment.confirmed").await;
    let during = newest(&receiver, &secret).await;
    let signatures = during["headers"]["webhook-signature"].as_str().expect("signatures");
    assert_eq!(signatures.split(' ').count(), 2, "{signatures}");
    good.push(during.clone());
    good.push(newest(&receiver, &next).await);
    let mut bad = Vec::new();
    let mut tampered = during.clone();
    tampered["body"] = json!(during["body"].as_str().expect("a body").replacen('1', "2", 1));
    bad.push(tampered);
    let mut other_id = during.clone();
    other_id["headers"]["webhook-id"] = json!("01JZX4T9QK3M7N8P2R5S6V0WYB");
    bad.push(other_id);
    bad.push(newest(&receiver, created["standardSecret"].as_str().expect("a secret")).await);
    // An hour late: a captured delivery cannot be replayed forever.
    app.advance_ms(-3_600_000);
    deliver_sample(&app, "payment.confirmed").await;
    bad.push(newest(&receiver, &secret).await);
    let expected: Vec<bool> = good.iter().map(|_| true).chain(bad.iter().map(|_| false)).collect();
    good.extend(bad);
    let [npm, pypi] = verdicts(&good);
    assert_eq!(npm, expected, "npm");
    assert_eq!(pypi, expected, "PyPI");
}

/// The only endpoint of the platform.
async fn app_endpoint(app: &TestApp) -> String {
    let list = app.get("/v1/webhook").with_key().send().await.expect(200);
    list["webhooks"][0]["id"].as_str().expect("an id").to_owned()
}
