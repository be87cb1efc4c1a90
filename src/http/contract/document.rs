//! The documents as they are committed and served: the framework's output, completed step by step.

use crate::http::{
    body::close,
    contract::{
        about::{self, AUTH, DocumentInfo, OperationLink, PLATFORM},
        answers, apis,
        described::DescribedDocument,
        examples, guidance,
        members::{list_mut, members_mut},
        parameters, schemas,
    },
    error::documented,
    gate::scheme::Scheme,
};
use poem_openapi::OpenApiService;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// JSON Schema keywords that hold a list of schemas.
const COMPOSITIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The platform document, as the code describes it.
pub fn v2() -> String {
    let service = OpenApiService::new(DescribedDocument(apis::platform()), PLATFORM.title, PLATFORM.version);
    pretty(&complete(&service.spec(), &PLATFORM))
}

/// The authentication document, as the code describes it.
pub fn auth() -> String {
    let service = OpenApiService::new(DescribedDocument(apis::auth()), AUTH.title, AUTH.version);
    pretty(&complete(&service.spec(), &AUTH))
}

/// Formats a document as indented JSON, as it is committed and served. An object with only a `$ref` takes one line.
pub fn pretty(document: &Value) -> String {
    let text = format!("{document:#}");
    let lines: Vec<&str> = text.lines().collect();
    let mut rest = lines.as_slice();
    let mut pretty = String::with_capacity(text.len());
    while let [line, after @ ..] = rest {
        pretty.push_str(line);
        rest = after;
        if let [reference, end, after @ ..] = rest
            && line.ends_with('{')
            && reference.trim_start().starts_with("\"$ref\": ")
            && end.trim_start().starts_with('}')
        {
            pretty.extend([" ", reference.trim_start(), " ", end.trim_start()]);
            rest = after;
        }
        pretty.push('\n');
    }
    pretty
}

/// Completes the document that the framework printed.
pub fn complete(spec: &str, about: &DocumentInfo) -> Value {
    #[expect(
        clippy::expect_used,
        reason = "the framework prints valid JSON; otherwise every test of a document would fail"
    )]
    let mut document: Value = serde_json::from_str(spec).expect("a printed document");
    document["openapi"] = json!("3.0.3");
    document["info"] = about::info(about);
    document["servers"] = about::this_host();
    close(&mut document["components"]["schemas"]);
    let raw = document["components"].clone();
    let refused: Vec<_> = operations_mut(&mut document)
        .map(|operation| answers::refused(operation, &raw))
        .collect();
    let mut nullable = BTreeSet::new();
    each_schema(&mut document, &mut |schema| schemas::tidy(schema, &mut nullable));
    schemas::add_nullable(&mut document, &nullable);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.values_mut().for_each(examples::spread_example);
    }
    let schemas = document["components"]["schemas"].clone();
    let mut shared = Map::new();
    for (operation, refused) in operations_mut(&mut document).zip(refused) {
        finish(operation, &schemas);
        answers::finish(operation, refused, &schemas, &mut shared);
        guidance::finish(operation);
    }
    shared.sort_keys();
    document["components"]["responses"] = shared.into();
    document["components"]["headers"] = answers::headers();
    document["components"]["examples"] = parameters::examples();
    document["components"]["parameters"] = operations_mut(&mut document).filter_map(parameters::share).collect();
    schemas::drop_unused(&mut document);
    order_tags(&mut document);
    add_links(&mut document, about.links);
    document
}

/// Restores the order of the operations for their tags, because the framework sorts tags by name.
fn order_tags(document: &mut Value) {
    let names: Vec<Value> = operations_mut(document)
        .map(|operation| operation["tags"][0].clone())
        .collect();
    if let Some(tags) = document["tags"].as_array_mut() {
        tags.sort_by_key(|tag| names.iter().position(|name| *name == tag["name"]));
    }
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

/// Completes one operation except its responses: security, parameters and the example of its body.
fn finish(operation: &mut Value, schemas: &Value) {
    // The framework does not preserve the order of schemes within a requirement, so they are sorted.
    for requirement in list_mut(operation, "security").filter_map(Value::as_object_mut) {
        // The framework cannot express a requirement of several schemes together, so the pair is one scheme there and
        // is replaced here by its two schemes.
        if requirement.remove(Scheme::Paired.id()).is_some() {
            let parts = Scheme::Paired.parts().iter();
            requirement.extend(parts.map(|part| (part.id().to_owned(), json!([]))));
        }
        requirement.sort_keys();
    }
    if let Some(object) = operation.as_object_mut() {
        object.entry("security").or_insert(json!([]));
    }
    list_mut(operation, "parameters").for_each(|parameter| parameters::finish_parameter(parameter, schemas));
    if let Some(media) = operation.get_mut("requestBody").and_then(json_media) {
        let example = examples::example_of(&media["schema"], schemas, 0);
        media["example"] = example;
    }
}

fn json_media(holder: &mut Value) -> Option<&mut Value> {
    holder.get_mut("content")?.get_mut("application/json")
}

fn add_links(document: &mut Value, links: &[OperationLink]) {
    for operation in operations_mut(document) {
        let id = operation["operationId"].clone();
        for link in links.iter().filter(|link| id == link.from) {
            let success = members_mut(operation, "responses").find(|(status, _)| documented(status).is_none());
            if let Some((_, response)) = success {
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
    fn documents_are_printed_identically_every_time() {
        assert_eq!(v2(), v2());
        assert_eq!(auth(), auth());
    }

    #[test]
    fn every_operation_documents_its_use_requirements_and_next_step() {
        for text in [v2(), auth()] {
            let document: Value = serde_json::from_str(&text).unwrap();
            for (path, item) in document["paths"].as_object().unwrap() {
                for (method, operation) in item.as_object().unwrap() {
                    let text = operation["description"].as_str().unwrap();
                    for name in ["When", "Needs", "Next"] {
                        assert!(text.contains(&format!("\n- **{name}**: ")), "{method} {path}: {text}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_named_next_operation_and_event_exists() {
        let documents: Vec<Value> = [v2(), auth()]
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        let exists = |call: &str| {
            let (method, path) = call.split_once(' ').unwrap_or_default();
            let is_there = |document: &Value| document["paths"][path][method.to_lowercase()].is_object();
            documents.iter().any(is_there) || crate::payloads::KINDS.iter().any(|kind| kind.name == call)
        };
        let items = documents
            .iter()
            .flat_map(|document| document["paths"].as_object().unwrap().values());
        let operations = items.flat_map(|item| item.as_object().unwrap().values());
        let mut count = 0;
        for text in operations.filter_map(|operation| operation["description"].as_str()) {
            for line in text
                .lines()
                .filter(|line| line.starts_with("- **Next") || line.starts_with("- **Events"))
            {
                for named in line.split('`').skip(1).step_by(2) {
                    let is_name = named.contains(" /v") || named.contains('.');
                    assert!(!is_name || exists(named), "{named} in {line}");
                    count += usize::from(is_name);
                }
            }
        }
        assert!(count > 80, "{count}");
    }
}
