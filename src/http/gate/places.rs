//! Places of platforms for what stays open: how many each of them has on this instance.

use crate::domain::{
    ids::PlatformId,
    refusal::{Refusal, RefusalKind},
};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// The part of all places that is kept free for platforms which have none: as of deliveries, a platform that has a place
/// gets another one only if it then has at most seven times what stays free.
const KEPT_DIVISOR: u64 = 8;

/// When a place may be free again.
const RETRY_AFTER_S: u32 = 10;

/// Places of one kind.
#[derive(Debug)]
pub struct Places {
    /// Of all platforms together.
    all: u64,
    /// What a platform reads for which none is left.
    full: &'static str,
    taken: LazyLock<Mutex<HashMap<PlatformId, u64>>>,
}

impl Places {
    /// So many places, of which none is taken; `full` is what a platform reads for which none is left.
    pub const fn new(all: u64, full: &'static str) -> Self {
        Self {
            all,
            full,
            taken: LazyLock::new(Mutex::default),
        }
    }

    /// Takes one more, when `admit` lets the platform have so many. Errors: what `admit` says; all are taken but those that
    /// are kept for others (429).
    pub fn take(
        &'static self,
        platform: &PlatformId,
        admit: impl FnOnce(u64) -> Result<(), Refusal>,
    ) -> Result<Place, Refusal> {
        let mut taken = self.taken();
        let own = taken.get(platform).copied().unwrap_or_default() + 1;
        admit(own)?;
        let kept = if own == 1 { 0 } else { self.all / KEPT_DIVISOR };
        if taken.values().sum::<u64>() + kept >= self.all {
            return Err(Refusal::new(RefusalKind::TooMany, self.full).after(RETRY_AFTER_S));
        }
        taken.insert(platform.clone(), own);
        Ok(Place {
            places: self,
            platform: platform.clone(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<PlatformId, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place of a platform; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: &'static Places,
    platform: PlatformId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(own) = taken.get_mut(&self.platform) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.platform);
            }
        }
    }
}
