//! Completes parameters.

use crate::http::{
    body::idempotency::IDEMPOTENCY_KEY,
    contract::{examples::example_of, schemas::take_example},
};
use serde_json::{Map, Value, json};

/// What the doc comment of a parameter says before an example that is filled in though it may be left out.
const FILLED_IN: &str = "Filled in: `";

/// Completes a parameter.
///
/// A page for trying operations out fills in every example that it finds. Filters that are filled in together find
/// nothing, and an `Idempotency-Key` that is sent twice asks for an old answer; so what may be left out has two
/// examples, and the first one is empty. Where not all may be left out, one of them says that it is filled in.
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

/// Tells whether the text of a parameter that may be left out says that it is filled in, and has it say so as others do.
fn say_example(object: &mut Map<String, Value>) -> bool {
    let Some(Value::String(text)) = object.get_mut("description") else {
        return false;
    };
    let is_filled_in = text.contains(FILLED_IN);
    *text = text.replace(FILLED_IN, "Example: `");
    is_filled_in
}

/// Moves the one parameter that many operations share to the components, and returns it.
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
    // It has no value: an empty text would not fit the form of most parameters, and generators fetch an address.
    json!({ "LeftOut": { "summary": "Left out" } })
}
