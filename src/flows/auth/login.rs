//! Signs in with e-mail and password.

use crate::{
    ctx::Ctx,
    domain::{
        caller::Person,
        guesses::Visitor,
        ids::Secret,
        refusal::Refusal,
        session::{Account, normal_email},
    },
    flows::{
        FlowResult,
        auth::{SignedIn, begin, devices},
    },
    store,
};

/// Signs in.
///
/// Errors: 401 for an unknown account and for a wrong password, which nobody can tell apart; 429 for somebody who
/// guesses. Source: rules P.4.1.
pub async fn run(ctx: &Ctx, email: &str, password: Secret, visitor: &Visitor) -> FlowResult<(Account, SignedIn)> {
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
    // A change of the password ends the other sessions, so none may begin with the former one beside it.
    if !store::accounts::keeps_password(&tx, &account).await? {
        return Err(wrong().into());
    }
    let person = Person::Account(account.id.clone());
    let mut signed_in = begin(ctx, &tx, account.platform.clone(), person).await?;
    signed_in.device = devices::note(ctx, &tx, &account.id, visitor, known).await?;
    tx.commit().await?;
    Ok((account, signed_in))
}
