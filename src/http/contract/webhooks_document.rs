//! The document of the webhooks: OpenAPI 3.1, built from the types that are sent.
//!
//! Schemas come from `schemars`, the document from `utoipa`, whose schema model is lossy: [`typed`] rejects a schema
//! that the model would not write back completely. Source: decisions D29; interface §6.1.

use crate::{
    http::forms::text::ANY,
    payloads::{KINDS, PayloadKind, ProcessorNames, sample},
};
use schemars::{
    Schema as JsonSchema, SchemaGenerator,
    generate::SchemaSettings,
    transform::{RecursiveTransform, Transform as _},
};
use serde_json::{Value, json};
use utoipa::openapi::{
    Components, Content, ContentBuilder, HttpMethod, Info, License, OpenApiBuilder, PathItem, Paths, Ref, RefOr,
    Required, Response,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    request_body::RequestBodyBuilder,
    schema::{Discriminator, OneOfBuilder, Schema},
    tag::TagBuilder,
};

/// The one tag of the document.
const TAG: &str = "Webhooks";

macro_rules! headers {
    ($($name:literal $required:ident $pattern:literal $length_max:literal $example:literal: $description:literal;)+) => {
        /// Headers of a delivery: name, whether it is always present, pattern, maximum length, example and description.
        const HEADERS: [(&str, Required, &str, u64, &str, &str); [$($name),+].len()] =
            [$(($name, Required::$required, $pattern, $length_max, $example, $description)),+];
    };
}

headers! {
    "x-service-signature" True "^[0-9a-f]{64}$" 64
        "ef63a8d5eb6a8f60c11aae934731a9c13a5663c5a7f513ee82cc2832f692b440":
        "Lowercase hexadecimal HMAC-SHA-256 of the raw body. The key is the secret as it was shown; during a rotation, \
         the old secret.";
    "x-service-signature-next" False "^[0-9a-f]{64}( [0-9a-f]{64}){0,2}$" 194
        "4bfde9ae4a44b7d618d7bda85c343f8b5bb99a5eedf62aeeb3802312c50b514d":
        "Present only during a rotation: the HMAC of the raw body with the new secret. After several rotations, one \
         HMAC for each newer secret, separated by spaces, newest first.";
    "x-service-delivery" True "^[0-7][0-9A-HJKMNP-TV-Z]{25}$" 26 "01JZX4T9QK3M7N8P2R5S6V0WYB":
        "ULID of the delivery, the same for every attempt: use it to deduplicate.";
    "x-service-retry-count" True "^[0-3]$" 1 "0": "Number of failed attempts before this one, 0 to 3.";
    "x-service-test" False "" 4 "true": "`true` on test deliveries; otherwise absent.";
    "x-service-replay" False "" 4 "true": "`true` on replayed deliveries; otherwise absent.";
    "webhook-id" False "^[0-7][0-9A-HJKMNP-TV-Z]{25}$" 26 "01JZX4T9QK3M7N8P2R5S6V0WYB":
        "Standard Webhooks: the id of the delivery. The three Standard Webhooks headers are sent unless \
         `webhooks.standard_headers` is off.";
    "webhook-timestamp" False "^[0-9]{10}$" 10 "1769860800":
        "Standard Webhooks: time of this attempt as a Unix timestamp in seconds.";
    "webhook-signature" False "^v1,[0-9A-Za-z+/]{43}=( v1,[0-9A-Za-z+/]{43}=){0,3}$" 191
        "v1,ziL2BDFUfiCwsnRPsKiSK5mq9/zLRsr0zFQErdjeL4g=":
        "Standard Webhooks: `v1,` and the base64 HMAC-SHA-256 of id, timestamp and raw body, joined by full stops, \
         with the key of x-service-signature. During a rotation, one signature for each valid secret, separated by \
         spaces.";
}

fn settings() -> SchemaSettings {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with_transform(RecursiveTransform(bound_text))
}

/// The body schema of an event type. The generator applies transforms to referenced schemas, but not to the body
/// itself.
fn schema_of(kind: &PayloadKind, generator: &mut SchemaGenerator) -> JsonSchema {
    let mut schema = (kind.schema)(generator);
    RecursiveTransform(bound_text).transform(&mut schema);
    schema
}

/// Gives a string without a format the pattern of any text.
fn bound_text(schema: &mut JsonSchema) {
    let is_text = match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => false,
    };
    let has_form = ["format", "pattern", "enum", "const"]
        .iter()
        .any(|keyword| schema.get(*keyword).is_some());
    if is_text && !has_form {
        schema.insert("pattern".to_owned(), ANY.into());
    }
}

/// The document.
pub fn document() -> Value {
    let settings = settings().with(|settings| {
        settings.meta_schema = None;
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut components = Components::new();
    let mut hooks = Paths::new();
    let mut union = OneOfBuilder::new().description(Some("Any event; the member `event` is its type."));
    let mut discriminator = Discriminator::new("event");
    for kind in KINDS {
        let mut schema = schema_of(&kind, &mut generator);
        schema.remove("title");
        components
            .schemas
            .insert(kind.component.to_owned(), typed(schema.as_value()));
        let reference = Ref::from_schema_name(kind.component);
        discriminator
            .mapping
            .insert(kind.name.to_owned(), reference.ref_location.clone());
        union = union.item(reference);
        hooks
            .paths
            .insert(kind.name.to_owned(), PathItem::new(HttpMethod::Post, operation(&kind)));
    }
    for (name, schema) in generator.take_definitions(true) {
        components.schemas.insert(name, typed(&schema));
    }
    components.schemas.insert(
        "WebhookEvent".to_owned(),
        Schema::OneOf(union.discriminator(Some(discriminator)).build()).into(),
    );
    let mut info = Info::new("Payment Request Service: Webhooks", "0.13.0");
    info.description = Some(include_str!("about/webhooks.md").to_owned());
    let mut license = License::new("Apache-2.0");
    license.url = Some("https://www.apache.org/licenses/LICENSE-2.0".to_owned());
    info.license = Some(license);
    let mut document = OpenApiBuilder::new()
        .info(info)
        .tags(Some([TagBuilder::new()
            .name(TAG)
            .description(Some("The service sends one POST for each event and endpoint."))
            .build()]))
        .components(Some(components))
        .build();
    document.webhooks = Some(hooks);
    let mut document = json!(document);
    document["servers"] = super::about::this_host();
    document["components"]["pathItems"] = json!({ "Receiver": receiver() });
    document["info"]["contact"] = json!({ "name": "The maintainers of this service" });
    document
}

/// Name and self-contained JSON Schema of each event.
pub fn event_schemas() -> Vec<(String, String)> {
    let schemas = KINDS.iter().map(|kind| {
        let mut generator = settings().into_generator();
        let mut schema = schema_of(kind, &mut generator);
        let definitions = generator.take_definitions(true);
        schema.insert(
            "$schema".to_owned(),
            json!("https://json-schema.org/draft/2020-12/schema"),
        );
        if !definitions.is_empty() {
            schema.insert("$defs".to_owned(), definitions.into());
        }
        (kind.name.to_owned(), super::document::pretty(schema.as_value()))
    });
    schemas.collect()
}

fn operation(kind: &PayloadKind) -> Operation {
    let example = sample(kind.name, &ProcessorNames::default()).and_then(|body| serde_json::from_str(&body).ok());
    let content: Content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(kind.component)))
        .example(example)
        .build();
    OperationBuilder::new()
        .operation_id(Some(kind.name))
        .tag(TAG)
        .summary(Some(kind.summary))
        .description(Some(kind.description))
        .parameters(Some(parameters()))
        .request_body(Some(
            RequestBodyBuilder::new()
                .description(Some("The event."))
                .required(Some(Required::True))
                .content("application/json", content)
                .build(),
        ))
        .response(
            "2XX",
            Response::new(
                "Accepted. After any other response (also a redirect), or none within 5 seconds, the service sends \
                 the delivery again after 1, 5 and 15 seconds.",
            ),
        )
        .securities(Some(Vec::new()))
        .build()
}

/// An operation whose body can be any event. An endpoint receives every event type, but each webhook of the document
/// describes only the body of one type.
fn receiver() -> PathItem {
    let event = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("WebhookEvent")))
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some("receiveEvent"))
        .tag(TAG)
        .summary(Some("Any event"))
        .description(Some(
            "Any event that an endpoint receives. Each event type is described in its own webhook.",
        ))
        .parameters(Some(parameters()))
        .request_body(Some(
            RequestBodyBuilder::new()
                .description(Some("The event."))
                .required(Some(Required::True))
                .content("application/json", event)
                .build(),
        ))
        .response("2XX", Response::new("Accepted."))
        .securities(Some(Vec::new()));
    PathItem::new(HttpMethod::Post, operation.build())
}

fn parameters() -> impl Iterator<Item = Parameter> {
    HEADERS
        .into_iter()
        .map(|(name, required, pattern, length_max, example, description)| {
            let schema = if pattern.is_empty() {
                json!({ "type": "string", "enum": [example], "examples": [example] })
            } else {
                json!({ "type": "string", "pattern": pattern, "maxLength": length_max, "examples": [example] })
            };
            let parameter = ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Header)
                .required(required);
            parameter
                .description(Some(description))
                .schema(Some(typed(&schema)))
                .build()
        })
}

/// Reads a schema into the model of the document.
///
/// Panics when the model would lose a keyword. An incomplete schema must never be published, and every test of the
/// document calls this function.
fn typed(schema: &Value) -> RefOr<Schema> {
    modelled(schema).unwrap_or_else(|| panic!("the model of the document loses part of {schema}"))
}

/// The schema as the model represents it; `None` if the model loses part of it.
fn modelled(schema: &Value) -> Option<RefOr<Schema>> {
    let typed: RefOr<Schema> = serde_json::from_value(schema.clone()).ok()?;
    (json!(typed) == *schema).then_some(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_a_webhook_with_headers_and_a_valid_example() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        for kind in KINDS {
            let operation = &document["webhooks"][kind.name]["post"];
            assert_eq!(operation["operationId"], kind.name);
            assert_eq!(operation["parameters"].as_array().unwrap().len(), 9);
            let media = &operation["requestBody"]["content"]["application/json"];
            let mut schema = media["schema"].clone();
            schema["components"] = document["components"].clone();
            let validator = jsonschema::options()
                .should_validate_formats(true)
                .build(&schema)
                .unwrap();
            let errors: Vec<String> = validator
                .iter_errors(&media["example"])
                .map(|error| error.to_string())
                .collect();
            assert!(errors.is_empty(), "{errors:?}");
            let component = &document["components"]["schemas"][kind.component];
            assert_eq!(component["properties"]["event"]["enum"], json!([kind.name]));
            let mapping = &document["components"]["schemas"]["WebhookEvent"]["discriminator"]["mapping"];
            assert_eq!(mapping[kind.name], format!("#/components/schemas/{}", kind.component));
        }
    }

    #[test]
    fn nullable_members_are_required_and_optional_ones_never_null() {
        let schema = &document()["components"]["schemas"]["PaymentConfirmed"];
        let required: Vec<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(required.contains(&"payerAddress"));
        assert!(!required.contains(&"clientId"));
        assert_eq!(schema["properties"]["payerAddress"]["type"], json!(["string", "null"]));
        assert_eq!(schema["properties"]["clientId"]["type"], "string");
    }

    #[test]
    fn every_member_is_described_and_has_an_example() {
        let document = document();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            for (member, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(
                    property["description"].is_string() || property["$ref"].is_string(),
                    "{name}.{member}"
                );
                let has_example = property["examples"].is_array() || property["$ref"].is_string();
                assert!(has_example || property["type"] == "array", "{name}.{member}");
            }
        }
    }

    #[test]
    fn a_schema_that_the_model_cannot_represent_is_refused() {
        assert!(modelled(&json!({ "type": "string", "maxLength": 3 })).is_some());
        assert!(
            modelled(&json!({ "type": "string", "x-not-known-to-the-model": 1, "if": { "const": "a" } })).is_none()
        );
    }
}
