//! Payment requests.

use super::{
    on_both,
    samples::{at, client_scope, platform, request, scope, terms, wallet},
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use chrono::TimeDelta;
use prs::{
    domain::{
        address::Address,
        amount::Percent,
        conversion::RateBounds,
        ids::ScheduleId,
        ledger::{Credit, Ledger, PaymentEnding, RequestStatus},
        network::Network,
        paying::charge::{Charge, FeeOrigin},
        reference::PaymentReference,
        request::{
            Origin, Request,
            price::PriceTerms,
            terms::{CustomerAddress, CustomerInfo, Frequency, Recurrence, Terms},
        },
    },
    store::{self, Db, StoreError},
};
use sea_orm::ConnectionTrait;
use std::collections::HashSet;

on_both! {
    a_request_is_stored_with_every_field
    a_request_without_optional_fields_is_stored
    a_taken_reference_is_a_named_conflict
    another_tenant_and_another_client_see_nothing
    requests_are_listed_newest_first_with_a_total
    a_request_advances_only_from_the_expected_state
    requests_advance_together_or_not_at_all
    listening_survives_partial_payments_and_ends_when_paid
    a_row_that_does_not_parse_is_an_error
    times_are_compared_by_value
}

fn charges() -> [Charge; 2] {
    let rate = |points| Percent::from_basis_points(points).unwrap();
    [
        Charge::platform(FeeOrigin::ClientId, rate(250), wallet(7)),
        Charge::protocol(rate(50), wallet(7), Some(U256::MAX)),
    ]
}

async fn a_request_is_stored_with_every_field(db: &Db) {
    let full = Request {
        terms: Terms {
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
                start_date: "2030-01-01".parse().unwrap(),
                frequency: Frequency::Monthly,
                is_stopped: true,
            }),
            original_request_id: Some("01ff".into()),
            original_request_reference: Some("0x00".into()),
            is_crypto_to_fiat: true,
            schedule: Some(ScheduleId("01SCHEDULE".into())),
            is_quoted: true,
            price: PriceTerms {
                rates: Some(RateBounds {
                    path: [1, 2, 3].map(EvmAddress::with_last_byte).to_vec(),
                    max_age_s: 90_000,
                }),
                charges: charges().into_iter().collect(),
            },
            ..terms(1)
        },
        ledger: Ledger {
            expected: U256::MAX,
            tolerated: U256::from(9),
            orchestrator_fees: Default::default(),
            credited: U256::MAX - U256::from(1),
            payment_count: 3,
            status: RequestStatus::PartiallyPaid,
            tx_hash: Some(B256::repeat_byte(0xab)),
            is_listening: true,
            is_told_paid: true,
            reversals: 7,
            ending: PaymentEnding::BankOrdered,
        },
        created_at: at(1) + TimeDelta::microseconds(123_456),
        ..request("a", 1)
    };
    store::requests::insert(db.writer(), &full).await.unwrap();
    let found = store::requests::find(db.reader(), &scope("a"), full.id.as_str())
        .await
        .unwrap();
    assert_eq!(found.as_ref(), Some(&full));
    // More values than the number of parameters that a statement may have.
    let mut topics: HashSet<B256> = (0..70_000_u64).map(|number| B256::from(U256::from(number))).collect();
    let network = full.terms.network;
    let by_topics = async |network: Network, topics: &HashSet<B256>| {
        let (found, _) = store::requests::by_topics(db.reader(), network, topics).await.unwrap();
        let known = store::requests::known_topics(db.reader(), network, topics)
            .await
            .unwrap();
        let of_found: HashSet<B256> = found.iter().map(|found| found.reference.topic()).collect();
        assert_eq!(known, of_found);
        found
    };
    assert_eq!(by_topics(network, &HashSet::new()).await, []);
    assert_eq!(by_topics(network, &topics).await, []);
    topics.insert(full.reference.topic());
    assert_eq!(by_topics(network, &topics).await, std::slice::from_ref(&full));
    assert_eq!(by_topics(Network::Base, &topics).await, []);
}

async fn a_request_without_optional_fields_is_stored(db: &Db) {
    let tron = Address::parse("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").unwrap();
    let bare = Request {
        origin: Origin {
            platform: platform("a"),
            client: None,
            client_id: None,
            page: None,
            orchestrator: None,
        },
        terms: Terms {
            network: Network::Tron,
            payee: Some(tron),
            payer: None,
            token: None,
            merchant_reference: None,
            ..terms(1)
        },
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
    let mut mine = request("a", 1);
    mine.terms.recurrence = Some(Recurrence {
        start_date: "2030-01-01".parse().unwrap(),
        frequency: Frequency::Daily,
        is_stopped: false,
    });
    store::requests::insert(db.writer(), &mine).await.unwrap();
    let id = mine.id.as_str();
    for stranger in [scope("b"), client_scope("a", "client-2"), client_scope("b", "client-1")] {
        assert_eq!(store::requests::find(db.reader(), &stranger, id).await.unwrap(), None);
        let (listed, total) =
            store::requests::list(db.reader(), &stranger, store::requests::RequestFilter::All, None, 20, 0)
                .await
                .unwrap();
        assert_eq!((listed.len(), total), (0, 0));
    }
    for owner in [scope("a"), client_scope("a", "client-1")] {
        assert!(store::requests::find(db.reader(), &owner, id).await.unwrap().is_some());
    }
    let foreign = Request {
        origin: request("b", 1).origin,
        ..mine.clone()
    };
    for (wanted, is_stopped) in [(&foreign, false), (&mine, true)] {
        store::repeats::set_stopped(db.writer(), wanted, true, None)
            .await
            .unwrap();
        let found = store::requests::find(db.reader(), &scope("a"), id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.terms.is_recurrence_stopped(), is_stopped);
    }
    let found = store::requests::find(db.reader(), &scope("a"), id)
        .await
        .unwrap()
        .unwrap();
    assert!(found.terms.is_recurrence_stopped());
}

async fn requests_are_listed_newest_first_with_a_total(db: &Db) {
    for number in 0..5 {
        let mut request = request("a", number);
        request.terms.payee = Some(if number == 3 { wallet(8) } else { wallet(1) });
        store::requests::insert(db.writer(), &request).await.unwrap();
    }
    let list = async |payee: Option<String>, limit, offset| {
        let (rows, total) = store::requests::list(
            db.reader(),
            &scope("a"),
            store::requests::RequestFilter::All,
            payee.as_deref(),
            limit,
            offset,
        )
        .await
        .unwrap();
        let orders: Vec<_> = rows
            .iter()
            .filter_map(|row| row.terms.merchant_reference.clone())
            .collect();
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

/// A payment of this number of units that no event has reported yet.
fn credit(units: u64, number: u8) -> Credit {
    Credit {
        units: U256::from(units),
        tx_hash: B256::repeat_byte(number),
        is_told: false,
        is_quoted: false,
        orchestrator_fees: Default::default(),
    }
}

async fn a_request_advances_only_from_the_expected_state(db: &Db) {
    let before = request("a", 1);
    store::requests::insert(db.writer(), &before).await.unwrap();
    let (partly, _) = before.ledger.settle(credit(400, 1));
    let (rival, _) = before.ledger.settle(credit(500, 2));
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
    let partly = Request {
        ledger: partly,
        ..before.clone()
    };
    let (paid, _) = partly.ledger.settle(credit(600, 3));
    assert!(
        store::requests::advance(db.writer(), &partly, &paid, at(6))
            .await
            .unwrap()
    );
    let stored = store::requests::find(db.reader(), &scope("a"), before.id.as_str())
        .await
        .unwrap();
    assert_eq!(stored.map(|stored| stored.ledger), Some(paid));
}

async fn listening_survives_partial_payments_and_ends_when_paid(db: &Db) {
    let before = request("a", 1);
    store::requests::insert(db.writer(), &before).await.unwrap();
    store::requests::set_listening(db.writer(), &[&before]).await.unwrap();
    let load = async || {
        store::requests::find(db.reader(), &scope("a"), before.id.as_str())
            .await
            .unwrap()
            .unwrap()
    };
    let (partly, _) = before.ledger.settle(credit(1, 1));
    assert!(
        store::requests::advance(db.writer(), &before, &partly, at(5))
            .await
            .unwrap()
    );
    assert!(load().await.ledger.is_listening);
    let partly = Request {
        ledger: partly,
        ..before.clone()
    };
    let (paid, _) = partly.ledger.settle(credit(999, 2));
    assert!(
        store::requests::advance(db.writer(), &partly, &paid, at(5))
            .await
            .unwrap()
    );
    assert!(!load().await.ledger.is_listening);
    store::requests::set_listening(db.writer(), &[&before]).await.unwrap();
    assert!(!load().await.ledger.is_listening);
}

async fn requests_advance_together_or_not_at_all(db: &Db) {
    let requests = [request("a", 1), request("a", 2), request("a", 3)];
    for request in &requests {
        store::requests::insert(db.writer(), request).await.unwrap();
    }
    store::requests::set_listening(db.writer(), &[&requests[0]])
        .await
        .unwrap();
    let units = [400, 1_000, 0];
    let after = [0, 1, 2].map(|row: usize| requests[row].ledger.settle(credit(units[row], 7)).0);
    let advance = async |rows: &[usize]| {
        let changes: Vec<_> = rows.iter().map(|row| (&requests[*row], &after[*row])).collect();
        let tx = db.begin("test").await.unwrap();
        let is_written = store::requests::advance_all(&tx, &changes, at(5)).await.unwrap();
        if is_written {
            tx.commit().await.unwrap();
        }
        is_written
    };
    let stored = async |row: usize| {
        let found = store::requests::find(db.reader(), &scope("a"), requests[row].id.as_str()).await;
        found.unwrap().unwrap().ledger
    };
    assert!(advance(&[]).await);
    assert!(advance(&[0, 1]).await);
    let is_listening = true;
    assert_eq!(
        stored(0).await,
        Ledger {
            is_listening,
            ..after[0].clone()
        }
    );
    assert_eq!(stored(1).await, after[1]);
    assert!(!advance(&[2, 1]).await, "the second one has changed");
    assert_eq!(stored(2).await, requests[2].ledger);
    assert!(advance(&[2]).await);
    assert_eq!(stored(2).await, after[2]);
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

async fn times_are_compared_by_value(db: &Db) {
    // Compared as text, whole seconds and fractions of different lengths sort in the wrong order.
    let fractions_us = [0, 1, 100_000, 120_000, 123_456, 999_999, 1_000_000];
    for (number, fraction) in fractions_us.iter().enumerate().rev() {
        let request = Request {
            created_at: at(0) + TimeDelta::microseconds(*fraction),
            ..request("a", u64::try_from(number).unwrap())
        };
        store::requests::insert(db.writer(), &request).await.unwrap();
    }
    let (rows, _) = store::requests::list(
        db.reader(),
        &scope("a"),
        store::requests::RequestFilter::All,
        None,
        20,
        0,
    )
    .await
    .unwrap();
    let stored: Vec<_> = rows
        .iter()
        .rev()
        .map(|row| (row.created_at - at(0)).num_microseconds().unwrap())
        .collect();
    assert_eq!(stored, fractions_us);
}
