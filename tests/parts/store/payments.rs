//! Credited payments and their search.

use super::{
    on_both,
    samples::{at, client_scope, hash, observation, platform, request, scope, wallet},
};
use alloy::primitives::U256;
use prs::{
    domain::{
        address::Address,
        ids::{PaymentId, ScheduleId},
        paying::charge::FeeLeg,
        payment::{Observation, PayerAccess, PaymentKind, ProvenTransfer, ReversalReason, Settled},
        payment_record::Reversal,
        request::{Request, terms::CustomerInfo},
        search::PaymentPosition,
    },
    store::{
        self, Db, Scope,
        payments::{PageStart, PageWindow, PaymentFilter, SettledPayment},
    },
};
use sea_orm::ConnectionTrait;
use std::collections::HashSet;

on_both! {
    a_payment_is_recorded_once
    the_largest_amounts_are_stored_exactly
    a_rolled_back_payment_leaves_nothing
    a_reversed_payment_does_not_count_until_it_is_proven_again
    payments_are_found_by_every_key
    a_wallet_finds_what_it_paid_and_received
    pages_of_a_search_are_stable_and_complete
    payments_of_another_tenant_are_not_found
    totals_are_exact_where_counts_are_stored_and_capped_elsewhere
    the_largest_payments_of_a_schedule_are_read
    a_payment_is_found_by_the_transactions_of_its_own_request
    payments_with_unknown_access_are_listed_in_turns
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
        applied: None,
        is_quoted: false,
        fee_shortfall: None,
        further_fees: Vec::new(),
        orchestrator_fees: Default::default(),
        payer_access: None,
        is_execution: true,
        at: at(i64::try_from(number).unwrap()),
    }
}

async fn record(db: &Db, request: &Request, settled: &Settled) -> bool {
    let payment = SettledPayment {
        id: PaymentId(format!(
            "payment-{}-{}",
            settled.observed.tx_hash, settled.observed.position
        )),
        request,
        settled,
        created_at: at(0),
    };
    let tx = db.begin("record").await.unwrap();
    let written = store::payments::insert_new(&tx, &[payment]).await.unwrap();
    tx.commit().await.unwrap();
    !written.is_empty()
}

/// The page of a list that begins after this number of entries.
fn page(offset: u64, limit: u64) -> PageWindow {
    let begin = PageStart::Row(offset);
    PageWindow { begin, limit }
}

/// Numbers of the payments that a search finds, in the order in which it returns them.
async fn numbers(db: &Db, scope: &Scope, filter: PaymentFilter) -> Vec<u64> {
    let found = store::payments::search(db.reader(), scope, &filter, &page(0, 20))
        .await
        .unwrap();
    found.rows.iter().map(|(payment, _)| payment.block_number).collect()
}

async fn payments_with_unknown_access_are_listed_in_turns(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    for number in 1..=6 {
        let mut unknown = settled(number, 2);
        unknown.payer_access = Some(PayerAccess::Unknown);
        // Two payments each have the same time, as if they were in one block.
        unknown.at = at(i64::try_from(number / 2).unwrap());
        assert!(record(db, &request, &unknown).await);
    }
    let known = store::payments::list_of_request(db.reader(), &request).await.unwrap();
    let reversed = known.iter().find(|payment| payment.block_number == 4).unwrap();
    let reversing = store::payments::reverse(
        db.writer(),
        &reversed.platform,
        &reversed.id,
        ReversalReason::Reorganised,
        at(9),
    )
    .await;
    assert!(reversing.unwrap().is_some());
    let (mut before, mut turns) = (None, Vec::new());
    for _ in 0..4 {
        let listed = store::payments::of_unknown_access(db.reader(), at(0), before.as_ref(), 2).await;
        let (payments, next) = listed.unwrap();
        turns.push(payments.iter().map(|payment| payment.block_number).collect::<Vec<_>>());
        before = next;
    }
    assert_eq!(turns, [vec![6, 5], vec![3, 2], vec![1], vec![6, 5]]);
}

async fn a_payment_is_recorded_once(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let first = settled(1, 2);
    assert!(record(db, &request, &first).await);
    // A payment that is included in another block is still the same payment.
    let mut again = first.clone();
    again.observed.log_index = 99;
    again.observed.block_number = 55;
    let payment = SettledPayment {
        id: PaymentId("another id".into()),
        request: &request,
        settled: &again,
        created_at: at(9),
    };
    assert!(
        store::payments::insert_new(db.writer(), &[payment])
            .await
            .unwrap()
            .is_empty()
    );
    let mut sibling = first.clone();
    sibling.observed.position = 1;
    assert!(record(db, &request, &sibling).await);
    let payments = store::payments::list_of_request(db.reader(), &request).await.unwrap();
    assert_eq!(payments.len(), 2);
    assert_eq!((payments[0].log_index, payments[0].block_number), (7, 1));
    assert_eq!(payments[0].payer, Some(wallet(2)));
    let mut next = first.clone();
    next.observed.position = 2;
    let named = |id: &str, settled| SettledPayment {
        id: PaymentId(id.into()),
        request: &request,
        settled,
        created_at: at(9),
    };
    let batch = [named("known", &first), named("new", &next), named("twice", &next)];
    let written = store::payments::insert_new(db.writer(), &batch).await.unwrap();
    assert_eq!(written, [PaymentId("new".into())].into());
    let filter = PaymentFilter {
        wallet: Some(wallet(2)),
        ..Default::default()
    };
    assert_eq!(numbers(db, &scope("a"), filter).await, [1, 1, 1]);
}

async fn the_largest_amounts_are_stored_exactly(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let mut largest = settled(1, 2);
    largest.observed.units = U256::MAX;
    largest.observed.fee_units = U256::MAX;
    largest.observed.fee_address = Some(wallet(5));
    largest.proven.received_units = U256::MAX;
    largest.credited = U256::MAX;
    let further = [6, 7].map(|receiver| FeeLeg {
        receiver: wallet(receiver),
        units: U256::MAX,
    });
    largest.further_fees = further.to_vec();
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
    assert_eq!(stored[0].further_fees, further);
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
    assert_eq!(store::payments::insert_new(&tx, &[payment]).await.unwrap().len(), 1);
    drop(tx);
    assert!(
        store::payments::list_of_request(db.reader(), &request)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(record(db, &request, &settled(1, 2)).await);
}

async fn a_reversed_payment_does_not_count_until_it_is_proven_again(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    let (first, second) = (settled(1, 2), settled(2, 2));
    assert!(record(db, &request, &first).await);
    assert!(record(db, &request, &second).await);
    let counted = async || store::payments::list_of_request(db.reader(), &request).await.unwrap();
    let id = counted().await[0].id.clone();
    let reverse = async |now| {
        let reversed = store::payments::reverse(
            db.writer(),
            &request.origin.platform,
            &id,
            ReversalReason::Reorganised,
            at(now),
        )
        .await;
        reversed.unwrap()
    };
    let again = SettledPayment {
        id: PaymentId("another id".into()),
        request: &request,
        settled: &Settled {
            observed: Observation {
                block_number: 9,
                log_index: 4,
                ..first.observed.clone()
            },
            proven: ProvenTransfer {
                payer: Some(wallet(4)),
                ..first.proven.clone()
            },
            at: at(50),
            ..first.clone()
        },
        created_at: at(60),
    };
    let reinstate = async || {
        let tx = db.begin("reinstate").await.unwrap();
        let reinstated = store::payments::reinstate(&tx, &again).await.unwrap();
        tx.commit().await.unwrap();
        reinstated
    };
    assert_eq!(reinstate().await, None, "it counts");
    let reversed = reverse(30).await.unwrap();
    assert_eq!((&reversed.id, reversed.is_told), (&id, false));
    assert_eq!(reverse(31).await, None, "it is already reversed");
    assert_eq!(counted().await.len(), 1);
    let of_wallet = |number| PaymentFilter {
        wallet: Some(wallet(number)),
        ..Default::default()
    };
    let found = store::payments::search(db.reader(), &scope("a"), &of_wallet(2), &page(0, 20))
        .await
        .unwrap();
    let marks: Vec<_> = found.rows.iter().map(|(payment, _)| payment.reversal).collect();
    let mark = Reversal {
        at: at(30),
        reason: ReversalReason::Reorganised,
    };
    assert_eq!(marks, [None, Some(mark)], "newest first, and the reversal is shown");
    let repeated = store::payments::insert_new(db.writer(), std::slice::from_ref(&again)).await;
    assert!(repeated.unwrap().is_empty());
    store::payments::set_told(db.writer(), &[(request.origin.platform.clone(), id.clone())], true)
        .await
        .unwrap();
    let reinstated = reinstate().await.unwrap();
    assert_eq!(
        (&reinstated.id, reinstated.is_told),
        (&id, true),
        "it keeps the reported data"
    );
    assert_eq!(reinstate().await, None, "it counts again");
    let counted = counted().await;
    assert_eq!(counted.len(), 2);
    let back = counted.iter().find(|payment| payment.id == id).unwrap();
    assert_eq!((back.block_number, back.log_index, back.paid_at), (9, 4, at(50)));
    assert_eq!(
        (back.payer, back.reversal, back.created_at),
        (Some(wallet(4)), None, at(0))
    );
    assert_eq!(numbers(db, &scope("a"), of_wallet(4)).await, [9]);
    assert!(reverse(70).await.unwrap().is_told);
    store::payments::set_told(db.writer(), &[(request.origin.platform.clone(), id.clone())], false)
        .await
        .unwrap();
    assert!(!reinstate().await.unwrap().is_told);
}

async fn payments_are_found_by_every_key(db: &Db) {
    let mut requests = Vec::new();
    for number in 1..=3 {
        let mut request = request("a", number);
        if number == 3 {
            request.terms.kind = PaymentKind::Conversion;
            request.terms.invoice_currency = "USD".into();
        }
        request.terms.customer = Some(CustomerInfo {
            first_name: Some(format!("Customer {number}")),
            ..CustomerInfo::default()
        });
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
            wallet: Some(wallet(2)),
            from: Some(at(3)),
            ..Default::default()
        },
        PaymentFilter {
            wallet: Some(wallet(2)),
            tx_hash: Some(hash(3)),
            ..Default::default()
        },
    ];
    for filter in filters {
        let text = format!("{filter:?}");
        assert_eq!(numbers(db, &scope("a"), filter).await, [3], "{text}");
    }
    let none = PaymentFilter {
        tx_hash: Some(hash(3)),
        kind: Some(PaymentKind::Direct),
        ..Default::default()
    };
    assert!(numbers(db, &scope("a"), none).await.is_empty());
    let of_nobody = PaymentFilter {
        tx_hash: Some(hash(3)),
        wallet: Some(wallet(77)),
        ..Default::default()
    };
    assert!(numbers(db, &scope("a"), of_nobody).await.is_empty());
    let payment_currencies = Some(vec!["FAU-sepolia".into()]);
    let all = PaymentFilter {
        payment_currencies,
        to: Some(at(3)),
        ..Default::default()
    };
    let found = store::payments::search(db.reader(), &scope("a"), &all, &page(0, 20))
        .await
        .unwrap();
    let (payment, summary) = &found.rows[0];
    assert_eq!(payment.request_id, requests[2].id.0);
    assert_eq!(summary.customer, requests[2].terms.customer);
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
        let filter = PaymentFilter {
            wallet: Some(wallet),
            ..Default::default()
        };
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
        // All are in one block, so that only the id distinguishes them.
        settled.at = at(0);
        assert!(record(db, &request, &settled).await);
    }
    for wallet in [None, Some(wallet(2))] {
        let filter = PaymentFilter {
            wallet,
            ..Default::default()
        };
        let search = async |window: PageWindow| {
            let found = store::payments::search(db.reader(), &scope("a"), &filter, &window).await;
            found.unwrap()
        };
        let mut seen = Vec::new();
        for offset in [0, 10, 20] {
            let found = search(page(offset, 10)).await;
            assert_eq!((found.total, found.has_more), (25, offset < 20));
            seen.extend(found.rows.into_iter().map(|(payment, _)| payment.id));
        }
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 25);
        let beyond = search(page(30, 10)).await;
        assert_eq!((beyond.rows.len(), beyond.total, beyond.has_more), (0, 25, false));

        let (mut walked, mut begin, mut has_more) = (Vec::new(), PageStart::Row(0), true);
        while has_more {
            let found = search(PageWindow { begin, limit: 10 }).await;
            assert_eq!(
                found.total, 25,
                "the total counts the whole search, not the remaining rows"
            );
            walked.extend(found.rows.into_iter().map(|(payment, _)| payment.id));
            let id = walked.last().unwrap().clone();
            begin = PageStart::After(PaymentPosition { paid_at: at(0), id });
            has_more = found.has_more;
        }
        assert_eq!(walked, seen, "paging by cursor is the same as by offset");
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
            wallet: Some(wallet(2)),
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
            assert!(numbers(db, &stranger, filter.clone()).await.is_empty());
        }
        assert_eq!(numbers(db, &client_scope("a", "client-1"), filter.clone()).await, [1]);
    }
}

async fn totals_are_exact_where_counts_are_stored_and_capped_elsewhere(db: &Db) {
    let request = request("a", 1);
    store::requests::insert(db.writer(), &request).await.unwrap();
    for number in 1..=2 {
        assert!(record(db, &request, &settled(number, 2)).await);
    }
    let series = if db.is_postgres() {
        "SELECT value FROM generate_series(1, 10050) AS value"
    } else {
        "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 10050) SELECT value FROM n"
    };
    let like = "SELECT platform_id, wallet, paid_at, is_payee, group_key FROM payment_parties \
                WHERE is_payee AND group_key IN (SELECT group_key FROM payments) LIMIT 1";
    let parties = format!(
        "INSERT INTO payment_parties (platform_id, wallet, paid_at, payment_id, is_payee, group_key) \
         SELECT platform_id, wallet, paid_at, 'p' || value, is_payee, group_key \
         FROM ({like}) AS one, ({series}) AS numbers"
    );
    db.writer().execute_unprepared(&parties).await.unwrap();
    for counts in ["payment_groups", "payment_wallets"] {
        let more = format!("UPDATE {counts} SET payments = payments + 10050");
        db.writer().execute_unprepared(&more).await.unwrap();
    }
    let of_wallet = PaymentFilter {
        wallet: Some(wallet(1)),
        ..Default::default()
    };
    let of_kind = PaymentFilter {
        kind: Some(PaymentKind::Direct),
        ..Default::default()
    };
    let of_both = PaymentFilter {
        kind: Some(PaymentKind::Direct),
        ..of_wallet.clone()
    };
    let dated = PaymentFilter {
        from: Some(at(0)),
        ..of_wallet.clone()
    };
    for (filter, total) in [
        (of_wallet, 10_052),
        (of_kind, 10_052),
        (of_both, 10_052),
        (dated, store::TOTAL_MAX),
    ] {
        let found = store::payments::search(db.reader(), &scope("a"), &filter, &page(0, 1)).await;
        let found = found.unwrap();
        assert_eq!((found.total, found.has_more), (total, true), "{filter:?}");
    }
}

async fn the_largest_payments_of_a_schedule_are_read(db: &Db) {
    let id = ScheduleId("schedule-1".into());
    let mut request = request("a", 1);
    request.terms.schedule = Some(id.clone());
    store::requests::insert(db.writer(), &request).await.unwrap();
    for (number, credited) in [(1, 9), (2, 1), (3, 100), (4, 1), (5, 20)] {
        let settled = Settled {
            credited: U256::from(credited),
            ..settled(number, 2)
        };
        assert!(record(db, &request, &settled).await);
    }
    let blocks = async |owner: &str, limit| {
        let found = store::payments::largest_of_schedule(db.reader(), &platform(owner), &id, limit).await;
        let found = found.unwrap().into_iter();
        found.map(|payment| payment.block_number).collect::<Vec<_>>()
    };
    assert_eq!(blocks("a", 3).await, [1, 3, 5]);
    assert_eq!(blocks("a", 100).await, [1, 2, 3, 4, 5]);
    assert_eq!(blocks("b", 100).await, [0; 0]);
}

async fn a_payment_is_found_by_the_transactions_of_its_own_request(db: &Db) {
    let (one, other) = (request("a", 1), request("a", 2));
    for request in [&one, &other] {
        store::requests::insert(db.writer(), request).await.unwrap();
    }
    for (number, request) in [(1, &one), (2, &one), (3, &other)] {
        assert!(record(db, request, &settled(number, 2)).await);
    }
    let found = async |numbers: &[u64]| {
        let hashes: Vec<_> = numbers
            .iter()
            .map(|number| settled(*number, 2).observed.tx_hash)
            .collect();
        let found = store::payments::find_in_transactions(db.reader(), &one, &hashes).await;
        found.unwrap().map(|payment| payment.block_number)
    };
    assert_eq!(found(&[2, 9]).await, Some(2));
    assert_eq!(found(&[3]).await, None, "it paid another request");
    assert_eq!(found(&[]).await, None);
}
