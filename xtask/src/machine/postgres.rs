//! A throwaway PostgreSQL: its own cluster in a temporary folder, on loopback, gone with its owner.

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

/// Where Debian keeps the programs of each major version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The database that every cluster has.
pub const DATABASE: &str = "postgres";

/// The superuser of the cluster.
const USER: &str = "prs";

/// A file system in memory, where Linux has one: a database is copied there in a third of the time.
const MEMORY: &str = "/dev/shm";

/// Free space in bytes that a cluster needs in memory: the tests write less than half of it.
const MEMORY_MIN: u64 = 8 << 30;

/// How often processes that are ending are looked for.
const POLL: Duration = Duration::from_millis(5);

/// A port found free can be taken before the server has it; another one is tried then.
const STARTS_MAX: usize = 3;

/// What a cluster does for the case that the machine fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// Nothing: nobody wants the rows after the run, so waiting for the disk only costs time.
    Off,
    /// What PostgreSQL does by default, for runs that are about losing nothing.
    Full,
}

/// What stands before each entry of the log of a server that records: the program that asked.
const RECORD_PREFIX: &str = "@%a@ ";

/// The program and the message of an entry of the log of a server that records.
pub fn recorded(entry: &str) -> Option<(&str, &str)> {
    entry.strip_prefix('@')?.split_once("@ ")
}

/// A running cluster; stopped and removed when dropped.
pub struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    /// What the server is started with.
    environment: Vec<(&'static str, String)>,
}

impl Postgres {
    /// Starts a cluster, installing the server first when it is missing and we may.
    pub fn start() -> Result<Self> {
        Self::start_with(Durability::Off, &[], &[])
    }

    /// Starts a cluster that writes every statement with its values into [`Self::log`]; see [`recorded`].
    pub fn start_recording() -> Result<Self> {
        let prefix = format!("log_line_prefix = '{RECORD_PREFIX}'");
        Self::start_with(Durability::Off, &[&prefix, "log_statement = all"], &[])
    }

    /// Starts a cluster that waits for the disk as one in production does, with variables in the environment of its server.
    pub fn start_durable(environment: &[(&'static str, String)]) -> Result<Self> {
        Self::start_with(Durability::Full, &[], environment)
    }

    fn start_with(durability: Durability, further: &[&str], environment: &[(&'static str, String)]) -> Result<Self> {
        let programs = match find_programs() {
            Some(programs) => programs,
            None => {
                packages::install(&["postgresql"])?;
                find_programs().context("postgresql is installed, and yet there is no pg_ctl")?
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

    /// Whether the server can be started without installing anything.
    pub fn is_installed() -> bool {
        find_programs().is_some()
    }

    /// The address of the database every cluster has.
    pub fn url(&self) -> String {
        self.database(DATABASE)
    }

    /// What it says about itself, and what it records.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// A `psql` that is connected to one of its databases and says nothing but results.
    pub fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--dbname"])
            .arg(self.database(database));
        psql
    }

    /// A PATH on which the programs of this version come first.
    pub fn path(&self) -> Result<OsString> {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&others));
        Ok(std::env::join_paths(paths)?)
    }

    /// The address of a database of this name.
    pub fn database(&self, name: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends every process of the server with SIGKILL: it gets no chance to finish anything.
    pub fn kill(&self) -> Result<()> {
        let lock = self.cluster().join("postmaster.pid");
        let text = fs::read_to_string(&lock).context("PostgreSQL is not running")?;
        let server: u32 = text.lines().next().unwrap_or_default().trim().parse()?;
        // The server comes first, so that it starts nothing in place of what is ended next.
        let mut processes = vec![server];
        processes.extend(children_of(server)?);
        let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(&pids)
            .stderr(Stdio::null())
            .status();
        while processes.iter().any(|pid| parent_of(*pid).is_some()) {
            std::thread::sleep(POLL);
        }
        // Whoever inherits the dead server may not have reaped it yet, and the lock would then count as held.
        Ok(fs::remove_file(&lock)?)
    }

    /// Starts the server again where it was.
    pub fn restart(&self) -> Result<()> {
        self.launch()
    }

    fn cluster(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    /// A program of the server, under the user who may run it: PostgreSQL refuses root.
    fn program(&self, name: &str) -> Command {
        self.program_with(&[], name)
    }

    /// The same with variables that only the program sees: a library that is loaded into it is none of whoever starts it.
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
            // A database that sets `synchronous_commit` waits for this standby at each commit, for ever.
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
        // The server keeps the streams it inherits open, so a captured one would never end.
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

/// Whether the file system in memory has room for a cluster; machines without one, and small containers, use the disk.
fn has_room_in_memory() -> bool {
    let free = command::capture(Command::new("df").args(["--output=avail", "--block-size=1", MEMORY]));
    let free = free
        .ok()
        .and_then(|table| String::from_utf8_lossy(&table).lines().nth(1)?.trim().parse().ok());
    free.is_some_and(|free: u64| free >= MEMORY_MIN)
}

/// The parent of a process that lives; nothing when it is dead, reaped or not.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything.
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

/// The folder with the server's programs: the newest version of Debian, else what is on the PATH.
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
    fn a_cluster_answers_while_it_lives_and_leaves_nothing_behind() {
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
