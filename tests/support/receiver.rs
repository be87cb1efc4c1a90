//! A webhook receiver that records deliveries and returns configured responses.

use std::sync::{Arc, Mutex};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// A received POST.
#[derive(Debug, Clone)]
pub struct Received {
    /// Headers in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, byte for byte.
    pub body: String,
}

impl Received {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }
}

/// The receiver.
pub struct Receiver {
    server: MockServer,
    status: Arc<Mutex<u16>>,
    said: Arc<Mutex<String>>,
    refused: Arc<Mutex<Vec<String>>>,
}

struct Answers {
    status: Arc<Mutex<u16>>,
    said: Arc<Mutex<String>>,
    refused: Arc<Mutex<Vec<String>>>,
}

/// Returns the configured response.
struct Echo;

impl Respond for Echo {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        ResponseTemplate::new(200).set_body_bytes(request.body.clone())
    }
}

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let refused = self.refused.lock().expect("unpoisoned");
        let status = if refused.iter().any(|body| body.as_bytes() == request.body) {
            500
        } else {
            *self.status.lock().expect("unpoisoned")
        };
        let said = self.said.lock().expect("unpoisoned").clone();
        ResponseTemplate::new(status).set_body_string(said)
    }
}

impl Receiver {
    /// Starts a receiver that returns 200.
    pub async fn start() -> Self {
        let status = Arc::new(Mutex::new(200));
        let said = Arc::new(Mutex::new("ok".to_owned()));
        let refused = Arc::default();
        let server = MockServer::start().await;
        let answers = Answers {
            status: Arc::clone(&status),
            said: Arc::clone(&said),
            refused: Arc::clone(&refused),
        };
        Mock::given(any()).respond_with(answers).mount(&server).await;
        Self {
            server,
            status,
            said,
            refused,
        }
    }

    /// Starts a receiver that returns 200 and echoes the body.
    pub async fn echoing() -> Self {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(Echo).mount(&server).await;
        Self {
            server,
            status: Arc::new(Mutex::new(200)),
            said: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Makes the receiver return this status from now on.
    pub fn answer(&self, status: u16) {
        *self.status.lock().expect("unpoisoned") = status;
    }

    /// Makes the receiver return this text from now on.
    #[allow(dead_code, reason = "not every binary that shares this listens to answers")]
    pub fn say(&self, text: &str) {
        text.clone_into(&mut self.said.lock().expect("unpoisoned"));
    }

    /// Makes the receiver return 500 for this body from now on.
    #[allow(dead_code, reason = "not every binary that shares this refuses one")]
    pub fn refuse(&self, body: &str) {
        self.refused.lock().expect("unpoisoned").push(body.to_owned());
    }

    /// URL to post to.
    pub fn url(&self) -> String {
        format!("{}/hook", self.server.uri())
    }

    /// Received deliveries, in order.
    pub async fn received(&self) -> Vec<Received> {
        let requests = self.server.received_requests().await.expect("recording is on");
        requests
            .into_iter()
            .map(|request| Received {
                headers: request
                    .headers
                    .iter()
                    .map(|(name, value)| {
                        (
                            name.as_str().to_lowercase(),
                            value.to_str().unwrap_or_default().to_owned(),
                        )
                    })
                    .collect(),
                body: String::from_utf8(request.body).expect("UTF-8"),
            })
            .collect()
    }
}
