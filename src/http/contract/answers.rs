//! Completes the documented responses: descriptions, headers and examples.
//!
//! Lines at the end of the doc comment of an operation describe its responses, one line for each status: the body of a
//! success (`201: The new endpoint and its secret`) or the message of an error (`404: Webhook not found`). A status
//! with several causes has several lines. A line can name its field (`400 firstOnly: …`). Without such a line, a 400
//! shows the error for one wrong field, derived from the operation's parameters and body. A 409 or 423 that reports the
//! requests of a secure payment names their member (`409 requestStatuses: …`), and so does a 400 that lists the links
//! that block a multicall (`400 failures: …`). Errors that are the same for every operation are defined once, in the
//! components.

use crate::{
    domain::refusal::FieldError,
    http::{
        body::{self, idempotency::IDEMPOTENCY_KEY, reply::REPLAYED_HEADER},
        contract::{
            examples::example_of,
            members::members_mut,
            schemas::{LIST_ITEMS_MAX, component_name},
        },
        error::{DocumentedStatus, TOO_MANY_HINT, documented},
        gate::{access, rate_limits::SHOWN_MAX, scheme::needs},
    },
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The member of an error body with the payment status of requests.
const REQUESTS_PAID: &str = "requestStatuses";

/// The member of an error body with the links that block a multicall.
const BLOCKED_LINKS: &str = "failures";

/// Headers of every response.
const HEADERS: [&str; 5] = [
    "x-request-id",
    "Access-Control-Allow-Origin",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
];

/// The headers that responses refer to.
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
    let page = "Origin of the calling page, if this origin belongs to an active client ID; otherwise absent.";
    let quota = "Limit of calls per minute: of this credential from this address, or of its platform if the platform \
                 has fewer calls left. Absent when rate limits are off.";
    json!({
        HEADERS[0]: text("Id of the call.", "^[A-Za-z0-9._:-]{1,128}$", 128, "01JZX4T9QK3M7N8P2R5S6V0WYB"),
        HEADERS[1]: text(page, r"^https?://[^\s/]+$", 2048, "https://shop.example.com"),
        HEADERS[2]: count(quota, SHOWN_MAX, 300),
        HEADERS[3]: count("Calls left in the current burst.", SHOWN_MAX, 49),
        HEADERS[4]: count("Seconds until the rate limit resets.", SHOWN_MAX, 25),
        "Retry-After": count("Seconds to wait before retrying.", 86_400, 1),
        REPLAYED_HEADER: text("`true` for the stored response of an earlier call; else absent.", "^true$", 4, "true"),
    })
}

/// Example error for a call with one mistake: the first required member is missing, the first member has a wrong type
/// if no member is required, or a parameter is malformed.
///
/// The function reads the operation as the framework prints it, because the messages are in `title` members, which the
/// document drops.
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

/// Completes the responses of an operation; responses shared with other operations go to `shared`.
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
    let hint = |failure: &DocumentedStatus| {
        if failure.is_about_credentials() {
            Some(needs(accepted))
        } else {
            failure.is_about_haste().then(|| TOO_MANY_HINT.to_owned())
        }
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
                // The hint of the response names the required credentials, so operations share a component only if they
                // accept the same schemes.
                let name = if failure.is_about_credentials() {
                    accepted
                        .iter()
                        .map(|scheme| scheme.id())
                        .fold(name.to_owned(), |name, id| name + id)
                } else {
                    name.to_owned()
                };
                shared.entry(&name).or_insert_with(|| {
                    fail(response, failure.example(None, Vec::new(), hint(failure)), failure);
                    response.clone()
                });
                *response = json!({ "$ref": format!("#/components/responses/{name}") });
            }
            (None, []) => fail(response, failure.example(None, wrong, None), failure),
            (_, [first, further @ ..]) => {
                let names_no_field = words.iter().any(|own| own.field.is_none());
                // A message without a field does not replace the list of wrong fields.
                let is_listed = failure.is_about_input() && names_no_field && !wrong.is_empty();
                let listed = is_listed.then(|| failure.example(None, wrong, None));
                fail(response, first.example(failure), failure);
                let name = if failure.is_about_haste() {
                    Some("haste")
                } else {
                    (failure.is_about_credentials() && !accepted.is_empty()).then_some("credential")
                };
                let shared = name.map(|name| (name, failure.example(None, Vec::new(), hint(failure))));
                let further = further.iter().map(|own| own.example(failure));
                let further: Vec<Value> = listed.into_iter().chain(further).collect();
                fail_further(response, further, shared);
                if let Some(about) = failure.own_meaning(is_repeatable, names_no_field) {
                    response["description"] = about.into();
                }
            }
        }
    }
}

/// One status line of a doc comment.
struct StatusSentence {
    /// The field that the message is about.
    field: Option<String>,
    sentence: String,
}

impl StatusSentence {
    fn example(&self, failure: &DocumentedStatus) -> Value {
        match self.field.as_deref() {
            Some(REQUESTS_PAID) => return failure.progress_example(&self.sentence),
            Some(BLOCKED_LINKS) => return failure.multicall_example(&self.sentence),
            _ => {}
        }
        let wrong = self.field.as_ref().map(|field| FieldError::new(field, &self.sentence));
        failure.example(Some(&self.sentence), wrong.into_iter().collect(), None)
    }
}

/// Removes lines such as `404: Webhook not found` from the description and returns them by status.
fn own_words(operation: &mut Value) -> BTreeMap<String, Vec<StatusSentence>> {
    let mut words: BTreeMap<String, Vec<StatusSentence>> = BTreeMap::new();
    let Some(text) = operation["description"].as_str() else {
        return words;
    };
    let kept = text.lines().filter(|line| {
        let said = line.split_once(": ").and_then(|(head, sentence)| {
            let (status, field) = head
                .split_once(' ')
                .map_or((head, None), |(status, field)| (status, Some(field)));
            let words = StatusSentence {
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

fn succeed(response: &mut Value, words: Option<StatusSentence>, is_repeatable: bool, schemas: &Value) {
    let more = is_repeatable.then_some(REPLAYED_HEADER);
    add_headers(response, more);
    if let Some(media) = answer_media(response) {
        // The length limit of a list is usually documented at its member. A response that is itself a list gets a
        // default limit.
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

fn fail(response: &mut Value, example: Value, failure: &DocumentedStatus) {
    add_headers(response, failure.says_when().then_some("Retry-After"));
    if let Some(media) = answer_media(response) {
        media["example"] = example;
    }
}

/// If the operation has several messages for this status, or one besides the message that all operations share, the
/// response gets an example for each message.
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

/// The content of a response: JSON, or a stream whose schema is that of one message or line.
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
