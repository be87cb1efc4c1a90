//! Checks every response of a test against the OpenAPI documents, more strictly than most clients would. Undocumented
//! members, missing members, nulls that are not documented, and integers with a fraction are errors. Source: decisions
//! D31.

use ::contract::validation::{json_schema, unlike_ours};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

pub use ::contract::validation::resolved;

/// A committed document.
pub fn committed(name: &str) -> String {
    let path = format!("{}/openapi/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; run `cargo xtask openapi generate`"))
}

/// The documents of the operations.
pub fn documents() -> &'static [Value; 2] {
    static DOCUMENTS: OnceLock<[Value; 2]> = OnceLock::new();
    DOCUMENTS.get_or_init(|| ["v2", "auth"].map(|name| serde_json::from_str(&committed(name)).expect("JSON")))
}

/// Builds a validator for one of the schemas in a document. It also checks `format`, and it rejects members that the
/// schema does not list.
pub fn executable(document: &Value, schema: &Value) -> jsonschema::Validator {
    jsonschema::options()
        .should_validate_formats(true)
        .build(&json_schema(document, schema))
        .expect("a schema")
}

/// The validator for a schema within [`documents`]. It is built once in a process, because building it takes longer
/// than the call that it checks.
fn validator_of(document: &'static Value, schema: &Value) -> Arc<jsonschema::Validator> {
    static VALIDATORS: Mutex<BTreeMap<usize, Arc<jsonschema::Validator>>> = Mutex::new(BTreeMap::new());
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = std::ptr::from_ref(schema).addr();
    let validator = validators.entry(place);
    Arc::clone(validator.or_insert_with(|| Arc::new(executable(document, schema))))
}

/// The documented operation that handles a call, and the document that contains it.
fn operation(method: &str, path: &str) -> Option<(&'static Value, &'static Value)> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let mut parts = template.split('/').zip(path.split('/'));
        let is_as_long = template.matches('/').count() == path.matches('/').count();
        is_as_long && parts.all(|(wanted, given)| wanted == given || wanted.starts_with('{'))
    };
    let paths = documents().iter().flat_map(|document| {
        let paths = document["paths"].as_object().expect("paths");
        paths.iter().map(move |(template, item)| (template, item, document))
    });
    let found = paths.filter(|(template, ..)| fits(template));
    // A path without parameters takes precedence.
    let (_, item, document) = found.min_by_key(|(template, ..)| template.matches('{').count())?;
    Some((item.get(method.to_lowercase())?, document))
}

/// The differences between a response and its documentation.
pub fn flaws(method: &str, path: &str, status: u16, text: &str) -> Vec<String> {
    let Some((operation, document)) = operation(method, path) else {
        let is_read = matches!(method, "GET" | "POST" | "PUT" | "PATCH" | "DELETE");
        let is_operation = path.starts_with("/v1/") || path.starts_with("/v2/");
        let is_found = is_read && is_operation && (200..300).contains(&status);
        return is_found
            .then(|| "an operation that is not documented".to_owned())
            .into_iter()
            .collect();
    };
    let Some(response) = operation["responses"].get(status.to_string()) else {
        return vec![format!("the status {status} is not documented")];
    };
    let content = &resolved(document, response)["content"];
    let schema = &content["application/json"]["schema"];
    let line = &content["application/jsonl"]["schema"];
    if !line.is_null() {
        let lines = text.lines().filter(|line| line.starts_with('{'));
        return lines.flat_map(|text| flaws_of(document, line, text)).collect();
    }
    if schema.is_null() {
        let is_empty = text.is_empty();
        return (!is_empty)
            .then(|| "a body that is not documented".to_owned())
            .into_iter()
            .collect();
    }
    flaws_of(document, schema, text)
}

/// The differences between a JSON text and its schema.
fn flaws_of(document: &'static Value, schema: &'static Value, text: &str) -> Vec<String> {
    let body: Value = match serde_json::from_str(text) {
        Ok(body) => body,
        Err(error) => return vec![format!("no JSON: {error}")],
    };
    let validator = validator_of(document, schema);
    let wrong = validator.iter_errors(&body);
    let mut found: Vec<String> = wrong
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    let fits = |schema: &Value, value: &Value| validator_of(document, schema).is_valid(value);
    found.extend(unlike_ours(document, schema, &body, &fits));
    found
}
