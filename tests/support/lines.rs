//! Captures the log lines of a test.

use std::{
    io,
    sync::{Arc, Mutex},
};
use tracing::subscriber::DefaultGuard;

/// Captures the log lines that the thread of a test writes.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Captures log lines of the default level until the guard is dropped.
    pub fn listen() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        (lines, tracing::subscriber::set_default(log.finish()))
    }

    /// Captures log lines that pass a filter until the guard is dropped.
    pub fn listen_to(filter: &str) -> (Self, DefaultGuard) {
        let lines = Self::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_env_filter(filter)
            .with_writer(move || writer.clone());
        (lines, tracing::subscriber::set_default(log.finish()))
    }

    /// All captured lines.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("unpoisoned").clone()).expect("UTF-8")
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
