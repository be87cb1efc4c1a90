//! Gives an endpoint another secret, with a time in which the old one is still good.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{EndpointId, OwnerId, Secret},
        refusal::Refusal,
        webhook::{LEASE_MS, SECRETS_MAX, TooManySecrets, retire},
    },
    flows::{
        FlowResult,
        idempotency::{self, Answer, Repeatable, Storage},
        webhooks::{Holder, create, secret_place, unknown},
    },
    store,
};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Time that a claim which read the old secrets needs at most to show itself.
const CLAIM_PAUSE: Duration = Duration::from_millis(100);

/// Pause between two looks at what is in flight.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Longest wait for what is in flight: no delivery is sent after the lease of its claim.
const WAIT_MAX: Duration = Duration::from_millis(LEASE_MS.unsigned_abs());

/// The new secret of an endpoint, which is shown this once.
#[derive(Debug, Clone)]
pub struct Rotated {
    /// The endpoint.
    pub id: EndpointId,
    /// 64 hexadecimal digits.
    pub secret: Secret,
    /// First moment at which the secret of before is not good any more.
    pub former_until: DateTime<Utc>,
}

/// Replaces the secret of an endpoint.
///
/// It ends when everything that was signed without the new secret has arrived or failed, so that a receiver may forget
/// the old one at once: from then on each delivery of the overlap is signed with both.
///
/// Errors: unknown, or another holder's, which looks the same (404); rotated by somebody else at the same moment, or too
/// many secrets that are still good (409). Source: decisions D18; decisions D22; decisions D30.
pub async fn run(
    ctx: &Ctx,
    holder: impl Into<Holder>,
    id: &EndpointId,
    overlap_s: u32,
    call: Repeatable<Rotated>,
) -> FlowResult<Answer<Rotated>> {
    let holder = holder.into();
    idempotency::once(ctx, holder.clone(), call, Storage::Secret, async |keeper| {
        let secret = create::draw_secret(ctx);
        let secret_sealed = ctx
            .sealer
            .seal(&secret, secret_place(&holder.owner, id))
            .map_err(crate::flows::Fault)?;
        let now = ctx.clock.now();
        let rotated = Rotated {
            id: id.clone(),
            secret,
            former_until: now + TimeDelta::seconds(i64::from(overlap_s)),
        };
        let tx = ctx.db.begin("rotate_webhook_secret").await?;
        let endpoint = store::endpoints::find_to_change(&tx, &holder, id)
            .await?
            .ok_or_else(unknown)?;
        let replaced = endpoint.secret_sealed;
        let former = retire(&endpoint.former_secrets, replaced.clone(), now, rotated.former_until);
        let former = former.map_err(|TooManySecrets| {
        Refusal::conflict(format!(
            "{SECRETS_MAX} secrets of this endpoint would be good at the same time; wait for the end of an overlap, or \
             end all of them with overlapSeconds 0"
        ))
    })?;
        if !store::endpoints::replace_secret(&tx, &holder, id, &replaced, &secret_sealed, &former).await? {
            return Err(Refusal::conflict("The secret is being rotated by another call at this moment").into());
        }
        keeper.commit(tx, &rotated).await?;
        wait_for_older(ctx, &holder.owner, id).await;
        Ok(rotated)
    })
    .await
}

/// Waits until nothing is in flight that was claimed with the secrets of before. Nothing depends on it but the moment
/// of the answer.
async fn wait_for_older(ctx: &Ctx, owner: &OwnerId, id: &EndpointId) {
    let end = Instant::now() + WAIT_MAX;
    sleep(CLAIM_PAUSE).await;
    let look = || store::outbox::claims_on_endpoint(ctx.db.reader(), owner, id, ctx.clock.now());
    let wait = async {
        let mut older = look().await?;
        while !older.is_empty() {
            sleep(LOOK_PAUSE).await;
            let held = look().await?;
            older.retain(|claim| held.contains(claim));
        }
        Ok::<(), store::StoreError>(())
    };
    match timeout_at(end, wait).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, endpoint = %id, "deliveries in flight could not be looked at"),
        Err(_) => tracing::warn!(endpoint = %id, "deliveries were still in flight after a rotation"),
    }
}
