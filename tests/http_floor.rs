//! What holds for every call of the service, proved on a small API of its own: errors, limits, sockets, documents.
#![expect(clippy::unwrap_used, reason = "tests")]

use async_trait::async_trait;
use poem::{
    EndpointExt, Response, Route, endpoint::BoxEndpoint, endpoint::make_sync, get, http::StatusCode, test::TestClient,
};
use poem_openapi::{Enum, Object, OpenApi, OpenApiService, Tags, param::Path, param::Query, payload::Json};
use prs::{
    domain::{
        caller::{Caller, Credential},
        ids::{ApiKeyId, ClientRowId, PlatformId},
        refusal::{Checks, Refusal, RefusalKind},
    },
    flows::{Fault, FlowError, FlowResult},
    http::{
        contract::{
            docs,
            document::{About, Described, Link, Tag, complete, pretty},
            routes::RouteTable,
            webhooks_document,
        },
        edge::{
            Edge,
            cors::AllowedOrigins,
            limits::Limits,
            server::{ServerOptions, serve},
            wrap,
        },
        error::{Fail, Problem, s},
        forms::{
            body::{Body, Closed},
            reply::Created,
            wire::{AmountText, Checked, Instant, LimitText, MerchantReference, TxHash, UlidText},
        },
        gate::{
            access::{Creator, KeyOnly, KeyOrClient},
            extractor::Auth,
            identify::{CallOrigin, Identify, unauthorized},
        },
    },
    ports::ids::Ids,
};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant as Moment, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

const KEY: &str = "key_good";
const ID: &str = "01JZX4T9QK3M7N8P2R5S6V0WYB";

#[derive(Tags)]
enum Tag_ {
    /// Things.
    Things,
}

/// How urgent a thing is.
#[derive(Debug, Clone, Copy, Enum)]
#[oai(rename_all = "lowercase")]
enum Pace {
    Slow,
    Fast,
}

/// A box around things.
#[derive(Debug, Clone, Object)]
struct Wrapping {
    /// Reference on the label.
    label: MerchantReference,
}

/// A new thing.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
struct NewThing {
    /// Price.
    amount: AmountText,
    /// How many, per size.
    #[oai(validator(max_items = 3))]
    prices: Vec<AmountText>,
    /// Number of pieces.
    #[oai(validator(minimum(value = "1"), maximum(value = "99")))]
    count: Option<u32>,
    /// Box.
    wrapping: Option<Wrapping>,
}

/// A thing.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
struct Thing {
    /// Id.
    id: UlidText,
    /// Price.
    amount: AmountText,
    /// Box, or null.
    #[oai(nullable)]
    wrapping: Option<Wrapping>,
    /// Urgency, or null.
    #[oai(nullable)]
    pace: Option<Pace>,
    /// Time of creation.
    created_at: Instant,
}

fn thing() -> Thing {
    Thing {
        id: UlidText::written(ID),
        amount: AmountText::written("10.5"),
        wrapping: None,
        pace: None,
        created_at: chrono::DateTime::UNIX_EPOCH.into(),
    }
}

struct Things;

#[OpenApi(tag = "Tag_::Things")]
impl Things {
    /// Search things
    ///
    /// Finds things by transaction.
    #[oai(path = "/v2/things", method = "get", operation_id = "searchThings")]
    async fn search(
        &self,
        _caller: Auth<KeyOrClient>,
        /// Transaction.
        #[oai(name = "txHash")]
        tx_hash: Query<Checked<TxHash>>,
        /// Urgency.
        pace: Query<Checked<Pace>>,
        /// Page size.
        limit: Query<Checked<LimitText>>,
    ) -> Result<Json<Thing>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        tx_hash.0.take("txHash", &mut checks);
        pace.0.take("pace", &mut checks);
        limit.0.take("limit", &mut checks);
        checks.finish()?;
        Ok(Json(thing()))
    }

    /// Read a thing
    ///
    /// Returns one thing, or one of the failures by its id.
    #[oai(path = "/v2/things/:thingId", method = "get", operation_id = "getThing")]
    async fn read(
        &self,
        /// Id of the thing.
        #[oai(name = "thingId")]
        id: Path<UlidText>,
        /// What to fail with.
        outcome: Query<Option<String>>,
    ) -> Result<Json<Thing>, Fail<{ s::NOT_FOUND | s::CONFLICT | s::LOCKED | s::BAD_GATEWAY | s::FORBIDDEN }>> {
        let kind = match outcome.0.as_deref() {
            None => return Ok(Json(Thing { id: id.0, ..thing() })),
            Some("missing") => RefusalKind::NotFound,
            Some("conflict") => RefusalKind::Conflict,
            Some("locked") => RefusalKind::Locked,
            Some("many") => RefusalKind::TooMany,
            Some("upstream") => RefusalKind::Upstream,
            Some("away") => return Err(FlowError::Unavailable(anyhow::anyhow!("postgres at 10.1.2.3")).into()),
            Some("fault") => return Err(FlowError::Faulted(Fault(anyhow::anyhow!("select * from secrets"))).into()),
            Some("panic") => panic!("a secret in a panic"),
            Some("slow") => {
                sleep(Duration::from_millis(300)).await;
                return Ok(Json(thing()));
            }
            Some(_) => return Err(Problem::new(StatusCode::CONFLICT, "taken").with_code("taken").into()),
        };
        Err(Refusal::new(kind, "refused").into())
    }
}

struct Makers;

#[OpenApi(tag = "Tag_::Things")]
impl Makers {
    /// Create a thing
    ///
    /// Shares its path with the search.
    #[oai(path = "/v2/things", method = "post", operation_id = "createThing")]
    async fn create(
        &self,
        _caller: Auth<KeyOnly>,
        body: Body<NewThing>,
    ) -> Result<Created<Thing>, Fail<{ s::BAD_REQUEST }>> {
        Ok(prs::http::forms::reply::Reply(Thing {
            amount: body.0.amount,
            wrapping: body.0.wrapping,
            ..thing()
        }))
    }

    /// Order a thing
    ///
    /// Open to orchestrators that act for a platform.
    #[oai(path = "/v2/orders", method = "post", operation_id = "createOrder")]
    async fn order(&self, _caller: Auth<Creator>) -> Result<Json<Thing>, Fail<0>> {
        Ok(Json(thing()))
    }

    /// Wrap things
    ///
    /// Refuses members that it does not know.
    #[oai(path = "/v2/wrappings", method = "post", operation_id = "createWrapping")]
    async fn wrap(&self, body: Body<Closed<Wrapping>>) -> Result<Json<Wrapping>, Fail<{ s::BAD_REQUEST }>> {
        Ok(Json(body.0.0))
    }
}

const ABOUT: About = About {
    title: "Things",
    version: "1.0.0",
    description: "An API for tests.",
    tags: &[Tag {
        name: "Things",
        description: "Everything about things.",
    }],
    links: &[Link {
        from: "createThing",
        status: "201",
        name: "readThing",
        to: "getThing",
        parameters: &[("thingId", "$response.body#/id")],
    }],
};

struct Directory;

#[async_trait]
impl Identify for Directory {
    async fn api_key(&self, key: &str) -> FlowResult<Caller> {
        if key == KEY {
            Ok(Caller {
                platform: PlatformId("P".to_owned()),
                credential: Credential::ApiKey {
                    id: ApiKeyId("K".to_owned()),
                },
            })
        } else {
            Err(unauthorized().into())
        }
    }

    async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<Caller> {
        if call.origin.is_none() && !call.is_same_origin {
            return Err(Refusal::unauthenticated("Origin header is required").into());
        }
        Ok(Caller {
            platform: PlatformId("P".to_owned()),
            credential: Credential::ClientId {
                id: ClientRowId("C".to_owned()),
                client_id: id.to_owned(),
                origin: call.origin.map(str::to_owned),
                orchestrator: None,
            },
        })
    }
}

struct Origins;

#[async_trait]
impl AllowedOrigins for Origins {
    async fn contains(&self, origin: &str) -> bool {
        origin == "https://shop.example"
    }
}

struct FixedIds;

impl Ids for FixedIds {
    fn ulid(&self) -> String {
        ID.to_owned()
    }

    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

fn service() -> OpenApiService<Described<(Things, Makers)>, ()> {
    OpenApiService::new(Described((Things, Makers)), "unused", "0")
}

fn document() -> Value {
    complete(&service().spec(), &ABOUT)
}

fn app_with(limits: Limits) -> BoxEndpoint<'static, Response> {
    let identify: Arc<dyn Identify> = Arc::new(Directory);
    let document = document();
    let routes = Route::new()
        .nest_no_strip("/v2", service())
        .at("/health/live", get(make_sync(|_| "ok")));
    let documents = vec![
        ("Platform API v2", "/openapi/v2.json", pretty(&document)),
        ("Auth API v1", "/openapi/auth.json", "{}\n".to_owned()),
        (
            "Webhooks",
            "/openapi/webhooks.json",
            pretty(&webhooks_document::document()),
        ),
    ];
    let routes = docs::routes(routes, documents).data(identify);
    wrap(
        routes,
        Edge {
            limits,
            ids: Arc::new(FixedIds),
            routes: RouteTable::from_documents([&document]),
            origins: Arc::new(Origins),
            rates: None,
        },
    )
}

fn app() -> TestClient<BoxEndpoint<'static, Response>> {
    TestClient::new(app_with(Limits::default()))
}

async fn error_of(response: poem::test::TestResponse) -> (u16, Value) {
    let status = response.0.status().as_u16();
    let kind = response.0.content_type().unwrap_or_default().to_owned();
    assert!(kind.starts_with("application/json"), "{status}: {kind}");
    let text = response.0.into_body().into_string().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(names[..3], ["statusCode", "message", "error"], "{text}");
    assert_eq!(body["statusCode"], status);
    assert_eq!(body["requestId"], ID);
    (status, body)
}

// ---- errors --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn every_failure_has_the_one_body() {
    let app = app();
    let read = |outcome: &str| format!("/v2/things/{ID}?outcome={outcome}");
    let table = [
        (read("missing"), 404, "refused", "Not Found"),
        (read("conflict"), 409, "refused", "Conflict"),
        (read("other"), 409, "taken", "Conflict"),
        (read("locked"), 423, "refused", "Locked"),
        (read("many"), 429, "refused", "Too Many Requests"),
        (read("upstream"), 502, "refused", "Bad Gateway"),
        (
            read("away"),
            503,
            "The service cannot answer at the moment; try again",
            "Service Unavailable",
        ),
        (read("fault"), 500, "Internal server error", "Internal Server Error"),
        (read("panic"), 500, "Internal server error", "Internal Server Error"),
        ("/nowhere?a=b".to_owned(), 404, "Cannot GET /nowhere", "Not Found"),
        ("/v2/nowhere".to_owned(), 404, "Cannot GET /v2/nowhere", "Not Found"),
        (
            "/docs/nothing.js".to_owned(),
            404,
            "Cannot GET /docs/nothing.js",
            "Not Found",
        ),
        ("/v2/things/short".to_owned(), 400, "Validation failed", "Bad Request"),
        ("/v2/things".to_owned(), 401, "Unauthorized", "Unauthorized"),
    ];
    for (path, status, message, error) in table {
        let (found, body) = error_of(app.get(&path).send().await).await;
        assert_eq!(
            (found, &body["message"], &body["error"]),
            (status, &json!(message), &json!(error)),
            "{path}"
        );
        let text = body.to_string();
        assert!(
            !text.contains("10.1.2.3") && !text.contains("select") && !text.contains("secret"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn too_many_calls_say_when_to_try_again() {
    let response = app().get(format!("/v2/things/{ID}?outcome=many")).send().await;
    response.assert_header("retry-after", "1");
}

#[tokio::test]
async fn a_wrong_path_parameter_is_named_as_documented() {
    let (_, body) = error_of(app().get("/v2/things/short").send().await).await;
    assert_eq!(
        body["errors"],
        json!([{ "field": "thingId", "message": UlidText::HINT }])
    );
}

#[tokio::test]
async fn every_wrong_query_parameter_is_named_at_once() {
    let path = "/v2/things?txHash=0x1&pace=crawl&limit=1&limit=2";
    let (status, body) = error_of(app().get(path).header("x-api-key", KEY).send().await).await;
    assert_eq!(status, 400);
    assert_eq!(
        body["errors"],
        json!([
            { "field": "txHash", "message": TxHash::HINT },
            { "field": "pace", "message": "must be one of slow, fast" },
            { "field": "limit", "message": "must be given only once" },
        ])
    );
}

async fn posted(path: &str, body: impl Into<poem::Body>) -> (u16, Value) {
    let app = app();
    let request = app.post(path).header("x-api-key", KEY).content_type("application/json");
    error_of(request.body(body).send().await).await
}

#[tokio::test]
async fn every_wrong_field_of_a_body_is_named_at_once() {
    let body = r#"{"amount":7,"prices":["x","1","2","3"],"count":100,"wrapping":{},"unknown":"ignored"}"#;
    let (status, body) = posted("/v2/things", body).await;
    assert_eq!((status, &body["message"]), (400, &json!("Validation failed")));
    let mut fields: Vec<&str> = body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|error| error["field"].as_str())
        .collect();
    fields.sort_unstable();
    assert_eq!(fields, ["amount", "count", "prices", "prices.0", "wrapping.label"]);
}

#[tokio::test]
async fn closed_bodies_name_unknown_members() {
    let (status, body) = posted("/v2/wrappings", r#"{"label":"a","lable":"b"}"#).await;
    assert_eq!(status, 400);
    assert_eq!(body["errors"][0]["field"], "lable");
}

#[tokio::test]
async fn hostile_bodies_are_refused_with_a_reason() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let table = [
        (
            r#"{"amount":"1","prices":[],"amount":"2"}"#.to_owned(),
            "The body contains the member amount twice",
        ),
        (deep, "The body is nested more deeply than 64 levels"),
        ("{".to_owned(), "The body is not valid JSON (line 1, column 1)"),
        (String::new(), "The body is not valid JSON (line 1, column 0)"),
        (
            r#"{"amount":"1\u0000"}"#.to_owned(),
            "The body contains the character U+0000 in amount",
        ),
    ];
    for (text, message) in table {
        let (status, body) = posted("/v2/things", text).await;
        assert_eq!((status, &body["message"]), (400, &json!(message)));
    }
    let (status, body) = posted("/v2/things", vec![b'"', 0xff, b'"']).await;
    assert_eq!((status, &body["message"]), (400, &json!("The body is not valid UTF-8")));
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused() {
    let app = app();
    for kind in [Some("text/plain"), Some("application/xml"), None] {
        let request = app.post("/v2/things").header("x-api-key", KEY).body("{}");
        let request = match kind {
            Some(kind) => request.content_type(kind),
            None => request,
        };
        let (status, body) = error_of(request.send().await).await;
        assert_eq!(status, 400);
        assert_eq!(body["message"], "The content-type header must be application/json");
    }
}

#[tokio::test]
async fn credentials_are_checked_before_the_body_is_looked_at() {
    let response = app()
        .post("/v2/things")
        .content_type("application/json")
        .body("{")
        .send()
        .await;
    let (status, body) = error_of(response).await;
    assert_eq!(status, 401);
    assert_eq!(body["hint"], "This operation needs x-api-key");
}

#[tokio::test]
async fn a_good_call_is_answered() {
    let response = app()
        .post("/v2/things")
        .header("x-api-key", KEY)
        .content_type("application/json; charset=utf-8")
        .body(r#"{"amount":"2","prices":[],"note":1}"#)
        .send()
        .await;
    response.assert_status(StatusCode::CREATED);
    response.assert_header("x-request-id", ID);
    response.assert_header("cache-control", "no-store");
    response.assert_header("x-content-type-options", "nosniff");
    let body = response.json().await;
    body.value().object().get("amount").assert_string("2");
}

#[tokio::test]
async fn a_sane_request_id_is_kept_and_a_strange_one_replaced() {
    let app = app();
    let kept = app.get("/health/live").header("x-request-id", "abc-123").send().await;
    kept.assert_header("x-request-id", "abc-123");
    let replaced = app.get("/health/live").header("x-request-id", "a b").send().await;
    replaced.assert_header("x-request-id", ID);
}

// ---- methods -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn unsupported_methods_are_405_with_allow() {
    let app = app();
    for method in ["DELETE", "PUT", "TRACE", "BREW"] {
        let method = poem::http::Method::from_bytes(method.as_bytes()).unwrap();
        let response = app.request(method, "/v2/things").send().await;
        response.assert_header("allow", "GET, HEAD, POST, OPTIONS");
        assert_eq!(error_of(response).await.0, 405);
    }
    let response = app.post("/health/live").send().await;
    response.assert_header("allow", "GET, HEAD");
    assert_eq!(error_of(response).await.0, 405);
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let response = app().head(format!("/v2/things/{ID}")).send().await;
    response.assert_status_is_ok();
    assert_eq!(response.0.into_body().into_string().await.unwrap(), "");
}

// ---- pages of browsers ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn only_registered_pages_may_read_answers() {
    let app = app();
    let header = |response: &poem::test::TestResponse, name: &str| response.0.header(name).map(str::to_owned);
    let allowed = app
        .get("/v2/things")
        .header("origin", "https://shop.example")
        .send()
        .await;
    assert_eq!(
        header(&allowed, "access-control-allow-origin").as_deref(),
        Some("https://shop.example")
    );
    assert_eq!(
        header(&allowed, "access-control-expose-headers").as_deref(),
        Some("retry-after, x-request-id, ratelimit-limit, ratelimit-remaining, ratelimit-reset")
    );
    assert_eq!(header(&allowed, "vary").as_deref(), Some("Origin"));
    assert_eq!(header(&allowed, "access-control-allow-credentials"), None);
    for origin in ["https://evil.example", "null", "https://shop.example.evil.example"] {
        let refused = app.get("/v2/things").header("origin", origin).send().await;
        assert_eq!(header(&refused, "access-control-allow-origin"), None, "{origin}");
        assert_eq!(header(&refused, "vary").as_deref(), Some("Origin"));
    }
    for path in ["/openapi/v2.json", "/health/live"] {
        let open = app.get(path).header("origin", "https://evil.example").send().await;
        assert_eq!(
            header(&open, "access-control-allow-origin").as_deref(),
            Some("*"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn preflights_are_answered_without_credentials() {
    let app = app();
    let preflight = |origin: &str| {
        app.options("/v2/things")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type, x-client-id")
    };
    let good = preflight("https://shop.example").send().await;
    good.assert_status(StatusCode::NO_CONTENT);
    good.assert_header("access-control-allow-origin", "https://shop.example");
    good.assert_header("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE");
    let headers = good.0.header("access-control-allow-headers").unwrap().to_owned();
    for name in [
        "content-type",
        "x-client-id",
        "x-api-key",
        "x-orchestrator-key",
        "authorization",
        "idempotency-key",
    ] {
        assert!(headers.contains(name), "{name}");
    }
    assert!(good.0.header("vary").unwrap().starts_with("Origin"));
    let bad = preflight("https://evil.example").send().await;
    bad.assert_status(StatusCode::NO_CONTENT);
    assert!(bad.0.header("access-control-allow-origin").is_none());
    assert!(bad.0.header("access-control-allow-methods").is_none());
}

#[tokio::test]
async fn a_page_of_the_service_itself_may_use_a_client_id() {
    let app = app();
    let call = || app.get("/v2/things").header("x-client-id", "cli_1");
    assert_eq!(
        error_of(call().send().await).await.1["message"],
        "Origin header is required"
    );
    call()
        .header("sec-fetch-site", "same-origin")
        .send()
        .await
        .assert_status_is_ok();
}

// ---- documents -----------------------------------------------------------------------------------------------------

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

// ---- metrics -------------------------------------------------------------------------------------------------------

#[test]
fn calls_are_counted_by_operation_method_and_status() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let app = app();
            app.get(format!("/v2/things/{ID}")).send().await.assert_status_is_ok();
            app.get(format!("/v2/things/{ID}?outcome=locked")).send().await;
        });
    });
    let text = handle.render();
    for status in ["200", "423"] {
        let line = format!(r#"prs_http_requests_total{{operation="getThing",method="GET",status="{status}"}} 1"#);
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains("prs_http_request_duration_seconds"));
}

// ---- sockets -------------------------------------------------------------------------------------------------------

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn run(limits: Limits, options: ServerOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(vec![listener], app_with(limits), options, stop.clone()));
    Running { address, stop, task }
}

async fn send(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    rest(&mut stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn post_head(framing: &str) -> String {
    format!(
        "POST /v2/things HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\n\
         connection: close\r\n{framing}\r\n\r\n"
    )
}

#[tokio::test]
async fn large_bodies_are_413_however_they_are_framed() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let body = vec![b' '; 2 * 1024 * 1024];
    let answer = send(
        server.address,
        &post_head(&format!("content-length: {}", body.len())),
        &body,
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains(r#"{"statusCode":413,"message":"The body is too large""#));
    let expecting = format!("content-length: {}\r\nexpect: 100-continue", body.len());
    let answer = send(server.address, &post_head(&expecting), b"").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut chunked = Vec::new();
    for _ in 0..40 {
        chunked.extend_from_slice(b"1000\r\n");
        chunked.extend_from_slice(&[b' '; 0x1000]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let answer = send(server.address, &post_head("transfer-encoding: chunked"), &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn small_chunked_bodies_and_reads_without_length_are_fine() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let body = b"1c\r\n{\"amount\":\"1\",\"prices\":[]  }\r\n0\r\n\r\n";
    let answer = send(server.address, &post_head("transfer-encoding: chunked"), body).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let answer = send(
        server.address,
        "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test]
async fn a_slow_head_is_cut_off_at_its_deadline() {
    let options = ServerOptions {
        head_deadline_ms: 300,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    for opening in ["", "GET /health/live HTTP/1.1\r\nx: "] {
        let started = Moment::now();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(opening.as_bytes()).await.unwrap();
        let dripping = async {
            loop {
                sleep(Duration::from_millis(50)).await;
                if !opening.is_empty() && stream.write_all(b"a").await.is_err() {
                    break;
                }
                let mut byte = [0; 64];
                let read = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
                if let Ok(Ok(0) | Err(_)) = read {
                    break;
                }
            }
        };
        timeout(Duration::from_secs(5), dripping).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_slow_body_is_408() {
    let limits = Limits {
        body_deadline_ms: 200,
        ..Limits::default()
    };
    let server = run(limits, ServerOptions::default()).await;
    let head = post_head("content-length: 100");
    let answer = timeout(Duration::from_secs(5), send(server.address, &head, b"{"))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains(r#""statusCode":408"#));
}

#[tokio::test]
async fn a_slow_handler_is_503() {
    let limits = Limits {
        handler_deadline_ms: 50,
        ..Limits::default()
    };
    let app = TestClient::new(app_with(limits));
    let (status, _) = error_of(app.get(format!("/v2/things/{ID}?outcome=slow")).send().await).await;
    assert_eq!(status, 503);
}

#[tokio::test]
async fn connections_beyond_the_cap_wait() {
    let options = ServerOptions {
        connections_max: 1,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    let holder = TcpStream::connect(server.address).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let head = "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut waiting = Box::pin(send(server.address, head, b""));
    assert!(timeout(Duration::from_millis(300), &mut waiting).await.is_err());
    drop(holder);
    let answer = timeout(Duration::from_secs(5), waiting).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_stop_lets_calls_in_flight_finish() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    let head = format!("GET /v2/things/{ID}?outcome=slow HTTP/1.1\r\nhost: a\r\n\r\n");
    let idle = TcpStream::connect(server.address).await.unwrap();
    let address = server.address;
    let call = tokio::spawn(async move { send(address, &head, b"").await });
    sleep(Duration::from_millis(100)).await;
    server.stop.cancel();
    let answer = timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let options = ServerOptions {
        drain_deadline_ms: 100,
        ..ServerOptions::default()
    };
    let server = run(Limits::default(), options).await;
    let head = format!("GET /v2/things/{ID}?outcome=slow HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    server.stop.cancel();
    let started = Moment::now();
    timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        started.elapsed() < Duration::from_millis(250),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn calls_without_a_path_do_not_reach_the_router() {
    let server = run(Limits::default(), ServerOptions::default()).await;
    for head in ["OPTIONS * HTTP/1.1", "CONNECT example.com:443 HTTP/1.1"] {
        let head = format!("{head}\r\nhost: a\r\nconnection: close\r\n\r\n");
        let answer = timeout(Duration::from_secs(5), send(server.address, &head, b""))
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}
