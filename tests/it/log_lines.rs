//! The content of the log, and what it must not contain.

use crate::support::{TestApp, app::settings, database::TestDatabase, events::tell, lines::Lines, receiver::Receiver};

#[tokio::test]
async fn health_probes_are_not_logged() {
    let app = TestApp::start().await;
    let (lines, _listening) = Lines::listen();
    app.get("/health/live").send().await.expect(200);
    app.get("/health/ready").send().await;
    assert!(!lines.text().contains("/health/"), "{}", lines.text());
    app.get("/v2/currencies").send().await;
    assert!(lines.text().contains("/v2/currencies"), "{}", lines.text());
}

#[tokio::test]
async fn the_log_contains_only_the_host_of_an_endpoint_url() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    app.register(&format!("{}/canary-path?token=canary-token", receiver.url()))
        .await;
    tell(&app, "payment.confirmed", "01r").await;
    let (lines, _listening) = Lines::listen();
    app.deliver().await;
    let text = lines.text();
    assert!(text.contains("delivery failed") && text.contains("127.0.0.1"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn a_payment_is_logged_when_seen_and_when_confirmed() {
    let app = TestApp::on_chain_with(3).await;
    let (lines, _listening) = Lines::listen();
    let id = app.paid_request("1").await;
    app.follow().await;
    assert!(lines.text().contains("payment seen"), "{}", lines.text());
    assert!(!lines.text().contains("payment confirmed"), "{}", lines.text());
    app.devnet().mine(3).await.expect("blocks");
    app.follow().await;
    let text = lines.text();
    let confirmed = text.lines().find(|line| line.contains("payment confirmed"));
    assert!(
        confirmed.is_some_and(|line| line.contains(&id) && line.contains("sepolia")),
        "{text}"
    );
}

#[tokio::test]
async fn startup_logs_the_applied_migrations() {
    let database = TestDatabase::sqlite();
    let mut settings = settings();
    settings.database.url = database.url.clone();
    settings.secrets.master_key = Some("5e".repeat(32));
    let (lines, _listening) = Lines::listen();
    prs::boot::open_database(&settings).await.expect("opened");
    assert!(
        lines.text().contains("applied the missing migrations"),
        "{}",
        lines.text()
    );
}
