//! What a generated client needs to run: the running service, a chain to pay on, and a receiver of webhooks.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;

pub type Outcome<T> = Result<T, Box<dyn Error>>;

const WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// The members that the flow needs from the line that `prs dev --json` prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dev {
    pub base_url: String,
    pub auth_url: String,
    pub api_key: String,
    pub destination_id: String,
    chain: Chain,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chain {
    rpc_url: String,
    accounts: Vec<Account>,
}

#[derive(Debug, Deserialize)]
struct Account {
    address: String,
}

impl Dev {
    pub fn read() -> Outcome<Self> {
        Ok(serde_json::from_str(&fs::read_to_string(env::var("PRS_DEV")?)?)?)
    }

    pub fn payer(&self) -> &str {
        &self.chain.accounts[0].address
    }

    pub fn payee(&self) -> &str {
        &self.chain.accounts[1].address
    }

    /// An HTTP client that sends the API key with every call.
    pub fn caller(&self) -> Outcome<reqwest::Client> {
        let key = HeaderValue::from_str(&self.api_key)?;
        let headers = HeaderMap::from_iter([(reqwest::header::HeaderName::from_static("x-api-key"), key)]);
        Ok(reqwest::Client::builder().default_headers(headers).build()?)
    }

    /// Sends transactions in order from an account that the local node has unlocked.
    pub async fn send<T: Serialize>(&self, transactions: &[T]) -> Outcome<()> {
        for transaction in transactions {
            let transaction = serde_json::to_value(transaction)?;
            // In a link the value is a string, in a request an object.
            let value = transaction["value"].as_str().or(transaction["value"]["hex"].as_str());
            let digits = value.ok_or("no value")?.trim_start_matches("0x").trim_start_matches('0');
            let value = format!("0x{}", if digits.is_empty() { "0" } else { digits });
            let call =
                json!({"from": self.payer(), "to": transaction["to"], "data": transaction["data"], "value": value});
            let hash = self.rpc("eth_sendTransaction", json!([call])).await?;
            let deadline = Instant::now() + WAIT;
            let receipt = loop {
                let receipt = self.rpc("eth_getTransactionReceipt", json!([hash])).await?;
                if !receipt.is_null() {
                    break receipt;
                }
                check(Instant::now() < deadline, "a transaction was not included in a block")?;
                tokio::time::sleep(POLL).await;
            };
            check(receipt["status"] == "0x1", "a transaction failed on the chain")?;
        }
        Ok(())
    }

    async fn rpc(&self, method: &str, params: Value) -> Outcome<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = reqwest::Client::new().post(&self.chain.rpc_url).json(&body).send();
        let mut answer: Value = answer.await?.json().await?;
        check(answer.get("error").is_none(), &format!("{method}: {}", answer["error"]))?;
        Ok(answer["result"].take())
    }
}

/// Prints that a step of the flow passed.
pub fn step(name: &str) {
    println!("step {name}");
}

pub fn check(holds: bool, what: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Whether the service signed these bytes: an HMAC-SHA-256 over the raw body, keyed with the shown secret.
fn is_signed(body: &[u8], signature: &str, secret: &str) -> Outcome<bool> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
    mac.update(body);
    Ok(mac.verify_slice(&hex::decode(signature)?).is_ok())
}

struct Delivery {
    body: Vec<u8>,
    signature: String,
}

/// A receiver of webhooks on a free port of this machine.
pub struct Hooks {
    pub url: String,
    deliveries: Receiver<Delivery>,
}

impl Hooks {
    pub fn listen() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://127.0.0.1:{}/hook", listener.local_addr()?.port());
        let (sender, deliveries) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                thread::spawn(move || {
                    if let Err(error) = receive(stream, &sender) {
                        eprintln!("receiver: {error}");
                    }
                });
            }
        });
        Ok(Self { url, deliveries })
    }

    /// Waits for the event that a request is paid. Checks that its signature matches the body, and no longer matches
    /// when the body is changed.
    pub fn confirmed(&self, request_id: &str, secret: &str) -> Outcome<()> {
        loop {
            let Delivery { mut body, signature } = self.deliveries.recv_timeout(WAIT)?;
            let event: Value = serde_json::from_slice(&body)?;
            if event["event"] == "payment.confirmed" && event["requestId"] == request_id {
                check(
                    is_signed(&body, &signature, secret)?,
                    "the signature does not match the body",
                )?;
                body.push(b' ');
                return check(
                    !is_signed(&body, &signature, secret)?,
                    "the signature matches another body",
                );
            }
        }
    }
}

fn receive(stream: TcpStream, sender: &Sender<Delivery>) -> Outcome<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut signature) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse()?,
            Some((name, value)) if name.eq_ignore_ascii_case("x-service-signature") => {
                value.trim().clone_into(&mut signature);
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    sender.send(Delivery { body, signature })?;
    let mut stream = stream;
    Ok(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?)
}
