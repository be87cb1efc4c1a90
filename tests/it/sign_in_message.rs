//! Checks that the parsers of wallets and other services accept the sign-in message: `siwe` and `viem` from npm,
//! installed from the pinned list in `tests/sign_in_message`.

use crate::{
    sessions::{Person, challenge},
    support::{TestApp, published},
};
use prs::domain::network::Family;
use serde_json::{Value, json};
use std::process::Command;

const FILES: [&str; 3] = ["package.json", "package-lock.json", "read.mjs"];

#[tokio::test]
async fn siwe_and_viem_accept_the_sign_in_message_and_its_signature() {
    let mut asked = Vec::new();
    let addresses = [
        "http://127.0.0.1:8080",
        "https://auth.example.com",
        "https://example.com/pay",
    ];
    for auth_url in addresses {
        let mut settings = crate::support::app::settings();
        settings.http.auth_url = Some(auth_url.to_owned());
        let app = TestApp::with(settings, None).await;
        let ada = Person::new(1, Family::Evm);
        let told = challenge(&app, &ada.address().to_string()).await;
        let message = told["message"].as_str().expect("text");
        let (_, host) = auth_url.split_once("://").expect("an address");
        asked.push(json!({
            "message": message, "signature": ada.sign(message), "nonce": told["nonce"],
            "domain": host.split('/').next(), "time": "2026-01-31T12:04:59Z",
        }));
    }
    // Messages that a library has to refuse: one without its chain, and one that is too old.
    let mut chainless = asked[0].clone();
    let words = chainless["message"]
        .as_str()
        .expect("text")
        .replace("Chain ID: 1\n", "");
    chainless["message"] = words.into();
    let mut late = asked[0].clone();
    late["time"] = "2026-01-31T12:05:01Z".into();
    asked.extend([chainless, late]);
    let folder = published::installed("sign_in_message", &FILES, |_| {});
    let mut node = Command::new("node");
    node.arg(folder.join("read.mjs"));
    let read: Vec<Value> = published::verdicts(node, &asked);
    for (reading, auth_url) in read.iter().zip(addresses) {
        let siwe = json!({ "success": true, "words": true, "chainId": 1, "uri": auth_url });
        let viem = json!({ "success": true, "chainId": 1, "uri": auth_url });
        assert_eq!(*reading, json!({ "siwe": siwe, "viem": viem }));
    }
    for refused in &read[addresses.len()..] {
        assert_eq!(refused["siwe"]["success"], false, "{refused}");
    }
    assert_eq!(read[4]["viem"]["success"], false, "{}", read[4]);
}
