//! Permits for work that holds what all platforms share: each platform has a few, so that one that asks for everything at
//! once keeps no other waiting.

use crate::{
    ctx::{PermitHolder, Permits},
    domain::{
        caller::PlatformCaller,
        refusal::{Refusal, RefusalKind},
    },
};
use std::{
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// One link has this part of the permits of its holder, so that its visitors leave some to other payers.
const LINKS: usize = 4;

/// A permit; it is returned when it is dropped.
#[derive(Debug)]
pub struct HeldPermit {
    _of_link: Option<OwnedSemaphorePermit>,
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

/// Who takes the permits of a caller.
pub fn holder_of(caller: &PlatformCaller) -> PermitHolder {
    PermitHolder {
        platform: caller.platform.clone(),
        is_public: caller.is_public(),
        link: None,
    }
}

/// Waits for a permit, behind those who came before; `None` when that takes longer than `wait`.
pub async fn admit(permits: &Permits, holder: &PermitHolder, wait: Duration) -> Option<HeldPermit> {
    let of_link = holder
        .link
        .as_ref()
        .map(|_| own(permits, holder, (permits.each / LINKS).max(1)));
    let whole = PermitHolder {
        link: None,
        ..holder.clone()
    };
    let own = own(permits, &whole, permits.each);
    let taken = async {
        // Whoever waits behind others at one link takes no permit of its owner meanwhile.
        let of_link = match of_link {
            Some(of_link) => Some(of_link.acquire_owned().await.ok()?),
            None => None,
        };
        let own = own.acquire_owned().await.ok()?;
        let shared = permits.all.clone().acquire_owned().await.ok()?;
        Some(HeldPermit {
            _of_link: of_link,
            _own: own,
            _shared: shared,
        })
    };
    timeout(wait, taken).await.ok().flatten()
}

/// Waits for a permit. Errors: that takes longer than `wait` (429, with the sentence).
pub async fn require(
    permits: &Permits,
    holder: &PermitHolder,
    wait: Duration,
    sentence: &str,
) -> Result<HeldPermit, Refusal> {
    let permit = admit(permits, holder, wait).await;
    permit.ok_or_else(|| Refusal::new(RefusalKind::TooMany, sentence).after(1))
}

/// The permits of a holder, so many. They are forgotten once it has none and waits for none.
fn own(permits: &Permits, holder: &PermitHolder, each: usize) -> Arc<Semaphore> {
    let mut own = permits.own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = own.get(holder).and_then(Weak::upgrade) {
        return known;
    }
    own.retain(|_, semaphore| semaphore.strong_count() > 0);
    let fresh = Arc::new(Semaphore::new(each));
    own.insert(holder.clone(), Arc::downgrade(&fresh));
    fresh
}
