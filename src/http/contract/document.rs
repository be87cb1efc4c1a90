//! The published documents: what holds for every operation is said here, once, and what the framework's printer cannot
//! say is added to its output. The service serves exactly the committed text of [`complete`].
//!
//! Source: decisions D28; decisions D29.

use crate::http::{
    contract::apis,
    error::{ErrorBody, error_response, meaning},
    gate::{access::op, scheme::Scheme},
};
use indexmap::IndexMap;
use poem::{
    endpoint::BoxEndpoint,
    http::{Method, StatusCode},
};
use poem_openapi::{
    OpenApi, OpenApiService,
    registry::{MetaApi, MetaOperation, MetaPath, Registry},
    types::Type,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};

/// Deepest nesting of an assembled example; only recursive schemas reach it.
const EXAMPLE_DEPTH_MAX: usize = 16;

/// Bound of a list that is a whole answer; the catalogue and the client IDs of a platform stay far below.
const LIST_ITEMS_MAX: u64 = 10_000;

/// Keywords whose schemas are lists.
const COMPOSITIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Wraps an API and completes its description: equal paths are merged, the statuses that every operation can answer
/// with are added, media types are named without parameters.
pub struct Described<T>(pub T);

impl<T: OpenApi> OpenApi for Described<T> {
    fn meta() -> Vec<MetaApi> {
        let mut paths: IndexMap<String, Vec<MetaOperation>> = IndexMap::new();
        for path in T::meta().into_iter().flat_map(|api| api.paths) {
            paths.entry(path.path).or_default().extend(path.operations);
        }
        paths.values_mut().flatten().for_each(describe);
        let paths = paths
            .into_iter()
            .map(|(path, operations)| MetaPath { path, operations });
        vec![MetaApi { paths: paths.collect() }]
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        ErrorBody::register(registry);
    }

    fn add_routes(self, routes: &mut HashMap<String, HashMap<Method, BoxEndpoint<'static>>>) {
        self.0.add_routes(routes);
    }
}

fn describe(operation: &mut MetaOperation) {
    let is_secured = !operation.security.is_empty();
    for requirement in &mut operation.security {
        // The framework knows only alternatives; both halves of a pair are asked for together.
        let pair = Scheme::OrchestratorPair;
        if requirement.remove(pair.id()).is_some() {
            requirement.extend(pair.parts().iter().map(|part| (part.id(), Vec::new())));
        }
    }
    let has_body = operation.request.is_some();
    let has_input = has_body || !operation.params.is_empty();
    let common = [
        (400, has_input),
        (401, is_secured),
        (403, is_secured),
        (408, has_body),
        (413, has_body),
        (429, true),
        (500, true),
        (503, true),
    ];
    let responses = &mut operation.responses.responses;
    for (status, applies) in common {
        if applies && !responses.iter().any(|response| response.status == Some(status)) {
            responses.push(error_response(status, meaning(status)));
        }
    }
    responses.sort_by_key(|response| response.status);
    let answers = responses.iter_mut().flat_map(|response| &mut response.content);
    let bodies = operation.request.iter_mut().flat_map(|request| &mut request.content);
    for media in answers.chain(bodies) {
        if media.content_type.starts_with("application/json") {
            media.content_type = "application/json";
        }
    }
}

/// What a document says about itself.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Title.
    pub title: &'static str,
    /// Version of the contract.
    pub version: &'static str,
    /// Overview, in Markdown.
    pub description: &'static str,
    /// Links between operations.
    pub links: &'static [Link],
}

/// How the answer of one operation leads to another.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// operationId whose answer leads on.
    pub from: &'static str,
    /// Status of that answer.
    pub status: &'static str,
    /// Name of the link.
    pub name: &'static str,
    /// operationId that it leads to.
    pub to: &'static str,
    /// Parameters of the second operation and where the answer holds them.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// The document of the platform API, version 2.
pub const PLATFORM: About = About {
    title: "Payment Request Service: Platform API",
    version: "0.13.0",
    description: include_str!("about/platform.md"),
    links: &[
        Link {
            from: op::createRequest,
            status: "201",
            name: "read",
            to: op::getRequest,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        Link {
            from: op::createRequest,
            status: "201",
            name: "pay",
            to: op::getPaymentCalldata,
            parameters: &[("requestId", "$response.body#/requestId")],
        },
        Link {
            from: op::createOrchestratorWebhook,
            status: "201",
            name: "deactivate",
            to: op::deactivateOrchestratorWebhook,
            parameters: &[("id", "$response.body#/webhook/id")],
        },
        Link {
            from: op::createOrchestratorWebhook,
            status: "201",
            name: "rotate",
            to: op::rotateOrchestratorWebhookSecret,
            parameters: &[("id", "$response.body#/webhook/id")],
        },
    ],
};

/// The document of the auth API, version 1.
pub const AUTH: About = About {
    title: "Payment Request Service: Auth API",
    version: "1.0.0",
    description: include_str!("about/auth.md"),
    links: &[
        Link {
            from: op::createWebhook,
            status: "201",
            name: "toggle",
            to: op::toggleWebhook,
            parameters: &[("webhookId", "$response.body#/id")],
        },
        Link {
            from: op::createWebhook,
            status: "201",
            name: "delete",
            to: op::deleteWebhook,
            parameters: &[("webhookId", "$response.body#/id")],
        },
        Link {
            from: op::createWebhook,
            status: "201",
            name: "rotate",
            to: op::rotateWebhookSecret,
            parameters: &[("webhookId", "$response.body#/id")],
        },
    ],
};

/// The platform document, as it is committed and served.
pub fn v2() -> String {
    let service = OpenApiService::new(Described(apis::platform()), PLATFORM.title, PLATFORM.version);
    pretty(&complete(&service.spec(), &PLATFORM))
}

/// The authentication document, as it is committed and served.
pub fn auth() -> String {
    let service = OpenApiService::new(Described(apis::auth()), AUTH.title, AUTH.version);
    pretty(&complete(&service.spec(), &AUTH))
}

/// Text form for files, snapshots and serving.
pub fn pretty(document: &Value) -> String {
    format!("{document:#}\n")
}

/// The finished document of what the framework printed.
pub fn complete(spec: &str, about: &About) -> Value {
    #[expect(
        clippy::expect_used,
        reason = "the framework prints JSON; every test of a document would fail"
    )]
    let mut document: Value = serde_json::from_str(spec).expect("a printed document");
    document["openapi"] = json!("3.0.3");
    document["info"] = info(about);
    document["servers"] = this_host();
    let mut nullable = BTreeSet::new();
    each_schema(&mut document, &mut |schema| tidy(schema, &mut nullable));
    add_nullable(&mut document, &nullable);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.values_mut().for_each(spread_example);
    }
    let schemas = document["components"]["schemas"].clone();
    for operation in operations_mut(&mut document) {
        finish(operation, &schemas);
    }
    add_links(&mut document, about.links);
    document
}

/// The one server of every document: a self-hosted service knows no other address of itself.
pub(super) fn this_host() -> Value {
    json!([{
        "url": "/",
        "description": "This host: the local, staging or production service that serves this document",
        "x-internal": false,
    }])
}

fn info(about: &About) -> Value {
    json!({
        "title": about.title,
        "version": about.version,
        "description": about.description,
        "contact": { "name": "The maintainers of this service" },
        "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
    })
}

fn operations_mut(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document["paths"].as_object_mut().into_iter();
    paths
        .flat_map(Map::values_mut)
        .filter_map(Value::as_object_mut)
        .flat_map(Map::values_mut)
}

/// Visits every schema of a document, inner ones first.
fn each_schema(document: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.values_mut().for_each(|schema| within(schema, visit));
    }
    for operation in operations_mut(document) {
        for parameter in list_mut(operation, "parameters") {
            parameter
                .get_mut("schema")
                .into_iter()
                .for_each(|schema| within(schema, visit));
        }
        operation
            .get_mut("requestBody")
            .into_iter()
            .for_each(|body| within_media(body, visit));
        members_mut(operation, "responses").for_each(|(_, response)| within_media(response, visit));
    }
}

fn within_media(holder: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    for (_, media) in members_mut(holder, "content") {
        media
            .get_mut("schema")
            .into_iter()
            .for_each(|schema| within(schema, visit));
    }
}

fn list_mut<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn members_mut<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    value.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten()
}

fn within(schema: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    members_mut(schema, "properties").for_each(|(_, property)| within(property, visit));
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(keyword).filter(|inner| inner.is_object()) {
            within(inner, visit);
        }
    }
    for keyword in COMPOSITIONS {
        list_mut(schema, keyword).for_each(|part| within(part, visit));
    }
    visit(schema);
}

/// Brings one schema into the form that readers and generators agree on.
fn tidy(schema: &mut Value, nullable: &mut BTreeSet<String>) {
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
    for keyword in ["minimum", "maximum", "multipleOf"] {
        if let Some(number) = object.get(keyword).and_then(whole) {
            object.insert(keyword.to_owned(), number.into());
        }
    }
    bound_unsigned(object);
}

/// Doc comments of members end with their example; in the document it stands in its own keyword.
fn take_example(object: &mut Map<String, Value>) {
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
    // Texts are taken as they stand, everything else is JSON.
    let value = match object.get("type").and_then(Value::as_str) {
        Some("string") | None => json!(example),
        Some(_) => serde_json::from_str(&example).unwrap_or(json!(example)),
    };
    object.insert("description".to_owned(), json!(text));
    object.insert("example".to_owned(), value);
}

/// The component behind a reference that only carries a description or `nullable` beside it.
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

fn component_name(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

fn whole(number: &Value) -> Option<i64> {
    let text = number.as_f64()?.to_string();
    text.parse().ok()
}

/// Formats of unsigned numbers are unknown to readers; bounds say the same.
fn bound_unsigned(object: &mut Map<String, Value>) {
    let bounds = match object.get("format").and_then(Value::as_str) {
        Some("uint8") => ("int32", u64::from(u8::MAX)),
        Some("uint16") => ("int32", u64::from(u16::MAX)),
        Some("uint32") => ("int64", u64::from(u32::MAX)),
        Some("uint64") => ("int64", (1 << 53) - 1),
        _ => return,
    };
    object.insert("format".to_owned(), bounds.0.into());
    object.entry("minimum").or_insert(json!(0));
    object.entry("maximum").or_insert(bounds.1.into());
}

/// Adds the nullable twin of each component that a nullable member refers to.
fn add_nullable(document: &mut Value, names: &BTreeSet<String>) {
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

/// Gives every member without an example of its own the one from the example of the whole object; numbers and truth
/// values have an obvious one.
fn spread_example(schema: &mut Value) {
    let whole = schema.get("example").cloned().unwrap_or_default();
    for (name, property) in members_mut(schema, "properties") {
        let is_plain = property.get("$ref").is_none() && property.get("example").is_none();
        if !is_plain {
            continue;
        }
        let obvious = matches!(property["type"].as_str(), Some("integer" | "number" | "boolean"))
            .then(|| example_of(property, &Value::Null, 0));
        let example = whole.get(name).filter(|value| !value.is_null()).cloned().or(obvious);
        if let (Some(example), Some(object)) = (example, property.as_object_mut()) {
            object.insert("example".to_owned(), example);
        }
    }
}

/// Completes one operation: security, parameters, headers, descriptions and examples.
fn finish(operation: &mut Value, schemas: &Value) {
    // The framework keeps the parts of a requirement in no order.
    for requirement in list_mut(operation, "security").filter_map(Value::as_object_mut) {
        requirement.sort_keys();
    }
    if let Some(object) = operation.as_object_mut() {
        object.entry("security").or_insert(json!([]));
    }
    list_mut(operation, "parameters").for_each(|parameter| finish_parameter(parameter, schemas));
    if let Some(media) = operation.get_mut("requestBody").and_then(json_media) {
        let example = example_of(&media["schema"], schemas, 0);
        media["example"] = example;
    }
    for (status, response) in members_mut(operation, "responses") {
        finish_response(status, response, schemas);
    }
}

fn json_media(holder: &mut Value) -> Option<&mut Value> {
    holder.get_mut("content")?.get_mut("application/json")
}

/// What an answer carries: JSON, or a stream whose schema is that of one message.
fn answer_media(response: &mut Value) -> Option<&mut Value> {
    let content = response.get_mut("content")?.as_object_mut()?;
    content
        .iter_mut()
        .find(|(kind, _)| matches!(kind.as_str(), "application/json" | "text/event-stream"))
        .map(|(_, media)| media)
}

/// Swagger UI fills in every example of a filter, and filters that are filled in together find nothing; the example of
/// a filter is therefore part of its description.
fn finish_parameter(parameter: &mut Value, schemas: &Value) {
    let Some(object) = parameter.as_object_mut() else {
        return;
    };
    object.shift_remove("explode");
    if object.get("deprecated") == Some(&Value::Bool(false)) {
        object.shift_remove("deprecated");
    }
    let is_filter = object.get("in") == Some(&json!("query")) && object.get("required") != Some(&Value::Bool(true));
    if !is_filter {
        let schema = object.get("schema").cloned().unwrap_or_default();
        object.insert("example".to_owned(), example_of(&schema, schemas, 0));
        return;
    }
    let example = object
        .get_mut("schema")
        .and_then(Value::as_object_mut)
        .and_then(|schema| schema.shift_remove("example"));
    if let Some(example) = example.as_ref().and_then(Value::as_str)
        && let Some(Value::String(description)) = object.get_mut("description")
    {
        description.push_str(&format!(" Example: `{example}`."));
    }
}

fn finish_response(status: &str, response: &mut Value, schemas: &Value) {
    let code = status.parse().unwrap_or(500);
    if response["description"].as_str().is_none_or(str::is_empty) {
        response["description"] = json!(match code {
            201 => "Created.",
            202 => "Accepted.",
            204 => "Done.",
            _ => "The answer.",
        });
    }
    let mut headers = json!({
        "x-request-id": {
            "description": "Id of the call.",
            "schema": { "type": "string", "maxLength": 128, "example": "01JZX4T9QK3M7N8P2R5S6V0WYB" },
        },
        "Access-Control-Allow-Origin": {
            "description": "The calling page, when it belongs to an active client ID; else absent.",
            "schema": { "type": "string", "maxLength": 2048, "example": "https://shop.example.com" },
        },
    });
    if matches!(code, 429 | 503) {
        headers["Retry-After"] = json!({
            "description": "Seconds to wait before the next try.",
            "schema": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 86400, "example": 1 },
        });
    }
    if code == 429 {
        for (name, description, example) in [
            (
                "RateLimit-Limit",
                "Calls a minute of this credential from this address.",
                300,
            ),
            ("RateLimit-Remaining", "Calls that are left at once.", 0),
            ("RateLimit-Reset", "Seconds until the whole burst is there again.", 1),
        ] {
            headers[name] = json!({
                "description": description,
                "schema": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000_000, "example": example },
            });
        }
    }
    if let (Some(own), Some(added)) = (response.get("headers").cloned(), headers.as_object_mut()) {
        added.extend(own.as_object().cloned().unwrap_or_default());
    }
    response["headers"] = headers;
    let Some(media) = answer_media(response) else { return };
    // Lists that are whole answers have no member to carry their bound.
    if let Some(schema) = media["schema"]
        .as_object_mut()
        .filter(|schema| schema.get("type") == Some(&json!("array")))
    {
        schema.entry("maxItems").or_insert(json!(LIST_ITEMS_MAX));
    }
    let is_failure = code >= 400;
    let example = if is_failure {
        failure_example(code)
    } else {
        example_of(&media["schema"], schemas, 0)
    };
    media["example"] = example;
}

fn failure_example(code: u16) -> Value {
    let reason = StatusCode::from_u16(code)
        .ok()
        .and_then(|status| status.canonical_reason());
    let message = match code {
        400 => "Validation failed",
        401 => "Unauthorized",
        429 => "Too many requests",
        500 => "Internal server error",
        _ => meaning(code),
    };
    let mut example = json!({ "statusCode": code, "message": message, "error": reason.unwrap_or("Error") });
    if code == 400 {
        example["errors"] = json!([{ "field": "amount", "message": "must be greater than 0" }]);
    }
    example["requestId"] = json!("01JZX4T9QK3M7N8P2R5S6V0WYB");
    example
}

/// Assembles an example from the examples of the members.
fn example_of(schema: &Value, schemas: &Value, depth: usize) -> Value {
    if depth > EXAMPLE_DEPTH_MAX {
        return Value::Null;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return example_of(&schemas[component_name(reference)], schemas, depth + 1);
    }
    if let Some(example) = schema.get("example") {
        return example.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut merged = Map::new();
        for part in parts {
            if let Value::Object(members) = example_of(part, schemas, depth + 1) {
                merged.extend(members);
            }
        }
        return merged.into();
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(first) = schema[keyword].as_array().and_then(|forms| forms.first()) {
            return example_of(first, schemas, depth + 1);
        }
    }
    match schema["type"].as_str() {
        Some("object") => object_example(schema, schemas, depth),
        Some("array") => json!([example_of(&schema["items"], schemas, depth + 1)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("string") => json!("text"),
        _ => json!({}),
    }
}

fn object_example(schema: &Value, schemas: &Value, depth: usize) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut example: Map<String, Value> = properties
        .map(|(name, property)| (name.clone(), example_of(property, schemas, depth + 1)))
        .collect();
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object())
        && example.is_empty()
    {
        example.insert("name".to_owned(), example_of(values, schemas, depth + 1));
    }
    example.into()
}

fn add_links(document: &mut Value, links: &[Link]) {
    for operation in operations_mut(document) {
        let id = operation["operationId"].clone();
        for link in links.iter().filter(|link| id == link.from) {
            let own = members_mut(operation, "responses").find(|(status, _)| *status == link.status);
            if let Some((_, response)) = own {
                let parameters: Map<String, Value> = link
                    .parameters
                    .iter()
                    .map(|(name, place)| ((*name).to_owned(), json!(place)))
                    .collect();
                response["links"][link.name] = json!({ "operationId": link.to, "parameters": parameters });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_printed_the_same_every_time() {
        assert_eq!(v2(), v2());
        assert_eq!(auth(), auth());
    }
}
