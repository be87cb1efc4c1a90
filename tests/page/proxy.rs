//! A proxy between browser and service that changes responses.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Uri, header},
    response::Response,
};
use std::sync::{Arc, Mutex};

/// A change of a response: gets the path and the body, and returns the new body.
type Change = Box<dyn Fn(&str, String) -> String + Send>;

#[derive(Clone)]
struct Forward {
    service: String,
    client: reqwest::Client,
    change: Arc<Mutex<Change>>,
}

pub struct Proxy {
    /// Address on which the proxy listens.
    pub address: String,
    change: Arc<Mutex<Change>>,
}

impl Proxy {
    /// Starts a proxy in front of a service; it changes nothing yet.
    pub async fn before(service: &str) -> Self {
        let change: Arc<Mutex<Change>> = Arc::new(Mutex::new(Box::new(|_, text| text)));
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        let forward = Forward {
            service: service.to_owned(),
            client: client.build().expect("a client"),
            change: change.clone(),
        };
        let router = Router::new().fallback(pass).with_state(forward);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, change }
    }

    /// Applies this change to responses from now on.
    pub fn lets(&self, change: impl Fn(&str, String) -> String + Send + 'static) {
        *self.change.lock().expect("unbroken") = Box::new(change);
    }
}

async fn pass(State(forward): State<Forward>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let address = format!("{}{uri}", forward.service);
    let mut call = forward.client.request(method, address).body(body);
    let own = [
        header::HOST,
        header::ACCEPT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONNECTION,
    ];
    for (name, value) in headers.iter().filter(|(name, _)| !own.contains(name)) {
        call = call.header(name, value);
    }
    let answer = call.send().await.expect("the service responds");
    let mut response = Response::builder().status(answer.status());
    // The next request for the same page may get a different change, so the browser must not cache the response.
    let left_out = [
        header::CACHE_CONTROL,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
    ];
    for (name, value) in answer.headers().iter().filter(|(name, _)| !left_out.contains(name)) {
        response = response.header(name, value);
    }
    let text = answer.text().await.expect("text");
    let text = forward.change.lock().expect("unbroken")(uri.path(), text);
    response
        .header(header::CACHE_CONTROL, "no-store")
        .body(Body::from(text))
        .expect("an answer")
}
