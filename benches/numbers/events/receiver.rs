//! A webhook receiver that records when each webhook arrived. The path of the URL selects whether the receiver behaves
//! well or badly.
//!
//! The receiver parses only what it needs to find the end of a request, because it shares the machine with the measured
//! service.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Maximum length of a webhook. Webhooks are small; a longer head or body is an error.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Pause between two bytes of a dripping response.
const DRIP_PAUSE: Duration = Duration::from_millis(100);

/// A webhook that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// Identity of the delivery.
    pub(crate) delivery: String,
    /// When the head and the body of the webhook had arrived.
    pub(crate) at: Instant,
}

#[derive(Default)]
struct Log {
    arrivals: Mutex<Vec<Arrival>>,
    more: Condvar,
}

/// A running receiver; it listens until the process ends.
pub(crate) struct Receiver {
    log: Arc<Log>,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
}

impl Receiver {
    /// Starts a receiver on its own thread.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let log = Arc::new(Log::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let noted = log.clone();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                while let Ok((stream, _)) = listener.accept().await {
                    // A sender that disconnects is part of the benchmark.
                    tokio::spawn(converse(stream, noted.clone()));
                }
            });
        });
        Ok(Self { log, address })
    }

    /// The URL of an endpoint.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Forgets the webhooks that arrived.
    pub(crate) fn clear(&self) {
        lock(&self.log.arrivals).clear();
    }

    /// Waits until this number of webhooks has arrived; returns all of them in order of arrival.
    pub(crate) fn wait(&self, count: usize, at_most: Duration) -> anyhow::Result<Vec<Arrival>> {
        let guard = lock(&self.log.arrivals);
        let waited = self
            .log
            .more
            .wait_timeout_while(guard, at_most, |arrivals| arrivals.len() < count);
        let (arrivals, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(
            arrivals.len() >= count,
            "{} of {count} webhooks arrived within {} s",
            arrivals.len(),
            at_most.as_secs()
        );
        Ok(arrivals.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn converse(mut stream: TcpStream, log: Arc<Log>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(8 * 1024);
    loop {
        let (path, delivery, length) = loop {
            if let Some(message) = parse(&buffer)? {
                break message;
            }
            ensure!(buffer.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes", buffer.len());
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let at = Instant::now();
        buffer.drain(..length);
        lock(&log.arrivals).push(Arrival { delivery, at });
        log.more.notify_all();
        answer(&mut stream, &path).await?;
    }
}

/// Path, delivery id and length of a completely received message.
fn parse(buffer: &[u8]) -> anyhow::Result<Option<(String, String, usize)>> {
    let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&buffer[..end])?;
    let mut lines = head.lines();
    let path = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .context("no path")?;
    let (mut length, mut delivery) = (None, "");
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>()?);
        } else if name.eq_ignore_ascii_case("x-service-delivery") {
            delivery = value.trim();
        }
    }
    let length = end + 4 + length.context("no content-length")?;
    Ok((buffer.len() >= length).then(|| (path.to_owned(), delivery.to_owned(), length)))
}

async fn answer(stream: &mut TcpStream, path: &str) -> anyhow::Result<()> {
    let manners = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match manners {
        "fail" => {
            stream
                .write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")
                .await?;
        }
        "hang" => std::future::pending().await,
        "huge" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
                .await?;
            let block = vec![b'x'; 64 * 1024];
            loop {
                stream.write_all(&block).await?;
            }
        }
        "drip" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n")
                .await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(DRIP_PAUSE).await;
            }
        }
        _ => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await?
        }
    }
    Ok(())
}
