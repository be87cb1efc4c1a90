//! Path data from the documents: templates for logs, methods for `Allow`, names of path parameters.

use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use poem::http::{HeaderValue, Method};
use regex::Regex;
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// The part of a document that is read; the rest is many times as large and not needed at startup.
#[derive(Deserialize)]
struct DocumentPaths {
    #[serde(default)]
    paths: IndexMap<String, PathItem>,
}

#[derive(Deserialize)]
struct PathItem {
    get: Option<RouteOperation>,
    head: Option<RouteOperation>,
    post: Option<RouteOperation>,
    put: Option<RouteOperation>,
    patch: Option<RouteOperation>,
    delete: Option<RouteOperation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RouteOperation {
    operation_id: Option<String>,
    #[serde(default)]
    parameters: Vec<RouteParameter>,
}

/// A parameter. A reference to a shared parameter has none of these members.
#[derive(Deserialize)]
struct RouteParameter {
    name: Option<String>,
    #[serde(rename = "in")]
    place: Option<String>,
    schema: Option<Schema>,
}

#[derive(Deserialize)]
struct Schema {
    pattern: Option<String>,
}

impl PathItem {
    /// Methods and operations, in the order of the `Allow` header.
    fn operations(&self) -> impl Iterator<Item = (Method, &RouteOperation)> {
        let operations = [
            (Method::GET, &self.get),
            (Method::HEAD, &self.head),
            (Method::POST, &self.post),
            (Method::PUT, &self.put),
            (Method::PATCH, &self.patch),
            (Method::DELETE, &self.delete),
        ];
        operations
            .into_iter()
            .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
    }

    /// The pattern of a path parameter, as documented by one of its operations.
    fn pattern(&self, name: &str) -> Option<&str> {
        let mut parameters = self.operations().flat_map(|(_, operation)| &operation.parameters);
        let meant = parameters
            .find(|parameter| parameter.name.as_deref() == Some(name) && parameter.place.as_deref() == Some("path"))?;
        meant.schema.as_ref()?.pattern.as_deref()
    }
}

/// A pattern that is compiled on first use.
#[derive(Debug)]
struct LazyPattern {
    pattern: String,
    compiled: OnceLock<Option<Regex>>,
}

impl LazyPattern {
    fn new(pattern: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    fn fits(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.pattern).ok());
        compiled.as_ref().is_none_or(|form| form.is_match(text))
    }
}

/// The `Allow` header of paths that no document describes.
pub(in crate::http) const ALLOW_READS: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// Every documented path.
#[derive(Debug, Clone, Default)]
pub struct RouteTable(Arc<Vec<Route>>);

#[derive(Debug)]
struct Route {
    template: String,
    segments: Vec<String>,
    /// The pattern of each parameter, where the document has one.
    forms: Vec<Option<Arc<LazyPattern>>>,
    allow: HeaderValue,
    operations: Vec<(Method, String)>,
}

impl RouteTable {
    /// Reads the paths of finished documents.
    pub fn from_documents<'a>(documents: impl IntoIterator<Item = &'a str>) -> Self {
        let documents = documents.into_iter().filter_map(|text| serde_json::from_str(text).ok());
        let paths = documents.flat_map(|document: DocumentPaths| document.paths);
        let mut forms: HashMap<String, Arc<LazyPattern>> = HashMap::new();
        let rows = paths.map(|(template, item)| {
            let mut methods: Vec<String> = item.operations().map(|(method, _)| method.to_string()).collect();
            if item.get.is_some() && item.head.is_none() {
                methods.insert(1, "HEAD".to_owned());
            }
            methods.push("OPTIONS".to_owned());
            let segments: Vec<String> = template.split('/').map(str::to_owned).collect();
            let mut form = |segment: &String| {
                let pattern = item.pattern(parameter(segment)?)?;
                let form = forms.entry(pattern.to_owned());
                Some(form.or_insert_with(|| Arc::new(LazyPattern::new(pattern))).clone())
            };
            Route {
                forms: segments.iter().map(&mut form).collect(),
                operations: item
                    .operations()
                    .filter_map(|(method, operation)| Some((method, operation.operation_id.clone()?)))
                    .collect(),
                segments,
                allow: HeaderValue::from_str(&methods.join(", ")).unwrap_or(ALLOW_READS),
                template,
            }
        });
        let mut rows: Vec<Route> = rows.collect();
        // Literal segments take precedence over parameters, as in the router.
        rows.sort_by_key(|row| row.segments.iter().filter(|segment| is_parameter(segment)).count());
        Self(Arc::new(rows))
    }

    fn row(&self, path: &str) -> Option<&Route> {
        let segments: Vec<&str> = path.split('/').collect();
        self.0.iter().find(|row| {
            row.segments.len() == segments.len()
                && row
                    .segments
                    .iter()
                    .zip(&segments)
                    .all(|(template, segment)| is_parameter(template) || template == segment)
        })
    }

    /// Template of a path, for example `/v2/request/{requestId}`.
    pub fn template(&self, path: &str) -> Option<&str> {
        self.row(path).map(|row| row.template.as_str())
    }

    /// Method and template of an operation, by its operationId.
    pub(in crate::http) fn place(&self, operation: &str) -> Option<(&Method, &str)> {
        self.0.iter().find_map(|row| {
            let (method, _) = row.operations.iter().find(|(_, id)| id == operation)?;
            Some((method, row.template.as_str()))
        })
    }

    /// Method and operationId of each operation.
    pub(in crate::http) fn operations(&self) -> impl Iterator<Item = (&Method, &str)> {
        let operations = self.0.iter().flat_map(|row| &row.operations);
        operations.map(|(method, id)| (method, id.as_str()))
    }

    /// Methods of a path.
    pub(in crate::http) fn allow(&self, path: &str) -> Option<HeaderValue> {
        self.row(path).map(|row| row.allow.clone())
    }

    /// Whether a path parameter does not match its pattern, so that the object cannot exist.
    pub(in crate::http) fn names_nothing(&self, path: &str) -> bool {
        let forms = self.row(path).map_or(&[][..], |row| &row.forms);
        let mut segments = forms.iter().zip(path.split('/'));
        segments.any(|(form, segment)| form.as_ref().is_some_and(|form| !form.fits(segment)))
    }

    /// The documented name of a path parameter, which the framework numbers `param0`, `param1`, …
    pub(in crate::http) fn path_parameter(&self, path: &str, numbered: &str) -> Option<&str> {
        let index: usize = numbered.strip_prefix("param")?.parse().ok()?;
        let row = self.row(path)?;
        parameter(row.segments.iter().filter(|segment| is_parameter(segment)).nth(index)?)
    }

    /// The documented name of the first path parameter that is not valid text.
    pub(in crate::http) fn unreadable_parameter(&self, path: &str) -> Option<&str> {
        let mut segments = self.row(path)?.segments.iter().zip(path.split('/'));
        let is_text = |segment| percent_decode_str(segment).decode_utf8().is_ok();
        let (template, _) = segments.find(|(_, segment)| !is_text(segment))?;
        parameter(template)
    }
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

/// The name of a parameter; `None` for a literal segment.
fn parameter(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literal_segments_win_and_methods_are_named() {
        let document = json!({ "paths": {
            "/v2/request/{requestId}": { "get": { "parameters": [
                { "name": "requestId", "in": "path", "schema": { "pattern": "^[0-9a-z%]+$" } },
            ] }, "patch": {} },
            "/v2/request/latest": { "post": {} },
        }});
        let routes = RouteTable::from_documents([document.to_string().as_str()]);
        assert_eq!(routes.template("/v2/request/01ab"), Some("/v2/request/{requestId}"));
        assert_eq!(routes.template("/v2/request/latest"), Some("/v2/request/latest"));
        assert_eq!(routes.template("/v2/request"), None);
        assert_eq!(routes.allow("/v2/request/01ab").unwrap(), "GET, HEAD, PATCH, OPTIONS");
        assert_eq!(routes.path_parameter("/v2/request/01ab", "param0"), Some("requestId"));
        assert!(routes.names_nothing("/v2/request/later-one") && !routes.names_nothing("/v2/request/01ab"));
        assert!(!routes.names_nothing("/v2/request/latest") && !routes.names_nothing("/v2/request"));
        assert_eq!(routes.unreadable_parameter("/v2/request/%ff"), Some("requestId"));
        assert_eq!(routes.unreadable_parameter("/v2/request/%c3%b6"), None);
    }
}
