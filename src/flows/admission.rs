//! Permits for work on resources that all platforms share. Each platform has a few permits, so that its calls cannot
//! delay the calls of other platforms.

use crate::{
    ctx::{PermitHolder, WorkPermits},
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

/// The calls of one link may use the maximum per holder divided by this number, so that its visitors leave permits for
/// the payers of other links.
const LINKS: usize = 4;

/// A permit. Dropping the value returns the permit.
#[derive(Debug)]
pub struct HeldPermit {
    _of_link: Option<OwnedSemaphorePermit>,
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

/// The holder of the permits of a caller.
pub fn holder_of(caller: &PlatformCaller) -> PermitHolder {
    PermitHolder {
        platform: caller.platform.clone(),
        is_public: caller.is_public(),
        link: None,
    }
}

/// Waits for a permit in order of arrival; `None` when that takes longer than `wait`.
pub async fn admit(permits: &WorkPermits, holder: &PermitHolder, wait: Duration) -> Option<HeldPermit> {
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
        // A call that waits for a permit of one link takes no permit of the platform yet.
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

/// Waits for a permit. Errors: the wait is longer than `wait` (429, with the message).
pub async fn require(
    permits: &WorkPermits,
    holder: &PermitHolder,
    wait: Duration,
    sentence: &str,
) -> Result<HeldPermit, Refusal> {
    let permit = admit(permits, holder, wait).await;
    permit.ok_or_else(|| Refusal::new(RefusalKind::TooMany, sentence).after(1))
}

/// The semaphore of a holder; a new one has `each` permits. Semaphores that no call uses are removed from the map.
fn own(permits: &WorkPermits, holder: &PermitHolder, each: usize) -> Arc<Semaphore> {
    let mut own = permits.own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = own.get(holder).and_then(Weak::upgrade) {
        return known;
    }
    own.retain(|_, semaphore| semaphore.strong_count() > 0);
    let fresh = Arc::new(Semaphore::new(each));
    own.insert(holder.clone(), Arc::downgrade(&fresh));
    fresh
}
