//! A client that keeps running when the service dies. It distinguishes a response from a missing response, and repeats
//! calls whose outcome is unknown.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;
use xtask::machine::command;
use xtask::service::client::{self, Answer, CALL_TIMEOUT, Call};

/// How long a call is repeated. The service restarts many times within this time.
const INSIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two calls while the service is down.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Statuses after which a call is repeated: the lost first call may still be committing, or the rate limit was
/// exceeded.
const STATUSES_TO_REPEAT: [u16; 2] = [409, TOO_MANY];

/// The status of a call that was refused because of a rate limit.
const TOO_MANY: u16 = 429;

/// Whether a response is final, so that the call is not repeated.
fn is_final(answer: &Answer) -> bool {
    answer.status < 500 && !STATUSES_TO_REPEAT.contains(&answer.status)
}

/// Calls the service with one credential.
pub(crate) struct Client {
    once: client::Client,
    is_given_up: AtomicBool,
    repeated_creates: AtomicUsize,
}

impl Deref for Client {
    type Target = client::Client;

    fn deref(&self) -> &client::Client {
        &self.once
    }
}

impl Client {
    /// A client that sends these headers with every call.
    pub(crate) fn new(base_url: &str, headers: Vec<(&'static str, String)>) -> Self {
        Self {
            once: client::Client::new(base_url, headers),
            is_given_up: AtomicBool::new(false),
            repeated_creates: AtomicUsize::new(0),
        }
    }

    /// Stops every call that is being repeated.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// Number of creations that were sent more than once.
    pub(crate) fn repeated_creates(&self) -> usize {
        self.repeated_creates.load(Ordering::SeqCst)
    }

    /// Creates an object without an idempotency key, as clients of the published interface do. Drops the connection if
    /// the response takes longer than `patience`.
    pub(crate) fn create_unkeyed(&self, patience: Duration, path: &str, body: &Value) -> Result<Outcome> {
        loop {
            match self.call_within(patience, path, &Call::Post(body)) {
                // The rate limit refused the call, so it changed nothing and can be sent again.
                Ok(answer) if answer.status == TOO_MANY => std::thread::sleep(RETRY_PAUSE),
                Ok(answer) if answer.status < 500 => return Ok(Outcome::Known(answer)),
                _ => break,
            }
        }
        if command::interrupted() {
            bail!("interrupted");
        }
        if self.is_given_up.load(Ordering::SeqCst) {
            bail!("the run was aborted");
        }
        std::thread::sleep(RETRY_PAUSE);
        Ok(Outcome::Unknown)
    }

    /// Repeats the call until the response is final.
    pub(crate) fn insist(&self, path: &str, call: &Call<'_>) -> Result<Answer> {
        self.insist_after(CALL_TIMEOUT, path, call)
    }

    /// Repeats the call until the response is final. Drops the first connection if its response takes longer than
    /// `patience`.
    pub(crate) fn insist_after(&self, patience: Duration, path: &str, call: &Call<'_>) -> Result<Answer> {
        let deadline = Instant::now() + INSIST_TIMEOUT;
        let mut timeout = patience;
        let mut is_repeated = false;
        loop {
            let outcome = self.call_within(timeout, path, call);
            timeout = CALL_TIMEOUT;
            let silence = match outcome {
                Ok(answer) if is_final(&answer) => return Ok(answer),
                Ok(answer) => format!("{path} answered {}: {}", answer.status, answer.body),
                Err(error) => format!("{error:#}"),
            };
            if command::interrupted() {
                bail!("interrupted");
            }
            if self.is_given_up.load(Ordering::SeqCst) || Instant::now() > deadline {
                bail!("no final response: {silence}");
            }
            if matches!(call, Call::PostOnce(..)) && !is_repeated {
                is_repeated = true;
                self.repeated_creates.fetch_add(1, Ordering::SeqCst);
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

/// The outcome of a call without an idempotency key.
pub(crate) enum Outcome {
    /// The response is final.
    Known(Answer),
    /// It is unknown whether the service executed the call, and repeating it might execute it twice.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};

    use serde_json::json;

    /// A server that sends one of these texts to each connection, in order. If the text is empty, it closes the
    /// connection.
    fn service(answers: &'static [&'static str]) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        url
    }

    #[test]
    fn a_create_is_repeated_until_its_response_is_final() {
        let url = service(&[
            "",
            "HTTP/1.1 503 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "HTTP/1.1 409 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "HTTP/1.1 201 X\r\ncontent-length: 9\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 201 X\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{\"id\": 1}",
        ]);
        let client = Client::new(&url, Vec::new());
        let body = json!({});
        let answer = client.insist("/v2/request", &Call::PostOnce(&body, "k")).unwrap();
        assert_eq!(answer.expect(201).unwrap()["id"], 1);
        assert_eq!(client.repeated_creates(), 1);
    }

    #[test]
    fn a_call_that_hung_up_is_repeated_with_patience() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            // The first connection is accepted and never gets a response.
            let _silent = listener.accept().unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let answer = b"HTTP/1.1 200 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(answer).unwrap();
        });
        let client = Client::new(&url, Vec::new());
        let answer = client.insist_after(Duration::from_millis(5), "/", &Call::Get).unwrap();
        assert_eq!(answer.status, 200);
    }

    #[test]
    fn a_creation_without_key_is_sent_again_only_when_it_was_refused() {
        let url = service(&[
            "HTTP/1.1 429 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "HTTP/1.1 201 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "HTTP/1.1 503 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            "",
        ]);
        let client = Client::new(&url, Vec::new());
        let create = || client.create_unkeyed(CALL_TIMEOUT, "/v2/request", &json!({})).unwrap();
        assert!(matches!(create(), Outcome::Known(answer) if answer.status == 201));
        assert!(matches!(create(), Outcome::Unknown));
        assert!(matches!(create(), Outcome::Unknown));
    }

    #[test]
    fn a_refusal_is_final() {
        let url = service(&["HTTP/1.1 400 X\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbad"]);
        let answer = Client::new(&url, Vec::new()).insist("/", &Call::Get).unwrap();
        assert!(answer.expect(200).unwrap_err().to_string().contains("400"));
    }

    #[test]
    fn a_client_that_gave_up_does_not_insist() {
        let url = service(&[""]);
        let client = Client::new(&url, Vec::new());
        client.give_up();
        assert!(client.insist("/", &Call::Get).is_err());
    }
}
