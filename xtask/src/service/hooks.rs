//! A webhook receiver on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::machine::command::{self, POLL};
use crate::service::delivery::Delivery;

/// Time limit for a sender to transmit one delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a message, larger than any event. A larger announced length does not come from our service.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Headers by name in lower case.
pub type Headers = BTreeMap<String, String>;

/// Received deliveries in order.
type Arrived = Arc<Mutex<Vec<Delivery>>>;

/// Chooses the response status for each delivery.
type Status = fn(&Delivery) -> u16;

/// A receiver that listens until the program ends.
pub struct Hooks {
    port: u16,
    arrived: Arrived,
}

impl Hooks {
    /// Listens on a port, or on a free one for 0, and responds to each delivery with the given status.
    pub fn listen(port: u16, status: Status) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let arrived = Arrived::default();
        let shared = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // A malformed connection is the sender's mistake; the next one may be valid.
                    if let Err(error) = receive(stream, &shared, status) {
                        eprintln!("receiver: {error:#}");
                    }
                });
            }
        });
        Ok(Self { port, arrived })
    }

    /// The URL to which events are posted.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Waits until enough deliveries match, or until the timeout; returns the deliveries that match.
    pub fn wait(&self, count: usize, timeout: Duration, is_meant: impl Fn(&Value, &Delivery) -> bool) -> Vec<Delivery> {
        let deadline = Instant::now() + timeout;
        loop {
            let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let meant: Vec<Delivery> = arrived
                .into_iter()
                .filter(|delivery| {
                    serde_json::from_slice(&delivery.body).is_ok_and(|event: Value| is_meant(&event, delivery))
                })
                .collect();
            if meant.len() >= count || Instant::now() > deadline || command::interrupted() {
                return meant;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Reads one delivery, stores it and responds.
fn receive(mut stream: TcpStream, arrived: &Arrived, status: Status) -> Result<()> {
    stream.set_read_timeout(Some(DELIVERY_TIMEOUT))?;
    let Some(message) = read_message(&mut BufReader::new(stream.try_clone()?))? else {
        return Ok(());
    };
    let delivery = Delivery {
        headers: message.headers,
        body: message.body,
        arrived: Instant::now(),
    };
    let status = status(&delivery);
    arrived.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
    // A delivery counts as received even if its sender died before it read the response.
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Received\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    Ok(())
}

/// One HTTP/1.1 request.
pub struct Message {
    /// Its first line.
    pub line: String,
    /// Its headers.
    pub headers: Headers,
    /// The body of the request; empty if no length is declared.
    pub body: Vec<u8>,
}

/// Reads one HTTP/1.1 request; `None` if the sender closed the connection before it sent anything.
pub fn read_message(reader: &mut impl BufRead) -> Result<Option<Message>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut headers = Headers::new();
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    let length: usize = headers.get("content-length").map_or(Ok(0), |length| length.parse())?;
    if length > BODY_BYTES_MAX {
        bail!("a message of {length} bytes");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Message {
        line: first,
        headers,
        body,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::client::{Call, Client};
    use crate::service::delivery::EVENT;
    use serde_json::json;

    #[test]
    fn the_receiver_returns_matching_deliveries_and_responds_as_configured() {
        let status = |delivery: &Delivery| if delivery.body.ends_with(b"\"01b\"}") { 500 } else { 200 };
        let hooks = Hooks::listen(0, status).unwrap();
        let sender = Client::new(&hooks.url(), vec![("x-api-key", "k".to_owned())]);
        for (body, status) in [
            (json!({"event": "payment.partial", "requestId": "01a"}), 200),
            (json!({"event": EVENT, "requestId": "01b"}), 500),
            (json!({"event": EVENT, "requestId": "01a"}), 200),
        ] {
            assert_eq!(sender.call("", &Call::Post(&body)).unwrap().status, status);
        }
        let is_meant = |event: &Value, _: &Delivery| event["event"] == EVENT && event["requestId"] == "01a";
        let meant = hooks.wait(1, Duration::ZERO, is_meant);
        assert_eq!(meant.len(), 1);
        assert_eq!(meant[0].headers["x-api-key"], "k");
        assert_eq!(serde_json::from_slice::<Value>(&meant[0].body).unwrap()["event"], EVENT);
    }
}
