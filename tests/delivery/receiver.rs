//! A webhook receiver on a real socket, with every kind of bad response.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// One completely read POST.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Request path.
    pub path: String,
    /// Id of the delivery.
    pub delivery: String,
    /// Retry count.
    pub retry_count: String,
    /// Signature.
    pub signature: String,
    /// Body, byte for byte.
    pub body: String,
    /// When it was complete.
    pub at: Instant,
}

/// The receiver. The first segment of the path selects its behaviour; the rest distinguishes endpoints.
pub struct Receiver {
    origin: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receiver {
    /// Starts a receiver.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, log.clone()));
            }
        });
        Self { origin, seen }
    }

    /// The URL for a behaviour.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.origin)
    }

    /// The received POSTs in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("unpoisoned").clone()
    }

    /// How often each delivery arrived.
    pub fn times(&self) -> HashMap<String, usize> {
        let mut times = HashMap::new();
        for seen in self.seen() {
            *times.entry(seen.delivery).or_default() += 1;
        }
        times
    }

    /// Waits until this number of POSTs has arrived.
    pub async fn wait_for(&self, count: usize, within: Duration) {
        let end = Instant::now() + within;
        while self.seen.lock().expect("unpoisoned").len() < count {
            assert!(Instant::now() < end, "{} of {count} arrived", self.seen().len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Serves a connection for as long as the sender keeps it open.
async fn serve(stream: TcpStream, log: Arc<Mutex<Vec<Seen>>>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    let mut is_used = false;
    while let Ok(Some(seen)) = read(&mut stream).await {
        let path = seen.path.clone();
        let mode = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        // A load balancer that has dropped a connection shows it only when the connection is used.
        if mode == "forgets" && is_used {
            return cut(stream);
        }
        is_used = true;
        if mode == "hang" {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        if mode == "reset" {
            return cut(stream);
        }
        log.lock().expect("unpoisoned").push(seen);
        if answer(&mut stream, mode).await.is_err() {
            return;
        }
        if matches!(mode, "lose" | "half") {
            return cut(stream);
        }
    }
}

/// Closes with a reset instead of a normal close.
fn cut(stream: BufReader<TcpStream>) {
    let _ = stream.get_ref().set_zero_linger();
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Seen>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers: HashMap<String, String> = HashMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(Some(Seen {
        path,
        delivery: header("x-service-delivery"),
        retry_count: header("x-service-retry-count"),
        signature: header("x-service-signature"),
        body: String::from_utf8(body).expect("UTF-8"),
        at: Instant::now(),
    }))
}

async fn answer(stream: &mut BufReader<TcpStream>, mode: &str) -> std::io::Result<()> {
    const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    match mode {
        "lose" => Ok(()),
        "half" => stream.write_all(b"HTTP/1.1 2").await,
        "drip" => {
            stream.write_all(ENDLESS).await?;
            loop {
                stream.write_all(b"1\r\nx\r\n").await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        "huge" => {
            stream.write_all(ENDLESS).await?;
            let mut chunk = b"10000\r\n".to_vec();
            chunk.resize(chunk.len() + 0x1_0000, b'x');
            chunk.extend_from_slice(b"\r\n");
            loop {
                stream.write_all(&chunk).await?;
            }
        }
        _ => {
            match mode {
                "slow" => tokio::time::sleep(Duration::from_secs(7)).await,
                "late" => tokio::time::sleep(Duration::from_millis(400)).await,
                "later" | "forgets" => tokio::time::sleep(Duration::from_millis(40)).await,
                _ => {
                    let after = mode.strip_prefix("after-").and_then(|ms| ms.parse().ok());
                    tokio::time::sleep(Duration::from_millis(after.unwrap_or(0))).await;
                }
            }
            let status: u16 = mode.parse().unwrap_or(200);
            let head = format!(
                "HTTP/1.1 {status} X\r\nlocation: /ok/followed\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\nok"
            );
            stream.write_all(head.as_bytes()).await
        }
    }
}
