//! Two instances on one database, whose machines show times that differ by an hour.

use super::{
    samples::{endpoint, platform, wanted},
    sealer,
};
use crate::support::database::TestDatabase;
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    adapters::clock::SystemClock,
    boot::clock::DatabaseClock,
    domain::{
        ids::{DeliveryId, EventId},
        webhook::{AfterTry, ClaimRequest, ClaimedDelivery, TryOutcome},
    },
    ports::clock::Clock,
    store::{
        self, Db,
        outbox::{NewDelivery, NewEvent},
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The clock of a machine with a wrong time.
struct Wrong(TimeDelta);

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.0
    }

    fn steady(&self) -> Duration {
        SystemClock.steady()
    }
}

/// An instance of the service: its own database connections, and its own clock.
struct Instance {
    db: Db,
    clock: DatabaseClock,
}

impl Instance {
    async fn start(database: &TestDatabase, wrong_by: TimeDelta) -> Self {
        let db = Db::connect(&database.url).await.unwrap().sealed_with(&sealer());
        let clock = DatabaseClock::new(&db, Arc::new(Wrong(wrong_by)));
        Self { db, clock }
    }

    /// Writes an event whose delivery is due at once.
    async fn publish(&self) {
        let endpoint = endpoint("a", None, 1);
        store::endpoints::insert(self.db.writer(), &endpoint).await.unwrap();
        let now = self.clock.now();
        let event = NewEvent {
            id: EventId("event".into()),
            owner: (&platform("a")).into(),
            client: None,
            kind: "payment.confirmed".into(),
            deduplication_key: "key".into(),
            request_id: None,
            body: "{}".into(),
            payer: None,
            now,
        };
        assert!(store::outbox::insert_event(self.db.writer(), &event).await.unwrap());
        let delivery = NewDelivery {
            id: DeliveryId("delivery".into()),
            event: event.id,
            endpoint: endpoint.id,
            owner: event.owner,
            is_test: false,
            is_replay: false,
            now,
        };
        store::outbox::insert_deliveries(self.db.writer(), &[delivery])
            .await
            .unwrap();
    }

    async fn claim(&self, token: &str) -> Vec<ClaimedDelivery> {
        let wanted = ClaimRequest {
            now: self.clock.now(),
            ..wanted(0, token)
        };
        store::outbox::claim(self.db.writer(), &wanted).await.unwrap()
    }

    /// Records that the receiver refused an attempt. The next attempt is due after the pause.
    async fn refused(&self, delivery: ClaimedDelivery, pause: TimeDelta) {
        let now = self.clock.now();
        let outcome = TryOutcome {
            status: Some(500),
            error: None,
            response: None,
            started_at: now,
            ended_at: now,
        };
        let tried = (delivery, outcome, AfterTry::RetryAt(now + pause), "try".to_owned());
        let tx = self.db.begin("finish").await.unwrap();
        store::outbox::finish_batch(&tx, &[tried]).await.unwrap();
        tx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_workers_an_hour_apart_neither_claim_twice_nor_wait() {
    let database = TestDatabase::postgres().await;
    let hour = TimeDelta::hours(1);
    for (first, second) in [(hour, -hour), (-hour, hour)] {
        let first = Instance::start(&database, first).await;
        first.db.migrate_up().await.unwrap();
        let second = Instance::start(&database, second).await;
        let apart = (first.clock.now() - second.clock.now()).abs();
        assert!(apart < TimeDelta::seconds(1), "{apart}");
        first.publish().await;
        let claimed = second.claim("second").await;
        assert_eq!(
            claimed.len(),
            1,
            "a delivery that one instance queued is due for the other at once"
        );
        assert!(first.claim("first").await.is_empty(), "a lease keeps the other out");
        let pause = TimeDelta::milliseconds(1_500);
        second.refused(claimed[0].clone(), pause).await;
        assert!(first.claim("first").await.is_empty(), "no attempt comes early");
        let begun = Instant::now();
        let claimed = loop {
            let claimed = first.claim("first").await;
            if !claimed.is_empty() {
                break claimed;
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "nor an hour late");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(claimed.len(), 1);
        first.db.migrate_down(9_999).await.unwrap();
    }
}

#[tokio::test]
async fn instances_on_one_sqlite_file_use_their_machines_time() {
    let database = TestDatabase::sqlite();
    let instance = Instance::start(&database, TimeDelta::zero()).await;
    let before = SystemClock.now();
    let shown = instance.clock.now();
    assert!(before <= shown && shown <= SystemClock.now());
    let of_database = store::time::now(instance.db.reader()).await.unwrap();
    assert!((of_database - shown).abs() < TimeDelta::seconds(1), "{of_database}");
}
