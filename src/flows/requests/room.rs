//! Room for further requests: so many of a platform, and of each of its public client IDs, may await payment.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        caps::{Caps, Headroom},
        ids::{ClientRowId, PlatformId},
        refusal::{Refusal, RefusalKind},
    },
    flows::{
        FlowResult,
        requests::places::{Place, holder, take},
    },
    store::{self, Scope, Sealing, Tx},
};
use std::{sync::PoisonError, time::Duration};

/// How long a call waits until others of its platform have made theirs.
const WAITS: Duration = Duration::from_millis(1_500);

/// Room for the requests of one call.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Room {
    is_certain: bool,
}

/// Looks whether there is room for so many further requests of a caller, before anything is asked or written for them.
/// Where there is plenty, the headroom that a count found is used up first, and most calls count nothing. Errors: a cap
/// would be passed (429).
pub async fn find(ctx: &Ctx, caller: &PlatformCaller, requests: usize) -> FlowResult<Room> {
    let further = u64::try_from(requests).unwrap_or(u64::MAX);
    let counted = [public_client(ctx, caller), Some(whole_platform(ctx, caller))];
    let counted: Vec<Counted> = counted.into_iter().flatten().collect();
    if use_headroom(ctx, &counted, further) {
        return Ok(Room { is_certain: true });
    }
    for counted in &counted {
        let open = counted.open(ctx, ctx.db.reader()).await?;
        (counted.admit)(&ctx.caps, open.saturating_add(further))?;
        let headroom = Headroom::of_room(counted.cap.saturating_sub(open), ctx.clock.steady());
        let mut known = ctx.headroom.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(counted.key(), headroom);
    }
    Ok(Room {
        is_certain: use_headroom(ctx, &counted, further),
    })
}

impl Room {
    /// Whether nothing has to be counted.
    pub fn is_certain(self) -> bool {
        self.is_certain
    }

    /// A place for a transaction that counts. Errors: like [`place`].
    pub async fn place(self, ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<Place>> {
        match self.is_certain {
            true => Ok(None),
            false => place(ctx, caller).await.map(Some),
        }
    }

    /// Checks in the transaction that made the requests that they are not too many, where that is not certain: one call
    /// after the other for each public client ID, and for the platform itself. Call it when all else is written, so that
    /// others wait for a short time only.
    ///
    /// The platform never waits for its public client IDs, which strangers use: its cap may be passed by what is being
    /// made with those at the same time. Errors: a cap is passed (429).
    pub async fn check(self, ctx: &Ctx, tx: &Tx, caller: &PlatformCaller) -> FlowResult<()> {
        if self.is_certain {
            return Ok(());
        }
        let platform = whole_platform(ctx, caller);
        let Some(client) = public_client(ctx, caller) else {
            store::requests::take_turn(tx, &platform.scope).await?;
            return platform.check(ctx, tx).await;
        };
        platform.check(ctx, tx).await?;
        store::requests::take_turn(tx, &client.scope).await?;
        client.check(ctx, tx).await
    }
}

/// Waits for a place to make what is counted: all that wait for their turn have a connection each, which others need. Errors:
/// it takes too long until those before have made theirs (429).
pub async fn place(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Place> {
    let place = take(&ctx.counted_requests, &holder(caller), WAITS).await;
    let sentence = "Many requests and links are being made for this platform; try again";
    Ok(place.ok_or_else(|| Refusal::new(RefusalKind::TooMany, sentence).after(1))?)
}

/// Whose requests are counted, and how many there may be.
struct Counted {
    scope: Scope,
    cap: u64,
    admit: fn(&Caps, u64) -> Result<(), Refusal>,
}

impl Counted {
    /// The key of its headroom.
    fn key(&self) -> (PlatformId, Option<ClientRowId>) {
        (self.scope.platform.clone(), self.scope.client.clone())
    }

    /// How many await payment; what is beyond the cap is not counted.
    async fn open(&self, ctx: &Ctx, conn: &impl Sealing) -> FlowResult<u64> {
        let now = ctx.clock.now();
        Ok(store::requests::count_open(conn, &self.scope, now, self.cap + 1).await?)
    }

    async fn check(&self, ctx: &Ctx, tx: &Tx) -> FlowResult<()> {
        Ok((self.admit)(&ctx.caps, self.open(ctx, tx).await?)?)
    }
}

fn whole_platform(ctx: &Ctx, caller: &PlatformCaller) -> Counted {
    Counted {
        scope: Scope {
            client: None,
            ..Scope::from(caller)
        },
        cap: ctx.caps.open_requests,
        admit: Caps::admit_open_requests,
    }
}

/// The client ID of a caller who may be anybody.
fn public_client(ctx: &Ctx, caller: &PlatformCaller) -> Option<Counted> {
    caller.is_public().then(|| Counted {
        scope: Scope::from(caller),
        cap: ctx.caps.public_open_requests,
        admit: Caps::admit_public_open_requests,
    })
}

/// Takes the requests off the headroom of all that count them, or off none.
fn use_headroom(ctx: &Ctx, counted: &[Counted], requests: u64) -> bool {
    let now = ctx.clock.steady();
    let mut known = ctx.headroom.lock().unwrap_or_else(PoisonError::into_inner);
    let left = counted
        .iter()
        .map(|counted| known.get(&counted.key())?.after(requests, now));
    let Some(left) = left.collect::<Option<Vec<Headroom>>>() else {
        return false;
    };
    for (counted, left) in counted.iter().zip(left) {
        known.put(counted.key(), left);
    }
    true
}
