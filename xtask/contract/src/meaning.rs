//! The meaning of a schema: two schemas with the same meaning allow the same values. References are resolved, and
//! `allOf` is merged. The order of alternatives in `oneOf` and `anyOf` does not count. All spellings of null become one
//! form, and so do those of exclusive bounds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::document::{Document, members, strings};

/// Keywords whose value must match if the contract has them.
pub(crate) const CONSTRAINTS: [&str; 14] = [
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "uniqueItems",
    "multipleOf",
    "minProperties",
    "maxProperties",
];

/// Maximum depth of a walk through a schema. The limit ends a walk through a recursive component; every schema of the
/// contract is less deep.
pub(crate) const DEPTH_MAX: usize = 24;

/// One alternative of a schema, after references are resolved, and `allOf` and null are merged.
#[derive(Debug, Default)]
pub(crate) struct Variant {
    /// The name of the component, if the schema has several alternatives.
    pub(crate) name: Option<String>,
    /// Its type; `None` means any.
    pub(crate) kind: Option<String>,
    /// The values of an enumeration.
    pub(crate) allowed: Option<Vec<Value>>,
    /// Members of an object.
    pub(crate) properties: Map<String, Value>,
    /// The required members.
    pub(crate) required: BTreeSet<String>,
    /// The schema of the items of an array.
    pub(crate) items: Option<Value>,
    /// The value of `additionalProperties`.
    pub(crate) additional: Option<Value>,
    /// Constraints such as bounds, pattern and format, by keyword.
    pub(crate) constraints: BTreeMap<&'static str, Value>,
}

impl Variant {
    /// Whether an object may not have members that the schema does not list.
    pub(crate) fn is_closed(&self) -> bool {
        self.additional == Some(Value::Bool(false))
    }

    /// The schema of the values, if the object is a map.
    pub(crate) fn map_values(&self) -> Option<&Value> {
        let values = self.additional.as_ref()?;
        values
            .as_object()
            .is_some_and(|schema| !schema.is_empty())
            .then_some(values)
    }
}

/// The meaning of a schema.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    /// Whether null is allowed.
    pub(crate) nullable: bool,
    /// The alternatives; an empty list means any value.
    pub(crate) variants: Vec<Variant>,
}

/// The types of alternatives as text for a finding.
pub(crate) fn kinds(variants: &[Variant]) -> String {
    let names: BTreeSet<&str> = variants
        .iter()
        .map(|variant| variant.kind.as_deref().unwrap_or("any"))
        .collect();
    names.into_iter().collect::<Vec<_>>().join("/")
}

/// Whether two values are equal. Numbers are compared as numbers: `100` and `100.0` are the same bound.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.total_cmp(&right).is_eq(),
        _ => left == right,
    }
}

fn is_null_variant(schema: &Value) -> bool {
    schema["type"] == "null"
        || schema["enum"] == json!([null])
        || (schema.get("const").is_some() && schema["const"].is_null())
        || *schema == json!({"nullable": true})
}

/// Merges one part of an `allOf` into `base`, which contains the parts before it.
fn join(base: &mut Map<String, Value>, part: &Value) {
    for (keyword, value) in members(part) {
        match keyword.as_str() {
            "properties" => {
                let all = base.entry("properties").or_insert_with(|| json!({}));
                if let (Some(all), Some(more)) = (all.as_object_mut(), value.as_object()) {
                    all.extend(more.clone());
                }
            }
            "required" => {
                let mut all = strings(&base.get("required").cloned().unwrap_or_default());
                all.extend(strings(value));
                base.insert("required".to_owned(), json!(all));
            }
            _ => {
                base.insert(keyword.clone(), value.clone());
            }
        }
    }
}

/// All parts of an `allOf`, nested ones included, as one schema.
fn flatten(document: &Document<'_>, schema: &Value, depth: usize) -> Map<String, Value> {
    let mut merged: Map<String, Value> = members(schema)
        .filter(|(name, _)| *name != "allOf")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let part = document.resolve(part);
        if part.get("allOf").is_some() && depth < DEPTH_MAX {
            join(&mut merged, &Value::Object(flatten(document, &part, depth + 1)));
        } else {
            join(&mut merged, &part);
        }
    }
    merged
}

/// Whether a part of an `allOf` allows null; `None` if the part does not restrict the type.
fn part_nullable(document: &Document<'_>, part: &Value, depth: usize) -> Option<bool> {
    let part = document.resolve(part);
    let in_type_list = part["type"]
        .as_array()
        .is_some_and(|types| types.contains(&json!("null")));
    if part["nullable"] == true || part["type"] == "null" || in_type_list {
        return Some(true);
    }
    if ["type", "properties", "enum", "const"]
        .iter()
        .any(|keyword| part.get(keyword).is_some())
    {
        return Some(false);
    }
    ["allOf", "oneOf", "anyOf"]
        .iter()
        .any(|keyword| part.get(keyword).is_some())
        .then(|| meaning(document, &part, depth + 1).nullable)
}

/// Reads a schema.
pub(crate) fn meaning_of(document: &Document<'_>, schema: &Value) -> Meaning {
    meaning(document, schema, 0)
}

fn meaning(document: &Document<'_>, schema: &Value, depth: usize) -> Meaning {
    let schema = document.resolve(schema);
    if depth > DEPTH_MAX || schema.as_object().is_none_or(Map::is_empty) {
        return Meaning::default();
    }
    let nullable = schema["nullable"] == true;
    if let Some(parts) = schema["allOf"].as_array() {
        let mut merged = flatten(document, &schema, 0);
        merged.remove("nullable");
        let said: Vec<bool> = parts
            .iter()
            .filter_map(|part| part_nullable(document, part, depth))
            .collect();
        let mut result = meaning(document, &Value::Object(merged), depth + 1);
        result.nullable = nullable || (!said.is_empty() && said.iter().all(|null| *null));
        return result;
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(alternatives) = schema[keyword].as_array() {
            return union(document, &schema, keyword, alternatives, depth);
        }
    }
    plain(&schema)
}

fn union(document: &Document<'_>, schema: &Value, keyword: &str, alternatives: &[Value], depth: usize) -> Meaning {
    let beside = [
        keyword,
        "discriminator",
        "nullable",
        "description",
        "title",
        "example",
        "default",
    ];
    let base: Map<String, Value> = members(schema)
        .filter(|(name, _)| !beside.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut result = Meaning {
        nullable: schema["nullable"] == true,
        variants: Vec::new(),
    };
    for alternative in alternatives {
        let name = component(alternative);
        let alternative = document.resolve(alternative);
        if is_null_variant(&alternative) {
            result.nullable = true;
            continue;
        }
        let mut merged = base.clone();
        join(&mut merged, &alternative);
        let mut one = meaning(document, &Value::Object(merged), depth + 1);
        result.nullable |= one.nullable;
        if one.variants.is_empty() {
            one.variants.push(Variant::default());
        }
        for variant in &mut one.variants {
            variant.name = variant.name.take().or_else(|| name.clone());
        }
        result.variants.append(&mut one.variants);
    }
    result
}

/// The meaning of a schema without `allOf`, `oneOf` and `anyOf`.
fn plain(schema: &Value) -> Meaning {
    let mut nullable = schema["nullable"] == true;
    let mut allowed = schema["enum"].as_array().cloned();
    if let Some(constant) = schema.get("const") {
        allowed = Some(vec![constant.clone()]);
    }
    let mut types: Vec<String> = match &schema["type"] {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if types == ["null"] {
        return Meaning {
            nullable: true,
            variants: Vec::new(),
        };
    }
    if types.iter().any(|name| name == "null") {
        nullable = true;
        types.retain(|name| name != "null");
    }
    if let Some(values) = &mut allowed
        && values.iter().any(Value::is_null)
    {
        nullable = true;
        values.retain(|value| !value.is_null());
    }
    if types.is_empty() {
        types.extend(implied_type(schema, allowed.as_deref()));
    }
    let variants = types
        .into_iter()
        .map(|kind| Variant {
            properties: of_object(&kind, &schema["properties"])
                .as_object()
                .cloned()
                .unwrap_or_default(),
            required: strings(of_object(&kind, &schema["required"])),
            items: schema.get("items").filter(|_| kind == "array").cloned(),
            additional: schema.get("additionalProperties").filter(|_| kind == "object").cloned(),
            constraints: constraints(schema),
            allowed: allowed.clone(),
            name: None,
            kind: Some(kind),
        })
        .collect();
    Meaning { nullable, variants }
}

/// The value of a keyword that applies only to objects; null for a schema of any other type.
fn of_object<'v>(kind: &str, value: &'v Value) -> &'v Value {
    if kind == "object" { value } else { &Value::Null }
}

/// The component that a schema refers to, directly or through a single `allOf`.
pub(crate) fn component(schema: &Value) -> Option<String> {
    let inner = match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([one]) if schema.get("properties").is_none() => one,
        _ => schema,
    };
    let reference = inner["$ref"].as_str()?;
    Some(reference.rsplit('/').next().unwrap_or(reference).to_owned())
}

fn implied_type(schema: &Value, allowed: Option<&[Value]>) -> Option<String> {
    let name = if schema.get("properties").is_some() || schema.get("additionalProperties").is_some() {
        "object"
    } else if schema.get("items").is_some() {
        "array"
    } else {
        let values = allowed?;
        if values.iter().all(Value::is_string) {
            "string"
        } else if values.iter().all(Value::is_boolean) {
            "boolean"
        } else {
            "number"
        }
    };
    Some(name.to_owned())
}

/// The constraints of a schema, with the boolean exclusive bounds of 3.0 converted to the number form of 3.1.
fn constraints(schema: &Value) -> BTreeMap<&'static str, Value> {
    let mut found: BTreeMap<&'static str, Value> = CONSTRAINTS
        .iter()
        .filter_map(|keyword| schema.get(keyword).map(|value| (*keyword, value.clone())))
        .collect();
    // Every JSON number has the format `double`, so it restricts nothing.
    if found.get("format").is_some_and(|format| format == "double") {
        found.remove("format");
    }
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(set)) = found.get(exclusive).cloned() {
            found.remove(exclusive);
            if set && let Some(bound) = found.remove(inclusive) {
                found.insert(exclusive, bound);
            }
        }
    }
    found
}
