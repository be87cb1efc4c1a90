//! The release `prs` and its bare counterpart as separate processes.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use prs::{
    boot,
    domain::{
        address::Address,
        caller::{Credential, PlatformCaller, SignedInPerson},
        ids::{PlatformId, SessionId},
        network::Network,
    },
    flows::{
        self,
        client_ids::create::NewClientId,
        destinations::NewDestination,
        idempotency::{KeyedResult, RepeatableCall},
    },
    settings::Settings,
};

/// Poll interval of the readiness of a starting process.
const POLL: Duration = Duration::from_millis(2);

/// Time limit for readiness.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A cap on open requests that no benchmark reaches.
const UNREACHED_OPEN: u64 = 10_000_000;

/// Number of log lines that are shown if the service does not start.
const LOG_LINES_SHOWN: usize = 10;

/// A running process; stopped on drop.
pub(crate) struct Running {
    child: Child,
    /// The address on which the process listens.
    pub(crate) address: SocketAddr,
    /// Time from the start of the process to the first 200 of its health page.
    pub(crate) ready_after: Duration,
}

impl Running {
    /// Starts `prs serve` with these settings. The settings file and the log are written to `folder`.
    pub(crate) fn serve(settings: &Settings, role: &str, folder: &Path) -> anyhow::Result<Self> {
        let file = folder.join("prs.toml");
        std::fs::write(&file, toml::to_string(settings)?)?;
        let log = folder.join("prs.log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_prs"));
        command
            .args(["serve", "--role", role, "--config"])
            .arg(&file)
            .current_dir(folder);
        // Environment variables could change the measured service.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PRS_")) {
            command.env_remove(name);
        }
        command.env_remove("RUST_LOG").stderr(File::create(&log)?);
        Self::start(command, settings.http.listen, "/health/ready").map_err(|error| {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(LOG_LINES_SHOWN).collect();
            error.context(format!(
                "`prs serve`: {}",
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            ))
        })
    }

    /// Starts the bare counterpart, which is this program. Without a database it serves only its health page.
    pub(crate) fn bare(database_url: Option<&str>) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--bare-port", &address.port().to_string()]);
        if let Some(url) = database_url {
            command.args(["--bare-database", url]);
        }
        Self::start(command, address, "/health").context("the bare counterpart")
    }

    /// Starts a command that listens on the address, and waits for its health page.
    pub(crate) fn start(mut command: Command, address: SocketAddr, health: &str) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = Instant::now();
        let child = command.spawn()?;
        let mut running = Self {
            child,
            address,
            ready_after: Duration::ZERO,
        };
        while !is_ready(address, health) {
            if let Some(status) = running.child.try_wait()? {
                bail!("it ended with {status}");
            }
            if started.elapsed() > READY_TIMEOUT {
                bail!("it was not ready within {} s", READY_TIMEOUT.as_secs());
            }
            std::thread::sleep(POLL);
        }
        running.ready_after = started.elapsed();
        Ok(running)
    }

    /// Memory of the process that is in RAM, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .with_context(|| format!("no VmRSS in {path}"))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Processor time that the process and its children have used so far.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        processor_time(&self.child.id().to_string())
    }
}

/// Hundredths of a second, the unit in which the kernel counts processor time.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of a process and its children.
fn processor_time(process: &str) -> anyhow::Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let (_, fields) = stat.rsplit_once(')').with_context(|| path.clone())?;
    // The 14th and 15th fields are the processor time in user and in kernel mode. Fields are counted after the second
    // one, which ends with the last parenthesis.
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    let mut sum = TICK * ticks.sum::<Result<u32, _>>()?;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let started = std::fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        for child in started.split_whitespace() {
            sum += processor_time(child)?;
        }
    }
    Ok(sum)
}

impl Drop for Running {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has already ended, which is the intended result.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is currently free.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn is_ready(address: SocketAddr, path: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READY_TIMEOUT))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer == *b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}

/// Settings of a service on a free port, with its own database and key.
pub(crate) fn settings(database_url: String) -> anyhow::Result<Settings> {
    let mut settings = Settings::development(free_address()?);
    settings.database.url = database_url;
    settings.rate_limits.enabled = false;
    settings.caps.open_requests = UNREACHED_OPEN;
    settings.caps.public_open_requests = UNREACHED_OPEN;
    settings.secrets.master_key = Some("5e".repeat(32));
    Ok(settings)
}

/// Credentials of a tenant.
pub(crate) struct Tenant {
    /// API key.
    pub(crate) api_key: String,
    /// Client ID of a backend.
    pub(crate) client_id: String,
    platform: PlatformId,
}

/// Migrates the schema and creates a tenant.
pub(crate) async fn seed(settings: &Settings) -> anyhow::Result<Tenant> {
    let db = boot::open_database(settings).await?;
    let ctx = boot::context(settings, db.clone())?;
    let platform = flows::platforms::create::run(&ctx, "Bench").await?;
    let new = flows::keys::create(&ctx, &platform, None).await?;
    let caller = PlatformCaller {
        platform,
        credential: Credential::ApiKey { id: new.row.id },
    };
    let input = NewClientId {
        label: "Bench".to_owned(),
        is_backend: true,
        ..NewClientId::default()
    };
    let KeyedResult::Fresh(client) =
        flows::client_ids::create::run(&ctx, &caller, &input, RepeatableCall::unkeyed()).await?
    else {
        return Err(anyhow!("a new client ID must not exist yet"));
    };
    db.close().await?;
    Ok(Tenant {
        api_key: new.key.reveal().to_owned(),
        client_id: client.client_id,
        platform: caller.platform,
    })
}

/// Gives a tenant a wallet that receives the test token of Sepolia, and a client ID for pages of an origin.
pub(crate) async fn seed_page(
    settings: &Settings,
    tenant: &Tenant,
    wallet: &str,
    origin: &str,
) -> anyhow::Result<String> {
    let db = boot::open_database(settings).await?;
    let ctx = boot::context(settings, db.clone())?;
    let wallet = Address::parse(wallet)?;
    let tx = db.begin("a wallet").await?;
    prs::store::accounts::bind_wallet(&tx, &wallet, &tenant.platform, ctx.clock.now()).await?;
    tx.commit().await?;
    let owner = PlatformCaller {
        platform: tenant.platform.clone(),
        credential: Credential::Session {
            id: SessionId("bench".to_owned()),
            person: SignedInPerson::Wallet(wallet),
        },
    };
    let token = ctx.catalogue.find("FAU-sepolia").context("the test token")?;
    let input = NewDestination {
        token: token.address.clone(),
        chain_id: Network::Sepolia.chain_id(),
        policy: None,
    };
    flows::destinations::create::run(&ctx, &owner, &input, RepeatableCall::unkeyed()).await?;
    let input = NewClientId {
        label: "Page".to_owned(),
        allowed_domains: vec![origin.to_owned()],
        ..NewClientId::default()
    };
    let made = flows::client_ids::create::run(&ctx, &owner, &input, RepeatableCall::unkeyed()).await?;
    let KeyedResult::Fresh(client) = made else {
        return Err(anyhow!("a new client ID must not exist yet"));
    };
    db.close().await?;
    Ok(client.client_id)
}
