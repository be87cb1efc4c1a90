//! Places of platforms for what stays open: how many each of them has on this instance.

use crate::domain::{
    ids::PlatformId,
    refusal::{Refusal, RefusalKind},
};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// How many times the free places a platform may have, as with deliveries: a platform that has a place gets another one
/// only while places stay free for platforms that have none.
const FREE_MULTIPLE: u64 = 7;

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

    /// Takes one more, when `admit` lets the platform have so many. Errors: what `admit` says; too few would
    /// stay free for others (429).
    pub fn take(
        &'static self,
        platform: &PlatformId,
        admit: impl FnOnce(u64) -> Result<(), Refusal>,
    ) -> Result<Place, Refusal> {
        let mut taken = self.taken();
        let own = taken.get(platform).copied().unwrap_or_default() + 1;
        admit(own)?;
        let free = self.all.saturating_sub(taken.values().sum::<u64>());
        let stays_free = free.saturating_sub(1);
        if free == 0 || (own > 1 && own > FREE_MULTIPLE * stays_free) {
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
