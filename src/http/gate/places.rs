//! Slots of platforms for long-lived connections on this instance.

use crate::domain::{
    ids::PlatformId,
    refusal::{Refusal, RefusalKind},
};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// A platform that already has a slot may have at most this many times the number of free slots, counted after it takes
/// the next one; deliveries have the same limit. So some slots stay free for platforms without a slot.
const FREE_MULTIPLE: u64 = 7;

/// When a slot may be free again.
const RETRY_AFTER_S: u32 = 10;

/// Slots of one kind.
#[derive(Debug)]
pub struct PlatformSlots {
    /// Slots of all platforms together.
    all: u64,
    /// Message when no slot is left.
    full: &'static str,
    taken: LazyLock<Mutex<HashMap<PlatformId, u64>>>,
}

impl PlatformSlots {
    /// Creates a number of free slots; `full` is the message when none is left.
    pub const fn new(all: u64, full: &'static str) -> Self {
        Self {
            all,
            full,
            taken: LazyLock::new(Mutex::default),
        }
    }

    /// Takes one more slot for a platform. `admit` gets the number of slots that the platform then has. Errors: those
    /// of `admit`; 429 if no slot is free, or if too few slots would stay free for other platforms.
    pub fn take(
        &'static self,
        platform: &PlatformId,
        admit: impl FnOnce(u64) -> Result<(), Refusal>,
    ) -> Result<PlatformSlot, Refusal> {
        let mut taken = self.taken();
        let own = taken.get(platform).copied().unwrap_or_default() + 1;
        admit(own)?;
        let free = self.all.saturating_sub(taken.values().sum::<u64>());
        let stays_free = free.saturating_sub(1);
        if free == 0 || (own > 1 && own > FREE_MULTIPLE * stays_free) {
            return Err(Refusal::new(RefusalKind::TooMany, self.full).after(RETRY_AFTER_S));
        }
        taken.insert(platform.clone(), own);
        Ok(PlatformSlot {
            places: self,
            platform: platform.clone(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<PlatformId, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot of a platform; it is freed when it is dropped.
#[derive(Debug)]
pub struct PlatformSlot {
    places: &'static PlatformSlots,
    platform: PlatformId,
}

impl Drop for PlatformSlot {
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
