//! Answers that are given once: the same key and body get the stored answer, and nothing happens again.

use crate::{
    ctx::Ctx,
    domain::{ids::Secret, refusal::Refusal},
    flows::{Fault, FlowError, FlowResult},
    store::{self, Holder, StoreError, Tx, idempotency::IdempotencyKey},
};
use chrono::TimeDelta;

/// How long an answer is kept. Source: decisions D18.
const KEPT: TimeDelta = TimeDelta::hours(24);

/// What a caller who sent `Idempotency-Key` wants to be sure of.
#[derive(Debug, Clone)]
pub struct Once {
    /// The key, 1 to 255 characters.
    pub key: String,
    /// The operation.
    pub operation: &'static str,
    /// Hash of the body.
    pub body_hash: String,
}

impl Once {
    /// Counts what the path names to what is asked for.
    #[must_use]
    pub fn about(mut self, named: &str) -> Self {
        self.body_hash = format!("{}:{named}", self.body_hash);
        self
    }
}

/// Result of an operation that can be repeated with a key.
#[derive(Debug, Clone)]
pub enum Answer<T> {
    /// It happened now.
    Fresh(T),
    /// It happened before: the body that was answered then.
    Replayed(String),
}

/// Looks for the stored answer. Errors: the key was used with another body (409).
///
/// Source: decisions D18.
pub async fn find(ctx: &Ctx, caller: impl Into<Holder>, once: &Once) -> FlowResult<Option<String>> {
    let Some(used) = store::idempotency::find(ctx.db.reader(), &key(&caller.into(), once)).await? else {
        return Ok(None);
    };
    if ctx.clock.now() - used.created_at > KEPT {
        sweep(ctx).await?;
        return Ok(None);
    }
    match used.answer {
        _ if used.body_hash != once.body_hash => {
            Err(Refusal::conflict("Idempotency-Key was used before with another body; use a new key").into())
        }
        Some(answer) => Ok(Some(answer.response)),
        None => Err(in_flight()),
    }
}

/// Forgets every answer that was kept long enough.
pub async fn sweep(ctx: &Ctx) -> FlowResult<()> {
    let tx = ctx.db.begin("forget_idempotency_keys").await?;
    store::idempotency::purge_older_than(&tx, ctx.clock.now() - KEPT).await?;
    tx.commit().await?;
    Ok(())
}

/// Stores the answer with its effect. Errors: another call with the key is committing at this moment (409).
pub async fn keep(ctx: &Ctx, tx: &Tx, caller: impl Into<Holder>, once: &Once, response: String) -> FlowResult<()> {
    let answer = store::idempotency::StoredAnswer { status: 201, response };
    match store::idempotency::insert(
        tx,
        &key(&caller.into(), once),
        &once.body_hash,
        &answer,
        ctx.clock.now(),
    )
    .await
    {
        Err(StoreError::Conflict(_)) => Err(in_flight()),
        other => Ok(other?),
    }
}

/// Like [`find`], for an answer that holds a secret and was kept with [`keep_sealed`].
pub async fn find_sealed(ctx: &Ctx, caller: impl Into<Holder>, once: &Once) -> FlowResult<Option<String>> {
    let Some(sealed) = find(ctx, caller, once).await? else {
        return Ok(None);
    };
    let opened = ctx.sealer.open(&sealed, &once.key).map_err(Fault)?;
    Ok(Some(opened.reveal().to_owned()))
}

/// Like [`keep`], for an answer that holds a secret: it is sealed like the secret itself.
pub async fn keep_sealed(
    ctx: &Ctx,
    tx: &Tx,
    caller: impl Into<Holder>,
    once: &Once,
    response: String,
) -> FlowResult<()> {
    let sealed = ctx.sealer.seal(&Secret::new(response), &once.key).map_err(Fault)?;
    keep(ctx, tx, caller, once, sealed).await
}

fn in_flight() -> FlowError {
    FlowError::Refused(Refusal::conflict(
        "A call with this Idempotency-Key is being answered at this moment; repeat it to get its answer",
    ))
}

/// Keys of different client IDs and operations do not meet.
fn key(caller: &Holder, once: &Once) -> IdempotencyKey {
    let client = caller.client.as_ref().map_or("platform", |client| client.as_str());
    IdempotencyKey {
        owner: caller.owner.clone(),
        scope: format!("{}:{client}", once.operation),
        key: once.key.clone(),
    }
}
