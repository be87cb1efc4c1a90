//! What a schema means: references followed, `allOf` merged, `oneOf` and `anyOf` as unordered alternatives, and one form
//! for the spellings of null and of exclusive bounds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::document::{Document, members, strings};

/// Keywords whose value the contract fixes when it names them.
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

/// Deeper than any shape of the contract; ends the walk through recursive components.
pub(crate) const DEPTH_MAX: usize = 24;

/// One alternative of a schema after references, `allOf` and null were folded in.
#[derive(Debug, Default)]
pub(crate) struct Variant {
    /// The component that it was, when it was one of several.
    pub(crate) name: Option<String>,
    /// Its type; nothing stands for any.
    pub(crate) kind: Option<String>,
    /// The values of an enumeration.
    pub(crate) allowed: Option<Vec<Value>>,
    /// Members of an object.
    pub(crate) properties: Map<String, Value>,
    /// Those that are always there.
    pub(crate) required: BTreeSet<String>,
    /// The schema of the items of an array.
    pub(crate) items: Option<Value>,
    /// What `additionalProperties` says.
    pub(crate) additional: Option<Value>,
    /// Bounds, pattern, format and the like, by keyword.
    pub(crate) constraints: BTreeMap<&'static str, Value>,
}

impl Variant {
    /// Whether no other members are allowed.
    pub(crate) fn is_closed(&self) -> bool {
        self.additional == Some(Value::Bool(false))
    }

    /// The schema of the values of a map.
    pub(crate) fn map_values(&self) -> Option<&Value> {
        let values = self.additional.as_ref()?;
        values
            .as_object()
            .is_some_and(|schema| !schema.is_empty())
            .then_some(values)
    }
}

/// A schema by meaning.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    /// Whether null is a value.
    pub(crate) nullable: bool,
    /// The alternatives; none stands for anything.
    pub(crate) variants: Vec<Variant>,
}

/// The types of alternatives, as they are printed.
pub(crate) fn kinds(variants: &[Variant]) -> String {
    let names: BTreeSet<&str> = variants
        .iter()
        .map(|variant| variant.kind.as_deref().unwrap_or("any"))
        .collect();
    names.into_iter().collect::<Vec<_>>().join("/")
}

/// Equal values, with numbers compared as numbers (`100` and `100.0` are one bound).
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

/// Joins a part of an `allOf` into what was gathered before it.
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

/// What a part of an `allOf` says about null; nothing when it says nothing about the type.
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

/// A schema without combining keywords.
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

/// A member that only objects have.
fn of_object<'v>(kind: &str, value: &'v Value) -> &'v Value {
    if kind == "object" { value } else { &Value::Null }
}

/// The component a schema refers to, also through a single `allOf` around it.
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

/// The constraints of a schema with the boolean exclusive bounds of 3.0 in the number form of 3.1.
fn constraints(schema: &Value) -> BTreeMap<&'static str, Value> {
    let mut found: BTreeMap<&'static str, Value> = CONSTRAINTS
        .iter()
        .filter_map(|keyword| schema.get(keyword).map(|value| (*keyword, value.clone())))
        .collect();
    // Every number of JSON has it.
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
