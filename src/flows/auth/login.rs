//! Signs in with e-mail and password.

use crate::{
    ctx::Ctx,
    domain::{
        caller::SignedInPerson,
        guesses::Visitor,
        ids::Secret,
        refusal::Refusal,
        session::{PasswordAccount, normal_email},
    },
    flows::{
        FlowResult,
        auth::{SignedIn, begin, devices},
    },
    store,
};

/// Signs in.
///
/// Errors: 401 for an unknown account and for a wrong password, with the same response; 429 for too many guesses.
/// Source: rules P.4.1.
pub async fn run(
    ctx: &Ctx,
    email: &str,
    password: Secret,
    visitor: &Visitor,
) -> FlowResult<(PasswordAccount, SignedIn)> {
    let email = normal_email(email);
    let account = store::accounts::find_by_email(ctx.db.reader(), &email).await?;
    let known = devices::find(ctx, account.as_ref(), visitor).await?;
    devices::admit(ctx, &email, visitor, known.as_ref()).await?;
    let hash = account.as_ref().map(|account| account.password_hash.clone());
    let is_right = ctx.people.passwords.is_right(password, hash).await?;
    let wrong = || Refusal::unauthenticated("The e-mail address or the password is wrong");
    let account = account.filter(|_| is_right).ok_or_else(wrong)?;
    devices::forgive(ctx, &email, visitor, known.as_ref()).await;
    let tx = ctx.db.begin("sign_account_in").await?;
    // A password change ends the other sessions, so no session may begin with the old password at the same time.
    if !store::accounts::keeps_password(&tx, &account).await? {
        return Err(wrong().into());
    }
    let person = SignedInPerson::Account(account.id.clone());
    let mut signed_in = begin(ctx, &tx, account.platform.clone(), person).await?;
    signed_in.device = devices::note(ctx, &tx, &account.id, visitor, known).await?;
    tx.commit().await?;
    Ok((account, signed_in))
}
