//! Known devices of an account. Password guesses from other devices do not delay a known device.

use crate::{
    ctx::Ctx,
    domain::{
        guesses::{DEVICE_LIFETIME, DEVICES_MAX, Device, GuessLimit, Visitor},
        ids::{AccountId, Secret},
        refusal::{Refusal, RefusalKind},
        session::PasswordAccount,
    },
    flows::{FlowError, FlowResult, auth::identify},
    ports::ids::random,
    store::{self, Tx},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// Hash of the device marker that the call contains, if it contains one.
fn by_marker(visitor: &Visitor) -> Option<String> {
    visitor.device.as_ref().map(|marker| identify::hash(marker.reveal()))
}

/// Hash of the address of a client that is not a browser. A browser is recognised by its marker only, because many
/// people can share its address.
fn by_address(account: &AccountId, visitor: &Visitor) -> Option<String> {
    let address = visitor.address.filter(|_| !visitor.is_page)?;
    Some(identify::hash(&format!("{account}\n{address}")))
}

/// The device of a call, if the device has signed in to the account before. For an unknown account the same lookups
/// run, so that both cases take the same time.
pub(super) async fn find(
    ctx: &Ctx,
    account: Option<&PasswordAccount>,
    visitor: &Visitor,
) -> FlowResult<Option<Device>> {
    let account = account.map_or_else(|| AccountId(String::new()), |account| account.id.clone());
    let hashes: Vec<String> = by_marker(visitor)
        .into_iter()
        .chain(by_address(&account, visitor))
        .collect();
    let since = ctx.clock.now() - DEVICE_LIFETIME;
    let mut found = store::devices::find(ctx.db.reader(), &account, &hashes, since).await?;
    // The marker takes precedence over the address.
    found.sort_by_key(|device| hashes.iter().position(|hash| *hash == device.hash));
    Ok(found.into_iter().next())
}

/// Counts a guess before it is checked. Errors: 429 for too many guesses.
///
/// A known device has its own counter. Guesses of all other devices have two counters: one for each pair of account and
/// address, and one for each account, so that many addresses together cannot guess faster than a few. Source: rules
/// P.4.1.
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

/// Resets the counter of a visitor who signed in successfully. The guesses of other visitors still count.
pub(super) async fn forgive(ctx: &Ctx, email: &str, visitor: &Visitor, known: Option<&Device>) {
    ctx.people.guesses.forget(&own_count(email, visitor, known)).await;
}

/// Key of the counter for the guesses at one account from one device or address.
fn own_count(email: &str, visitor: &Visitor, known: Option<&Device>) -> String {
    match (known, visitor.address) {
        (Some(device), _) => format!("device {}", device.hash),
        (None, Some(address)) => format!("address {address} {email}"),
        (None, None) => format!("address unknown {email}"),
    }
}

/// Records a sign-in within its transaction; returns a marker if the visitor uses a browser that has no marker yet.
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
    let message = format!("Too many sign-in attempts; retry in {wait_s} seconds");
    FlowError::Refused(Refusal::new(RefusalKind::TooMany, message).after(wait_s))
}
