//! Completes answers: what they mean, their headers, and an example of what is sent.

use crate::http::{contract::examples::example_of, error::meaning};
use poem::http::StatusCode;
use serde_json::{Value, json};

/// Bound of a list that is a whole answer; the catalogue and the client IDs of a platform stay far below.
const LIST_ITEMS_MAX: u64 = 10_000;

/// What an answer carries: JSON, or a stream whose schema is that of one message.
fn answer_media(response: &mut Value) -> Option<&mut Value> {
    let content = response.get_mut("content")?.as_object_mut()?;
    content
        .iter_mut()
        .find(|(kind, _)| matches!(kind.as_str(), "application/json" | "text/event-stream"))
        .map(|(_, media)| media)
}

pub(super) fn finish_response(status: &str, response: &mut Value, schemas: &Value) {
    let code = status.parse().unwrap_or(500);
    if response["description"].as_str().is_none_or(str::is_empty) {
        response["description"] = json!(match code {
            201 => "Created.",
            202 => "Accepted.",
            204 => "Done.",
            _ => "The answer.",
        });
    }
    let mut headers = json!({
        "x-request-id": {
            "description": "Id of the call.",
            "schema": { "type": "string", "maxLength": 128, "example": "01JZX4T9QK3M7N8P2R5S6V0WYB" },
        },
        "Access-Control-Allow-Origin": {
            "description": "The calling page, when it belongs to an active client ID; else absent.",
            "schema": { "type": "string", "maxLength": 2048, "example": "https://shop.example.com" },
        },
    });
    if matches!(code, 429 | 503) {
        headers["Retry-After"] = json!({
            "description": "Seconds to wait before the next try.",
            "schema": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 86400, "example": 1 },
        });
    }
    if code == 429 {
        for (name, description, example) in [
            (
                "RateLimit-Limit",
                "Calls a minute of this credential from this address.",
                300,
            ),
            ("RateLimit-Remaining", "Calls that are left at once.", 0),
            ("RateLimit-Reset", "Seconds until the whole burst is there again.", 1),
        ] {
            headers[name] = json!({
                "description": description,
                "schema": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000_000, "example": example },
            });
        }
    }
    if let (Some(own), Some(added)) = (response.get("headers").cloned(), headers.as_object_mut()) {
        added.extend(own.as_object().cloned().unwrap_or_default());
    }
    response["headers"] = headers;
    let Some(media) = answer_media(response) else { return };
    // Lists that are whole answers have no member to carry their bound.
    if let Some(schema) = media["schema"]
        .as_object_mut()
        .filter(|schema| schema.get("type") == Some(&json!("array")))
    {
        schema.entry("maxItems").or_insert(json!(LIST_ITEMS_MAX));
    }
    let is_failure = code >= 400;
    let example = if is_failure {
        failure_example(code)
    } else {
        example_of(&media["schema"], schemas, 0)
    };
    media["example"] = example;
}

fn failure_example(code: u16) -> Value {
    let reason = StatusCode::from_u16(code)
        .ok()
        .and_then(|status| status.canonical_reason());
    let message = match code {
        400 => "Validation failed",
        401 => "Unauthorized",
        429 => "Too many requests",
        500 => "Internal server error",
        _ => meaning(code),
    };
    let mut example = json!({ "statusCode": code, "message": message, "error": reason.unwrap_or("Error") });
    if code == 400 {
        example["errors"] = json!([{ "field": "amount", "message": "must be greater than 0" }]);
    }
    example["requestId"] = json!("01JZX4T9QK3M7N8P2R5S6V0WYB");
    example
}
