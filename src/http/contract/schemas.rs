//! Converts the framework's schemas to a form that readers and generators handle alike.

use crate::http::{body::unsigned, forms::text::ANY};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Maximum length in the documents of a response that is itself a list. The currency catalogue and the client IDs of a
/// platform are far fewer.
pub(super) const LIST_ITEMS_MAX: u64 = 10_000;

/// Maximum number of members of a map, which are networks or tokens. Programs that import a document create this number
/// of examples for each map, and its square for a map within a map.
const MAP_MEMBERS_MAX: u64 = 16;

/// Converts one schema to a form that readers and generators handle alike.
pub(super) fn tidy(schema: &mut Value, nullable: &mut BTreeSet<String>) {
    if let Some(name) = wrapped_reference(schema) {
        let is_nullable = schema.get("nullable") == Some(&Value::Bool(true));
        let name = if is_nullable {
            nullable.insert(name.clone());
            format!("{name}OrNull")
        } else {
            name
        };
        *schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        return;
    }
    let Some(object) = schema.as_object_mut() else { return };
    object.shift_remove("title");
    take_example(object);
    drop_notes(object);
    for keyword in ["minimum", "maximum", "multipleOf"] {
        if let Some(number) = object.get(keyword).and_then(whole) {
            object.insert(keyword.to_owned(), number.into());
        }
    }
    bound_unsigned(object);
    bound_text(object);
    bound_map(object);
}

/// Moves the example at the end of a doc comment to the keyword `example`.
pub(super) fn take_example(object: &mut Map<String, Value>) {
    let Some(description) = object.get("description").and_then(Value::as_str) else {
        return;
    };
    let Some((text, example)) = description.split_once("Example: `") else {
        return;
    };
    let example = example
        .trim_end_matches(['.', '\n', ' '])
        .trim_end_matches('`')
        .to_owned();
    let text = text.trim_end().to_owned();
    let is_null = example == "null" && object.get("nullable") == Some(&json!(true));
    // Strings are taken literally; everything else is JSON.
    let value = match object.get("type").and_then(Value::as_str) {
        _ if is_null => Value::Null,
        Some("string") | None => json!(example),
        Some(_) => serde_json::from_str(&example).unwrap_or(json!(example)),
    };
    object.insert("description".to_owned(), json!(text));
    object.insert("example".to_owned(), value);
}

/// The name of the referenced component, if the schema is one reference to which it adds only a description or
/// `nullable`.
fn wrapped_reference(schema: &Value) -> Option<String> {
    let parts = schema.get("allOf")?.as_array()?;
    let mut references = parts.iter().filter_map(|part| part.get("$ref").and_then(Value::as_str));
    let reference = references.next()?;
    let only_notes = parts.iter().filter(|part| part.get("$ref").is_none()).all(|part| {
        let mut keywords = part.as_object().into_iter().flat_map(Map::keys);
        keywords.all(|keyword| matches!(keyword.as_str(), "description" | "nullable" | "title"))
    });
    (only_notes && references.next().is_none()).then(|| component_name(reference).to_owned())
}

/// The framework repeats the description and the example of a reference as an extra part; generators would turn that
/// part into an open type.
fn drop_notes(schema: &mut Map<String, Value>) {
    let repeated = schema.clone();
    if let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
        parts.retain(|part| {
            let mut members = part.as_object().into_iter().flatten();
            !members.all(|(keyword, value)| repeated.get(keyword) == Some(value))
        });
    }
}

pub(super) fn component_name(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

fn whole(number: &Value) -> Option<i64> {
    let text = number.as_f64()?.to_string();
    text.parse().ok()
}

/// Replaces the formats of unsigned numbers, which readers do not know, by signed formats with bounds.
fn bound_unsigned(object: &mut Map<String, Value>) {
    let format = object.get("format").and_then(Value::as_str);
    let Some((format, most)) = format.and_then(unsigned) else {
        return;
    };
    object.insert("format".to_owned(), format.into());
    object.entry("minimum").or_insert(json!(0));
    object.entry("maximum").or_insert(most.into());
}

/// A string without a format gets the pattern of any text.
fn bound_text(object: &mut Map<String, Value>) {
    let has_form = ["format", "pattern", "enum"]
        .iter()
        .any(|keyword| object.contains_key(*keyword));
    if object.get("type") == Some(&json!("string")) && !has_form {
        object.insert("pattern".to_owned(), ANY.into());
    }
}

/// Sets the maximum number of members of a map. A map has no type of its own that could declare this number.
fn bound_map(object: &mut Map<String, Value>) {
    if object.get("additionalProperties").is_some_and(Value::is_object) {
        object.entry("maxProperties").or_insert(json!(MAP_MEMBERS_MAX));
    }
}

/// For each named component, adds a nullable copy with the suffix `OrNull`, to which nullable members refer.
pub(super) fn add_nullable(document: &mut Value, names: &BTreeSet<String>) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else {
        return;
    };
    for name in names {
        let Some(mut twin) = schemas.get(name).cloned() else {
            continue;
        };
        if let Some(object) = twin.as_object_mut() {
            object.entry("type").or_insert(json!("object"));
            object.insert("nullable".to_owned(), Value::Bool(true));
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.push(Value::Null);
            }
        }
        schemas.insert(format!("{name}OrNull"), twin);
    }
    schemas.sort_keys();
}

/// Drops the components that nothing refers to, for example a component of which only the `OrNull` copy is used.
pub(super) fn drop_unused(document: &mut Value) {
    let mut used = BTreeSet::new();
    note_references(&document["paths"], &mut used);
    note_references(&document["components"]["responses"], &mut used);
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else {
        return;
    };
    let mut open: Vec<String> = used.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let mut inner = BTreeSet::new();
        note_references(schemas.get(&name).unwrap_or(&Value::Null), &mut inner);
        open.extend(inner.into_iter().filter(|name| used.insert(name.clone())));
    }
    schemas.retain(|name, _| used.contains(name));
}

fn note_references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            names.extend(reference.map(component_name).map(str::to_owned));
            members.values().for_each(|member| note_references(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| note_references(item, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_with_an_example_gets_no_extra_open_type() {
        let text = "Always `single`. Example: `single`";
        let reference = json!({ "$ref": "#/components/schemas/Kind" });
        let mut notes = json!({ "description": text });
        tidy(&mut notes, &mut BTreeSet::new());
        let mut schema = json!({ "description": text, "allOf": [reference, notes] });
        tidy(&mut schema, &mut BTreeSet::new());
        let tidied = json!({ "description": "Always `single`.", "allOf": [reference], "example": "single" });
        assert_eq!(schema, tidied);
    }

    #[test]
    fn a_schema_part_with_more_constraints_is_kept() {
        let parts = json!([{ "$ref": "#/components/schemas/Kind" }, { "maxLength": 3 }]);
        let mut schema = json!({ "allOf": parts });
        tidy(&mut schema, &mut BTreeSet::new());
        assert_eq!(schema["allOf"], parts);
    }
}
