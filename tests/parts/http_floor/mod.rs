//! Tests what is common to every call of the service, on a small separate API.

mod calls;
mod documents;
mod errors;
mod pages;
mod sockets;

use async_trait::async_trait;
use poem::{
    EndpointExt, Response, Route,
    endpoint::{BoxEndpoint, make_sync},
    get,
    test::TestClient,
};
use poem_openapi::{
    Enum, Object, OpenApi, OpenApiService, Tags,
    param::{Path, Query},
    payload::Json,
};
use prs::{
    domain::{
        caller::{Caller, Credential, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, EndpointManagers},
        ids::{ClientRowId, KeyId, PlatformId},
        quota::Tier,
        refusal::{Checks, Refusal, RefusalKind},
    },
    flows::{Fault, FlowError, FlowResult},
    http::{
        body::{Body, reply::Created},
        contract::{
            about::DocumentInfo,
            described::DescribedDocument,
            docs::{self, PagePermissions},
            document::{complete, pretty},
        },
        edge::{Edge, cors::AllowedOrigins, limits::Limits, wrap},
        error::{Fail, Problem, s, unauthorized},
        forms::wire::{AmountText, Checked, Instant, LimitText, MerchantReference, TxHash, UlidText},
        gate::{
            access::{KeyOnly, KeyOrClient},
            address::Addresses,
            extractor::Auth,
            identify::Identify,
        },
        routes::RouteTable,
    },
    ports::ids::Ids,
    settings::RateLimitSettings,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

const KEY: &str = "key_good";

const ID: &str = "01JZX4T9QK3M7N8P2R5S6V0WYB";

#[derive(Tags)]
enum Tag_ {
    /// Things.
    Things,
}

/// The urgency of a thing, an object of this test API.
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
        tx_hash: Checked<TxHash>,
        /// Urgency.
        pace: Checked<Pace>,
        /// Page size.
        limit: Checked<LimitText>,
    ) -> Result<Json<Thing>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        tx_hash.take(&mut checks);
        pace.take(&mut checks);
        limit.take(&mut checks);
        checks.finish()?;
        Ok(Json(thing()))
    }

    /// Read a thing
    ///
    /// Returns a thing, or fails in the way that `outcome` names.
    #[oai(path = "/v2/things/:thingId", method = "get", operation_id = "getThing")]
    async fn read(
        &self,
        /// Id of the thing.
        #[oai(name = "thingId")]
        id: Path<UlidText>,
        /// What to fail with.
        outcome: Query<Option<String>>,
    ) -> Result<Json<Thing>, Fail<{ s::NOT_FOUND | s::CONFLICT | s::BAD_GATEWAY | s::FORBIDDEN }>> {
        let kind = match outcome.0.as_deref() {
            None => return Ok(Json(Thing { id: id.0, ..thing() })),
            Some("missing") => RefusalKind::NotFound,
            Some("conflict") => RefusalKind::Conflict,
            Some("many") => return Err(Refusal::new(RefusalKind::TooMany, "refused").after(1).into()),
            Some("upstream") => RefusalKind::Upstream,
            Some("away") => return Err(FlowError::Unavailable(anyhow::anyhow!("postgres at 10.1.2.3")).into()),
            Some("fault") => return Err(FlowError::Faulted(Fault(anyhow::anyhow!("select * from secrets"))).into()),
            Some("panic") => panic!("a secret in a panic"),
            Some("slow") => {
                sleep(Duration::from_millis(300)).await;
                return Ok(Json(thing()));
            }
            Some(_) => return Err(Problem::from(Refusal::conflict("taken")).into()),
        };
        Err(Refusal::new(kind, "refused").into())
    }
}

struct Makers;

#[OpenApi(tag = "Tag_::Things")]
impl Makers {
    /// Create a thing
    ///
    /// Creates a thing; the operation has the same path as the search.
    #[oai(path = "/v2/things", method = "post", operation_id = "createThing")]
    async fn create(
        &self,
        _caller: Auth<KeyOnly>,
        body: Body<NewThing>,
    ) -> Result<Created<Thing>, Fail<{ s::BAD_REQUEST }>> {
        Ok(prs::http::body::reply::Reply::new(Thing {
            amount: body.0.amount,
            wrapping: body.0.wrapping,
            ..thing()
        }))
    }
}

const ABOUT: DocumentInfo = DocumentInfo {
    title: "Things",
    version: "1.0.0",
    description: "An API for tests.",
    links: &[],
};

struct Directory;

#[async_trait]
impl Identify for Directory {
    async fn api_key(&self, key: &str) -> FlowResult<PlatformCaller> {
        if key == KEY {
            Ok(PlatformCaller {
                platform: PlatformId("P".to_owned()),
                credential: Credential::ApiKey {
                    id: KeyId("K".to_owned()),
                },
            })
        } else {
            Err(unauthorized().into())
        }
    }

    async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
        if call.origin.is_none() && !call.is_same_origin {
            return Err(Refusal::unauthenticated("Origin header is required").into());
        }
        Ok(PlatformCaller {
            platform: PlatformId("P".to_owned()),
            credential: Credential::ClientId {
                id: ClientRowId("C".to_owned()),
                client_id: id.to_owned(),
                is_public: true,
                origin: call.origin.map(str::to_owned),
                linked: None,
                is_paired: false,
            },
        })
    }

    async fn pair(&self, _key: &str, _id: &str, _call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
        Err(unauthorized().into())
    }

    async fn require_client_id(&self, _id: &str) -> FlowResult<()> {
        Ok(())
    }

    async fn session(&self, _token: &str) -> FlowResult<PlatformCaller> {
        Err(unauthorized().into())
    }

    fn is_session_page(&self, _origin: &str) -> bool {
        false
    }

    fn endpoint_managers(&self) -> EndpointManagers {
        EndpointManagers::All
    }

    async fn orchestrator_key(&self, _key: &str) -> FlowResult<OrchestratorCaller> {
        Err(unauthorized().into())
    }

    fn was_good(&self, _credential: &str) -> bool {
        false
    }

    async fn tier(&self, _caller: &Caller) -> FlowResult<Tier> {
        Ok(Tier::default())
    }
}

struct Origins;

#[async_trait]
impl AllowedOrigins for Origins {
    async fn contains(&self, origin: &str) -> bool {
        origin == "https://shop.example"
    }

    fn carries_sessions(&self, _origin: &str) -> bool {
        false
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

fn service() -> OpenApiService<DescribedDocument<(Things, Makers)>, ()> {
    OpenApiService::new(DescribedDocument((Things, Makers)), "unused", "0")
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
        ("Platform API v2", "/openapi/v2.json", &*pretty(&document).leak()),
        ("Auth API v1", "/openapi/auth.json", "{}\n"),
        ("Webhooks", "/openapi/webhooks.json", "{}\n"),
    ];
    let routes = docs::routes(
        routes,
        documents,
        PagePermissions {
            keeps_keys: true,
            has_room: false,
        },
    )
    .data(identify);
    wrap(
        routes,
        Edge {
            limits,
            ids: Arc::new(FixedIds),
            routes: RouteTable::from_documents([pretty(&document).as_str()]),
            origins: Arc::new(Origins),
            addresses: Addresses::new(&RateLimitSettings::default()),
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
