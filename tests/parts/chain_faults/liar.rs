//! A node that returns false data: a proxy in front of an honest node that changes, withholds or breaks its responses.

use serde_json::{Value, json};
use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// What is wrong with the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Nothing.
    None,
    /// Lists of events lack three of ten events.
    DropLogs,
    /// Every list of events is empty.
    EmptyLogs,
    /// Every event is listed twice.
    DupLogs,
    /// Events contain the hash of another block.
    WrongHash,
    /// Events contain another amount.
    SwapAmount,
    /// Events and receipts contain the same false amount, so that the false data is consistent.
    SwapAmountEverywhere,
    /// A list of events contains an event of a contract that the call did not ask for.
    FakeLog,
    /// A list of events contains a payment that never happened, in a transaction that does not exist.
    InventedPayment,
    /// Blocks are unknown.
    NullBlock,
    /// The node serves another chain.
    WrongChain,
    /// The head does not advance.
    Stale,
    /// The node reports a head that is this number of blocks behind.
    Lag(u64),
    /// Errors of the node come with HTTP status 200.
    RefusedWith200,
    /// Every response has this HTTP status.
    Status(u16),
    /// No response.
    Timeout,
    /// The node sends half of the response and then closes the connection.
    Cut,
    /// The node refuses every range of blocks as too wide.
    RangeError,
    /// The node reports its head as final.
    FinalizedAhead,
}

/// The proxy.
pub struct Liar {
    /// The address of the proxy.
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    client: reqwest::Client,
    lie: Mutex<(Lie, Option<u64>)>,
    random: AtomicU64,
    told: AtomicU64,
}

impl Liar {
    /// Starts the proxy in front of a node; it is honest until [`Self::tell`] is called.
    pub async fn start(upstream: &str) -> Self {
        prs::adapters::install_tls();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            lie: Mutex::new((Lie::None, None)),
            random: AtomicU64::new(0x9e37_79b9),
            told: AtomicU64::new(0),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, serving.clone()));
            }
        });
        Self { url, shared }
    }

    /// Makes the node return this kind of false data from now on. [`Lie::Stale`] keeps the head at its height at the
    /// time of this call.
    pub async fn tell(&self, lie: Lie) {
        let head = self.shared.height().await;
        *self.shared.lie.lock().expect("unpoisoned") = (lie, head);
        self.shared.told.store(0, Ordering::SeqCst);
    }

    /// Number of false responses since the kind of false data was last set.
    pub fn told(&self) -> u64 {
        self.shared.told.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn ask(&self, call: &Value) -> Option<Value> {
        let answer = self.client.post(&self.upstream).json(call).send().await.ok()?;
        answer.json().await.ok()
    }

    async fn height(&self) -> Option<u64> {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": [] });
        number(&self.ask(&call).await?["result"])
    }

    /// Whether an event is omitted. Three events in ten are omitted, and the same ones in every run.
    fn falls_out(&self) -> bool {
        let step = |state: u64| {
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407)
        };
        let before = self
            .random
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| Some(step(state)));
        (step(before.unwrap_or(0)) >> 33) % 10 < 3
    }

    async fn answer_all(&self, asked: &Value) -> Value {
        let Some(calls) = asked.as_array() else {
            return self.answer(asked).await;
        };
        let mut answers = Vec::new();
        for call in calls {
            answers.push(self.answer(call).await);
        }
        Value::Array(answers)
    }

    async fn answer(&self, call: &Value) -> Value {
        let (lie, head_at_start) = *self.lie.lock().expect("unpoisoned");
        let method = call["method"].as_str().unwrap_or_default();
        let refusal = |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } });
        if lie == Lie::RefusedWith200 {
            return refusal(-32_005, "rate limited");
        }
        let is_range = call["params"][0].get("fromBlock").is_some();
        if lie == Lie::RangeError && method == "eth_getLogs" && is_range {
            return refusal(-32_602, "query returned more than 10000 results");
        }
        let mut call = call.clone();
        let limit = match lie {
            Lie::Stale => head_at_start,
            Lie::Lag(blocks) => self.height().await.map(|head| head.saturating_sub(blocks)),
            _ => None,
        };
        if method == "eth_getBlockByNumber" {
            let which = call["params"][0].clone();
            match (limit, lie) {
                (Some(limit), _) if !which.as_str().is_some_and(|text| text.starts_with("0x")) => {
                    let below = if which == "latest" { 0 } else { 2 };
                    call["params"][0] = json!(format!("{:#x}", limit.saturating_sub(below)));
                }
                (Some(limit), _) if number(&which).is_some_and(|number| number > limit) => {
                    return json!({ "jsonrpc": "2.0", "id": call["id"], "result": null });
                }
                (_, Lie::FinalizedAhead) if which == "finalized" || which == "safe" => {
                    call["params"][0] = json!("latest");
                }
                _ => {}
            }
        }
        let mut answer = self.ask(&call).await.unwrap_or_else(|| refusal(-32_603, "no upstream"));
        self.distort(lie, method, limit, &mut answer["result"]);
        answer
    }

    fn distort(&self, lie: Lie, method: &str, limit: Option<u64>, result: &mut Value) {
        match (method, lie) {
            ("eth_getLogs", _) => {
                if let Some(logs) = result.as_array_mut() {
                    self.distort_logs(lie, logs);
                }
            }
            ("eth_getTransactionReceipt", Lie::SwapAmountEverywhere) => {
                if let Some(logs) = result["logs"].as_array_mut() {
                    logs.iter_mut().for_each(swap_amount);
                }
            }
            ("eth_getBlockReceipts", Lie::SwapAmountEverywhere) => {
                for receipt in result.as_array_mut().into_iter().flatten() {
                    if let Some(logs) = receipt["logs"].as_array_mut() {
                        logs.iter_mut().for_each(swap_amount);
                    }
                }
            }
            ("eth_getBlockByNumber" | "eth_getBlockByHash", Lie::NullBlock) => *result = Value::Null,
            ("eth_chainId", Lie::WrongChain) => *result = json!("0x1"),
            ("eth_blockNumber", _) => {
                if let Some(limit) = limit {
                    *result = json!(format!("{limit:#x}"));
                }
            }
            _ => {}
        }
    }

    fn distort_logs(&self, lie: Lie, logs: &mut Vec<Value>) {
        let count = logs.len();
        match lie {
            Lie::DropLogs => logs.retain(|_| !self.falls_out()),
            Lie::EmptyLogs => logs.clear(),
            Lie::DupLogs => *logs = logs.iter().flat_map(|log| [log.clone(), log.clone()]).collect(),
            Lie::WrongHash => {
                for log in logs.iter_mut() {
                    log["blockHash"] = json!(format!("0x{}", "ab".repeat(32)));
                }
            }
            Lie::SwapAmount | Lie::SwapAmountEverywhere => logs.iter_mut().for_each(swap_amount),
            Lie::FakeLog | Lie::InventedPayment => {
                if let Some(mut fake) = logs.last().cloned() {
                    if lie == Lie::FakeLog {
                        fake["address"] = json!(format!("0x{}", "99".repeat(20)));
                    } else {
                        fake["transactionHash"] = json!(format!("0x{}", "cd".repeat(32)));
                        fake["transactionIndex"] = json!("0x3e8");
                    }
                    let index = number(&fake["logIndex"]).unwrap_or(0) + 1_000;
                    fake["logIndex"] = json!(format!("{index:#x}"));
                    logs.push(fake);
                }
            }
            _ => {}
        }
        let is_changed = matches!(lie, Lie::WrongHash | Lie::SwapAmount | Lie::SwapAmountEverywhere) && count > 0;
        if is_changed || logs.len() != count {
            self.told.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Increases the amount in an event of the token fee proxy. The event data has five words, and the third word is the
/// amount.
fn swap_amount(log: &mut Value) {
    const WORDS: usize = 5;
    const AMOUNT_END: usize = 2 + 3 * 64;
    let Some(data) = log["data"].as_str().filter(|data| data.len() == 2 + WORDS * 64) else {
        return;
    };
    let mut data = data.to_owned();
    data.replace_range(AMOUNT_END - 2..AMOUNT_END, "ff");
    log["data"] = json!(data);
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(call)) = read(&mut stream).await {
        let (lie, _) = *shared.lie.lock().expect("unpoisoned");
        if lie == Lie::Timeout {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        let (status, body) = match lie {
            Lie::Status(status) => (status, json!({ "error": "x" }).to_string()),
            _ => (200, shared.answer_all(&call).await.to_string()),
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let sent = if lie == Lie::Cut { body.len() / 2 } else { body.len() };
        let answer = [head.as_bytes(), &body.as_bytes()[..sent]].concat();
        if stream.write_all(&answer).await.is_err() || lie == Lie::Cut {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Value>> {
    let mut length = 0;
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body).ok())
}
