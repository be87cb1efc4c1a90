//! The application under test.

use super::{
    chain::step,
    clock::{FixedClock, SeededIds},
    contract,
    database::TestDatabase,
    wire::Wire,
};
use chrono::TimeDelta;
use devnet::{Devnet, Options, RELAYER_INDEX};
use futures_util::{future::join_all, stream::pending};
use poem::{
    Endpoint, Request, Response,
    endpoint::BoxEndpoint,
    http::{HeaderValue, Method},
};
use prs::{
    boot::{self, dev, process::Process, role::Role},
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller},
        ids::{KeyId, PlatformId},
        network::Network,
        waits::Waits,
        webhook::{ClaimRequest, ClaimedDelivery},
    },
    flows::{
        self,
        client_ids::create::NewClientId,
        idempotency::{KeyedResult as Once, RepeatableCall},
        payments::watch::{WatchPosition, WatchResult},
        webhooks::{deliver, opened::OpenedSecrets},
    },
    http::edge::server::{self, ServerOptions, Shutdown},
    settings::{Settings, Synchronous},
    store::Db,
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;

/// Origin of the page that the seeded public client ID allows.
pub const PAGE: &str = "http://localhost:3000";

/// The service with one tenant on its own database, optionally with a chain.
pub struct TestApp {
    /// Application context for flows.
    pub ctx: Ctx,
    /// The clock of the service.
    pub clock: Arc<FixedClock>,
    /// The local chain.
    pub chain: Option<Arc<Devnet>>,
    /// Tenant.
    pub platform: PlatformId,
    /// API key of the tenant.
    pub key: String,
    /// Client ID for [`PAGE`].
    pub page_client: String,
    /// Client ID without domains.
    pub backend_client: String,
    endpoint: BoxEndpoint<'static, Response>,
    settings: Settings,
    waits: Waits,
    database: Arc<TestDatabase>,
    seed: u64,
}

/// An API call to send.
pub struct Call<'a> {
    app: &'a TestApp,
    method: Method,
    path: String,
    request: poem::RequestBuilder,
    body: Option<String>,
    stalls: bool,
}

/// A fully read response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Headers in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub text: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {}", self.text))
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Checks the status of the response, and returns its body as JSON.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The names of the fields that a validation error lists.
    pub fn wrong_fields(&self) -> Vec<String> {
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        errors
            .iter()
            .filter_map(|error| error["field"].as_str().map(str::to_owned))
            .collect()
    }
}

impl Call<'_> {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Adds a header whose value may not be text.
    pub fn raw_header(mut self, name: &str, value: &[u8]) -> Self {
        let value = HeaderValue::from_bytes(value).expect("a value of a header");
        self.request = self.request.header(name, value);
        self
    }

    /// Calls with the API key of the tenant.
    pub fn with_key(self) -> Self {
        let key = self.app.key.clone();
        self.header("x-api-key", &key)
    }

    /// Calls with the backend client ID of the tenant.
    pub fn with_client(self) -> Self {
        let client = self.app.backend_client.clone();
        self.header("x-client-id", &client)
    }

    /// Sends JSON.
    pub fn json(self, body: &Value) -> Self {
        self.text(body.to_string())
    }

    /// Sends text with a JSON content type.
    pub fn text(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", "application/json")
    }

    /// Sends an HTML form body.
    pub fn form(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    /// Makes the call announce a body that never arrives.
    pub fn stalled(mut self) -> Self {
        self.stalls = true;
        self.header("content-type", "application/json")
            .header("content-length", "100")
    }

    /// Sends a call whose response is an endless stream.
    pub async fn open(self) -> OpenAnswer {
        let response = self.app.endpoint.get_response(self.request.finish()).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.content_type(), Some("text/event-stream"));
        OpenAnswer(response.into_body())
    }

    /// Sends the call while no worker runs, so that no test delivery is sent. Returns the status.
    pub async fn without_worker(self) -> u16 {
        self.answered(false).await.status
    }

    /// Sends the call and returns the response. The test fails if the OpenAPI documents do not describe the response.
    pub async fn send(self) -> Answer {
        let is_sample = self.path.ends_with("/test");
        self.answered(is_sample).await
    }

    async fn answered(self, with_worker: bool) -> Answer {
        let issued = &self.app.database.issued;
        self.body.iter().for_each(|body| issued.add_from_body(body));
        let request = if self.stalls {
            self.request.body(poem::Body::from_bytes_stream(
                pending::<Result<Vec<u8>, std::io::Error>>(),
            ))
        } else {
            finished(self.request, self.body)
        };
        let answering = self.app.endpoint.get_response(request);
        let response = if with_worker {
            self.app.with_worker(answering).await
        } else {
            answering.await
        };
        let (parts, body) = response.into_parts();
        // A stream never ends, so its start counts as the response.
        let is_stream = parts
            .headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream");
        let text = if is_stream {
            String::new()
        } else {
            body.into_string().await.expect("a readable body")
        };
        issued.add_from_body(&text);
        for cookie in parts.headers.get_all("set-cookie") {
            issued.add_from_cookie(cookie.to_str().unwrap_or_default());
        }
        let status = parts.status.as_u16();
        let flaws = contract::flaws(self.method.as_str(), &self.path, status, &text);
        assert!(
            flaws.is_empty(),
            "{} {} {status}: {flaws:#?} in {text}",
            self.method,
            self.path
        );
        Answer {
            status,
            headers: parts
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
                .collect(),
            text,
        }
    }
}

fn finished(request: poem::RequestBuilder, body: Option<String>) -> Request {
    match body {
        Some(body) => request.header("content-length", body.len().to_string()).body(body),
        None => request.finish(),
    }
}

/// A response whose body is read while the service still writes it.
pub struct OpenAnswer(poem::Body);

impl OpenAnswer {
    /// Reads the stream up to the next empty line.
    pub async fn next(&mut self) -> String {
        use tokio::io::AsyncReadExt;
        let body = std::mem::replace(&mut self.0, poem::Body::empty());
        let mut reader = body.into_async_read();
        let mut text = Vec::new();
        while !text.ends_with(b"\n\n") {
            text.push(reader.read_u8().await.expect("the stream continues"));
        }
        self.0 = poem::Body::from_async_read(reader);
        String::from_utf8(text).expect("UTF-8")
    }
}

/// A call from a program that uses the public client ID and forges the `Origin` header of the page.
pub fn forged<'a>(app: &'a TestApp, method: Method, path: &str) -> Call<'a> {
    let call = app.call(method, path).header("x-client-id", &app.page_client);
    call.header("origin", PAGE)
}

/// Settings like those of `prs dev`. The service listens on no port unless a test makes it. Callers wait longer for the
/// database than in production, because a busy machine can stop it for seconds.
pub fn settings() -> Settings {
    let mut settings = Settings::development(SocketAddr::from(([127, 0, 0, 1], 8080)));
    settings.database.answer_timeout_ms = 10_000;
    settings
}

impl TestApp {
    /// Starts the service without a reachable chain: the network is enabled, but its node is down.
    pub async fn start() -> Self {
        let mut settings = settings();
        let chain = prs::settings::ChainSettings {
            rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
            ..prs::settings::ChainSettings::default()
        };
        settings.chains.insert("sepolia".to_owned(), chain);
        Self::with(settings, None).await
    }

    /// Starts the service on its own chain, where a payment is final in its own block.
    pub async fn on_chain() -> Self {
        Self::on_chain_with(1).await
    }

    /// Starts the service on its own chain, where a payment is final after `confirmations` blocks.
    pub async fn on_chain_with(confirmations: u64) -> Self {
        Self::on_chain_as(settings(), confirmations).await
    }

    /// Like [`Self::on_chain_with`], with other settings.
    pub async fn on_chain_as(settings: Settings, confirmations: u64) -> Self {
        let (settings, chain) = Self::local_chain(settings, confirmations).await;
        Self::with(settings, Some(chain)).await
    }

    /// Starts a chain and adds it to the settings.
    pub async fn local_chain(mut settings: Settings, confirmations: u64) -> (Settings, Arc<Devnet>) {
        let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
        let mut section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
        section.confirmations = Some(confirmations);
        settings.relayer.private_key = Some(chain.accounts()[RELAYER_INDEX].private_key.to_string());
        settings.chains.insert("sepolia".to_owned(), section);
        (settings, chain)
    }

    /// Like [`Self::on_chain`], but the contract of one catalogue token is replaced with the contract that `token`
    /// returns.
    pub async fn on_chain_with_token(symbol: &str, token: impl Fn(&Devnet) -> alloy::primitives::Address) -> Self {
        let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
        let mut settings = settings();
        let mut section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
        section.tokens.insert(symbol.to_owned(), token(&chain).to_string());
        settings.chains.insert("sepolia".to_owned(), section);
        Self::with(settings, Some(chain)).await
    }

    /// Starts the service with these settings but without rate limits. Environment variables select the database.
    pub async fn with(mut settings: Settings, chain: Option<Arc<Devnet>>) -> Self {
        settings.rate_limits.enabled = false;
        Self::limited(settings, chain).await
    }

    /// Starts the service with these settings, and with their rate limits.
    pub async fn limited(mut settings: Settings, chain: Option<Arc<Devnet>>) -> Self {
        prs::adapters::install_tls();
        let database = Arc::new(TestDatabase::create().await);
        settings.database.url = database.url.clone();
        settings.database.synchronous = Synchronous::Normal;
        settings.secrets.master_key = Some("5e".repeat(32));
        let clock = Arc::new(FixedClock::new());
        let waits = Waits::default();
        let (ctx, endpoint) = build(&settings, &waits, &clock, 1).await;
        let platform = flows::platforms::create::run(&ctx, "Test").await.expect("a platform");
        let key = flows::keys::create(&ctx, &platform, None).await.expect("a key").key;
        let page_client = client(&ctx, &platform, &[PAGE]).await;
        let backend_client = client(&ctx, &platform, &[]).await;
        let key = key.reveal().to_owned();
        database.issued.add(&key);
        Self {
            ctx,
            clock,
            chain,
            platform,
            key,
            page_client,
            backend_client,
            endpoint,
            settings,
            waits,
            database,
            seed: 1,
        }
    }

    /// Starts the service again after a crash: only the database remains.
    pub async fn restarted(self) -> Self {
        self.restarted_with(|_| {}).await
    }

    /// Like [`Self::restarted`], with other settings.
    pub async fn restarted_with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        let seed = self.seed + 1;
        let (ctx, endpoint) = build(&self.settings, &self.waits, &self.clock, seed).await;
        Self {
            ctx,
            endpoint,
            seed,
            ..self
        }
    }

    /// The same service with other dependencies, for example with chains that a test replaces.
    #[allow(dead_code, reason = "not every binary that shares this replaces a dependency")]
    pub fn with_ctx(mut self, change: impl FnOnce(&mut Ctx)) -> Self {
        change(&mut self.ctx);
        self.endpoint = boot::serve::app(&self.settings, &self.ctx, &Process::new(Role::Api));
        self
    }

    /// Opens the database of the service with other settings, as a starting process does.
    pub async fn reopened(&self, change: impl FnOnce(&mut Settings)) -> anyhow::Result<Db> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        boot::open_database(&settings).await
    }

    /// Another instance on the same database, with other settings.
    pub async fn beside(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.settings.clone();
        change(&mut settings);
        self.instance(settings, self.waits.clone()).await
    }

    /// Another instance on the same database with other timeouts, for tests in which a timeout expires.
    #[allow(dead_code, reason = "not every binary that shares this sees a wait end")]
    pub async fn hurried(&self, change: impl FnOnce(&mut Waits)) -> Self {
        let mut waits = self.waits.clone();
        change(&mut waits);
        self.instance(self.settings.clone(), waits).await
    }

    async fn instance(&self, settings: Settings, waits: Waits) -> Self {
        let seed = self.seed + 1;
        let (ctx, endpoint) = build(&settings, &waits, &self.clock, seed).await;
        Self {
            ctx,
            clock: self.clock.clone(),
            chain: self.chain.clone(),
            platform: self.platform.clone(),
            key: self.key.clone(),
            page_client: self.page_client.clone(),
            backend_client: self.backend_client.clone(),
            endpoint,
            settings,
            waits,
            database: self.database.clone(),
            seed,
        }
    }

    /// Another instance that reaches the database through a proxy ([`Wire`]) and has short timeouts; `None` on SQLite.
    pub async fn over_wire(&self) -> Option<(Self, Wire)> {
        if !self.ctx.db.is_postgres() {
            return None;
        }
        let wire = Wire::to(&self.settings.database.url).await;
        let slow = self.beside(|settings| {
            settings.database.url = wire.url.clone();
            settings.database.answer_timeout_ms = 300;
        });
        Some((slow.await, wire))
    }

    /// A command that runs `prs` in a folder beside this service, with the same database, keys and chains.
    #[allow(dead_code, reason = "not every binary that shares this runs commands")]
    pub fn command(&self, folder: &std::path::Path) -> std::process::Command {
        let chains = toml::Value::try_from(&self.settings.chains).expect("chains as TOML");
        let config = toml::Table::from_iter([("chains".to_owned(), chains)]);
        std::fs::write(folder.join("prs.toml"), config.to_string()).expect("written");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_prs"));
        command
            .current_dir(folder)
            .env("PRS_DATABASE__URL", &self.settings.database.url)
            .env(
                "PRS_SECRETS__MASTER_KEY",
                self.settings.secrets.master_key.as_deref().unwrap_or_default(),
            );
        command
    }

    /// The address of this service's database.
    #[allow(dead_code, reason = "not every binary that shares this runs the program on it")]
    pub fn database_url(&self) -> &str {
        &self.settings.database.url
    }

    /// The contents of the database: the bytes of its files, or its rows as text.
    pub fn stored(&self) -> Vec<u8> {
        self.database.stored()
    }

    /// Serves this application on a socket of its own until the test ends. The server has its own counters and caches,
    /// and shares the database.
    pub async fn listen(&self) -> SocketAddr {
        self.listen_with(ServerOptions::default()).await
    }

    /// Like [`Self::listen`], with other connection limits.
    pub async fn listen_with(&self, options: ServerOptions) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let app = boot::serve::app(&self.settings, &self.ctx, &Process::new(Role::Api));
        let served = server::serve(vec![listener], app, options, Shutdown::default());
        tokio::spawn(served);
        address
    }

    /// Creates a second tenant of the same service; returns its API key and its backend client ID.
    pub async fn other_tenant(&self) -> (String, String) {
        let platform = flows::platforms::create::run(&self.ctx, "Other")
            .await
            .expect("a platform");
        let key = flows::keys::create(&self.ctx, &platform, None)
            .await
            .expect("a key")
            .key;
        self.database.issued.add(key.reveal());
        (key.reveal().to_owned(), client(&self.ctx, &platform, &[]).await)
    }

    /// A further client ID of the tenant.
    pub async fn another_client(&self, domains: &[&str]) -> String {
        client(&self.ctx, &self.platform, domains).await
    }

    /// Creates a public client ID for the page of a shop; `members` are added to the body.
    pub async fn shop_client(&self, members: &Value) -> Value {
        let mut body = json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com"] });
        let further = members.as_object().expect("members").clone();
        body.as_object_mut().expect("members").extend(further);
        let call = self.post("/v2/client-ids").with_key().json(&body);
        call.send().await.expect(201)
    }

    /// Number of secrets that the service has issued in this test.
    pub fn secrets_issued(&self) -> usize {
        self.database.issued.count()
    }

    /// The local chain.
    pub fn devnet(&self) -> &Devnet {
        self.chain.as_ref().expect("started on a chain")
    }

    /// Starts building a call.
    pub fn call(&self, method: Method, path: &str) -> Call<'_> {
        let uri = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        Call {
            app: self,
            method: method.clone(),
            path: path.to_owned(),
            request: Request::builder().method(method).uri(uri),
            body: None,
            stalls: false,
        }
    }

    /// Starts building a GET.
    pub fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }

    /// Starts building a POST.
    pub fn post(&self, path: &str) -> Call<'_> {
        self.call(Method::POST, path)
    }

    /// Follows the chain until nothing is left to read or confirm.
    pub async fn follow(&self) -> WatchPosition {
        let followed = &self.ctx.partners.chains.followed;
        let local = followed.get(&Network::Sepolia);
        let chain = local.or_else(|| followed.values().next()).expect("enabled").clone();
        for _ in 0..200 {
            match step(&self.ctx, chain.as_ref()).await {
                Ok(WatchResult::At(position)) if !position.moved => return position,
                Ok(WatchResult::At(_)) => {}
                Ok(WatchResult::Halted(reason)) => panic!("halted: {reason}"),
                Err(error) => panic!("the chain cannot be followed: {error:?}"),
            }
        }
        panic!("the chain never becomes idle");
    }

    /// Claims the deliveries due at the current time of the fixed clock.
    pub async fn claim(&self) -> Vec<ClaimedDelivery> {
        self.claim_at_most(100).await
    }

    /// Claims at most this number of due deliveries.
    pub async fn claim_at_most(&self, limit: u64) -> Vec<ClaimedDelivery> {
        let wanted = ClaimRequest {
            now: self.ctx.clock.now(),
            lease_token: self.ctx.ids.ulid(),
            limit,
            share: 100,
            busy: Vec::new(),
            served: Vec::new(),
        };
        deliver::claim(&self.ctx, &wanted).await.expect("claims")
    }

    /// Sends all deliveries due at the current time of the fixed clock.
    pub async fn deliver(&self) {
        loop {
            let claimed = self.claim().await;
            if claimed.is_empty() {
                return;
            }
            let mut tried = Vec::new();
            for delivery in claimed {
                tried.extend(deliver::send(&self.ctx, &OpenedSecrets::default(), delivery).await);
            }
            deliver::record(&self.ctx, &tried).await.expect("records");
        }
    }

    /// Waits for a call, and meanwhile sends due test deliveries as the worker does. All other deliveries stay queued.
    pub async fn with_worker<T>(&self, call: impl Future<Output = T>) -> T {
        let is_answered = AtomicBool::new(false);
        let answering = async {
            let answer = call.await;
            is_answered.store(true, Ordering::Release);
            answer
        };
        let working = async {
            while !is_answered.load(Ordering::Acquire) {
                self.deliver_samples().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::join!(answering, working).0
    }

    async fn deliver_samples(&self) {
        let claimed = self.claim().await;
        let Some(token) = claimed.first().map(|one| one.lease_token.clone()) else {
            return;
        };
        let samples = claimed.into_iter().filter(|one| one.is_test);
        let opened = OpenedSecrets::default();
        let tried = join_all(samples.map(|one| deliver::send(&self.ctx, &opened, one))).await;
        let tried: Vec<_> = tried.into_iter().flatten().collect();
        deliver::record(&self.ctx, &tried).await.expect("records");
        deliver::release(&self.ctx, &token).await.expect("releases");
    }

    /// Follows the chain and sends the resulting deliveries.
    pub async fn settle(&self) {
        self.follow().await;
        self.deliver().await;
    }

    /// Moves the clock of the service.
    pub fn advance_ms(&self, milliseconds: i64) {
        self.clock.advance(TimeDelta::milliseconds(milliseconds));
    }

    /// Registers an endpoint of the backend client ID; returns the id and the secret of the endpoint.
    pub async fn register(&self, url: &str) -> (String, String) {
        let body = serde_json::json!({ "url": url });
        let created = self
            .post("/v1/webhook")
            .with_client()
            .json(&body)
            .send()
            .await
            .expect(201);
        let text = |name: &str| created[name].as_str().expect("text").to_owned();
        (text("id"), text("secret"))
    }

    /// Sends a test delivery of this kind of event to the endpoints of the backend client ID; returns the result.
    pub async fn send_sample(&self, kind: &str) -> Value {
        let call = self.post("/v1/webhook/test").with_client();
        let body = serde_json::json!({ "eventType": kind });
        call.json(&body).send().await.expect(200)
    }
}

async fn build(
    settings: &Settings,
    waits: &Waits,
    clock: &Arc<FixedClock>,
    seed: u64,
) -> (Ctx, BoxEndpoint<'static, Response>) {
    let db = boot::open_database(settings).await.expect("the database opens");
    let ctx = boot::context_with(
        settings,
        db,
        clock.clone(),
        Arc::new(SeededIds::new(seed, clock.clone())),
        waits.clone(),
    )
    .expect("a context");
    let endpoint = boot::serve::app(settings, &ctx, &Process::new(Role::Api));
    (ctx, endpoint)
}

async fn client(ctx: &Ctx, platform: &PlatformId, domains: &[&str]) -> String {
    let caller = PlatformCaller {
        platform: platform.clone(),
        credential: Credential::ApiKey {
            id: KeyId(platform.to_string()),
        },
    };
    let input = NewClientId {
        label: "Test".to_owned(),
        allowed_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        is_backend: domains.is_empty(),
        ..NewClientId::default()
    };
    match flows::client_ids::create::run(ctx, &caller, &input, RepeatableCall::unkeyed())
        .await
        .expect("a client ID")
    {
        Once::Fresh(client) => client.client_id,
        Once::Replayed(_) => panic!("no request was repeated"),
    }
}
