//! The published documents: served files equal the committed ones, and responses match the documentation.

use crate::support::{
    TestApp,
    contract::{committed, documents, executable, flaws, resolved},
    requests::fau,
};
use prs::domain::refusal::RefusalCode;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;

/// The members of a path that are operations.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

#[tokio::test]
async fn the_served_documents_are_the_committed_files() {
    let app = TestApp::start().await;
    for name in ["v2", "auth", "webhooks"] {
        let served = app.get(&format!("/openapi/{name}.json")).send().await;
        assert_eq!(served.status, 200);
        assert!(
            served.text == committed(name),
            "{name}: run `cargo xtask openapi generate`"
        );
    }
}

#[test]
fn every_documented_example_matches_its_schema() {
    for document in documents() {
        let mut count = 0;
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let body = operation.get("requestBody").map(|body| ("body", body));
                let answers = operation["responses"].as_object().expect("responses");
                let answers = answers.iter().map(|(status, response)| (status.as_str(), response));
                for (what, holder) in body.into_iter().chain(answers) {
                    let media = &resolved(document, holder)["content"]["application/json"];
                    let Some(example) = media.get("example") else {
                        continue;
                    };
                    let validator = executable(document, &media["schema"]);
                    let errors: Vec<String> = validator.iter_errors(example).map(|error| error.to_string()).collect();
                    assert!(errors.is_empty(), "{method} {path} {what}: {errors:?} in {example}");
                    count += 1;
                }
            }
        }
        assert!(count > 100, "{} has only {count} examples", document["info"]["title"]);
    }
}

#[test]
fn calldata_examples_have_consistent_transaction_counts() {
    let document = &documents()[0];
    for (path, method, status) in [
        ("/v2/payouts", "post", "201"),
        ("/v2/request/{requestId}/pay", "get", "200"),
    ] {
        let answer = resolved(document, &document["paths"][path][method]["responses"][status]);
        let example = &answer["content"]["application/json"]["example"];
        let count = example["transactions"].as_array().expect("a list").len();
        let metadata = &example["metadata"];
        assert_eq!(metadata["stepsRequired"], count, "{path}: {example}");
        assert_eq!(
            metadata["paymentTransactionIndex"],
            count - 1,
            "{path}: the payment is the last transaction"
        );
        assert_eq!(metadata["needsApproval"], count > 1, "{path}");
        assert_eq!(metadata["approvalTransactionIndex"].is_null(), count == 1, "{path}");
    }
}

#[test]
fn time_schemas_accept_what_generated_clients_write() {
    let (mut texts, mut times) = (0, 0);
    for document in documents() {
        each(document, &mut |value| {
            let (name, schema) = (&value["name"], &value["schema"]);
            if value["in"] != "query" || schema["type"] != "string" {
                return;
            }
            if name == "fromDate" || name == "toDate" {
                assert_eq!(schema.get("format"), None, "{value}");
                assert!(
                    schema["pattern"]
                        .as_str()
                        .is_some_and(|pattern| pattern.ends_with("Z$")),
                    "{value}"
                );
                texts += 1;
            } else if schema["format"] == "date-time" {
                let pattern = Regex::new(schema["pattern"].as_str().expect("a pattern")).expect("compiles");
                assert!(pattern.is_match("2030-01-31T12:00:00+00:00"), "{value}");
                times += 1;
            }
        });
    }
    assert_eq!((texts, times), (4, 4));
}

#[test]
fn maps_are_bounded_so_that_example_generators_terminate() {
    let mut count = 0;
    for document in documents() {
        each(document, &mut |value| {
            if value["additionalProperties"].is_object() {
                let most = value["maxProperties"].as_u64();
                assert!(most.is_none_or(|most| most <= 16), "{value}");
                count += 1;
            }
        });
    }
    assert!(count > 0, "the documents have no map");
}

#[test]
fn unimplemented_features_are_marked_in_the_documents() {
    const NOT_YET: &str = "in this version";
    let says = |text: &Value| text.as_str().is_some_and(|text| text.to_lowercase().contains(NOT_YET));
    let webhooks: Value = serde_json::from_str(include_str!("../../openapi/webhooks.json")).expect("JSON");
    for (kind, webhook) in webhooks["webhooks"].as_object().expect("kinds") {
        let is_raised = !["payment.refunded", "client_id.linked", "kyt.screening.completed"].contains(&kind.as_str());
        let description = &webhook["post"]["description"];
        let is_partly_raised = kind == "payment.failed";
        assert_eq!(
            says(description),
            !is_raised || is_partly_raised,
            "{kind}: {description}"
        );
    }
    let [v2, _] = documents();
    for path in [
        "/v2/request/{requestId}/pay",
        "/v2/secure-payments/{token}/pay",
        "/v2/secure-payments/{token}",
    ] {
        let parameters = v2["paths"][path]["get"]["parameters"]
            .as_array()
            .expect("parameters")
            .iter();
        let crosschain = parameters.filter(|parameter| {
            parameter["in"] == "query" && (parameter["name"] == "chain" || parameter["name"] == "token")
        });
        let told: Vec<_> = crosschain.map(|parameter| says(&parameter["description"])).collect();
        assert_eq!(told, [true, true], "{path}");
    }
}

/// The operations of a document, each as method and path.
fn operations(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let named = |(path, item): (&String, &Value)| {
        let methods = item.as_object().expect("operations").keys();
        let methods = methods.filter(|method| METHODS.contains(&method.as_str()));
        methods.map(|method| format!("{method} {path}")).collect::<Vec<_>>()
    };
    paths.flat_map(named).collect()
}

#[test]
fn the_readme_counts_match_the_implemented_operations() {
    let published = [
        include_str!("../../openapi/contract/v2-0.13.0.json"),
        include_str!("../../openapi/contract/auth-v1.json"),
    ];
    let published = published.map(|text| operations(&serde_json::from_str(text).expect("JSON")));
    let [v2, auth] = documents().each_ref().map(operations);
    let (published, own) = (&published[0] | &published[1], &v2 | &auth);
    let (built, missing) = (&published & &own, &published - &own);
    let sentences = [
        format!(
            "Of the {} operations in the published contract, {} are built and {} are not",
            published.len(),
            built.len(),
            missing.len()
        ),
        format!("The service adds {} operations", (&own - &published).len()),
    ];
    let readme = include_str!("../../README.md");
    for sentence in sentences {
        assert!(readme.contains(&sentence), "README.md does not say: {sentence}");
    }
}

#[test]
fn described_credentials_match_those_that_open_the_operation() {
    let mut count = 0;
    for document in documents() {
        let carrier = |scheme: &str| {
            let scheme = &document["components"]["securitySchemes"][scheme];
            match (scheme["name"].as_str(), scheme["in"].as_str()) {
                (Some(name), Some("cookie")) => format!("cookie: {name}"),
                (Some(name), _) => name.to_owned(),
                (None, _) => "authorization: Bearer".to_owned(),
            }
        };
        let items = document["paths"].as_object().expect("paths").values();
        for operation in items.flat_map(|item| item.as_object().expect("operations").values()) {
            let security = operation["security"].as_array().into_iter().flatten();
            // A requirement with two schemes accepts them together, the orchestrator key first.
            let together = |any: &Value| {
                let schemes = any.as_object().expect("schemes").keys().rev();
                schemes.map(|scheme| carrier(scheme)).collect::<Vec<_>>().join(" with ")
            };
            let carriers: Vec<String> = security.map(together).collect();
            if carriers.is_empty() {
                continue;
            }
            let wanted = format!("This operation requires {}", carriers.join(" or "));
            for status in ["401", "403"] {
                let answer = resolved(document, &operation["responses"][status]);
                let media = &answer["content"]["application/json"];
                let shown = if media["example"].is_null() {
                    &media["examples"]["credential"]["value"]["hint"]
                } else {
                    &media["example"]["hint"]
                };
                assert_eq!(shown, &wanted, "{} {status}", operation["operationId"]);
                count += 1;
            }
        }
    }
    assert!(count > 100, "only {count} responses");
}

#[test]
fn errors_for_caps_invites_and_stored_responses_are_documented() {
    let operation = |id: &str| {
        let paths = documents()
            .iter()
            .flat_map(|document| document["paths"].as_object().expect("paths").values());
        let mut operations = paths.flat_map(|item| item.as_object().expect("operations").values());
        operations
            .find(|operation| operation["operationId"] == id)
            .expect("an operation")
    };
    for (id, status, sentence) in [
        ("createClientId", "409", "caps.client_ids"),
        ("createOwnClientId", "409", "caps.client_ids"),
        ("createApiKey", "409", "caps.api_keys"),
        ("rotateApiKey", "409", "caps.api_keys"),
        ("createWebhook", "409", "caps.endpoints"),
        ("createWebhook", "409", "shown to a public client ID only once"),
        ("createOrchestratorWebhook", "409", "caps.endpoints"),
        ("registerAccount", "403", "requires an invite"),
        ("verifyWalletChallenge", "403", "requires an invite"),
        ("testWebhooks", "429", "caps.due_deliveries"),
        ("replayEvent", "429", "caps.due_deliveries"),
        ("replayEvents", "429", "caps.due_deliveries"),
        ("retryDelivery", "429", "caps.due_deliveries"),
        ("followEvents", "429", "caps.event_streams"),
        ("exportPayments", "429", "running exports"),
    ] {
        let answer = &operation(id)["responses"][status];
        assert!(
            answer["content"].to_string().contains(sentence),
            "{id} {status}: {answer}"
        );
    }
    for id in ["registerAccount", "replayEvents", "retryDelivery"] {
        let about = operation(id)["responses"]["409"]["description"]
            .as_str()
            .expect("a text");
        assert!(!about.contains("key"), "{id} takes no Idempotency-Key: {about}");
    }
}

#[test]
fn every_code_that_is_sent_is_documented() {
    let guide = include_str!("../../docs/guides/errors-and-idempotency.md");
    for document in documents() {
        let schema = &document["components"]["schemas"]["ErrorBody"];
        let description = schema["properties"]["code"]["description"].as_str().expect("text");
        for code in RefusalCode::ALL {
            let code = format!("`{}`", code.wire());
            assert!(description.contains(&code), "{code} in {description}");
            assert!(guide.contains(&format!("| {code} |")), "{code} in the guide");
        }
        let example = schema["example"]["code"].as_str().and_then(RefusalCode::from_wire);
        assert!(example.is_some(), "{schema}");
        each(document, &mut |value| {
            if value["statusCode"].is_u64() {
                let code = value["code"].as_str();
                assert!(
                    code.is_none_or(|code| RefusalCode::from_wire(code).is_some()),
                    "{value}"
                );
            }
        });
    }
}

#[test]
fn refusals_without_fields_are_documented() {
    let paths = &documents()[0]["paths"];
    for (path, method, status, message) in [
        (
            "/v2/secure-payments/{token}/tron/broadcast",
            "post",
            "400",
            "The chain does not have the block",
        ),
        (
            "/v2/secure-payments/{token}/tron/broadcast",
            "post",
            "502",
            "No node of tron takes transactions now",
        ),
        (
            "/v2/secure-payments/{token}/pay",
            "get",
            "400",
            "The energy of the payment on tron costs",
        ),
        (
            "/v2/request/{requestId}/pay",
            "get",
            "400",
            "The energy of the payment on tron costs",
        ),
    ] {
        let answer = resolved(&documents()[0], &paths[path][method]["responses"][status]);
        let media = &answer["content"]["application/json"];
        let one = media.get("example").into_iter();
        let several = media["examples"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, example)| &example["value"]);
        let examples: Vec<_> = one.chain(several).collect();
        let told = examples.iter().find(|example| {
            example["message"]
                .as_str()
                .is_some_and(|text| text.starts_with(message))
        });
        assert!(
            told.is_some_and(|told| told["errors"].is_null()),
            "{path} {status}: {answer}"
        );
        if status == "400" {
            let lists = |example: &&&Value| example["errors"].is_array();
            assert_eq!(examples.iter().filter(lists).count(), 1, "{path}: {answer}");
            let description = answer["description"].as_str().expect("text");
            assert!(description.ends_with("without `errors`."), "{path}: {description}");
        }
    }
}

/// Visits a JSON value and, recursively, every value in it.
fn each<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(value);
    match value {
        Value::Object(members) => members.values().for_each(|member| each(member, visit)),
        Value::Array(items) => items.iter().for_each(|item| each(item, visit)),
        _ => {}
    }
}

#[test]
fn framework_artefacts_are_removed_from_the_documents() {
    for document in documents() {
        assert_eq!(document["openapi"], "3.0.3");
        // Generators fetch external values, or fail.
        each(document, &mut |inner| {
            assert!(inner.get("externalValue").is_none(), "{inner}")
        });
        assert_eq!(document["servers"][0]["url"], "/");
        assert_eq!(document["info"]["license"]["name"], "Apache-2.0");
        for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
            assert!(schema.get("title").is_none(), "{name}");
            assert_eq!(name.ends_with("OrNull"), schema["nullable"] == true, "{name}");
            each(schema, &mut |inner| {
                let is_reference = inner.get("$ref").is_some();
                assert!(!is_reference || inner.as_object().is_some_and(|members| members.len() == 1));
                // A reference is never wrapped, unless it needs an example.
                let says_more = |parts: &Vec<Value>| parts.len() > 1 || inner.get("example").is_some();
                assert!(inner["allOf"].as_array().is_none_or(says_more), "{name}: {inner}");
                let values = inner["enum"].as_array();
                let may_be_null = values.is_none_or(|values| values.contains(&Value::Null));
                assert!(inner["nullable"] != true || may_be_null, "{name}: {inner}");
                let is_known = |format: &str| !format.starts_with("uint");
                assert!(inner["format"].as_str().is_none_or(is_known), "{name}: {inner}");
                let bounds = ["minimum", "maximum"].map(|bound| &inner[bound]);
                assert!(bounds.iter().all(|bound| !bound.is_f64()), "{name}: {inner}");
            });
        }
    }
}

/// The differences from the documentation that the response check finds when a `GET` of this path returns 200 with this
/// body.
fn found(path: &str, text: &str) -> Vec<String> {
    flaws("GET", path, 200, text)
}

#[test]
fn undocumented_responses_are_detected() {
    let page = r#"{"requests":[],"pagination":{"total":9,"limit":20,"offset":0,"hasMore":false}}"#;
    assert_eq!(found("/v2/request?limit=20", page), [""; 0]);
    for (damaged, flaw) in [
        (
            page.replace("9,", "9.0,"),
            "/pagination/total: 9.0 is not a whole number",
        ),
        (page.replace("9,", "\"9\","), "/pagination/total: \"9\" is not of type"),
        (
            page.replace("\"offset\":0,", ""),
            "/pagination: \"offset\" is a required property",
        ),
        (
            page.replace("{\"requests", "{\"more\":1,\"requests"),
            ": Additional properties are not allowed",
        ),
        ("[]".to_owned(), ": [] is not of type"),
        ("{".to_owned(), "no JSON"),
    ] {
        let found = found("/v2/request", &damaged);
        assert!(found.iter().any(|text| text.starts_with(flaw)), "{flaw} in {found:?}");
    }
    assert_eq!(
        flaws("GET", "/v2/request", 418, "{}"),
        ["the status 418 is not documented"]
    );
    assert_eq!(found("/v2/secrets", "{}"), ["an operation that is not documented"]);
    assert_eq!(found("/health/live", "ok"), [""; 0]);
}

#[test]
fn a_missing_nullable_member_is_detected() {
    let page = r#"{"events":[],"nextCursor":null}"#;
    assert_eq!(found("/v2/events", page), [""; 0]);
    let damaged = r#"{"events":[]}"#;
    let found = found("/v2/events", damaged);
    assert!(
        found.contains(&"/nextCursor: missing, not null".to_owned()),
        "{found:?}"
    );
}

/// Checks a body against the committed schema of its kind.
#[track_caller]
pub fn event_fits_its_schema(body: &Value) {
    let kind = body["event"].as_str().expect("a kind");
    let schema: Value = serde_json::from_str(&committed(&format!("events/{kind}"))).expect("JSON");
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema");
    let errors: Vec<String> = validator.iter_errors(body).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{kind}: {errors:?}");
}

#[tokio::test]
async fn events_match_their_documented_schemas() {
    let app = TestApp::on_chain().await;
    let receiver = crate::support::receiver::Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("2")).await;
    app.pay(&id, "&amount=1").await;
    app.settle().await;
    app.pay(&id, "").await;
    app.settle().await;
    let events = receiver.received().await;
    assert_eq!(events.len(), 2);
    for event in events {
        event_fits_its_schema(&event.json());
    }
}

#[tokio::test]
async fn health_and_metrics_are_served() {
    let app = TestApp::on_chain().await;
    assert_eq!(app.get("/health/live").send().await.status, 200);
    let ready = app.get("/health/ready").send().await;
    assert_eq!(ready.json()["database"], "ok", "{}", ready.text);
    let metrics = app.get("/metrics").send().await;
    assert_eq!(metrics.status, 200);
}
