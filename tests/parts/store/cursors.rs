//! The position up to which a chain was read, and its last blocks.

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
        cursors::{Cursor, ReachedBlock},
    },
};

on_both! {
    cursors_and_blocks_are_stored_and_loaded
    a_cursor_moved_or_halted_meanwhile_is_not_overwritten
}

async fn a_cursor_moved_or_halted_meanwhile_is_not_overwritten(db: &Db) {
    let mark = |number| ReachedBlock {
        number,
        hash: hash(number),
    };
    let stored = Cursor {
        network: Network::Base,
        seen: mark(10),
        finalized: mark(5),
        halted_reason: None,
        finality: Some(Finality::Tag),
        may_rewind: false,
        updated_at: at(1),
    };
    assert!(store::cursors::begin(db.writer(), &stored).await.unwrap());
    let halted = Cursor {
        halted_reason: Some("nodes disagree".into()),
        ..stored.clone()
    };
    let moved = Cursor {
        finalized: mark(6),
        ..stored.clone()
    };
    // A step that expects another cursor than the stored one changes nothing, whichever field differs.
    for stale in [
        Cursor {
            seen: mark(9),
            ..stored.clone()
        },
        Cursor {
            finalized: mark(4),
            ..stored.clone()
        },
        Cursor {
            may_rewind: true,
            ..stored.clone()
        },
        halted.clone(),
    ] {
        assert!(!store::cursors::replace(db.writer(), &stale, &moved).await.unwrap());
    }
    assert!(store::cursors::replace(db.writer(), &stored, &halted).await.unwrap());
    assert!(!store::cursors::replace(db.writer(), &stored, &moved).await.unwrap());
    let load = store::cursors::load(db.reader(), Network::Base).await.unwrap();
    assert_eq!(load, Some(halted.clone()), "the halt persists");
    assert!(store::cursors::replace(db.writer(), &halted, &stored).await.unwrap());
}

async fn cursors_and_blocks_are_stored_and_loaded(db: &Db) {
    let load = async || store::cursors::load(db.reader(), Network::Base).await.unwrap();
    assert_eq!(load().await, None);
    let mut cursor = Cursor {
        network: Network::Base,
        seen: ReachedBlock {
            number: 10,
            hash: hash(10),
        },
        finalized: ReachedBlock {
            number: 5,
            hash: hash(5),
        },
        halted_reason: None,
        finality: None,
        may_rewind: false,
        updated_at: at(1),
    };
    assert!(store::cursors::begin(db.writer(), &cursor).await.unwrap());
    assert_eq!(load().await, Some(cursor.clone()));
    let begun = cursor.clone();
    cursor.halted_reason = Some("nodes disagree".into());
    cursor.finality = Some(Finality::Tag);
    cursor.may_rewind = true;
    cursor.seen.number = 11;
    assert!(!store::cursors::begin(db.writer(), &cursor).await.unwrap());
    assert_eq!(load().await, Some(begun.clone()), "another instance began it");
    assert!(store::cursors::replace(db.writer(), &begun, &cursor).await.unwrap());
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
    // Two settled blocks are kept, however far apart they are; unsettled blocks are unchanged.
    store::cursors::prune_blocks(db.writer(), Network::Base, 3, 2)
        .await
        .unwrap();
    assert_eq!(window().await, [block(4, 0), block(3, 0), block(2, 0)]);
    store::cursors::prune_blocks(db.writer(), Network::Base, 4, 2)
        .await
        .unwrap();
    assert_eq!(window().await, [block(4, 0), block(3, 0)]);
    store::cursors::forget(db.writer(), Network::Sepolia).await.unwrap();
    assert!(load().await.is_some(), "another network is unchanged");
    store::cursors::forget(db.writer(), Network::Base).await.unwrap();
    assert_eq!((load().await, window().await), (None, Vec::new()));
}
