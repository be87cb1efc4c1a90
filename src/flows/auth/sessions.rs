//! The sessions of a person: list and remote sign-out.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller, SignedInPerson},
        ids::SessionId,
        refusal::Refusal,
        session::SignInSession,
    },
    flows::FlowResult,
    store,
};

/// Maximum number of listed sessions.
pub const LISTED_MAX: u64 = 1_000;

/// The session of a call, and its person. Errors: a call without a session (401).
fn own(caller: &PlatformCaller) -> Result<(&SessionId, &SignedInPerson), Refusal> {
    match &caller.credential {
        Credential::Session { id, person } => Ok((id, person)),
        Credential::ApiKey { .. } | Credential::ClientId { .. } => Err(Refusal::unauthenticated("Unauthorized")),
    }
}

/// The valid sessions of the signed-in person, newest first. Each has a flag that marks the session of the call.
pub async fn list(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Vec<(SignInSession, bool)>> {
    let (current, person) = own(caller)?;
    let (now, absolute) = (ctx.clock.now(), ctx.people.sessions.wallet_absolute);
    let found = store::sessions::list(ctx.db.reader(), &caller.platform, person, LISTED_MAX).await?;
    let active = found.into_iter().filter(|session| session.is_active(absolute, now));
    Ok(active
        .map(|session| {
            let is_current = session.id == *current;
            (session, is_current)
        })
        .collect())
}

/// Ends one session of the signed-in person. Errors: there is no such session (404).
pub async fn end(ctx: &Ctx, caller: &PlatformCaller, id: &SessionId) -> FlowResult<()> {
    let (_, person) = own(caller)?;
    let tx = ctx.db.begin("end_session").await?;
    if !store::sessions::delete(&tx, &caller.platform, person, id).await? {
        return Err(Refusal::not_found("Session not found").into());
    }
    tx.commit().await?;
    Ok(())
}

/// Ends every session of the signed-in person, including the session of the call.
pub async fn end_all(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<()> {
    let (_, person) = own(caller)?;
    let tx = ctx.db.begin("end_sessions").await?;
    store::sessions::delete_of(&tx, &caller.platform, person, None).await?;
    tx.commit().await?;
    Ok(())
}
