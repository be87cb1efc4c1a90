//! Signs in with e-mail and password.

use crate::{
    ctx::Ctx,
    domain::{
        caller::Person,
        ids::Secret,
        refusal::{Refusal, RefusalKind},
        session::{Account, GuessLimit, normal_email},
    },
    flows::{
        FlowError, FlowResult,
        auth::{SignedIn, begin},
    },
    store,
};

/// Signs in.
///
/// Errors: 401 for an unknown account and for a wrong password, which nobody can tell apart; 429 for somebody who
/// guesses. Source: rules P.4.1.
pub async fn run(ctx: &Ctx, email: &str, password: Secret) -> FlowResult<(Account, SignedIn)> {
    let email = normal_email(email);
    let counted = ctx
        .people
        .guesses
        .admit(email.clone(), GuessLimit::ACCOUNT, ctx.clock.now())
        .await;
    counted.map_err(too_fast)?;
    let account = store::accounts::find_by_email(ctx.db.reader(), &email).await?;
    let hash = account.as_ref().map(|account| account.password_hash.clone());
    let is_right = ctx.people.passwords.is_right(password, hash).await?;
    let Some(account) = account.filter(|_| is_right) else {
        return Err(Refusal::unauthenticated("The e-mail address or the password is wrong").into());
    };
    ctx.people.guesses.forget(&email).await;
    let tx = ctx.db.begin("sign_account_in").await?;
    let person = Person::Account(account.id.clone());
    let signed_in = begin(ctx, &tx, account.platform.clone(), person).await?;
    tx.commit().await?;
    Ok((account, signed_in))
}

fn too_fast(wait_s: u32) -> FlowError {
    let message = format!("Too many tries to sign in; try again in {wait_s} seconds");
    FlowError::Refused(Refusal::new(RefusalKind::TooMany, message).after(wait_s))
}
