//! Invites of the operator, and registration with an invite.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::{InviteId, PlatformId, Secret},
        registration::{self, Claim, INVITE_LIFETIME, Invite, Invitee, Registration},
    },
    flows::{FlowResult, auth::identify},
    ports::ids::random,
    store::{self, Tx},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// An invite with the only copy of its code; an invite for a wallet has no code.
#[derive(Debug, Clone)]
pub struct NewInvite {
    /// The stored invite.
    pub invite: Invite,
    /// The code that the invited person sends.
    pub code: Option<Secret>,
}

/// Creates an invite. A code has 256 random bits, so a plain hash is sufficient.
pub async fn create(ctx: &Ctx, invitee: &Invitee) -> FlowResult<NewInvite> {
    let draw = || format!("inv_{}", URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref())));
    let (claim, code) = match invitee {
        Invitee::Wallet(wallet) => (Claim::Wallet(*wallet), None),
        Invitee::Anybody => {
            let code = draw();
            (by_code(&code, None), Some(Secret::new(code)))
        }
        Invitee::Email(email) => {
            let code = draw();
            (by_code(&code, Some(email)), Some(Secret::new(code)))
        }
    };
    let now = ctx.clock.now();
    let invite = Invite {
        id: InviteId(ctx.ids.ulid()),
        claim,
        created_at: now,
        expires_at: now + INVITE_LIFETIME,
    };
    let tx = ctx.db.begin("create_invite").await?;
    store::invites::insert(&tx, &invite).await?;
    tx.commit().await?;
    Ok(NewInvite { invite, code })
}

fn by_code(code: &str, email: Option<&str>) -> Claim {
    Claim::Code {
        hash: identify::hash(code),
        email_hash: email.map(|email| identify::hash(&format!("{code}\n{email}"))),
    }
}

/// The invite used for registering with an e-mail address; `None` if registration is open.
///
/// Errors: 403 if registration is closed, without an invite, or with an invalid invite.
pub(super) async fn of_email(ctx: &Ctx, email: &str, code: Option<&Secret>) -> FlowResult<Option<Claim>> {
    match ctx.people.registration {
        Registration::Open => return Ok(None),
        Registration::Off => return Err(registration::closed().into()),
        Registration::Invited => {}
    }
    let code = code.ok_or_else(registration::uninvited)?;
    let claim = by_code(code.reveal(), Some(email));
    if !store::invites::is_good(ctx.db.reader(), &claim, ctx.clock.now()).await? {
        return Err(registration::not_invited().into());
    }
    Ok(Some(claim))
}

/// Consumes the invite found by [`of_email`]. Errors: 403 if another call has used it.
pub(super) async fn take(ctx: &Ctx, tx: &Tx, claim: &Claim, platform: &PlatformId) -> FlowResult<()> {
    if store::invites::take(tx, claim, platform, ctx.clock.now()).await? {
        Ok(())
    } else {
        Err(registration::not_invited().into())
    }
}

/// Admits a wallet that signs in for the first time. Errors: as for [`of_email`].
pub(super) async fn admit_wallet(
    ctx: &Ctx,
    tx: &Tx,
    wallet: &Address,
    code: Option<&Secret>,
    platform: &PlatformId,
) -> FlowResult<()> {
    match ctx.people.registration {
        Registration::Open => return Ok(()),
        Registration::Off => return Err(registration::closed().into()),
        Registration::Invited => {}
    }
    if store::invites::take(tx, &Claim::Wallet(*wallet), platform, ctx.clock.now()).await? {
        return Ok(());
    }
    let code = code.ok_or_else(registration::uninvited)?;
    take(ctx, tx, &by_code(code.reveal(), None), platform).await
}
