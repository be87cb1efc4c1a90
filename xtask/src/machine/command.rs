//! Runs other programs, with their output shown, captured, or both.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Set when the user stops the run. Child processes in our process group get the same signal directly from the
/// terminal.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Poll interval while waiting for an event.
pub const POLL: Duration = Duration::from_millis(50);

/// How long a child process may take to exit on its own.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Turns Ctrl-C and SIGTERM into a flag, so that the run stops its child processes before it exits.
pub fn watch_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("cannot watch for Ctrl-C")
}

/// Whether the user stopped the run.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// The text of a command as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_else(|| command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a command with its output shown; an exit code other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if interrupted() {
        bail!("interrupted");
    }
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output; its standard error becomes the error text.
pub fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", shown(command), output.status, text.trim());
    }
    Ok(output.stdout)
}

/// Runs a command, shows its output line by line and passes each line to `watch`.
///
/// Joins both output streams, because some programs whose output is counted write their summary to standard output and
/// others to standard error.
pub fn run_watched(command: &mut Command, mut watch: impl FnMut(&str)) -> Result<bool> {
    let (reader, writer) = std::io::pipe().context("cannot open a pipe")?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let name = shown(command);
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    // The command holds the writing ends of the pipe. The reader reaches the end of the stream only once they are
    // dropped.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).lines() {
        let line = line?;
        eprintln!("{line}");
        watch(&line);
    }
    let status = child.wait()?;
    if interrupted() {
        bail!("interrupted");
    }
    Ok(status.success())
}

/// Path of the program with this name on the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// Whether this run is root and may install system packages.
pub fn is_root() -> bool {
    capture(Command::new("id").arg("-u")).is_ok_and(|output| output.trim_ascii() == b"0")
}

/// Whether this run is in continuous integration, where no step may be skipped.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Grace period after Ctrl-C. The terminal has already sent the signal to the child process, so we wait this long
/// before we send another one.
const INTERRUPT_GRACE: Duration = Duration::from_secs(3);

/// A child process that is stopped when this value is dropped, first with SIGTERM.
pub struct Running {
    child: Child,
    name: String,
}

impl Running {
    /// Starts the command.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = shown(command);
        let child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
        Ok(Self { child, name })
    }

    /// The child process itself, for access to its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns an error if the child has exited although it should still run.
    pub fn still_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("`{}` ended early with {status}", self.name),
        }
    }

    /// Whether the child exited within this time.
    fn ended_within(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended_within(if interrupted() { INTERRUPT_GRACE } else { Duration::ZERO }) {
            return;
        }
        // The standard library can only kill a process. The child needs a signal that it can handle, so that it can
        // stop its own child processes.
        let _ = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        if !self.ended_within(STOP_TIMEOUT) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_command_shows_both_streams() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let succeeded = run_watched(&mut command, |line| lines.push(line.to_owned())).unwrap();
        assert!(!succeeded);
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    fn a_failing_command_is_named_with_its_complaint() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo reason >&2; exit 2"]);
        let error = capture(&mut command).unwrap_err().to_string();
        assert!(error.contains("exit 2") && error.contains("reason"), "{error}");
    }

    #[test]
    fn a_running_child_ends_with_its_owner() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let mut running = Running::start(&mut command).unwrap();
        assert!(running.still_running().is_ok());
        let pid = running.child().id();
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
