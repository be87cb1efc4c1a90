//! Capacity for new requests: caps on the open requests of each public client ID, and on the other open requests of a
//! platform.

use crate::{
    ctx::{Ctx, Headrooms},
    domain::{
        caller::PlatformCaller,
        caps::Headroom,
        ids::{ClientRowId, PlatformId},
        request::Request,
    },
    flows::{
        FlowResult,
        admission::{HeldPermit, holder_of, require},
    },
    store::{self, Scope, Sealing, Tx},
};
use std::sync::{Arc, PoisonError};

/// Capacity for the requests of one call. It reserves a part of the headroom, which is the number of requests that this
/// instance may create before it counts the open requests again. Dropping this value ends the reservation, so drop it
/// only after the requests are committed.
#[derive(Debug)]
#[must_use]
pub struct RequestRoom {
    counted: CountedScope,
    taken: Option<ReservedRequests>,
}

/// Checks the capacity for a number of new requests of a caller, before anything is queried or written for them. With
/// plenty of capacity, calls use the headroom of the last count, so most calls need no count. Errors: a cap would be
/// exceeded (429).
pub async fn find(ctx: &Ctx, caller: &PlatformCaller, requests: usize) -> FlowResult<RequestRoom> {
    let further = u64::try_from(requests).unwrap_or(u64::MAX);
    let counted = CountedScope::of(&caller.platform, caller.client(), caller.is_public());
    let mut taken = counted.take(ctx, further);
    if taken.is_none() {
        counted.admit(ctx, ctx.db.reader(), further).await?;
        taken = counted.take(ctx, further);
    }
    Ok(RequestRoom { counted, taken })
}

/// Checks the caps in the transaction that created the next period of a recurring request, for which there is no
/// caller. Drop the result only after the transaction is committed. Errors: like [`RequestRoom::check`].
pub async fn check_made(ctx: &Ctx, tx: &Tx, request: &Request) -> FlowResult<RequestRoom> {
    let origin = &request.origin;
    let counted = CountedScope::of(&origin.platform, origin.client.as_ref(), request.is_by_public_client);
    let taken = counted.take(ctx, 1);
    let room = RequestRoom { counted, taken };
    room.check(ctx, tx).await?;
    Ok(room)
}

impl RequestRoom {
    /// Whether the reserved headroom covers the requests, so that no count is needed.
    pub fn is_certain(&self) -> bool {
        self.taken.is_some()
    }

    /// A permit for a transaction that counts. Errors: like [`permit`].
    pub async fn permit(&self, ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<HeldPermit>> {
        if self.is_certain() {
            Ok(None)
        } else {
            permit(ctx, caller).await.map(Some)
        }
    }

    /// Checks the caps in the transaction that created the requests, unless the headroom covers them. Calls of one
    /// public client ID run this check one after the other, and so do the other calls of a platform. It must come after
    /// all other writes, so that other calls wait only briefly. Errors: a cap is exceeded (429).
    pub async fn check(&self, ctx: &Ctx, tx: &Tx) -> FlowResult<()> {
        if self.is_certain() {
            return Ok(());
        }
        store::requests::take_turn(tx, &self.counted.0).await?;
        self.counted.admit(ctx, tx, 0).await
    }
}

/// Waits for a permit to create counted objects. Every waiting transaction holds a connection that other calls need, so
/// their number is limited. Errors: waiting for earlier calls takes too long (429).
pub async fn permit(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<HeldPermit> {
    let sentence = "Too many requests and links are being created; retry shortly";
    let (permits, wait) = (&ctx.counted_requests, ctx.waits.permit);
    Ok(require(permits, &holder_of(caller), wait, sentence).await?)
}

/// Requests taken from a headroom.
#[derive(Debug)]
struct ReservedRequests {
    headrooms: Arc<Headrooms>,
    key: RoomKey,
    requests: u64,
}

impl Drop for ReservedRequests {
    fn drop(&mut self) {
        let mut headrooms = self.headrooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(headroom) = headrooms.get_mut(&self.key) {
            headroom.settle(self.requests);
        }
    }
}

type RoomKey = (PlatformId, Option<ClientRowId>);

/// The requests that are counted together: those of a public client ID, or all other requests of a platform.
#[derive(Debug)]
struct CountedScope(Scope);

impl CountedScope {
    fn of(platform: &PlatformId, client: Option<&ClientRowId>, is_public: bool) -> Self {
        Self(Scope {
            platform: platform.clone(),
            client: client.filter(|_| is_public).cloned(),
        })
    }

    /// Counts the open requests, at most up to the cap. Errors: with `further` more requests the cap would be exceeded
    /// (429).
    async fn admit(&self, ctx: &Ctx, conn: &impl Sealing, further: u64) -> FlowResult<()> {
        let is_public = self.0.client.is_some();
        let cap = if is_public {
            ctx.caps.public_open_requests
        } else {
            ctx.caps.open_requests
        };
        let settled = self.headroom(ctx, |headroom| headroom.settled());
        let now = ctx.clock.now();
        let since = ctx.caps.open_since(now);
        let counted = store::requests::count_open(conn, &self.0, since, now, cap + 1).await?;
        let now = ctx.clock.steady();
        let open = self.headroom(ctx, |headroom| headroom.renew(counted, settled, cap, now));
        let open = open.saturating_add(further);
        Ok((if is_public {
            ctx.caps.admit_public_open_requests(open)
        } else {
            ctx.caps.admit_open_requests(open)
        })?)
    }

    /// Takes requests from the headroom; `None` when the open requests have to be counted.
    fn take(&self, ctx: &Ctx, requests: u64) -> Option<ReservedRequests> {
        let now = ctx.clock.steady();
        let is_taken = self.headroom(ctx, |headroom| headroom.take(requests, now));
        is_taken.then(|| ReservedRequests {
            headrooms: Arc::clone(&ctx.headrooms),
            key: self.key(),
            requests,
        })
    }

    fn headroom<T>(&self, ctx: &Ctx, work: impl FnOnce(&mut Headroom) -> T) -> T {
        let mut headrooms = ctx.headrooms.lock().unwrap_or_else(PoisonError::into_inner);
        work(headrooms.get_or_insert_mut(self.key(), Headroom::default))
    }

    fn key(&self) -> RoomKey {
        (self.0.platform.clone(), self.0.client.clone())
    }
}
