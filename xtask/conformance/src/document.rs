//! The operations of the committed documents.

use std::fs;

use anyhow::{Context, Result};
use contract::validation::resolved;
use serde_json::Value;
use xtask::machine::workspace;

/// The committed documents of the service, as parsed JSON.
pub(crate) struct Documents {
    /// The document of the API.
    pub(crate) v2: Value,
    /// The document of the auth API, whose operations may have another base URL.
    pub(crate) auth: Value,
}

impl Documents {
    /// Reads the committed documents.
    pub(crate) fn committed() -> Result<Self> {
        Ok(Self {
            v2: read("openapi/v2.json")?,
            auth: read("openapi/auth.json")?,
        })
    }
}

/// The schema of an event of this name.
pub(crate) fn event_schema(name: &str) -> Result<Value> {
    read(&format!("openapi/events/{name}.json"))
}

fn read(path: &str) -> Result<Value> {
    let text = fs::read_to_string(workspace::root().join(path)).context(path.to_owned())?;
    serde_json::from_str(&text).context(path.to_owned())
}

/// An operation of one of the documents.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) id: &'a str,
    /// The HTTP method in lower case, as the document writes it.
    pub(crate) method: &'a str,
    /// With parameters in braces.
    pub(crate) path: &'a str,
    pub(crate) description: &'a Value,
    pub(crate) document: &'a Value,
    pub(crate) base_url: &'a str,
}

impl<'a> Operation<'a> {
    /// Every operation of a document; each gets this base URL.
    pub(crate) fn all(document: &'a Value, base_url: &'a str) -> Vec<Self> {
        let mut found = Vec::new();
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, description) in methods.as_object().into_iter().flatten() {
                if let Some(id) = description["operationId"].as_str() {
                    found.push(Self {
                        id,
                        method,
                        path,
                        description,
                        document,
                        base_url,
                    });
                }
            }
        }
        found
    }

    /// The documented response for a status, if any.
    pub(crate) fn response(&self, status: u16) -> Option<&'a Value> {
        let response = self.description["responses"].get(status.to_string())?;
        Some(resolved(self.document, response))
    }

    /// The parameters of the operation that are of a kind: `path`, `query` or `header`.
    pub(crate) fn parameters(&self, kind: &'static str) -> impl Iterator<Item = &'a Value> {
        let document = self.document;
        let listed = self.description["parameters"].as_array().into_iter().flatten();
        let parameters = listed.map(move |listed| resolved(document, listed));
        parameters.filter(move |parameter| parameter["in"] == kind)
    }

    /// The names of the operation's security schemes. Any one of them is sufficient.
    pub(crate) fn schemes(&self) -> impl Iterator<Item = &'a str> {
        let accepted = self.description["security"].as_array().into_iter().flatten();
        let schemes = accepted.filter_map(Value::as_object).flat_map(|schemes| schemes.keys());
        schemes.map(String::as_str)
    }

    pub(crate) fn takes_body(&self) -> bool {
        self.description["requestBody"].is_object()
    }

    /// The example of the operation's request body, or an empty object.
    pub(crate) fn example_body(&self) -> Value {
        let example = self
            .description
            .pointer("/requestBody/content/application~1json/example");
        example
            .cloned()
            .unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    }
}
