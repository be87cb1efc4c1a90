//! Tests of the turns with every order of events: limits, fairness, and the outcome of claimed deliveries.

use super::*;
use crate::domain::ids::{DeliveryId, EventId};
use proptest::prelude::*;
use std::time::Duration;

/// Number of endpoints of the property tests.
const ENDPOINTS: usize = 9;

/// Number of owners of these endpoints: endpoint 0 belongs to owner 0, endpoint 1 to owner 1 and so on, cyclically.
const OWNERS: usize = 3;

fn owner_of(endpoint: usize) -> OwnerId {
    OwnerId(format!("owner-{}", endpoint % OWNERS))
}

fn endpoint_id(endpoint: usize) -> EndpointId {
    EndpointId(format!("endpoint-{endpoint}"))
}

fn delivery(id: usize, owner: OwnerId, endpoint: EndpointId, token: &str) -> ClaimedDelivery {
    ClaimedDelivery {
        is_approved: true,
        id: DeliveryId(format!("{id:06}")),
        event: EventId("event".to_owned()),
        owner,
        endpoint,
        url: String::new(),
        secret_sealed: String::new(),
        former_secrets: Vec::new(),
        body: String::new(),
        retry_count: 0,
        is_test: false,
        is_replay: false,
        header_prefix: None,
        is_endpoint_failing: false,
        lease_token: token.to_owned(),
    }
}

fn options(concurrency: usize, concurrency_per_endpoint: usize) -> DeliveryOptions {
    DeliveryOptions {
        concurrency,
        concurrency_per_endpoint,
    }
}

/// An event that affects the turns.
#[derive(Debug, Clone)]
enum Happening {
    /// A claim returns a delivery for each of these endpoints, to be sent within this number of milliseconds.
    Claimed(Vec<usize>, u64),
    /// The loop asks for this number of deliveries.
    Asked(usize),
    /// The attempt with this position among those in flight ends.
    Ended(usize, EndpointManner),
    /// This number of milliseconds passes.
    Passed(u64),
    /// A claim begins.
    ClaimBegan,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let manner = prop_oneof![
        Just(EndpointManner::Quick),
        Just(EndpointManner::Usual),
        Just(EndpointManner::Silent)
    ];
    let happening = prop_oneof![
        3 => (prop::collection::vec(0..ENDPOINTS, 1..12), 1..400_u64).prop_map(|(to, ms)| Happening::Claimed(to, ms)),
        4 => (1..8_usize).prop_map(Happening::Asked),
        5 => (0..16_usize, manner).prop_map(|(which, manner)| Happening::Ended(which, manner)),
        1 => (1..100_u64).prop_map(Happening::Passed),
        1 => Just(Happening::ClaimBegan),
    ];
    prop::collection::vec(happening, 1..100)
}

/// A simple model of the turns: all claimed deliveries, in plain lists. The tests compare the turns with this model.
struct World {
    turns: DeliveryTurns,
    options: DeliveryOptions,
    now: Instant,
    claims: usize,
    claims_begun: u64,
    /// Claimed deliveries that were not returned yet, in the order of the claims.
    waiting: Vec<(ClaimedDelivery, Instant)>,
    in_flight: Vec<ClaimedDelivery>,
    sent: usize,
    silent: HashSet<EndpointId>,
    left_out: Vec<EndpointId>,
    /// For a waiting owner or endpoint and another one of the same kind: how often the other was served although the
    /// waiting one could have been served.
    passed_over: HashMap<(String, String), usize>,
}

impl World {
    fn new(options: DeliveryOptions) -> Self {
        Self {
            turns: DeliveryTurns::new(options),
            options,
            now: Instant::now(),
            claims: 0,
            claims_begun: 0,
            waiting: Vec::new(),
            in_flight: Vec::new(),
            sent: 0,
            silent: HashSet::new(),
            left_out: Vec::new(),
            passed_over: HashMap::new(),
        }
    }

    fn places(&self, endpoint: &EndpointId) -> usize {
        if self.silent.contains(endpoint) {
            (self.options.concurrency_per_endpoint / 4).max(1)
        } else {
            self.options.concurrency_per_endpoint
        }
    }

    fn in_flight_to(&self, endpoint: &EndpointId) -> usize {
        self.in_flight.iter().filter(|one| one.endpoint == *endpoint).count()
    }

    fn in_flight_of(&self, owner: &OwnerId) -> usize {
        self.in_flight.iter().filter(|one| one.owner == *owner).count()
    }

    /// Whether an owner may have `own` slots while `all` slots are taken: always one, and otherwise at most seven times
    /// the free slots.
    fn leaves_enough(&self, own: usize, all: usize) -> bool {
        own <= 1 || own <= 7 * (self.options.concurrency - all)
    }

    /// Endpoints that could be sent to if the worker had a free slot, with their owners.
    fn sendable(&self) -> HashSet<(OwnerId, EndpointId)> {
        let in_flight = self.in_flight.len();
        let may_take = |owner: &OwnerId| {
            in_flight < self.options.concurrency && self.leaves_enough(self.in_flight_of(owner) + 1, in_flight + 1)
        };
        let mut sendable = self.at_hand();
        sendable.retain(|(owner, _)| may_take(owner));
        sendable
    }

    /// Endpoints that could be sent to if their owners had no limit of slots.
    fn at_hand(&self) -> HashSet<(OwnerId, EndpointId)> {
        let with_place: HashSet<EndpointId> = (0..ENDPOINTS)
            .map(endpoint_id)
            .filter(|one| self.in_flight_to(one) < self.places(one))
            .collect();
        let in_time = self.waiting.iter().filter(|(_, until)| *until > self.now);
        let sendable = in_time.filter(|(one, _)| with_place.contains(&one.endpoint));
        sendable
            .map(|(one, _)| (one.owner.clone(), one.endpoint.clone()))
            .collect()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Claimed(to, within_ms) => {
                let until = self.now + Duration::from_millis(within_ms);
                self.claims += 1;
                let token = format!("claim-{}", self.claims);
                let number = |at: usize| self.claims * 1_000 + at;
                let one = |(at, endpoint)| delivery(number(at), owner_of(endpoint), endpoint_id(endpoint), &token);
                let batch: Vec<_> = to.into_iter().enumerate().map(one).collect();
                self.waiting.extend(batch.iter().map(|one| (one.clone(), until)));
                self.turns.add(batch, until);
            }
            Happening::Asked(count) => {
                for _ in 0..count {
                    if !self.ask() {
                        break;
                    }
                }
            }
            Happening::Ended(which, manner) => {
                if !self.in_flight.is_empty() {
                    let ended = self.in_flight.remove(which % self.in_flight.len());
                    match manner {
                        EndpointManner::Silent => self.silent.insert(ended.endpoint.clone()),
                        _ => self.silent.remove(&ended.endpoint),
                    };
                    self.turns.done(&ended.endpoint, manner);
                }
            }
            Happening::Passed(ms) => self.now += Duration::from_millis(ms),
            Happening::ClaimBegan => self.begin_claim(),
        }
        let needs_more = |one: &EndpointId| !self.turns.is_busy(one);
        if self.left_out.iter().any(needs_more) {
            assert!(
                self.turns.has_freed(),
                "the worker must be notified when a skipped endpoint needs more deliveries"
            );
        }
    }

    /// Asks for one delivery; returns whether there was one.
    fn ask(&mut self) -> bool {
        let sendable = self.sendable();
        let next = self.turns.next(self.now);
        if let Some(next) = &next {
            self.check_sent(next, &sendable);
        } else if self.in_flight.len() < self.options.concurrency {
            assert!(
                sendable.is_empty(),
                "no slot may stay empty while deliveries to {sendable:?} could be sent"
            );
        }
        self.forget_who_cannot_be_served();
        next.is_some()
    }

    fn check_sent(&mut self, next: &ClaimedDelivery, sendable: &HashSet<(OwnerId, EndpointId)>) {
        let own = self.waiting.iter().position(|(one, _)| one.id == next.id);
        let own = own.expect("only a claimed delivery may be returned, and only once");
        assert!(
            self.waiting[own].1 > self.now,
            "a delivery must not be sent after its deadline"
        );
        let older = &self.waiting[..own];
        let overtakes = |(one, until): &&(ClaimedDelivery, Instant)| one.endpoint == next.endpoint && *until > self.now;
        assert!(
            older.iter().find(overtakes).is_none(),
            "a delivery must not overtake an older delivery of its endpoint"
        );
        assert!(
            self.in_flight_to(&next.endpoint) < self.places(&next.endpoint),
            "the endpoint of a sent delivery must have had a free slot"
        );
        assert!(
            self.in_flight.len() < self.options.concurrency,
            "the worker must have had a free slot"
        );
        self.in_flight.push(self.waiting.remove(own).0);
        self.sent += 1;
        let own = self.in_flight_of(&next.owner);
        assert!(
            self.leaves_enough(own, self.in_flight.len()),
            "{} has {own} slots, and must leave enough for other owners",
            next.owner
        );
        let mut waits_for: HashSet<(String, String)> = HashSet::new();
        for (owner, endpoint) in sendable {
            if *owner != next.owner {
                waits_for.insert((owner.to_string(), next.owner.to_string()));
            } else if *endpoint != next.endpoint {
                waits_for.insert((endpoint.to_string(), next.endpoint.to_string()));
            }
        }
        for (waits, by) in waits_for {
            let times = self.passed_over.entry((waits, by)).or_insert(0);
            *times += 1;
            assert!(
                *times <= 1,
                "an owner or endpoint that could be served must not be skipped twice in favour of the same other one"
            );
        }
        let served = [next.owner.as_str(), next.endpoint.as_str()];
        self.passed_over
            .retain(|(waits, _), _| !served.contains(&waits.as_str()));
    }

    /// Restarts the count of an owner or endpoint that cannot be served, because it has no delivery or no slot.
    fn forget_who_cannot_be_served(&mut self) {
        let sendable = self.sendable();
        let names = sendable
            .iter()
            .flat_map(|(owner, endpoint)| [owner.as_str(), endpoint.as_str()]);
        let names: HashSet<&str> = names.collect();
        self.passed_over.retain(|(waits, _), _| names.contains(waits.as_str()));
    }

    fn begin_claim(&mut self) {
        let wanted = self.turns.wanted(DateTime::UNIX_EPOCH, "token".to_owned());
        let free = self.options.concurrency - self.in_flight.len();
        let few = (self.options.concurrency / 16).max(1);
        assert!(
            wanted.limit <= u64::try_from(free.max(few)).unwrap(),
            "a claim must not request more deliveries than there are slots"
        );
        let sendable: HashSet<OwnerId> = self.sendable().into_iter().map(|(owner, _)| owner).collect();
        let at_hand: HashSet<OwnerId> = self.at_hand().into_iter().map(|(owner, _)| owner).collect();
        for owner in &wanted.served {
            let is_full = self.in_flight_of(owner) > 0 && !sendable.contains(owner);
            let waits = self.waiting.iter().any(|(one, _)| one.owner == *owner);
            assert!(
                is_full || waits,
                "the claim must not skip {owner}, which needs more deliveries"
            );
        }
        self.claims_begun += 1;
        if self.claims_begun.is_multiple_of(CLAIMS_BY_AGE) {
            assert!(wanted.served.is_empty(), "only age counts");
        } else {
            for owner in at_hand.difference(&sendable) {
                assert!(
                    wanted.served.contains(owner),
                    "the claim must exclude {owner}, which can get no slot"
                );
            }
        }
        assert!(wanted.share >= u64::try_from(self.options.concurrency_per_endpoint).unwrap());
        for endpoint in (0..ENDPOINTS).map(endpoint_id) {
            let has_nothing = self.waiting.iter().all(|(one, _)| one.endpoint != endpoint);
            let has_place = self.in_flight_to(&endpoint) < self.places(&endpoint);
            assert!(
                !(has_nothing && has_place && wanted.busy.contains(&endpoint)),
                "the claim must not skip {endpoint}, which has a free slot and no waiting delivery"
            );
        }
        assert!(
            !self.turns.has_freed(),
            "the worker must not be notified again before something changes after the claim"
        );
        self.left_out = wanted.busy;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn limits_hold_and_no_owner_starves_in_any_sequence(
        concurrency in 1..10_usize, per_endpoint in 1..7_usize, happenings in happenings(),
    ) {
        let mut world = World::new(options(concurrency, per_endpoint));
        for happening in happenings {
            world.happen(happening);
        }
    }

    #[test]
    fn a_claimed_delivery_is_sent_once_dropped_late_or_released(
        concurrency in 1..10_usize, per_endpoint in 1..7_usize, happenings in happenings(),
    ) {
        let mut world = World::new(options(concurrency, per_endpoint));
        for happening in happenings {
            world.happen(happening);
        }
        let World { turns, now, waiting, .. } = world;
        let tokens = turns.into_tokens();
        for (one, until) in &waiting {
            prop_assert!(*until <= now || tokens.contains(&one.lease_token), "{} is lost", one.id);
        }
        for token in &tokens {
            prop_assert!(
                waiting.iter().any(|(one, _)| one.lease_token == *token),
                "the claim {token} must have a waiting delivery"
            );
        }
    }

    #[test]
    fn every_delivery_in_time_is_sent_eventually(
        concurrency in 1..10_usize, per_endpoint in 1..7_usize, to in prop::collection::vec(0..ENDPOINTS, 1..60),
    ) {
        let mut world = World::new(options(concurrency, per_endpoint));
        let all = to.len();
        world.happen(Happening::Claimed(to, 1));
        for round in 0..all {
            world.happen(Happening::Asked(usize::MAX));
            world.happen(Happening::Ended(round, if round % 2 == 0 { EndpointManner::Silent } else { EndpointManner::Quick }));
        }
        prop_assert_eq!(world.sent, all);
    }
}

/// Turns with waiting deliveries, given as owner and endpoint, all of one claim and in time.
fn with_waiting(options: DeliveryOptions, to: &[(&str, &str)]) -> (DeliveryTurns, Instant) {
    let now = Instant::now();
    let mut turns = DeliveryTurns::new(options);
    add(&mut turns, to, now + Duration::from_secs(1));
    (turns, now)
}

fn add(turns: &mut DeliveryTurns, to: &[(&str, &str)], until: Instant) {
    let one = |(id, (owner, endpoint)): (usize, &(&str, &str))| {
        delivery(
            id,
            OwnerId((*owner).to_owned()),
            EndpointId((*endpoint).to_owned()),
            "token",
        )
    };
    turns.add(to.iter().enumerate().map(one).collect(), until);
}

/// The endpoints that are sent to, in order, as long as there is a free slot.
fn sent(turns: &mut DeliveryTurns, now: Instant) -> Vec<String> {
    std::iter::from_fn(|| turns.next(now))
        .map(|one| one.endpoint.to_string())
        .collect()
}

fn endpoint(name: &str) -> EndpointId {
    EndpointId(name.to_owned())
}

#[test]
fn owners_take_turns_and_then_their_endpoints() {
    let crowd = [
        ("a", "a1"),
        ("a", "a1"),
        ("a", "a2"),
        ("a", "a2"),
        ("a", "a3"),
        ("a", "a3"),
    ];
    let (mut turns, now) = with_waiting(options(99, 99), &crowd);
    add(&mut turns, &[("b", "b1"); 3], now + Duration::from_secs(1));
    add(&mut turns, &[("c", "c1")], now + Duration::from_secs(1));
    assert_eq!(
        sent(&mut turns, now),
        ["a1", "b1", "c1", "a2", "b1", "a3", "b1", "a1", "a2", "a3"]
    );
}

#[test]
fn unresponsive_endpoints_of_one_owner_leave_slots_for_others() {
    let silent: Vec<String> = (0..120).map(|number| format!("a{number}")).collect();
    let crowd: Vec<(&str, &str)> = silent.iter().flat_map(|name| [("a", name.as_str()); 20]).collect();
    let (mut turns, now) = with_waiting(options(256, 16), &crowd);
    assert_eq!(sent(&mut turns, now).len(), 224, "an eighth stays free");
    for late in 0..32 {
        let (owner, endpoint) = (format!("b{late}"), format!("b{late}.1"));
        add(&mut turns, &[(&owner, &endpoint)], now + Duration::from_secs(1));
        assert_eq!(
            sent(&mut turns, now),
            [endpoint],
            "owner b must get a slot although no delivery of owner a has ended"
        );
    }
}

#[test]
fn several_owners_with_unresponsive_endpoints_leave_slots_too() {
    let names: Vec<(String, String)> = (0..240).map(|n| (format!("a{}", n % 12), format!("a{n}"))).collect();
    let crowd: Vec<(&str, &str)> = names.iter().flat_map(|(a, b)| [(a.as_str(), b.as_str()); 9]).collect();
    let (mut turns, now) = with_waiting(options(256, 16), &crowd);
    let begun = sent(&mut turns, now).len();
    assert!((245..256).contains(&begun), "{begun}");
    add(&mut turns, &[("b", "b1")], now + Duration::from_secs(1));
    assert_eq!(sent(&mut turns, now), ["b1"]);
}

#[test]
fn an_unresponsive_endpoint_has_a_quarter_of_its_slots() {
    let (mut turns, now) = with_waiting(options(99, 8), &[("a", "a1"); 40]);
    assert_eq!(sent(&mut turns, now).len(), 8);
    for _ in 0..6 {
        turns.done(&endpoint("a1"), EndpointManner::Silent);
        assert_eq!(
            sent(&mut turns, now).len(),
            0,
            "no delivery may be sent while at least two are in flight"
        );
    }
    turns.done(&endpoint("a1"), EndpointManner::Silent);
    assert_eq!(sent(&mut turns, now).len(), 1);
    turns.done(&endpoint("a1"), EndpointManner::Usual);
    assert_eq!(
        sent(&mut turns, now).len(),
        7,
        "seven deliveries must be sent: one is in flight, and eight may be in flight"
    );
}

#[test]
fn a_delivery_that_waited_too_long_is_dropped_and_takes_no_slot() {
    let (mut turns, now) = with_waiting(options(1, 1), &[("a", "a1"), ("a", "a1"), ("b", "b1")]);
    let late = now + Duration::from_secs(1);
    add(&mut turns, &[("a", "a1")], late + Duration::from_millis(1));
    assert_eq!(
        sent(&mut turns, late),
        ["a1"],
        "only the last delivery must be sent: its deadline has not passed"
    );
    turns.done(&endpoint("a1"), EndpointManner::Usual);
    assert_eq!(sent(&mut turns, late), Vec::<String>::new());
    assert!(
        turns.into_tokens().is_empty(),
        "dropped deliveries must not be released at the end"
    );
}

#[test]
fn an_endpoint_with_enough_work_is_skipped_until_it_needs_more() {
    let (mut turns, now) = with_waiting(options(99, 2), &[("a", "a1"), ("a", "a1"), ("b", "b1")]);
    sent(&mut turns, now);
    assert_eq!(
        turns.leave_out(),
        [endpoint("a1")],
        "endpoint a1 must be skipped: it has no free slot"
    );
    turns.done(&endpoint("b1"), EndpointManner::Usual);
    assert!(!turns.has_freed());
    turns.done(&endpoint("a1"), EndpointManner::Usual);
    assert!(turns.has_freed());
}

#[test]
fn a_fast_endpoint_keeps_its_next_deliveries_ready() {
    let (mut turns, now) = with_waiting(options(99, 2), &[("a", "a1"); 11]);
    sent(&mut turns, now);
    turns.done(&endpoint("a1"), EndpointManner::Quick);
    assert_eq!(
        turns.leave_out(),
        [endpoint("a1")],
        "endpoint a1 must be skipped: nine deliveries wait, and two may be in flight"
    );
    sent(&mut turns, now);
    assert!(
        !turns.has_freed(),
        "eight waiting deliveries, four times the slots, must be enough"
    );
    turns.done(&endpoint("a1"), EndpointManner::Quick);
    sent(&mut turns, now);
    assert!(turns.has_freed(), "seven wait");
    assert!(turns.leave_out().is_empty());
}

#[test]
fn claims_are_larger_while_all_endpoints_respond_quickly() {
    let (mut turns, now) = with_waiting(options(99, 2), &[("a", "a1"), ("a", "a1"), ("b", "b1"), ("b", "b1")]);
    let share = |turns: &mut DeliveryTurns| turns.wanted(DateTime::UNIX_EPOCH, String::new()).share;
    sent(&mut turns, now);
    assert_eq!(share(&mut turns), 8);
    turns.done(&endpoint("a1"), EndpointManner::Quick);
    assert_eq!(
        share(&mut turns),
        8,
        "the share must not grow while only one of the two endpoints is fast"
    );
    turns.done(&endpoint("b1"), EndpointManner::Quick);
    assert_eq!(share(&mut turns), 32);
}

#[test]
fn a_claim_asks_for_no_more_than_the_free_capacity() {
    let (mut turns, now) = with_waiting(options(10, 2), &[("a", "a1"); 7]);
    assert_eq!(
        turns.room(),
        8,
        "two of the seven deliveries can be sent, so eight of ten slots must be left"
    );
    turns.next(now);
    assert_eq!(turns.room(), 8);
    let wanted = turns.wanted(DateTime::UNIX_EPOCH, "token".to_owned());
    assert_eq!((wanted.limit, wanted.busy), (8, vec![endpoint("a1")]));
}

#[test]
fn an_owner_with_enough_work_is_skipped_until_it_needs_more() {
    let (mut turns, now) = with_waiting(options(32, 20), &[("a", "a1"); 40]);
    let wanted = |turns: &mut DeliveryTurns| turns.wanted(DateTime::UNIX_EPOCH, String::new());
    assert_eq!(
        wanted(&mut turns).served,
        [],
        "owner a must not be skipped: it may have 28 slots, and only 20 of its deliveries can be sent"
    );
    add(&mut turns, &[("a", "a2"); 40], now + Duration::from_secs(1));
    let for_others = wanted(&mut turns);
    assert_eq!(
        (for_others.limit, for_others.served),
        (4, vec![OwnerId("a".to_owned())])
    );
    add(&mut turns, &[("b", "b1")], now + Duration::from_secs(1));
    assert_eq!(wanted(&mut turns).limit, 3);
    let begun = sent(&mut turns, now);
    assert_eq!((begun.len(), begun[1].as_str()), (28, "b1"));
    assert_eq!(turns.open(), 3, "b could have some");
    assert_eq!(wanted(&mut turns).served, [OwnerId("a".to_owned())]);
    turns.done(&endpoint("b1"), EndpointManner::Usual);
    assert!(!turns.has_freed());
    for name in begun.iter().filter(|name| name.starts_with('a')) {
        turns.done(&endpoint(name), EndpointManner::Usual);
    }
    assert!(
        !turns.has_freed(),
        "the worker must not be notified: owner a has more waiting deliveries than it may send"
    );
    sent(&mut turns, now);
    for name in ["a1", "a2"].iter().cycle().take(30) {
        turns.done(&endpoint(name), EndpointManner::Usual);
        sent(&mut turns, now);
    }
    assert!(turns.has_freed(), "a has nothing left");
}

#[test]
fn one_claim_in_eight_excludes_no_owner() {
    let (mut turns, _) = with_waiting(options(8, 20), &[("a", "a1"); 20]);
    let served = std::iter::from_fn(|| Some(turns.wanted(DateTime::UNIX_EPOCH, String::new()).served.len()));
    assert_eq!(served.take(9).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 0, 1]);
}

#[test]
fn waiting_deliveries_are_released_and_sent_ones_are_not() {
    let (mut turns, now) = with_waiting(options(1, 1), &[("a", "a1")]);
    assert_eq!(sent(&mut turns, now), ["a1"]);
    let other = delivery(7, OwnerId("a".to_owned()), endpoint("a1"), "other token");
    turns.add(vec![other], now + Duration::from_secs(1));
    assert_eq!(turns.into_tokens(), HashSet::from(["other token".to_owned()]));
}
