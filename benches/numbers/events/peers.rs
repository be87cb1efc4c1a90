//! Third-party job queues with the same task as the service: each posts the same number of signed bodies to the same
//! receiver, and records that each one arrived. The queues are npm packages, pinned in `benches/peers/events`.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::queue;
use crate::service::free_address;

/// Time limit for the server to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/peers/events")
}

/// Whether the packages of the queues are installed; prints a message if they are not.
pub(super) fn are_there() -> bool {
    let are_there = folder().join("node_modules/.package-lock.json").exists();
    if !are_there {
        eprintln!("  fan-out: BullMQ and graphile-worker are skipped; `npm ci` in benches/peers/events fetches them");
    }
    are_there
}

/// A separate Redis server that waits for the disk on each command.
pub(super) struct Redis {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Redis {
    /// Starts a Redis server; `None` if this machine has no Redis.
    pub(super) fn start() -> anyhow::Result<Option<Self>> {
        let (address, folder) = (free_address()?, tempfile::tempdir()?);
        let mut command = Command::new("redis-server");
        command
            .args([
                "--port",
                &address.port().to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
            ])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("  fan-out: BullMQ is skipped: redis-server is missing");
                return Ok(None);
            }
            spawned => spawned?,
        };
        let redis = Self {
            child,
            address,
            _folder: folder,
        };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).is_err() {
            ensure!(begun.elapsed() < READY_TIMEOUT, "redis-server does not respond");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(redis))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has already ended, which is the intended result.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Deliveries per second of BullMQ.
pub(super) fn bullmq(redis: &Redis, url: &str, count: usize) -> anyhow::Result<f64> {
    run("bullmq.mjs", url, count, ("redisPort", json!(redis.address.port())))
}

/// Deliveries per second of graphile-worker in an empty database.
pub(super) fn graphile(database_url: &str, url: &str, count: usize) -> anyhow::Result<f64> {
    run("graphile.mjs", url, count, ("postgresUrl", json!(database_url)))
}

fn run(script: &str, url: &str, count: usize, (store, place): (&str, Value)) -> anyhow::Result<f64> {
    let mut input = json!({ "url": url, "secret": queue::SECRET, "body": queue::body()?, "count": count });
    input[store] = place;
    let mut child = Command::new("node")
        .arg(script)
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("node")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.to_string().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{script} ended with {}", output.status);
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    answer["rate"].as_f64().context("no rate")
}
