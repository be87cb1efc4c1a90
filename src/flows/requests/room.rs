//! Room for further requests: so many may await payment of each public client ID, and so many that a platform made with none.

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

/// Room for the requests of one call. What was taken off the headroom for them is settled when it is dropped, so it is kept
/// until they are committed.
#[derive(Debug)]
#[must_use]
pub struct Room {
    counted: Counted,
    taken: Option<Taken>,
}

/// Looks whether there is room for so many further requests of a caller, before anything is asked or written for them.
/// Where there is plenty, the headroom that a count found is used up first, and most calls count nothing. Errors: a cap
/// would be passed (429).
pub async fn find(ctx: &Ctx, caller: &PlatformCaller, requests: usize) -> FlowResult<Room> {
    let further = u64::try_from(requests).unwrap_or(u64::MAX);
    let counted = Counted::of(&caller.platform, caller.client(), caller.is_public());
    let mut taken = counted.take(ctx, further);
    if taken.is_none() {
        counted.admit(ctx, ctx.db.reader(), further).await?;
        taken = counted.take(ctx, further);
    }
    Ok(Room { counted, taken })
}

/// Checks in the transaction that made a request for no caller, by the period of another one, that it is not one too many;
/// what it returns is kept until the transaction is committed. Errors: like [`Room::check`].
pub async fn check_made(ctx: &Ctx, tx: &Tx, request: &Request) -> FlowResult<Room> {
    let origin = &request.origin;
    let counted = Counted::of(&origin.platform, origin.client.as_ref(), request.is_by_public_client);
    let taken = counted.take(ctx, 1);
    let room = Room { counted, taken };
    room.check(ctx, tx).await?;
    Ok(room)
}

impl Room {
    /// Whether nothing has to be counted.
    pub fn is_certain(&self) -> bool {
        self.taken.is_some()
    }

    /// A permit for a transaction that counts. Errors: like [`permit`].
    pub async fn permit(&self, ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<HeldPermit>> {
        match self.is_certain() {
            true => Ok(None),
            false => permit(ctx, caller).await.map(Some),
        }
    }

    /// Checks in the transaction that made the requests that they are not too many, where that is not certain: one call
    /// after the other for each public client ID, and for all else of a platform. Call it when all else is written, so that
    /// others wait for a short time only. Errors: a cap is passed (429).
    pub async fn check(&self, ctx: &Ctx, tx: &Tx) -> FlowResult<()> {
        if self.is_certain() {
            return Ok(());
        }
        store::requests::take_turn(tx, &self.counted.0).await?;
        self.counted.admit(ctx, tx, 0).await
    }
}

/// Waits for a permit to make what is counted: all that wait for their turn have a connection each, which others need. Errors:
/// it takes too long until those before have made theirs (429).
pub async fn permit(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<HeldPermit> {
    let sentence = "Many requests and links are being made for this platform; try again";
    let (permits, wait) = (&ctx.counted_requests, ctx.waits.permit);
    Ok(require(permits, &holder_of(caller), wait, sentence).await?)
}

/// Requests that were taken off a headroom.
#[derive(Debug)]
struct Taken {
    headrooms: Arc<Headrooms>,
    key: Key,
    requests: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut headrooms = self.headrooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(headroom) = headrooms.get_mut(&self.key) {
            headroom.settle(self.requests);
        }
    }
}

type Key = (PlatformId, Option<ClientRowId>);

/// Whose requests are counted together: those of a public client ID, or without one all others of a platform.
#[derive(Debug)]
struct Counted(Scope);

impl Counted {
    fn of(platform: &PlatformId, client: Option<&ClientRowId>, is_public: bool) -> Self {
        Self(Scope {
            platform: platform.clone(),
            client: client.filter(|_| is_public).cloned(),
        })
    }

    /// Refuses `further` requests that would be too many. What awaits payment beyond the cap is not counted.
    async fn admit(&self, ctx: &Ctx, conn: &impl Sealing, further: u64) -> FlowResult<()> {
        let is_public = self.0.client.is_some();
        let cap = match is_public {
            true => ctx.caps.public_open_requests,
            false => ctx.caps.open_requests,
        };
        let settled = self.headroom(ctx, |headroom| headroom.settled());
        let now = ctx.clock.now();
        let times = (ctx.caps.open_since(now), now);
        let counted = store::requests::count_open(conn, &self.0, times, cap + 1).await?;
        let now = ctx.clock.steady();
        let open = self.headroom(ctx, |headroom| headroom.renew((counted, settled), cap, now));
        let open = open.saturating_add(further);
        Ok(match is_public {
            true => ctx.caps.admit_public_open_requests(open),
            false => ctx.caps.admit_open_requests(open),
        }?)
    }

    /// Takes requests off the headroom; `None` when they have to be counted.
    fn take(&self, ctx: &Ctx, requests: u64) -> Option<Taken> {
        let now = ctx.clock.steady();
        let is_taken = self.headroom(ctx, |headroom| headroom.take(requests, now));
        is_taken.then(|| Taken {
            headrooms: Arc::clone(&ctx.headrooms),
            key: self.key(),
            requests,
        })
    }

    fn headroom<T>(&self, ctx: &Ctx, work: impl FnOnce(&mut Headroom) -> T) -> T {
        let mut headrooms = ctx.headrooms.lock().unwrap_or_else(PoisonError::into_inner);
        work(headrooms.get_or_insert_mut(self.key(), Headroom::default))
    }

    fn key(&self) -> Key {
        (self.0.platform.clone(), self.0.client.clone())
    }
}
