//! What changed between two versions of our own document, and does it break a client written against the older one?
//!
//! In a request, accepting less breaks; in a response, promising less or sending something new breaks. A change inside
//! a component is reported once for each direction the component is used in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::document::{Document, Operation, media_types, members, strings};

/// How a change looks to a client written against the older document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A correct client may stop working, or its generated code changes its names.
    Breaking,
    /// The interface changed and old clients go on working.
    Compatible,
    /// Text and examples only.
    Cosmetic,
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Breaking => "breaking",
            Self::Compatible => "compatible",
            Self::Cosmetic => "cosmetic",
        })
    }
}

/// One change; the order lists what breaks first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// What the change does to clients.
    pub class: Class,
    /// The operation, or the component with its direction.
    pub at: String,
    /// What changed there.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<10} {}: {}", self.class, self.at, self.what)
    }
}

/// All changes from `old` to `new`.
pub fn compare(old: &Value, new: &Value) -> BTreeSet<Change> {
    let (old, new) = (Document::new(old), Document::new(new));
    let mut walk = Walk {
        old,
        new,
        changes: BTreeSet::new(),
        seen: BTreeSet::new(),
    };
    let by_name =
        |document: Document<'_>| -> BTreeSet<String> { document.operations().iter().map(Operation::name).collect() };
    let (before, after) = (by_name(old), by_name(new));
    for operation in old.operations() {
        match new
            .operations()
            .iter()
            .find(|candidate| candidate.name() == operation.name())
        {
            Some(other) => walk.operation(&operation, other),
            None => walk.say(Class::Breaking, &operation.name(), "operation removed"),
        }
    }
    for name in after.difference(&before) {
        walk.say(Class::Compatible, name, "operation added");
    }
    walk.changes
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Request,
    Response,
}

impl Side {
    /// Fewer values are allowed than before.
    fn narrowed(self) -> Class {
        match self {
            Self::Request => Class::Breaking,
            Self::Response => Class::Compatible,
        }
    }

    /// More values are allowed than before.
    fn widened(self) -> Class {
        match self {
            Self::Request => Class::Compatible,
            Self::Response => Class::Breaking,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

/// Bounds, and whether a smaller number is the tighter one.
const BOUNDS: [(&str, bool); 10] = [
    ("maxLength", true),
    ("minLength", false),
    ("maximum", true),
    ("minimum", false),
    ("exclusiveMaximum", true),
    ("exclusiveMinimum", false),
    ("maxItems", true),
    ("minItems", false),
    ("maxProperties", true),
    ("minProperties", false),
];

struct Walk<'a> {
    old: Document<'a>,
    new: Document<'a>,
    changes: BTreeSet<Change>,
    /// Pairs of components already compared, for each direction.
    seen: BTreeSet<(String, String, Side)>,
}

impl<'a> Walk<'a> {
    fn say(&mut self, class: Class, at: &str, what: impl Into<String>) {
        self.changes.insert(Change {
            class,
            at: at.to_owned(),
            what: what.into(),
        });
    }

    fn operation(&mut self, old: &Operation<'a>, new: &Operation<'a>) {
        let at = old.name();
        let (before, after) = (old.body, new.body);
        if before["operationId"] != after["operationId"] {
            let what = format!(
                "operationId {} became {}, which renames the method in generated clients",
                before["operationId"], after["operationId"]
            );
            self.say(Class::Breaking, &at, what);
        }
        match (before["deprecated"] == true, after["deprecated"] == true) {
            (false, true) => self.say(Class::Compatible, &at, "deprecated"),
            (true, false) => self.say(Class::Compatible, &at, "no longer deprecated"),
            _ => {}
        }
        if before["tags"] != after["tags"] {
            self.say(Class::Cosmetic, &at, "tags changed");
        }
        if ["summary", "description"]
            .iter()
            .any(|text| before[text] != after[text])
        {
            self.say(Class::Cosmetic, &at, "text changed");
        }
        self.security(&at, old, new);
        self.parameters(&at, old, new);
        self.request_body(&at, before.get("requestBody"), after.get("requestBody"));
        self.responses(&at, &before["responses"], &after["responses"]);
    }

    fn security(&mut self, at: &str, old: &Operation<'a>, new: &Operation<'a>) {
        let alternatives = |document: &Document<'a>, operation: &Operation<'a>| -> BTreeSet<String> {
            let required = document.security(operation).into_iter().flatten();
            required
                .map(|one| {
                    members(one)
                        .map(|(name, _)| name.as_str())
                        .collect::<Vec<_>>()
                        .join(" and ")
                })
                .collect()
        };
        let (before, after) = (alternatives(&self.old, old), alternatives(&self.new, new));
        if before.is_empty() && !after.is_empty() {
            return self.say(Class::Breaking, at, "a credential is now required");
        }
        if after.is_empty() && !before.is_empty() {
            return self.say(Class::Compatible, at, "no credential is required any more");
        }
        for name in before.difference(&after) {
            self.say(Class::Breaking, at, format!("credential {name} is no longer accepted"));
        }
        for name in after.difference(&before) {
            self.say(Class::Compatible, at, format!("credential {name} is accepted"));
        }
    }

    fn parameters(&mut self, at: &str, old: &Operation<'a>, new: &Operation<'a>) {
        let (before, after) = (self.old.parameters(old), self.new.parameters(new));
        for ((place, name), parameter) in &before {
            let label = format!("{place} parameter {name}");
            let Some(other) = after.get(&(place.clone(), name.clone())) else {
                self.say(Class::Breaking, at, format!("{label} removed"));
                continue;
            };
            match (parameter["required"] == true, other["required"] == true) {
                (false, true) => self.say(Class::Breaking, at, format!("{label} became required")),
                (true, false) => self.say(Class::Compatible, at, format!("{label} became optional")),
                _ => {}
            }
            if parameter["description"] != other["description"] || parameter["example"] != other["example"] {
                self.say(Class::Cosmetic, at, format!("text or example of {label} changed"));
            }
            self.schema(
                &format!("{at} {label}"),
                &parameter["schema"],
                &other["schema"],
                Side::Request,
            );
        }
        for ((place, name), parameter) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
            let (class, kind) = match parameter["required"] == true {
                true => (Class::Breaking, "required"),
                false => (Class::Compatible, "optional"),
            };
            self.say(class, at, format!("{kind} {place} parameter {name} added"));
        }
    }

    fn request_body(&mut self, at: &str, old: Option<&Value>, new: Option<&Value>) {
        let resolve =
            |document: &Document<'a>, body: Option<&Value>| body.map(|body| document.resolve(body).into_owned());
        match (resolve(&self.old, old), resolve(&self.new, new)) {
            (None, Some(body)) if body["required"] == true => {
                self.say(Class::Breaking, at, "required request body added");
            }
            (None, Some(_)) => self.say(Class::Compatible, at, "optional request body added"),
            (Some(_), None) => self.say(Class::Breaking, at, "request body removed"),
            (Some(before), Some(after)) => {
                match (before["required"] == true, after["required"] == true) {
                    (false, true) => self.say(Class::Breaking, at, "request body became required"),
                    (true, false) => self.say(Class::Compatible, at, "request body became optional"),
                    _ => {}
                }
                self.content(
                    &format!("{at} request"),
                    &before["content"],
                    &after["content"],
                    Side::Request,
                );
            }
            (None, None) => {}
        }
    }

    fn responses(&mut self, at: &str, old: &Value, new: &Value) {
        let of_status = |status: &str| {
            if status.starts_with('2') {
                Class::Breaking
            } else {
                Class::Compatible
            }
        };
        for (status, before) in members(old) {
            let Some(after) = new.get(status) else {
                self.say(of_status(status), at, format!("response {status} removed"));
                continue;
            };
            let (before, after) = (
                self.old.resolve(before).into_owned(),
                self.new.resolve(after).into_owned(),
            );
            for (header, _) in members(&before["headers"]).filter(|(header, _)| after["headers"].get(header).is_none())
            {
                self.say(
                    Class::Breaking,
                    at,
                    format!("header {header} of response {status} removed"),
                );
            }
            for (header, _) in members(&after["headers"]).filter(|(header, _)| before["headers"].get(header).is_none())
            {
                self.say(
                    Class::Compatible,
                    at,
                    format!("header {header} of response {status} added"),
                );
            }
            if before["description"] != after["description"] {
                self.say(Class::Cosmetic, at, format!("text of response {status} changed"));
            }
            let place = format!("{at} response {status}");
            self.content(&place, &before["content"], &after["content"], Side::Response);
        }
        for (status, _) in members(new).filter(|(status, _)| old.get(status).is_none()) {
            self.say(of_status(status), at, format!("response {status} added"));
        }
    }

    fn content(&mut self, at: &str, old: &Value, new: &Value, side: Side) {
        let (before, after) = (media_types(old), media_types(new));
        for (name, media) in &before {
            let Some(other) = after.get(name) else {
                self.say(Class::Breaking, at, format!("media type {name} removed"));
                continue;
            };
            if media["example"] != other["example"] || media["examples"] != other["examples"] {
                self.say(Class::Cosmetic, at, "example changed");
            }
            self.schema(at, &media["schema"], &other["schema"], side);
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            self.say(Class::Compatible, at, format!("media type {name} added"));
        }
    }

    fn schema(&mut self, at: &str, old: &Value, new: &Value, side: Side) {
        let (old_name, new_name) = (component(old), component(new));
        if let (Some(before), Some(after)) = (&old_name, &new_name)
            && !self.seen.insert((before.clone(), after.clone(), side))
        {
            return;
        }
        let at = &match &new_name {
            Some(name) => format!("{name} ({})", side.name()),
            None => at.to_owned(),
        };
        let (before, after) = (unwrap(&self.old, old), unwrap(&self.new, new));
        if !self.kind(at, &before["type"], &after["type"], side) {
            return;
        }
        match (before["nullable"] == true, after["nullable"] == true) {
            (false, true) => self.say(side.widened(), at, "may now be null"),
            (true, false) => self.say(side.narrowed(), at, "may no longer be null"),
            _ => {}
        }
        self.enumeration(at, before.get("enum"), after.get("enum"), side);
        self.bounds(at, &before, &after, side);
        if before["default"] != after["default"] {
            let what = format!("default {} became {}", before["default"], after["default"]);
            self.say(Class::Breaking, at, what);
        }
        if ["description", "title", "example"]
            .iter()
            .any(|text| before[text] != after[text])
        {
            self.say(Class::Cosmetic, at, "text or example changed");
        }
        self.object(at, &before, &after, side);
        if before.get("items").is_some() || after.get("items").is_some() {
            self.schema(&format!("{at}[]"), &before["items"], &after["items"], side);
        }
        for keyword in ["oneOf", "anyOf", "allOf"] {
            self.alternatives(at, keyword, &before[keyword], &after[keyword], side);
        }
    }

    /// Says what became of the type; false when the two have nothing in common to go on with.
    fn kind(&mut self, at: &str, old: &Value, new: &Value, side: Side) -> bool {
        if old == new {
            return true;
        }
        match (old.as_str(), new.as_str()) {
            (Some("integer"), Some("number")) => self.say(side.widened(), at, "integer became number"),
            (Some("number"), Some("integer")) => self.say(side.narrowed(), at, "number became integer"),
            (None, _) if old.is_null() => self.say(side.narrowed(), at, format!("type {new} added")),
            (_, None) if new.is_null() => self.say(side.widened(), at, format!("type {old} removed")),
            _ => {
                self.say(Class::Breaking, at, format!("type {old} became {new}"));
                return false;
            }
        }
        true
    }

    fn enumeration(&mut self, at: &str, old: Option<&Value>, new: Option<&Value>, side: Side) {
        let values = |list: &Value| -> BTreeSet<String> {
            list.as_array().into_iter().flatten().map(ToString::to_string).collect()
        };
        match (old, new) {
            (Some(before), Some(after)) => {
                let (before, after) = (values(before), values(after));
                for value in before.difference(&after) {
                    self.say(side.narrowed(), at, format!("value {value} removed"));
                }
                for value in after.difference(&before) {
                    self.say(side.widened(), at, format!("value {value} added"));
                }
            }
            (None, Some(_)) => self.say(side.narrowed(), at, "became an enumeration"),
            (Some(_), None) => self.say(side.widened(), at, "is no longer an enumeration"),
            (None, None) => {}
        }
    }

    fn bounds(&mut self, at: &str, old: &Value, new: &Value, side: Side) {
        for (keyword, smaller_is_tighter) in BOUNDS {
            let (before, after) = (&old[keyword], &new[keyword]);
            match (before.as_f64(), after.as_f64()) {
                (Some(left), Some(right)) if left.total_cmp(&right).is_ne() => {
                    let tighter = (right < left) == smaller_is_tighter;
                    let class = if tighter { side.narrowed() } else { side.widened() };
                    self.say(class, at, format!("{keyword} {before} became {after}"));
                }
                (None, Some(_)) => self.say(side.narrowed(), at, format!("{keyword} {after} added")),
                (Some(_), None) => self.say(side.widened(), at, format!("{keyword} {before} removed")),
                _ => {}
            }
        }
        for keyword in ["pattern", "format", "multipleOf", "uniqueItems"] {
            match (old.get(keyword), new.get(keyword)) {
                (Some(before), Some(after)) if before != after => {
                    self.say(Class::Breaking, at, format!("{keyword} {before} became {after}"));
                }
                (None, Some(after)) => self.say(side.narrowed(), at, format!("{keyword} {after} added")),
                (Some(before), None) => self.say(side.widened(), at, format!("{keyword} {before} removed")),
                _ => {}
            }
        }
    }

    fn object(&mut self, at: &str, old: &Value, new: &Value, side: Side) {
        let (before, after) = (&old["properties"], &new["properties"]);
        let (required_before, required_after) = (strings(&old["required"]), strings(&new["required"]));
        let closed = |schema: &Value| schema["additionalProperties"] == false;
        for (name, property) in members(before) {
            let Some(other) = after.get(name) else {
                let ignored = side == Side::Request && !closed(new);
                let class = if ignored { Class::Compatible } else { Class::Breaking };
                let rest = if ignored { ", it is ignored now" } else { "" };
                self.say(class, at, format!("property {name} removed{rest}"));
                continue;
            };
            match (required_before.contains(name), required_after.contains(name)) {
                (false, true) => self.say(side.narrowed(), at, format!("property {name} became required")),
                (true, false) => self.say(side.widened(), at, format!("property {name} became optional")),
                _ => {}
            }
            self.schema(&format!("{at}.{name}"), property, other, side);
        }
        for (name, _) in members(after).filter(|(name, _)| before.get(name).is_none()) {
            let required = required_after.contains(name);
            let class = if required && side == Side::Request {
                Class::Breaking
            } else {
                Class::Compatible
            };
            let kind = if required { "required" } else { "optional" };
            self.say(class, at, format!("{kind} property {name} added"));
        }
        match (closed(old), closed(new)) {
            (false, true) => self.say(side.narrowed(), at, "unknown properties are refused"),
            (true, false) => self.say(side.widened(), at, "unknown properties are allowed"),
            _ => {}
        }
        if let (Some(before), Some(after)) = (old.get("additionalProperties"), new.get("additionalProperties"))
            && before.is_object()
            && after.is_object()
        {
            self.schema(&format!("{at}.*"), before, after, side);
        }
    }

    /// Pairs alternatives by the component they name, and the nameless ones by their order.
    fn alternatives(&mut self, at: &str, keyword: &str, old: &Value, new: &Value, side: Side) {
        let (before, after) = (by_component(old), by_component(new));
        // More parts of an `allOf` are more demands; more members of a union are more values.
        let (gained, lost) = match keyword {
            "allOf" => (side.narrowed(), side.widened()),
            _ => (side.widened(), side.narrowed()),
        };
        for (name, schema) in &before {
            match after.get(name) {
                Some(other) => self.schema(&format!("{at}|{name}"), schema, other, side),
                None => self.say(lost, at, format!("{keyword} lost {name}")),
            }
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            self.say(gained, at, format!("{keyword} gained {name}"));
        }
    }
}

/// The component a schema refers to, also through a single wrapping `allOf`.
fn component(schema: &Value) -> Option<String> {
    let inner = match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([one]) if schema.get("properties").is_none() => one,
        _ => schema,
    };
    let reference = inner["$ref"].as_str()?;
    Some(reference.rsplit('/').next().unwrap_or(reference).to_owned())
}

/// The schema behind references and single `allOf` wrappers, with null kept from every level.
fn unwrap(document: &Document<'_>, schema: &Value) -> Value {
    let mut current = document.resolve(schema).into_owned();
    for _ in 0..8 {
        let Some([one]) = current["allOf"].as_array().map(Vec::as_slice) else {
            break;
        };
        if current.get("properties").is_some() {
            break;
        }
        let nullable = current["nullable"] == true;
        let mut next = document.resolve(one).into_owned();
        if nullable && let Some(object) = next.as_object_mut() {
            object.insert("nullable".to_owned(), Value::Bool(true));
        }
        current = next;
    }
    if current.is_null() {
        Value::Object(Map::new())
    } else {
        current
    }
}

fn by_component(list: &Value) -> BTreeMap<String, &Value> {
    let schemas = list.as_array().into_iter().flatten().enumerate();
    schemas
        .map(|(index, schema)| {
            (
                component(schema).unwrap_or_else(|| format!("alternative {index}")),
                schema,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A small document with the forms our exporter writes.
    fn base() -> Value {
        json!({
            "openapi": "3.0.3",
            "paths": {
                "/v2/orders": {
                    "post": {
                        "operationId": "createOrder",
                        "tags": ["Orders"],
                        "security": [{"ApiKey": []}, {"ClientId": []}],
                        "requestBody": {"required": true, "content": {"application/json": {
                            "schema": {"$ref": "#/components/schemas/OrderBody"}}}},
                        "responses": {
                            "201": {"description": "Created", "headers": {"location": {}}, "content": {
                                "application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                            "404": {"description": "Not found"},
                        },
                    },
                    "get": {
                        "operationId": "searchOrders",
                        "security": [{"ApiKey": []}],
                        "parameters": [
                            {"name": "wallet", "in": "query", "required": false, "schema": {"type": "string"}},
                            {"name": "chain", "in": "query", "schema": {"$ref": "#/components/schemas/Chain"}},
                        ],
                        "responses": {"200": {"content": {"application/json": {"schema": {
                            "type": "array", "maxItems": 100, "items": {"$ref": "#/components/schemas/Order"}}}}}},
                    },
                },
                "/v2/open": {"get": {"operationId": "readOpen", "security": [], "responses": {"200": {}}}},
            },
            "components": {"schemas": {
                "Chain": {"type": "string", "enum": ["BASE", "OPTIMISM"]},
                "OrderBody": {"type": "object", "required": ["amount"], "properties": {
                    "amount": {"type": "string", "pattern": "^[0-9]+$"},
                    "reference": {"type": "string", "maxLength": 255},
                    "count": {"type": "integer", "minimum": 1, "default": 1},
                }},
                "Order": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string", "description": "The id"},
                    "state": {"$ref": "#/components/schemas/State"},
                    "total": {"type": "number"},
                    "note": {"type": "string", "nullable": true},
                    "route": {"anyOf": [{"$ref": "#/components/schemas/Direct"}, {"$ref": "#/components/schemas/Bridge"}]},
                }},
                "State": {"type": "string", "enum": ["open", "paid"]},
                "Direct": {"type": "object", "properties": {"fee": {"type": "string"}}},
                "Bridge": {"type": "object", "properties": {"hops": {"type": "integer"}}},
            }},
        })
    }

    fn schema<'v>(document: &'v mut Value, name: &str) -> &'v mut Value {
        &mut document["components"]["schemas"][name]
    }

    fn order_post(document: &mut Value) -> &mut Value {
        &mut document["paths"]["/v2/orders"]["post"]
    }

    fn order_search(document: &mut Value) -> &mut Value {
        &mut document["paths"]["/v2/orders"]["get"]
    }

    fn remove(value: &mut Value, name: &str) {
        value.as_object_mut().unwrap().remove(name);
    }

    fn push(value: &mut Value, item: Value) {
        value.as_array_mut().unwrap().push(item);
    }

    type Mutation = (&'static str, Class, fn(&mut Value));

    fn mutations_of_operations() -> Vec<Mutation> {
        vec![
            ("operation removed", Class::Breaking, |d| {
                remove(&mut d["paths"]["/v2/orders"], "get")
            }),
            ("operation added", Class::Compatible, |d| {
                d["paths"]["/v2/new"] = json!({"get": {"responses": {}}})
            }),
            ("operationId changed", Class::Breaking, |d| {
                order_post(d)["operationId"] = json!("makeOrder")
            }),
            ("operation deprecated", Class::Compatible, |d| {
                order_post(d)["deprecated"] = json!(true)
            }),
            ("tag changed", Class::Cosmetic, |d| {
                order_post(d)["tags"] = json!(["Other"])
            }),
            ("credential refused", Class::Breaking, |d| {
                order_post(d)["security"] = json!([{"ApiKey": []}])
            }),
            ("credential accepted", Class::Compatible, |d| {
                push(&mut order_search(d)["security"], json!({"Session": []}))
            }),
            ("credential now needed", Class::Breaking, |d| {
                d["paths"]["/v2/open"]["get"]["security"] = json!([{"ApiKey": []}]);
            }),
            ("query became required", Class::Breaking, |d| {
                order_search(d)["parameters"][0]["required"] = json!(true)
            }),
            ("query removed", Class::Breaking, |d| {
                order_search(d)["parameters"].as_array_mut().unwrap().remove(0);
            }),
            ("optional query added", Class::Compatible, |d| {
                push(
                    &mut order_search(d)["parameters"],
                    json!({"name": "z", "in": "query", "schema": {}}),
                );
            }),
            ("required query added", Class::Breaking, |d| {
                push(
                    &mut order_search(d)["parameters"],
                    json!({"name": "z", "in": "query", "required": true, "schema": {}}),
                );
            }),
            ("request body became optional", Class::Compatible, |d| {
                order_post(d)["requestBody"]["required"] = json!(false)
            }),
            ("request body added", Class::Breaking, |d| {
                order_search(d)["requestBody"] = json!({"required": true, "content": {}});
            }),
            ("error status removed", Class::Compatible, |d| {
                remove(&mut order_post(d)["responses"], "404")
            }),
            ("error status added", Class::Compatible, |d| {
                order_post(d)["responses"]["409"] = json!({})
            }),
            ("success status changed", Class::Breaking, |d| {
                let created = order_post(d)["responses"]["201"].clone();
                order_post(d)["responses"]["200"] = created;
                remove(&mut order_post(d)["responses"], "201");
            }),
            ("response header removed", Class::Breaking, |d| {
                remove(&mut order_post(d)["responses"]["201"], "headers")
            }),
            ("media type removed", Class::Breaking, |d| {
                order_post(d)["requestBody"]["content"] = json!({"text/plain": {}});
            }),
        ]
    }

    fn mutations_of_schemas() -> Vec<Mutation> {
        vec![
            ("optional request property added", Class::Compatible, |d| {
                schema(d, "OrderBody")["properties"]["more"] = json!({"type": "string"});
            }),
            ("required request property added", Class::Breaking, |d| {
                schema(d, "OrderBody")["properties"]["more"] = json!({"type": "string"});
                push(&mut schema(d, "OrderBody")["required"], json!("more"));
            }),
            ("request property ignored", Class::Compatible, |d| {
                remove(&mut schema(d, "OrderBody")["properties"], "count")
            }),
            ("request closed to unknown properties", Class::Breaking, |d| {
                schema(d, "OrderBody")["additionalProperties"] = json!(false);
            }),
            ("response property removed", Class::Breaking, |d| {
                remove(&mut schema(d, "Order")["properties"], "total")
            }),
            ("response property added", Class::Compatible, |d| {
                schema(d, "Order")["properties"]["more"] = json!({"type": "string"});
            }),
            ("response property became optional", Class::Breaking, |d| {
                schema(d, "Order")["required"] = json!([])
            }),
            ("request enum widened", Class::Compatible, |d| {
                push(&mut schema(d, "Chain")["enum"], json!("POLYGON"))
            }),
            ("request enum narrowed", Class::Breaking, |d| {
                schema(d, "Chain")["enum"] = json!(["BASE"])
            }),
            ("response enum widened", Class::Breaking, |d| {
                push(&mut schema(d, "State")["enum"], json!("void"))
            }),
            ("response enum narrowed", Class::Compatible, |d| {
                schema(d, "State")["enum"] = json!(["open"])
            }),
            ("type changed", Class::Breaking, |d| {
                schema(d, "Order")["properties"]["total"] = json!({"type": "string"})
            }),
            ("response number became integer", Class::Compatible, |d| {
                schema(d, "Order")["properties"]["total"]["type"] = json!("integer");
            }),
            ("request string shortened", Class::Breaking, |d| {
                schema(d, "OrderBody")["properties"]["reference"]["maxLength"] = json!(100);
            }),
            ("request string lengthened", Class::Compatible, |d| {
                schema(d, "OrderBody")["properties"]["reference"]["maxLength"] = json!(500);
            }),
            ("pattern changed", Class::Breaking, |d| {
                schema(d, "OrderBody")["properties"]["amount"]["pattern"] = json!("^x$");
            }),
            ("default changed", Class::Breaking, |d| {
                schema(d, "OrderBody")["properties"]["count"]["default"] = json!(2)
            }),
            ("response became nullable", Class::Breaking, |d| {
                schema(d, "Order")["properties"]["total"]["nullable"] = json!(true);
            }),
            ("response no longer null", Class::Compatible, |d| {
                remove(&mut schema(d, "Order")["properties"]["note"], "nullable")
            }),
            ("description changed", Class::Cosmetic, |d| {
                schema(d, "Order")["properties"]["id"]["description"] = json!("Another text");
            }),
            ("response union gained a member", Class::Breaking, |d| {
                push(
                    &mut schema(d, "Order")["properties"]["route"]["anyOf"],
                    json!({"$ref": "#/components/schemas/State"}),
                );
            }),
            ("response union lost a member", Class::Compatible, |d| {
                schema(d, "Order")["properties"]["route"]["anyOf"]
                    .as_array_mut()
                    .unwrap()
                    .pop();
            }),
            ("change inside a union member", Class::Breaking, |d| {
                remove(&mut schema(d, "Bridge")["properties"], "hops")
            }),
            ("more items in a response", Class::Breaking, |d| {
                order_search(d)["responses"]["200"]["content"]["application/json"]["schema"]["maxItems"] = json!(200);
            }),
        ]
    }

    #[test]
    fn every_kind_of_change_has_its_class() {
        for (name, class, mutate) in mutations_of_operations().into_iter().chain(mutations_of_schemas()) {
            let (old, mut new) = (base(), base());
            mutate(&mut new);
            let changes = compare(&old, &new);
            assert_eq!(
                changes.first().map(|change| change.class),
                Some(class),
                "{name}: {changes:?}"
            );
        }
    }

    #[test]
    fn equal_documents_have_no_changes() {
        assert!(compare(&base(), &base()).is_empty());
    }

    #[test]
    fn the_order_of_union_members_does_not_matter() {
        let (old, mut new) = (base(), base());
        schema(&mut new, "Order")["properties"]["route"]["anyOf"]
            .as_array_mut()
            .unwrap()
            .reverse();
        assert!(compare(&old, &new).is_empty());
    }

    #[test]
    fn wrapping_a_nullable_reference_differently_changes_nothing() {
        let (mut old, mut new) = (base(), base());
        schema(&mut old, "Order")["properties"]["state"] =
            json!({"nullable": true, "allOf": [{"$ref": "#/components/schemas/State"}]});
        schema(&mut new, "State")["nullable"] = json!(true);
        assert!(compare(&old, &new).is_empty());
    }

    #[test]
    fn a_change_is_named_with_its_place() {
        let (old, mut new) = (base(), base());
        remove(&mut schema(&mut new, "Order")["properties"], "total");
        let printed: Vec<String> = compare(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["breaking   Order (response): property total removed"]);
    }
}
