//! Unexpected payments are quarantined, counted, decided and settled.

use super::{
    on_both,
    samples::{at, hash, request},
};
use alloy::primitives::U256;
use prs::{
    domain::{
        amount::Percent,
        block_range::BlockRange,
        ids::QuarantineId,
        network::Network,
        oddity::{AmountAtStake, ConcernedRequest, OddReason, Oddity, QuarantineState},
        request::Request,
    },
    store::{
        self, Db,
        quarantine::{QuarantineEntry, QuarantineFilter},
    },
};
use std::collections::BTreeMap;

on_both! {
    a_repeated_finding_has_one_row_with_a_counter
    rereading_a_block_settles_undecided_rows
    decided_rows_stay_decided
    a_verdict_on_an_old_state_changes_nothing
    only_the_owner_of_a_request_sees_its_quarantined_payments
    settled_rows_are_deleted_and_decisions_are_not
    dust_neither_hides_a_payment_nor_awaits_a_decision
    matching_rows_are_found_and_rejected_at_once
}

fn odd(block_number: u64, position: Option<u32>, reason: OddReason) -> Oddity {
    Oddity {
        network: Network::Sepolia,
        block_number,
        tx_hash: position.map(|_| hash(block_number)),
        position,
        reason,
        detail: "node 1 said so".into(),
        concerned: None,
    }
}

fn of(request: &Request, odd: Oddity) -> Oddity {
    let concerned = ConcernedRequest {
        platform: request.origin.platform.clone(),
        request: request.row.clone(),
        stake: None,
    };
    Oddity {
        concerned: Some(concerned),
        ..odd
    }
}

async fn put(db: &Db, odd: &Oddity, id: &str, now: i64) {
    store::quarantine::put(db.writer(), odd, QuarantineId(id.into()), at(now))
        .await
        .unwrap();
}

async fn all(db: &Db) -> Vec<QuarantineEntry> {
    store::quarantine::list(db.reader(), &QuarantineFilter::default(), None, 100)
        .await
        .unwrap()
}

async fn get(db: &Db, id: &str) -> QuarantineEntry {
    let id = QuarantineId(id.into());
    store::quarantine::get(db.reader(), &id).await.unwrap().unwrap()
}

async fn decide(db: &Db, id: &str, state: QuarantineState, now: i64) {
    let before = get(db, id).await;
    let changed = store::quarantine::set_state(db.writer(), &before, state, Some("looked at"), at(now)).await;
    assert!(changed.unwrap());
}

async fn a_repeated_finding_has_one_row_with_a_counter(db: &Db) {
    let event = odd(7, Some(3), OddReason::Unreadable);
    let block = odd(7, None, OddReason::Unprovable);
    put(db, &event, "a", 1).await;
    put(db, &block, "b", 1).await;
    put(db, &event, "c", 5).await;
    put(db, &block, "d", 6).await;
    put(db, &odd(7, Some(4), OddReason::Unreadable), "e", 6).await;
    put(db, &odd(7, Some(3), OddReason::NothingMoved), "f", 6).await;
    let rows = all(db).await;
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["f", "e", "b", "a"]);
    let again = get(db, "a").await;
    assert_eq!(again.oddity, event);
    assert_eq!((again.attempts, again.first_seen, again.last_seen), (2, at(1), at(5)));
    assert_eq!((get(db, "b").await.attempts, get(db, "e").await.attempts), (2, 1));
    let waiting = store::quarantine::count_open(db.reader()).await.unwrap();
    assert_eq!(waiting, BTreeMap::from([(Network::Sepolia, 4)]));
    let on_base = QuarantineFilter {
        network: Some(Network::Base),
        ..QuarantineFilter::default()
    };
    let elsewhere = store::quarantine::list(db.reader(), &on_base, None, 100).await;
    assert!(elsewhere.unwrap().is_empty());
}

async fn rereading_a_block_settles_undecided_rows(db: &Db) {
    for (number, id) in [(6, "a"), (7, "b"), (8, "c"), (9, "d")] {
        put(db, &odd(number, None, OddReason::Unprovable), id, 1).await;
    }
    let settle = store::quarantine::settle_blocks(
        db.writer(),
        Network::Sepolia,
        BlockRange { from: 7, to: 9 },
        &[8],
        at(2),
    );
    assert_eq!(settle.await.unwrap(), 2);
    let elsewhere =
        store::quarantine::settle_blocks(db.writer(), Network::Base, BlockRange { from: 0, to: 100 }, &[], at(2));
    assert_eq!(elsewhere.await.unwrap(), 0);
    let states: Vec<QuarantineState> = all(db).await.iter().map(|row| row.state).collect();
    use QuarantineState::{Open, Settled};
    assert_eq!(states, [Settled, Open, Settled, Open]);
    assert_eq!(get(db, "b").await.settled_at, Some(at(2)));
    // A block with a new finding waits again.
    put(db, &odd(7, None, OddReason::Unprovable), "e", 3).await;
    let again = get(db, "b").await;
    assert_eq!((again.state, again.settled_at, again.attempts), (Open, None, 2));
}

async fn decided_rows_stay_decided(db: &Db) {
    let event = |number| odd(number, Some(2), OddReason::PathNotHandedOut);
    for (number, id) in [(1, "a"), (2, "b"), (3, "c")] {
        put(db, &event(number), id, 1).await;
    }
    decide(db, "a", QuarantineState::Accepted, 2).await;
    decide(db, "b", QuarantineState::Rejected, 2).await;
    decide(db, "c", QuarantineState::Retrying, 2).await;
    for number in 1..=3 {
        put(db, &event(number), "again", 3).await;
    }
    let states = [get(db, "a").await, get(db, "b").await, get(db, "c").await].map(|row| (row.state, row.settled_at));
    assert_eq!(
        states,
        [
            (QuarantineState::Accepted, Some(at(2))),
            (QuarantineState::Rejected, Some(at(2))),
            (QuarantineState::Open, None),
        ]
    );
    assert_eq!(get(db, "a").await.note.as_deref(), Some("looked at"));
    let settled =
        store::quarantine::settle_blocks(db.writer(), Network::Sepolia, BlockRange { from: 1, to: 3 }, &[], at(4));
    assert_eq!(settled.await.unwrap(), 1);
    let places = store::quarantine::accepted(db.reader(), Network::Sepolia, &[hash(1), hash(2), hash(3)]).await;
    assert_eq!(places.unwrap().into_iter().collect::<Vec<_>>(), [(hash(1), 2)]);
    let elsewhere = store::quarantine::accepted(db.reader(), Network::Base, &[hash(1)]).await;
    assert!(elsewhere.unwrap().is_empty());
    assert!(store::quarantine::count_open(db.reader()).await.unwrap().is_empty());
}

async fn a_verdict_on_an_old_state_changes_nothing(db: &Db) {
    put(db, &odd(1, Some(2), OddReason::PathNotHandedOut), "a", 1).await;
    let old = get(db, "a").await;
    decide(db, "a", QuarantineState::Accepted, 2).await;
    let late = store::quarantine::set_state(db.writer(), &old, QuarantineState::Rejected, None, at(3)).await;
    assert!(!late.unwrap());
    assert_eq!(get(db, "a").await.state, QuarantineState::Accepted);
}

async fn only_the_owner_of_a_request_sees_its_quarantined_payments(db: &Db) {
    let (mine, theirs) = (request("a", 1), request("b", 1));
    put(db, &of(&mine, odd(1, Some(0), OddReason::NothingMoved)), "a", 1).await;
    put(db, &of(&mine, odd(2, Some(0), OddReason::RateAgeNotHandedOut)), "b", 1).await;
    put(db, &of(&mine, odd(3, Some(0), OddReason::PathNotHandedOut)), "c", 1).await;
    put(db, &odd(4, Some(0), OddReason::Unreadable), "d", 1).await;
    decide(db, "b", QuarantineState::Accepted, 2).await;
    decide(db, "c", QuarantineState::Rejected, 2).await;
    let shown = async |request: &Request| -> Vec<u64> {
        let rows = store::quarantine::list_of_request(db.reader(), request, 100)
            .await
            .unwrap()
            .0;
        rows.iter().map(|row| row.oddity.block_number).collect()
    };
    assert_eq!(shown(&mine).await, [1, 3]);
    assert!(shown(&theirs).await.is_empty());
    let foreign = Request {
        row: mine.row.clone(),
        ..theirs
    };
    assert!(shown(&foreign).await.is_empty(), "the row alone is not enough");
}

async fn settled_rows_are_deleted_and_decisions_are_not(db: &Db) {
    let event = |number| odd(number, Some(2), OddReason::PathNotHandedOut);
    for (number, id) in [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")] {
        put(db, &event(number), id, 1).await;
    }
    decide(db, "a", QuarantineState::Accepted, 2).await;
    decide(db, "b", QuarantineState::Rejected, 2).await;
    let settle = async |number, now| {
        let settled =
            store::quarantine::settle_blocks(db.writer(), Network::Sepolia, BlockRange::single(number), &[], at(now));
        assert_eq!(settled.await.unwrap(), 1);
    };
    settle(3, 10).await;
    settle(4, 20).await;
    let forget = async |limit| store::quarantine::forget(db.writer(), at(20), limit).await.unwrap();
    assert_eq!((forget(5).await, forget(5).await), (1, 0));
    let left: Vec<u64> = all(db).await.iter().map(|row| row.oddity.block_number).collect();
    assert_eq!(left, [5, 4, 2, 1]);
}

/// A quarantined payment with other terms than the service issued. It transfers this number of units; the request costs
/// 1000. The less it transfers, the more it claims to settle, because a payer who sends dust may claim any rate.
fn paying(request: &Request, number: u64, units: u64) -> Oddity {
    let minor = Percent::from_basis_points(100);
    let settlement = U256::from(1_000_000 - units);
    let stake = AmountAtStake::of(U256::from(units), settlement, Some(U256::from(1_000)), minor);
    let mut odd = of(request, odd(number, Some(0), OddReason::PathNotHandedOut));
    odd.concerned.as_mut().unwrap().stake = Some(stake);
    odd
}

async fn dust_neither_hides_a_payment_nor_awaits_a_decision(db: &Db) {
    let request = request("a", 1);
    for number in 0..20 {
        put(db, &paying(&request, number, 9), &format!("dust-{number:02}"), 1).await;
    }
    put(
        db,
        &of(&request, odd(50, Some(0), OddReason::NothingMoved)),
        "nothing",
        1,
    )
    .await;
    put(db, &paying(&request, 60, 90), "x-part", 2).await;
    put(db, &paying(&request, 70, 1_000), "y-whole", 3).await;
    put(db, &paying(&request, 80, 2_000), "z-rejected", 4).await;
    decide(db, "z-rejected", QuarantineState::Rejected, 5).await;
    let (shown, total) = store::quarantine::list_of_request(db.reader(), &request, 3)
        .await
        .unwrap();
    let ids: Vec<&str> = shown.iter().map(|row| row.id.as_str()).collect();
    assert_eq!((ids, total), (vec!["y-whole", "x-part", "dust-00"], 24));
    assert_eq!(shown[0].oddity, paying(&request, 70, 1_000));
    let (all, total) = store::quarantine::list_of_request(db.reader(), &request, 100)
        .await
        .unwrap();
    assert_eq!((all.len(), total), (24, 24));
    assert_eq!(all.last().unwrap().id.as_str(), "z-rejected", "decided rows come last");
    let waiting = store::quarantine::count_open(db.reader()).await.unwrap();
    assert_eq!(waiting, BTreeMap::from([(Network::Sepolia, 3)]));
    let again = get(db, "dust-00").await;
    assert_eq!((again.state, again.settled_at), (QuarantineState::Minor, Some(at(1))));
    decide(db, "dust-00", QuarantineState::Accepted, 6).await;
    assert_eq!(store::quarantine::forget(db.writer(), at(2), 100).await.unwrap(), 19);
}

async fn matching_rows_are_found_and_rejected_at_once(db: &Db) {
    let (mine, other) = (request("a", 1), request("a", 2));
    for (number, settlement) in [(1, 9), (2, 95), (3, 100), (4, 1_000)] {
        put(db, &paying(&mine, number, settlement), &format!("{number}"), 1).await;
    }
    put(db, &paying(&other, 5, 1_000), "5", 1).await;
    put(db, &of(&mine, odd(6, Some(0), OddReason::NothingMoved)), "6", 1).await;
    let of_mine = QuarantineFilter {
        request: Some(mine.row.clone()),
        ..QuarantineFilter::default()
    };
    let find = async |filter: &QuarantineFilter, after: Option<&str>| -> Vec<String> {
        let after = after.map(|id| QuarantineId(id.into()));
        let rows = store::quarantine::list(db.reader(), filter, after.as_ref(), 3)
            .await
            .unwrap();
        rows.into_iter().map(|row| row.id.0).collect()
    };
    assert_eq!(find(&of_mine, None).await, ["6", "4", "3"]);
    assert_eq!(find(&of_mine, Some("3")).await, ["2", "1"]);
    let large = QuarantineFilter {
        min_units: Some(U256::from(96)),
        ..of_mine.clone()
    };
    assert_eq!(find(&large, None).await, ["4", "3"]);
    let one = QuarantineFilter {
        tx_hash: Some(hash(5)),
        ..QuarantineFilter::default()
    };
    assert_eq!(find(&one, None).await, ["5"]);
    decide(db, "4", QuarantineState::Accepted, 2).await;
    let on_path = QuarantineFilter {
        reason: Some(OddReason::PathNotHandedOut),
        ..of_mine
    };
    let reject = async || {
        store::quarantine::reject_all(db.writer(), &on_path, Some("dust"), at(3))
            .await
            .unwrap()
    };
    assert_eq!((reject().await, reject().await), (3, 0));
    use QuarantineState::{Accepted, Open, Rejected};
    let mut states = Vec::new();
    for id in ["1", "2", "3", "4", "5", "6"] {
        states.push(get(db, id).await.state);
    }
    assert_eq!(states, [Rejected, Rejected, Rejected, Accepted, Open, Open]);
    assert_eq!(get(db, "1").await.note.as_deref(), Some("dust"));
}
