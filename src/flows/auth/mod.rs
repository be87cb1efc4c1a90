//! Authentication: callers, sign-in and sign-out.

pub mod challenge;
mod devices;
pub mod identify;
pub mod invite;
pub mod login;
pub mod logout;
pub mod password;
pub mod register;
pub mod sessions;
pub mod sweep;
pub mod verify;

use crate::{
    ctx::Ctx,
    domain::{
        caller::SignedInPerson,
        ids::{PlatformId, Secret, SessionId},
        refusal::{Refusal, RefusalKind},
        session::SignInSession,
    },
    flows::{Fault, FlowError, FlowResult},
    ports::{ids::random, passwords::PasswordError},
    store::{self, Tx},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// A new session, with the only copy of its token.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The session.
    pub session: SignInSession,
    /// The session token.
    pub token: Secret,
    /// Marker for the browser to store, so that it is recognised the next time.
    pub device: Option<Secret>,
}

/// Begins a session within a transaction. The token has 256 random bits, so a plain hash is sufficient.
async fn begin(ctx: &Ctx, tx: &Tx, platform: PlatformId, person: SignedInPerson) -> FlowResult<SignedIn> {
    let token = Secret::new(URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref())));
    let hash = identify::hash(token.reveal());
    let absolute = ctx.people.sessions.wallet_absolute;
    let id = SessionId(ctx.ids.ulid());
    let session = SignInSession::new(id, hash, platform, person, absolute, ctx.clock.now());
    store::sessions::insert(tx, &session).await?;
    identify::note_issued(ctx, &identify::hash(token.reveal()));
    Ok(SignedIn {
        session,
        token,
        device: None,
    })
}

/// Adds the platform that a wallet or an account owns, within a transaction.
async fn add_platform(ctx: &Ctx, tx: &Tx, id: &PlatformId, name: &str) -> FlowResult<()> {
    let platform = store::platforms::Platform {
        id: id.clone(),
        name: name.chars().take(100).collect(),
        created_at: ctx.clock.now(),
    };
    Ok(store::platforms::insert(tx, &platform).await?)
}

impl From<PasswordError> for FlowError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Busy => {
                let message = "Too many sign-ins are in progress; retry shortly";
                Self::Refused(Refusal::new(RefusalKind::TooMany, message).after(1))
            }
            PasswordError::Broken(error) => Self::Faulted(Fault(error)),
        }
    }
}
