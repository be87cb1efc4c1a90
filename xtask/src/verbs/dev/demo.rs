//! The demonstration of `cargo xtask dev --demo`: one request from its creation to the signed event about its payment.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xtask::machine::command::{self, POLL};
use xtask::service::client::Client;
use xtask::service::delivery::{Delivery, EVENT};

use super::chain;
use super::ready::{Ready, sample_request};

/// How long one step may take before the demonstration gives up.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a sender may take over one delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Larger than any event; a sender that announces more is not ours.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Goes through all steps and prints when each of them happened.
pub(crate) fn run(ready: &Ready) -> Result<()> {
    let service = ready.client("x-client-id", "/backendClientId")?;
    let receiver = Hooks::listen().context("step `receiver`")?;
    let hook = json!({"url": receiver.url});
    let registered = service.create("/v1/webhook", &hook).context("step `receiver`")?;
    let secret = registered["secret"]
        .as_str()
        .context("step `receiver`: the answer has no secret")?;

    let mut timeline = Timeline::start();
    let body = sample_request(ready.account(1)?);
    let created = service.create("/v2/request", &body).context("step `created`")?;
    let request_id = created["requestId"]
        .as_str()
        .context("step `created`: the answer has no requestId")?;
    timeline.reached("created", request_id, Instant::now());

    let hashes = chain::pay(&service, ready, request_id, 0).context("step `paid`")?;
    timeline.reached("paid", &hashes.join(", "), Instant::now());

    let path = format!("/v2/request/{request_id}");
    let detected = |request: &Value| !request["detectedAmount"].is_null() || request["hasBeenPaid"] == true;
    let request = wait_for(&service, &path, detected).context("step `detected`")?;
    let amount = request["detectedAmount"].as_str().unwrap_or("the whole amount");
    timeline.reached("detected", amount, Instant::now());

    let request = wait_for(&service, &path, |request| request["hasBeenPaid"] == true).context("step `confirmed`")?;
    timeline.reached(
        "confirmed",
        request["status"].as_str().unwrap_or_default(),
        Instant::now(),
    );

    let delivery = receiver.wait_for(request_id).context("step `delivered`")?;
    delivery.verify(secret).context("step `delivered`")?;
    timeline.reached("delivered", &format!("{EVENT}, signature verified"), delivery.arrived);
    Ok(())
}

/// Prints the steps with the time since the beginning and since the step before.
struct Timeline {
    begun: Instant,
    last: Instant,
}

impl Timeline {
    fn start() -> Self {
        let now = Instant::now();
        Self { begun: now, last: now }
    }

    fn reached(&mut self, step: &str, detail: &str, at: Instant) {
        let (total, since) = (
            at.saturating_duration_since(self.begun),
            at.saturating_duration_since(self.last),
        );
        println!(
            "{step:<10} {:>7} ms  (+{} ms)  {detail}",
            total.as_millis(),
            since.as_millis()
        );
        self.last = self.last.max(at);
    }
}

fn wait_for(service: &Client, path: &str, reached: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    loop {
        let request = service.get(path)?;
        if reached(&request) {
            return Ok(request);
        }
        if command::interrupted() {
            bail!("interrupted");
        }
        if Instant::now() > deadline {
            bail!("not after {} s; the request is {request}", STEP_TIMEOUT.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

/// A receiver of events on loopback.
pub(crate) struct Hooks {
    /// Where events are posted to.
    pub(crate) url: String,
    /// What arrived and was not looked at yet.
    pub(crate) deliveries: Receiver<Delivery>,
}

impl Hooks {
    /// Listens on a free port, for as long as the program runs.
    pub(crate) fn listen() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("http://127.0.0.1:{}/hook", listener.local_addr()?.port());
        let (sender, deliveries) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    // A connection that is no delivery is the sender's mistake, and the next one may be right.
                    if let Err(error) = receive(stream, &sender) {
                        eprintln!("receiver: {error:#}");
                    }
                });
            }
        });
        Ok(Self { url, deliveries })
    }

    /// The confirmation of this request; other events are passed over.
    fn wait_for(&self, request_id: &str) -> Result<Delivery> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            match self.deliveries.recv_timeout(POLL) {
                Ok(delivery) => {
                    let event: Value = serde_json::from_slice(&delivery.body).context("an event is not JSON")?;
                    if event["event"] == EVENT && event["requestId"] == request_id {
                        return Ok(delivery);
                    }
                }
                Err(RecvTimeoutError::Timeout) if command::interrupted() => bail!("interrupted"),
                Err(RecvTimeoutError::Timeout) if Instant::now() <= deadline => {}
                Err(_) => bail!("no {EVENT} after {} s", STEP_TIMEOUT.as_secs()),
            }
        }
    }
}

/// Reads one HTTP/1.1 request with a declared length and answers 200.
fn receive(stream: TcpStream, sender: &Sender<Delivery>) -> Result<()> {
    stream.set_read_timeout(Some(DELIVERY_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        // The sender was gone before it said anything.
        return Ok(());
    }
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    let length: usize = headers
        .get("content-length")
        .context("a delivery without content-length")?
        .parse()?;
    if length > BODY_BYTES_MAX {
        bail!("a delivery of {length} bytes");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let _ = sender.send(Delivery {
        headers,
        body,
        arrived: Instant::now(),
    });
    let mut stream = stream;
    // What arrived has arrived, even if its sender did not live to see the answer.
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_hands_over_the_confirmation_of_the_request() {
        let hooks = Hooks::listen().unwrap();
        let sender = Client::new(&hooks.url, vec![("x-api-key", "k".to_owned())]);
        for body in [
            json!({"event": "payment.partial", "requestId": "01a"}),
            json!({"event": EVENT, "requestId": "01b"}),
            json!({"event": EVENT, "requestId": "01a"}),
        ] {
            // The receiver answers 200 without a body, which is no 201: only the delivery counts here.
            assert!(sender.create("", &body).is_err());
        }
        let delivery = hooks.wait_for("01a").unwrap();
        assert_eq!(delivery.headers["x-api-key"], "k");
        assert_eq!(serde_json::from_slice::<Value>(&delivery.body).unwrap()["event"], EVENT);
    }
}
