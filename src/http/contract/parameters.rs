//! Completes parameters.

use crate::http::contract::examples::example_of;
use serde_json::{Value, json};

/// Swagger UI fills in every example of a filter, and filters that are filled in together find nothing; the example of
/// a filter is therefore part of its description.
pub(super) fn finish_parameter(parameter: &mut Value, schemas: &Value) {
    let Some(object) = parameter.as_object_mut() else {
        return;
    };
    object.shift_remove("explode");
    if object.get("deprecated") == Some(&Value::Bool(false)) {
        object.shift_remove("deprecated");
    }
    let is_filter = object.get("in") == Some(&json!("query")) && object.get("required") != Some(&Value::Bool(true));
    if !is_filter {
        let schema = object.get("schema").cloned().unwrap_or_default();
        object.insert("example".to_owned(), example_of(&schema, schemas, 0));
        return;
    }
    let example = object
        .get_mut("schema")
        .and_then(Value::as_object_mut)
        .and_then(|schema| schema.shift_remove("example"));
    if let Some(example) = example.as_ref().and_then(Value::as_str)
        && let Some(Value::String(description)) = object.get_mut("description")
    {
        description.push_str(&format!(" Example: `{example}`."));
    }
}
