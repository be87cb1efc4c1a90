//! Password guesses from several addresses and devices, over real sockets.

use crate::support::{Answer, TestApp};
use reqwest::{Client, header::HeaderMap};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};

const EMAIL: &str = "ada@example.com";
const RIGHT: &str = "correct horse";
const PAGE: [(&str, &str); 1] = [("sec-fetch-site", "same-origin")];

/// A client that signs in: an address, and the headers of a browser.
struct Visitor {
    client: Client,
    service: SocketAddr,
    headers: Vec<(&'static str, String)>,
}

/// The status and the device marker of a response.
struct Seen {
    status: u16,
    marker: Option<String>,
}

impl Visitor {
    fn at(service: SocketAddr, address: &str) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        let client = Client::builder()
            .no_proxy()
            .local_address(address)
            .build()
            .expect("a client");
        Self {
            client,
            service,
            headers: Vec::new(),
        }
    }

    /// The same client with the headers of a browser, and with the device marker as a cookie if one is given.
    fn with_browser(mut self, marker: Option<&str>) -> Self {
        self.headers = PAGE.map(|(name, value)| (name, value.to_owned())).to_vec();
        let marker = marker.map(|marker| ("cookie", format!("theme=dark; device_token={marker}")));
        self.headers.extend(marker);
        self
    }

    async fn post(&self, path: &str, email: &str, password: &str) -> Seen {
        let mut call = self.client.post(format!("http://{}{path}", self.service));
        for (name, value) in &self.headers {
            call = call.header(*name, value);
        }
        let body = json!({ "email": email, "password": password });
        let answer = call.json(&body).send().await.expect("an answer");
        Seen {
            status: answer.status().as_u16(),
            marker: marker(answer.headers()),
        }
    }

    async fn sign_in(&self, password: &str) -> u16 {
        self.post("/v1/auth/login", EMAIL, password).await.status
    }

    /// Guesses passwords until the service refuses to check one; returns how many guesses were checked.
    async fn guess(&self, at_most: usize) -> usize {
        for done in 0..at_most {
            match self.sign_in("wrong horse").await {
                401 => {}
                429 => return done,
                status => panic!("{status}"),
            }
        }
        at_most
    }
}

fn marker(headers: &HeaderMap) -> Option<String> {
    let mut cookies = headers
        .get_all("set-cookie")
        .iter()
        .map(|cookie| cookie.to_str().expect("text"));
    let cookie = cookies.find(|cookie| cookie.starts_with("device_token="))?;
    assert!(cookie.contains("; HttpOnly;") && cookie.contains(" Secure;") && cookie.contains("Max-Age=31536000"));
    let (_, marker) = cookie.split(';').next()?.split_once('=')?;
    assert_eq!(marker.len(), 43, "256 bits");
    Some(marker.to_owned())
}

#[tokio::test]
async fn password_guesses_do_not_lock_out_an_owner_with_a_known_device() {
    let app = TestApp::start().await;
    let service = app.listen().await;
    let program = Visitor::at(service, "127.0.0.2");
    assert_eq!(program.post("/v1/auth/register", EMAIL, RIGHT).await.status, 201);
    let browser = Visitor::at(service, "127.0.0.3").with_browser(None);
    let marked = browser.post("/v1/auth/login", EMAIL, RIGHT).await;
    assert_eq!(marked.status, 200);
    let marker = marked.marker.expect("a marker");
    // One address is throttled after five guesses. Other addresses are not.
    let guesser = Visitor::at(service, "127.0.1.1");
    assert_eq!(guesser.guess(50).await, 5);
    assert_eq!(Visitor::at(service, "127.0.0.9").sign_in(RIGHT).await, 200);
    // Guesses from many addresses at one account throttle all addresses that are unknown to the account.
    let mut looked_at = 5;
    for host in 2..=15 {
        looked_at += Visitor::at(service, &format!("127.0.1.{host}")).guess(50).await;
    }
    assert_eq!(looked_at, 48, "fifty, of which two were sign-ins from new addresses");
    let stranger = Visitor::at(service, "127.0.0.4").with_browser(None);
    assert_eq!(stranger.sign_in(RIGHT).await, 429);
    // These clients are not throttled: the owner's browser at any address, even with an old session, and the owner's
    // program at its usual address.
    let moved = Visitor::at(service, "127.0.0.5").with_browser(Some(&marker));
    let again = moved.post("/v1/auth/login", EMAIL, RIGHT).await;
    assert_eq!((again.status, again.marker), (200, None));
    assert_eq!(program.sign_in(RIGHT).await, 200);
    // A browser at the address of a program does not count as the program.
    let beside = Visitor::at(service, "127.0.0.2").with_browser(None);
    assert_eq!(beside.sign_in(RIGHT).await, 429);
    // The delay ends for strangers as well.
    app.advance_ms(60_000);
    assert_eq!(stranger.sign_in(RIGHT).await, 200);
}

#[tokio::test]
async fn a_device_marker_is_per_account_and_throttled_like_an_address() {
    let app = TestApp::start().await;
    let service = app.listen().await;
    let browser = || Visitor::at(service, "127.0.0.2").with_browser(None);
    let ada = browser().post("/v1/auth/register", EMAIL, RIGHT).await;
    let eve = browser().post("/v1/auth/register", "eve@example.com", RIGHT).await;
    let (ada, eve) = (ada.marker.expect("a marker"), eve.marker.expect("a marker"));
    // Eve guesses with the marker of her own account, with an unknown marker, and from the next address.
    assert_eq!(
        Visitor::at(service, "127.0.2.1")
            .with_browser(Some(&eve))
            .guess(50)
            .await,
        5
    );
    assert_eq!(
        Visitor::at(service, "127.0.2.2")
            .with_browser(Some("made-up"))
            .guess(50)
            .await,
        5
    );
    // With a stolen device marker Eve is throttled after the same number of guesses, at any address.
    assert_eq!(
        Visitor::at(service, "127.0.2.3")
            .with_browser(Some(&ada))
            .guess(50)
            .await,
        5
    );
    assert_eq!(
        Visitor::at(service, "127.0.2.4")
            .with_browser(Some(&ada))
            .guess(50)
            .await,
        0
    );
    app.advance_ms(1_000);
    assert_eq!(
        Visitor::at(service, "127.0.0.2")
            .with_browser(Some(&ada))
            .sign_in(RIGHT)
            .await,
        200
    );
}

#[tokio::test]
async fn a_device_is_known_for_a_year_after_its_last_sign_in() {
    let app = TestApp::start().await;
    let service = app.listen().await;
    let marked = Visitor::at(service, "127.0.0.2").with_browser(None);
    let marker = marked
        .post("/v1/auth/register", EMAIL, RIGHT)
        .await
        .marker
        .expect("a marker");
    let browser = || Visitor::at(service, "127.0.0.2").with_browser(Some(&marker));
    let year_ms = 365 * 86_400_000;
    app.advance_ms(year_ms - 1);
    let known = browser().post("/v1/auth/login", EMAIL, RIGHT).await;
    assert_eq!((known.status, known.marker), (200, None));
    app.advance_ms(year_ms);
    let forgotten = browser().post("/v1/auth/login", EMAIL, RIGHT).await;
    assert_eq!(forgotten.status, 200);
    assert_ne!(forgotten.marker.expect("another marker"), marker);
}

#[tokio::test]
async fn an_account_keeps_its_last_twenty_devices() {
    let app = TestApp::start().await;
    let service = app.listen().await;
    let browser = |marker: Option<&str>| Visitor::at(service, "127.0.0.2").with_browser(marker);
    let first = browser(None)
        .post("/v1/auth/register", EMAIL, RIGHT)
        .await
        .marker
        .expect("a marker");
    let mut last = String::new();
    for _ in 0..20 {
        app.advance_ms(1_000);
        last = browser(None)
            .post("/v1/auth/login", EMAIL, RIGHT)
            .await
            .marker
            .expect("a marker");
    }
    assert_eq!(crate::sessions::count(&app, "known_devices").await, 20);
    assert!(
        browser(Some(&last))
            .post("/v1/auth/login", EMAIL, RIGHT)
            .await
            .marker
            .is_none()
    );
    assert!(
        browser(Some(&first))
            .post("/v1/auth/login", EMAIL, RIGHT)
            .await
            .marker
            .is_some()
    );
}

#[tokio::test]
async fn a_device_stays_known_after_sign_out() {
    let app = TestApp::start().await;
    let own = "http://127.0.0.1:8080";
    let body = json!({ "email": EMAIL, "password": RIGHT });
    let answer = app
        .post("/v1/auth/register")
        .header("origin", own)
        .json(&body)
        .send()
        .await;
    answer.expect(201);
    let cookies = |answer: &Answer| -> Vec<String> {
        let cookies = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
        cookies.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(cookies(&answer).len(), 2);
    let out = app.post("/v1/auth/logout").header("origin", own).send().await;
    out.expect(200);
    assert!(cookies(&out).iter().all(|cookie| cookie.starts_with("session_token=;")));
}
