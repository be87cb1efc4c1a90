//! Rewrites webhooks as responses, so that all checks of responses also apply to the events that we send. Each request
//! in the document of the webhooks becomes the response of an artificial operation.

use serde_json::{Map, Value, json};

use crate::document::members;

/// The document with an operation for each webhook; a document without webhooks is unchanged.
pub fn turned(root: &Value) -> Value {
    let Some(webhooks) = root["webhooks"].as_object() else {
        return root.clone();
    };
    let paths: Map<String, Value> = webhooks
        .iter()
        .map(|(name, item)| {
            let operations = members(item).map(|(method, operation)| (method.clone(), answered(operation)));
            (name.clone(), Value::Object(operations.collect()))
        })
        .collect();
    let mut turned = root.clone();
    if let Some(members) = turned.as_object_mut() {
        members.shift_remove("webhooks");
        members.insert("paths".to_owned(), paths.into());
    }
    turned
}

fn answered(operation: &Value) -> Value {
    let headers: Map<String, Value> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|header| {
            let mut members = header.as_object()?.clone();
            members.shift_remove("in");
            let name = members.shift_remove("name")?;
            Some((name.as_str()?.to_owned(), Value::Object(members)))
        })
        .collect();
    let mut answered = operation.clone();
    if let Some(members) = answered.as_object_mut() {
        members.shift_remove("parameters");
        let body = members.shift_remove("requestBody").unwrap_or_default();
        let answer = json!({ "description": body["description"], "headers": headers, "content": body["content"] });
        members.insert("responses".to_owned(), json!({ "200": answer }));
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_request_becomes_a_response() {
        let document = json!({
            "webhooks": { "paid": { "post": {
                "operationId": "paid",
                "parameters": [{ "in": "header", "name": "x-signature", "required": true, "schema": { "type": "string" } }],
                "requestBody": { "description": "The event.", "content": { "application/json": {} } },
                "responses": { "2XX": { "description": "Taken." } },
            } } },
        });
        let operation = &turned(&document)["paths"]["paid"]["post"];
        assert_eq!(operation["operationId"], "paid");
        assert_eq!(
            operation["responses"],
            json!({ "200": {
                "description": "The event.",
                "headers": { "x-signature": { "required": true, "schema": { "type": "string" } } },
                "content": { "application/json": {} },
            } })
        );
        let plain = json!({ "paths": {} });
        assert_eq!(turned(&plain), plain);
    }
}
