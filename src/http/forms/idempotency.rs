//! The `Idempotency-Key` header.

use crate::{
    flows::{Fault, FlowError, FlowResult, idempotency::Once},
    http::forms::text::text,
};
use poem_openapi::types::{ParseFromJSON, ToJSON};
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
    key.map(|key| Once {
        key: key.as_str().to_owned(),
        operation,
        body_hash: hex::encode(Sha256::digest(body.to_json_string())),
    })
}

/// [`once`] of an operation on one object: the same key for another object is another call.
pub fn once_for<T: ToJSON>(
    key: Option<IdempotencyKey>,
    operation: &'static str,
    object: &str,
    body: &T,
) -> Option<Once> {
    once(key, operation, body).map(|once| Once {
        body_hash: hex::encode(Sha256::digest(format!("{object} {}", once.body_hash))),
        ..once
    })
}

/// Reads a stored answer back. Errors: a stored answer that is none, which only the operator can mend.
pub fn replayed<T: ParseFromJSON>(stored: &str) -> FlowResult<T> {
    T::parse_from_json_string(stored)
        .map_err(|error| FlowError::Faulted(Fault(anyhow::anyhow!("stored answer: {}", error.into_message()))))
}
