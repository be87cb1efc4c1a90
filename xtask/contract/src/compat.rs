//! What changed between two versions of our own document, and does it break a client written against the older one?
//!
//! In a request, accepting less breaks; in a response, promising less or sending something new breaks. A change inside
//! a component is reported once for each direction the component is used in.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::document::{Document, Operation, members};
use crate::walk::{Difference, Part, Side, Walk, What};

/// Constraints whose smaller number is the tighter one, and those whose larger number is.
const UPPER_BOUNDS: [&str; 5] = ["maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"];
const LOWER_BOUNDS: [&str; 5] = ["minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties"];

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
    let walk = Walk {
        old,
        new,
        counts: |difference| changes(difference).iter().any(|(class, _)| *class != Class::Cosmetic),
        is_shared: false,
        headers_elsewhere: &[],
    };
    let mut found = BTreeSet::new();
    let mut say = |class, at: &str, what: String| {
        let at = at.to_owned();
        found.insert(Change { class, at, what });
    };
    let (before, after) = (old.operations(), new.operations());
    for operation in &before {
        let name = operation.name();
        let Some(other) = after.iter().find(|candidate| candidate.name() == name) else {
            say(Class::Breaking, &name, "operation removed".to_owned());
            continue;
        };
        for (class, what) in described(&walk, operation, other) {
            say(class, &name, what);
        }
        for difference in walk.operation(operation, other) {
            for (class, what) in changes(&difference) {
                say(class, &difference.place.near, what);
            }
        }
    }
    for operation in after
        .iter()
        .filter(|new| before.iter().all(|old| old.name() != new.name()))
    {
        say(Class::Compatible, &operation.name(), "operation added".to_owned());
    }
    found
}

/// Changes of an operation outside of its parameters and bodies.
fn described(walk: &Walk<'_>, old: &Operation<'_>, new: &Operation<'_>) -> Vec<(Class, String)> {
    let mut found = Vec::new();
    let (before, after) = (old.body, new.body);
    if before["operationId"] != after["operationId"] {
        let what = format!(
            "operationId {} became {}, which renames the method in generated clients",
            before["operationId"], after["operationId"]
        );
        found.push((Class::Breaking, what));
    }
    match (before["deprecated"] == true, after["deprecated"] == true) {
        (false, true) => found.push((Class::Compatible, "deprecated".to_owned())),
        (true, false) => found.push((Class::Compatible, "no longer deprecated".to_owned())),
        _ => {}
    }
    for text in ["tags", "summary", "description"] {
        if before[text] != after[text] {
            found.push((Class::Cosmetic, format!("{text} changed")));
        }
    }
    let alternatives = |document: &Document<'_>, operation: &Operation<'_>| -> BTreeSet<String> {
        let required = document.security(operation).into_iter().flatten();
        let names = |one: &Value| {
            members(one)
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(" and ")
        };
        required.map(names).collect()
    };
    let (before, after) = (alternatives(&walk.old, old), alternatives(&walk.new, new));
    match (before.is_empty(), after.is_empty()) {
        (true, false) => found.push((Class::Breaking, "a credential is now required".to_owned())),
        (false, true) => found.push((Class::Compatible, "no credential is required any more".to_owned())),
        _ => {
            let lost = before.difference(&after);
            found.extend(lost.map(|name| (Class::Breaking, format!("credential {name} is no longer accepted"))));
            let gained = after.difference(&before);
            found.extend(gained.map(|name| (Class::Compatible, format!("credential {name} is accepted"))));
        }
    }
    found
}

/// Fewer values are allowed than before.
fn narrowed(side: Side) -> Class {
    if side == Side::Request {
        Class::Breaking
    } else {
        Class::Compatible
    }
}

/// More values are allowed than before.
fn widened(side: Side) -> Class {
    if side == Side::Request {
        Class::Compatible
    } else {
        Class::Breaking
    }
}

/// What a difference does to clients, in its parts.
fn changes(difference: &Difference) -> Vec<(Class, String)> {
    let side = difference.place.side;
    let (narrowed, widened) = (narrowed(side), widened(side));
    let either = |is_narrowed: bool| if is_narrowed { narrowed } else { widened };
    let path = &difference.place.path;
    let subject = |part: &Part| match part {
        Part::Parameter | Part::Response(_) => path.clone(),
        Part::Body => "request body".to_owned(),
        Part::Header(name) => format!("header {name} of {path}"),
        Part::MediaType(name) => format!("media type {name} of {path}"),
        Part::Property(name, _) => format!("property {name}"),
        Part::Values => "values of the map".to_owned(),
        Part::Variant(name, _) => format!("alternative {name}"),
    };
    let of_status = |status: &str| {
        if status.starts_with('2') {
            Class::Breaking
        } else {
            Class::Compatible
        }
    };
    let one = match &difference.what {
        What::Lost(part) => {
            let class = match part {
                Part::Response(status) => of_status(status),
                Part::Property(_, is_closed) if side == Side::Request && !is_closed => Class::Compatible,
                Part::Variant(..) => narrowed,
                Part::Values => widened,
                _ => Class::Breaking,
            };
            (class, format!("{} removed", subject(part)))
        }
        What::Gained(part, is_required) => {
            let class = match part {
                Part::Response(status) => of_status(status),
                Part::Variant(..) => widened,
                _ if *is_required => narrowed,
                _ => Class::Compatible,
            };
            let kind = if *is_required { "required " } else { "" };
            (class, format!("{kind}{} added", subject(part)))
        }
        What::Required(part, is_required) => {
            let now = if *is_required { "required" } else { "optional" };
            (either(*is_required), format!("{} became {now}", subject(part)))
        }
        What::Nullable(true) => (widened, "may now be null".to_owned()),
        What::Nullable(false) => (narrowed, "may no longer be null".to_owned()),
        What::Kind(before, after) => match (before.as_deref(), after.as_deref()) {
            (Some("integer"), Some("number")) => (widened, "integer became number".to_owned()),
            (Some("number"), Some("integer")) => (narrowed, "number became integer".to_owned()),
            (Some(before), Some(after)) => (Class::Breaking, format!("type {before} became {after}")),
            (before, after) => {
                let (before, after) = (before.unwrap_or("any"), after.unwrap_or("any"));
                (either(before == "any"), format!("type {before} became {after}"))
            }
        },
        What::Enumeration(before, after) => match (before, after) {
            (Some(before), Some(after)) => {
                let lost = before.iter().filter(|value| !after.contains(value));
                let gained = after.iter().filter(|value| !before.contains(value));
                let lost = lost.map(|value| (narrowed, format!("value {value} removed")));
                return lost
                    .chain(gained.map(|value| (widened, format!("value {value} added"))))
                    .collect();
            }
            (None, _) => (narrowed, "became an enumeration".to_owned()),
            (_, None) => (widened, "is no longer an enumeration".to_owned()),
        },
        What::Constraint(keyword, Some(before), Some(after)) => {
            let is_larger = after.as_f64() > before.as_f64();
            let class = match (UPPER_BOUNDS.contains(keyword), LOWER_BOUNDS.contains(keyword)) {
                (true, _) => either(!is_larger),
                (_, true) => either(is_larger),
                _ => Class::Breaking,
            };
            (class, format!("{keyword} {before} became {after}"))
        }
        What::Constraint(keyword, Some(before), None) => (widened, format!("{keyword} {before} removed")),
        What::Constraint(keyword, None, Some(after)) => (narrowed, format!("{keyword} {after} added")),
        What::Default(before, after) => (Class::Breaking, format!("default {before} became {after}")),
        What::Closed(is_closed) => {
            let now = if *is_closed { "refused" } else { "allowed" };
            (either(*is_closed), format!("unknown properties are {now}"))
        }
        What::Prose => (Class::Cosmetic, format!("text or example of {path} changed")),
        What::FewerVariants(..) | What::Constraint(_, None, None) => return Vec::new(),
    };
    vec![one]
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
