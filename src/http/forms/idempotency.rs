//! The `Idempotency-Key` header, and answers that are given once.

use crate::{
    flows::{
        FlowResult,
        idempotency::{Answer, Once, Repeatable},
    },
    http::forms::{reply::Reply, text::text},
};
use poem_openapi::types::ToJSON;
use sha2::{Digest, Sha256};

text! {
    /// Key under which a call is answered once.
    IdempotencyKey {
        pattern: r"^[\x21-\x7e]{1,255}$",
        length_max: 255,
        example: "order-1042",
        hint: "must have 1 to 255 visible ASCII characters",
    }
}

/// What makes a call repeatable: its key and what it asks for.
pub fn once<T: ToJSON>(key: Option<IdempotencyKey>, operation: &'static str, body: &T) -> Option<Once> {
    keyed(key, operation, &body.to_json_string())
}

/// [`once`] of an operation on one object: the same key for another object is another call.
pub fn once_for<T: ToJSON>(
    key: Option<IdempotencyKey>,
    operation: &'static str,
    object: &str,
    body: &T,
) -> Option<Once> {
    keyed(key, operation, &format!("{object} {}", body.to_json_string()))
}

fn keyed(key: Option<IdempotencyKey>, operation: &'static str, asked: &str) -> Option<Once> {
    key.map(|key| Once {
        key: key.as_str().to_owned(),
        operation,
        body_hash: hex::encode(Sha256::digest(asked)),
    })
}

/// Runs a flow whose answer is given once: `view` makes the body of what it made, and a repeated call gets the stored
/// body, byte for byte. Errors: those of the flow.
pub async fn answer_once<const STATUS: u16, T: 'static, V: ToJSON + 'static>(
    once: Option<Once>,
    view: fn(&T) -> V,
    flow: impl AsyncFnOnce(Repeatable<T>) -> FlowResult<Answer<T>>,
) -> FlowResult<Reply<STATUS, V>> {
    let call = Repeatable::new(once, move |made: &T| view(made).to_json_string());
    Ok(match flow(call).await? {
        Answer::Fresh(made) => Reply::new(view(&made)),
        Answer::Replayed(body) => Reply::replayed(body),
    })
}
