//! Logs the causes that prevent the execution of recurring payments: once when a cause appears, and once when no cause
//! is left.

use crate::domain::network::Network;
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Logged obstacles of one network.
pub(super) struct LoggedObstacles {
    network: Network,
    told: Mutex<BTreeSet<String>>,
}

impl LoggedObstacles {
    pub(super) fn new(network: Network) -> Self {
        Self {
            network,
            told: Mutex::default(),
        }
    }

    /// Logs the causes that were not logged since recurring payments were last executed.
    pub(super) fn tell(&self, found: &BTreeSet<String>) {
        let (network, mut told) = (self.network, self.lock());
        for cause in found {
            if told.insert(cause.clone()) {
                tracing::warn!(%network, cause, "recurring payments are not executed");
            }
        }
    }

    /// Records that recurring payments are executed, and logs this if causes were logged before.
    pub(super) fn end(&self) {
        let (network, mut told) = (self.network, self.lock());
        if !std::mem::take(&mut *told).is_empty() {
            tracing::info!(%network, "recurring payments are executed again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io, sync::Arc};

    /// Lines received by a log subscriber.
    #[derive(Clone, Default)]
    struct CapturedLines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for CapturedLines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_cause_is_logged_once_until_it_ends() {
        let lines = CapturedLines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let _log = tracing::subscriber::set_default(log.finish());
        let obstacles = LoggedObstacles::new(Network::Sepolia);
        let found = |causes: &[&str]| causes.iter().map(|cause| (*cause).to_owned()).collect::<BTreeSet<_>>();
        obstacles.end();
        for _ in 0..2 {
            obstacles.tell(&found(&["no coins"]));
            obstacles.tell(&found(&[]));
        }
        obstacles.tell(&found(&["no coins", "paused"]));
        obstacles.end();
        obstacles.end();
        obstacles.tell(&found(&["paused"]));
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let levels = text.lines().map(|line| line.split_whitespace().nth(1).unwrap());
        assert_eq!(levels.collect::<Vec<_>>(), ["WARN", "WARN", "INFO", "WARN"], "{text}");
        assert!(text.contains("network=sepolia cause=\"no coins\""), "{text}");
    }
}
