//! Payee destinations: where a wallet is paid, as its owner set it up.

pub mod create;
pub mod deactivate;
pub mod read;
pub mod sign;
pub mod update;

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        destination::{Destination, DestinationPolicy},
        ids::{DestinationId, PlatformId},
        interop_address::DestinationKey,
        refusal::Refusal,
    },
    flows::{FlowError, FlowResult},
    store::{self, StoreError, Tx},
};

/// Input for setting up a destination in a session.
#[derive(Debug, Clone)]
pub struct NewDestination {
    /// Contract of the token.
    pub token: String,
    /// Chain.
    pub chain_id: u64,
    /// Policy; `None` keeps the existing one.
    pub policy: Option<DestinationPolicy>,
}

fn unknown() -> FlowError {
    Refusal::not_found("Payee destination not found").into()
}

/// The wallet of the session. Errors: an account that signed in without a wallet (403).
fn wallet_of(caller: &PlatformCaller) -> FlowResult<Address> {
    let wallet = caller.wallet().copied();
    let message = "Payee destinations belong to wallets: sign in with the wallet that is to be paid";
    Ok(wallet.ok_or_else(|| Refusal::forbidden(message))?)
}

/// Parses the id of a destination; `None` for a well-formed id that no destination can have. Errors: a text without the
/// format of an id (400).
fn key_of(text: &str) -> FlowResult<Option<DestinationKey>> {
    Ok(DestinationKey::parse(text).map_err(|message| Refusal::field("destinationId", message))?)
}

/// Makes a destination the active destination of its wallet. Creates or reactivates it, and deactivates the previous
/// destination.
///
/// Client IDs bound to the previous destination are bound to the new one, because the payee stays the same wallet.
/// Source: rules S.13; rules P.4.3.
async fn put_in_use(
    ctx: &Ctx,
    tx: &Tx,
    platform: &PlatformId,
    key: &DestinationKey,
    policy: Option<DestinationPolicy>,
) -> FlowResult<Destination> {
    let now = ctx.clock.now();
    let known = store::destinations::lock_all_of(tx, platform, &key.interop.wallet).await?;
    let former = known.iter().find(|known| known.is_active && known.key != *key);
    if let Some(former) = former {
        let ended = Destination {
            is_active: false,
            updated_at: now,
            ..former.clone()
        };
        store::destinations::update(tx, &ended).await.map_err(or_busy)?;
    }
    let destination = match known.iter().find(|known| known.key == *key) {
        Some(same) => {
            let back = Destination {
                policy: policy.or(same.policy),
                is_claimed: true,
                is_set_up: true,
                is_active: true,
                updated_at: now,
                ..same.clone()
            };
            store::destinations::update(tx, &back).await.map_err(or_busy)?;
            back
        }
        None => {
            let new = Destination {
                id: DestinationId(ctx.ids.ulid()),
                platform: platform.clone(),
                key: *key,
                policy,
                is_claimed: true,
                is_set_up: true,
                is_active: true,
                created_at: now,
                updated_at: now,
            };
            store::destinations::insert(tx, &new).await.map_err(or_busy)?;
            new
        }
    };
    if let Some(former) = former {
        store::client_ids::rebind(tx, platform, &former.id, &destination.id).await?;
    }
    store::destinations::claim_everywhere(tx, key).await?;
    Ok(destination)
}

/// Deactivates a destination; returns whether it was active.
async fn end(ctx: &Ctx, tx: &Tx, platform: &PlatformId, key: &DestinationKey) -> FlowResult<bool> {
    let known = store::destinations::lock_all_of(tx, platform, &key.interop.wallet).await?;
    let Some(active) = known.into_iter().find(|known| known.is_active && known.key == *key) else {
        return Ok(false);
    };
    let ended = Destination {
        is_active: false,
        updated_at: ctx.clock.now(),
        ..active
    };
    store::destinations::update(tx, &ended).await?;
    Ok(true)
}

fn or_busy(error: StoreError) -> FlowError {
    match error {
        StoreError::Conflict(_) => {
            Refusal::conflict("Another call is changing the destination of this wallet; try again").into()
        }
        other => other.into(),
    }
}
