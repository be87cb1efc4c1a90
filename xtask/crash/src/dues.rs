//! The result of a run with recurring payments and requests: whether each item that was due happened exactly once.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use xtask::service::delivery::EVENT;

use crate::verdict::Paid;

/// The event that reports the request of a period.
pub(crate) const REPEATED: &str = "request.recurring";

/// The event that reports a payment that could not be executed.
pub(crate) const FAILED: &str = "payment.failed";

/// What a signed schedule looks like after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Its id.
    pub(crate) id: String,
    /// Payments that were due.
    pub(crate) due: usize,
    /// Number of payments that the service reports as executed.
    pub(crate) counted: usize,
    /// Payments on the chain to the payee of the schedule. Each has the id of the request whose payment reference it
    /// contains.
    pub(crate) paid: Vec<Paid>,
}

/// What a recurring request looks like after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    /// Its id.
    pub(crate) id: String,
    /// Number of periods that have begun since the recurring request was created.
    pub(crate) due: usize,
    /// Ids of the requests that were created for the periods.
    pub(crate) made: Vec<String>,
}

/// A delivery about a payment of a schedule or the request of a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// The delivery's identity.
    pub(crate) id: String,
    /// The kind of the event.
    pub(crate) event: String,
    /// The request that the event is about.
    pub(crate) request_id: String,
    /// The id of the schedule or recurring request in the event; empty if the event contains none.
    pub(crate) of: String,
}

/// The relayer: the account that executes recurring payments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Relayer {
    /// Number of transactions of the relayer that the chain counts.
    pub(crate) counted: u64,
    /// Nonces of the relayer's transactions that blocks contain.
    pub(crate) nonces: Vec<u64>,
    /// Number of the relayer's transactions that the service still waits for.
    pub(crate) pending: usize,
}

impl Relayer {
    /// Number of nonces with a fault: no transaction has the nonce, several have it, or its transaction is in no block.
    fn lost(&self) -> usize {
        let used: HashSet<u64> = self.nonces.iter().copied().collect();
        let empty = (0..self.counted).filter(|nonce| !used.contains(nonce)).count();
        let beyond = used.iter().filter(|nonce| **nonce >= self.counted).count();
        empty + beyond + (self.nonces.len() - used.len()) + self.pending
    }
}

/// Everything that was read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dues {
    /// Every schedule.
    pub(crate) schedules: Vec<Schedule>,
    /// Every recurring request.
    pub(crate) parents: Vec<Parent>,
    /// Every delivery.
    pub(crate) told: Vec<Told>,
    /// The transactions of the relayer.
    pub(crate) relayer: Relayer,
}

/// Counts of what happened to due items. Every count except a plain total must be zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Payments that were due.
    pub(crate) payments_due: usize,
    /// Number of due payments that are not on the chain.
    pub(crate) payments_missing: usize,
    /// Number of surplus payments on the chain: a second payment for the same request, or a payment that was not due.
    pub(crate) payments_twice: usize,
    /// Difference between the number of payments that the service counts and the number that were due.
    pub(crate) miscounted: usize,
    /// Periods that have begun.
    pub(crate) requests_due: usize,
    /// Number of begun periods without a request.
    pub(crate) requests_missing: usize,
    /// Additional requests.
    pub(crate) requests_twice: usize,
    /// Number of payments and requests for which no event arrived that contains their schedule or recurring request.
    pub(crate) untold: usize,
    /// Number of payments and requests that several deliveries with different ids reported.
    pub(crate) told_twice: usize,
    /// Number of reported failures of payments that were valid.
    pub(crate) failures: usize,
    /// Number of nonces of the relayer with a fault: skipped, used twice, or of a transaction that is in no block.
    pub(crate) nonces_lost: usize,
}

impl Tally {
    /// Counts what was read back.
    pub(crate) fn of(dues: &Dues) -> Self {
        let mut tally = Self {
            failures: dues.told.iter().filter(|told| told.event == FAILED).count(),
            nonces_lost: dues.relayer.lost(),
            ..Self::default()
        };
        let mut identities: BTreeMap<(&str, &str, &str), BTreeSet<&str>> = BTreeMap::new();
        for told in &dues.told {
            let about = (told.event.as_str(), told.of.as_str(), told.request_id.as_str());
            identities.entry(about).or_default().insert(&told.id);
        }
        let mut tell = |event, of, request_id| {
            let times = identities.get(&(event, of, request_id)).map_or(0, BTreeSet::len);
            tally.untold += usize::from(times == 0);
            tally.told_twice += times.saturating_sub(1);
        };
        for schedule in &dues.schedules {
            let paid: BTreeSet<&str> = schedule.paid.iter().map(|paid| paid.request_id.as_str()).collect();
            paid.iter()
                .for_each(|request_id| tell(EVENT, schedule.id.as_str(), *request_id));
            tally.payments_due += schedule.due;
            tally.payments_missing += schedule.due.saturating_sub(paid.len());
            tally.payments_twice += schedule.paid.len() - paid.len() + paid.len().saturating_sub(schedule.due);
            tally.miscounted += schedule.counted.abs_diff(schedule.due);
        }
        for parent in &dues.parents {
            let made: BTreeSet<&str> = parent.made.iter().map(String::as_str).collect();
            made.iter()
                .for_each(|request_id| tell(REPEATED, parent.id.as_str(), *request_id));
            tally.requests_due += parent.due;
            tally.requests_missing += parent.due.saturating_sub(made.len());
            tally.requests_twice += made.len().saturating_sub(parent.due);
        }
        tally
    }

    /// What is missing.
    pub(crate) fn lost(&self) -> usize {
        self.payments_missing + self.miscounted + self.requests_missing + self.untold
    }

    /// What is surplus.
    pub(crate) fn doubled(&self) -> usize {
        self.payments_twice + self.requests_twice + self.told_twice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paid(request_id: &str, tx_hash: &str) -> Paid {
        Paid {
            request_id: request_id.to_owned(),
            tx_hash: tx_hash.to_owned(),
            amount: "0.5".to_owned(),
        }
    }

    fn told(id: &str, event: &str, request_id: &str, of: &str) -> Told {
        let [id, event, request_id, of] = [id, event, request_id, of].map(str::to_owned);
        Told {
            id,
            event,
            request_id,
            of,
        }
    }

    /// A schedule of two payments and a recurring request of two periods, all executed and reported.
    fn clean() -> Dues {
        Dues {
            schedules: vec![Schedule {
                id: "s".to_owned(),
                due: 2,
                counted: 2,
                paid: vec![paid("a", "0x1"), paid("b", "0x2")],
            }],
            parents: vec![Parent {
                id: "p".to_owned(),
                due: 2,
                made: vec!["c".to_owned(), "d".to_owned()],
            }],
            told: vec![
                told("1", EVENT, "a", "s"),
                told("2", EVENT, "b", "s"),
                told("3", REPEATED, "c", "p"),
                told("4", REPEATED, "d", "p"),
            ],
            relayer: Relayer {
                counted: 2,
                nonces: vec![0, 1],
                pending: 0,
            },
        }
    }

    /// Asserts that an edit of a clean run changes exactly these counts.
    #[track_caller]
    fn after(edit: fn(&mut Dues), expected: fn(&mut Tally)) {
        let (mut dues, mut tally) = (clean(), Tally::of(&clean()));
        edit(&mut dues);
        expected(&mut tally);
        assert_eq!(Tally::of(&dues), tally);
    }

    #[test]
    fn a_run_in_which_every_due_item_happened_once_is_clean() {
        let tally = Tally::of(&clean());
        assert_eq!((tally.lost(), tally.doubled()), (0, 0));
        assert_eq!((tally.payments_due, tally.requests_due), (2, 2));
        assert_eq!((tally.failures, tally.nonces_lost), (0, 0));
    }

    #[test]
    fn missing_items_are_lost_and_surplus_items_are_doubled() {
        let sums = |edit: fn(&mut Tally)| {
            let mut tally = Tally::default();
            edit(&mut tally);
            (tally.lost(), tally.doubled())
        };
        let lost: [fn(&mut Tally); 4] = [
            |t| t.payments_missing = 1,
            |t| t.miscounted = 1,
            |t| t.requests_missing = 1,
            |t| t.untold = 1,
        ];
        assert!(lost.iter().all(|edit| sums(*edit) == (1, 0)));
        let doubled: [fn(&mut Tally); 3] = [|t| t.payments_twice = 1, |t| t.requests_twice = 1, |t| t.told_twice = 1];
        assert!(doubled.iter().all(|edit| sums(*edit) == (0, 1)));
    }

    #[test]
    fn a_payment_that_the_chain_does_not_hold_is_missing() {
        after(|d| drop(d.schedules[0].paid.pop()), |t| t.payments_missing = 1);
        after(|d| d.schedules[0].counted = 1, |t| t.miscounted = 1);
    }

    #[test]
    fn a_second_payment_and_a_payment_that_was_not_due_are_surplus() {
        after(|d| d.schedules[0].paid.push(paid("b", "0x3")), |t| t.payments_twice = 1);
        after(
            |d| d.schedules[0].paid.push(paid("e", "0x3")),
            |t| (t.payments_twice, t.untold) = (1, 1),
        );
        // A second payment of one request counts as surplus. It does not replace the missing payment of another
        // request.
        after(
            |d| d.schedules[0].paid[1].request_id = "a".to_owned(),
            |t| (t.payments_twice, t.payments_missing) = (1, 1),
        );
    }

    #[test]
    fn every_period_has_one_request() {
        after(|d| drop(d.parents[0].made.pop()), |t| t.requests_missing = 1);
        after(
            |d| d.parents[0].made.push("e".to_owned()),
            |t| (t.requests_twice, t.untold) = (1, 1),
        );
    }

    #[test]
    fn each_item_is_reported_once_with_its_parent() {
        after(|d| drop(d.told.pop()), |t| t.untold = 1);
        after(|d| d.told[0].of = String::new(), |t| t.untold = 1);
        after(|d| d.told[0].of = "other".to_owned(), |t| t.untold = 1);
        after(|d| d.told.push(d.told[0].clone()), |_| {});
        after(|d| d.told.push(told("9", EVENT, "a", "s")), |t| t.told_twice = 1);
        after(|d| d.told.push(told("9", FAILED, "a", "s")), |t| t.failures = 1);
    }

    #[test]
    fn each_nonce_of_the_relayer_is_used_once_and_none_is_skipped() {
        after(|d| d.relayer.nonces = vec![1], |t| t.nonces_lost = 1);
        after(|d| d.relayer.nonces.push(2), |t| t.nonces_lost = 1);
        after(|d| d.relayer.nonces.push(1), |t| t.nonces_lost = 1);
        after(|d| d.relayer.pending = 1, |t| t.nonces_lost = 1);
    }
}
