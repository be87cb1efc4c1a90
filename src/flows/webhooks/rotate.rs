//! Rotates the secret of an endpoint, with an overlap in which the old secret is still valid.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{EndpointId, OwnerId, Secret},
        refusal::Refusal,
        webhook::{LEASE_MS, SECRETS_MAX, TooManySecrets, retire},
    },
    flows::{
        FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
        webhooks::{Holder, create, secret_place, unknown},
    },
    store,
};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Maximum time between a claim's read of the secrets and its commit. After this time, every claim that read the old
/// secrets is visible.
const CLAIM_PAUSE: Duration = Duration::from_millis(100);

/// Interval between two checks of deliveries in flight.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Maximum wait for deliveries in flight. It is the length of a lease, because no delivery is sent after the lease of
/// its claim has ended.
const WAIT_MAX: Duration = Duration::from_millis(LEASE_MS.unsigned_abs());

/// The new secret of an endpoint, which is shown only once.
#[derive(Debug, Clone)]
pub struct RotatedSecret {
    /// The endpoint.
    pub id: EndpointId,
    /// 64 hexadecimal digits.
    pub secret: Secret,
    /// Time from which the old secret is invalid.
    pub former_until: DateTime<Utc>,
}

/// Replaces the secret of an endpoint.
///
/// The call returns when every delivery signed without the new secret has arrived or failed. From then on, each
/// delivery during the overlap is signed with both secrets, so a receiver may drop the old secret immediately.
///
/// Errors: an unknown endpoint, or an endpoint of another holder (404 in both cases); another rotation at the same
/// time, or too many valid secrets (409). Source: decisions D18; decisions D22; decisions D30.
pub async fn run(
    ctx: &Ctx,
    holder: impl Into<Holder>,
    id: &EndpointId,
    overlap_s: u32,
    call: RepeatableCall<RotatedSecret>,
) -> FlowResult<KeyedResult<RotatedSecret>> {
    let holder = holder.into();
    idempotency::once(ctx, holder.clone(), call, ResponseStorage::Secret, async |keeper| {
        let secret = create::draw_secret(ctx);
        let secret_sealed = ctx
            .sealer
            .seal(&secret, secret_place(&holder.owner, id))
            .map_err(crate::flows::Fault)?;
        let now = ctx.clock.now();
        let rotated = RotatedSecret {
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
            "{SECRETS_MAX} secrets of this endpoint would be valid at the same time; wait until an overlap ends, or \
             end all overlaps with overlapSeconds 0"
        ))
    })?;
        if !store::endpoints::replace_secret(&tx, &holder, id, &replaced, &secret_sealed, &former).await? {
            return Err(Refusal::conflict(
                "Another call has just rotated this secret; rotate it again only if you do not have its new secret",
            )
            .into());
        }
        keeper.commit(tx, &rotated).await?;
        wait_for_older(ctx, &holder.owner, id).await;
        Ok(rotated)
    })
    .await
}

/// Waits until no delivery claimed with the old secrets is in flight. The rotation itself is already committed.
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
        Ok(Err(error)) => tracing::warn!(%error, endpoint = %id, "deliveries in flight could not be checked"),
        Err(_) => tracing::warn!(endpoint = %id, "deliveries were still in flight after a rotation"),
    }
}
