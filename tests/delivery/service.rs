//! The service around the worker: a database, a clock that can jump, endpoints and events.

use crate::database::TestDatabase;
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    adapters::{clock::SystemClock, ids::SystemIds},
    boot,
    ctx::Ctx,
    domain::{
        ids::{DeliveryId, EndpointId, EventId, PlatformId, Secret},
        waits::Waits,
        webhook::DeliveryState,
    },
    flows,
    ports::{clock::Clock, sealer::EncryptionContext},
    settings::Settings,
    store::{
        self,
        delivery_log::DeliveryRecord,
        endpoints::Endpoint,
        outbox::{NewDelivery, NewEvent},
    },
    worker::deliver_webhooks::{self, DeliveryOptions},
};
use sea_orm::ConnectionTrait;
use std::net::SocketAddr;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The secret of every endpoint.
pub const SECRET: &str = "f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2";

/// How many deliveries the worker sends at once, in total and to one endpoint; the defaults of the settings.
pub const USUAL: DeliveryOptions = DeliveryOptions {
    concurrency: 256,
    concurrency_per_endpoint: 16,
};

/// A test clock: the machine's time plus an offset, or a time that moves only when the test moves it.
pub struct JumpingClock {
    shift_ms: AtomicI64,
    stands_still: AtomicBool,
}

impl JumpingClock {
    fn new() -> Self {
        Self {
            shift_ms: AtomicI64::new(0),
            stands_still: AtomicBool::new(false),
        }
    }

    /// Moves the clock by this number of milliseconds.
    pub fn jump(&self, milliseconds: i64) {
        self.shift_ms.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> DateTime<Utc> {
        let base = if self.stands_still.load(Ordering::SeqCst) {
            DateTime::from_timestamp_millis(1_769_860_800_000).expect("in range")
        } else {
            SystemClock.now()
        };
        base + TimeDelta::milliseconds(self.shift_ms.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        SystemClock.steady()
    }
}

/// A running worker.
pub struct Worker {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Worker {
    /// Asks the worker to stop, and waits until it has ended.
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the worker ends");
    }

    /// Aborts the worker in the middle of its work.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// A service without its HTTP side.
pub struct Service {
    /// Handles of the first instance.
    pub ctx: Ctx,
    /// Clock of every instance.
    pub clock: Arc<JumpingClock>,
    settings: Settings,
    platform: PlatformId,
    _database: Arc<TestDatabase>,
}

impl Service {
    /// Starts the service without its HTTP side, with a new database.
    pub async fn start() -> Self {
        let database = TestDatabase::create().await;
        let mut settings = Settings::development(SocketAddr::from(([127, 0, 0, 1], 8080)));
        settings.database.url = database.url.clone();
        settings.secrets.master_key = Some("5e".repeat(32));
        let clock = Arc::new(JumpingClock::new());
        let ctx = context(&settings, &clock).await;
        let platform = flows::platforms::create::run(&ctx, "Test").await.expect("a platform");
        Self {
            ctx,
            clock,
            settings,
            platform,
            _database: Arc::new(database),
        }
    }

    /// The same service on behalf of a second platform, which this call creates.
    pub async fn neighbour(&self) -> Self {
        let platform = flows::platforms::create::run(&self.ctx, "Neighbour").await;
        Self {
            ctx: self.ctx.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            platform: platform.expect("a platform"),
            _database: self._database.clone(),
        }
    }

    /// Like [`Self::start`], with a clock that moves only when the test moves it.
    pub async fn start_with_still_clock() -> Self {
        let service = Self::start().await;
        service.clock.stands_still.store(true, Ordering::SeqCst);
        service
    }

    /// Context of another instance on the same database.
    pub async fn instance(&self) -> Ctx {
        context(&self.settings, &self.clock).await
    }

    /// Registers an endpoint.
    pub async fn endpoint(&self, url: &str) -> EndpointId {
        let id = EndpointId(self.ctx.ids.ulid());
        let secret = Secret::new(SECRET.to_owned());
        let place = EncryptionContext {
            column: "webhook_endpoints.secret",
            owner: self.platform.as_str(),
            row: id.as_str(),
        };
        let endpoint = Endpoint {
            id: id.clone(),
            owner: (&self.platform).into(),
            client: None,
            url: url.to_owned(),
            secret_sealed: self.ctx.sealer.seal(&secret, place).expect("sealed"),
            former_secrets: Vec::new(),
            is_active: true,
            is_approved: true,
            created_at: self.ctx.clock.now(),
            header_prefix: None,
            failing_since: None,
        };
        store::endpoints::insert(self.ctx.db.writer(), &endpoint)
            .await
            .expect("an endpoint");
        id
    }

    /// Writes `count` events, each with one delivery to every endpoint, and wakes the worker.
    pub async fn publish(&self, endpoints: &[EndpointId], count: usize) -> Vec<EventId> {
        let now = self.ctx.clock.now();
        let tx = self.ctx.db.begin("publish").await.expect("begun");
        let mut deliveries = Vec::new();
        let mut written = Vec::new();
        for _ in 0..count {
            let id = EventId(self.ctx.ids.ulid());
            let event = NewEvent {
                id: id.clone(),
                owner: (&self.platform).into(),
                client: None,
                kind: "payment.confirmed".to_owned(),
                deduplication_key: id.to_string(),
                request_id: None,
                body: format!("{{\"event\":\"payment.confirmed\",\"id\":\"{id}\"}}"),
                payer: None,
                now,
            };
            store::outbox::insert_event(&tx, &event).await.expect("written");
            deliveries.extend(endpoints.iter().map(|endpoint| NewDelivery {
                id: DeliveryId(self.ctx.ids.ulid()),
                event: id.clone(),
                endpoint: endpoint.clone(),
                owner: (&self.platform).into(),
                is_test: false,
                is_replay: false,
                now,
            }));
            written.push(id);
        }
        store::outbox::insert_deliveries(&tx, &deliveries)
            .await
            .expect("written");
        tx.commit().await.expect("committed");
        self.ctx.due.notify_one();
        written
    }

    /// The delivery of an event to one endpoint.
    pub async fn delivery(&self, event: &EventId, endpoint: &EndpointId) -> DeliveryRecord {
        let db = self.ctx.db.reader();
        let all = store::delivery_log::deliveries_of(db, &self.platform, std::slice::from_ref(event)).await;
        let mut own = all
            .expect("read")
            .into_iter()
            .filter(|one| one.delivery.endpoint == *endpoint);
        let id = own.next().expect("a delivery").delivery.id;
        let found = store::delivery_log::find_delivery(db, &self.platform, None, &id).await;
        found.expect("read").expect("the delivery").delivery
    }

    /// Waits until a delivery has this number of recorded attempts.
    pub async fn wait_for_tries(&self, event: &EventId, endpoint: &EndpointId, count: usize, within: Duration) {
        let end = Instant::now() + within;
        while self.delivery(event, endpoint).await.tries.len() < count {
            assert!(Instant::now() < end, "{:?}", self.delivery(event, endpoint).await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Number of deliveries that match an SQL condition on the delivery and its queue row.
    pub async fn count(&self, condition: &str) -> usize {
        let db = self.ctx.db.reader();
        let sql = format!(
            "SELECT CAST(count(*) AS BIGINT) AS n FROM deliveries LEFT JOIN delivery_queue USING (id) WHERE {condition}"
        );
        let row = db
            .query_one_raw(sea_orm::Statement::from_string(db.get_database_backend(), sql))
            .await
            .expect("counted")
            .expect("a row");
        usize::try_from(row.try_get::<i64>("", "n").expect("a number")).expect("positive")
    }

    /// Waits until no delivery is queued.
    pub async fn wait_until_done(&self, within: Duration) {
        let end = Instant::now() + within;
        let queued = format!("state = '{}'", DeliveryState::Queued.wire());
        loop {
            let left = self.count(&queued).await;
            if left == 0 {
                return;
            }
            assert!(Instant::now() < end, "{left} deliveries are still queued");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn context(settings: &Settings, clock: &Arc<JumpingClock>) -> Ctx {
    let db = boot::open_database(settings).await.expect("the database opens");
    let ids = Arc::new(SystemIds::new(clock.clone()));
    boot::context_with(settings, db, clock.clone(), ids, Waits::default()).expect("a context")
}

/// Starts the worker of an instance.
pub fn work(ctx: &Ctx, options: DeliveryOptions) -> Worker {
    let stop = CancellationToken::new();
    let task = tokio::spawn(deliver_webhooks::run(ctx.clone(), options, stop.clone()));
    Worker { stop, task }
}
