//! A receiver of events that refuses the first try of one kind, to see the next one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::machine::command::{self, POLL};
use xtask::service::delivery::Delivery;

/// How long a sender may take over one delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Larger than any event.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What arrived, in its order.
type Arrived = Arc<Mutex<Vec<Delivery>>>;

/// A receiver on loopback.
pub(super) struct Receiver {
    port: u16,
    arrived: Arrived,
}

impl Receiver {
    /// Listens for as long as the program runs; the first try of each delivery of this kind of event is refused.
    pub(super) fn listen(port: u16, refused_once: &'static str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let arrived = Arrived::default();
        let shared = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    if let Err(error) = receive(stream, &shared, refused_once) {
                        eprintln!("receiver: {error:#}");
                    }
                });
            }
        });
        Ok(Self { port, arrived })
    }

    /// Where it listens on this machine.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/conformance", self.port)
    }

    /// Deliveries of which this is true, as soon as there are so many, or what there is after a while.
    pub(super) fn wait(
        &self,
        count: usize,
        timeout: Duration,
        is_meant: impl Fn(&Value, &Delivery) -> bool,
    ) -> Vec<Delivery> {
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

fn receive(stream: TcpStream, arrived: &Arrived, refused_once: &str) -> Result<()> {
    stream.set_read_timeout(Some(DELIVERY_TIMEOUT))?;
    let (_, headers, body) = read_message(&mut BufReader::new(stream.try_clone()?))?;
    let event: Value = serde_json::from_slice(&body).context("a delivery that is no JSON")?;
    let is_refused = event["event"] == refused_once
        && headers.get("x-service-retry-count").is_some_and(|count| count == "0")
        && !headers.contains_key("x-service-test");
    arrived.lock().unwrap_or_else(PoisonError::into_inner).push(Delivery {
        headers,
        body,
        arrived: Instant::now(),
    });
    let status = if is_refused {
        "500 Internal Server Error"
    } else {
        "200 OK"
    };
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    Ok(())
}

/// Headers by name in lower case.
pub(super) type Headers = BTreeMap<String, String>;

/// Reads one HTTP/1.1 request whose length is declared: its first line, its headers and its body.
pub(super) fn read_message(reader: &mut impl BufRead) -> Result<(String, Headers, Vec<u8>)> {
    let mut first = String::new();
    reader.read_line(&mut first)?;
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
    anyhow::ensure!(length <= BODY_BYTES_MAX, "a message of {length} bytes");
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((first, headers, body))
}
