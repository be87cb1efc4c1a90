//! The process of the node: finds its binary, starts it, and ensures that it ends.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use alloy::primitives::{Address, B256};
use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

const ACCOUNT_COUNT: usize = 10;
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// When the chain mines blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockTime {
    /// The node mines a block for every transaction, at once.
    Instant,
    /// The node mines a block at this interval in milliseconds, with or without transactions.
    EveryMs(u64),
}

/// Options of a chain.
#[derive(Clone, Debug)]
pub struct Options {
    /// The chain's id. It also selects the native currency in the conversion contracts.
    pub chain_id: u64,
    /// The port on 127.0.0.1; `None` takes a free port.
    pub port: Option<u16>,
    /// When blocks are mined.
    pub block_time: BlockTime,
    /// The `safe` block lags the head by this many blocks, and the `finalized` block by twice as many.
    pub slots_in_an_epoch: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chain_id: 11_155_111,
            port: None,
            block_time: BlockTime::Instant,
            slots_in_an_epoch: 1,
        }
    }
}

/// An account that the node has unlocked and funded.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// The account's address.
    pub address: Address,
    /// The account's private key, which is public and worthless on any other chain.
    pub private_key: B256,
}

/// Number of recent blocks whose state the node keeps, so that it can return to them.
const STATES_KEPT: &str = "500";

/// The command that fetches the node and the published contracts.
pub(crate) fn repair_command() -> String {
    format!("run `npm ci --ignore-scripts` in {}", dir().display())
}

/// The folder with the pinned node, the published bytecode and our artifacts. It is `PRS_DEVNET` if that is set, else
/// the folder of this crate if it exists, else `./devnet`.
pub fn dir() -> PathBuf {
    if let Some(path) = env::var_os("PRS_DEVNET") {
        return path.into();
    }
    let of_the_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    if of_the_crate.is_dir() {
        of_the_crate.to_owned()
    } else {
        PathBuf::from("devnet")
    }
}

/// The node's binary. It is `PRS_ANVIL` if that is set, else an `anvil` on the PATH, else the one that npm fetched into
/// [`dir`].
pub fn anvil_path() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os("PRS_ANVIL").map(PathBuf::from) {
        if is_executable(&path) {
            return Ok(path);
        }
        bail!(
            "PRS_ANVIL is set to {}, which is not an executable file",
            path.display()
        );
    }
    if let Some(path) = on_path("anvil") {
        return Ok(path);
    }
    let Some(package) = package(env::consts::OS, env::consts::ARCH) else {
        bail!(
            "no npm package contains the local chain node for this machine: put `anvil` on the PATH, or set PRS_ANVIL \
             to its path"
        );
    };
    // The binary of the package is called directly: its wrapper script leaves the node running when the script is
    // killed.
    let fetched = dir().join("node_modules").join(package).join("bin/anvil");
    if is_executable(&fetched) {
        return Ok(fetched);
    }
    bail!(
        "the local chain node `anvil` is not installed: {}, or set PRS_ANVIL to the path of a binary",
        repair_command()
    )
}

/// The npm package of the node for an operating system and a processor, by their Rust names.
fn package(system: &str, processor: &str) -> Option<&'static str> {
    match (system, processor) {
        ("linux", "x86_64") => Some("@foundry-rs/anvil-linux-amd64"),
        ("linux", "aarch64") => Some("@foundry-rs/anvil-linux-arm64"),
        ("macos", "x86_64") => Some("@foundry-rs/anvil-darwin-amd64"),
        ("macos", "aarch64") => Some("@foundry-rs/anvil-darwin-arm64"),
        _ => None,
    }
}

pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The line that the node prints once it listens.
struct Announcement {
    url: String,
    accounts: Vec<Account>,
}

/// Prefix of a line that reports a new block.
const BLOCK: &str = "    Block Number:";

/// A running node. Dropping this value kills the process.
pub(crate) struct Node {
    child: Child,
    reader: Option<JoinHandle<()>>,
    blocks: watch::Receiver<u64>,
    announcement: Announcement,
}

impl Node {
    /// Starts the node and waits until it listens.
    pub(crate) async fn start(options: &Options) -> anyhow::Result<Self> {
        let command = command(&anvil_path()?, options);
        let (spawned_sender, spawned) = oneshot::channel();
        let (announcement_sender, announcement) = oneshot::channel();
        let (block_sender, blocks) = watch::channel(0);
        // The kernel ends the node when the *thread* that started it ends. A separate thread therefore starts the node
        // and stays as long as the node runs, whatever happens to the async runtime.
        let reader = thread::Builder::new()
            .name("anvil".to_owned())
            .spawn(move || follow(command, spawned_sender, announcement_sender, &block_sender))?;
        let child = spawned
            .await
            .context("the thread that starts the local chain node ended before the node was ready")??;
        let mut node = Self {
            child,
            reader: Some(reader),
            blocks,
            announcement: Announcement {
                url: String::new(),
                accounts: Vec::new(),
            },
        };
        node.announcement = timeout(START_TIMEOUT, announcement)
            .await
            .context("the local chain node did not start in time")?
            .context("the thread that starts the local chain node ended before the node was ready")??;
        Ok(node)
    }

    /// The URL of its JSON-RPC.
    pub(crate) fn url(&self) -> &str {
        &self.announcement.url
    }

    /// A channel with the number of blocks that the node has reported.
    pub(crate) fn blocks(&self) -> watch::Receiver<u64> {
        self.blocks.clone()
    }

    /// The accounts that the node has unlocked.
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.announcement.accounts
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only if the process is already gone, which is the intended result.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn command(anvil: &Path, options: &Options) -> Command {
    // A killed parent process runs no `Drop`; `setpriv` makes the kernel end the node in that case too. It belongs to
    // util-linux, so it is missing only on unusual systems, where `Drop` has to suffice.
    let mut command = match on_path("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(anvil);
            command
        }
        None => Command::new(anvil),
    };
    command
        .args(["--host", "127.0.0.1", "--port", &options.port.unwrap_or(0).to_string()])
        .args(["--chain-id", &options.chain_id.to_string()])
        .args(["--accounts", &ACCOUNT_COUNT.to_string()])
        .args(["--slots-in-an-epoch", &options.slots_in_an_epoch.to_string()])
        // Transactions of one block keep the order in which they were sent.
        .args(["--order", "fifo"])
        // The gas limit of each transaction counts against the block, and our limits are generous.
        .args(["--gas-limit", "1000000000"])
        // Older states would be written to files in the home directory: gigabytes in an hour of tests. A killed node
        // leaves the files there.
        .args(["--prune-history", STATES_KEPT]);
    match options.block_time {
        BlockTime::Instant => command.arg("--no-mining"),
        BlockTime::EveryMs(ms) => command.args(["--block-time", &format!("{}.{:03}", ms / 1000, ms % 1000)]),
    };
    command
        .env_remove("RUST_LOG")
        // The node has a process group of its own, so that an interrupt from the terminal reaches this process first,
        // which can then stop in order.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts the node, reports its accounts, and then reads its output, so that a full pipe never blocks the node.
fn follow(
    mut command: Command,
    spawned: oneshot::Sender<anyhow::Result<Child>>,
    announcement: oneshot::Sender<anyhow::Result<Announcement>>,
    blocks: &watch::Sender<u64>,
) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // If the caller abandoned the start, the receiver is gone, and the error is not needed.
            let _ = spawned.send(Err(anyhow!(error).context("the local chain node cannot be started")));
            return;
        }
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    if let Err(Ok(mut unwanted)) = spawned.send(Ok(child)) {
        let _ = unwanted.kill();
        let _ = unwanted.wait();
        return;
    }
    let complaints = thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    });
    let mut lines = stdout
        .into_iter()
        .flat_map(|stdout| BufReader::new(stdout).lines())
        .map_while(Result::ok);
    match announced(&mut lines) {
        Some(announced) => {
            let _ = announcement.send(announced);
            for _ in lines.filter(|line| line.starts_with(BLOCK)) {
                blocks.send_modify(|count| *count += 1);
            }
            let text = complaints.join().unwrap_or_default();
            if !text.is_empty() {
                tracing::warn!(text, "the local chain node printed an error");
            }
        }
        None => {
            let text = complaints.join().unwrap_or_default();
            let _ = announcement.send(Err(anyhow!("the local chain node ended during its start: {text}")));
        }
    }
}

/// Reads the output of the node up to the line with its address; `None` if the output ends before that line.
fn announced(lines: &mut impl Iterator<Item = String>) -> Option<anyhow::Result<Announcement>> {
    let (mut addresses, mut keys) = (Vec::new(), Vec::new());
    for line in lines {
        if let Some(socket) = line.strip_prefix("Listening on ") {
            let accounts = accounts(&addresses, &keys);
            return Some(accounts.map(|accounts| Announcement {
                url: format!("http://{}", socket.trim()),
                accounts,
            }));
        }
        // Both lists have lines such as `(3) 0x…`; only the length distinguishes an address from a key.
        let Some(word) = line.strip_prefix('(').and_then(|line| line.split_whitespace().nth(1)) else {
            continue;
        };
        match word.len() {
            42 => addresses.push(word.to_owned()),
            66 => keys.push(word.to_owned()),
            _ => {}
        }
    }
    None
}

fn accounts(addresses: &[String], keys: &[String]) -> anyhow::Result<Vec<Account>> {
    if addresses.len() != ACCOUNT_COUNT || keys.len() != ACCOUNT_COUNT {
        bail!(
            "the local chain node must announce {ACCOUNT_COUNT} addresses and keys, but announced {} addresses and {} \
             keys",
            addresses.len(),
            keys.len()
        );
    }
    addresses
        .iter()
        .zip(keys)
        .map(|(address, key)| {
            Ok(Account {
                address: address.parse::<Address>()?,
                private_key: key.parse::<B256>()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_has_the_node_for_every_supported_machine() {
        let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/package-lock.json")).unwrap();
        let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
        for (system, npm_system) in [("linux", "linux"), ("macos", "darwin")] {
            for (processor, npm_processor) in [("x86_64", "x64"), ("aarch64", "arm64")] {
                let name = package(system, processor).unwrap();
                let locked = &lock["packages"][format!("node_modules/{name}")];
                assert_eq!(locked["version"], lock["packages"][""]["optionalDependencies"][name]);
                assert_eq!(
                    (&locked["os"][0], &locked["cpu"][0]),
                    (&npm_system.into(), &npm_processor.into())
                );
            }
        }
        assert_eq!(package("windows", "x86_64"), None);
    }
}
