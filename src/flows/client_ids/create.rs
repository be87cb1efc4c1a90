//! Creates a client ID.

pub use crate::domain::client_id::NewClientId;

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::{ClientId, FreshClientId},
        ids::ClientRowId,
    },
    flows::{
        FlowResult,
        auth::identify,
        client_ids::check_destination,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
    },
    ports::ids::random,
    store,
};

/// Alphabet of client IDs; 30 characters hold more than 170 bits.
pub const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Creates a client ID of the caller's platform.
///
/// Errors: every wrong field at once; a payee destination that is not the caller's; more client IDs than the cap (409).
/// Source: rules P.3.2; rules P.4.2.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: &NewClientId,
    call: RepeatableCall<ClientId>,
) -> FlowResult<KeyedResult<ClientId>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let fresh = FreshClientId {
            row: ClientRowId(ctx.ids.ulid()),
            platform: caller.platform.clone(),
            client_id: public_text(ctx),
            now: ctx.clock.now(),
        };
        let client = input.plan(fresh, &ctx.catalogue)?;
        let tx = ctx.db.begin("create_client_id").await?;
        store::owners::lock(&tx, &(&caller.platform).into()).await?;
        if let Some(destination) = &client.payee_destination {
            check_destination(&tx, caller, destination).await?;
        }
        store::client_ids::insert(&tx, &client).await?;
        let count = store::client_ids::count(&tx, &caller.platform).await?;
        ctx.caps.admit_client_ids(count)?;
        keeper.commit(tx, &client).await?;
        identify::note_issued(ctx, &identify::hash(&client.client_id));
        if !client.allowed_domains.is_empty() {
            // From now on, preflight requests from the allowed pages of the client ID are accepted.
            identify::forget_origins(ctx);
        }
        Ok(client)
    })
    .await
}

/// `cli_` and 30 uniformly random letters or digits: bytes above the last multiple of 62 are discarded.
fn public_text(ctx: &Ctx) -> String {
    let mut text = String::from("cli_");
    while text.len() < 34 {
        for byte in random::<32>(ctx.ids.as_ref()) {
            if byte < 248 && text.len() < 34 {
                text.push(char::from(ALPHABET[usize::from(byte % 62)]));
            }
        }
    }
    text
}
