//! The documents that a generator gets. They are the committed ones, possibly changed for a generator that cannot read
//! a part of them, or broken on purpose.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// The documents that clients are generated from.
pub(super) const NAMES: [&str; 2] = ["v2", "auth"];

/// A change of a document that one generator needs. It must not change what the service accepts.
pub(super) struct Adaptation {
    /// Name of the document.
    pub(super) document: &'static str,
    /// A sentence that says what is changed, and why the generator needs the change.
    pub(super) reason: &'static str,
    /// Changes the document; returns false if there was nothing to change.
    pub(super) change: fn(&mut Value) -> bool,
}

/// The operation whose response never ends.
const STREAM: &str = "/v2/events/stream";

/// Leaves the event stream out for the Python generator. The generated call would read the stream to its end before it
/// parses it, and passes text where it expects an object.
pub(super) const WITHOUT_STREAM: Adaptation = Adaptation {
    document: "v2",
    reason: "GET /v2/events/stream is left out: the generated call waits for the end of a stream that has none",
    change: |document| {
        let paths = document["paths"].as_object_mut();
        paths.is_some_and(|paths| paths.shift_remove(STREAM).is_some())
    },
};

/// Renames a path parameter for the Rust generator, which confuses a path parameter with a query parameter of the same
/// name.
pub(super) const TOKEN_OF_LINKS: Adaptation = Adaptation {
    document: "v2",
    reason: "the path parameter `token` is renamed to `linkToken`: the generator fails at a query parameter of the same name",
    change: rename_token,
};

fn rename_token(document: &mut Value) -> bool {
    let Some(paths) = document["paths"].as_object_mut() else {
        return false;
    };
    let mut renamed = false;
    let adapted = std::mem::take(paths).into_iter().map(|(path, mut operations)| {
        if !path.contains("{token}") {
            return (path, operations);
        }
        renamed = true;
        for operation in operations.as_object_mut().into_iter().flat_map(Map::values_mut) {
            for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
                if parameter["name"] == "token" && parameter["in"] == "path" {
                    parameter["name"] = "linkToken".into();
                }
            }
        }
        (path.replace("{token}", "{linkToken}"), operations)
    });
    *paths = adapted.collect();
    renamed
}

/// How a document is broken on purpose, to check that a generator or a compiler reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The document refers to a component that does not exist.
    Reference,
    /// A member of a response has another name than the harness expects.
    Member,
}

/// The component that is broken.
const BROKEN: &str = "RequestCreated";

impl Broken {
    /// The heading of the column with the results for this kind of broken document.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Reference => "a broken reference",
            Self::Member => "a renamed member",
        }
    }

    /// Whether an error message names the broken part.
    pub(super) fn is_named_in(self, complaint: &str) -> bool {
        let complaint = complaint.to_lowercase().replace('_', "");
        let names: &[&str] = match self {
            // The message names the component, or else the operation that refers to it, as a JSON pointer.
            Self::Reference => &["requestcreated", "~1v2~1request/"],
            Self::Member => &["requestid"],
        };
        names.iter().any(|name| complaint.contains(name))
    }

    fn apply(self, document: &mut Value) -> Result<()> {
        let schemas = document["components"]["schemas"].as_object_mut();
        let schemas = schemas.context("the document has no components")?;
        match self {
            Self::Reference => schemas.shift_remove(BROKEN).map(drop),
            Self::Member => schemas.get_mut(BROKEN).and_then(|schema| {
                let member = schema["properties"].as_object_mut()?.shift_remove("requestId")?;
                schema["properties"]["requestIdentifier"] = member;
                schema["required"] = serde_json::json!(["paymentReference", "requestIdentifier"]);
                Some(())
            }),
        }
        .with_context(|| format!("{BROKEN} has changed; break another component"))
    }
}

/// Reads a document from the folder of committed documents, or from another folder.
pub(super) fn read(folder: &Path, name: &str) -> Result<Value> {
    let path = folder.join(name).with_extension("json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Writes the documents for a generator into a folder.
pub(super) fn write(from: &Path, to: &Path, adaptations: &[Adaptation], broken: Option<Broken>) -> Result<()> {
    fs::create_dir_all(to)?;
    for name in NAMES {
        let mut document = read(from, name)?;
        for adaptation in adaptations.iter().filter(|adaptation| adaptation.document == name) {
            if !(adaptation.change)(&mut document) {
                bail!("this adaptation is no longer needed; remove it: {}", adaptation.reason);
            }
        }
        if let Some(broken) = broken.filter(|_| name == "v2") {
            broken.apply(&mut document)?;
        }
        fs::write(to.join(name).with_extension("json"), document.to_string())?;
    }
    Ok(())
}

/// Lists the places where a document leaves a type open or unnamed. A generator turns such a type into `any`, or makes
/// up a name.
pub(super) fn unnamed(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        look(schema, &format!("#/components/schemas/{name}"), true, &mut found);
    }
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let place = format!("{} {path} {}", method.to_uppercase(), parameter["name"]);
                look(&parameter["schema"], &place, false, &mut found);
            }
            for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                for (kind, content) in answer["content"].as_object().into_iter().flatten() {
                    let place = format!("{} {path} {status} {kind}", method.to_uppercase());
                    look(&content["schema"], &place, false, &mut found);
                }
            }
        }
    }
    found
}

fn look(schema: &Value, place: &str, is_component: bool, found: &mut Vec<String>) {
    let Some(members) = schema.as_object().filter(|members| !members.contains_key("$ref")) else {
        return;
    };
    let unions = ["allOf", "oneOf", "anyOf"];
    let is_union = unions.iter().any(|name| members.contains_key(*name));
    if !members.contains_key("type") && !is_union {
        found.push(format!("{place}: no type"));
    } else if schema["type"] == "object" && !is_union {
        let is_map = schema["additionalProperties"].is_object();
        match members.contains_key("properties") {
            false if !is_map => found.push(format!("{place}: an object without members")),
            true if !is_component => found.push(format!("{place}: an object without a name")),
            _ => {}
        }
    } else if !is_component && schema["enum"].as_array().is_some_and(|values| values.len() > 1) {
        // A single value is a constant, for which generators need no name.
        found.push(format!("{place}: an enum without a name"));
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        look(member, &format!("{place}/properties/{name}"), false, found);
    }
    for part in ["items", "additionalProperties"] {
        look(&schema[part], &format!("{place}/{part}"), false, found);
    }
    for union in unions {
        for (index, part) in schema[union].as_array().into_iter().flatten().enumerate() {
            look(part, &format!("{place}/{union}/{index}"), false, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn open_and_nameless_types_are_named() {
        let document = json!({"components": {"schemas": {
            "Fine": {"type": "object", "properties": {
                "map": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/State"}},
            }},
            "State": {"type": "string", "enum": ["a"]},
            "Bad": {"type": "object", "properties": {
                "any": {"description": "?"}, "inner": {"type": "object", "properties": {}},
                "list": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
                "version": {"type": "integer", "enum": [1]},
            }},
        }}});
        let places: Vec<String> = unnamed(&document);
        assert_eq!(places.len(), 3, "{places:?}");
        assert!(places.contains(&"#/components/schemas/Bad/properties/any: no type".to_owned()));
        assert!(places.contains(&"#/components/schemas/Bad/properties/list/items: an enum without a name".to_owned()));
    }

    #[test]
    fn the_link_token_parameter_is_renamed_apart_from_the_currency_token() {
        let parameters = json!([{"name": "token", "in": "path"}, {"name": "token", "in": "query"}]);
        let mut document = json!({"paths": {"/x/{token}": {"get": {"parameters": parameters}}, "/y": {}}});
        assert!(rename_token(&mut document));
        let parameters = &document["paths"]["/x/{linkToken}"]["get"]["parameters"];
        assert_eq!(
            (&parameters[0]["name"], &parameters[1]["name"]),
            (&json!("linkToken"), &json!("token"))
        );
        assert!(!rename_token(&mut document));
    }

    #[test]
    fn the_two_broken_documents_are_distinguished() {
        assert!(Broken::Reference.is_named_in("Can't resolve $ref RequestCreated"));
        assert!(Broken::Member.is_named_in("no field `request_id`"));
        assert!(!Broken::Member.is_named_in("ended with exit status 1"));
    }
}
