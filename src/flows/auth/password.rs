//! Changes the password of an account.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller, SignedInPerson},
        guesses::Visitor,
        ids::Secret,
        refusal::Refusal,
        session::check_password,
    },
    flows::{FlowResult, auth::devices},
    ports::ids::random,
    store,
};

/// Changes the password of the signed-in person, and ends all other sessions.
///
/// Errors: an invalid new password, a new password that equals the current one, or a wrong current password (400); a
/// person without a password (403); too many guesses (429).
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    current: Secret,
    new: Secret,
    visitor: &Visitor,
) -> FlowResult<()> {
    let Credential::Session { id: session, person } = &caller.credential else {
        return Err(Refusal::unauthenticated("Unauthorized").into());
    };
    let SignedInPerson::Account(account) = person else {
        return Err(Refusal::forbidden("A person who signed in with a wallet has no password").into());
    };
    check_password(new.reveal()).map_err(|sentence| Refusal::field("newPassword", sentence))?;
    if new.reveal() == current.reveal() {
        return Err(Refusal::field("newPassword", "must differ from currentPassword").into());
    }
    let account = store::accounts::find(ctx.db.reader(), &caller.platform, account).await?;
    let account = account.ok_or_else(|| Refusal::unauthenticated("Unauthorized"))?;
    // The guesses count as at sign-in, because the caller may have only the session and guess the password.
    let known = devices::find(ctx, Some(&account), visitor).await?;
    devices::admit(ctx, &account.email, visitor, known.as_ref()).await?;
    let wrong = || Refusal::field("currentPassword", "must be the current password of this account");
    let former = account.password_hash.clone();
    if !ctx.people.passwords.is_right(current, Some(former)).await? {
        return Err(wrong().into());
    }
    devices::forgive(ctx, &account.email, visitor, known.as_ref()).await;
    let hash = ctx.people.passwords.hash(new, random(ctx.ids.as_ref())).await?;
    let tx = ctx.db.begin("change_password").await?;
    // Another call may have changed the password since the comparison.
    if !store::accounts::change_password(&tx, &account, &hash).await? {
        return Err(wrong().into());
    }
    store::sessions::delete_of(&tx, &caller.platform, person, Some(session)).await?;
    tx.commit().await?;
    Ok(())
}
