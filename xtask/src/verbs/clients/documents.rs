//! The documents as a generator gets them: as they are committed, adapted to what it cannot read, or broken on purpose.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// The documents that clients are generated from.
pub(super) const NAMES: [&str; 2] = ["v2", "auth"];

/// A change for the sake of one generator, which leaves what the service understands as it is.
pub(super) struct Adaptation {
    /// Which document.
    pub(super) document: &'static str,
    /// What is changed, and what the generator would do otherwise.
    pub(super) reason: &'static str,
    /// Changes the document; false when there was nothing to change.
    pub(super) change: fn(&mut Value) -> bool,
}

/// The operation whose answer never ends.
const STREAM: &str = "/v2/events/stream";

/// Python: the generator reads a stream to its end before it looks at it, and hands text where it expects an object.
pub(super) const WITHOUT_STREAM: Adaptation = Adaptation {
    document: "v2",
    reason: "GET /v2/events/stream is left out: the generated call waits for the end of a stream that has none",
    change: |document| {
        let paths = document["paths"].as_object_mut();
        paths.is_some_and(|paths| paths.shift_remove(STREAM).is_some())
    },
};

/// Rust: the generator keys parameters by their name alone.
pub(super) const TOKEN_OF_LINKS: Adaptation = Adaptation {
    document: "v2",
    reason: "the `token` in paths is called `linkToken`: the generator ends at a query parameter of the same name",
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

/// What is broken on purpose, to see that somebody notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// A reference leads nowhere.
    Reference,
    /// A member of an answer has another name.
    Member,
}

/// The component that is broken.
const BROKEN: &str = "RequestCreated";

impl Broken {
    /// The heading of its column.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Reference => "a reference that leads nowhere",
            Self::Member => "a renamed member",
        }
    }

    /// Whether a complaint names what is wrong.
    pub(super) fn is_named_in(self, complaint: &str) -> bool {
        let complaint = complaint.to_lowercase().replace('_', "");
        let names: &[&str] = match self {
            // The component, or the operation that refers to it as a JSON pointer.
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
        .with_context(|| format!("{BROKEN} is not what it was; break something else"))
    }
}

/// Reads a document from the folder of the committed ones, or from another one.
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
                bail!("nothing to adapt any more; remove it: {}", adaptation.reason);
            }
        }
        if let Some(broken) = broken.filter(|_| name == "v2") {
            broken.apply(&mut document)?;
        }
        fs::write(to.join(name).with_extension("json"), document.to_string())?;
    }
    Ok(())
}

/// Where a document leaves a type open or without a name: what a generator turns into `any` or into a name of its own.
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
        // One value alone is a constant, which needs no name.
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
    fn the_token_of_a_link_differs_from_that_of_a_currency() {
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
    fn what_is_broken_is_told_apart() {
        assert!(Broken::Reference.is_named_in("Can't resolve $ref RequestCreated"));
        assert!(Broken::Member.is_named_in("no field `request_id`"));
        assert!(!Broken::Member.is_named_in("ended with exit status 1"));
    }
}
