//! What a link may cost in an hour, at the boundaries of each cap; and how often its page may be called.

use crate::support::{
    TestApp,
    app::settings,
    links::{link_of, token_of},
    receiver::Receiver,
    screening::{Providers, rows, screened},
};
use prs::{domain::destination::ScreeningProvider::Hypernative, settings::ChainSettings};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

const HOUR_MS: i64 = 3_600_000;

/// A wallet that is on no list.
fn stranger(number: u32) -> String {
    format!("0x{:040x}", u64::from(number) + (1 << 40))
}

/// Opens a link as one wallet after the other; returns the statuses.
async fn knock(app: &TestApp, link: &str, numbers: std::ops::Range<u32>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in numbers {
        let query = format!("?wallet={}", stranger(number));
        statuses.push(app.open_link(link, &query).send().await.status);
    }
    statuses
}

async fn refused_wallets_told(app: &TestApp) -> i64 {
    rows(app, "events WHERE kind = 'secure_payment.access_rejected'").await
}

/// A name of an hour's boundary, how long to wait for it, and whether there is room again then.
const BOUNDARIES: [(&str, i64, bool); 2] = [("its last millisecond", HOUR_MS - 1, false), ("its end", 1, true)];

#[tokio::test]
async fn an_hour_of_a_link_has_room_for_so_much_and_the_next_one_again() {
    let providers = Providers::start().await;
    let app = TestApp::with(screened(&providers), None).await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let endpoint = app.post("/v1/webhook").with_key();
    endpoint
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    let make = async |policy: Value| {
        let mut body = link_of(&["1"]);
        body["accessPolicy"] = policy;
        token_of(&app.link(&body).await.expect(201))
    };
    let listed = make(json!({ "allowedPayerAddresses": [stranger(900)] })).await;
    let screening = make(json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" })).await;
    let open = make(json!(null)).await;

    // Wallets that are not on the list: 20 are told about.
    for (most, count) in [(19, 19), (20, 20), (21, 20)] {
        knock(&app, &listed, most - 1..most).await;
        let _ = knock(&app, &listed, 0..most - 1).await;
        assert_eq!(refused_wallets_told(&app).await, count, "{most} wallets");
    }
    // Wallets that are screened: 30 are asked about.
    for (most, last) in [(29, 200), (30, 200), (31, 429)] {
        let statuses = knock(&app, &screening, 0..most).await;
        assert_eq!(statuses.last(), Some(&last), "{most} wallets");
    }
    assert_eq!(providers.questions(Hypernative).await, 30);
    // Transactions that are named: 20, for good.
    let intent = async |number: u8| {
        let body = json!({ "txHash": format!("0x{}", hex::encode([number; 32])), "chain": "SEPOLIA", "token": "FAU" });
        let call = app.post(&format!("/v2/secure-payments/{open}/intent")).with_client();
        call.json(&body).send().await.status
    };
    for number in 1..=21 {
        assert_eq!(
            intent(number).await,
            if number > 20 { 429 } else { 200 },
            "{number} transactions"
        );
    }
    // Reports: 20 from one address.
    let mut step = 0;
    let mut report = async || {
        step += 1;
        let body = json!({ "userEvent": "wallet_connected", "occurredAt": format!("2020-01-01T00:00:00.{step:03}Z") });
        let call = app.post(&format!("/v2/secure-payments/{open}/events")).with_client();
        call.json(&body).send().await
    };
    for number in 1..=20 {
        assert_eq!(report().await.status, 202, "{number} reports");
    }
    let refused = report().await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("3600")));

    for (name, wait_ms, has_room) in BOUNDARIES {
        app.advance_ms(wait_ms);
        let told = refused_wallets_told(&app).await;
        knock(&app, &listed, 100..101).await;
        assert_eq!(
            refused_wallets_told(&app).await - told,
            i64::from(has_room),
            "a refused wallet at {name}"
        );
        let screened = knock(&app, &screening, 100..101).await;
        assert_eq!(
            screened,
            [if has_room { 200 } else { 429 }],
            "a screened wallet at {name}"
        );
        assert_eq!(
            report().await.status,
            if has_room { 202 } else { 429 },
            "a report at {name}"
        );
        assert_eq!(intent(200).await, 429, "a transaction at {name}");
    }
    println!(
        "caps: {} events of refused wallets, {} questions, {} intents, {} reports",
        refused_wallets_told(&app).await,
        providers.questions(Hypernative).await,
        rows(&app, "secure_payment_intents").await,
        rows(&app, "events WHERE kind = 'secure_payment.user_event'").await
    );
}

