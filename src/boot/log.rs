//! Log output: standard error, written by a separate thread.
//!
//! The service never waits for the log. If the reader of standard error is slow, lines are dropped and counted. If the
//! reader is gone, the service continues without a log.

use crate::settings::{LogFormat, LogSettings};
use anyhow::{Context, anyhow};
use std::io::{self, IsTerminal};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Number of lines buffered for a slow reader before further lines are dropped.
const LINES_WAITING_MAX: usize = 16_384;

/// Default log levels of libraries that log too much; `log.level` or `RUST_LOG` can change them.
const QUIET: &str = "sqlx=warn,sea_orm_migration=warn";

/// Number of lines dropped since the start.
static DROPPED: std::sync::OnceLock<ErrorCounter> = std::sync::OnceLock::new();

/// Checks that the level is valid. Errors: as for [`start`].
pub(super) fn check(settings: &LogSettings) -> anyhow::Result<()> {
    filter(settings).map(drop)
}

/// Starts logging. Dropping the guard writes the buffered lines.
///
/// Errors: an invalid level, with what is expected.
pub(super) fn start(settings: &LogSettings) -> anyhow::Result<WorkerGuard> {
    let filter = filter(settings)?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_WAITING_MAX)
        .thread_name("log")
        .finish(io::stderr());
    let _ = DROPPED.set(writer.error_counter());
    let is_pretty = match settings.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Pretty => true,
    };
    // A line about a failed write would go to the same closed pipe, and end the logging thread.
    let lines = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_env_filter(filter)
        .log_internal_errors(false);
    let started = if is_pretty {
        lines
            .with_ansi(io::stderr().is_terminal())
            .with_target(false)
            .try_init()
    } else {
        lines.json().try_init()
    };
    started.map_err(|error| anyhow!("logging could not be started: {error}"))?;
    Ok(guard)
}

/// Number of lines dropped because they were not read in time.
pub(super) fn dropped_lines() -> u64 {
    let dropped = DROPPED.get().map_or(0, ErrorCounter::dropped_lines);
    u64::try_from(dropped).unwrap_or(u64::MAX)
}

/// `RUST_LOG`, which is set for one start, takes precedence over the settings.
fn filter(settings: &LogSettings) -> anyhow::Result<EnvFilter> {
    let (name, level) = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(level) if !level.is_empty() => (EnvFilter::DEFAULT_ENV, level),
        _ => ("log.level", settings.level.clone()),
    };
    let wrong = || format!("{name}: must be a level such as info, or levels by target such as info,prs=debug");
    // A word that is not a level would be read as a target name, and silence all other targets.
    if let Some(word) = no_level(&level) {
        return Err(anyhow!("{}; {word} is neither", wrong()));
    }
    EnvFilter::try_new(format!("{QUIET},{level}")).with_context(wrong)
}

/// The first directive that is neither a level nor a target with a level.
fn no_level(directives: &str) -> Option<&str> {
    let is_level = |word: &str| !word.trim().is_empty() && word.trim().parse::<LevelFilter>().is_ok();
    let mut directives = directives.split(',').map(str::trim);
    directives.find(|directive| match directive.rsplit_once('=') {
        // Values of span fields are in brackets before the level.
        Some((_, level)) => !is_level(level),
        None => !is_level(directive),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_log_level_is_found() {
        for good in [
            "info",
            "INFO",
            "warn,prs=debug",
            "off",
            "info, sqlx=trace",
            "prs[claim{id=7}]=trace",
        ] {
            assert_eq!(no_level(good), None, "{good}");
        }
        for (wrong, word) in [
            ("inof", "inof"),
            ("warm,prs=info", "warm"),
            ("info,prs=infoo", "prs=infoo"),
            ("", ""),
        ] {
            assert_eq!(no_level(wrong), Some(word));
        }
    }
}
