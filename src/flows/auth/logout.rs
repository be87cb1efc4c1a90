//! Ends a session.

use crate::{ctx::Ctx, domain::ids::Secret, flows::FlowResult, flows::auth::identify, store};

/// Ends the session of a token; a token without a session is not an error. Source: interface §5; rules P.4.1.
pub async fn run(ctx: &Ctx, token: &Secret) -> FlowResult<()> {
    let tx = ctx.db.begin("sign_out").await?;
    store::sessions::delete_by_hash(&tx, &identify::hash(token.reveal())).await?;
    tx.commit().await?;
    Ok(())
}
