//! What the documents say about paths: templates for logs, methods for `Allow`, names for path parameters.

use percent_encoding::percent_decode_str;
use poem::http::{HeaderValue, Method};
use regex::Regex;
use serde_json::Value;
use std::sync::Arc;

/// Methods of a path item in the order in which `Allow` names them.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// The value of an `Allow` header for paths that no document describes.
pub(in crate::http) const ALLOW_READS: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// Every documented path.
#[derive(Debug, Clone, Default)]
pub struct RouteTable(Arc<Vec<Row>>);

#[derive(Debug)]
struct Row {
    template: String,
    segments: Vec<String>,
    /// What the text of each parameter has to look like, where the document says so.
    forms: Vec<Option<Regex>>,
    allow: HeaderValue,
    operations: Vec<(Method, String)>,
}

impl RouteTable {
    /// Reads the paths of finished documents.
    pub fn from_documents<'a>(documents: impl IntoIterator<Item = &'a Value>) -> Self {
        let paths = documents
            .into_iter()
            .flat_map(|document| document["paths"].as_object().into_iter().flatten());
        let rows = paths.map(|(template, item)| {
            let mut methods: Vec<String> = METHODS
                .into_iter()
                .filter(|method| item.get(method).is_some())
                .map(str::to_uppercase)
                .collect();
            if item.get("get").is_some() && item.get("head").is_none() {
                methods.insert(1, "HEAD".to_owned());
            }
            methods.push("OPTIONS".to_owned());
            let operations = METHODS.into_iter().filter_map(|method| {
                let id = item.get(method)?["operationId"].as_str()?;
                Some((method.to_uppercase().parse().ok()?, id.to_owned()))
            });
            let segments: Vec<String> = template.split('/').map(str::to_owned).collect();
            Row {
                operations: operations.collect(),
                template: template.clone(),
                forms: segments.iter().map(|segment| form(item, parameter(segment)?)).collect(),
                segments,
                allow: HeaderValue::from_str(&methods.join(", ")).unwrap_or(ALLOW_READS),
            }
        });
        let mut rows: Vec<Row> = rows.collect();
        // Literal segments win over parameters, as in the router.
        rows.sort_by_key(|row| row.segments.iter().filter(|segment| is_parameter(segment)).count());
        Self(Arc::new(rows))
    }

    fn row(&self, path: &str) -> Option<&Row> {
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

    /// Methods of a path.
    pub(in crate::http) fn allow(&self, path: &str) -> Option<HeaderValue> {
        self.row(path).map(|row| row.allow.clone())
    }

    /// Whether a parameter of the path has a text that is none of its kind, so that nothing can be there.
    pub(in crate::http) fn names_nothing(&self, path: &str) -> bool {
        let forms = self.row(path).map_or(&[][..], |row| &row.forms);
        let mut segments = forms.iter().zip(path.split('/'));
        segments.any(|(form, segment)| form.as_ref().is_some_and(|form| !form.is_match(segment)))
    }

    /// The documented name of a path parameter, which the framework numbers `param0`, `param1`, …
    pub(in crate::http) fn path_parameter(&self, path: &str, numbered: &str) -> Option<&str> {
        let index: usize = numbered.strip_prefix("param")?.parse().ok()?;
        let row = self.row(path)?;
        parameter(row.segments.iter().filter(|segment| is_parameter(segment)).nth(index)?)
    }

    /// The documented name of the first path parameter that is no text.
    pub(in crate::http) fn unreadable_parameter(&self, path: &str) -> Option<&str> {
        let mut segments = self.row(path)?.segments.iter().zip(path.split('/'));
        let is_text = |segment| percent_decode_str(segment).decode_utf8().is_ok();
        let (template, _) = segments.find(|(_, segment)| !is_text(segment))?;
        parameter(template)
    }
}

/// The pattern of a parameter of a path, as one of its operations documents it.
fn form(item: &Value, name: &str) -> Option<Regex> {
    let operations = METHODS.into_iter().filter_map(|method| item.get(method));
    let mut parameters = operations.flat_map(|operation| operation["parameters"].as_array().into_iter().flatten());
    let meant = parameters.find(|parameter| parameter["name"] == name && parameter["in"] == "path")?;
    Regex::new(meant["schema"]["pattern"].as_str()?).ok()
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
        let routes = RouteTable::from_documents([&document]);
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
