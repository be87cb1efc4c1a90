//! The resources that all tenants share, and the calls of each client for them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::load;

/// Source IP address of the modest client.
pub(super) const MODEST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Number of source IP addresses of the greedy client. A single address would be stopped by its rate limit.
const GREEDY_ADDRESSES: u8 = 40;

/// The page whose client ID the greedy tenant uses.
pub(super) const PAGE: &str = "https://shop.example.com";

/// Maximum number of items of one link.
const ITEMS: usize = 200;

/// Role of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Manners {
    /// The client makes few calls, and their duration is measured.
    Modest,
    /// The client makes many calls, whatever the responses.
    Greedy,
}

/// What a client does, for how long, and with which credentials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) thing: Thing,
    pub(super) manners: Manners,
    pub(super) service: SocketAddr,
    pub(super) seconds: f64,
    pub(super) api_key: String,
    pub(super) client_id: String,
    /// A client ID for pages of [`PAGE`].
    pub(super) page_client_id: String,
    /// A request that the client ID created.
    pub(super) request: String,
    /// A wallet that could pay the request.
    pub(super) payer: String,
    /// Address of a contract that uses all the gas that it can get.
    pub(super) gas_burner: String,
    pub(super) email: String,
    pub(super) password: String,
}

/// A resource that all tenants share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum Thing {
    Connections,
    Streams,
    LogWriter,
    DeliveryPlaces,
    NodeCalls,
    PasswordTries,
    DatabaseWriter,
    Items,
}

impl Thing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Streams => "event streams",
            Self::LogWriter => "log writer",
            Self::DeliveryPlaces => "delivery slots",
            Self::NodeCalls => "node calls",
            Self::PasswordTries => "password attempts",
            Self::DatabaseWriter => "database writer",
            Self::Items => "links of 200 items",
        }
    }

    /// Calls per second of a client.
    pub(super) fn rate_per_s(self, manners: Manners) -> f64 {
        let (modest, greedy) = match self {
            Self::Connections => (20.0, 60.0),
            Self::Streams => (10.0, 20.0),
            Self::LogWriter => (20.0, 300.0),
            Self::DeliveryPlaces => (5.0, 4.0),
            Self::NodeCalls => (10.0, 10.0),
            Self::PasswordTries => (1.5, 20.0),
            Self::DatabaseWriter => (20.0, 150.0),
            Self::Items => (20.0, 4.0),
        };
        match manners {
            Manners::Modest => modest,
            Manners::Greedy => greedy,
        }
    }

    /// How long to wait until the effects of the greedy client have ended: delivery attempts, test deliveries, sockets
    /// and node calls.
    pub(super) fn settle(self) -> Duration {
        match self {
            Self::DeliveryPlaces => Duration::from_secs(22),
            _ => Duration::from_secs(6),
        }
    }

    /// Makes one call. Returns the connection if it has to be held open.
    pub(super) async fn act(self, plan: &Plan, number: usize) -> anyhow::Result<Option<TcpStream>> {
        let caller = Caller { plan, number };
        match (self, plan.manners) {
            (Self::Connections, Manners::Modest) | (Self::LogWriter, Manners::Modest) => {
                let call = caller.get("/v2/currencies", &[("x-api-key", &plan.api_key)]);
                caller.expect(&call, 200).await?;
            }
            // Half of the connections request more than they ever read; the other half send nothing.
            (Self::Connections, Manners::Greedy) => {
                let mut stream = caller.connect().await?;
                if number.is_multiple_of(2) {
                    let call = load::get(plan.service, "/openapi/v2.json", &[]);
                    stream.write_all(&call.repeat(100)).await?;
                }
                return Ok(Some(stream));
            }
            (Self::Streams, manners) => {
                let credential = match manners {
                    Manners::Modest => ("x-api-key", plan.api_key.as_str()),
                    Manners::Greedy => ("x-client-id", plan.client_id.as_str()),
                };
                let mut stream = caller.connect().await?;
                stream
                    .write_all(&load::get(plan.service, "/v2/events/stream", &[credential]))
                    .await?;
                let head = read_head(&mut stream).await?;
                ensure!(
                    manners == Manners::Greedy || head.starts_with("HTTP/1.1 200 "),
                    "{head}"
                );
                return Ok((manners == Manners::Greedy).then_some(stream));
            }
            (Self::LogWriter, Manners::Greedy) => {
                let call = caller.get("/v2/nothing", &[("x-api-key", &plan.api_key)]);
                caller.send(&call).await?;
            }
            (Self::DeliveryPlaces, Manners::Modest) => {
                let body = json!({ "eventType": "payment.confirmed" });
                let call = caller.post("/v1/webhook/test", &[("x-client-id", &plan.client_id)], &body);
                let answer = caller.expect(&call, 200).await?;
                ensure!(answer["sent"] == 1, "{answer}");
            }
            (Self::DeliveryPlaces, Manners::Greedy) => {
                let body = json!({ "eventType": "payment.confirmed" });
                let call = caller.post("/v1/webhook/test", &[("x-client-id", &plan.client_id)], &body);
                caller.send(&call).await?;
            }
            (Self::NodeCalls, Manners::Modest) => {
                let path = format!("/v2/request/{}/pay?wallet={}", plan.request, plan.payer);
                let call = caller.get(&path, &[("x-client-id", &plan.client_id)]);
                caller.expect(&call, 200).await?;
            }
            (Self::NodeCalls, Manners::Greedy) => {
                let body = json!({ "address": plan.gas_burner });
                let asked = caller.post("/v1/auth/wallet/challenge", &[], &body);
                let asked = caller.expect(&asked, 201).await?;
                let body = json!({
                    "challengeId": asked["challengeId"],
                    "nonce": asked["nonce"],
                    "message": asked["message"],
                    "signature": format!("0x{}", "ab".repeat(65)),
                });
                caller.send(&caller.post("/v1/auth/wallet/verify", &[], &body)).await?;
            }
            (Self::PasswordTries, Manners::Modest) => {
                let body = json!({ "email": plan.email, "password": plan.password });
                caller.expect(&caller.post("/v1/auth/login", &[], &body), 200).await?;
            }
            (Self::PasswordTries, Manners::Greedy) => {
                let body = json!({ "email": format!("guess-{number}@example.com"), "password": "a wrong one" });
                caller.send(&caller.post("/v1/auth/login", &[], &body)).await?;
            }
            (Self::Items, Manners::Greedy) => {
                let credential = [("x-client-id", plan.page_client_id.as_str()), ("origin", PAGE)];
                let link = json!({ "requests": vec![json!({ "amount": "1" }); ITEMS] });
                caller
                    .send(&caller.post("/v2/secure-payments", &credential, &link))
                    .await?;
            }
            (Self::DatabaseWriter, _) | (Self::Items, Manners::Modest) => {
                let call = caller.post("/v2/request", &[("x-client-id", &plan.client_id)], &order());
                caller.expect(&call, 201).await?;
            }
        }
        Ok(None)
    }
}

/// The request of a merchant.
pub(super) fn order() -> Value {
    json!({
        "payee": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "amount": "0.001",
        "invoiceCurrency": "ETH-sepolia",
        "paymentCurrency": "ETH-sepolia",
    })
}

/// Makes one call over a new connection, from the address of its client.
pub(super) struct Caller<'a> {
    pub(super) plan: &'a Plan,
    pub(super) number: usize,
}

impl Caller<'_> {
    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
        let headers = [headers, &[("connection", "close")]].concat();
        load::get(self.plan.service, path, &headers)
    }

    pub(super) fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Vec<u8> {
        let headers = [headers, &[("connection", "close")]].concat();
        load::post(self.plan.service, path, &headers, &body.to_string())
    }

    async fn connect(&self) -> anyhow::Result<TcpStream> {
        let is_bound = !matches!(self.plan.thing, Thing::NodeCalls | Thing::PasswordTries | Thing::Items);
        let address = match self.plan.manners {
            Manners::Modest => MODEST_ADDRESS,
            Manners::Greedy if is_bound => Ipv4Addr::new(127, 0, 0, 3),
            // Calls that are limited for each IP address come from many addresses.
            Manners::Greedy => {
                let last = self.number % usize::from(GREEDY_ADDRESSES);
                Ipv4Addr::new(127, 0, 1, u8::try_from(last)?)
            }
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind((address, 0).into())?;
        let stream = socket.connect(self.plan.service).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends a call and reads the whole response.
    async fn send(&self, call: &[u8]) -> anyhow::Result<String> {
        let mut stream = self.connect().await?;
        stream.write_all(call).await?;
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(30), reading).await??;
        Ok(String::from_utf8(answer)?)
    }

    /// Sends a call that must return this status; returns the body.
    pub(super) async fn expect(&self, call: &[u8], status: u16) -> anyhow::Result<Value> {
        let answer = self.send(call).await?;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").context("a response without a body")?;
        Ok(serde_json::from_str(body)?)
    }
}

async fn read_head(stream: &mut TcpStream) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut head).await? > 0, "the connection was closed");
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
