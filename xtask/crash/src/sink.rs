//! A webhook receiver that records every delivery. The path of the endpoint then determines how it responds or fails.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use xtask::service::delivery::Delivery;

/// Maximum length of a body in bytes, larger than any event of the service. A message that announces a larger body
/// comes from another sender.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Delay of `/late`. Without it, hardly any kill would fall between the arrival of a delivery and its record.
const THINKING: Duration = Duration::from_millis(50);

/// Delay of `/slow`, longer than any sender waits.
const TOO_LONG: Duration = Duration::from_secs(7);

/// How long `/hang` keeps a connection open without a response.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Pause between two bytes of `/drip`.
const DRIP: Duration = Duration::from_secs(1);

/// How often `/flaky` refuses a delivery before it accepts it.
const FLAKY_REFUSALS: u32 = 2;

/// One completely read delivery.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The path to which the delivery was posted.
    pub(crate) path: String,
    /// Time of arrival by the clock of the machine, to compare it with times that the service shows.
    pub(crate) at: SystemTime,
    /// Headers, body and time of arrival.
    pub(crate) delivery: Delivery,
}

impl Arrival {
    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.delivery.headers.get(name).map_or("", String::as_str)
    }

    /// Number of earlier attempts, as the delivery reports it.
    pub(crate) fn retry_count(&self) -> u32 {
        self.header("x-service-retry-count").parse().unwrap_or_default()
    }
}

type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// The receiver; it closes its port on drop.
pub(crate) struct Sink {
    port: u16,
    arrivals: Arrivals,
    runtime: Option<Runtime>,
}

impl Sink {
    /// Starts to listen on a port. New deliveries are added to earlier ones.
    pub(crate) fn open(port: u16) -> Result<Self> {
        let mut sink = Self {
            port,
            arrivals: Arrivals::default(),
            runtime: None,
        };
        sink.reopen()?;
        Ok(sink)
    }

    /// The URL of a behaviour.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Refuses connections from now on, and closes the open connections.
    pub(crate) fn close(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }

    /// Starts to listen on the same port again.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.close();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)))
            .context("the port of the receiver is in use")?;
        let arrivals = Arc::clone(&self.arrivals);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let arrivals = Arc::clone(&arrivals);
                // Many behaviours break the connection on purpose, so errors are ignored.
                tokio::spawn(async move { serve(stream, &arrivals).await.ok() });
            }
        });
        self.runtime = Some(runtime);
        Ok(())
    }

    /// All deliveries so far, in order of arrival.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of deliveries so far.
    pub(crate) fn count(&self) -> usize {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All deliveries except the first `count`.
    pub(crate) fn arrivals_after(&self, count: usize) -> Vec<Arrival> {
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.get(count..).unwrap_or_default().to_vec()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.close();
    }
}

async fn serve(stream: TcpStream, arrivals: &Arrivals) -> Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some((path, headers)) = read_head(&mut stream).await? {
        // These two behaviours act before the request is read.
        match behaviour(&path) {
            "hang" => tokio::time::sleep(FOR_EVER).await,
            "reset" => return reset(stream.into_inner()),
            _ => {}
        }
        let length: usize = headers.get("content-length").context("no content-length")?.parse()?;
        if length > BODY_BYTES_MAX {
            bail!("a delivery of {length} bytes");
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let arrival = arrived(path.clone(), headers, body);
        let retry_count = arrival.retry_count();
        arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        if !answer(&mut stream, &path, retry_count).await? {
            return reset(stream.into_inner());
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "arrivals are compared with times of day that the service shows"
)]
fn arrived(path: String, headers: BTreeMap<String, String>, body: Vec<u8>) -> Arrival {
    Arrival {
        path,
        at: SystemTime::now(),
        delivery: Delivery {
            headers,
            body,
            arrived: Instant::now(),
        },
    }
}

/// Reads the path and the headers of a request; `None` if the sender has closed the connection.
async fn read_head(stream: &mut BufReader<TcpStream>) -> Result<Option<(String, BTreeMap<String, String>)>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).context("no path")?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 || line.trim().is_empty() {
            return Ok(Some((path, headers)));
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
}

/// The behaviour in a path. The text after a question mark only makes endpoints distinct.
fn behaviour(path: &str) -> &str {
    path.trim_start_matches('/').split('?').next().unwrap_or_default()
}

/// Sends the response that the path names. `false` means that the connection must be broken without one.
async fn answer(stream: &mut BufReader<TcpStream>, path: &str, retry_count: u32) -> Result<bool> {
    let stream = stream.get_mut();
    let (status, header) = match behaviour(path) {
        // The receiver stores the first attempt and sends no response. The second attempt gets a response.
        "lose" if retry_count == 0 => return Ok(false),
        "half" => {
            stream.write_all(b"HTTP/1.1 2").await?;
            return Ok(false);
        }
        "late" => {
            tokio::time::sleep(THINKING).await;
            ("200 OK", "")
        }
        "slow" => {
            tokio::time::sleep(TOO_LONG).await;
            ("200 OK", "")
        }
        "drip" => loop_body(stream, b"x", DRIP).await?,
        "huge" => loop_body(stream, &[b'x'; 65_536], Duration::ZERO).await?,
        "flaky" if retry_count < FLAKY_REFUSALS => ("503 X", ""),
        "302" => ("302 Found", "location: /ok\r\n"),
        "404" => ("404 X", ""),
        "410" => ("410 X", ""),
        "429" => ("429 X", "retry-after: 60\r\n"),
        "500" => ("500 X", ""),
        _ => ("200 OK", ""),
    };
    let text = format!("HTTP/1.1 {status}\r\n{header}content-length: 2\r\n\r\nok");
    stream.write_all(text.as_bytes()).await?;
    Ok(true)
}

/// Sends 200 and then a body without end; fails when the sender closes the connection.
async fn loop_body<T>(stream: &mut TcpStream, chunk: &[u8], pause: Duration) -> Result<T> {
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        .await?;
    let head = format!("{:x}\r\n", chunk.len());
    loop {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(chunk).await?;
        stream.write_all(b"\r\n").await?;
        stream.flush().await?;
        tokio::time::sleep(pause).await;
    }
}

/// Ends a connection with a reset instead of a close.
fn reset(stream: TcpStream) -> Result<()> {
    Ok(stream.set_zero_linger()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::free_port;
    use std::io::{Read, Write};

    fn post(sink: &Sink, path: &str, retry_count: u32) -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, sink.port))?;
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nx-service-delivery: d\r\nx-service-retry-count: {retry_count}\r\ncontent-length: 2\r\n\r\n{{}}"
        )?;
        let mut answer = vec![0; 4_096];
        let length = stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    #[test]
    fn each_path_behaves_as_named() {
        let sink = Sink::open(free_port().unwrap()).unwrap();
        assert!(post(&sink, "ok", 0).unwrap().starts_with("HTTP/1.1 200"));
        assert!(post(&sink, "302", 0).unwrap().contains("location: /ok"));
        assert!(post(&sink, "huge", 0).unwrap().contains("chunked"));
        assert!(post(&sink, "flaky", 0).unwrap().starts_with("HTTP/1.1 503"));
        assert!(post(&sink, "flaky", 2).unwrap().starts_with("HTTP/1.1 200"));
        assert!(post(&sink, "lose", 0).is_err());
        assert!(post(&sink, "lose", 1).unwrap().starts_with("HTTP/1.1 200"));
        let seen = sink.count();
        for silent in ["hang", "reset"] {
            assert!(post(&sink, silent, 0).is_err(), "{silent}");
        }
        assert_eq!(sink.count(), seen, "an unread delivery has not arrived");
        assert_eq!(sink.arrivals_after(5)[0].path, "/lose");
    }

    #[test]
    fn a_closed_receiver_refuses_and_a_reopened_one_remembers() {
        let mut sink = Sink::open(free_port().unwrap()).unwrap();
        post(&sink, "ok", 0).unwrap();
        sink.close();
        assert!(post(&sink, "ok", 0).is_err());
        sink.reopen().unwrap();
        post(&sink, "ok", 3).unwrap();
        let retries: Vec<u32> = sink.arrivals().iter().map(Arrival::retry_count).collect();
        assert_eq!(retries, [0, 3]);
    }
}
