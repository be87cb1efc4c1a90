//! The load generator. It holds keep-alive connections, each of which sends the next request after the response to the
//! previous one.
//!
//! It writes prepared bytes and parses only what it needs to find the end of a response, because it shares the machine
//! with the measured service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Number of connections that send at the same time.
pub(crate) const CONNECTIONS: usize = 16;

/// Maximum length of a response; a longer one is an error.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Load {
    /// Time from the first request to the last response.
    pub(crate) time: Duration,
    /// Time of each request.
    pub(crate) latencies: Vec<Duration>,
}

/// A POST of JSON as raw bytes.
pub(crate) fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

/// A GET as raw bytes.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// Sends the request `count` times over all connections, on one thread. Every response must be a 201.
pub(crate) fn run(address: SocketAddr, request: Vec<u8>, count: usize) -> anyhow::Result<Load> {
    run_expecting(address, request, count, 201)
}

/// Like [`run`], but every response must have this status.
pub(crate) fn run_expecting(address: SocketAddr, request: Vec<u8>, count: usize, status: u16) -> anyhow::Result<Load> {
    run_each(address, vec![request], (CONNECTIONS, count), status)
}

/// Like [`run_expecting`], with several requests in rotation, with this number of connections and this total number of
/// calls.
pub(crate) fn run_each(
    address: SocketAddr,
    requests: Vec<Vec<u8>>,
    (connections, count): (usize, usize),
    status: u16,
) -> anyhow::Result<Load> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_connections(address, requests.into(), (connections, count), status))
}

/// Sends the requests in rotation at this rate per second over [`CONNECTIONS`], without waiting for earlier responses.
/// Each response time is measured from the moment at which the request was due.
pub(crate) fn run_at(
    address: SocketAddr,
    requests: Vec<Vec<u8>>,
    (rate_per_s, count): (u32, usize),
    status: u16,
) -> anyhow::Result<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requests: Arc<[Vec<u8>]> = requests.into();
    runtime.block_on(async {
        let mut streams = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            streams.push(connect(address).await?);
        }
        let gap = Duration::from_secs(1) / rate_per_s;
        let turns = Arc::new(AtomicUsize::new(0));
        let begun = tokio::time::Instant::now();
        let mut connections = JoinSet::new();
        for mut stream in streams {
            let (requests, turns) = (requests.clone(), turns.clone());
            connections.spawn(async move {
                let mut times = Vec::new();
                let mut answer = Vec::with_capacity(4 * 1024);
                loop {
                    let turn = turns.fetch_add(1, Ordering::Relaxed);
                    if turn >= count {
                        return anyhow::Ok(times);
                    }
                    let due = begun + gap * u32::try_from(turn)?;
                    tokio::time::sleep_until(due).await;
                    exchange(&mut stream, &requests[turn % requests.len()], &mut answer, status).await?;
                    times.push(due.elapsed());
                }
            });
        }
        let mut times = Vec::with_capacity(count);
        while let Some(ended) = connections.join_next().await {
            times.extend(ended??);
        }
        Ok(times)
    })
}

async fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).await.context("no connection")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn run_connections(
    address: SocketAddr,
    requests: Arc<[Vec<u8>]>,
    (connections, count): (usize, usize),
    status: u16,
) -> anyhow::Result<Load> {
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        streams.push(connect(address).await?);
    }
    let sent = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    let started = Instant::now();
    for stream in streams {
        let (requests, sent) = (requests.clone(), sent.clone());
        connections.spawn(async move { keep_sending(stream, &requests, &sent, count, status).await });
    }
    let mut latencies = Vec::with_capacity(count);
    while let Some(ended) = connections.join_next().await {
        latencies.extend(ended??);
    }
    let time = started.elapsed();
    ensure!(
        latencies.len() == count,
        "{} responses to {count} requests",
        latencies.len()
    );
    Ok(Load { time, latencies })
}

async fn keep_sending(
    mut stream: TcpStream,
    requests: &[Vec<u8>],
    sent: &AtomicUsize,
    count: usize,
    status: u16,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let mut answer = Vec::with_capacity(4 * 1024);
    loop {
        let turn = sent.fetch_add(1, Ordering::Relaxed);
        if turn >= count {
            break;
        }
        let request = &requests[turn % requests.len()];
        let started = Instant::now();
        exchange(&mut stream, request, &mut answer, status).await?;
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

/// Sends a request and reads its response. Errors: it has another status.
async fn exchange(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>, status: u16) -> anyhow::Result<()> {
    stream.write_all(request).await?;
    answer.clear();
    while !is_complete(answer)? {
        ensure!(answer.len() <= ANSWER_BYTES_MAX, "a response of {} bytes", answer.len());
        ensure!(stream.read_buf(answer).await? > 0, "the connection was closed");
    }
    if !answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()) {
        bail!("a response other than {status}: {}", String::from_utf8_lossy(answer));
    }
    Ok(())
}

/// Whether a response is complete: its head, and the body of the declared length.
fn is_complete(answer: &[u8]) -> anyhow::Result<bool> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let head = std::str::from_utf8(&answer[..end])?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .with_context(|| format!("a response without content-length: {head}"))?;
    let length: usize = length.1.trim().parse()?;
    Ok(answer.len() >= end + 4 + length)
}
