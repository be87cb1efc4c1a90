//! How far a chain was read, and its last blocks.

use super::{
    on_both,
    samples::{at, hash},
};
use chrono::{DateTime, TimeDelta};
use prs::{
    domain::{
        network::Network,
        payment::{BlockRef, Finality},
    },
    store::{
        self, Db,
        cursors::{Cursor, Mark},
    },
};

on_both! {
    cursors_and_blocks_survive
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
        finality: None,
        may_rewind: false,
        updated_at: at(1),
    };
    store::cursors::save(db.writer(), &cursor).await.unwrap();
    assert_eq!(load().await, Some(cursor.clone()));
    cursor.halted_reason = Some("nodes disagree".into());
    cursor.finality = Some(Finality::Tag);
    cursor.may_rewind = true;
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
    // Of what is settled two are kept, however far apart they are; what is not settled yet is left alone.
    store::cursors::prune_blocks(db.writer(), Network::Base, 3, 2)
        .await
        .unwrap();
    assert_eq!(window().await, [block(4, 0), block(3, 0), block(2, 0)]);
    store::cursors::prune_blocks(db.writer(), Network::Base, 4, 2)
        .await
        .unwrap();
    assert_eq!(window().await, [block(4, 0), block(3, 0)]);
    store::cursors::forget(db.writer(), Network::Sepolia).await.unwrap();
    assert!(load().await.is_some(), "another network is left alone");
    store::cursors::forget(db.writer(), Network::Base).await.unwrap();
    assert_eq!((load().await, window().await), (None, Vec::new()));
}
