//! Backlogs: ranges of older blocks that are read in parallel with new blocks.

use super::{on_both, samples::at};
use prs::{
    domain::{block_range::BlockRange, network::Network},
    store::{
        self, Db,
        backlogs::{Backlog, BacklogReason},
    },
};

on_both! {
    a_range_resumes_where_it_stopped_and_is_deleted_when_done
    a_failing_range_waits_and_delays_no_other
    a_restarted_range_is_not_postponed_by_an_earlier_read
    ranges_take_turns_and_unsettled_ones_take_no_slot
    a_new_range_is_due_whatever_clock_queued_it
}

async fn push(db: &Db, (from, to): (u64, u64), reason: BacklogReason) {
    let range = BlockRange { from, to };
    store::backlogs::push(db.writer(), Network::Base, range, reason, at(0))
        .await
        .unwrap();
}

async fn due(db: &Db, second: i64) -> Vec<Backlog> {
    store::backlogs::due(db.reader(), Network::Base, 900, at(second), 10)
        .await
        .unwrap()
}

async fn a_range_resumes_where_it_stopped_and_is_deleted_when_done(db: &Db) {
    push(db, (100, 900), BacklogReason::Start).await;
    let [backlog] = &due(db, 0).await[..] else {
        panic!("one range")
    };
    assert_eq!((backlog.next, backlog.end, backlog.failures), (100, 900, 0));
    assert!(
        store::backlogs::advance(db.writer(), backlog, 499, at(0))
            .await
            .unwrap()
    );
    assert_eq!(due(db, 0).await[0].next, 500);
    // A range that is queued again from a later block changes nothing. A range that is queued again from an earlier
    // block is read again as a whole.
    push(db, (700, 900), BacklogReason::Start).await;
    assert_eq!(due(db, 0).await[0].next, 500);
    push(db, (50, 900), BacklogReason::Start).await;
    let [backlog] = &due(db, 0).await[..] else {
        panic!("one range")
    };
    assert_eq!(backlog.next, 50);
    let moved_on = Backlog {
        next: 500,
        ..backlog.clone()
    };
    for read_to in [600, 900] {
        let is_moved = store::backlogs::advance(db.writer(), &moved_on, read_to, at(0))
            .await
            .unwrap();
        assert!(!is_moved, "it was restarted after it was read");
    }
    assert_eq!(due(db, 0).await, std::slice::from_ref(backlog));
    assert!(
        store::backlogs::advance(db.writer(), backlog, 900, at(0))
            .await
            .unwrap()
    );
    assert_eq!(due(db, 0).await, []);
}

async fn a_failing_range_waits_and_delays_no_other(db: &Db) {
    push(db, (7, 7), BacklogReason::Unproven).await;
    push(db, (1, 9), BacklogReason::Rescan).await;
    let both = due(db, 0).await;
    assert_eq!(both.len(), 2);
    let failing = both
        .iter()
        .find(|backlog| backlog.reason == BacklogReason::Unproven)
        .unwrap();
    store::backlogs::postpone(db.writer(), failing, at(30)).await.unwrap();
    let now = due(db, 29).await;
    assert_eq!(
        now.iter().map(|backlog| backlog.reason).collect::<Vec<_>>(),
        [BacklogReason::Rescan]
    );
    let later = due(db, 30).await;
    assert_eq!(later.iter().map(|backlog| backlog.failures).sum::<u32>(), 1);
    let elsewhere = store::backlogs::due(db.reader(), Network::Sepolia, 900, at(30), 10).await;
    assert_eq!(elsewhere.unwrap(), []);
}

async fn a_restarted_range_is_not_postponed_by_an_earlier_read(db: &Db) {
    push(db, (100, 900), BacklogReason::Rescan).await;
    let read = due(db, 0).await.remove(0);
    push(db, (50, 900), BacklogReason::Rescan).await;
    store::backlogs::postpone(db.writer(), &read, at(300)).await.unwrap();
    let [again] = &due(db, 0).await[..] else {
        panic!("one range, due at once")
    };
    assert_eq!((again.next, again.failures), (50, 0));
}

async fn ranges_take_turns_and_unsettled_ones_take_no_slot(db: &Db) {
    for end in [800, 900, 1_000] {
        push(db, (1, end), BacklogReason::Rescan).await;
    }
    let mut ends = Vec::new();
    for second in 0..4 {
        let first = store::backlogs::due(db.reader(), Network::Base, 900, at(second), 1).await;
        let first = first.unwrap().remove(0);
        let read_to = first.next;
        let is_moved = store::backlogs::advance(db.writer(), &first, read_to, at(second)).await;
        assert!(is_moved.unwrap());
        ends.push(first.end);
    }
    assert_eq!(ends, [800, 900, 800, 900]);
}

async fn a_new_range_is_due_whatever_clock_queued_it(db: &Db) {
    let tomorrow = at(86_400);
    store::backlogs::push(
        db.writer(),
        Network::Base,
        BlockRange { from: 1, to: 9 },
        BacklogReason::Quarantine,
        tomorrow,
    )
    .await
    .unwrap();
    assert_eq!(due(db, 0).await.len(), 1);
}
