//! Scores how complete a document is: the shares of its parts that have a type, security, an example, a name and a
//! description.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::document::{Document, Operation, escape, members};

/// One share: the number of complete items, their total, and the locations of the incomplete ones.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Share {
    good: usize,
    /// JSON pointers of incomplete items.
    pub missing: BTreeSet<String>,
}

impl Share {
    fn count(&mut self, is_good: bool, pointer: &str) {
        if is_good {
            self.good += 1;
        } else {
            self.missing.insert(pointer.to_owned());
        }
    }

    /// The share in percent, rounded down, so that only a complete share is 100. `None` if the document has no such
    /// items.
    pub fn percent(&self) -> Option<usize> {
        let all = self.good + self.missing.len();
        (all > 0).then(|| self.good * 100 / all)
    }
}

/// `27/41`.
impl std::fmt::Display for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&format!("{}/{}", self.good, self.good + self.missing.len()))
    }
}

/// Names of the shares, in the order of [`Score::shares`].
pub const NAMES: [&str; 6] = [
    "typed successes",
    "typed errors",
    "secured operations",
    "examples that fit",
    "named types",
    "described members",
];

/// The shares of a document.
#[derive(Debug, Default)]
pub struct Score {
    successes: Share,
    errors: Share,
    secured: Share,
    examples: Share,
    named: Share,
    described: Share,
}

impl Score {
    /// All shares, in the order of [`NAMES`].
    pub fn shares(&self) -> [&Share; 6] {
        let Self {
            successes,
            errors,
            secured,
            examples,
            named,
            described,
        } = self;
        [successes, errors, secured, examples, named, described]
    }
}

/// Counts all shares of a document. `fits` says whether an example matches a schema of the document.
pub fn score(root: &Value, fits: &dyn Fn(&Value, &Value) -> bool) -> Score {
    let mut count = Count {
        document: Document::new(root),
        fits,
        score: Score::default(),
    };
    for operation in count.document.operations() {
        count.operation(&operation);
    }
    for (name, schema) in members(&root["components"]["schemas"]) {
        count.schema(schema, &format!("/components/schemas/{}", escape(name)), true);
    }
    count.score
}

struct Count<'a> {
    document: Document<'a>,
    fits: &'a dyn Fn(&Value, &Value) -> bool,
    score: Score,
}

impl<'a> Count<'a> {
    fn operation(&mut self, operation: &Operation<'a>) {
        let pointer = operation.pointer();
        let says_who = operation.body.get("security").is_some();
        let is_secured = self
            .document
            .security(operation)
            .is_some_and(|any_of| !any_of.is_empty());
        self.score.secured.count(is_secured || says_who, &pointer);
        for ((place, name), parameter) in self.document.parameters(operation) {
            let at = format!("{pointer}/parameters/{place}/{}", escape(&name));
            self.score.described.count(is_described(&parameter), &at);
            self.shown(&parameter, &at);
            self.schema(&parameter["schema"], &format!("{at}/schema"), false);
        }
        if let Some(body) = operation.body.get("requestBody") {
            let body = self.document.resolve(body).into_owned();
            self.content(&body["content"], &format!("{pointer}/requestBody"));
        }
        for (status, response) in members(&operation.body["responses"]) {
            let at = format!("{pointer}/responses/{status}");
            let response = self.document.resolve(response).into_owned();
            let is_typed = status == "204" || is_typed(&response["content"]);
            match status.as_bytes().first() {
                Some(b'2') => self.score.successes.count(is_typed, &at),
                Some(b'4' | b'5') => self.score.errors.count(is_typed, &at),
                _ => {}
            }
            self.content(&response["content"], &at);
        }
    }

    fn content(&mut self, content: &Value, pointer: &str) {
        for (name, media) in members(content) {
            let at = format!("{pointer}/content/{}", escape(name));
            if is_typed(content) {
                self.shown(media, &at);
            }
            self.schema(&media["schema"], &format!("{at}/schema"), false);
        }
    }

    /// Counts the examples of a parameter or of a body. An item is complete if it has an example and all its examples
    /// match.
    fn shown(&mut self, holder: &Value, pointer: &str) {
        let several = members(&holder["examples"]).map(|(_, example)| self.document.resolve(example).into_owned());
        let several = several.filter_map(|example| example.get("value").cloned());
        let one = holder.get("example").or_else(|| holder["schema"].get("example"));
        let values: Vec<Value> = one.cloned().into_iter().chain(several).collect();
        let all_fit = values.iter().all(|value| (self.fits)(&holder["schema"], value));
        self.score.examples.count(!values.is_empty() && all_fit, pointer);
    }

    /// Counts the properties of a schema. References are not followed: components are counted where they are defined.
    fn schema(&mut self, schema: &Value, pointer: &str, is_named: bool) {
        if needs_name(schema) {
            self.score.named.count(is_named, pointer);
        }
        let several = schema["examples"].as_array().into_iter().flatten();
        for example in schema.get("example").into_iter().chain(several) {
            self.score.examples.count((self.fits)(schema, example), pointer);
        }
        for (name, member) in members(&schema["properties"]) {
            let at = format!("{pointer}/properties/{}", escape(name));
            let is_described = is_described(member) || is_described(&self.document.resolve(member));
            self.score.described.count(is_described, &at);
            self.schema(member, &at, false);
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(keyword) {
                self.schema(inner, &format!("{pointer}/{keyword}"), false);
            }
        }
        for keyword in ["allOf", "oneOf", "anyOf"] {
            // A part of a component's `allOf` belongs to the component and is not counted separately: generators create
            // no type for it.
            let is_named = is_named && keyword == "allOf";
            for (index, part) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                self.schema(part, &format!("{pointer}/{keyword}/{index}"), is_named);
            }
        }
    }
}

fn is_described(holder: &Value) -> bool {
    holder["description"].as_str().is_some_and(|text| !text.is_empty())
}

/// Whether every media type has a non-empty schema.
fn is_typed(content: &Value) -> bool {
    let says_something = |media: &Value| media["schema"].as_object().is_some_and(|schema| !schema.is_empty());
    members(content).next().is_some() && members(content).all(|(_, media)| says_something(media))
}

/// Whether a schema needs a name. Objects, enumerations and unions do; a constant (with one value), a map and a
/// nullable reference do not.
fn needs_name(schema: &Value) -> bool {
    let is_map = matches!(&schema["additionalProperties"], Value::Object(_) | Value::Bool(true));
    let has_members = schema.get("properties").is_some();
    let is_enumeration = schema["enum"].as_array().is_some_and(|values| values.len() > 1);
    let forms = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|keyword| schema[keyword].as_array());
    let is_union = forms.flatten().filter(|form| form["type"] != "null").count() > 1;
    has_members || (schema["type"] == "object" && !is_map) || is_enumeration || is_union
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn whole() -> Value {
        let body = json!({ "schema": { "$ref": "#/components/schemas/Order" }, "example": { "amount": "1" } });
        json!({
            "paths": { "/orders/{id}": { "post": {
                "security": [{ "ApiKey": [] }],
                "parameters": [
                    { "in": "path", "name": "id", "description": "The order", "example": "1", "schema": { "type": "string" } },
                    { "in": "query", "name": "after", "description": "From when on", "schema": { "type": "string" },
                      "examples": { "none": { "summary": "Left out" }, "one": { "value": "2" } } },
                ],
                "requestBody": { "content": { "application/json": body } },
                "responses": {
                    "200": { "content": { "application/json": body } },
                    "204": { "description": "Nothing" },
                    "404": { "content": { "application/json": body } },
                },
            } } },
            "components": { "schemas": {
                "Order": { "type": "object", "properties": {
                    "amount": { "type": "string", "description": "How much", "example": "1" },
                    "kind": { "type": "string", "description": "Always one", "enum": ["order"] },
                    "state": { "$ref": "#/components/schemas/State" },
                    "labels": { "type": "object", "description": "Labels", "additionalProperties": { "type": "string" } },
                } },
                "State": { "type": "string", "description": "The state", "enum": ["open", "paid"] },
            } },
        })
    }

    /// A simple stand-in for a validator: a text matches every schema, and an object matches a reference.
    fn fits(schema: &Value, example: &Value) -> bool {
        example.is_string() || schema.get("$ref").is_some() && example.is_object()
    }

    #[test]
    fn a_whole_document_has_100_in_each_share() {
        let score = score(&whole(), &fits);
        let shown: Vec<String> = score.shares().map(ToString::to_string).into();
        assert_eq!(shown, ["2/2", "1/1", "1/1", "6/6", "2/2", "6/6"]);
        assert!(score.shares().iter().all(|share| share.percent() == Some(100)));
    }

    /// Each line has a member of the document, its new value, the share that the change reduces, and the location that
    /// must be reported.
    const CASES: &str = r##"
/paths/~1orders~1{id}/post/responses/200/content/application~1json/schema | {} | 0 | /responses/200
/paths/~1orders~1{id}/post/responses/404/content | {} | 1 | /responses/404
/paths/~1orders~1{id}/post/security | null | 2 | /post
/paths/~1orders~1{id}/post/requestBody/content/application~1json/example | 7 | 3 | /requestBody/content/application~1json
/paths/~1orders~1{id}/post/parameters/0/example | null | 3 | /parameters/path/id
/paths/~1orders~1{id}/post/parameters/1/examples | {"none": {}} | 3 | /parameters/query/after
/components/schemas/Order/properties/amount/example | 7 | 3 | /Order/properties/amount
/components/schemas/Order/properties/state | {"description": "x", "enum": ["a", "b"]} | 4 | /Order/properties/state
/components/schemas/Order/properties/state | {"description": "x", "type": "object"} | 4 | /Order/properties/state
/components/schemas/Order/properties/state | {"description": "x", "oneOf": [{"type": "string"}, {"type": "integer"}]} | 4 | /Order/properties/state
/components/schemas/Order/properties/amount/description | null | 5 | /Order/properties/amount
/components/schemas/State/description | null | 5 | /Order/properties/state
/paths/~1orders~1{id}/post/parameters/0/description | null | 5 | /parameters/path/id"##;

    #[test]
    fn missing_parts_lower_one_share_and_are_named() {
        for case in CASES.trim().lines() {
            let [pointer, value, index, place] = case.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{case}")
            };
            let mut document = whole();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let parent = document.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            match serde_json::from_str(value).unwrap() {
                Value::Null => drop(parent.remove(name).unwrap()),
                value => drop(parent.insert(name.to_owned(), value)),
            }
            let score = score(&document, &fits);
            for (at, share) in score.shares().into_iter().enumerate() {
                let is_less = share.percent() != Some(100);
                assert_eq!(
                    is_less,
                    at.to_string() == index,
                    "{case}: {} {:?}",
                    NAMES[at],
                    share.missing
                );
                assert!(
                    !is_less || share.missing.iter().all(|one| one.ends_with(place)),
                    "{case}: {share:?}"
                );
            }
        }
    }

    #[test]
    fn an_empty_document_has_no_shares() {
        let score = score(&json!({ "paths": {} }), &fits);
        assert!(score.shares().iter().all(|share| share.percent().is_none()));
    }
}
