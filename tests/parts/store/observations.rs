//! Payment events as the chain shows them.

use super::{
    on_both,
    samples::{at, hash, observation, wallet},
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use prs::{
    domain::{
        address::Address,
        network::Network,
        payment::{Observation, ObservedConversion},
    },
    store::{self, Db, observations::ObservationState},
};

on_both! {
    observations_are_new_once_and_follow_their_block
    a_batch_may_name_an_event_twice
    reorganised_sightings_go_and_final_ones_stay
}

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
