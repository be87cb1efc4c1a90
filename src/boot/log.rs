//! Where log lines go: standard error, from a thread of its own.
//!
//! Nothing waits for a line to be written. When the reader of standard error is slow, lines are dropped and counted; when
//! it is gone, the service goes on without a log.

use crate::settings::{LogFormat, LogSettings};
use anyhow::{Context, anyhow};
use std::io::{self, IsTerminal};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Lines that wait for a slow reader before further ones are dropped.
const LINES_WAITING_MAX: usize = 16_384;

/// What is not logged unless it is asked for by name.
const QUIET: &str = "sqlx=warn,sea_orm_migration=warn";

/// Lines that were dropped since the start.
static DROPPED: std::sync::OnceLock<ErrorCounter> = std::sync::OnceLock::new();

/// Checks that the level can be read. Errors: as those of [`start`].
pub(super) fn check(settings: &LogSettings) -> anyhow::Result<()> {
    filter(settings).map(drop)
}

/// Begins to log; lines that still wait are written when the guard is dropped.
///
/// Errors: a level that cannot be read, with what would be right.
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
    // A line about a line that could not be written would go to the same closed pipe, and end the thread that logs.
    let lines = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_env_filter(filter)
        .log_internal_errors(false);
    let started = match is_pretty {
        true => lines
            .with_ansi(io::stderr().is_terminal())
            .with_target(false)
            .try_init(),
        false => lines.json().try_init(),
    };
    started.map_err(|error| anyhow!("the log could not be started: {error}"))?;
    Ok(guard)
}

/// Lines that were dropped because nobody read them in time.
pub(super) fn dropped_lines() -> u64 {
    let dropped = DROPPED.get().map_or(0, ErrorCounter::dropped_lines);
    u64::try_from(dropped).unwrap_or(u64::MAX)
}

/// `RUST_LOG`, which is set for one start, goes before the settings.
fn filter(settings: &LogSettings) -> anyhow::Result<EnvFilter> {
    let (name, level) = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(level) if !level.is_empty() => (EnvFilter::DEFAULT_ENV, level),
        _ => ("log.level", settings.level.clone()),
    };
    let wrong = || format!("{name}: must be a level such as info, or levels by target such as info,prs=debug");
    // A word that is no level would be read as the name of a target, and silence all others.
    if let Some(word) = no_level(&level) {
        return Err(anyhow!("{}; {word} is none", wrong()));
    }
    EnvFilter::try_new(format!("{QUIET},{level}")).with_context(wrong)
}

/// The first directive that names neither a level nor a target with one.
fn no_level(directives: &str) -> Option<&str> {
    let is_level = |word: &str| !word.trim().is_empty() && word.trim().parse::<LevelFilter>().is_ok();
    let mut directives = directives.split(',').map(str::trim);
    directives.find(|directive| match directive.rsplit_once('=') {
        // The values of the fields of a span stand in brackets, which come before the level.
        Some((_, level)) => !is_level(level),
        None => !is_level(directive),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_found() {
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
