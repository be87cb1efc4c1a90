//! The document that is derived from the operations, and the page that shows it.

use super::{app, document};
use prs::http::{
    contract::{document::pretty, webhooks_document},
    forms::wire::TxHash,
};
use serde_json::json;

#[test]
fn the_document_is_printed_the_same_every_time() {
    assert_eq!(pretty(&document()), pretty(&document()));
}

#[test]
fn the_document_follows_the_house_rules() {
    let document = document();
    assert_eq!(document["openapi"], "3.0.3");
    assert_eq!(document["servers"][0]["url"], "/");
    assert_eq!(document["info"]["license"]["name"], "Apache-2.0");
    assert_eq!(
        document["tags"],
        json!([{ "name": "Things", "description": "Everything about things." }])
    );

    let path = &document["paths"]["/v2/things"];
    assert_eq!(path["get"]["security"], json!([{ "ApiKey": [] }, { "ClientId": [] }]));
    assert!(
        path["post"].is_object(),
        "operations of two implementations share a path"
    );
    assert_eq!(document["paths"]["/v2/wrappings"]["post"]["security"], json!([]));
    let ordered = [
        json!({ "OrchestratorKey": [], "ClientId": [] }),
        json!({ "ApiKey": [] }),
        json!({ "ClientId": [] }),
        json!({ "SessionBearer": [] }),
        json!({ "Session": [] }),
    ];
    assert_eq!(document["paths"]["/v2/orders"]["post"]["security"], json!(ordered));
    let schemes: Vec<&String> = document["components"]["securitySchemes"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        schemes,
        ["ApiKey", "ClientId", "OrchestratorKey", "Session", "SessionBearer"]
    );

    let schemas = &document["components"]["schemas"];
    let thing = &schemas["Thing"]["properties"];
    assert_eq!(
        thing["wrapping"],
        json!({ "$ref": "#/components/schemas/WrappingOrNull" })
    );
    assert_eq!(schemas["WrappingOrNull"]["nullable"], true);
    assert_eq!(schemas["PaceOrNull"]["enum"], json!(["slow", "fast", null]));
    assert_eq!(
        schemas["NewThing"]["properties"]["wrapping"],
        json!({ "$ref": "#/components/schemas/Wrapping" })
    );
    assert_eq!(schemas["NewThing"]["properties"]["count"]["minimum"], json!(1));
    assert_eq!(schemas["NewThing"]["properties"]["count"]["format"], "int64");
    assert_eq!(schemas["Wrapping"]["additionalProperties"], json!(false));
    assert!(schemas["Thing"].get("title").is_none());
    assert!(thing["id"].get("title").is_none());

    let created = &path["post"]["responses"]["201"];
    assert_eq!(created["links"]["readThing"]["operationId"], "getThing");
    assert_eq!(created["content"]["application/json"]["example"]["amount"], "10.5");
    assert!(created["headers"]["x-request-id"].is_object());
    assert!(path["post"]["responses"]["429"]["headers"]["Retry-After"].is_object());
    let statuses: Vec<&String> = path["post"]["responses"].as_object().unwrap().keys().collect();
    assert_eq!(
        statuses,
        ["201", "400", "401", "403", "408", "413", "429", "500", "503"]
    );

    let filter = &path["get"]["parameters"][0];
    assert_eq!(filter["name"], "txHash");
    assert!(filter["schema"].get("example").is_none(), "Swagger UI would fill it in");
    assert!(filter.get("example").is_none() && filter.get("examples").is_none());
    assert!(filter["description"].as_str().unwrap().contains(TxHash::EXAMPLE));
    assert!(!document.to_string().to_lowercase().contains("\"name\":\"origin\""));
}

#[tokio::test]
async fn documents_are_served_byte_for_byte() {
    let app = app();
    let served = app.get("/openapi/v2.json").send().await;
    served.assert_content_type("application/json");
    served.assert_text(pretty(&document())).await;
    let webhooks = app.get("/openapi/webhooks.json").send().await;
    webhooks.assert_text(pretty(&webhooks_document::document())).await;
}

#[tokio::test]
async fn the_documentation_page_chooses_between_all_documents_and_calls_nobody_else() {
    let app = app();
    app.get("/docs").send().await.assert_header("location", "/docs/");
    let page = app.get("/docs/").send().await;
    page.assert_status_is_ok();
    assert!(
        page.0
            .header("content-security-policy")
            .unwrap()
            .starts_with("default-src 'self'")
    );
    let settings = app.get("/docs/swagger-initializer.js").send().await;
    let text = settings.0.into_body().into_string().await.unwrap();
    for part in [
        "/openapi/v2.json",
        "/openapi/auth.json",
        "/openapi/webhooks.json",
        "\"deepLinking\": true",
        "\"persistAuthorization\": true",
        "\"tryItOutEnabled\": true",
        "\"displayRequestDuration\": true",
        "\"filter\": true",
        "\"docExpansion\": \"list\"",
        "\"validatorUrl\": \"none\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
