//! Rules of this repository for exported documents that neither a linter nor the score checks.
//!
//! Each violation names its JSON pointer. The meaning of the documents is checked by `contract`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::document::{Document, Operation, escape, media_types, members};

/// Headers that contain credentials. Documents must declare them as security schemes, never as parameters.
const CREDENTIAL_HEADERS: [&str; 6] = [
    "x-api-key",
    "x-client-id",
    "x-orchestrator-key",
    "authorization",
    "cookie",
    "origin",
];

/// All violations in a document, as `pointer: what is wrong`.
pub fn violations(root: &Value) -> Vec<String> {
    let mut check = Check {
        document: Document::new(root),
        found: BTreeSet::new(),
    };
    check.operations();
    check.components(&root["components"]["schemas"]);
    check
        .found
        .into_iter()
        .map(|(pointer, what)| format!("{pointer}: {what}"))
        .collect()
}

struct Check<'a> {
    document: Document<'a>,
    found: BTreeSet<(String, String)>,
}

impl<'a> Check<'a> {
    fn say(&mut self, pointer: &str, what: impl Into<String>) {
        self.found.insert((pointer.to_owned(), what.into()));
    }

    fn operations(&mut self) {
        for (index, tag) in self
            .document
            .member("tags")
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let name = tag["name"].as_str().unwrap_or_default();
            if name.contains('/') {
                self.say(
                    &format!("/tags/{index}"),
                    format!("tag {name} has a slash, which breaks deep links"),
                );
            }
        }
        let operations = self.document.operations();
        let ids: BTreeSet<&str> = operations.iter().filter_map(id).collect();
        for operation in &operations {
            let pointer = operation.pointer();
            if let Some(id) = id(operation).filter(|id| !is_camel_case(id)) {
                self.say(
                    &pointer,
                    format!("operationId {id} is not a short camelCase verb and noun"),
                );
            }
            self.parameters(operation);
            self.bodies(operation, &pointer);
            for (status, response) in members(&operation.body["responses"]) {
                for (name, link) in members(&response["links"]) {
                    let target = link["operationId"].as_str().unwrap_or_default();
                    if !ids.contains(target) {
                        let at = format!("{pointer}/responses/{status}/links/{}", escape(name));
                        self.say(&at, format!("operation {target} does not exist"));
                    }
                }
            }
        }
    }

    fn parameters(&mut self, operation: &Operation<'a>) {
        for ((place, name), parameter) in self.document.parameters(operation) {
            let pointer = format!("{}/parameters/{}", operation.pointer(), escape(&name));
            if place == "header" && CREDENTIAL_HEADERS.contains(&name.as_str()) {
                self.say(
                    &pointer,
                    "a credential must be a security scheme, not a header parameter",
                );
            }
            self.schema(&parameter["schema"], &format!("{pointer}/schema"));
        }
    }

    fn bodies(&mut self, operation: &Operation<'a>, pointer: &str) {
        if let Some(body) = operation.body.get("requestBody") {
            let body = self.document.resolve(body).into_owned();
            self.content(&body["content"], &format!("{pointer}/requestBody/content"));
        }
        for (status, response) in members(&operation.body["responses"]) {
            let at = format!("{pointer}/responses/{status}");
            let response = self.document.resolve(response).into_owned();
            if status.starts_with('4') || status.starts_with('5') {
                self.error_body(&response["content"], &at);
            }
            self.content(&response["content"], &format!("{at}/content"));
        }
    }

    fn error_body(&mut self, content: &Value, pointer: &str) {
        let media: Vec<_> = media_types(content).into_iter().collect();
        let [(name, media)] = media.as_slice() else {
            return self.say(
                pointer,
                "an error response must have exactly one media type, application/json",
            );
        };
        let reference = media["schema"]["$ref"].as_str().unwrap_or_default();
        if name != "application/json" || !reference.ends_with("/ErrorBody") {
            self.say(
                pointer,
                "an error response must be application/json with a reference to the ErrorBody component",
            );
        }
    }

    fn content(&mut self, content: &Value, pointer: &str) {
        for (name, media) in media_types(content) {
            self.schema(&media["schema"], &format!("{pointer}/{}/schema", escape(&name)));
        }
    }

    fn components(&mut self, schemas: &Value) {
        for (name, schema) in members(schemas) {
            let at = format!("/components/schemas/{}", escape(name));
            if schema["type"] == "object" && schema["description"].as_str().is_none_or(str::is_empty) {
                self.say(&at, "description is missing");
            }
            self.schema(schema, &at);
        }
    }

    fn schema(&mut self, schema: &Value, pointer: &str) {
        self.nullable(schema, pointer);
        for (name, property) in members(&schema["properties"]) {
            let at = format!("{pointer}/properties/{}", escape(name));
            if property.get("example").is_none() && !self.explains_itself(property, 0) {
                self.say(&at, "example is missing");
            }
            self.schema(property, &at);
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(keyword) {
                self.schema(inner, &format!("{pointer}/{keyword}"));
            }
        }
        for keyword in ["allOf", "oneOf", "anyOf"] {
            for (index, part) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                self.schema(part, &format!("{pointer}/{keyword}/{index}"));
            }
        }
    }

    fn nullable(&mut self, schema: &Value, pointer: &str) {
        let combined = ["$ref", "allOf", "oneOf", "anyOf"]
            .iter()
            .any(|keyword| schema.get(keyword).is_some());
        if schema.get("nullable").is_some() && combined {
            self.say(
                pointer,
                "a nullable reference must be a $ref to a component that is itself nullable",
            );
        }
    }

    /// Whether a value of this schema needs no example of its own. That is so if the component of the schema has an
    /// example, if the schema is an enumeration, or if its parts are checked one by one.
    fn explains_itself(&self, schema: &Value, depth: usize) -> bool {
        if depth > 8 {
            return true;
        }
        let target = self.document.resolve(schema);
        if target.get("example").is_some() || target.get("enum").is_some() || target.get("properties").is_some() {
            return true;
        }
        if let Some(inner) = target.get("items").or_else(|| target.get("additionalProperties")) {
            return inner.is_object() && self.explains_itself(inner, depth + 1);
        }
        ["allOf", "oneOf", "anyOf"].iter().any(|keyword| {
            let parts = target[keyword].as_array();
            parts.is_some_and(|parts| parts.iter().any(|part| self.explains_itself(part, depth + 1)))
        })
    }
}

fn id<'a>(operation: &Operation<'a>) -> Option<&'a str> {
    operation.body["operationId"].as_str()
}

/// A lower-case start, only letters and digits, and no framework or version name.
fn is_camel_case(id: &str) -> bool {
    let starts_lower = id.starts_with(|first: char| first.is_ascii_lowercase());
    let plain = id.chars().all(|character| character.is_ascii_alphanumeric());
    let mut pairs = id.as_bytes().windows(2);
    let versioned = pairs.any(|pair| matches!(pair, [b'V' | b'v', digit] if digit.is_ascii_digit()));
    starts_lower && plain && !versioned && !id.contains("Controller")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tidy() -> Value {
        json!({
            "tags": [{"name": "Orders", "description": "Orders of a shop"}],
            "paths": {"/v2/orders/{id}": {"post": {
                "operationId": "createOrder",
                "summary": "Create an order",
                "tags": ["Orders"],
                "security": [{"ApiKey": []}],
                "parameters": [{"in": "path", "name": "id", "required": true, "description": "The order",
                    "schema": {"type": "string", "pattern": "^[0-9]+$"}}],
                "requestBody": {"content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/OrderBody"}, "example": {"amount": "1"}}}},
                "responses": {
                    "201": {"content": {"application/json": {
                        "schema": {"$ref": "#/components/schemas/OrderBody"}, "example": {"amount": "1"}}}},
                    "404": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}},
                },
            }}},
            "components": {"schemas": {
                "OrderBody": {"type": "object", "description": "What is ordered", "properties": {
                    "amount": {"type": "string", "maxLength": 78, "description": "How much", "example": "1"},
                    "lines": {"type": "array", "maxItems": 10, "description": "Lines",
                        "items": {"$ref": "#/components/schemas/Line"}},
                    "state": {"$ref": "#/components/schemas/State"},
                }},
                "Line": {"type": "object", "description": "One article", "properties": {
                    "kind": {"type": "string", "enum": ["line"], "description": "Always line"},
                }},
                "State": {"type": "string", "nullable": true, "enum": ["open", "paid"], "description": "The state"},
                "ErrorBody": {"type": "object", "description": "What went wrong", "properties": {
                    "message": {"type": "string", "maxLength": 100, "description": "What went wrong", "example": "No"},
                }},
            }},
        })
    }

    const ORDER: &str = "/paths/~1v2~1orders~1{id}/post";

    /// The findings in a document in which the member at the pointer has this value. Null removes the member; in a
    /// list, the value becomes a new entry.
    fn found(pointer: &str, value: Value) -> Vec<String> {
        let mut document = tidy();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let name = &name.replace("~1", "/");
        match document.pointer_mut(parent).unwrap() {
            Value::Array(list) => list.push(value),
            Value::Object(members) if value.is_null() => drop(members.remove(name).unwrap()),
            parent => parent[name] = value,
        }
        violations(&document)
    }

    /// Each line has the changed member, its new value, and the finding. The first word `post` means the operation; any
    /// other first word means a component.
    const CASES: &str = r##"
OrderBody/properties/state | {"nullable": true, "allOf": [{"$ref": "#/components/schemas/State"}]} | a nullable reference must be a $ref to a component that is itself nullable
ErrorBody/description | null | description is missing
ErrorBody/properties/message/example | null | example is missing
/tags/0/name | "V2/Orders" | tag V2/Orders has a slash, which breaks deep links
post/operationId | "create_order" | operationId create_order is not a short camelCase verb and noun
post/parameters/1 | {"in": "header", "name": "X-Api-Key"} | a credential must be a security scheme, not a header parameter
post/responses/201/links | {"read": {"operationId": "getOrder"}} | operation getOrder does not exist
post/responses/404/content | null | an error response must have exactly one media type, application/json
post/responses/404/content/application~1json/schema/$ref | "#/components/schemas/Line" | an error response must be application/json with a reference to the ErrorBody component"##;

    #[test]
    fn a_tidy_document_has_no_violations() {
        assert_eq!(violations(&tidy()), Vec::<String>::new());
    }

    #[test]
    fn every_rule_finds_its_violation_and_names_the_location() {
        for case in CASES.trim().lines() {
            let [place, value, what] = case.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{case}")
            };
            let (first, rest) = place.split_once('/').unwrap();
            let (scope, pointer) = match first {
                "" => ("/".to_owned(), place.to_owned()),
                "post" => (ORDER.to_owned(), format!("{ORDER}/{rest}")),
                name => {
                    let component = format!("/components/schemas/{name}");
                    (component.clone(), format!("{component}/{rest}"))
                }
            };
            let violations = found(&pointer, serde_json::from_str(value).unwrap());
            let is_said = |one: &String| one.starts_with(&scope) && one.ends_with(&format!(": {what}"));
            assert!(violations.iter().any(is_said), "{case}: {violations:?}");
        }
    }

    #[test]
    fn operation_ids_are_camel_case() {
        assert!(is_camel_case("createRequest"));
        for id in [
            "CreateRequest",
            "create_request",
            "requestControllerV2",
            "PayController_pay_v2",
            "createV2Request",
        ] {
            assert!(!is_camel_case(id), "{id}");
        }
    }
}
