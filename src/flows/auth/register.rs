//! Registers an account with e-mail and password.

use crate::{
    ctx::Ctx,
    domain::{
        caller::SignedInPerson,
        guesses::Visitor,
        ids::{AccountId, PlatformId, Secret},
        refusal::Refusal,
        session::{PasswordAccount, check_password, normal_email},
    },
    flows::{
        FlowResult,
        auth::{SignedIn, add_platform, begin, devices, invite},
    },
    ports::ids::random,
    store,
};

/// Creates an account with its platform and signs it in.
///
/// Errors: 400 for an invalid password, 403 if the caller may not register, 409 for an address that already has an
/// account.
/// Source: interface §4.10; rules P.4.1.
pub async fn run(
    ctx: &Ctx,
    email: &str,
    password: Secret,
    code: Option<Secret>,
    visitor: &Visitor,
) -> FlowResult<(PasswordAccount, SignedIn)> {
    check_password(password.reveal()).map_err(|sentence| Refusal::field("password", sentence))?;
    let email = normal_email(email);
    // The invite is checked before the error for an existing account and before the costly hash.
    let claim = invite::of_email(ctx, &email, code.as_ref()).await?;
    if store::accounts::find_by_email(ctx.db.reader(), &email).await?.is_some() {
        return Err(taken().into());
    }
    let password_hash = ctx.people.passwords.hash(password, random(ctx.ids.as_ref())).await?;
    let account = PasswordAccount {
        id: AccountId(ctx.ids.ulid()),
        platform: PlatformId(ctx.ids.ulid()),
        email,
        password_hash,
        created_at: ctx.clock.now(),
    };
    let tx = ctx.db.begin("open_account").await?;
    if !store::accounts::insert(&tx, &account).await? {
        return Err(taken().into());
    }
    if let Some(claim) = &claim {
        invite::take(ctx, &tx, claim, &account.platform).await?;
    }
    add_platform(ctx, &tx, &account.platform, &account.id.platform_name()).await?;
    let person = SignedInPerson::Account(account.id.clone());
    let mut signed_in = begin(ctx, &tx, account.platform.clone(), person).await?;
    signed_in.device = devices::note(ctx, &tx, &account.id, visitor, None).await?;
    tx.commit().await?;
    Ok((account, signed_in))
}

fn taken() -> Refusal {
    Refusal::conflict("An account with this e-mail address already exists; sign in instead")
}
