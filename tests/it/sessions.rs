//! Signing in with a wallet: challenges, sessions, and which pages may use them.

use crate::support::{TestApp, requests::fau};
use alloy::primitives::{Address as EvmAddress, B256};
use chrono::TimeDelta;
use k256::ecdsa::SigningKey;
use poem::http::Method;
use prs::{
    domain::{
        address::Address,
        caller::PlatformCaller,
        network::Family,
        session::{is_signed_by_key, message_hash},
    },
    flows::auth::{identify, sweep},
};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

/// Origin of the service under test.
pub const OWN: &str = "http://127.0.0.1:8080";

/// A user of the tests: a private key and the kind of wallet that holds it.
pub struct Person {
    key: SigningKey,
    /// Family of the wallet.
    pub family: Family,
}

impl Person {
    /// A user whose private key is this byte, repeated 32 times.
    pub fn new(seed: u8, family: Family) -> Self {
        Self::with_key(&[seed; 32], family)
    }

    /// A user with this key.
    pub fn with_key(key: &[u8], family: Family) -> Self {
        let key = SigningKey::from_slice(key).expect("a key");
        Self { key, family }
    }

    /// Address of the wallet.
    pub fn address(&self) -> Address {
        let bytes = EvmAddress::from_public_key(self.key.verifying_key());
        match self.family {
            Family::Evm => Address::Evm(bytes),
            Family::Tron => Address::Tron(bytes),
        }
    }

    /// Signs a hash; returns the bytes of the signature.
    pub fn sign_hash(&self, hash: B256) -> Vec<u8> {
        let (signature, parity) = self.key.sign_prehash_recoverable(hash.as_slice()).expect("signed");
        let mut bytes = signature.to_bytes().to_vec();
        bytes.push(27 + parity.to_byte());
        bytes
    }

    /// Signs a message as wallets of this family do; returns the signature as hexadecimal text.
    pub fn sign(&self, message: &str) -> String {
        hex::encode_prefixed(self.sign_hash(message_hash(self.family, message)))
    }
}

/// Requests a challenge.
pub async fn challenge(app: &TestApp, address: &str) -> Value {
    let body = json!({ "address": address });
    app.post("/v1/auth/wallet/challenge")
        .json(&body)
        .send()
        .await
        .expect(201)
}

/// The request body that answers a sign-in challenge with a signature.
pub fn answered(challenge: &Value, signature: &str) -> Value {
    json!({
        "challengeId": challenge["challengeId"],
        "nonce": challenge["nonce"],
        "message": challenge["message"],
        "signature": signature,
    })
}

/// The token in the cookie of a response.
pub fn token(answer: &crate::support::Answer) -> String {
    let cookie = answer.header("set-cookie").expect("a cookie");
    let pair = cookie.split(';').next().expect("a pair");
    pair.strip_prefix("session_token=").expect("the session").to_owned()
}

/// Signs a user in and returns the token.
pub async fn sign_in(app: &TestApp, person: &Person) -> String {
    let challenge = challenge(app, &person.address().to_string()).await;
    let signature = person.sign(challenge["message"].as_str().expect("text"));
    let body = answered(&challenge, &signature);
    let answer = app.post("/v1/auth/wallet/verify").json(&body).send().await;
    answer.expect(200);
    token(&answer)
}

/// The caller behind a token.
pub async fn caller(app: &TestApp, token: &str) -> PlatformCaller {
    identify::session(&app.ctx, token).await.expect("a session")
}

/// Number of rows in a table.
pub async fn count(app: &TestApp, table: &str) -> i64 {
    let reader = app.ctx.db.reader();
    let statement = Statement::from_string(
        sea_orm::ConnectionTrait::get_database_backend(reader),
        format!("SELECT count(*) AS n FROM {table}"),
    );
    let row = reader.query_one_raw(statement).await.expect("counted");
    row.expect("a row").try_get("", "n").expect("a number")
}

async fn status_with_cookie(app: &TestApp, token: &str) -> u16 {
    let cookie = format!("theme=dark; session_token={token}");
    app.get("/v2/request").header("cookie", &cookie).send().await.status
}

async fn status_with_bearer(app: &TestApp, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    app.get("/v2/request")
        .header("authorization", &bearer)
        .send()
        .await
        .status
}

#[tokio::test]
async fn a_wallet_signs_in_and_its_session_lists_requests() {
    let app = TestApp::start().await;
    let ada = Person::new(1, Family::Evm);
    let address = ada.address().to_string();
    let asked = challenge(&app, &address.to_lowercase()).await;
    let message = asked["message"].as_str().expect("text");
    assert!(message.starts_with(&format!(
        "127.0.0.1:8080 wants you to sign in with your Ethereum account:\n{address}\n\nSign in to the payment service.\n\nURI: {OWN}\nVersion: 1\nChain ID: 1\nNonce: {}\nIssued At: 2026-01-31T12:00:00.000Z\n",
        asked["nonce"].as_str().expect("text")
    )));
    assert_eq!(asked["expiresAt"], "2026-01-31T12:05:00.000Z");
    let answer = app
        .post("/v1/auth/wallet/verify")
        .json(&answered(&asked, &ada.sign(message)))
        .send()
        .await;
    let body = answer.expect(200);
    assert_eq!(
        body,
        json!({ "address": address, "walletType": "evm", "expiresAt": "2026-01-31T12:15:00.000Z" })
    );
    let token = token(&answer);
    assert_eq!(
        answer.header("set-cookie").expect("a cookie"),
        format!("session_token={token}; HttpOnly; Secure; SameSite=Lax; Path=/")
    );
    assert_eq!(status_with_cookie(&app, &token).await, 200);
    assert_eq!(status_with_bearer(&app, &token).await, 200);
    assert_eq!(status_with_bearer(&app, &token[1..]).await, 401);
    assert_eq!(caller(&app, &token).await.wallet(), Some(&ada.address()));
}

#[tokio::test]
async fn a_wallet_has_one_platform_of_its_own() {
    let app = TestApp::start().await;
    let (ada, bob) = (Person::new(1, Family::Evm), Person::new(2, Family::Evm));
    let first = caller(&app, &sign_in(&app, &ada).await).await.platform;
    let again = caller(&app, &sign_in(&app, &ada).await).await.platform;
    let other = caller(&app, &sign_in(&app, &bob).await).await.platform;
    // On Tron, the same private key is another user.
    let tron = Person::new(1, Family::Tron);
    let tron = caller(&app, &sign_in(&app, &tron).await).await.platform;
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_ne!(first, tron);
    assert_ne!(first, app.platform);
    assert_eq!(count(&app, "wallets").await, 3);
}

#[tokio::test]
async fn users_see_only_the_requests_of_their_platform() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1")).await;
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let bearer = format!("Bearer {token}");
    let list = app.get("/v2/request").header("authorization", &bearer).send().await;
    assert_eq!(list.expect(200)["requests"], json!([]));
    let path = format!("/v2/request/{id}");
    let one = app.get(&path).header("authorization", &bearer).send().await;
    one.expect(404);
    // An API key takes precedence over a valid session.
    let both = app.get(&path).with_key().header("authorization", &bearer).send().await;
    both.expect(200);
}

#[tokio::test]
async fn a_challenge_needs_the_exact_signature_of_its_wallet_in_time() {
    let app = TestApp::with(crate::support::app::settings(), None).await;
    for family in [Family::Evm, Family::Tron] {
        let (ada, eve) = (Person::new(1, family), Person::new(2, family));
        let other = match family {
            Family::Evm => Family::Tron,
            Family::Tron => Family::Evm,
        };
        let address = ada.address().to_string();
        let asked = challenge(&app, &address).await;
        let foreign = challenge(&app, &eve.address().to_string()).await;
        let message = asked["message"].as_str().expect("text").to_owned();
        let good = ada.sign(&message);
        let with = |name: &str, value: Value| {
            let mut body = answered(&asked, &good);
            body[name] = value;
            body
        };
        let upper = asked["nonce"].as_str().expect("text").replace(char::is_numeric, "f");
        let cases = [
            ("of another key", with("signature", eve.sign(&message).into())),
            ("too short", with("signature", good[..good.len() - 2].into())),
            ("too long", with("signature", format!("{good}00").into())),
            ("of another message", with("signature", ada.sign("hello").into())),
            (
                "of the other family",
                with("signature", Person::new(1, other).sign(&message).into()),
            ),
            ("of a changed message", with("message", format!("{message} ").into())),
            ("of a changed nonce", with("nonce", upper.into())),
            (
                "of another user's challenge",
                with("challengeId", foreign["challengeId"].clone()),
            ),
            (
                "of no challenge",
                with("challengeId", "01K9Z0T3G9R5M1N2P3Q4R5S6T7".into()),
            ),
        ];
        for (name, body) in cases {
            let answer = app.post("/v1/auth/wallet/verify").json(&body).send().await;
            assert_eq!(answer.status, 401, "{family:?} {name}: {}", answer.text);
            assert_eq!(answer.header("set-cookie"), None, "{family:?} {name}");
        }
        app.advance_ms(299_999);
        let body = answered(&asked, &good);
        app.post("/v1/auth/wallet/verify").json(&body).send().await.expect(200);
        app.post("/v1/auth/wallet/verify").json(&body).send().await.expect(401);
        let late = challenge(&app, &address).await;
        app.advance_ms(300_000);
        let body = answered(&late, &ada.sign(late["message"].as_str().expect("text")));
        app.post("/v1/auth/wallet/verify").json(&body).send().await.expect(401);
    }
}

#[tokio::test]
async fn malformed_input_is_reported() {
    let app = TestApp::start().await;
    let addresses = [
        "ada",
        "0x12",
        "0x0000000000000000000000000000000000000000",
        "0x6923831aCf5c327260D7ac7C9DfF5b1c3cB3C7D7",
        "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T",
    ];
    for address in addresses {
        let body = json!({ "address": address });
        let answer = app.post("/v1/auth/wallet/challenge").json(&body).send().await;
        assert_eq!(answer.status, 400, "{address}");
        assert_eq!(answer.wrong_fields(), ["address"], "{address}");
    }
    let asked = challenge(&app, &Person::new(1, Family::Evm).address().to_string()).await;
    let answer = app
        .post("/v1/auth/wallet/verify")
        .json(&answered(&asked, "0xabc"))
        .send()
        .await;
    answer.expect(400);
    assert_eq!(answer.wrong_fields(), ["signature"]);
}

#[tokio::test]
async fn a_challenge_signed_a_hundred_times_creates_one_session() {
    let app = TestApp::start().await;
    let ada = Person::new(1, Family::Evm);
    let asked = challenge(&app, &ada.address().to_string()).await;
    let body = answered(&asked, &ada.sign(asked["message"].as_str().expect("text")));
    let calls = (0..100).map(|_| app.post("/v1/auth/wallet/verify").json(&body).send());
    let answers = futures_util::future::join_all(calls).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        1,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 401).count(),
        99,
        "{statuses:?}"
    );
    assert_eq!(count(&app, "sessions").await, 1);
}

#[tokio::test]
async fn concurrent_sign_ins_of_a_wallet_create_one_platform() {
    let app = TestApp::start().await;
    let ada = Person::new(1, Family::Evm);
    let mut bodies = Vec::new();
    for _ in 0..20 {
        let asked = challenge(&app, &ada.address().to_string()).await;
        bodies.push(answered(&asked, &ada.sign(asked["message"].as_str().expect("text"))));
    }
    let platforms = count(&app, "platforms").await;
    let calls = bodies
        .iter()
        .map(|body| app.post("/v1/auth/wallet/verify").json(body).send());
    for answer in futures_util::future::join_all(calls).await {
        answer.expect(200);
    }
    assert_eq!(count(&app, "sessions").await, 20);
    assert_eq!(count(&app, "wallets").await, 1);
    assert_eq!(count(&app, "platforms").await, platforms + 1);
}

#[tokio::test]
async fn a_wallet_session_ends_fifteen_minutes_after_its_last_use() {
    let app = TestApp::start().await;
    let used = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let idle = sign_in(&app, &Person::new(2, Family::Evm)).await;
    app.advance_ms(899_999);
    assert_eq!(status_with_cookie(&app, &used).await, 200);
    app.advance_ms(1);
    assert_eq!(status_with_cookie(&app, &idle).await, 401);
    app.advance_ms(899_998);
    assert_eq!(status_with_cookie(&app, &used).await, 200);
    // A use of the session within a minute of the last recorded use is not recorded. The session may therefore end up
    // to a minute early, but never late.
    app.advance_ms(59_999);
    assert_eq!(status_with_cookie(&app, &used).await, 200);
    app.advance_ms(840_000);
    assert_eq!(status_with_cookie(&app, &used).await, 200);
    app.advance_ms(900_000);
    assert_eq!(status_with_cookie(&app, &used).await, 401);
}

#[tokio::test]
async fn a_wallet_session_ends_after_a_day_regardless_of_use() {
    let app = TestApp::start().await;
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let ten_minutes = 600_000;
    for _ in 1..24 * 6 {
        app.advance_ms(ten_minutes);
        assert_eq!(status_with_cookie(&app, &token).await, 200);
    }
    app.advance_ms(ten_minutes - 1);
    assert_eq!(status_with_cookie(&app, &token).await, 200);
    app.advance_ms(1);
    assert_eq!(status_with_cookie(&app, &token).await, 401);
}

#[tokio::test]
async fn a_lowered_session_lifetime_applies_to_existing_sessions() {
    let app = TestApp::start().await;
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let app = app
        .restarted_with(|settings| settings.wallet_session.absolute_s = 60)
        .await;
    app.advance_ms(59_999);
    assert_eq!(status_with_cookie(&app, &token).await, 200);
    app.advance_ms(1);
    assert_eq!(status_with_cookie(&app, &token).await, 401);
    let short = sign_in(&app, &Person::new(1, Family::Evm)).await;
    app.advance_ms(60_000);
    assert_eq!(status_with_cookie(&app, &short).await, 401);
}

#[tokio::test]
async fn signing_out_ends_the_session_and_may_be_repeated() {
    let app = TestApp::start().await;
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let cookie = format!("session_token={token}");
    for _ in 0..2 {
        let answer = app
            .post("/v1/auth/logout")
            .header("cookie", &cookie)
            .header("origin", OWN)
            .send()
            .await;
        assert_eq!(answer.expect(200), json!({ "success": true }));
        assert_eq!(
            answer.header("set-cookie"),
            Some("session_token=; HttpOnly; Secure; SameSite=Lax; Path=/; Max-Age=0")
        );
        assert_eq!(status_with_cookie(&app, &token).await, 401);
    }
    app.post("/v1/auth/logout").send().await.expect(200);
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let bearer = format!("Bearer {token}");
    let answer = app
        .post("/v1/auth/logout")
        .header("authorization", &bearer)
        .send()
        .await;
    answer.expect(200);
    assert_eq!(status_with_bearer(&app, &token).await, 401);
}

#[tokio::test]
async fn a_session_cookie_changes_nothing_from_another_site() {
    let mut settings = crate::support::app::settings();
    settings.http.session_origins = vec!["https://Dashboard.example.com/".to_owned()];
    let app = TestApp::with(settings, None).await;
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let cookie = format!("session_token={token}");
    let json_kind = ("content-type", "application/json");
    let refused: [&[(&str, &str)]; 7] = [
        &[],
        &[("origin", "null")],
        &[("origin", "https://evil.example")],
        &[("origin", "https://dashboard.example.com.evil.example")],
        &[("origin", "http://localhost:3000")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", OWN), ("content-type", "text/plain")],
    ];
    for headers in refused {
        let mut call = app.post("/v1/auth/logout").header("cookie", &cookie);
        if headers.len() < 2 {
            call = call.header(json_kind.0, json_kind.1);
        }
        for (name, value) in headers {
            call = call.header(name, value);
        }
        if headers.len() == 2 {
            call = call.header("content-length", "2");
        }
        let answer = call.send().await;
        let body = answer.expect(403);
        assert!(
            body["message"]
                .as_str()
                .expect("text")
                .starts_with("A session cookie is accepted only")
        );
    }
    assert_eq!(status_with_cookie(&app, &token).await, 200);
    for headers in [
        ("origin", "https://dashboard.example.com"),
        ("origin", OWN),
        ("sec-fetch-site", "same-origin"),
    ] {
        let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
        let answer = app
            .post("/v1/auth/logout")
            .header("cookie", &format!("session_token={token}"))
            .header(headers.0, headers.1)
            .send()
            .await;
        answer.expect(200);
        assert_eq!(status_with_cookie(&app, &token).await, 401);
    }
}

#[tokio::test]
async fn another_site_cannot_sign_a_user_in() {
    let app = TestApp::start().await;
    let ada = Person::new(1, Family::Evm);
    let asked = challenge(&app, &ada.address().to_string()).await;
    let proof = answered(&asked, &ada.sign(asked["message"].as_str().expect("text")));
    let login = json!({ "email": "ada@example.com", "password": "correct horse" });
    for (path, body) in [
        ("/v1/auth/wallet/verify", &proof),
        ("/v1/auth/register", &login),
        ("/v1/auth/login", &login),
    ] {
        for headers in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            let answer = app.post(path).json(body).header(headers.0, headers.1).send().await;
            answer.expect(403);
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
    assert_eq!(count(&app, "sessions").await, 0);
    let own = app.post("/v1/auth/wallet/verify").json(&proof).header("origin", OWN);
    own.send().await.expect(200);
}

#[tokio::test]
async fn another_site_cannot_sign_a_user_out() {
    let app = TestApp::start().await;
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    for headers in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        // Browsers do not send lax cookies when another site posts a form; the response would still clear them.
        let answer = app.post("/v1/auth/logout").header(headers.0, headers.1).send().await;
        answer.expect(403);
        assert_eq!(answer.header("set-cookie"), None, "{headers:?}");
    }
    assert_eq!(status_with_cookie(&app, &token).await, 200);
    let own = app.post("/v1/auth/logout").header("origin", OWN).send().await;
    own.expect(200);
    assert!(own.header("set-cookie").expect("cleared").contains("Max-Age=0"));
    let bearer = app
        .post("/v1/auth/logout")
        .header("authorization", &format!("Bearer {token}"))
        .header("origin", "https://app.example");
    bearer.send().await.expect(200);
    assert_eq!(status_with_bearer(&app, &token).await, 401);
}

#[tokio::test]
async fn only_session_origins_may_send_cookies_across_origins() {
    let mut settings = crate::support::app::settings();
    settings.http.session_origins = vec!["https://dashboard.example.com".to_owned()];
    let app = TestApp::with(settings, None).await;
    let preflight = |origin: &'static str| {
        app.call(Method::OPTIONS, "/v2/request")
            .header("origin", origin)
            .header("access-control-request-method", "GET")
            .send()
    };
    let dashboard = preflight("https://dashboard.example.com").await;
    assert_eq!(
        dashboard.header("access-control-allow-origin"),
        Some("https://dashboard.example.com")
    );
    assert_eq!(dashboard.header("access-control-allow-credentials"), Some("true"));
    assert!(dashboard.header("vary").expect("vary").contains("Origin"));
    let shop = preflight(crate::support::app::PAGE).await;
    assert_eq!(
        shop.header("access-control-allow-origin"),
        Some(crate::support::app::PAGE)
    );
    assert_eq!(shop.header("access-control-allow-credentials"), None);
    let stranger = preflight("https://evil.example").await;
    assert_eq!(stranger.header("access-control-allow-origin"), None);
    assert_eq!(stranger.header("access-control-allow-credentials"), None);
    let token = sign_in(&app, &Person::new(1, Family::Evm)).await;
    let read = app
        .get("/v2/request")
        .header("cookie", &format!("session_token={token}"))
        .header("origin", "https://dashboard.example.com")
        .send()
        .await;
    read.expect(200);
    assert_eq!(read.header("access-control-allow-credentials"), Some("true"));
    let public = app
        .get("/health/live")
        .header("origin", "https://dashboard.example.com");
    let public = public.send().await;
    assert_eq!(public.header("access-control-allow-origin"), Some("*"));
    assert_eq!(public.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn only_expired_rows_are_deleted() {
    let app = TestApp::start().await;
    let ada = Person::new(1, Family::Evm);
    let old = sign_in(&app, &ada).await;
    app.advance_ms(TimeDelta::minutes(14).num_milliseconds());
    let new = sign_in(&app, &ada).await;
    app.advance_ms(TimeDelta::minutes(1).num_milliseconds());
    assert!(!sweep::run(&app.ctx).await.expect("swept"));
    assert_eq!(count(&app, "wallet_challenges").await, 1);
    assert_eq!(count(&app, "sessions").await, 1);
    assert_eq!(status_with_cookie(&app, &old).await, 401);
    assert_eq!(status_with_cookie(&app, &new).await, 200);
}

#[test]
fn wallet_signatures_match_the_vectors() {
    let file: Value = serde_json::from_str(include_str!("../vectors/wallet-signatures.json")).expect("vectors");
    let cases = file["vectors"].as_array().expect("a list");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let text = |name: &str| case[name].as_str().expect("text");
        let address = Address::parse(text("address")).expect("an address");
        let signature = hex::decode(text("signature")).expect("hexadecimal");
        assert!(is_signed_by_key(&address, text("message"), &signature), "{case}");
        let person = Person::with_key(&hex::decode(text("privateKey")).expect("a key"), address.family());
        assert_eq!(person.address(), address);
        assert_eq!(person.sign(text("message")), text("signature"), "{case}");
        if let Some(digest) = case["digest"].as_str() {
            assert_eq!(message_hash(address.family(), text("message")).to_string(), digest);
        }
        let other = match address {
            Address::Evm(bytes) => Address::Tron(bytes),
            Address::Tron(bytes) => Address::Evm(bytes),
        };
        assert!(!is_signed_by_key(&other, text("message"), &signature), "{case}");
        let changed = format!("{}!", text("message"));
        assert!(!is_signed_by_key(&address, &changed, &signature), "{case}");
    }
}
