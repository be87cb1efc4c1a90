//! Wallet sign-in over HTTP.

use super::{TestApp, wallet::TestWallet};
use alloy::primitives::eip191_hash_message;
use serde_json::json;

/// Signs in with a wallet and returns the session token.
pub async fn sign_in(app: &TestApp, wallet: &TestWallet) -> String {
    let asked = json!({ "address": wallet.address().to_string() });
    let challenge = app
        .post("/v1/auth/wallet/challenge")
        .json(&asked)
        .send()
        .await
        .expect(201);
    let message = challenge["message"].as_str().expect("text");
    let proof = json!({
        "challengeId": challenge["challengeId"],
        "nonce": challenge["nonce"],
        "message": message,
        "signature": wallet.sign(&eip191_hash_message(message)),
    });
    let verified = app.post("/v1/auth/wallet/verify").json(&proof).send().await;
    assert_eq!(verified.status, 200, "{}", verified.text);
    let cookie = verified.header("set-cookie").expect("a cookie");
    let token = cookie.strip_prefix("session_token=").expect("the session");
    token.split(';').next().expect("a token").to_owned()
}
