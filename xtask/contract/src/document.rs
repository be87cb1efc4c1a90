//! Read access to one OpenAPI document: operations, parameters, references, credentials.
//!
//! Comparisons are in `contract`, `compat` and `rules`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The members of a path item that are operations.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "patch", "head", "options", "trace"];

/// Members next to a `$ref` that do not affect the allowed values.
const PROSE: [&str; 5] = ["$ref", "description", "summary", "example", "title"];

/// Maximum length of a chain of references; a longer chain counts as a cycle.
const REFERENCES_MAX: usize = 32;

/// One operation of a document, with its path item.
pub(crate) struct Operation<'a> {
    /// The path template, as written.
    pub(crate) path: &'a str,
    /// The method in lower case, as the document writes it.
    pub(crate) method: &'a str,
    item: &'a Value,
    /// The operation object.
    pub(crate) body: &'a Value,
}

impl Operation<'_> {
    /// `GET /v2/payments`: the name of the operation in findings and in `deviations.toml`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    /// The JSON pointer of the operation inside its document.
    pub(crate) fn pointer(&self) -> String {
        format!("/paths/{}/{}", escape(self.path), self.method)
    }
}

/// One of several sets of credentials with which an operation can be called. Each credential is the name of its header
/// in lower case.
///
/// A session cookie and a bearer token both count as `authorization`: the reference sends the session in that header.
pub(crate) type Credentials = BTreeSet<String>;

/// A view on a parsed OpenAPI document.
#[derive(Clone, Copy)]
pub(crate) struct Document<'a> {
    root: &'a Value,
}

impl<'a> Document<'a> {
    /// A view of `root` as an OpenAPI document.
    pub(crate) fn new(root: &'a Value) -> Self {
        Self { root }
    }

    /// The member of the root object with this name, or null.
    pub(crate) fn member(&self, name: &str) -> &'a Value {
        &self.root[name]
    }

    /// All operations in document order.
    pub(crate) fn operations(&self) -> Vec<Operation<'a>> {
        let mut found = Vec::new();
        for (path, item) in self.root["paths"].as_object().into_iter().flatten() {
            for method in METHODS {
                if let Some(body) = item.get(method) {
                    found.push(Operation {
                        path,
                        method,
                        item,
                        body,
                    });
                }
            }
        }
        found
    }

    /// Resolves a `$ref`. Members beside the `$ref` are kept if they restrict the target.
    pub(crate) fn resolve<'v>(&self, value: &'v Value) -> Cow<'v, Value>
    where
        'a: 'v,
    {
        let mut current: Cow<'v, Value> = Cow::Borrowed(value);
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = current.get("$ref").and_then(Value::as_str) else {
                return current;
            };
            let target: &'a Value = self
                .root
                .pointer(reference.trim_start_matches('#'))
                .unwrap_or(&Value::Null);
            let siblings: Map<String, Value> = members(&current)
                .filter(|(name, _)| !PROSE.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            current = match target.as_object() {
                Some(object) if !siblings.is_empty() => {
                    let mut merged = object.clone();
                    merged.extend(siblings);
                    Cow::Owned(Value::Object(merged))
                }
                _ => Cow::Borrowed(target),
            };
        }
        current
    }

    /// Parameters of an operation by location and name; header names in lower case.
    pub(crate) fn parameters(&self, operation: &Operation<'a>) -> BTreeMap<(String, String), Value> {
        let lists = [&operation.item["parameters"], &operation.body["parameters"]];
        let mut found = BTreeMap::new();
        for parameter in lists.into_iter().filter_map(Value::as_array).flatten() {
            let parameter = self.resolve(parameter).into_owned();
            let place = parameter["in"].as_str().unwrap_or_default().to_owned();
            let name = parameter["name"].as_str().unwrap_or_default();
            let name = if place == "header" {
                name.to_lowercase()
            } else {
                name.to_owned()
            };
            found.insert((place, name), parameter);
        }
        found
    }

    /// The security requirement that applies to an operation: its own requirement, or else that of the document.
    pub(crate) fn security(&self, operation: &Operation<'a>) -> Option<&'a Vec<Value>> {
        operation
            .body
            .get("security")
            .or_else(|| self.root.get("security"))
            .and_then(Value::as_array)
    }

    /// The alternative sets of credentials of an operation, as the names of the headers in which they are sent.
    pub(crate) fn credentials(&self, operation: &Operation<'a>) -> Vec<Credentials> {
        let schemes = &self.root["components"]["securitySchemes"];
        let alternatives = self.security(operation).into_iter().flatten();
        alternatives
            .map(|alternative| {
                members(alternative)
                    .map(|(name, _)| header_of(&self.resolve(&schemes[name])))
                    .collect()
            })
            .collect()
    }
}

/// The name of the header in which the credential of a security scheme is sent, in lower case.
fn header_of(scheme: &Value) -> String {
    match (scheme["type"].as_str(), scheme["in"].as_str()) {
        (Some("apiKey"), Some("header")) => scheme["name"].as_str().unwrap_or_default().to_lowercase(),
        _ => "authorization".to_owned(),
    }
}

/// The members of an object; empty for any other value.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The strings of an array, sorted.
pub(crate) fn strings(value: &Value) -> BTreeSet<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// A member name as one token of a JSON pointer.
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The path without the names of its parameters, so that two templates with different names compare as equal.
pub(crate) fn path_form(path: &str) -> String {
    let mut form = String::with_capacity(path.len());
    let mut inside = false;
    for character in path.chars() {
        inside = match character {
            '{' => {
                form.push('{');
                true
            }
            '}' => {
                form.push('}');
                false
            }
            _ => {
                if !inside {
                    form.push(character);
                }
                inside
            }
        };
    }
    form
}

/// The parameter names of a path template in order.
pub(crate) fn path_names(path: &str) -> Vec<&str> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .collect()
}

/// Media types without their parameters (`application/json; charset=utf-8` is `application/json`).
pub(crate) fn media_types(content: &Value) -> BTreeMap<String, &Value> {
    members(content)
        .map(|(name, media)| (name.split(';').next().unwrap_or_default().trim().to_owned(), media))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn path_forms_ignore_parameter_names() {
        assert_eq!(path_form("/v2/request/{requestId}/pay"), "/v2/request/{}/pay");
        assert_eq!(path_names("/a/{one}/b/{two}"), ["one", "two"]);
    }

    #[test]
    fn references_keep_narrowing_siblings_and_drop_prose() {
        let root = json!({"components": {"schemas": {"A": {"type": "string"}}}});
        let document = Document::new(&root);
        let reference = json!({"$ref": "#/components/schemas/A", "nullable": true, "description": "x"});
        assert_eq!(
            *document.resolve(&reference),
            json!({"type": "string", "nullable": true})
        );
    }

    #[test]
    fn circular_references_end() {
        let root = json!({"a": {"$ref": "#/a"}});
        let document = Document::new(&root);
        assert!(document.resolve(&root["a"]).is_object());
    }

    #[test]
    fn a_session_cookie_counts_as_the_authorization_header() {
        let root = json!({
            "components": {"securitySchemes": {
                "Session": {"type": "apiKey", "in": "cookie", "name": "session_token"},
                "ApiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            }},
            "paths": {"/a": {"get": {"security": [{"Session": []}, {"ApiKey": []}]}}},
        });
        let document = Document::new(&root);
        let operation = &document.operations()[0];
        let found: Vec<Vec<String>> = document
            .credentials(operation)
            .into_iter()
            .map(|one| one.into_iter().collect())
            .collect();
        assert_eq!(found, [["authorization"], ["x-api-key"]]);
    }
}
