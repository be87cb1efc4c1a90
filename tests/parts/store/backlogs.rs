//! Ranges that are filled in beside new blocks.

use super::{on_both, samples::at};
use prs::{
    domain::network::Network,
    store::{
        self, Db,
        backlogs::{Backlog, BacklogReason},
    },
};

on_both! {
    a_range_goes_on_where_it_was_and_is_gone_when_it_is_done
    a_range_that_fails_waits_and_holds_up_no_other
    a_range_that_was_begun_again_is_not_postponed_by_the_reading_before
    ranges_take_turns_and_what_is_not_settled_takes_no_place
    a_new_range_is_due_whatever_the_clock_of_who_queued_it_says
}

async fn push(db: &Db, range: (u64, u64), reason: BacklogReason) {
    store::backlogs::push(db.writer(), Network::Base, range, reason, at(0))
        .await
        .unwrap();
}

async fn due(db: &Db, second: i64) -> Vec<Backlog> {
    store::backlogs::due(db.reader(), Network::Base, 900, at(second), 10)
        .await
        .unwrap()
}

async fn a_range_goes_on_where_it_was_and_is_gone_when_it_is_done(db: &Db) {
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
    // Asked for again from further up, what is left is still done; from further down, all of it is done again.
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
        assert!(!is_moved, "it was begun again since it was read");
    }
    assert_eq!(due(db, 0).await, std::slice::from_ref(backlog));
    assert!(
        store::backlogs::advance(db.writer(), backlog, 900, at(0))
            .await
            .unwrap()
    );
    assert_eq!(due(db, 0).await, []);
}

async fn a_range_that_fails_waits_and_holds_up_no_other(db: &Db) {
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

async fn a_range_that_was_begun_again_is_not_postponed_by_the_reading_before(db: &Db) {
    push(db, (100, 900), BacklogReason::Rescan).await;
    let read = due(db, 0).await.remove(0);
    push(db, (50, 900), BacklogReason::Rescan).await;
    store::backlogs::postpone(db.writer(), &read, at(300)).await.unwrap();
    let [again] = &due(db, 0).await[..] else {
        panic!("one range, due at once")
    };
    assert_eq!((again.next, again.failures), (50, 0));
}

async fn ranges_take_turns_and_what_is_not_settled_takes_no_place(db: &Db) {
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

async fn a_new_range_is_due_whatever_the_clock_of_who_queued_it_says(db: &Db) {
    let tomorrow = at(86_400);
    store::backlogs::push(db.writer(), Network::Base, (1, 9), BacklogReason::Quarantine, tomorrow)
        .await
        .unwrap();
    assert_eq!(due(db, 0).await.len(), 1);
}
