//! A temporary PostgreSQL: a database cluster in a temporary folder that listens on loopback. The cluster is removed
//! when its Rust value is dropped.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::machine::{command, packages};

/// Folder where Debian installs the programs of each major version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// A database that every cluster has.
pub const DATABASE: &str = "postgres";

/// The superuser of the cluster.
const USER: &str = "prs";

/// An in-memory file system, if this is Linux. Copying a database in it takes a third of the time.
const MEMORY: &str = "/dev/shm";

/// Free space in bytes that the in-memory file system must have for a cluster; the tests write less than half of it.
const MEMORY_MIN: u64 = 8 << 30;

/// Poll interval for processes that are exiting.
const POLL: Duration = Duration::from_millis(5);

/// Maximum number of starts. Another process can take a free port before the server listens on it; the server is then
/// started again on another port.
const STARTS_MAX: usize = 3;

/// Whether the cluster still has its commits after the machine fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// Commits may be lost. No row is needed after the run, so waiting for the disk would only cost time.
    Off,
    /// Commits survive, as with PostgreSQL's default. For runs that test data loss.
    Full,
}

/// The `log_line_prefix` of a server that records its statements; `%a` is the application name of the client.
const RECORD_PREFIX: &str = "@%a@ ";

/// Splits a log entry of a server that records its statements into the application name of the client and the message.
pub fn recorded(entry: &str) -> Option<(&str, &str)> {
    entry.strip_prefix('@')?.split_once("@ ")
}

/// A running cluster, which is stopped and removed on drop.
pub struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    /// Environment variables of the server.
    environment: Vec<(&'static str, String)>,
}

impl Postgres {
    /// Starts a cluster. Installs the server first if it is missing and this run is root.
    pub fn start() -> Result<Self> {
        Self::start_with(Durability::Off, &[], &[])
    }

    /// Starts a cluster that logs every statement with its values to [`Self::log`]; see [`recorded`].
    pub fn start_recording() -> Result<Self> {
        let prefix = format!("log_line_prefix = '{RECORD_PREFIX}'");
        Self::start_with(Durability::Off, &[&prefix, "log_statement = all"], &[])
    }

    /// Starts a cluster that waits for the disk at each commit, as in production. The server gets these environment
    /// variables.
    pub fn start_durable(environment: &[(&'static str, String)]) -> Result<Self> {
        Self::start_with(Durability::Full, &[], environment)
    }

    fn start_with(durability: Durability, further: &[&str], environment: &[(&'static str, String)]) -> Result<Self> {
        let programs = match find_programs() {
            Some(programs) => programs,
            None => {
                packages::install(&["postgresql"])?;
                find_programs().context("postgresql is installed, but pg_ctl is missing")?
            }
        };
        let mut folder = tempfile::Builder::new();
        folder.prefix("prs-postgres-");
        let folder = match durability {
            Durability::Off if has_room_in_memory() => folder.tempdir_in(MEMORY)?,
            _ => folder.tempdir()?,
        };
        if command::is_root() {
            command::run(Command::new("chown").arg("postgres:").arg(folder.path()))?;
        }
        let mut server = Self {
            folder,
            programs,
            port: 0,
            environment: environment.to_vec(),
        };
        let mut create = server.program("initdb");
        create.args([
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--username",
            USER,
            "--pgdata",
        ]);
        command::capture(create.arg(server.cluster()))?;
        server.configure(durability, further)?;
        for start in 1..=STARTS_MAX {
            match server.listen() {
                Ok(()) => return Ok(server),
                Err(error) if start == STARTS_MAX => return Err(error),
                Err(_) => {}
            }
        }
        bail!("PostgreSQL does not start")
    }

    /// Whether the PostgreSQL server is installed.
    pub fn is_installed() -> bool {
        find_programs().is_some()
    }

    /// The URL of the default database.
    pub fn url(&self) -> String {
        self.database(DATABASE)
    }

    /// Path of the server's log, with its recorded statements.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// A `psql` that is connected to one of the databases and prints only results.
    pub fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--dbname"])
            .arg(self.database(database));
        psql
    }

    /// The `PATH` of this process, with the folder of this PostgreSQL version's programs put first.
    pub fn path(&self) -> Result<OsString> {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&others));
        Ok(std::env::join_paths(paths)?)
    }

    /// The URL of a database by name.
    pub fn database(&self, name: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port)
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills every process of the server with SIGKILL, so that none can finish its work.
    pub fn kill(&self) -> Result<()> {
        let lock = self.cluster().join("postmaster.pid");
        let text = fs::read_to_string(&lock).context("PostgreSQL is not running")?;
        let server: u32 = text.lines().next().unwrap_or_default().trim().parse()?;
        // The main process is stopped first, so that it starts no process while the list of its processes is read. A
        // process that was missed would still listen on the port.
        signal("-STOP", &[server]);
        let mut processes = vec![server];
        processes.extend(children_of(server)?);
        signal("-KILL", &processes);
        while processes.iter().any(|pid| parent_of(*pid).is_some()) {
            std::thread::sleep(POLL);
        }
        // The parent process may not have reaped the dead server yet. A restart would then refuse the lock file,
        // because its process seems to exist.
        Ok(fs::remove_file(&lock)?)
    }

    /// Starts the server again in the same folder.
    pub fn restart(&self) -> Result<()> {
        self.launch()
    }

    fn cluster(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    /// A program of the server, run as a user that may run it: PostgreSQL refuses root.
    fn program(&self, name: &str) -> Command {
        self.program_with(&[], name)
    }

    /// Like `program`, with environment variables for the program alone. A library in `LD_PRELOAD` must not be loaded
    /// into the command that switches the user.
    fn program_with(&self, environment: &[(&'static str, String)], name: &str) -> Command {
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
        let mut command = if command::is_root() {
            let mut runuser = Command::new("runuser");
            runuser.args(["-u", "postgres", "--", "env"]);
            runuser
        } else {
            Command::new("env")
        };
        command.args(variables).arg(self.programs.join(name));
        command.current_dir(self.folder.path());
        command
    }

    fn configure(&self, durability: Durability, further: &[&str]) -> Result<()> {
        let mut settings = OpenOptions::new()
            .append(true)
            .open(self.cluster().join("postgresql.conf"))?;
        writeln!(
            settings,
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 300"
        )?;
        if durability == Durability::Off {
            writeln!(
                settings,
                "fsync = off\nfull_page_writes = off\nsynchronous_commit = off"
            )?;
            // No standby has this name. A database that sets `synchronous_commit` therefore waits forever at each
            // commit.
            writeln!(settings, "synchronous_standby_names = 'absent'")?;
        }
        for line in further {
            writeln!(settings, "{line}")?;
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<()> {
        self.port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        self.launch()
    }

    fn launch(&self) -> Result<()> {
        let log = self.log();
        let mut start = self.program_with(&self.environment, "pg_ctl");
        start
            .args(["start", "--wait", "--silent", "--pgdata"])
            .arg(self.cluster())
            .arg("--log")
            .arg(&log);
        start.args(["--options", &format!("-p {}", self.port)]);
        // The server keeps the output streams that it inherits open, so a caller that captured them would wait forever.
        let status = start
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            bail!(
                "PostgreSQL does not start: {}",
                fs::read_to_string(&log).unwrap_or_default().trim()
            );
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "--mode=immediate", "--silent", "--pgdata"])
            .arg(self.cluster());
        let _ = stop
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Sends a signal to processes. Those that have ended are ignored.
fn signal(name: &str, processes: &[u32]) {
    let pids = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
}

/// Whether the in-memory file system has room for a cluster. Small containers, and machines without such a file system,
/// use the disk.
fn has_room_in_memory() -> bool {
    let free = command::capture(Command::new("df").args(["--output=avail", "--block-size=1", MEMORY]));
    let free = free
        .ok()
        .and_then(|table| String::from_utf8_lossy(&table).lines().nth(1)?.trim().parse().ok());
    free.is_some_and(|free: u64| free >= MEMORY_MIN)
}

/// The parent of a live process; `None` if the process is dead, even if its parent has not reaped it yet.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name is in parentheses and may contain any character.
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

fn children_of(parent: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        children.extend(pid.filter(|pid| parent_of(*pid) == Some(parent)));
    }
    Ok(children)
}

/// The folder with the server's programs: the newest Debian version, else the PATH.
fn find_programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(VERSIONS)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .filter(|(_, programs)| programs.join("pg_ctl").is_file() && programs.join("initdb").is_file())
        .collect();
    versions.sort();
    let newest = versions.pop().map(|(_, programs)| programs);
    newest.or_else(|| command::find_program("pg_ctl")?.parent().map(Path::to_path_buf))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_cluster_responds_while_it_runs_and_leaves_nothing_behind() {
        if !Postgres::is_installed() {
            assert!(!command::is_ci(), "PostgreSQL is needed in continuous integration");
            return;
        }
        let server = Postgres::start().unwrap();
        let (port, folder) = (server.port, server.folder.path().to_path_buf());
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        server.kill().unwrap();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        server.restart().unwrap();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        drop(server);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        assert!(!folder.exists());
    }
}
