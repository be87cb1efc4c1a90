//! Payments that were detected near the head.

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
    store::{self, Db},
};

on_both! {
    observations_follow_their_transaction
    a_batch_may_name_an_event_twice
    observations_are_deleted_with_their_blocks
    every_number_that_an_event_can_contain_is_stored
}

async fn noted(db: &Db, observed: &Observation) -> Vec<Observation> {
    store::observations::list_seen_by_topics(db.reader(), observed.network, &[observed.reference_topic])
        .await
        .unwrap()
}

async fn note(db: &Db, observations: &[Observation]) {
    store::observations::note(db.writer(), observations, at(0))
        .await
        .unwrap();
}

async fn observations_follow_their_transaction(db: &Db) {
    // Any account can emit an event that names the zero address.
    let mut first = observation(10);
    first.payee = Address::Evm(EvmAddress::ZERO);
    note(db, &[first.clone(), observation(11)]).await;
    assert_eq!(noted(db, &first).await, [first.clone()]);
    // The transaction is included again in another block, at another position and with another amount.
    let moved = Observation {
        block_number: 12,
        block_hash: hash(77),
        log_index: 1,
        units: U256::from(99),
        ..first.clone()
    };
    note(db, std::slice::from_ref(&moved)).await;
    assert_eq!(noted(db, &first).await, [moved]);
    assert_eq!(noted(db, &observation(11)).await, [observation(11)]);
}

async fn a_batch_may_name_an_event_twice(db: &Db) {
    note(db, &[observation(1), observation(1), observation(2)]).await;
    let many: Vec<_> = (0..1_200).map(observation).collect();
    note(db, &many).await;
    note(db, &[]).await;
    for number in [0, 1, 1_199] {
        assert_eq!(noted(db, &observation(number)).await, [observation(number)]);
    }
}

async fn observations_are_deleted_with_their_blocks(db: &Db) {
    let seen: Vec<_> = (1..=5).map(observation).collect();
    note(db, &seen).await;
    let above = store::observations::delete_above(db.writer(), Network::Sepolia, 3).await;
    assert_eq!(above.unwrap(), 2);
    let up_to = store::observations::delete_up_to(db.writer(), Network::Sepolia, 2).await;
    assert_eq!(up_to.unwrap(), 2);
    assert_eq!(noted(db, &observation(3)).await, [observation(3)]);
    assert!(noted(db, &observation(2)).await.is_empty());
    let elsewhere = store::observations::delete_above(db.writer(), Network::Base, 0).await;
    assert_eq!(elsewhere.unwrap(), 0);
}

/// The payer chooses most of the numbers in an event. If one of them could not be stored, its whole block would be
/// blocked.
async fn every_number_that_an_event_can_contain_is_stored(db: &Db) {
    let numbers = [
        U256::ZERO,
        U256::from(i64::MAX),
        U256::from(1_u128 << 63),
        U256::from(u64::MAX),
        U256::MAX,
    ];
    for (number, units) in (1..).zip(numbers) {
        let extreme = Observation {
            units,
            fee_units: units,
            position: u32::try_from(i32::MAX).unwrap(),
            block_number: i64::MAX.unsigned_abs(),
            log_index: i64::MAX.unsigned_abs(),
            fee_address: Some(wallet(3)),
            reference_topic: B256::with_last_byte(number),
            conversion: Some(ObservedConversion {
                invoice_units: units,
                invoice_fee_units: units,
                currency: wallet(7),
                max_rate_timespan_s: units,
            }),
            ..observation(u64::from(number))
        };
        note(db, std::slice::from_ref(&extreme)).await;
        assert_eq!(noted(db, &extreme).await, [extreme]);
    }
}
