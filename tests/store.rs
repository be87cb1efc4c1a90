//! The store on both databases: SQLite in a temporary file, and PostgreSQL when `PRS_TEST_POSTGRES_URL` names a server
//! on which databases may be created.
#![expect(clippy::unwrap_used, reason = "a step of a test that fails ends the test")]

use alloy::primitives::{Address as EvmAddress, B256, U256};
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    domain::{
        address::Address,
        amount::{Amount, Percent},
        client_id::{ClientId, ClientStatus},
        ids::{
            ApiKeyId, ClientRowId, DeliveryId, EndpointId, EventId, OwnerId, PaymentId, PlatformId, RequestId,
            RequestRowId,
        },
        network::Network,
        payment::{BlockRef, Observation, ObservedConversion, PaymentKind, ProvenTransfer, Settled},
        reference::PaymentReference,
        request::{CustomerAddress, CustomerInfo, Frequency, Recurrence, Request, RequestStatus},
        webhook::{AfterTry, ClaimedDelivery, DeliveryState, TryOutcome},
    },
    store::{
        self, Db, Scope, StoreError,
        api_keys::ApiKey,
        cursors::{Cursor, Mark},
        endpoints::Endpoint,
        idempotency::{IdempotencyKey, StoredAnswer},
        observations::ObservationState,
        outbox::{FinishedTry, NewDelivery, NewEvent},
        payments::{PaymentFilter, SettledPayment},
    },
};
use sea_orm::{ConnectionTrait, Database, Statement};
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

static DATABASES: AtomicU32 = AtomicU32::new(0);

fn fresh_name() -> String {
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    format!("prs_store_{}_{number}", std::process::id())
}

/// A database of its own for one test, removed afterwards.
enum TestDb {
    Sqlite { db: Db, folder: PathBuf },
    Postgres { db: Db, server: String, name: String },
}

impl TestDb {
    async fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(fresh_name());
        let url = format!("sqlite://{}", folder.join("deeper/prs.db").display());
        let db = Db::connect(&url).await.unwrap();
        Self::Sqlite { db, folder }
    }

    async fn postgres() -> Option<Self> {
        let server = std::env::var("PRS_TEST_POSTGRES_URL").ok()?;
        let name = fresh_name();
        let admin = Database::connect(&server).await.unwrap();
        admin
            .execute_unprepared(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        admin.close().await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        let db = Db::connect(&format!("{base}/{name}")).await.unwrap();
        Some(Self::Postgres { db, server, name })
    }

    fn db(&self) -> &Db {
        match self {
            Self::Sqlite { db, .. } | Self::Postgres { db, .. } => db,
        }
    }

    async fn remove(self) {
        match self {
            Self::Sqlite { db, folder } => {
                db.close().await.unwrap();
                std::fs::remove_dir_all(folder).unwrap();
            }
            Self::Postgres { db, server, name } => {
                db.close().await.unwrap();
                let admin = Database::connect(&server).await.unwrap();
                admin
                    .execute_unprepared(&format!("DROP DATABASE {name} WITH (FORCE)"))
                    .await
                    .unwrap();
                admin.close().await.unwrap();
            }
        }
    }
}

/// Runs each test on both databases, migrated.
macro_rules! on_both {
    ($($name:ident)+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let test = super::TestDb::sqlite().await;
                test.db().migrate_up().await.unwrap();
                super::$name(test.db()).await;
                test.remove().await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Some(test) = super::TestDb::postgres().await else { return };
                test.db().migrate_up().await.unwrap();
                super::$name(test.db()).await;
                test.remove().await;
            })+
        }
    };
}

on_both! {
    migrations_can_be_undone_and_applied_again
    two_processes_can_migrate_at_once
    a_request_survives_with_every_field
    a_request_without_optional_fields_survives
    a_taken_reference_is_a_named_conflict
    another_tenant_and_another_client_see_nothing
    requests_are_listed_newest_first_with_a_total
    a_request_advances_only_from_the_expected_state
    listening_is_kept_by_partial_payments_and_ends_when_paid
    a_row_that_does_not_parse_is_an_error
    a_payment_is_recorded_once
    the_largest_amounts_survive
    a_rolled_back_payment_leaves_nothing
    payments_are_found_by_every_key
    a_wallet_finds_what_it_paid_and_received
    pages_of_a_search_are_stable_and_complete
    payments_of_another_tenant_are_not_found
    totals_stop_at_the_cap
    observations_are_new_once_and_follow_their_block
    a_batch_may_name_an_event_twice
    reorganised_sightings_go_and_final_ones_stay
    cursors_and_blocks_survive
    four_workers_claim_each_delivery_once
    a_stale_holder_records_nothing
    retries_wait_and_end
    a_released_delivery_is_due_at_once
    busy_endpoints_are_left_out
    the_next_due_time_is_known
    a_switched_off_endpoint_receives_nothing_more
    a_deleted_endpoint_keeps_its_log
    an_event_is_told_once
    endpoint_urls_are_unique_for_each_owner
    events_reach_the_endpoints_of_their_audience
    keys_and_client_ids_are_found_by_their_credentials
    idempotency_keys_are_taken_once
    times_are_compared_by_value
    concurrent_writers_do_not_fail_as_busy
}

// ---- Samples -------------------------------------------------------------------------------------------------------

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

fn wallet(number: u8) -> Address {
    Address::Evm(EvmAddress::repeat_byte(number))
}

fn hash(number: u64) -> B256 {
    B256::from(U256::from(number))
}

fn platform(name: &str) -> PlatformId {
    PlatformId(format!("platform-{name}"))
}

fn scope(name: &str) -> Scope {
    Scope {
        platform: platform(name),
        client: None,
    }
}

fn client_scope(name: &str, client: &str) -> Scope {
    Scope {
        client: Some(ClientRowId(client.to_owned())),
        ..scope(name)
    }
}

fn request(owner: &str, number: u64) -> Request {
    Request {
        row: RequestRowId(format!("request-{owner}-{number:06}")),
        platform: platform(owner),
        client: Some(ClientRowId("client-1".into())),
        client_id: Some("cli_one".into()),
        origin: Some("https://shop.example.com".into()),
        id: RequestId(format!("01{owner}{number}")),
        salt: "0011223344556677".into(),
        reference: PaymentReference((number ^ u64::from(owner.as_bytes()[0]) << 32).to_be_bytes()),
        kind: PaymentKind::Direct,
        status: RequestStatus::Pending,
        network: Network::Sepolia,
        payee: wallet(1),
        payer: Some(wallet(2)),
        amount: Amount::parse("10.5").unwrap(),
        invoice_currency: "FAU-sepolia".into(),
        payment_currency: "FAU-sepolia".into(),
        token: Some(wallet(3)),
        expected: U256::from(1_000),
        credited: U256::ZERO,
        payment_count: 0,
        tx_hash: None,
        merchant_reference: Some(format!("order {number}")),
        customer: None,
        recurrence: None,
        is_recurrence_stopped: false,
        original_request_id: None,
        original_request_reference: None,
        is_crypto_to_fiat: false,
        is_listening: false,
        created_at: at(i64::try_from(number).unwrap()),
    }
}

fn observation(number: u64) -> Observation {
    Observation {
        network: Network::Sepolia,
        tx_hash: hash(number),
        ordinal: 0,
        block_number: number,
        block_hash: hash(1_000_000 + number),
        log_index: 7,
        proxy: wallet(9),
        reference_topic: hash(2_000_000 + number),
        token: Some(wallet(3)),
        payee: wallet(1),
        units: U256::from(100),
        fee_units: U256::from(1),
        fee_address: None,
        conversion: None,
    }
}

fn settled(number: u64, payer: u8) -> Settled {
    Settled {
        observed: observation(number),
        proven: ProvenTransfer {
            received_units: U256::from(100),
            payer: Some(wallet(payer)),
            payer_eoa: Some(wallet(payer)),
        },
        credited: U256::from(100),
        at: at(i64::try_from(number).unwrap()),
    }
}

async fn record(db: &Db, request: &Request, settled: &Settled) -> bool {
    let payment = SettledPayment {
        id: PaymentId(format!(
            "payment-{}-{}",
            settled.observed.tx_hash, settled.observed.ordinal
        )),
        request,
        settled,
        created_at: at(0),
    };
    let tx = db.begin("record").await.unwrap();
    let is_new = store::payments::insert_once(&tx, &payment).await.unwrap();
    tx.commit().await.unwrap();
    is_new
}

fn page(filter: PaymentFilter) -> PaymentFilter {
    PaymentFilter { limit: 20, ..filter }
}

/// Numbers of the payments that a search finds, in its order.
async fn numbers(db: &Db, scope: &Scope, filter: PaymentFilter) -> Vec<u64> {
    let found = store::payments::search(db.reader(), scope, &filter).await.unwrap();
    found.rows.iter().map(|(payment, _)| payment.block_number).collect()
}

fn endpoint(owner: &str, client: Option<&str>, number: u32) -> Endpoint {
    Endpoint {
        id: EndpointId(format!("endpoint-{number}")),
        owner: (&platform(owner)).into(),
        client: client.map(|client| ClientRowId(client.to_owned())),
        url: format!("https://example.com/{number}"),
        secret_sealed: format!("sealed {number}"),
        former_secrets: Vec::new(),
        is_active: true,
        created_at: at(0),
    }
}

/// Writes an event with a delivery to each endpoint, all of them due at `at(0)`.
async fn publish(db: &Db, event: u32, endpoints: &[&Endpoint]) -> EventId {
    let id = EventId(format!("event-{event}"));
    let tx = db.begin("publish").await.unwrap();
    let event = NewEvent {
        id: id.clone(),
        owner: endpoints[0].owner.clone(),
        client: None,
        kind: "payment.confirmed".into(),
        deduplication_key: format!("key {event}"),
        request_id: None,
        body: format!("body {event}"),
        now: at(0),
    };
    assert!(store::outbox::insert_event(&tx, &event).await.unwrap());
    let deliveries: Vec<_> = endpoints
        .iter()
        .map(|endpoint| NewDelivery {
            id: DeliveryId(format!("delivery-{}-{}", event.id, endpoint.id)),
            event: id.clone(),
            endpoint: endpoint.id.clone(),
            owner: endpoint.owner.clone(),
            is_test: false,
            now: at(0),
        })
        .collect();
    store::outbox::insert_deliveries(&tx, &deliveries).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn with_endpoint(db: &Db, number: u32) -> Endpoint {
    let endpoint = endpoint("a", None, number);
    store::endpoints::insert(db.writer(), &endpoint).await.unwrap();
    endpoint
}

fn outcome(status: u16, ended: i64) -> TryOutcome {
    TryOutcome {
        status: Some(status),
        error: None,
        response: Some("answer".into()),
        started_at: at(ended),
        ended_at: at(ended),
    }
}

async fn finish(db: &Db, tries: &[FinishedTry]) -> HashSet<DeliveryId> {
    let tx = db.begin("finish").await.unwrap();
    let recorded = store::outbox::finish_batch(&tx, tries).await.unwrap();
    tx.commit().await.unwrap();
    recorded
}

async fn claim(db: &Db, now: i64, token: &str) -> Vec<ClaimedDelivery> {
    store::outbox::claim_due(db.writer(), at(now), at(now + 15), token, 50)
        .await
        .unwrap()
}

async fn cancel(db: &Db, owner: &str, endpoint: &EndpointId, now: i64) -> u64 {
    let owner = OwnerId::from(&platform(owner));
    store::outbox::cancel_queued_of_endpoint(db.writer(), &owner, endpoint, at(now))
        .await
        .unwrap()
}

// ---- Schema --------------------------------------------------------------------------------------------------------

async fn migrations_can_be_undone_and_applied_again(db: &Db) {
    let schema = db.dump_schema().await.unwrap();
    assert!(schema.contains("requests_reference_key"));
    assert!(!schema.contains("seaql_migrations"));
    let states = db.migrate_status().await.unwrap();
    assert!(states.iter().all(|state| state.is_applied));
    db.migrate_down(1).await.unwrap();
    let left = db.migrate_status().await.unwrap();
    assert_eq!(left.iter().filter(|state| !state.is_applied).count(), 1);
    db.migrate_down(u32::try_from(states.len()).unwrap()).await.unwrap();
    assert_eq!(db.dump_schema().await.unwrap(), "");
    db.migrate_up().await.unwrap();
    assert_eq!(db.dump_schema().await.unwrap(), schema);
    db.migrate_up().await.unwrap();
    db.ping().await.unwrap();
}

async fn two_processes_can_migrate_at_once(db: &Db) {
    db.migrate_down(100).await.unwrap();
    let (one, other) = tokio::join!(db.migrate_up(), db.migrate_up());
    // SQLite lets one of them fail on the table of the other; whoever comes second finds everything done.
    assert!(one.is_ok() || other.is_ok());
    if db.is_postgres() {
        one.unwrap();
        other.unwrap();
    }
    db.migrate_up().await.unwrap();
    assert!(db.migrate_status().await.unwrap().iter().all(|state| state.is_applied));
}

// ---- Requests ------------------------------------------------------------------------------------------------------

async fn a_request_survives_with_every_field(db: &Db) {
    let full = Request {
        expected: U256::MAX,
        credited: U256::MAX - U256::from(1),
        payment_count: 3,
        tx_hash: Some("0xabc".into()),
        customer: Some(CustomerInfo {
            first_name: Some("Ada".into()),
            last_name: Some("Lovelace \u{1F980}".into()),
            email: Some("ada@example.com".into()),
            address: Some(CustomerAddress {
                country: Some("GB".into()),
                postal_code: Some("N1".into()),
                ..CustomerAddress::default()
            }),
        }),
        recurrence: Some(Recurrence {
            start_date: "2030-01-01".into(),
            frequency: Frequency::Monthly,
        }),
        is_recurrence_stopped: true,
        original_request_id: Some("01ff".into()),
        original_request_reference: Some("0x00".into()),
        is_crypto_to_fiat: true,
        is_listening: true,
        status: RequestStatus::PartiallyPaid,
        created_at: at(1) + TimeDelta::microseconds(123_456),
        ..request("a", 1)
    };
    store::requests::insert(db.writer(), &full).await.unwrap();
    let found = store::requests::find(db.reader(), &scope("a"), full.id.as_str())
        .await
        .unwrap();
    assert_eq!(found.as_ref(), Some(&full));
    let by_rows = store::requests::find_by_rows(db.reader(), std::slice::from_ref(&full.row))
        .await
        .unwrap();
    assert_eq!(by_rows, std::slice::from_ref(&full));
    let by_topic = store::requests::by_topics(db.reader(), full.network, &[hash(1), full.reference.topic()]).await;
    assert_eq!(by_topic.unwrap(), std::slice::from_ref(&full));
    let elsewhere = store::requests::by_topics(db.reader(), Network::Base, &[full.reference.topic()]).await;
    assert!(elsewhere.unwrap().is_empty());
}

async fn a_request_without_optional_fields_survives(db: &Db) {
    let tron = Address::parse("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").unwrap();
    let bare = Request {
        client: None,
        client_id: None,
        origin: None,
        network: Network::Tron,
        payee: tron,
        payer: None,
        token: None,
        merchant_reference: None,
        ..request("a", 1)
    };
    store::requests::insert(db.writer(), &bare).await.unwrap();
    let found = store::requests::find(db.reader(), &scope("a"), bare.id.as_str())
        .await
        .unwrap();
    assert_eq!(found, Some(bare));
}

async fn a_taken_reference_is_a_named_conflict(db: &Db) {
    let first = request("a", 1);
    let second = Request {
        reference: first.reference,
        ..request("b", 2)
    };
    store::requests::insert(db.writer(), &first).await.unwrap();
    let refused = store::requests::insert(db.writer(), &second).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(store::REQUEST_REFERENCE))),
        "{refused:?}"
    );
    let repeated = Request {
        reference: PaymentReference([9; 8]),
        ..first
    };
    let refused = store::requests::insert(db.writer(), &repeated).await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
}

async fn another_tenant_and_another_client_see_nothing(db: &Db) {
    let mine = Request {
        recurrence: Some(Recurrence {
            start_date: "2030-01-01".into(),
            frequency: Frequency::Daily,
        }),
        ..request("a", 1)
    };
    store::requests::insert(db.writer(), &mine).await.unwrap();
    let id = mine.id.as_str();
    for stranger in [scope("b"), client_scope("a", "client-2"), client_scope("b", "client-1")] {
        assert_eq!(store::requests::find(db.reader(), &stranger, id).await.unwrap(), None);
        let (listed, total) = store::requests::list(db.reader(), &stranger, None, 20, 0)
            .await
            .unwrap();
        assert_eq!((listed.len(), total), (0, 0));
        assert!(
            !store::requests::set_recurrence_stopped(db.writer(), &stranger, id, true)
                .await
                .unwrap()
        );
    }
    for owner in [scope("a"), client_scope("a", "client-1")] {
        assert!(store::requests::find(db.reader(), &owner, id).await.unwrap().is_some());
        assert!(
            store::requests::set_recurrence_stopped(db.writer(), &owner, id, true)
                .await
                .unwrap()
        );
    }
    let found = store::requests::find(db.reader(), &scope("a"), id)
        .await
        .unwrap()
        .unwrap();
    assert!(found.is_recurrence_stopped);
}

async fn requests_are_listed_newest_first_with_a_total(db: &Db) {
    for number in 0..5 {
        let payee = if number == 3 { wallet(8) } else { wallet(1) };
        let request = Request {
            payee,
            ..request("a", number)
        };
        store::requests::insert(db.writer(), &request).await.unwrap();
    }
    let list = async |payee: Option<String>, limit, offset| {
        let (rows, total) = store::requests::list(db.reader(), &scope("a"), payee.as_deref(), limit, offset)
            .await
            .unwrap();
        let orders: Vec<_> = rows.iter().filter_map(|row| row.merchant_reference.clone()).collect();
        (orders, total)
    };
    assert_eq!(list(None, 2, 0).await, (vec!["order 4".into(), "order 3".into()], 5));
    assert_eq!(list(None, 2, 4).await, (vec!["order 0".into()], 5));
    assert_eq!(list(None, 2, 6).await, (vec![], 5));
    assert_eq!(
        list(Some(wallet(8).canonical()), 2, 0).await,
        (vec!["order 3".into()], 1)
    );
}

async fn a_request_advances_only_from_the_expected_state(db: &Db) {
    let before = request("a", 1);
    store::requests::insert(db.writer(), &before).await.unwrap();
    let (partly, _) = before.clone().settle(U256::from(400), "0x01");
    let (rival, _) = before.clone().settle(U256::from(500), "0x02");
    assert!(
        store::requests::advance(db.writer(), &before, &partly, at(5))
            .await
            .unwrap()
    );
    assert!(
        !store::requests::advance(db.writer(), &before, &rival, at(5))
            .await
            .unwrap()
    );
    let (paid, _) = partly.clone().settle(U256::from(600), "0x03");
    assert!(
        store::requests::advance(db.writer(), &partly, &paid, at(6))
            .await
            .unwrap()
    );
    let stored = store::requests::find(db.reader(), &scope("a"), before.id.as_str())
        .await
        .unwrap();
    assert_eq!(stored, Some(paid));
}

async fn listening_is_kept_by_partial_payments_and_ends_when_paid(db: &Db) {
    let before = request("a", 1);
    store::requests::insert(db.writer(), &before).await.unwrap();
    store::requests::set_listening(db.writer(), &before.row).await.unwrap();
    let load = async || {
        store::requests::find(db.reader(), &scope("a"), before.id.as_str())
            .await
            .unwrap()
            .unwrap()
    };
    let (partly, _) = before.clone().settle(U256::from(1), "0x01");
    assert!(
        store::requests::advance(db.writer(), &before, &partly, at(5))
            .await
            .unwrap()
    );
    assert!(load().await.is_listening);
    let (paid, _) = partly.clone().settle(U256::from(999), "0x02");
    assert!(
        store::requests::advance(db.writer(), &partly, &paid, at(5))
            .await
            .unwrap()
    );
    assert!(!load().await.is_listening);
    store::requests::set_listening(db.writer(), &before.row).await.unwrap();
    assert!(!load().await.is_listening);
}

async fn a_row_that_does_not_parse_is_an_error(db: &Db) {
    for (number, damage) in [
        "status = 'unheard'",
        "credited = '-1'",
        "payee = '0x12'",
        "network = 'ethereum'",
        "customer = '{\"unheard\": 1}'",
        "payment_count = -1",
    ]
    .into_iter()
    .enumerate()
    {
        let request = request("a", u64::try_from(number).unwrap());
        store::requests::insert(db.writer(), &request).await.unwrap();
        let sql = format!("UPDATE requests SET {damage} WHERE id = '{}'", request.row);
        db.writer().execute_unprepared(&sql).await.unwrap();
        let found = store::requests::find(db.reader(), &scope("a"), request.id.as_str()).await;
        assert!(matches!(found, Err(StoreError::Broken(_))), "{damage}: {found:?}");
    }
}

// ---- Payments ------------------------------------------------------------------------------------------------------

async fn a_payment_is_recorded_once(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let first = settled(1, 2);
    assert!(record(db, &request, &first).await);
    // Included again elsewhere, it is still the same payment.
    let mut again = first.clone();
    again.observed.log_index = 99;
    again.observed.block_number = 55;
    let payment = SettledPayment {
        id: PaymentId("another id".into()),
        request: &request,
        settled: &again,
        created_at: at(9),
    };
    assert!(!store::payments::insert_once(db.writer(), &payment).await.unwrap());
    let mut sibling = first.clone();
    sibling.observed.ordinal = 1;
    assert!(record(db, &request, &sibling).await);
    let payments = store::payments::list_of_request(db.reader(), &request).await.unwrap();
    assert_eq!(payments.len(), 2);
    assert_eq!((payments[0].log_index, payments[0].block_number), (7, 1));
    assert_eq!(payments[0].payer, Some(wallet(2)));
    let filter = page(PaymentFilter {
        wallet: Some(wallet(2).canonical()),
        ..Default::default()
    });
    assert_eq!(numbers(db, &scope("a"), filter).await, [1, 1]);
}

async fn the_largest_amounts_survive(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let mut largest = settled(1, 2);
    largest.observed.units = U256::MAX;
    largest.observed.fee_units = U256::MAX;
    largest.observed.fee_address = Some(wallet(5));
    largest.proven.received_units = U256::MAX;
    largest.credited = U256::MAX;
    assert!(record(db, &request, &largest).await);
    let stored = store::payments::list_of_request(db.reader(), &request).await.unwrap();
    assert_eq!(
        [
            stored[0].units,
            stored[0].event_units,
            stored[0].fee_units,
            stored[0].credited
        ],
        [U256::MAX; 4]
    );
    assert_eq!(stored[0].fee_address, Some(wallet(5)));
}

async fn a_rolled_back_payment_leaves_nothing(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let tx = db.begin("abandoned").await.unwrap();
    let payment = SettledPayment {
        id: PaymentId("payment".into()),
        request: &request,
        settled: &settled(1, 2),
        created_at: at(0),
    };
    assert!(store::payments::insert_once(&tx, &payment).await.unwrap());
    drop(tx);
    assert!(
        store::payments::list_of_request(db.reader(), &request)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(record(db, &request, &settled(1, 2)).await);
}

async fn payments_are_found_by_every_key(db: &Db) {
    let mut requests = Vec::new();
    for number in 1..=3 {
        let request = Request {
            kind: if number == 3 {
                PaymentKind::Conversion
            } else {
                PaymentKind::Direct
            },
            invoice_currency: if number == 3 {
                "USD".into()
            } else {
                "FAU-sepolia".into()
            },
            customer: Some(CustomerInfo {
                first_name: Some(format!("Customer {number}")),
                ..CustomerInfo::default()
            }),
            ..request("a", number)
        };
        store::requests::insert(db.writer(), &request).await.unwrap();
        assert!(record(db, &request, &settled(number, 2)).await);
        requests.push(request);
    }
    let filters = [
        PaymentFilter {
            tx_hash: Some(hash(3)),
            ..Default::default()
        },
        PaymentFilter {
            reference: Some(requests[2].reference),
            ..Default::default()
        },
        PaymentFilter {
            request_id: Some(requests[2].id.0.clone()),
            ..Default::default()
        },
        PaymentFilter {
            merchant_reference: Some("order 3".into()),
            ..Default::default()
        },
        PaymentFilter {
            kind: Some(PaymentKind::Conversion),
            ..Default::default()
        },
        PaymentFilter {
            invoice_currencies: Some(vec!["EUR".into(), "USD".into()]),
            ..Default::default()
        },
        PaymentFilter {
            from: Some(at(3)),
            ..Default::default()
        },
        PaymentFilter {
            wallet: Some(wallet(2).canonical()),
            from: Some(at(3)),
            ..Default::default()
        },
        PaymentFilter {
            wallet: Some(wallet(2).canonical()),
            tx_hash: Some(hash(3)),
            ..Default::default()
        },
    ];
    for filter in filters {
        let text = format!("{filter:?}");
        assert_eq!(numbers(db, &scope("a"), page(filter)).await, [3], "{text}");
    }
    let none = PaymentFilter {
        tx_hash: Some(hash(3)),
        kind: Some(PaymentKind::Direct),
        ..Default::default()
    };
    assert!(numbers(db, &scope("a"), page(none)).await.is_empty());
    let of_nobody = PaymentFilter {
        tx_hash: Some(hash(3)),
        wallet: Some(wallet(77).canonical()),
        ..Default::default()
    };
    assert!(numbers(db, &scope("a"), page(of_nobody)).await.is_empty());
    let payment_currencies = Some(vec!["FAU-sepolia".into()]);
    let all = page(PaymentFilter {
        payment_currencies,
        to: Some(at(3)),
        ..Default::default()
    });
    let found = store::payments::search(db.reader(), &scope("a"), &all).await.unwrap();
    let (payment, summary) = &found.rows[0];
    assert_eq!(payment.request_id, requests[2].id.0);
    assert_eq!(summary.customer, requests[2].customer);
    assert_eq!(summary.reference, requests[2].reference);
    assert_eq!((found.total, found.has_more), (3, false));
}

async fn a_wallet_finds_what_it_paid_and_received(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let mut own = settled(3, 1);
    own.proven.payer_eoa = Some(wallet(6));
    for settled in [settled(1, 2), settled(2, 4), own] {
        assert!(record(db, &request, &settled).await);
    }
    let find = async |wallet: Address| {
        let filter = page(PaymentFilter {
            wallet: Some(wallet.canonical()),
            ..Default::default()
        });
        numbers(db, &scope("a"), filter).await
    };
    assert_eq!(find(wallet(1)).await, [3, 2, 1]);
    assert_eq!(find(wallet(2)).await, [1]);
    assert_eq!(find(wallet(6)).await, [3]);
    assert!(find(wallet(7)).await.is_empty());
}

async fn pages_of_a_search_are_stable_and_complete(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    for number in 0..25 {
        let mut settled = settled(number, 2);
        // All in one block, so that only the id tells them apart.
        settled.at = at(0);
        assert!(record(db, &request, &settled).await);
    }
    for wallet in [None, Some(wallet(2).canonical())] {
        let mut seen = HashSet::new();
        for offset in [0, 10, 20] {
            let filter = PaymentFilter {
                wallet: wallet.clone(),
                limit: 10,
                offset,
                ..Default::default()
            };
            let found = store::payments::search(db.reader(), &scope("a"), &filter)
                .await
                .unwrap();
            assert_eq!((found.total, found.has_more), (25, offset < 20));
            seen.extend(found.rows.into_iter().map(|(payment, _)| payment.id));
        }
        assert_eq!(seen.len(), 25);
        let beyond = PaymentFilter {
            wallet,
            limit: 10,
            offset: 30,
            ..Default::default()
        };
        let found = store::payments::search(db.reader(), &scope("a"), &beyond)
            .await
            .unwrap();
        assert_eq!((found.rows.len(), found.total, found.has_more), (0, 25, false));
    }
}

async fn payments_of_another_tenant_are_not_found(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    assert!(record(db, &request, &settled(1, 2)).await);
    let filters = [
        PaymentFilter {
            tx_hash: Some(hash(1)),
            ..Default::default()
        },
        PaymentFilter {
            wallet: Some(wallet(2).canonical()),
            ..Default::default()
        },
        PaymentFilter {
            request_id: Some(request.id.0.clone()),
            ..Default::default()
        },
        PaymentFilter {
            kind: Some(PaymentKind::Direct),
            ..Default::default()
        },
    ];
    for filter in filters {
        for stranger in [scope("b"), client_scope("a", "client-2"), client_scope("b", "client-1")] {
            assert!(numbers(db, &stranger, page(filter.clone())).await.is_empty());
        }
        assert_eq!(
            numbers(db, &client_scope("a", "client-1"), page(filter.clone())).await,
            [1]
        );
    }
}

async fn totals_stop_at_the_cap(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let series = if db.is_postgres() {
        "SELECT value FROM generate_series(1, 10050) AS value"
    } else {
        "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 10050) SELECT value FROM n"
    };
    let sql = format!(
        "INSERT INTO payment_parties (platform_id, wallet, paid_at, payment_id) \
         SELECT 'platform-a', '{}', '2027-01-15 08:00:00+00:00', 'p' || value FROM ({series}) AS numbers",
        wallet(2).canonical()
    );
    db.writer().execute_unprepared(&sql).await.unwrap();
    for number in 1..=2 {
        assert!(record(db, &request, &settled(number, 2)).await);
    }
    let filter = PaymentFilter {
        wallet: Some(wallet(2).canonical()),
        limit: 1,
        ..Default::default()
    };
    let found = store::payments::search(db.reader(), &scope("a"), &filter)
        .await
        .unwrap();
    assert_eq!((found.total, found.has_more), (store::TOTAL_MAX, true));
}

// ---- Chain ---------------------------------------------------------------------------------------------------------

async fn observations_are_new_once_and_follow_their_block(db: &Db) {
    let mut first = observation(10);
    first.conversion = Some(ObservedConversion {
        invoice_units: U256::MAX,
        invoice_fee_units: U256::ZERO,
        currency: wallet(7),
        max_rate_timespan_s: 0,
    });
    // Anybody can emit an event that names the zero address.
    let mut second = observation(11);
    second.payee = Address::Evm(EvmAddress::ZERO);
    let both = [first.clone(), second.clone()];
    let insert = async |observations: &[Observation]| {
        store::observations::insert_many(db.writer(), observations, false, at(0))
            .await
            .unwrap()
    };
    assert_eq!(insert(&both).await, 2);
    assert_eq!(insert(&both).await, 0);
    let load = async || {
        store::observations::in_range(db.reader(), Network::Sepolia, 0, 100)
            .await
            .unwrap()
    };
    assert_eq!(
        load().await,
        both.clone().map(|observed| (observed, ObservationState::Seen))
    );
    // The transaction is included again, in another block, at another place, with another rate.
    let moved = Observation {
        block_number: 12,
        block_hash: hash(77),
        log_index: 1,
        units: U256::from(99),
        ..first.clone()
    };
    assert_eq!(insert(&[moved.clone(), observation(13)]).await, 1);
    let rows = load().await;
    assert_eq!(rows.len(), 3);
    assert!(rows.contains(&(moved.clone(), ObservationState::Seen)));
    // What is final stays where it is.
    let key = [(moved.tx_hash, moved.ordinal)];
    let changed = store::observations::set_state(db.writer(), Network::Sepolia, &key, ObservationState::Credited).await;
    assert_eq!(changed.unwrap(), 1);
    assert_eq!(insert(std::slice::from_ref(&first)).await, 0);
    assert!(load().await.contains(&(moved, ObservationState::Credited)));
}

async fn a_batch_may_name_an_event_twice(db: &Db) {
    let batch = [observation(1), observation(1), observation(2)];
    let inserted = store::observations::insert_many(db.writer(), &batch, true, at(0))
        .await
        .unwrap();
    assert_eq!(inserted, 2);
    let many: Vec<_> = (0..1_200).map(observation).collect();
    let inserted = store::observations::insert_many(db.writer(), &many, false, at(0))
        .await
        .unwrap();
    assert_eq!(inserted, 1_198);
    assert_eq!(
        store::observations::insert_many(db.writer(), &[], false, at(0))
            .await
            .unwrap(),
        0
    );
}

async fn reorganised_sightings_go_and_final_ones_stay(db: &Db) {
    let sightings: Vec<_> = (1..=5).map(observation).collect();
    store::observations::insert_many(db.writer(), &sightings, false, at(0))
        .await
        .unwrap();
    let keys: Vec<_> = sightings[..4].iter().map(|seen| (seen.tx_hash, seen.ordinal)).collect();
    let set = async |keys: &[(B256, u32)], state| {
        store::observations::set_state(db.writer(), Network::Sepolia, keys, state)
            .await
            .unwrap()
    };
    assert_eq!(set(&keys[3..], ObservationState::Credited).await, 1);
    assert_eq!(set(&[(hash(4), 1)], ObservationState::Unproven).await, 0);
    let seen = async |number: u64| {
        let topic = observation(number).reference_topic;
        store::observations::list_seen_by_topic(db.reader(), Network::Sepolia, &topic)
            .await
            .unwrap()
            .len()
    };
    assert_eq!((seen(3).await, seen(4).await), (1, 0));
    let gone = store::observations::delete_above(db.writer(), Network::Sepolia, 2)
        .await
        .unwrap();
    assert_eq!(gone, 2);
    let left = store::observations::in_range(db.reader(), Network::Sepolia, 0, 100)
        .await
        .unwrap();
    let heights: Vec<_> = left.iter().map(|(observed, _)| observed.block_number).collect();
    assert_eq!(heights, [1, 2, 4]);
    assert_eq!(
        store::observations::delete_above(db.writer(), Network::Base, 0)
            .await
            .unwrap(),
        0
    );
}

async fn cursors_and_blocks_survive(db: &Db) {
    let load = async || store::cursors::load(db.reader(), Network::Base).await.unwrap();
    assert_eq!(load().await, None);
    let mut cursor = Cursor {
        network: Network::Base,
        seen: Mark {
            number: 10,
            hash: hash(10),
        },
        finalized: Mark {
            number: 5,
            hash: hash(5),
        },
        halted_reason: None,
        updated_at: at(1),
    };
    store::cursors::save(db.writer(), &cursor).await.unwrap();
    assert_eq!(load().await, Some(cursor.clone()));
    cursor.halted_reason = Some("nodes disagree".into());
    cursor.seen.number = 11;
    store::cursors::save(db.writer(), &cursor).await.unwrap();
    assert_eq!(load().await, Some(cursor));
    let block = |number: u64, fork: u64| BlockRef {
        number,
        hash: hash(number + fork),
        parent_hash: hash(number - 1 + fork),
        time: DateTime::from_timestamp(1_800_000_000, 0).unwrap() + TimeDelta::seconds(number.cast_signed()),
    };
    let blocks: Vec<_> = (1..=6).map(|number| block(number, 0)).collect();
    store::cursors::push_blocks(db.writer(), Network::Base, &blocks)
        .await
        .unwrap();
    store::cursors::push_blocks(db.writer(), Network::Base, &[block(6, 100)])
        .await
        .unwrap();
    store::cursors::push_blocks(db.writer(), Network::Base, &[])
        .await
        .unwrap();
    let window = async || store::cursors::window(db.reader(), Network::Base).await.unwrap();
    assert_eq!(window().await[0], block(6, 100));
    assert_eq!(
        store::cursors::delete_blocks_above(db.writer(), Network::Base, 4)
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        store::cursors::prune_below(db.writer(), Network::Base, 3)
            .await
            .unwrap(),
        2
    );
    assert_eq!(window().await, [block(4, 0), block(3, 0)]);
}

// ---- Webhooks ------------------------------------------------------------------------------------------------------

async fn four_workers_claim_each_delivery_once(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    for event in 0..200 {
        publish(db, event, &[&endpoint]).await;
    }
    let workers = (0..4).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            for round in 0.. {
                let token = format!("worker {worker} round {round}");
                let batch = store::outbox::claim_due(db.writer(), at(1), at(16), &token, 7)
                    .await
                    .unwrap();
                assert!(batch.len() <= 7);
                if batch.is_empty() {
                    break;
                }
                claimed.extend(batch.into_iter().map(|delivery| (delivery.id, delivery.body)));
            }
            claimed
        })
    });
    let mut claimed = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        claimed.extend(worker.await.unwrap());
    }
    assert_eq!(claimed.len(), 200);
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 200);
}

async fn a_stale_holder_records_nothing(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let event = publish(db, 1, &[&endpoint]).await;
    let first = claim(db, 0, "first").await.remove(0);
    assert_eq!(
        (first.url.as_str(), first.secret_sealed.as_str()),
        ("https://example.com/1", "sealed 1")
    );
    assert!(claim(db, 14, "early").await.is_empty());
    // The lease has ended: another worker takes over, and the retry count is the same.
    let second = claim(db, 15, "second").await.remove(0);
    assert_eq!((&second.id, second.retry_count), (&first.id, 0));
    let late = (first, outcome(200, 16), AfterTry::Delivered, "attempt-1".to_owned());
    assert!(finish(db, &[late]).await.is_empty());
    let records = async || store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
    assert_eq!(records().await[0].state, DeliveryState::Queued);
    assert!(records().await[0].attempts.is_empty());
    let good = (
        second.clone(),
        outcome(204, 17),
        AfterTry::Delivered,
        "attempt-2".to_owned(),
    );
    assert_eq!(
        finish(db, std::slice::from_ref(&good)).await,
        HashSet::from([second.id])
    );
    // Recording the same try again changes nothing either.
    assert!(finish(db, &[good]).await.is_empty());
    let record = records().await.remove(0);
    assert_eq!(
        (record.state, record.finished_at),
        (DeliveryState::Delivered, Some(at(17)))
    );
    assert_eq!(record.attempts.len(), 1);
    assert_eq!(record.attempts[0].outcome, outcome(204, 17));
}

async fn retries_wait_and_end(db: &Db) {
    let endpoints = [
        with_endpoint(db, 1).await,
        with_endpoint(db, 2).await,
        with_endpoint(db, 3).await,
    ];
    let event = publish(db, 1, &endpoints.iter().collect::<Vec<_>>()).await;
    let claimed = claim(db, 0, "one").await;
    let verdicts = [AfterTry::Delivered, AfterTry::RetryAt(at(9)), AfterTry::Exhausted];
    let tries: Vec<_> = claimed
        .into_iter()
        .zip(verdicts)
        .enumerate()
        .map(|(number, (delivery, after))| (delivery, outcome(500, 4), after, format!("attempt-{number}")))
        .collect();
    assert_eq!(finish(db, &tries).await.len(), 3);
    let records = store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
    let states: Vec<_> = records
        .iter()
        .map(|record| (record.state, record.retry_count))
        .collect();
    assert_eq!(
        states,
        [
            (DeliveryState::Delivered, 0),
            (DeliveryState::Queued, 1),
            (DeliveryState::Failed, 0)
        ]
    );
    assert!(claim(db, 8, "two").await.is_empty());
    let again = claim(db, 9, "two").await;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].retry_count, &again[0].endpoint), (1, &endpoints[1].id));
    let second = (
        again[0].clone(),
        outcome(200, 10),
        AfterTry::Delivered,
        "attempt-9".to_owned(),
    );
    finish(db, &[second]).await;
    let records = store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
    let tried: Vec<_> = records[1].attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(tried, [1, 2]);
}

async fn a_released_delivery_is_due_at_once(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    publish(db, 1, &[&endpoint]).await;
    let held = claim(db, 0, "one").await.remove(0);
    assert_eq!(store::outbox::release(db.writer(), "other").await.unwrap(), 0);
    assert_eq!(store::outbox::release(db.writer(), "one").await.unwrap(), 1);
    assert!(
        finish(db, &[(held, outcome(200, 1), AfterTry::Delivered, "late".into())])
            .await
            .is_empty()
    );
    assert_eq!(claim(db, 1, "two").await.len(), 1);
}

async fn busy_endpoints_are_left_out(db: &Db) {
    let slow = with_endpoint(db, 1).await;
    let quick = with_endpoint(db, 2).await;
    publish(db, 1, &[&slow, &quick]).await;
    let claimed = store::outbox::claim_due_except(db.writer(), at(0), at(15), "one", 50, &[slow.id])
        .await
        .unwrap();
    let endpoints: Vec<_> = claimed.iter().map(|delivery| &delivery.endpoint).collect();
    assert_eq!(endpoints, [&quick.id]);
}

async fn the_next_due_time_is_known(db: &Db) {
    let next = async |now| store::outbox::next_due(db.reader(), at(now)).await.unwrap();
    assert_eq!(next(0).await, None);
    let endpoint = with_endpoint(db, 1).await;
    publish(db, 1, &[&endpoint]).await;
    assert_eq!(next(-5).await, Some(at(0)));
    assert_eq!(next(3).await, Some(at(3)));
    let held = claim(db, 3, "one").await.remove(0);
    assert_eq!(next(3).await, Some(at(18)));
    finish(
        db,
        &[(held, outcome(500, 4), AfterTry::RetryAt(at(5)), "attempt".into())],
    )
    .await;
    assert_eq!(next(3).await, Some(at(5)));
}

async fn a_switched_off_endpoint_receives_nothing_more(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let event = publish(db, 1, &[&endpoint]).await;
    let switch = async |owner: &str, is_active: bool| {
        store::endpoints::set_active(db.writer(), &scope(owner), &endpoint.id, is_active)
            .await
            .unwrap()
    };
    assert!(!switch("b", false).await);
    assert!(switch("a", false).await);
    assert_eq!(cancel(db, "b", &endpoint.id, 1).await, 0);
    assert_eq!(cancel(db, "a", &endpoint.id, 1).await, 1);
    assert!(claim(db, 2, "one").await.is_empty());
    // A delivery that was fanned out while the endpoint was being switched off is found by the claim.
    let late = publish(db, 2, &[&endpoint]).await;
    assert!(claim(db, 2, "two").await.is_empty());
    for event in [event, late] {
        let records = store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
        assert_eq!(records[0].state, DeliveryState::Cancelled);
        assert!(records[0].finished_at.is_some());
    }
    assert!(switch("a", true).await);
    assert!(claim(db, 4, "three").await.is_empty());
}

async fn a_deleted_endpoint_keeps_its_log(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let told = publish(db, 1, &[&endpoint]).await;
    let held = claim(db, 0, "one").await.remove(0);
    finish(db, &[(held, outcome(200, 1), AfterTry::Delivered, "attempt".into())]).await;
    let waiting = publish(db, 2, &[&endpoint]).await;
    let delete = async |owner: &str| {
        store::endpoints::delete(db.writer(), &scope(owner), &endpoint.id)
            .await
            .unwrap()
    };
    assert!(!delete("b").await);
    assert!(delete("a").await);
    assert!(!delete("a").await);
    assert_eq!(cancel(db, "a", &endpoint.id, 2).await, 1);
    assert_eq!(
        store::endpoints::find(db.reader(), &scope("a"), &endpoint.id)
            .await
            .unwrap(),
        None
    );
    let state = async |event| {
        let records = store::outbox::deliveries_of_event(db.reader(), event).await.unwrap();
        (records[0].state, records[0].attempts.len())
    };
    assert_eq!(state(&told).await, (DeliveryState::Delivered, 1));
    assert_eq!(state(&waiting).await, (DeliveryState::Cancelled, 0));
    let late = publish(db, 3, &[&endpoint]).await;
    assert!(claim(db, 5, "two").await.is_empty());
    assert_eq!(state(&late).await, (DeliveryState::Cancelled, 0));
}

async fn an_event_is_told_once(db: &Db) {
    let event = NewEvent {
        id: EventId("event-1".into()),
        owner: (&platform("a")).into(),
        client: Some(ClientRowId("client-1".into())),
        kind: "payment.confirmed".into(),
        deduplication_key: "payment.confirmed:sepolia:0x1:0".into(),
        request_id: Some("01ff".into()),
        body: "{}".into(),
        now: at(0),
    };
    assert!(store::outbox::insert_event(db.writer(), &event).await.unwrap());
    let again = NewEvent {
        id: EventId("event-2".into()),
        ..event
    };
    assert!(!store::outbox::insert_event(db.writer(), &again).await.unwrap());
}

async fn endpoint_urls_are_unique_for_each_owner(db: &Db) {
    let mut number = 0;
    let mut insert = async |owner: &str, client: Option<&str>| {
        number += 1;
        let endpoint = Endpoint {
            url: "https://example.com/hook".into(),
            ..endpoint(owner, client, number)
        };
        store::endpoints::insert(db.writer(), &endpoint).await
    };
    for (owner, client) in [
        ("a", None),
        ("a", Some("client-1")),
        ("a", Some("client-2")),
        ("b", None),
    ] {
        insert(owner, client).await.unwrap();
        let refused = insert(owner, client).await;
        assert!(
            matches!(refused, Err(StoreError::Conflict(store::ENDPOINT_URL))),
            "{refused:?}"
        );
    }
}

async fn events_reach_the_endpoints_of_their_audience(db: &Db) {
    for (owner, client, number) in [
        ("a", None, 1),
        ("a", Some("client-1"), 2),
        ("a", Some("client-2"), 3),
        ("b", None, 4),
        ("a", None, 5),
    ] {
        store::endpoints::insert(db.writer(), &endpoint(owner, client, number))
            .await
            .unwrap();
    }
    let off = EndpointId("endpoint-5".into());
    assert!(
        store::endpoints::set_active(db.writer(), &scope("a"), &off, false)
            .await
            .unwrap()
    );
    let active = async |client: Option<&str>| {
        let client = client.map(|client| ClientRowId(client.into()));
        let ids = store::endpoints::active_for(db.reader(), &platform("a"), client.as_ref())
            .await
            .unwrap();
        ids.into_iter().map(|id| id.0).collect::<Vec<_>>()
    };
    assert_eq!(active(None).await, ["endpoint-1"]);
    assert_eq!(active(Some("client-1")).await, ["endpoint-1", "endpoint-2"]);
    let listed = store::endpoints::list(db.reader(), &client_scope("a", "client-2"))
        .await
        .unwrap();
    assert_eq!(listed, [endpoint("a", Some("client-2"), 3)]);
    assert_eq!(store::endpoints::list(db.reader(), &scope("a")).await.unwrap().len(), 4);
    let foreign = EndpointId("endpoint-4".into());
    assert_eq!(
        store::endpoints::find(db.reader(), &scope("a"), &foreign)
            .await
            .unwrap(),
        None
    );
}

// ---- Owners --------------------------------------------------------------------------------------------------------

async fn keys_and_client_ids_are_found_by_their_credentials(db: &Db) {
    let tenant = store::platforms::Platform {
        id: platform("a"),
        name: "Shop".into(),
        created_at: at(0),
    };
    store::platforms::insert(db.writer(), &tenant).await.unwrap();
    assert_eq!(
        store::platforms::find_by_name(db.reader(), "Shop").await.unwrap(),
        Some(tenant.clone())
    );
    assert_eq!(store::platforms::list(db.reader()).await.unwrap(), [tenant]);
    let key = ApiKey {
        id: ApiKeyId("key-1".into()),
        platform: platform("a"),
        hash: "ab".repeat(32),
        hint: "abcdefgh".into(),
        label: None,
        created_at: at(0),
        revoked_at: None,
        last_used_at: None,
    };
    store::api_keys::insert(db.writer(), &key).await.unwrap();
    store::api_keys::touch(db.writer(), &key.id, at(5)).await.unwrap();
    store::api_keys::touch(db.writer(), &key.id, at(4)).await.unwrap();
    let find = async || {
        store::api_keys::find_active_by_hash(db.reader(), &key.hash, at(6))
            .await
            .unwrap()
    };
    let used = ApiKey {
        last_used_at: Some(at(5)),
        ..key.clone()
    };
    assert_eq!(find().await, Some(used));
    assert!(
        !store::api_keys::revoke(db.writer(), &platform("b"), &key.id, at(6))
            .await
            .unwrap()
    );
    assert!(
        store::api_keys::revoke(db.writer(), &platform("a"), &key.id, at(6))
            .await
            .unwrap()
    );
    assert!(
        !store::api_keys::revoke(db.writer(), &platform("a"), &key.id, at(7))
            .await
            .unwrap()
    );
    assert_eq!(find().await, None);
    let listed = store::api_keys::list(db.reader(), &platform("a")).await.unwrap();
    assert_eq!(listed[0].revoked_at, Some(at(6)));

    let client = |number: i64, status, domains: &[&str]| ClientId {
        row: ClientRowId(format!("client-{number}")),
        platform: platform("a"),
        client_id: format!("cli_{number}"),
        label: "Shop".into(),
        allowed_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        status,
        fee_percentage: Some(Percent::parse("2.5").unwrap()),
        fee_address: Some(wallet(5)),
        payee_destination: None,
        operator_wallet: None,
        default_pre_approval_expiry_s: Some(60),
        default_authorization_expiry_s: None,
        created_at: at(number),
        updated_at: at(number),
        last_used_at: None,
    };
    let shop = client(1, ClientStatus::Active, &["https://b.example", "https://a.example"]);
    let other = client(2, ClientStatus::Active, &["https://a.example"]);
    let gone = client(3, ClientStatus::Revoked, &["https://c.example"]);
    for client in [&shop, &other, &gone] {
        store::client_ids::insert(db.writer(), client).await.unwrap();
    }
    let domains = store::client_ids::list_active_domains(db.reader()).await.unwrap();
    assert_eq!(domains, ["https://a.example", "https://b.example"]);
    let found = store::client_ids::find_by_client_id(db.reader(), "cli_1")
        .await
        .unwrap();
    assert_eq!(found.as_ref(), Some(&shop));
    assert_eq!(
        store::client_ids::find_by_client_id(db.reader(), "cli_9")
            .await
            .unwrap(),
        None
    );
    store::client_ids::touch(db.writer(), &shop.row, at(9)).await.unwrap();
    let listed = store::client_ids::list(db.reader(), &platform("a")).await.unwrap();
    let used = ClientId {
        last_used_at: Some(at(9)),
        ..shop
    };
    assert_eq!(listed, [gone, other, used]);
    assert!(
        store::client_ids::list(db.reader(), &platform("b"))
            .await
            .unwrap()
            .is_empty()
    );
}

async fn idempotency_keys_are_taken_once(db: &Db) {
    let key = |owner: &str| IdempotencyKey {
        owner: (&platform(owner)).into(),
        scope: "key-1 createRequest".into(),
        key: "once".into(),
    };
    let answer = StoredAnswer {
        status: 201,
        response: "{}".into(),
    };
    let conn = db.writer();
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
    assert!(store::idempotency::begin(conn, &key("a"), "hash", at(0)).await.unwrap());
    assert!(!store::idempotency::begin(conn, &key("a"), "hash", at(0)).await.unwrap());
    let used = store::idempotency::find(conn, &key("a")).await.unwrap().unwrap();
    assert_eq!((used.body_hash.as_str(), used.answer), ("hash", None));
    assert!(store::idempotency::complete(conn, &key("a"), &answer).await.unwrap());
    assert!(!store::idempotency::complete(conn, &key("a"), &answer).await.unwrap());
    let used = store::idempotency::find(conn, &key("a")).await.unwrap().unwrap();
    assert_eq!(used.answer.as_ref(), Some(&answer));
    store::idempotency::insert(conn, &key("b"), "hash", &answer, at(10))
        .await
        .unwrap();
    let refused = store::idempotency::insert(conn, &key("b"), "hash", &answer, at(10)).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(store::IDEMPOTENCY_KEY))),
        "{refused:?}"
    );
    assert_eq!(store::idempotency::purge_older_than(conn, at(5)).await.unwrap(), 1);
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
}

// ---- Both together -------------------------------------------------------------------------------------------------

async fn times_are_compared_by_value(db: &Db) {
    // As text, whole seconds and fractions of different lengths are easily put into the wrong order.
    let fractions_us = [0, 1, 100_000, 120_000, 123_456, 999_999, 1_000_000];
    for (number, fraction) in fractions_us.iter().enumerate().rev() {
        let request = Request {
            created_at: at(0) + TimeDelta::microseconds(*fraction),
            ..request("a", u64::try_from(number).unwrap())
        };
        store::requests::insert(db.writer(), &request).await.unwrap();
    }
    let (rows, _) = store::requests::list(db.reader(), &scope("a"), None, 20, 0)
        .await
        .unwrap();
    let stored: Vec<_> = rows
        .iter()
        .rev()
        .map(|row| (row.created_at - at(0)).num_microseconds().unwrap())
        .collect();
    assert_eq!(stored, fractions_us);
}

async fn concurrent_writers_do_not_fail_as_busy(db: &Db) {
    let writers = (0..8).map(|writer| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let tx = db.begin("read then write").await.unwrap();
                store::requests::list(&tx, &scope("a"), None, 1, 0).await.unwrap();
                store::requests::insert(&tx, &request("a", writer * 100 + round))
                    .await
                    .unwrap();
                tx.commit().await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let count = Statement::from_string(db.reader().get_database_backend(), "SELECT count(*) AS n FROM requests");
    let row = db.reader().query_one_raw(count).await.unwrap().unwrap();
    assert_eq!(row.try_get::<i64>("", "n").unwrap(), 80);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let refused = Db::connect("postgres://nobody@127.0.0.1:1/nothing").await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let refused = Db::connect("mysql://localhost/prs").await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    let refused = Db::connect("sqlite::memory:").await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
}

#[tokio::test]
async fn readers_of_sqlite_cannot_write() {
    let test = TestDb::sqlite().await;
    test.db().migrate_up().await.unwrap();
    let refused = store::requests::insert(test.db().reader(), &request("a", 1)).await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    test.remove().await;
}
