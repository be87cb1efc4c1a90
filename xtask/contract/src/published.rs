//! Compares the exported documents with the contract by meaning, not by text.
//!
//! A *difference* is a change that a client or a test written for the contract can notice; compatible changes are left
//! out. Schemas are compared by meaning: references are resolved, `allOf` is merged, and alternatives have no order.
//! Both spellings of null are the same, and descriptions are ignored. The contract declares credentials as header
//! parameters; our security schemes count as these headers. `deviations` lists the differences that are allowed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::document::{Document, Operation, path_form};
use crate::walk::{Difference, Part, Side, Walk, What};

/// Header parameters of the contract that are credentials, and `origin`, which no document declares because the browser
/// sends it (D27).
const CREDENTIAL_HEADERS: [&str; 5] = [
    "x-api-key",
    "x-client-id",
    "x-orchestrator-key",
    "authorization",
    "origin",
];

/// One difference that a client of the contract can notice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// `GET /v2/payments`
    pub operation: String,
    /// The location and the difference: `query parameter token: enum missing [] extra ["DAI"]`.
    pub text: String,
}

/// Result of a comparison of all documents.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Differences in operations that exist on both sides.
    pub findings: Vec<Finding>,
    /// Operations of the contract that are not exported.
    pub missing: BTreeSet<String>,
    /// Exported operations that the contract does not have.
    pub extra: BTreeSet<String>,
    /// Operations of the contract that are also exported, each by its name in the contract.
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
            let walk = Walk {
                old: document,
                new: *our_document,
                counts: |difference| text(difference).is_some(),
                is_shared: true,
                headers_elsewhere: &CREDENTIAL_HEADERS,
            };
            let differences = walk.operation(&operation, our_operation);
            let mut texts: BTreeSet<String> = differences.iter().filter_map(text).collect();
            texts.extend(credentials(&walk, &operation, our_operation));
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

/// The text of a difference that a client of the contract can notice; `None` if the difference is compatible.
fn text(difference: &Difference) -> Option<String> {
    let (at, side) = (&difference.place.path, difference.place.side);
    let is_request = side == Side::Request;
    match &difference.what {
        What::Lost(part) => match part {
            Part::Parameter | Part::Response(_) => Some(format!("{at}: missing")),
            Part::Body => Some("request body missing".to_owned()),
            Part::Header(name) => Some(format!("{at}: header {name} missing")),
            Part::MediaType(name) => Some(format!("{at}: media type {name} missing")),
            Part::Property(name, _) => Some(format!("{at}.{name}: property missing")),
            Part::Values => Some(format!("{at}.*: map value schema missing")),
            Part::Variant(..) => None,
        },
        What::Gained(part, is_required) => match part {
            Part::Parameter => is_required.then(|| format!("{at}: extra required")),
            Part::Body => is_required.then(|| "extra request body".to_owned()),
            Part::Response(status) => status.starts_with('2').then(|| format!("{at}: extra")),
            Part::Property(name, _) if is_request => {
                is_required.then(|| format!("{at}.{name}: extra required property"))
            }
            Part::Property(name, is_closed) => {
                is_closed.then(|| format!("{at}.{name}: extra property, contract closes the object"))
            }
            Part::Variant(kind, true) if !is_request => Some(format!("{at}: extra union variant of type {kind}")),
            _ => None,
        },
        What::Required(part, is_required) => {
            let place = match part {
                Part::Body => "request body".to_owned(),
                Part::Property(name, _) if is_request || !is_required => format!("{at}.{name}:"),
                Part::Property(..) => return None,
                _ => format!("{at}:"),
            };
            Some(format!("{place} required contract={} ours={is_required}", !is_required))
        }
        What::Nullable(is_nullable) => {
            (is_request != *is_nullable).then(|| format!("{at}: nullable contract={} ours={is_nullable}", !is_nullable))
        }
        What::Kind(None, _) => None,
        What::Kind(Some(contract), None) => Some(format!("{at}: ours is untyped, contract is {contract}")),
        What::Kind(Some(contract), Some(ours)) => {
            let is_better = match (contract.as_str(), ours.as_str()) {
                ("number", "integer") => !is_request,
                ("integer", "number") => is_request,
                _ => false,
            };
            (!is_better).then(|| format!("{at}: type contract={contract} ours={ours}"))
        }
        What::Enumeration(contract, ours) => enumeration(contract.as_deref(), ours.as_deref(), at, side),
        What::Constraint(keyword, Some(contract), ours) => {
            let ours = ours.as_ref().map_or_else(|| "none".to_owned(), Value::to_string);
            Some(format!("{at}: {keyword} contract={contract} ours={ours}"))
        }
        What::FewerVariants(contract, ours) => Some(format!("{at}: union has {ours} variants, contract {contract}")),
        What::Constraint(..) | What::Default(..) | What::Closed(_) | What::Prose(_) => None,
    }
}

fn enumeration(contract: Option<&[Value]>, ours: Option<&[Value]>, at: &str, side: Side) -> Option<String> {
    match (contract, ours) {
        (Some(contract), None) => Some(format!("{at}: enum missing in ours, contract {}", json!(contract))),
        (None, Some(ours)) => (side == Side::Request).then(|| format!("{at}: ours restricts to enum {}", json!(ours))),
        (Some(contract), Some(ours)) => {
            let missing: Vec<_> = contract.iter().filter(|value| !ours.contains(value)).collect();
            let extra: Vec<_> = ours.iter().filter(|value| !contract.contains(value)).collect();
            (!missing.is_empty() || !extra.is_empty())
                .then(|| format!("{at}: enum missing {} extra {}", json!(missing), json!(extra)))
        }
        (None, None) => None,
    }
}

/// Compares credentials. If the contract declares a credential as a header parameter, a security scheme of ours that
/// uses this header satisfies the contract.
fn credentials(walk: &Walk<'_>, theirs: &Operation<'_>, ours: &Operation<'_>) -> Vec<String> {
    let alternatives = walk.new.credentials(ours);
    let parameters = walk.old.parameters(theirs);
    let headers = parameters.iter().filter(|((place, name), _)| {
        place == "header" && name != "origin" && CREDENTIAL_HEADERS.contains(&name.as_str())
    });
    headers
        .filter_map(|((_, name), parameter)| {
            let at = format!("header parameter {}", parameter["name"].as_str().unwrap_or(name));
            if !alternatives.iter().any(|alternative| alternative.contains(name)) {
                return Some(format!("{at}: missing (no security scheme carries it)"));
            }
            let always = alternatives.iter().all(|alternative| alternative.contains(name));
            (always && parameter["required"] != true).then(|| format!("{at}: required contract=false ours=true"))
        })
        .collect()
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

    /// Each line has four parts: `request` or `response`, the schema of the contract, our schema, and the differences
    /// that a client can notice.
    const SCHEMAS: &str = r##"
request | {"type": "string", "enum": ["USDC", "USDT"]} | {"type": "string", "enum": ["USDC", "DAI"]} | request: enum missing ["USDT"] extra ["DAI"]
request | {"type": "string"} | {"type": "string", "enum": ["a"]} | request: ours restricts to enum ["a"]
response | {"type": "string"} | {"type": "string", "enum": ["a"]} |
request | {"type": "string", "maxLength": 100} | {"type": "string", "maxLength": 50} | request: maxLength contract=100 ours=50
request | {"type": "string", "maxLength": 100} | {"type": "string"} | request: maxLength contract=100 ours=none
request | {"type": "string"} | {"type": "string", "maxLength": 100} |
request | {"type": "integer", "minimum": 0, "exclusiveMinimum": true} | {"type": "integer", "exclusiveMinimum": 0.0} |
request | {"properties": {"a": {}}} | {"properties": {"a": {}}, "required": ["a"]} | request.a: required contract=false ours=true
response | {"properties": {"a": {}}} | {"properties": {"a": {}}, "required": ["a"]} |
response | {"properties": {"a": {}}, "required": ["a"]} | {"properties": {"a": {}}} | response 200.a: required contract=true ours=false
request | {"properties": {"a": {}}} | {"properties": {"b": {}}, "required": ["b"]} | request.a: property missing & request.b: extra required property
response | {"type": "string"} | {"type": "string", "nullable": true} | response 200: nullable contract=false ours=true
response | {"type": "string", "nullable": true} | {"type": "string"} |
response | {"type": "string", "nullable": true} | {"type": ["string", "null"]} |
request | {"type": "string", "nullable": true} | {"type": "string"} | request: nullable contract=true ours=false
response | {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}} | {"$ref": "#/components/schemas/Maybe"} |
response | {"$ref": "#/components/schemas/Maybe"} | {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}} |
response | {"$ref": "#/components/schemas/Maybe"} | {"anyOf": [{"$ref": "#/components/schemas/Maybe"}, {"type": "null"}]} |
response | {"properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a", "b"]} | {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"b": {"type": "number"}}, "required": ["b"]}]} |
response | {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"b": {"type": "number"}}, "required": ["b"]}]} | {"properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a", "b"]} |
response | {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Base"}]} | {"oneOf": [{"$ref": "#/components/schemas/Base"}, {"type": "string"}]} |
response | {"anyOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"z": {}}, "required": ["z"]}]} | {"$ref": "#/components/schemas/Base"} | response 200: union has 1 variants, contract 2 & response 200|1.z: property missing
response | {"type": "number"} | {"type": "integer"} |
request | {"type": "number"} | {"type": "integer"} | request: type contract=number ours=integer
response | {"type": "integer"} | {"type": "number"} | response 200: type contract=integer ours=number"##;

    #[test]
    fn schemas_differ_if_a_client_notices() {
        for case in SCHEMAS.trim().lines() {
            let [side, contract, ours, found] = case.split(" |").map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("{case}")
            };
            let body = |schema: &str| {
                let schema: Value = serde_json::from_str(schema).unwrap();
                let body = json!({"content": {"application/json": {"schema": schema}}});
                match side {
                    "request" => json!({"requestBody": body, "responses": {}}),
                    _ => json!({"responses": {"200": body}}),
                }
            };
            let expected: Vec<&str> = found.split(" & ").filter(|text| !text.is_empty()).collect();
            assert_eq!(texts(body(contract), body(ours)), expected, "{case}");
        }
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
    fn security_schemes_match_credential_headers_and_origin_is_ignored() {
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
    fn bodies_without_schema_in_the_contract_are_skipped() {
        let contract = json!({"responses": {"200": {"content": {"application/json": {}}}}});
        let ours = json!({"responses": {"200": {"description": "x"}}});
        assert!(texts(contract, ours).is_empty());
    }
}
