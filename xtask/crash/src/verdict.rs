//! The verdict on a run: how many promises of the service were broken, counted only from the records of the run.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use xtask::service::delivery::EVENT;

/// A request that the service acknowledged with 201.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acknowledged {
    /// The idempotency key of the creation; `None` if the request was created without a key.
    pub(crate) key: Option<String>,
    /// The id in the response.
    pub(crate) request_id: String,
    /// The requested amount.
    pub(crate) amount: String,
}

/// The terms of a request. No two requests of a load have the same terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    payee: String,
    amount: String,
}

impl Terms {
    /// The terms in a normalized form, so that different spellings of an address or amount compare as equal.
    pub(crate) fn new(payee: &str, amount: &str) -> Self {
        Self {
            payee: payee.to_ascii_lowercase(),
            amount: shortest(amount).to_owned(),
        }
    }
}

/// A request in the list of requests that pay a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its id.
    pub(crate) request_id: String,
    /// Its terms.
    pub(crate) terms: Terms,
}

/// A payment on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paid {
    /// The request that it pays.
    pub(crate) request_id: String,
    /// The hash of the transaction.
    pub(crate) tx_hash: String,
    /// The amount.
    pub(crate) amount: String,
}

/// A payment as the service shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credit {
    /// The hash of the transaction.
    pub(crate) tx_hash: String,
    /// The credited amount.
    pub(crate) amount: String,
}

/// A request as the service shows it after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether it counts as paid.
    pub(crate) is_paid: bool,
    /// Its payments.
    pub(crate) credits: Vec<Credit>,
}

/// One delivery as it arrived at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The id of the delivery, which is the same for all its attempts; `None` if it arrived without one.
    pub(crate) id: Option<String>,
    /// The kind of the event.
    pub(crate) event: String,
    /// The request that the event is about.
    pub(crate) request_id: String,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// Whether the signature matches the body.
    pub(crate) is_signed: bool,
}

/// Everything that was recorded during a run and read back after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// One entry for every creation that the service acknowledged with 201.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Terms of each creation that was sent without an idempotency key and got no response. It created one request or
    /// none.
    pub(crate) unanswered: Vec<Terms>,
    /// Ids of requests that the service did not know right after it had acknowledged them.
    pub(crate) unknown: HashSet<String>,
    /// Every payment on the chain, once.
    pub(crate) paid: Vec<Paid>,
    /// The requests that the service finds after the run, by id.
    pub(crate) found: HashMap<String, Found>,
    /// Ids of all requests in the tables of PostgreSQL; `None` on SQLite.
    pub(crate) stored: Option<HashSet<String>>,
    /// Wallets whose requests are listed.
    pub(crate) payees: Vec<String>,
    /// The lists of these wallets.
    pub(crate) listed: Vec<Listed>,
    /// Deliveries in order of arrival.
    pub(crate) deliveries: Vec<Delivered>,
}

/// Counts of what happened to requests, payments and events. Every count except a plain total must be zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Number of requests that were acknowledged with 201.
    pub(crate) acknowledged: usize,
    /// Number of acknowledged requests that count as lost for one of three reasons: the request is gone; the service
    /// did not know it right after the response or when it had to be paid; or it shares its id with another request.
    pub(crate) requests_lost: usize,
    /// Number of requests that exist without reason: no client got a response for them, and no creation without a
    /// response explains them.
    pub(crate) requests_surplus: usize,
    /// Payments on the chain.
    pub(crate) paid: usize,
    /// Number of payments that were credited more than once.
    pub(crate) credited_twice: usize,
    /// Number of payments that were not credited, or credited with another transaction or amount.
    pub(crate) not_credited: usize,
    /// Number of confirmations that a receiver must get: one for each payment.
    pub(crate) events_expected: usize,
    /// Confirmations that never arrived.
    pub(crate) events_lost: usize,
    /// Number of confirmations that arrived in several deliveries with different ids.
    pub(crate) events_doubled: usize,
    /// Number of confirmations of requests that were not paid.
    pub(crate) events_surplus: usize,
    /// All deliveries that arrived.
    pub(crate) deliveries: usize,
    /// Number of deliveries whose id had arrived before. This is allowed, because a killed sender cannot know that the
    /// delivery arrived.
    pub(crate) deliveries_repeated: usize,
    /// Number of delivery ids whose attempts differ in at least one byte.
    pub(crate) deliveries_changed: usize,
    /// Number of deliveries without an id or with a wrong signature.
    pub(crate) deliveries_unsigned: usize,
}

impl Verdict {
    /// Counts what the records show.
    pub(crate) fn of(records: &Records) -> Self {
        let ids: HashSet<&str> = records.acknowledged.iter().map(|one| one.request_id.as_str()).collect();
        let paid: HashSet<&str> = records.paid.iter().map(|one| one.request_id.as_str()).collect();
        let is_stored = |id: &str| records.stored.as_ref().is_none_or(|stored| stored.contains(id));
        let is_known = |id: &str| records.found.contains_key(id) && !records.unknown.contains(id);
        let is_kept = |id: &&&str| is_known(id) && is_stored(id) && paid.contains(**id);
        let kept = ids.iter().filter(is_kept).count();
        let mut unanswered: HashSet<&Terms> = records.unanswered.iter().collect();
        let is_surplus =
            |listed: &&Listed| !ids.contains(listed.request_id.as_str()) && !unanswered.remove(&listed.terms);
        let requests_surplus = records.listed.iter().filter(is_surplus).count();
        let mut verdict = Self {
            acknowledged: records.acknowledged.len(),
            requests_lost: records.acknowledged.len() - kept,
            requests_surplus,
            paid: records.paid.len(),
            events_expected: records.paid.len(),
            deliveries: records.deliveries.len(),
            ..Self::default()
        };
        verdict.count_credits(records);
        verdict.count_events(records);
        verdict.count_identities(records);
        verdict
    }

    fn count_credits(&mut self, records: &Records) {
        for paid in &records.paid {
            let found = records.found.get(&paid.request_id);
            let credits = found.map_or(&[][..], |found| &found.credits);
            let is_as_paid = |credit: &Credit| {
                credit.tx_hash.eq_ignore_ascii_case(&paid.tx_hash) && is_same_amount(&credit.amount, &paid.amount)
            };
            if credits.len() > 1 {
                self.credited_twice += 1;
            } else if !credits.iter().any(is_as_paid) || !found.is_some_and(|found| found.is_paid) {
                self.not_credited += 1;
            }
        }
    }

    fn count_events(&mut self, records: &Records) {
        let mut identities: HashMap<&str, BTreeSet<Option<&str>>> = HashMap::new();
        for delivery in records.deliveries.iter().filter(|delivery| delivery.event == EVENT) {
            let of_request = identities.entry(&delivery.request_id).or_default();
            of_request.insert(delivery.id.as_deref());
        }
        for paid in &records.paid {
            match identities.remove(paid.request_id.as_str()).map(|ids| ids.len()) {
                None => self.events_lost += 1,
                Some(1) => {}
                Some(_) => self.events_doubled += 1,
            }
        }
        self.events_surplus = identities.len();
    }

    fn count_identities(&mut self, records: &Records) {
        let mut bodies: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
        for delivery in &records.deliveries {
            if !delivery.is_signed || delivery.id.is_none() {
                self.deliveries_unsigned += 1;
            }
            if let Some(id) = &delivery.id {
                bodies.entry(id).or_default().push(&delivery.body);
            }
        }
        for same in bodies.values() {
            self.deliveries_repeated += same.len() - 1;
            self.deliveries_changed += usize::from(same.iter().any(|body| *body != same[0]));
        }
    }

    /// Number of missing requests, credits and events.
    pub(crate) fn lost(&self) -> usize {
        self.requests_lost + self.not_credited + self.events_lost
    }

    /// Number of surplus requests, credits and events.
    pub(crate) fn doubled(&self) -> usize {
        self.requests_surplus + self.credited_twice + self.events_doubled + self.events_surplus
    }

    /// Number of deliveries whose bytes, signature or id are wrong.
    pub(crate) fn changed(&self) -> usize {
        self.deliveries_changed + self.deliveries_unsigned
    }
}

/// Whether two decimal strings are the same number; only trailing zeros of a fraction may differ.
fn is_same_amount(one: &str, other: &str) -> bool {
    shortest(one) == shortest(other)
}

/// A decimal string without trailing zeros in its fraction.
fn shortest(amount: &str) -> &str {
    if amount.contains('.') {
        amount.trim_end_matches('0').trim_end_matches('.')
    } else {
        amount
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(id: &str, request_id: &str) -> Delivered {
        Delivered {
            id: Some(id.to_owned()),
            event: EVENT.to_owned(),
            request_id: request_id.to_owned(),
            body: request_id.as_bytes().to_vec(),
            is_signed: true,
        }
    }

    fn listed(request_id: &str, amount: &str) -> Listed {
        Listed {
            request_id: request_id.to_owned(),
            terms: Terms::new("0xA", amount),
        }
    }

    /// Two requests, both paid, credited and reported.
    fn clean() -> Records {
        let mut records = Records {
            stored: Some(["a", "b"].map(str::to_owned).into()),
            ..Records::default()
        };
        for (number, request_id) in ["a", "b"].into_iter().enumerate() {
            let (tx_hash, amount) = (format!("0x{number}"), format!("0.{}", number + 1));
            records.acknowledged.push(Acknowledged {
                key: None,
                request_id: request_id.to_owned(),
                amount: amount.clone(),
            });
            records.listed.push(listed(request_id, &amount));
            records.paid.push(Paid {
                request_id: request_id.to_owned(),
                tx_hash: tx_hash.clone(),
                amount: amount.clone(),
            });
            let found = Found {
                is_paid: true,
                credits: vec![Credit { tx_hash, amount }],
            };
            records.found.insert(request_id.to_owned(), found);
            records.deliveries.push(delivered(&format!("d{number}"), request_id));
        }
        records
    }

    /// Asserts that an edit of a clean run changes exactly these counts.
    #[track_caller]
    fn after(edit: fn(&mut Records), expected: fn(&mut Verdict)) {
        let (mut records, mut verdict) = (clean(), Verdict::of(&clean()));
        edit(&mut records);
        expected(&mut verdict);
        assert_eq!(Verdict::of(&records), verdict);
    }

    fn credits<'a>(records: &'a mut Records, request_id: &str) -> &'a mut Vec<Credit> {
        &mut records.found.get_mut(request_id).unwrap().credits
    }

    #[test]
    fn a_run_that_kept_every_promise_is_clean() {
        let verdict = Verdict::of(&clean());
        assert_eq!(
            (verdict.lost(), verdict.doubled(), verdict.changed()),
            (0, 0, 0),
            "{verdict:?}"
        );
        assert_eq!((verdict.acknowledged, verdict.paid), (2, 2));
        assert_eq!((verdict.events_expected, verdict.deliveries), (2, 2));
    }

    #[test]
    fn every_broken_promise_is_wrong_in_one_way() {
        let verdict = |edit: fn(&mut Verdict)| {
            let mut verdict = Verdict::default();
            edit(&mut verdict);
            (verdict.lost(), verdict.doubled(), verdict.changed())
        };
        let lost: [fn(&mut Verdict); 3] = [|v| v.requests_lost = 1, |v| v.not_credited = 1, |v| v.events_lost = 1];
        assert!(lost.iter().all(|edit| verdict(*edit) == (1, 0, 0)));
        let doubled: [fn(&mut Verdict); 4] = [
            |v| v.requests_surplus = 1,
            |v| v.credited_twice = 1,
            |v| v.events_doubled = 1,
            |v| v.events_surplus = 1,
        ];
        assert!(doubled.iter().all(|edit| verdict(*edit) == (0, 1, 0)));
        let changed: [fn(&mut Verdict); 2] = [|v| v.deliveries_changed = 1, |v| v.deliveries_unsigned = 1];
        assert!(changed.iter().all(|edit| verdict(*edit) == (0, 0, 1)));
    }

    #[test]
    fn a_request_that_is_gone_is_lost_with_its_payment() {
        let gone = |r: &mut Records| {
            r.found.remove("a");
            r.listed.remove(0);
        };
        after(gone, |v| (v.requests_lost, v.not_credited) = (1, 1));
    }

    #[test]
    fn a_request_that_no_table_holds_is_lost() {
        let not_stored = |r: &mut Records| r.stored = Some(["b".to_owned()].into());
        after(not_stored, |v| v.requests_lost = 1);
        after(|r| r.stored = None, |_| {});
    }

    #[test]
    fn a_request_that_was_unknown_after_its_response_is_lost() {
        after(|r| r.unknown = ["a".to_owned()].into(), |v| v.requests_lost = 1);
    }

    #[test]
    fn a_creation_without_key_and_response_made_one_request_or_none() {
        let unanswered = |r: &mut Records| r.unanswered.push(Terms::new("0xa", "0.50"));
        after(unanswered, |_| {});
        after(
            |r| {
                r.unanswered.push(Terms::new("0xa", "0.50"));
                r.listed.push(listed("c", "0.5"));
            },
            |_| {},
        );
        after(
            |r| {
                r.unanswered.push(Terms::new("0xa", "0.50"));
                r.listed.extend([listed("c", "0.5"), listed("d", "0.5")]);
            },
            |v| v.requests_surplus = 1,
        );
    }

    #[test]
    fn a_request_that_could_not_be_paid_is_lost_even_if_it_comes_back() {
        let unpaid = |r: &mut Records| drop((r.paid.remove(0), r.deliveries.remove(0)));
        after(unpaid, |v| {
            (v.requests_lost, v.paid, v.events_expected, v.deliveries) = (1, 1, 1, 1);
        });
    }

    #[test]
    fn each_creation_has_one_request_and_each_request_a_creation() {
        let shared = |r: &mut Records| r.acknowledged.push(r.acknowledged[0].clone());
        after(shared, |v| (v.acknowledged, v.requests_lost) = (3, 1));
        let surplus = |r: &mut Records| r.listed.push(listed("c", "0.1"));
        after(surplus, |v| v.requests_surplus = 1);
    }

    #[test]
    fn a_payment_counts_once_with_its_transaction_and_amount() {
        let twice = |r: &mut Records| {
            let credit = credits(r, "a")[0].clone();
            credits(r, "a").push(credit);
        };
        after(twice, |v| v.credited_twice = 1);
        after(|r| credits(r, "a").clear(), |v| v.not_credited = 1);
        after(|r| credits(r, "a")[0].amount = "0.2".to_owned(), |v| v.not_credited = 1);
        after(
            |r| credits(r, "a")[0].tx_hash = "0x1".to_owned(),
            |v| v.not_credited = 1,
        );
        after(
            |r| r.found.get_mut("b").unwrap().is_paid = false,
            |v| v.not_credited = 1,
        );
        assert!(is_same_amount("0.10", "0.1") && is_same_amount("1.0", "1") && !is_same_amount("10", "1"));
    }

    #[test]
    fn a_confirmation_arrives_once_for_each_payment() {
        after(
            |r| drop(r.deliveries.remove(0)),
            |v| (v.events_lost, v.deliveries) = (1, 1),
        );
        after(
            |r| r.deliveries[0].event = "payment.partial".to_owned(),
            |v| v.events_lost = 1,
        );
        after(
            |r| r.deliveries.push(delivered("d9", "a")),
            |v| (v.events_doubled, v.deliveries) = (1, 3),
        );
        after(
            |r| r.deliveries.push(delivered("d9", "c")),
            |v| (v.events_surplus, v.deliveries) = (1, 3),
        );
    }

    #[test]
    fn repetitions_are_identical_and_deliveries_have_a_signature_and_an_id() {
        let repeated = |r: &mut Records| r.deliveries.push(delivered("d0", "a"));
        after(repeated, |v| (v.deliveries, v.deliveries_repeated) = (3, 1));
        let altered = |r: &mut Records| {
            r.deliveries.push(delivered("d0", "a"));
            r.deliveries[2].body.push(b' ');
        };
        after(altered, |v| {
            (v.deliveries, v.deliveries_repeated, v.deliveries_changed) = (3, 1, 1)
        });
        after(|r| r.deliveries[0].is_signed = false, |v| v.deliveries_unsigned = 1);
        after(|r| r.deliveries[1].id = None, |v| v.deliveries_unsigned = 1);
    }
}
