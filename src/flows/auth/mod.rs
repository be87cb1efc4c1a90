//! Who calls, and how people sign in and out.

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
        caller::Person,
        ids::{PlatformId, Secret, SessionId},
        refusal::{Refusal, RefusalKind},
        session::Session,
    },
    flows::{Fault, FlowError, FlowResult},
    ports::{ids::random, passwords::PasswordError},
    store::{self, Tx},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// A session that just began, with the only copy of its token.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The session.
    pub session: Session,
    /// What the caller shows from now on.
    pub token: Secret,
    /// Marker that a browser keeps, so that it is known the next time.
    pub device: Option<Secret>,
}

/// Begins a session within a transaction. The token holds 256 random bits, so a plain hash of it is enough.
async fn begin(ctx: &Ctx, tx: &Tx, platform: PlatformId, person: Person) -> FlowResult<SignedIn> {
    let token = Secret::new(URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref())));
    let hash = identify::hash(token.reveal());
    let absolute = ctx.people.sessions.wallet_absolute;
    let id = SessionId(ctx.ids.ulid());
    let session = Session::new(id, hash, platform, person, absolute, ctx.clock.now());
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
                let message = "Too many people sign in at this moment; try again";
                Self::Refused(Refusal::new(RefusalKind::TooMany, message))
            }
            PasswordError::Broken(error) => Self::Faulted(Fault(error)),
        }
    }
}
