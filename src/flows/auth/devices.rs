//! Devices that have signed in to an account: guesses from elsewhere do not keep them waiting.

use crate::{
    ctx::Ctx,
    domain::{
        guesses::{DEVICE_LIFETIME, DEVICES_MAX, Device, GuessLimit, Visitor},
        ids::{AccountId, Secret},
        refusal::{Refusal, RefusalKind},
        session::Account,
    },
    flows::{FlowError, FlowResult, auth::identify},
    ports::ids::random,
    store::{self, Tx},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// Hash of the marker that a call shows.
fn by_marker(visitor: &Visitor) -> Option<String> {
    visitor.device.as_ref().map(|marker| identify::hash(marker.reveal()))
}

/// Hash of the address of a client that is no browser. Behind the address of a page may be many people.
fn by_address(account: &AccountId, visitor: &Visitor) -> Option<String> {
    let address = visitor.address.filter(|_| !visitor.is_page)?;
    Some(identify::hash(&format!("{account}\n{address}")))
}

/// The device of a call, when it has signed in to the account before. For an account that there is not, the same is
/// looked up, so that it takes as long.
pub(super) async fn find(ctx: &Ctx, account: Option<&Account>, visitor: &Visitor) -> FlowResult<Option<Device>> {
    let account = account.map_or_else(|| AccountId(String::new()), |account| account.id.clone());
    let hashes: Vec<String> = by_marker(visitor)
        .into_iter()
        .chain(by_address(&account, visitor))
        .collect();
    let since = ctx.clock.now() - DEVICE_LIFETIME;
    let mut found = store::devices::find(ctx.db.reader(), &account, &hashes, since).await?;
    // The marker before the address.
    found.sort_by_key(|device| hashes.iter().position(|hash| *hash == device.hash));
    Ok(found.into_iter().next())
}

/// Counts a guess before it is made. Errors: 429 for somebody who guesses.
///
/// A known device is counted for itself alone. All others are counted by account and address, and then together, so
/// that many addresses are not faster than a few. Source: rules P.4.1.
pub(super) async fn admit(ctx: &Ctx, email: &str, visitor: &Visitor, known: Option<&Device>) -> FlowResult<()> {
    let (guesses, now) = (&ctx.people.guesses, ctx.clock.now());
    let own = own_count(email, visitor, known);
    guesses
        .admit(own, GuessLimit::ONE_VISITOR, now)
        .await
        .map_err(too_fast)?;
    if known.is_none() {
        let all = format!("strangers {email}");
        guesses.admit(all, GuessLimit::STRANGERS, now).await.map_err(too_fast)?;
    }
    Ok(())
}

/// Forgets the guesses of the visitor that turned out to be the owner's; those of strangers stay.
pub(super) async fn forgive(ctx: &Ctx, email: &str, visitor: &Visitor, known: Option<&Device>) {
    ctx.people.guesses.forget(&own_count(email, visitor, known)).await;
}

/// What guesses of one visitor at one account are counted under.
fn own_count(email: &str, visitor: &Visitor, known: Option<&Device>) -> String {
    match (known, visitor.address) {
        (Some(device), _) => format!("device {}", device.hash),
        (None, Some(address)) => format!("address {address} {email}"),
        (None, None) => format!("address unknown {email}"),
    }
}

/// Notes a sign-in within its transaction; returns the marker that a browser has to keep, when it has none yet.
pub(super) async fn note(
    ctx: &Ctx,
    tx: &Tx,
    account: &AccountId,
    visitor: &Visitor,
    known: Option<Device>,
) -> FlowResult<Option<Secret>> {
    let fresh = || Secret::new(URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref())));
    let (hash, marker) = match (known, visitor.is_page) {
        (Some(device), _) => (device.hash, None),
        (None, true) => {
            let marker = fresh();
            (identify::hash(marker.reveal()), Some(marker))
        }
        (None, false) => match by_address(account, visitor) {
            Some(hash) => (hash, None),
            None => return Ok(None),
        },
    };
    let device = Device {
        hash,
        account: account.clone(),
        last_used_at: ctx.clock.now(),
    };
    store::devices::note(tx, &device).await?;
    store::devices::trim(tx, account, DEVICES_MAX).await?;
    Ok(marker)
}

fn too_fast(wait_s: u32) -> FlowError {
    let message = format!("Too many tries to sign in; try again in {wait_s} seconds");
    FlowError::Refused(Refusal::new(RefusalKind::TooMany, message).after(wait_s))
}
