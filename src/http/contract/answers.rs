//! Completes answers: what they mean, their headers, and an example of what is sent.
//!
//! Lines at the end of the doc comment of an operation say it in words of its own, one for each status: what a success
//! holds (`201: The new endpoint and its secret`), and the sentence of a refusal (`404: Webhook not found`); a status
//! that is sent for several reasons has a line for each. A 400
//! without such a line shows the answer to one wrong field, read from the forms of the operation itself; one that names
//! its field has it in the line too (`400 firstOnly: …`), and a 409 that says what became of the requests of a secure
//! payment has their member there (`409 requestStatuses: …`). Failures that are the same for every operation stand once, in
//! the components.

use crate::{
    domain::refusal::FieldError,
    http::{
        body::{self, idempotency::IDEMPOTENCY_KEY, reply::REPLAYED_HEADER},
        contract::{
            examples::example_of,
            members::members_mut,
            schemas::{LIST_ITEMS_MAX, component_name},
        },
        error::{Documented, TOO_MANY_HINT, documented},
        gate::{access, rate_limits::SHOWN_MAX, scheme::needs},
    },
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The member of a failure that says what became of requests.
const REQUESTS_PAID: &str = "requestStatuses";

/// Headers of every answer.
const HEADERS: [&str; 5] = [
    "x-request-id",
    "Access-Control-Allow-Origin",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
];

/// The headers that answers refer to.
pub(super) fn headers() -> Value {
    let text = |description: &str, pattern: &str, length_max: u32, example: &str| {
        let schema = json!({ "type": "string", "pattern": pattern, "maxLength": length_max, "example": example });
        json!({ "description": description, "schema": schema })
    };
    let count = |description: &str, maximum: u32, example: u32| {
        let schema =
            json!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": maximum, "example": example });
        json!({ "description": description, "schema": schema })
    };
    let page = "The calling page, when it belongs to an active client ID; else absent.";
    let quota = "Calls a minute of this credential from this address, or of its platform where that has less left; absent \
                 where limits are switched off.";
    json!({
        HEADERS[0]: text("Id of the call.", "^[A-Za-z0-9._:-]{1,128}$", 128, "01JZX4T9QK3M7N8P2R5S6V0WYB"),
        HEADERS[1]: text(page, r"^https?://[^\s/]+$", 2048, "https://shop.example.com"),
        HEADERS[2]: count(quota, SHOWN_MAX, 300),
        HEADERS[3]: count("Calls that are left at once.", SHOWN_MAX, 49),
        HEADERS[4]: count("Seconds until the whole burst is there again.", SHOWN_MAX, 25),
        "Retry-After": count("Seconds to wait before the next try.", 86_400, 1),
        REPLAYED_HEADER: text("`true` when the answer is the stored one of an earlier call; else absent.", "^true$", 4, "true"),
    })
}

/// What a caller reads who gets one thing wrong: leaves out the first member that is required, sends the first one in
/// another form where none is, or sends a parameter that has not its form.
///
/// It reads the operation as the framework prints it: the sentences travel in titles, which the document drops.
pub(super) fn refused(operation: &Value, components: &Value) -> Vec<FieldError> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if let Some(reference) = schema["$ref"].as_str() {
        let named = &components["schemas"][component_name(reference)];
        let required = named["required"].as_array().and_then(|names| names.first());
        let first = named["properties"]
            .as_object()
            .and_then(|members| members.iter().next());
        let wrong = match (required, first) {
            (Some(_), _) | (None, None) => json!({}),
            (None, Some((name, member))) if member["type"] == "boolean" => json!({ name: "text" }),
            (None, Some((name, _))) => json!({ name: true }),
        };
        let mut found = body::refusals(schema, components, &wrong);
        found.truncate(1);
        return found;
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let mut formed = parameters.filter_map(|parameter| {
        let form = parameter["schema"]["title"].as_str()?;
        let is_missing = parameter["in"] == "query" && parameter["required"] == true;
        let sentence = if is_missing {
            format!("is required: {form}")
        } else {
            form.to_owned()
        };
        Some(FieldError::new(parameter["name"].as_str()?, sentence))
    });
    formed.next().into_iter().collect()
}

/// Completes the answers of an operation; what it shares with others goes to `shared`.
pub(super) fn finish(
    operation: &mut Value,
    mut wrong: Vec<FieldError>,
    schemas: &Value,
    shared: &mut Map<String, Value>,
) {
    let mut words = own_words(operation);
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let is_repeatable = parameters
        .into_iter()
        .any(|parameter| parameter["name"] == IDEMPOTENCY_KEY);
    let row = operation["operationId"].as_str().and_then(access::row);
    let accepted = row.map_or(&[][..], |row| row.any_of);
    let hint = |failure: &Documented| match failure.is_about_credentials() {
        true => Some(needs(accepted)),
        false => failure.is_about_haste().then(|| TOO_MANY_HINT.to_owned()),
    };
    for (status, response) in members_mut(operation, "responses") {
        let mut words = words.remove(status).unwrap_or_default();
        let Some(failure) = documented(status) else {
            succeed(response, words.pop(), is_repeatable, schemas);
            continue;
        };
        let wrong = if failure.component.is_none() {
            std::mem::take(&mut wrong)
        } else {
            Vec::new()
        };
        match (failure.component, &words[..]) {
            (Some(name), []) => {
                // What a credential would have to be is the same for operations that take the same ones.
                let name = match failure.is_about_credentials() {
                    true => accepted
                        .iter()
                        .map(|scheme| scheme.id())
                        .fold(name.to_owned(), |name, id| name + id),
                    false => name.to_owned(),
                };
                shared.entry(&name).or_insert_with(|| {
                    fail(response, failure.example(None, Vec::new(), hint(failure)), failure);
                    response.clone()
                });
                *response = json!({ "$ref": format!("#/components/responses/{name}") });
            }
            (None, []) => fail(response, failure.example(None, wrong, None), failure),
            (_, [first, further @ ..]) => {
                fail(response, first.example(failure), failure);
                let name = if failure.is_about_haste() {
                    Some("haste")
                } else {
                    (failure.is_about_credentials() && !accepted.is_empty()).then_some("credential")
                };
                let shared = name.map(|name| (name, failure.example(None, Vec::new(), hint(failure))));
                let further: Vec<Value> = further.iter().map(|own| own.example(failure)).collect();
                fail_further(response, further, shared);
                if let Some(about) = failure.about_state(is_repeatable) {
                    response["description"] = about.into();
                }
            }
        }
    }
}

/// What a line of a doc comment says of a status.
struct Words {
    /// The field that the sentence is about.
    field: Option<String>,
    sentence: String,
}

impl Words {
    fn example(&self, failure: &Documented) -> Value {
        if self.field.as_deref() == Some(REQUESTS_PAID) {
            return failure.completed_example(&self.sentence);
        }
        let wrong = self.field.as_ref().map(|field| FieldError::new(field, &self.sentence));
        failure.example(Some(&self.sentence), wrong.into_iter().collect(), None)
    }
}

/// Takes the lines `404: Webhook not found` off the description, by status.
fn own_words(operation: &mut Value) -> BTreeMap<String, Vec<Words>> {
    let mut words: BTreeMap<String, Vec<Words>> = BTreeMap::new();
    let Some(text) = operation["description"].as_str() else {
        return words;
    };
    let kept = text.lines().filter(|line| {
        let said = line.split_once(": ").and_then(|(head, sentence)| {
            let (status, field) = head
                .split_once(' ')
                .map_or((head, None), |(status, field)| (status, Some(field)));
            let words = Words {
                field: field.map(str::to_owned),
                sentence: sentence.to_owned(),
            };
            status.parse::<u16>().is_ok().then(|| (status.to_owned(), words))
        });
        let is_prose = said.is_none();
        if let Some((status, said)) = said {
            words.entry(status).or_default().push(said);
        }
        is_prose
    });
    let kept = kept.collect::<Vec<_>>().join("\n").trim_end().to_owned();
    if kept.is_empty() {
        operation
            .as_object_mut()
            .map(|members| members.shift_remove("description"));
    } else {
        operation["description"] = kept.into();
    }
    words
}

fn succeed(response: &mut Value, words: Option<Words>, is_repeatable: bool, schemas: &Value) {
    let more = is_repeatable.then_some(REPLAYED_HEADER);
    add_headers(response, more);
    if let Some(media) = answer_media(response) {
        // Lists that are whole answers have no member to carry their bound.
        if let Some(schema) = media["schema"]
            .as_object_mut()
            .filter(|schema| schema.get("type") == Some(&json!("array")))
        {
            schema.entry("maxItems").or_insert(json!(LIST_ITEMS_MAX));
        }
        media["example"] = example_of(&media["schema"], schemas, 0);
    }
    if let Some(words) = words {
        response["description"] = words.sentence.into();
    }
}

fn fail(response: &mut Value, example: Value, failure: &Documented) {
    add_headers(response, failure.says_when().then_some("Retry-After"));
    if let Some(media) = answer_media(response) {
        media["example"] = example;
    }
}

/// Shows beside the first example what else the operation says, and what all operations say.
fn fail_further(response: &mut Value, further: Vec<Value>, shared: Option<(&str, Value)>) {
    if further.is_empty() && shared.is_none() {
        return;
    }
    if let Some(media) = answer_media(response).and_then(Value::as_object_mut) {
        let own = media.shift_remove("example").into_iter().chain(further);
        let numbered = (1..).zip(own).map(|(number, own)| match number {
            1 => ("operation".to_owned(), own),
            number => (format!("operation{number}"), own),
        });
        let all = numbered.chain(shared.map(|(name, shared)| (name.to_owned(), shared)));
        let all: Map<String, Value> = all.map(|(name, value)| (name, json!({ "value": value }))).collect();
        media.insert("examples".to_owned(), all.into());
    }
}

fn add_headers(response: &mut Value, more: Option<&str>) {
    let names = HEADERS.into_iter().chain(more);
    let mut headers: Map<String, Value> = names
        .map(|name| {
            (
                name.to_owned(),
                json!({ "$ref": format!("#/components/headers/{name}") }),
            )
        })
        .collect();
    if let Some(own) = response.get("headers").and_then(Value::as_object) {
        headers.extend(own.clone());
    }
    response["headers"] = headers.into();
}

/// What an answer carries: JSON, or a stream whose schema is that of one message or line.
fn answer_media(response: &mut Value) -> Option<&mut Value> {
    let content = response.get_mut("content")?.as_object_mut()?;
    content
        .iter_mut()
        .find(|(kind, _)| {
            matches!(
                kind.as_str(),
                "application/json" | "application/jsonl" | "text/event-stream"
            )
        })
        .map(|(_, media)| media)
}
