//! Payee destinations signed by a wallet.

use crate::support::{
    Answer, TestApp,
    app::PAGE,
    wallet::{TestWallet, token, typed_hash},
};
use poem::http::Method;
use serde_json::{Value, json};

const SEPOLIA: &str = "11155111";

async fn ask(app: &TestApp, wallet: &str, action: &str, token: &str, chain_id: &str) -> Answer {
    let query = format!("walletAddress={wallet}&action={action}&tokenAddress={token}&chainId={chain_id}");
    let path = format!("/v2/payee-destination/signing-data?{query}");
    app.get(&path).with_client().send().await
}

async fn data(app: &TestApp, wallet: &TestWallet, action: &str, currency: &str) -> Value {
    let address = wallet.address().to_string();
    let answer = ask(app, &address, action, &token(app, currency), SEPOLIA).await;
    answer.expect(200)
}

fn signed(wallet: &TestWallet, data: &Value) -> Value {
    json!({ "signature": wallet.sign(&typed_hash(data)), "nonce": data["nonce"] })
}

async fn post(app: &TestApp, body: &Value) -> Answer {
    app.post("/v2/payee-destination").with_client().json(body).send().await
}

async fn add(app: &TestApp, wallet: &TestWallet, currency: &str) -> Value {
    let data = data(app, wallet, "add", currency).await;
    post(app, &signed(wallet, &data)).await.expect(201)
}

fn path(id: &str) -> String {
    let id = id.replace('#', "%23");
    format!("/v2/payee-destination/{id}")
}

async fn remove(app: &TestApp, id: &str, body: &Value) -> Answer {
    app.call(Method::DELETE, &path(id))
        .with_client()
        .json(body)
        .send()
        .await
}

async fn active(app: &TestApp, wallet: &TestWallet) -> Value {
    let path = format!("/v2/payee-destination?walletAddress={}", wallet.address());
    app.get(&path).with_client().send().await.expect(200)
}

#[tokio::test]
async fn signatures_add_and_remove_a_destination() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    assert_eq!(active(&app, &wallet).await, json!(null));
    let asked = data(&app, &wallet, "add", "FAU-sepolia").await;
    assert_eq!(
        asked["domain"],
        json!({ "name": "PayeeDestination", "version": "1", "chainId": 11_155_111 })
    );
    assert_eq!(asked["expiresAt"], "2026-01-31T12:05:00.000Z");
    let added = post(&app, &signed(&wallet, &asked)).await.expect(201);
    let address = wallet.address().to_string();
    let contract = token(&app, "FAU-sepolia");
    let interop = added["humanReadableInteropAddress"].as_str().expect("text");
    assert!(interop.starts_with(&format!("{address}@eip155:11155111#")), "{interop}");
    let id = added["destinationId"].as_str().expect("text");
    assert_eq!(id, format!("{interop}:{contract}"));
    let binary = format!("0x0001000003aa36a714{}", address[2..].to_lowercase());
    assert_eq!(added["binaryInteropAddress"], json!(binary));
    assert_eq!(
        (&added["walletAddress"], &added["tokenAddress"], &added["chainId"]),
        (&json!(address), &json!(contract), &json!(11_155_111))
    );
    assert_eq!(
        (&added["claimed"], &added["active"], &added["accessPolicy"]),
        (&json!(true), &json!(true), &json!(null))
    );
    assert_eq!(active(&app, &wallet).await, added);
    for name in [
        id.to_owned(),
        id.to_lowercase(),
        id.replace(':', "%3A"),
        format!("sepolia:{address}:{contract}"),
    ] {
        let read = app.get(&path(&name)).with_client().send().await;
        assert_eq!(read.expect(200), added, "{name}");
    }

    let leave = data(&app, &wallet, "deactivate", "FAU-sepolia").await;
    let ended = remove(&app, id, &signed(&wallet, &leave)).await.expect(200);
    assert_eq!(ended, json!({ "success": true, "message": "Destination deactivated" }));
    assert_eq!(active(&app, &wallet).await, json!(null));
    let kept = app.get(&path(id)).with_client().send().await.expect(200);
    assert_eq!((&kept["active"], &kept["id"]), (&json!(false), &added["id"]));
    let again = data(&app, &wallet, "deactivate", "FAU-sepolia").await;
    let refused = remove(&app, id, &signed(&wallet, &again)).await;
    assert_eq!(
        (refused.status, &refused.json()["message"]),
        (400, &json!("Payee destination not found"))
    );
    assert_eq!(
        add(&app, &wallet, "FAU-sepolia").await,
        added,
        "the destination is restored"
    );
}

#[tokio::test]
async fn a_wallet_has_one_active_destination() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let first = add(&app, &wallet, "FAU-sepolia").await;
    let second = add(&app, &wallet, "USDC-sepolia").await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(active(&app, &wallet).await, second);
    let id = first["destinationId"].as_str().expect("text");
    let former = app.get(&path(id)).with_client().send().await.expect(200);
    assert_eq!(former["active"], json!(false));
    let third = TestWallet::new(8);
    add(&app, &third, "FAU-sepolia").await;
    assert_eq!(active(&app, &wallet).await, second, "another wallet changes nothing");
}

#[tokio::test]
async fn only_the_wallets_own_signature_over_fresh_data_is_accepted() {
    let app = TestApp::start().await;
    let (wallet, thief) = (TestWallet::new(7), TestWallet::new(9));
    let refused = |answer: Answer, field: &str| {
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{}", answer.text);
    };
    let fresh = data(&app, &wallet, "add", "FAU-sepolia").await;
    refused(post(&app, &signed(&thief, &fresh)).await, "signature");
    for (member, value) in [
        ("action", json!("deactivate")),
        ("token", json!(token(&app, "USDC-sepolia"))),
        ("wallet", json!(thief.address().to_string())),
        ("chainId", json!(1)),
        ("nonce", json!("another")),
    ] {
        let mut changed = fresh.clone();
        changed["message"][member] = value;
        refused(post(&app, &signed(&wallet, &changed)).await, "signature");
    }
    let mut other_domain = fresh.clone();
    other_domain["domain"]["chainId"] = json!(1);
    refused(post(&app, &signed(&wallet, &other_domain)).await, "signature");
    let zeros = json!({ "signature": format!("0x{}", "0".repeat(130)), "nonce": fresh["nonce"] });
    refused(post(&app, &zeros).await, "signature");
    let short = json!({ "signature": "0x12", "nonce": fresh["nonce"] });
    refused(post(&app, &short).await, "signature");
    let mut unknown = signed(&wallet, &fresh);
    unknown["nonce"] = json!("unknown");
    refused(post(&app, &unknown).await, "nonce");
    let elsewhere = app
        .post("/v2/payee-destination")
        .header("x-client-id", &app.page_client)
        .header("origin", PAGE)
        .json(&signed(&wallet, &fresh));
    refused(elsewhere.send().await, "nonce");
    assert_eq!(active(&app, &wallet).await, json!(null));

    let added = post(&app, &signed(&wallet, &fresh)).await.expect(201);
    refused(post(&app, &signed(&wallet, &fresh)).await, "nonce");
    let late = data(&app, &wallet, "add", "USDC-sepolia").await;
    app.advance_ms(5 * 60 * 1_000);
    refused(post(&app, &signed(&wallet, &late)).await, "nonce");

    let id = added["destinationId"].as_str().expect("text");
    let wrong_action = data(&app, &wallet, "add", "FAU-sepolia").await;
    refused(remove(&app, id, &signed(&wallet, &wrong_action)).await, "nonce");
    let wrong_token = data(&app, &wallet, "deactivate", "USDC-sepolia").await;
    refused(remove(&app, id, &signed(&wallet, &wrong_token)).await, "nonce");
    let leave = data(&app, &wallet, "deactivate", "FAU-sepolia").await;
    refused(post(&app, &signed(&wallet, &leave)).await, "nonce");
    refused(remove(&app, id, &signed(&thief, &leave)).await, "signature");
    refused(remove(&app, "nothing", &signed(&wallet, &leave)).await, "destinationId");
    assert_eq!(active(&app, &wallet).await, added);
}

#[tokio::test]
async fn a_signature_is_used_once_even_by_concurrent_calls() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let fresh = data(&app, &wallet, "add", "FAU-sepolia").await;
    let body = signed(&wallet, &fresh);
    let (one, other) = tokio::join!(post(&app, &body), post(&app, &body));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400], "{} {}", one.text, other.text);
    let with_key = data(&app, &wallet, "add", "USDC-sepolia").await;
    let body = signed(&wallet, &with_key);
    let call = || {
        app.post("/v2/payee-destination")
            .with_client()
            .header("idempotency-key", "once")
    };
    let first = call().json(&body).send().await.expect(201);
    assert_eq!(call().json(&body).send().await.expect(201), first);
}

#[tokio::test]
async fn invalid_destinations_name_their_field() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7).address().to_string();
    let fau = token(&app, "FAU-sepolia");
    let base = token(&app, "USDC-base");
    for (wallet, action, token, chain_id, field) in [
        ("nobody", "add", fau.as_str(), SEPOLIA, "walletAddress"),
        (
            "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
            "add",
            &fau,
            SEPOLIA,
            "walletAddress",
        ),
        (
            "0x0000000000000000000000000000000000000000",
            "add",
            &fau,
            SEPOLIA,
            "walletAddress",
        ),
        (&fau, "add", &fau, SEPOLIA, "walletAddress"),
        (&wallet, "remove", &fau, SEPOLIA, "action"),
        (&wallet, "add", &wallet, SEPOLIA, "tokenAddress"),
        (&wallet, "add", &base, SEPOLIA, "tokenAddress"),
        (&wallet, "add", "FAU", SEPOLIA, "tokenAddress"),
        (
            &wallet,
            "add",
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
            SEPOLIA,
            "tokenAddress",
        ),
        (&wallet, "add", &fau, "999", "chainId"),
        (&wallet, "add", &fau, "sepolia", "chainId"),
        (&wallet, "add", &base, "8453", "chainId"),
        (&wallet, "add", &fau, "728126428", "chainId"),
    ] {
        let answer = ask(&app, wallet, action, token, chain_id).await;
        let asked = format!("{wallet} {action} {token} {chain_id}");
        assert_eq!(answer.status, 400, "{asked}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{asked}: {}", answer.text);
    }
    let nothing = app.get("/v2/payee-destination/signing-data").with_client().send().await;
    assert_eq!(nothing.status, 400);
    assert_eq!(
        nothing.wrong_fields(),
        ["walletAddress", "action", "tokenAddress", "chainId"]
    );
    let nobody = app.get("/v2/payee-destination").with_client().send().await;
    assert_eq!(
        (nobody.status, nobody.wrong_fields()),
        (400, vec!["walletAddress".to_owned()])
    );
    let broken = app.get(&path("sepolia")).with_client().send().await;
    assert_eq!(
        (broken.status, broken.wrong_fields()),
        (400, vec!["destinationId".to_owned()])
    );
    for unknown in [
        format!("sepolia:{wallet}:{fau}"),
        format!("{wallet}@eip155:11155111#00000000:{fau}"),
    ] {
        let answer = app.get(&path(&unknown)).with_client().send().await;
        assert_eq!(
            (answer.status, &answer.json()["message"]),
            (404, &json!("Payee destination not found"))
        );
    }
}

#[tokio::test]
async fn another_tenants_destination_is_reported_as_unknown() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let added = add(&app, &wallet, "FAU-sepolia").await;
    let id = added["destinationId"].as_str().expect("text");
    let (_, other) = app.other_tenant().await;
    let read = app.get(&path(id)).header("x-client-id", &other).send().await;
    assert_eq!(read.status, 404);
    let by_wallet = format!("/v2/payee-destination?walletAddress={}", wallet.address());
    let read = app.get(&by_wallet).header("x-client-id", &other).send().await;
    assert_eq!(read.expect(200), json!(null));
    let leave = data(&app, &wallet, "deactivate", "FAU-sepolia").await;
    let call = app.call(Method::DELETE, &path(id)).header("x-client-id", &other);
    let answer = call.json(&signed(&wallet, &leave)).send().await;
    assert_eq!((answer.status, answer.wrong_fields()), (400, vec!["nonce".to_owned()]));
    assert_eq!(active(&app, &wallet).await, added);
    assert_eq!(app.get(&path(id)).with_key().send().await.status, 403);
}
