//! Rows that the tests write, and shared helpers for deliveries.

use alloy::primitives::{Address as EvmAddress, B256, U256};
use chrono::{DateTime, Utc};
use prs::{
    domain::{
        address::Address,
        amount::Amount,
        ids::{ClientRowId, DeliveryId, EndpointId, EventId, OwnerId, PlatformId, RequestId, RequestRowId},
        ledger::Ledger,
        network::Network,
        payment::{Observation, PaymentKind},
        reference::PaymentReference,
        request::{Origin, Request, price::PriceTerms, terms::Terms},
        webhook::{ClaimRequest, ClaimedDelivery, TryOutcome},
    },
    store::{
        self, Db, Holder, Scope,
        delivery_log::DeliveryRecord,
        endpoints::Endpoint,
        outbox::{FinishedTry, NewDelivery, NewEvent},
    },
};
use std::collections::HashSet;

pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

pub fn wallet(number: u8) -> Address {
    Address::Evm(EvmAddress::repeat_byte(number))
}

pub fn hash(number: u64) -> B256 {
    B256::from(U256::from(number))
}

pub fn platform(name: &str) -> PlatformId {
    PlatformId(format!("platform-{name}"))
}

pub fn scope(name: &str) -> Scope {
    Scope {
        platform: platform(name),
        client: None,
    }
}

pub fn client_scope(name: &str, client: &str) -> Scope {
    Scope {
        client: Some(ClientRowId(client.to_owned())),
        ..scope(name)
    }
}

pub fn holder(name: &str) -> Holder {
    Holder {
        owner: (&platform(name)).into(),
        client: None,
        is_public: false,
    }
}

pub fn request(owner: &str, number: u64) -> Request {
    Request {
        row: RequestRowId(format!("request-{owner}-{number:06}")),
        id: RequestId(format!("01{owner}{number}")),
        salt: "0011223344556677".into(),
        reference: PaymentReference((number ^ u64::from(owner.as_bytes()[0]) << 32).to_be_bytes()),
        origin: Origin {
            platform: platform(owner),
            client: Some(ClientRowId("client-1".into())),
            client_id: Some("cli_one".into()),
            page: Some("https://shop.example.com".into()),
            orchestrator: None,
        },
        terms: terms(number),
        ledger: Ledger::new(U256::from(1_000)),
        created_at: at(i64::try_from(number).unwrap()),
        is_hidden: false,
        link_until: None,
        is_by_public_client: false,
    }
}

pub fn terms(number: u64) -> Terms {
    Terms {
        kind: PaymentKind::Direct,
        network: Network::Sepolia,
        payee: Some(wallet(1)),
        payer: Some(wallet(2)),
        amount: Amount::parse("10.5").unwrap(),
        invoice_currency: "FAU-sepolia".into(),
        payment_currency: "FAU-sepolia".into(),
        token: Some(wallet(3)),
        merchant_reference: Some(format!("order {number}")),
        customer: None,
        recurrence: None,
        original_request_id: None,
        original_request_reference: None,
        is_crypto_to_fiat: false,
        schedule: None,
        is_quoted: false,
        price: PriceTerms::default(),
    }
}

pub fn endpoint(owner: &str, client: Option<&str>, number: u32) -> Endpoint {
    Endpoint {
        is_approved: true,
        id: EndpointId(format!("endpoint-{number}")),
        owner: (&platform(owner)).into(),
        client: client.map(|client| ClientRowId(client.to_owned())),
        url: format!("https://example.com/{number}"),
        secret_sealed: format!("sealed {number}"),
        former_secrets: Vec::new(),
        is_active: true,
        created_at: at(0),
        header_prefix: None,
        failing_since: None,
    }
}

pub fn observation(number: u64) -> Observation {
    Observation {
        network: Network::Sepolia,
        tx_hash: hash(number),
        position: 0,
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

pub async fn cancel(db: &Db, owner: &str, endpoint: &EndpointId, now: i64) -> u64 {
    let owner = OwnerId::from(&platform(owner));
    let tx = db.begin("cancel").await.unwrap();
    let cancelled = store::outbox::cancel_some_of_endpoint(&tx, &owner, endpoint, at(now), 2)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    cancelled
}

/// Writes an event with a delivery to each endpoint, all of them due at `at(0)`.
pub async fn publish(db: &Db, event: u32, endpoints: &[&Endpoint]) -> EventId {
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
        payer: None,
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
            is_replay: false,
            now: at(0),
        })
        .collect();
    store::outbox::insert_deliveries(&tx, &deliveries).await.unwrap();
    tx.commit().await.unwrap();
    id
}

pub async fn with_endpoint(db: &Db, number: u32) -> Endpoint {
    let endpoint = endpoint("a", None, number);
    store::endpoints::insert(db.writer(), &endpoint).await.unwrap();
    endpoint
}

pub fn outcome(status: u16, ended: i64) -> TryOutcome {
    TryOutcome {
        status: Some(status),
        error: None,
        response: Some("answer".into()),
        started_at: at(ended),
        ended_at: at(ended),
    }
}

pub async fn finish(db: &Db, tries: &[FinishedTry]) -> HashSet<DeliveryId> {
    let tx = db.begin("finish").await.unwrap();
    let recorded = store::outbox::finish_batch(&tx, tries).await.unwrap();
    tx.commit().await.unwrap();
    recorded
}

pub fn wanted(now: i64, token: &str) -> ClaimRequest {
    ClaimRequest {
        now: at(now),
        lease_token: token.to_owned(),
        limit: 50,
        share: 50,
        busy: Vec::new(),
        served: Vec::new(),
    }
}

pub async fn claim(db: &Db, now: i64, token: &str) -> Vec<ClaimedDelivery> {
    store::outbox::claim(db.writer(), &wanted(now, token)).await.unwrap()
}

/// The deliveries of an event of platform a with their attempts, in the order of their ids.
pub async fn deliveries(db: &Db, event: &EventId) -> Vec<DeliveryRecord> {
    let all = store::delivery_log::deliveries_of(db.reader(), &platform("a"), std::slice::from_ref(event)).await;
    let mut records = Vec::new();
    for one in all.unwrap() {
        let found = store::delivery_log::find_delivery(db.reader(), &platform("a"), None, &one.delivery.id).await;
        records.push(found.unwrap().unwrap().delivery);
    }
    records
}
