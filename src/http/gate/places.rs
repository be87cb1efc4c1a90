//! Places of platforms for what stays open: how many each of them has on this instance.

use crate::domain::{ids::PlatformId, refusal::Refusal};
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// Places of one kind.
#[derive(Debug)]
pub struct Places(LazyLock<Mutex<HashMap<PlatformId, u64>>>);

impl Places {
    /// Places of which none is taken.
    #[expect(clippy::new_without_default, reason = "a constant needs a constant function")]
    pub const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// Takes one more, when `admit` lets the platform have so many of its own, and all together so many. Errors: what
    /// `admit` says.
    pub fn take(
        &'static self,
        platform: &PlatformId,
        admit: impl FnOnce(u64, u64) -> Result<(), Refusal>,
    ) -> Result<Place, Refusal> {
        let mut taken = self.taken();
        let own = taken.get(platform).copied().unwrap_or_default() + 1;
        admit(own, taken.values().sum::<u64>() + 1)?;
        taken.insert(platform.clone(), own);
        Ok(Place {
            places: self,
            platform: platform.clone(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<PlatformId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
