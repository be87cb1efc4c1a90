//! Tables that grow: partitioned by month on PostgreSQL and unpartitioned on SQLite.

use super::{
    on_both, run,
    samples::{at, platform, scope},
};
use crate::support::database::TestDatabase;
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    domain::{
        ids::{EventId, first_at},
        partitions::{Month, Partition},
    },
    store::{
        Db, StoreError,
        event_log::{self, EventFilter},
        outbox::{self, NewEvent},
        partitions::{self, MonthlyTable},
    },
};
use sea_orm::{ConnectionTrait, Statement};

on_both! {
    the_first_partition_reaches_beyond_a_week
    a_fact_is_recorded_once_across_any_number_of_months
    a_new_month_takes_over_rows_written_before_it
    a_change_of_partitions_never_waits_long_for_a_lock
}

fn event(id: String, fact: &str) -> NewEvent {
    NewEvent {
        id: EventId(id),
        owner: (&platform("a")).into(),
        client: None,
        kind: "payment.confirmed".into(),
        deduplication_key: fact.to_owned(),
        request_id: None,
        body: "{}".into(),
        payer: None,
        now: at(0),
    }
}

async fn tell(db: &Db, event: &NewEvent) -> bool {
    let tx = db.begin("tell").await.unwrap();
    let is_written = outbox::insert_event(&tx, event).await.unwrap();
    tx.commit().await.unwrap();
    is_written
}

async fn told(db: &Db) -> Vec<event_log::EventRecord> {
    let filter = EventFilter {
        limit: 100,
        ..EventFilter::default()
    };
    event_log::events(db.reader(), &scope("a"), &filter).await.unwrap()
}

/// The monthly partitions of the table of events; empty if the table is not partitioned.
async fn months(db: &Db) -> Vec<Partition> {
    let months = partitions::list(db.reader(), MonthlyTable::Events).await.unwrap();
    assert_eq!(months.is_some(), db.is_postgres());
    months.unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "SQLite has the clock of the machine")]
async fn now(db: &Db) -> DateTime<Utc> {
    db.ask_time().await.unwrap();
    db.time().unwrap_or_else(Utc::now)
}

/// A month in the future for which there is no partition yet.
async fn month_ahead(db: &Db) -> Month {
    Month::of(now(db).await + TimeDelta::days(400))
}

async fn add(db: &Db, month: Month) -> Result<(), StoreError> {
    let tx = db.begin("add").await.unwrap();
    assert!(partitions::begin_change(&tx).await.unwrap());
    partitions::add(&tx, MonthlyTable::Events, month).await?;
    tx.commit().await
}

async fn the_first_partition_reaches_beyond_a_week(db: &Db) {
    if db.is_postgres() {
        let [all] = months(db).await.try_into().unwrap();
        assert_eq!(all.from, None);
        assert!(all.until > now(db).await + TimeDelta::days(7));
    }
}

async fn a_fact_is_recorded_once_across_any_number_of_months(db: &Db) {
    let later = first_at(month_ahead(db).await.begin());
    assert!(tell(db, &event(first_at(at(0)), "fact")).await);
    assert!(!tell(db, &event(later.clone(), "fact")).await);
    assert!(tell(db, &event(later, "another fact")).await);
    assert_eq!(told(db).await.len(), 2);
}

async fn a_new_month_takes_over_rows_written_before_it(db: &Db) {
    let month = month_ahead(db).await;
    let (first, last) = (
        first_at(month.begin()),
        first_at(month.next().begin() - TimeDelta::milliseconds(1)),
    );
    for (id, fact) in [
        (first.clone(), "first"),
        (last, "last"),
        (first_at(month.next().begin()), "of the month after"),
    ] {
        assert!(tell(db, &event(id, fact)).await);
    }
    let written = told(db).await;
    if db.is_postgres() {
        let strays = async || partitions::strays(db.reader(), MonthlyTable::Events).await.unwrap();
        assert_eq!(strays().await, 3);
        add(db, month).await.unwrap();
        assert_eq!(strays().await, 1);
        let made = months(db).await.into_iter().max_by_key(|partition| partition.until);
        let name = format!("events_{month}");
        let wanted = Partition {
            name: name.clone(),
            from: Some(month.begin()),
            until: month.next().begin(),
            is_found_empty: false,
        };
        assert_eq!(made, Some(wanted));
        let sql = format!("SELECT tableoid::regclass::text AS place FROM events WHERE id = '{first}'");
        let statement = Statement::from_string(db.reader().get_database_backend(), sql);
        let row = db.reader().query_one_raw(statement).await.unwrap().unwrap();
        assert_eq!(row.try_get::<String>("", "place").unwrap(), name);
    }
    assert_eq!(told(db).await, written);
}

async fn a_change_of_partitions_never_waits_long_for_a_lock(db: &Db) {
    assert!(tell(db, &event(first_at(at(0)), "fact")).await);
    let month = month_ahead(db).await;
    let reading = db.begin("read").await.unwrap();
    let filter = EventFilter {
        limit: 1,
        ..EventFilter::default()
    };
    assert_eq!(
        event_log::events(&reading, &scope("a"), &filter).await.unwrap().len(),
        1
    );
    if db.is_postgres() {
        let error = add(db, month).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        let (one, other) = (db.begin("one").await.unwrap(), db.begin("other").await.unwrap());
        assert!(partitions::begin_change(&one).await.unwrap());
        assert!(
            !partitions::begin_change(&other).await.unwrap(),
            "one changes at a time"
        );
        // Commits both. A dropped transaction would be rolled back only a moment later, and would hold the lock until
        // then.
        for tx in [one, other] {
            tx.commit().await.unwrap();
        }
    }
    reading.commit().await.unwrap();
    if db.is_postgres() {
        add(db, month).await.unwrap();
        assert_eq!(months(db).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_reads_a_partition_while_its_rows_are_being_moved() {
    run(TestDatabase::postgres().await, async |db| {
        let month = month_ahead(db).await;
        assert!(tell(db, &event(first_at(month.begin()), "fact")).await);
        let adding = db.begin("add").await.unwrap();
        assert!(partitions::begin_change(&adding).await.unwrap());
        partitions::add(&adding, MonthlyTable::Events, month).await.unwrap();
        // A query that is planned with the previous partitions takes this lock, which is refused while a partition is
        // added.
        let planned = db.begin("plan").await.unwrap();
        let lock = "LOCK TABLE ONLY events IN ACCESS SHARE MODE NOWAIT";
        let refused = planned.execute_unprepared(lock).await.unwrap_err();
        assert!(refused.to_string().contains("could not obtain lock"), "{refused}");
        adding.commit().await.unwrap();
        let planned = db.begin("plan").await.unwrap();
        planned.execute_unprepared(lock).await.unwrap();
    })
    .await;
}
