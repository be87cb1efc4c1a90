//! Answers that are given once: the same key and body get the stored answer, and nothing happens again.

use crate::{
    ctx::Ctx,
    domain::{caller::Caller, refusal::Refusal},
    flows::{FlowError, FlowResult},
    store::{self, StoreError, Tx},
};

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
pub async fn find(ctx: &Ctx, caller: &Caller, once: &Once) -> FlowResult<Option<String>> {
    let scope = scope(caller, once);
    let Some(stored) = store::idempotency::find(ctx.db.reader(), &caller.platform, &scope, &once.key).await? else {
        return Ok(None);
    };
    if stored.body_hash == once.body_hash {
        Ok(Some(stored.response))
    } else {
        Err(Refusal::conflict("Idempotency-Key was used before with another body; use a new key").into())
    }
}

/// Stores the answer with its effect. Errors: another call with the key is committing at this moment (409).
pub async fn keep(ctx: &Ctx, tx: &Tx, caller: &Caller, once: &Once, response: String) -> FlowResult<()> {
    let row = store::idempotency::NewKey {
        platform: caller.platform.clone(),
        scope: scope(caller, once),
        key: once.key.clone(),
        body_hash: once.body_hash.clone(),
        response,
        created_at: ctx.clock.now(),
    };
    match store::idempotency::insert(tx, &row).await {
        Err(StoreError::Conflict(_)) => Err(FlowError::Refused(Refusal::conflict(
            "A call with this Idempotency-Key is being answered at this moment; repeat it to get its answer",
        ))),
        other => Ok(other?),
    }
}

/// Keys of different client IDs and operations do not meet.
fn scope(caller: &Caller, once: &Once) -> String {
    let client = caller.client().map_or("platform", |client| client.as_str());
    format!("{}:{client}", once.operation)
}
