//! Compares the exported documents with the contract by meaning, not by text.
//!
//! A *difference* is something a client or a contract test written for the contract can notice; everything compatible
//! is left out. References are followed, `allOf` is merged, `oneOf` and `anyOf` are unordered sets of variants, the two
//! spellings of null are one, prose is ignored, and credential headers of the contract are met by security schemes.
//! What may differ is decided in `deviations`, not here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::document::{Document, Operation, media_types, members, path_form, path_names, strings};

/// Keywords whose value the contract fixes when it names them.
const CONSTRAINTS: [&str; 14] = [
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

/// Header parameters of the contract that are credentials; the browser sends `origin`, so nobody declares it (D27).
const CREDENTIAL_HEADERS: [&str; 5] = [
    "x-api-key",
    "x-client-id",
    "x-orchestrator-key",
    "authorization",
    "origin",
];

/// Deeper than any shape of the contract; ends the walk through recursive components.
const DEPTH_MAX: usize = 24;

/// One difference that a client of the contract can notice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// `GET /v2/payments`
    pub operation: String,
    /// The place and the difference: `query parameter token: enum missing [] extra ["DAI"]`.
    pub text: String,
}

/// What a comparison of all documents found.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Differences in operations that exist on both sides.
    pub findings: Vec<Finding>,
    /// Operations of the contract that are not exported.
    pub missing: BTreeSet<String>,
    /// Exported operations that the contract does not have.
    pub extra: BTreeSet<String>,
    /// Operations of the contract that are exported, by the name the contract gives them.
    pub present: BTreeSet<String>,
}

/// Compares all exported documents with all documents of the contract.
pub fn compare(contract: &[Value], exported: &[Value]) -> Comparison {
    let exported: Vec<Document<'_>> = exported.iter().map(Document::new).collect();
    let mut ours: BTreeMap<(String, String), (Document<'_>, Operation<'_>)> = BTreeMap::new();
    for document in &exported {
        for operation in document.operations() {
            ours.insert(
                (path_form(operation.path), operation.method.to_owned()),
                (*document, operation),
            );
        }
    }
    let mut result = Comparison::default();
    let mut known = BTreeSet::new();
    for root in contract {
        let document = Document::new(root);
        for operation in document.operations() {
            let key = (path_form(operation.path), operation.method.to_owned());
            let name = operation.name();
            known.insert(key.clone());
            let Some((our_document, our_operation)) = ours.get(&key) else {
                result.missing.insert(name);
                continue;
            };
            let pair = Pair {
                contract: document,
                ours: *our_document,
            };
            let texts: BTreeSet<String> = pair.operation(&operation, our_operation).into_iter().collect();
            result.findings.extend(texts.into_iter().map(|text| Finding {
                operation: name.clone(),
                text,
            }));
            result.present.insert(name);
        }
    }
    result.extra = ours
        .iter()
        .filter(|(key, _)| !known.contains(*key))
        .map(|(_, (_, found))| found.name())
        .collect();
    result
}

/// Who writes the value: the client accepts or sends more in one direction than in the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// One alternative of a schema after references, `allOf` and null were folded in.
#[derive(Debug, Default)]
struct Variant {
    kind: Option<String>,
    allowed: Option<Vec<Value>>,
    properties: Map<String, Value>,
    required: BTreeSet<String>,
    items: Option<Value>,
    additional: Option<Value>,
    constraints: BTreeMap<&'static str, Value>,
}

/// A schema by meaning: the alternatives (none: anything) and whether null is one of them.
#[derive(Debug, Default)]
struct Meaning {
    nullable: bool,
    variants: Vec<Variant>,
}

/// How well one variant of ours meets one of the contract; smaller is better.
type Score = (usize, bool);

struct Pair<'a> {
    contract: Document<'a>,
    ours: Document<'a>,
}

impl<'a> Pair<'a> {
    fn operation(&self, theirs: &Operation<'a>, ours: &Operation<'a>) -> Vec<String> {
        let mut found = self.parameters(theirs, ours);
        found.extend(self.request_body(theirs.body, ours.body));
        found.extend(self.responses(&theirs.body["responses"], &ours.body["responses"]));
        found
    }

    fn parameters(&self, theirs: &Operation<'a>, ours: &Operation<'a>) -> Vec<String> {
        let mut found = Vec::new();
        let (expected, declared) = (self.contract.parameters(theirs), self.ours.parameters(ours));
        let credentials = self.ours.credentials(ours);
        let renamed: BTreeMap<&str, &str> = path_names(theirs.path).into_iter().zip(path_names(ours.path)).collect();
        for ((place, name), parameter) in &expected {
            let at = format!("{place} parameter {}", parameter["name"].as_str().unwrap_or(name));
            if place == "header" && CREDENTIAL_HEADERS.contains(&name.as_str()) {
                found.extend(credential(&at, name, parameter["required"] == true, &credentials));
                continue;
            }
            let our_name = match renamed.get(name.as_str()) {
                Some(other) if place == "path" => (*other).to_owned(),
                _ => name.clone(),
            };
            let Some(other) = declared.get(&(place.clone(), our_name)) else {
                found.push(format!("{at}: missing"));
                continue;
            };
            let (theirs_required, ours_required) = (parameter["required"] == true, other["required"] == true);
            if place != "path" && theirs_required != ours_required {
                found.push(format!(
                    "{at}: required contract={theirs_required} ours={ours_required}"
                ));
            }
            found.extend(self.schema(&parameter["schema"], &other["schema"], &at, Side::Request, 0));
        }
        for ((place, name), parameter) in &declared {
            let from_template = place == "path" && renamed.values().any(|ours| ours == name);
            if !from_template && parameter["required"] == true && !expected.contains_key(&(place.clone(), name.clone()))
            {
                found.push(format!("{place} parameter {name}: extra required"));
            }
        }
        found
    }

    fn request_body(&self, theirs: &Value, ours: &Value) -> Vec<String> {
        let body_of = |document: &Document<'a>, operation: &Value| {
            operation
                .get("requestBody")
                .map(|body| document.resolve(body).into_owned())
        };
        match (body_of(&self.contract, theirs), body_of(&self.ours, ours)) {
            (Some(_), None) => vec!["request body missing".to_owned()],
            (None, Some(body)) if body["required"] == true => vec!["extra request body".to_owned()],
            (Some(expected), Some(body)) => {
                let mut found = Vec::new();
                let (theirs_required, ours_required) = (expected["required"] == true, body["required"] == true);
                if theirs_required != ours_required {
                    found.push(format!(
                        "request body required contract={theirs_required} ours={ours_required}"
                    ));
                }
                found.extend(self.content(&expected["content"], &body["content"], "request", Side::Request));
                found
            }
            (None, _) => Vec::new(),
        }
    }

    fn responses(&self, theirs: &Value, ours: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for (status, expected) in members(theirs) {
            let at = format!("response {status}");
            let range = format!("{}XX", &status[..1]);
            let Some(response) = ours
                .get(status)
                .or_else(|| ours.get(&range))
                .or_else(|| ours.get("default"))
            else {
                found.push(format!("{at}: missing"));
                continue;
            };
            let (expected, response) = (self.contract.resolve(expected), self.ours.resolve(response));
            let headers: BTreeSet<String> = members(&response["headers"])
                .map(|(header, _)| header.to_lowercase())
                .collect();
            for (header, _) in members(&expected["headers"]) {
                if !headers.contains(&header.to_lowercase()) {
                    found.push(format!("{at}: header {header} missing"));
                }
            }
            found.extend(self.content(&expected["content"], &response["content"], &at, Side::Response));
        }
        for (status, _) in members(ours) {
            if status.starts_with('2') && theirs.get(status).is_none() {
                found.push(format!("response {status}: extra"));
            }
        }
        found
    }

    /// A media type without a schema says nothing about the body, so only its presence could be compared; the
    /// contract has such entries where the reference gives examples alone, and they are passed over.
    fn content(&self, theirs: &Value, ours: &Value, at: &str, side: Side) -> Vec<String> {
        let (expected, declared) = (media_types(theirs), media_types(ours));
        let mut found = Vec::new();
        for (name, media) in expected.into_iter().filter(|(_, media)| media.get("schema").is_some()) {
            match declared.get(&name) {
                Some(other) => found.extend(self.schema(&media["schema"], &other["schema"], at, side, 0)),
                None => found.push(format!("{at}: media type {name} missing")),
            }
        }
        found
    }

    fn schema(&self, theirs: &Value, ours: &Value, at: &str, side: Side, depth: usize) -> Vec<String> {
        if depth > DEPTH_MAX {
            return Vec::new();
        }
        let (expected, declared) = (meaning(&self.contract, theirs, 0), meaning(&self.ours, ours, 0));
        let mut found = Vec::new();
        if expected.nullable != declared.nullable {
            let worse = match side {
                Side::Request => expected.nullable,
                Side::Response => declared.nullable,
            };
            if worse {
                found.push(format!(
                    "{at}: nullable contract={} ours={}",
                    expected.nullable, declared.nullable
                ));
            }
        }
        if expected.variants.is_empty() {
            return found;
        }
        if declared.variants.is_empty() {
            found.push(format!(
                "{at}: ours is untyped, contract is {}",
                kinds(&expected.variants)
            ));
            return found;
        }
        found.extend(self.variants(&expected.variants, &declared.variants, at, side, depth));
        found
    }

    /// Gives every variant of the contract the variant of ours that fits it best.
    fn variants(&self, expected: &[Variant], declared: &[Variant], at: &str, side: Side, depth: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut used = BTreeSet::new();
        for (index, theirs) in expected.iter().enumerate() {
            let place = if expected.len() > 1 {
                format!("{at}|{index}")
            } else {
                at.to_owned()
            };
            let mut best: Option<(Score, usize, Vec<String>)> = None;
            for (candidate, ours) in declared.iter().enumerate() {
                let differences = self.variant(theirs, ours, &place, side, depth);
                let score = (differences.len(), used.contains(&candidate));
                if best.as_ref().is_none_or(|(best_score, ..)| score < *best_score) {
                    best = Some((score, candidate, differences));
                }
            }
            if let Some((_, candidate, differences)) = best {
                used.insert(candidate);
                found.extend(differences);
            }
        }
        if declared.len() < expected.len() && !found.is_empty() {
            found.push(format!(
                "{at}: union has {} variants, contract {}",
                declared.len(),
                expected.len()
            ));
        }
        if declared.len() > expected.len() && side == Side::Response {
            let known: BTreeSet<_> = expected.iter().map(|variant| &variant.kind).collect();
            for (index, variant) in declared.iter().enumerate() {
                if !used.contains(&index) && !known.contains(&variant.kind) {
                    let kind = variant.kind.as_deref().unwrap_or("anything");
                    found.push(format!("{at}: extra union variant of type {kind}"));
                }
            }
        }
        found
    }

    fn variant(&self, theirs: &Variant, ours: &Variant, at: &str, side: Side, depth: usize) -> Vec<String> {
        let Some(expected_kind) = &theirs.kind else {
            return Vec::new();
        };
        let Some(kind) = &ours.kind else {
            return vec![format!("{at}: ours is untyped, contract {expected_kind}")];
        };
        let mut found = Vec::new();
        if kind != expected_kind {
            let narrowed = (expected_kind.as_str(), kind.as_str()) == ("number", "integer");
            let widened = (expected_kind.as_str(), kind.as_str()) == ("integer", "number");
            let worse = match side {
                Side::Request => narrowed,
                Side::Response => widened,
            };
            if worse || !(narrowed || widened) {
                return vec![format!("{at}: type contract={expected_kind} ours={kind}")];
            }
        }
        found.extend(enumeration(theirs, ours, at, side));
        for (keyword, expected) in &theirs.constraints {
            match ours.constraints.get(keyword) {
                Some(value) if same(expected, value) => {}
                Some(value) => found.push(format!("{at}: {keyword} contract={expected} ours={value}")),
                None => found.push(format!("{at}: {keyword} contract={expected} ours=none")),
            }
        }
        match expected_kind.as_str() {
            "object" => found.extend(self.object(theirs, ours, at, side, depth)),
            "array" => match (&theirs.items, &ours.items) {
                (Some(expected), Some(items)) => {
                    found.extend(self.schema(expected, items, &format!("{at}[]"), side, depth + 1));
                }
                (Some(_), None) => found.push(format!("{at}[]: items schema missing")),
                (None, _) => {}
            },
            _ => {}
        }
        found
    }

    fn object(&self, theirs: &Variant, ours: &Variant, at: &str, side: Side, depth: usize) -> Vec<String> {
        let mut found = Vec::new();
        let our_map = ours.additional.as_ref().filter(|schema| is_schema(schema));
        for (name, expected) in &theirs.properties {
            let place = format!("{at}.{name}");
            let Some(property) = ours.properties.get(name) else {
                match our_map {
                    Some(values) => found.extend(self.schema(expected, values, &place, side, depth + 1)),
                    None => found.push(format!("{place}: property missing")),
                }
                continue;
            };
            let (theirs_required, ours_required) = (theirs.required.contains(name), ours.required.contains(name));
            if theirs_required != ours_required && (side == Side::Request || theirs_required) {
                found.push(format!(
                    "{place}: required contract={theirs_required} ours={ours_required}"
                ));
            }
            found.extend(self.schema(expected, property, &place, side, depth + 1));
        }
        let closed = theirs.additional == Some(Value::Bool(false));
        for name in ours
            .properties
            .keys()
            .filter(|name| !theirs.properties.contains_key(*name))
        {
            match side {
                Side::Request if ours.required.contains(name) => {
                    found.push(format!("{at}.{name}: extra required property"));
                }
                Side::Response if closed => {
                    found.push(format!("{at}.{name}: extra property, contract closes the object"));
                }
                _ => {}
            }
        }
        if let Some(expected) = theirs.additional.as_ref().filter(|schema| is_schema(schema)) {
            let place = format!("{at}.*");
            match our_map {
                Some(values) => found.extend(self.schema(expected, values, &place, side, depth + 1)),
                None if ours.properties.is_empty() || ours.additional == Some(Value::Bool(false)) => {
                    found.push(format!("{place}: map value schema missing"));
                }
                None => {}
            }
        }
        found
    }
}

/// A credential header of the contract is met by a security scheme that travels in it.
fn credential(at: &str, name: &str, required: bool, alternatives: &[BTreeSet<String>]) -> Option<String> {
    if name == "origin" {
        return None;
    }
    if !alternatives.iter().any(|alternative| alternative.contains(name)) {
        return Some(format!("{at}: missing (no security scheme carries it)"));
    }
    let always = alternatives.iter().all(|alternative| alternative.contains(name));
    (always && !required).then(|| format!("{at}: required contract=false ours=true"))
}

fn enumeration(theirs: &Variant, ours: &Variant, at: &str, side: Side) -> Option<String> {
    match (&theirs.allowed, &ours.allowed) {
        (Some(expected), None) => Some(format!("{at}: enum missing in ours, contract {}", json!(expected))),
        (None, Some(values)) if side == Side::Request => {
            Some(format!("{at}: ours restricts to enum {}", json!(values)))
        }
        (Some(expected), Some(values)) => {
            let missing: Vec<_> = expected.iter().filter(|value| !values.contains(value)).collect();
            let extra: Vec<_> = values.iter().filter(|value| !expected.contains(value)).collect();
            (!missing.is_empty() || !extra.is_empty())
                .then(|| format!("{at}: enum missing {} extra {}", json!(missing), json!(extra)))
        }
        _ => None,
    }
}

fn kinds(variants: &[Variant]) -> String {
    let names: BTreeSet<&str> = variants
        .iter()
        .map(|variant| variant.kind.as_deref().unwrap_or("any"))
        .collect();
    names.into_iter().collect::<Vec<_>>().join("/")
}

/// Whether `additionalProperties` says more than yes or no.
fn is_schema(value: &Value) -> bool {
    value.as_object().is_some_and(|object| !object.is_empty())
}

/// Equal values, with numbers compared as numbers (`100` and `100.0` are one bound).
fn same(left: &Value, right: &Value) -> bool {
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
        let alternative = document.resolve(alternative);
        if is_null_variant(&alternative) {
            result.nullable = true;
            continue;
        }
        let mut merged = base.clone();
        join(&mut merged, &alternative);
        let one = meaning(document, &Value::Object(merged), depth + 1);
        result.nullable |= one.nullable;
        if one.variants.is_empty() {
            result.variants.push(Variant::default());
        } else {
            result.variants.extend(one.variants);
        }
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
            properties: if kind == "object" {
                object_of(&schema["properties"])
            } else {
                Map::new()
            },
            required: if kind == "object" {
                strings(&schema["required"])
            } else {
                BTreeSet::new()
            },
            items: schema.get("items").filter(|_| kind == "array").cloned(),
            additional: schema.get("additionalProperties").filter(|_| kind == "object").cloned(),
            constraints: constraints(schema),
            allowed: allowed.clone(),
            kind: Some(kind),
        })
        .collect();
    Meaning { nullable, variants }
}

fn object_of(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn document(operation: Value) -> Value {
        json!({
            "paths": {"/v2/things/{id}": {"post": operation}},
            "components": {
                "securitySchemes": {
                    "ApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                    "ClientId": {"type": "apiKey", "in": "header", "name": "x-client-id"},
                },
                "schemas": {
                    "Maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
                    "Base": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                },
            },
        })
    }

    fn texts(contract: Value, ours: Value) -> Vec<String> {
        let comparison = compare(&[document(contract)], &[document(ours)]);
        comparison.findings.into_iter().map(|finding| finding.text).collect()
    }

    fn request(schema: Value) -> Value {
        json!({"requestBody": {"content": {"application/json": {"schema": schema}}}, "responses": {}})
    }

    fn response(schema: Value) -> Value {
        json!({"responses": {"200": {"content": {"application/json": {"schema": schema}}}}})
    }

    #[test]
    fn the_contract_conforms_to_itself() {
        let text = include_str!("../../../openapi/contract/v2-0.13.0.json");
        let contract: Value = serde_json::from_str(text).unwrap();
        let mut credentials_declared = contract.clone();
        for item in credentials_declared["paths"].as_object_mut().unwrap().values_mut() {
            for operation in item.as_object_mut().unwrap().values_mut() {
                operation["security"] = json!([{"a": []}, {"b": []}, {"c": []}, {"d": []}]);
            }
        }
        credentials_declared["components"] = json!({"securitySchemes": {
            "a": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            "b": {"type": "apiKey", "in": "header", "name": "x-client-id"},
            "c": {"type": "apiKey", "in": "header", "name": "x-orchestrator-key"},
            "d": {"type": "http", "scheme": "bearer"},
        }});
        let comparison = compare(&[contract], &[credentials_declared]);
        assert_eq!(comparison.findings, []);
        assert_eq!(comparison.present.len(), 41);
    }

    #[test]
    fn missing_and_extra_operations_are_listed() {
        let contract = json!({"paths": {"/a": {"get": {}}, "/b/{x}": {"get": {}}}});
        let ours = json!({"paths": {"/b/{y}": {"get": {}}, "/c": {"get": {}}}});
        let comparison = compare(&[contract], &[ours]);
        assert_eq!(comparison.missing, BTreeSet::from(["GET /a".to_owned()]));
        assert_eq!(comparison.extra, BTreeSet::from(["GET /c".to_owned()]));
        assert_eq!(comparison.present, BTreeSet::from(["GET /b/{x}".to_owned()]));
    }

    #[test]
    fn an_enum_value_more_or_less_is_a_difference() {
        let found = texts(
            request(json!({"type": "string", "enum": ["USDC", "USDT"]})),
            request(json!({"type": "string", "enum": ["USDC", "DAI"]})),
        );
        assert_eq!(found, [r#"request: enum missing ["USDT"] extra ["DAI"]"#]);
    }

    #[test]
    fn a_restriction_of_our_own_is_a_difference_in_requests_alone() {
        let (free, limited) = (json!({"type": "string"}), json!({"type": "string", "enum": ["a"]}));
        assert_eq!(
            texts(request(free.clone()), request(limited.clone())),
            [r#"request: ours restricts to enum ["a"]"#]
        );
        assert!(texts(response(free), response(limited)).is_empty());
    }

    #[test]
    fn a_changed_or_dropped_constraint_is_a_difference_and_an_added_one_is_not() {
        let bounded = |max: i64| request(json!({"type": "string", "maxLength": max}));
        let free = request(json!({"type": "string"}));
        assert_eq!(
            texts(bounded(100), bounded(50)),
            ["request: maxLength contract=100 ours=50"]
        );
        assert_eq!(
            texts(bounded(100), free.clone()),
            ["request: maxLength contract=100 ours=none"]
        );
        assert!(texts(free, bounded(100)).is_empty());
    }

    #[test]
    fn both_forms_of_an_exclusive_bound_are_one() {
        let old = request(json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}));
        let new = request(json!({"type": "integer", "exclusiveMinimum": 0.0}));
        assert!(texts(old, new).is_empty());
    }

    #[test]
    fn required_properties_differ_by_direction() {
        let loose = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let in_request = texts(request(loose.clone()), request(strict.clone()));
        assert_eq!(in_request, ["request.a: required contract=false ours=true"]);
        assert!(texts(response(loose.clone()), response(strict.clone())).is_empty());
        let in_response = texts(response(strict), response(loose));
        assert_eq!(in_response, ["response 200.a: required contract=true ours=false"]);
    }

    #[test]
    fn properties_missing_and_extra_required_ones_are_differences() {
        let contract = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let ours = json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]});
        assert_eq!(
            texts(request(contract), request(ours)),
            ["request.a: property missing", "request.b: extra required property"]
        );
    }

    #[test]
    fn null_is_worse_where_the_other_side_does_not_expect_it() {
        let (plain, null) = (json!({"type": "string"}), json!({"type": "string", "nullable": true}));
        let newer = json!({"type": ["string", "null"]});
        assert_eq!(
            texts(response(plain.clone()), response(null.clone())),
            ["response 200: nullable contract=false ours=true"]
        );
        assert!(texts(response(null.clone()), response(plain.clone())).is_empty());
        assert_eq!(
            texts(request(null.clone()), request(plain)),
            ["request: nullable contract=true ours=false"]
        );
        assert!(texts(response(null), response(newer)).is_empty());
    }

    #[test]
    fn nullable_references_mean_the_same_in_every_form() {
        let inline = json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}});
        let reference = json!({"$ref": "#/components/schemas/Maybe"});
        let any_of = json!({"anyOf": [{"$ref": "#/components/schemas/Maybe"}, {"type": "null"}]});
        assert!(texts(response(inline.clone()), response(reference.clone())).is_empty());
        assert!(texts(response(reference), response(inline.clone())).is_empty());
        assert!(texts(response(inline), response(any_of)).is_empty());
    }

    #[test]
    fn all_of_is_one_object() {
        let inline = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        });
        let composed = json!({"allOf": [
            {"$ref": "#/components/schemas/Base"},
            {"type": "object", "properties": {"b": {"type": "number"}}, "required": ["b"]},
        ]});
        assert!(texts(response(inline.clone()), response(composed.clone())).is_empty());
        assert!(texts(response(composed), response(inline)).is_empty());
    }

    #[test]
    fn union_variants_compare_without_order() {
        let (one, two) = (json!({"type": "string"}), json!({"$ref": "#/components/schemas/Base"}));
        let left = response(json!({"anyOf": [one, two]}));
        let right = response(json!({"oneOf": [two, one]}));
        assert!(texts(left, right).is_empty());
    }

    #[test]
    fn a_lost_union_variant_is_a_difference() {
        let base = json!({"$ref": "#/components/schemas/Base"});
        let other = json!({"type": "object", "properties": {"z": {"type": "string"}}, "required": ["z"]});
        let found = texts(response(json!({"anyOf": [base, other]})), response(base.clone()));
        assert_eq!(
            found,
            [
                "response 200: union has 1 variants, contract 2",
                "response 200|1.z: property missing"
            ]
        );
    }

    #[test]
    fn number_and_integer_differ_by_direction() {
        let (number, integer) = (json!({"type": "number"}), json!({"type": "integer"}));
        assert!(texts(response(number.clone()), response(integer.clone())).is_empty());
        assert_eq!(
            texts(request(number.clone()), request(integer.clone())),
            ["request: type contract=number ours=integer"]
        );
        assert_eq!(
            texts(response(integer), response(number)),
            ["response 200: type contract=integer ours=number"]
        );
    }

    #[test]
    fn missing_parameters_and_responses_are_differences() {
        let contract = json!({
            "parameters": [{"in": "query", "name": "page", "required": true, "schema": {"type": "string"}}],
            "responses": {"200": {}, "404": {}},
        });
        let ours = json!({
            "parameters": [{"in": "query", "name": "more", "required": true, "schema": {"type": "string"}}],
            "responses": {"201": {}},
        });
        assert_eq!(
            texts(contract, ours),
            [
                "query parameter more: extra required",
                "query parameter page: missing",
                "response 200: missing",
                "response 201: extra",
                "response 404: missing",
            ]
        );
    }

    #[test]
    fn security_schemes_meet_credential_headers_and_origin_is_never_asked() {
        let header =
            |name: &str| json!({"in": "header", "name": name, "required": false, "schema": {"type": "string"}});
        let contract = json!({
            "parameters": [header("x-api-key"), header("x-client-id"), header("Origin"), header("Authorization")],
            "responses": {},
        });
        let ours = json!({"security": [{"ApiKey": []}, {"ClientId": []}], "responses": {}});
        assert_eq!(
            texts(contract.clone(), ours),
            ["header parameter Authorization: missing (no security scheme carries it)"]
        );
        let only_key = json!({"security": [{"ApiKey": []}], "responses": {}});
        assert!(
            texts(contract, only_key)
                .contains(&"header parameter x-api-key: required contract=false ours=true".to_owned())
        );
    }

    #[test]
    fn bodies_without_schema_in_the_contract_are_passed_over() {
        let contract = json!({"responses": {"200": {"content": {"application/json": {}}}}});
        let ours = json!({"responses": {"200": {"description": "x"}}});
        assert!(texts(contract, ours).is_empty());
    }
}
