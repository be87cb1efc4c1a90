//! Places for open streams of this process: how many there are, and how many one platform may take of them.

use crate::domain::{
    caps::Caps,
    ids::PlatformId,
    refusal::{Refusal, RefusalKind},
};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// Streams of this process at a time: each of them asks the database four times a second.
const STREAMS_MAX: u64 = 256;

/// How many streams each platform has open.
static OPEN: LazyLock<Mutex<HashMap<PlatformId, u64>>> = LazyLock::new(Mutex::default);

fn open() -> MutexGuard<'static, HashMap<PlatformId, u64>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place of a platform; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place(PlatformId);

impl Place {
    /// A place for one more stream. Errors: the platform, or all together, have as many as they may (429).
    pub(super) fn take(caps: &Caps, platform: &PlatformId) -> Result<Self, Refusal> {
        let mut open = open();
        let own = open.get(platform).copied().unwrap_or_default() + 1;
        caps.admit_event_streams(own)?;
        if open.values().sum::<u64>() >= STREAMS_MAX {
            return Err(Refusal::new(
                RefusalKind::TooMany,
                "Too many open streams; try again later",
            ));
        }
        open.insert(platform.clone(), own);
        Ok(Self(platform.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = open();
        if let Some(own) = open.get_mut(&self.0) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.0);
            }
        }
    }
}
