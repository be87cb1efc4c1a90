//! Completes parameters.

use crate::http::{
    body::idempotency::IDEMPOTENCY_KEY,
    contract::{examples::example_of, schemas::take_example},
};
use serde_json::{Map, Value, json};

/// Prefix in the doc comment of an optional parameter whose example a try-it-out page fills in.
const FILLED_IN: &str = "Filled in: `";

/// Completes a parameter.
///
/// A try-it-out page fills in every example that it finds. Filters that are all filled in find nothing, and a repeated
/// `Idempotency-Key` returns an old response. So an optional parameter has two examples, and the first one is empty. If
/// a call needs at least one optional parameter, the doc comment of one of them marks its example with [`FILLED_IN`],
/// and the page fills in that example.
pub(super) fn finish_parameter(parameter: &mut Value, schemas: &Value) {
    let Some(object) = parameter.as_object_mut() else {
        return;
    };
    object.shift_remove("explode");
    if object.get("deprecated") == Some(&Value::Bool(false)) {
        object.shift_remove("deprecated");
    }
    let is_filled_in = say_example(object);
    take_example(object);
    let example = object
        .shift_remove("example")
        .unwrap_or_else(|| example_of(object.get("schema").unwrap_or(&Value::Null), schemas, 0));
    if let Some(schema) = object.get_mut("schema").and_then(Value::as_object_mut) {
        schema.shift_remove("example");
    }
    if is_filled_in || object.get("required") == Some(&Value::Bool(true)) {
        object.insert("example".to_owned(), example);
    } else {
        let left_out = json!({ "$ref": "#/components/examples/LeftOut" });
        object.insert(
            "examples".to_owned(),
            json!({ "none": left_out, "one": { "value": example } }),
        );
    }
}

/// Returns whether the description of an optional parameter has the prefix [`FILLED_IN`], and normalises it.
fn say_example(object: &mut Map<String, Value>) -> bool {
    let Some(Value::String(text)) = object.get_mut("description") else {
        return false;
    };
    let is_filled_in = text.contains(FILLED_IN);
    *text = text.replace(FILLED_IN, "Example: `");
    is_filled_in
}

/// Replaces the `Idempotency-Key` parameter of an operation by a reference to the shared component, and returns the
/// parameter for that component.
pub(super) fn share(operation: &mut Value) -> Option<(String, Value)> {
    let parameters = operation.get_mut("parameters")?.as_array_mut()?;
    let key = parameters
        .iter_mut()
        .find(|parameter| parameter["name"] == IDEMPOTENCY_KEY)?;
    let reference = json!({ "$ref": "#/components/parameters/IdempotencyKey" });
    Some(("IdempotencyKey".to_owned(), std::mem::replace(key, reference)))
}

/// The examples that parameters refer to.
pub(super) fn examples() -> Value {
    // The example has no value: an empty string would not match the pattern of most parameters, and generators would
    // fetch an `externalValue`.
    json!({ "LeftOut": { "summary": "Left out" } })
}
