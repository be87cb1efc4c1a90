//! A real browser signs in from a page of another origin, under its rules for cookies and cross-origin calls.

use crate::{
    sessions::Person,
    support::{TestApp, browser::Browser},
};
use axum::{Router, extract::State, response::Html, routing::post};
use futures_util::FutureExt;
use prs::{
    boot::{process::Process, role::Role, serve},
    domain::network::Family,
    http::edge::server::{self, ServerOptions, Shutdown},
};
use serde_json::{Value, json};
use std::{panic::AssertUnwindSafe, sync::Arc};
use tokio::net::TcpListener;

/// Functions for every script: calls to the service, and a wallet whose key is in the test.
const PRELUDE: &str = r#"
    const [service, address] = arguments;
    const done = arguments[arguments.length - 1];
    window.ethereum = {
        request: async ({ method, params }) => {
            if (method !== 'personal_sign') throw new Error(method);
            // Wallets sign EIP-4361 messages for the requested account, and warn about any other text.
            const layout = /^[^ \n]+ wants you to sign in with your Ethereum account:\n(0x[0-9a-fA-F]{40})\n\n[^\n]+\n\nURI: [^\n]+\nVersion: 1\nChain ID: [1-9][0-9]*\nNonce: [a-zA-Z0-9]{8,}\nIssued At: [^\n]+Z\nExpiration Time: [^\n]+Z$/;
            if (layout.exec(params[0])?.[1] !== address) throw new Error('not a sign-in message');
            return (await fetch('/sign', { method: 'POST', body: params[0] })).text();
        },
    };
    const tell = async (path, body) => {
        const headers = { 'content-type': 'application/json' };
        const init = { method: 'POST', credentials: 'include', headers, body: JSON.stringify(body) };
        const answer = await fetch(service + path, init);
        return { status: answer.status, body: await answer.json() };
    };
    const list = async (credentials) => {
        try {
            return (await fetch(service + '/v2/request', { credentials })).status;
        } catch (error) {
            return error.name;
        }
    };
    const signIn = async () => {
        const { challengeId, nonce, message } = (await tell('/v1/auth/wallet/challenge', { address })).body;
        const signature = await window.ethereum.request({ method: 'personal_sign', params: [message, address] });
        return (await tell('/v1/auth/wallet/verify', { challengeId, nonce, message, signature })).status;
    };
"#;

/// Runs a script on the open page; returns the value of its last expression.
async fn run(browser: &Browser, service: &str, address: &str, script: &str) -> Value {
    let script = format!("{PRELUDE} (async () => {{ {script} }})().then(done, (error) => done(String(error)));");
    browser.run(&script, &json!([service, address])).await
}

/// Serves an empty page, and signs any message that a script on the page sends with the key of this person.
async fn page(person: Arc<Person>) -> u16 {
    let sign = |State(person): State<Arc<Person>>, message: String| async move { person.sign(&message) };
    let routes = Router::new().route("/sign", post(sign)).with_state(person);
    let routes = routes.fallback(|| async { Html("<!doctype html><title>Dashboard</title>") });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    port
}

#[tokio::test]
async fn browsers_sign_in_only_from_listed_pages() {
    let ada = Arc::new(Person::new(1, Family::Evm));
    let (listed, unlisted) = (page(ada.clone()).await, page(ada.clone()).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let mut settings = crate::support::app::settings();
    settings.http.listen = listener.local_addr().expect("an address");
    settings.http.metrics_listen = settings.http.listen;
    settings.http.insecure_cookies = true;
    settings.http.session_origins = ["127.0.0.1", "localhost"]
        .map(|host| format!("http://{host}:{listed}"))
        .to_vec();
    settings.validate().expect("good settings");
    let service = settings.public_url();
    let app = TestApp::with(settings.clone(), None).await;
    let served = serve::app(&settings, &app.ctx, &Process::new(Role::Api));
    let shutdown = Shutdown::default();
    tokio::spawn(server::serve(
        vec![listener],
        served,
        ServerOptions::default(),
        shutdown.clone(),
    ));
    let browser = Browser::start().await;
    let address = ada.address().to_string();
    let story = async {
        let run = |script: &'static str| run(&browser, &service, &address, script);
        browser.open(&format!("http://127.0.0.1:{listed}/")).await;
        let seen =
            run("return [await list('include'), await signIn(), await list('include'), await list('omit')];").await;
        assert_eq!(seen, json!([401, 200, 200, 401]));
        // Scripts cannot read the session cookie, although cookies are shared by all ports.
        assert_eq!(run("return document.cookie;").await, "");

        // An unlisted page of the same site: its calls carry the cookie, and fail.
        browser.open(&format!("http://127.0.0.1:{unlisted}/")).await;
        assert_eq!(run("return await list('include');").await, "TypeError");
        assert_eq!(run("return await signIn();").await, "TypeError: Failed to fetch");
        let forged = "const init = { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' };
            return (await fetch(service + '/v1/auth/logout', init)).type;";
        assert_eq!(run(forged).await, "opaque");

        // A page of another site, listed or not, does not have the cookie at all.
        browser.open(&format!("http://localhost:{listed}/")).await;
        let seen = run("return [await list('include'), await signIn(), await list('include')];").await;
        assert_eq!(seen, json!([401, 200, 401]));

        browser.open(&format!("http://127.0.0.1:{listed}/")).await;
        let seen =
            run("return [await list('include'), (await tell('/v1/auth/logout', {})).status, await list('include')];");
        assert_eq!(seen.await, json!([200, 200, 401]));
    };
    // The browser is always stopped, since its processes outlive the driver.
    let told = AssertUnwindSafe(story).catch_unwind().await;
    browser.end().await;
    shutdown.stop.cancel();
    if let Err(panic) = told {
        std::panic::resume_unwind(panic);
    }
}
