//! Creates a challenge for a wallet to sign.

use crate::{
    ctx::Ctx,
    domain::{address::Address, ids::ChallengeId, session::Challenge},
    flows::FlowResult,
    ports::ids::random,
    store,
};

/// Creates and stores a challenge for a wallet of either family. Source: rules P.4.1.
pub async fn run(ctx: &Ctx, address: Address) -> FlowResult<Challenge> {
    let sessions = &ctx.people.sessions;
    let challenge = Challenge::new(
        ChallengeId(ctx.ids.ulid()),
        address,
        hex::encode(random::<16>(ctx.ids.as_ref())),
        &sessions.domain,
        &sessions.uri,
        ctx.clock.now(),
    );
    let tx = ctx.db.begin("keep_challenge").await?;
    store::challenges::insert(&tx, &challenge).await?;
    tx.commit().await?;
    Ok(challenge)
}
