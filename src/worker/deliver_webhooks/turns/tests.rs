//! Turns under every order of events: bounds, fairness, and where what was claimed goes.

use super::*;
use crate::domain::ids::{DeliveryId, EventId};
use proptest::prelude::*;
use std::time::Duration;

/// Endpoints of the property tests.
const ENDPOINTS: usize = 9;

/// Their owners; endpoint 0 belongs to owner 0, endpoint 1 to owner 1 and so on, around and around.
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

fn options(concurrency: usize, concurrency_per_endpoint: usize) -> Options {
    Options {
        concurrency,
        concurrency_per_endpoint,
    }
}

/// Something that happens around the turns.
#[derive(Debug, Clone)]
enum Happening {
    /// A claim brings a delivery for each of these endpoints, to be sent within so many milliseconds.
    Claimed(Vec<usize>, u64),
    /// The loop asks for so many deliveries.
    Asked(usize),
    /// The try that began as the first, second … of those in flight ends.
    Ended(usize, Manner),
    /// So many milliseconds pass.
    Passed(u64),
    /// A claim begins.
    ClaimBegan,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let manner = prop_oneof![Just(Manner::Quick), Just(Manner::Usual), Just(Manner::Silent)];
    let happening = prop_oneof![
        3 => (prop::collection::vec(0..ENDPOINTS, 1..12), 1..400_u64).prop_map(|(to, ms)| Happening::Claimed(to, ms)),
        4 => (1..8_usize).prop_map(Happening::Asked),
        5 => (0..16_usize, manner).prop_map(|(which, manner)| Happening::Ended(which, manner)),
        1 => (1..100_u64).prop_map(Happening::Passed),
        1 => Just(Happening::ClaimBegan),
    ];
    prop::collection::vec(happening, 1..100)
}

/// What the turns are compared with: everything that was claimed, in plain lists.
struct World {
    turns: Turns,
    options: Options,
    now: Instant,
    claims: usize,
    claims_begun: u64,
    /// What was claimed and has not come out, in the order of the claims.
    waiting: Vec<(ClaimedDelivery, Instant)>,
    in_flight: Vec<ClaimedDelivery>,
    sent: usize,
    silent: HashSet<EndpointId>,
    left_out: Vec<EndpointId>,
    /// How often others were served while an owner, or an endpoint of the same owner, could have been.
    passed_over: HashMap<(String, String), usize>,
}

impl World {
    fn new(options: Options) -> Self {
        Self {
            turns: Turns::new(options),
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
        match self.silent.contains(endpoint) {
            true => (self.options.concurrency_per_endpoint / 4).max(1),
            false => self.options.concurrency_per_endpoint,
        }
    }

    fn in_flight_to(&self, endpoint: &EndpointId) -> usize {
        self.in_flight.iter().filter(|one| one.endpoint == *endpoint).count()
    }

    fn in_flight_of(&self, owner: &OwnerId) -> usize {
        self.in_flight.iter().filter(|one| one.owner == *owner).count()
    }

    /// Whether an owner may have so many places when so many are in flight in all: its first, or seven for each that stays free.
    fn leaves_enough(&self, own: usize, all: usize) -> bool {
        own <= 1 || own <= 7 * (self.options.concurrency - all)
    }

    /// Endpoints that could be sent to if there were a place in the worker, with their owners.
    fn sendable(&self) -> HashSet<(OwnerId, EndpointId)> {
        let in_flight = self.in_flight.len();
        let may_take = |owner: &OwnerId| {
            in_flight < self.options.concurrency && self.leaves_enough(self.in_flight_of(owner) + 1, in_flight + 1)
        };
        let mut sendable = self.at_hand();
        sendable.retain(|(owner, _)| may_take(owner));
        sendable
    }

    /// Endpoints that could be sent to if their owners might have any number of places.
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
                        Manner::Silent => self.silent.insert(ended.endpoint.clone()),
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
                "an endpoint that was left out needs more and nobody is told"
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
                "a place stays empty although {sendable:?} could be sent to"
            );
        }
        self.forget_who_cannot_be_served();
        next.is_some()
    }

    fn check_sent(&mut self, next: &ClaimedDelivery, sendable: &HashSet<(OwnerId, EndpointId)>) {
        let own = self.waiting.iter().position(|(one, _)| one.id == next.id);
        let own = own.expect("what comes out was claimed, and comes out once");
        assert!(self.waiting[own].1 > self.now, "it is sent after its time");
        let older = &self.waiting[..own];
        let overtakes = |(one, until): &&(ClaimedDelivery, Instant)| one.endpoint == next.endpoint && *until > self.now;
        assert!(
            older.iter().find(overtakes).is_none(),
            "it overtakes an older one of its endpoint"
        );
        assert!(
            self.in_flight_to(&next.endpoint) < self.places(&next.endpoint),
            "its endpoint has no place"
        );
        assert!(
            self.in_flight.len() < self.options.concurrency,
            "the worker has no place"
        );
        self.in_flight.push(self.waiting.remove(own).0);
        self.sent += 1;
        let own = self.in_flight_of(&next.owner);
        assert!(
            self.leaves_enough(own, self.in_flight.len()),
            "{} has {own} places and leaves too few",
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
                "somebody who could be served is passed over twice by the same one"
            );
        }
        let served = [next.owner.as_str(), next.endpoint.as_str()];
        self.passed_over
            .retain(|(waits, _), _| !served.contains(&waits.as_str()));
    }

    /// Who had no turn, because there was nothing or no place, begins to wait anew.
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
            "more is claimed than there are places"
        );
        let sendable: HashSet<OwnerId> = self.sendable().into_iter().map(|(owner, _)| owner).collect();
        let at_hand: HashSet<OwnerId> = self.at_hand().into_iter().map(|(owner, _)| owner).collect();
        for owner in &wanted.served {
            let is_full = self.in_flight_of(owner) > 0 && !sendable.contains(owner);
            let waits = self.waiting.iter().any(|(one, _)| one.owner == *owner);
            assert!(is_full || waits, "{owner} needs more and is left out");
        }
        self.claims_begun += 1;
        if self.claims_begun.is_multiple_of(CLAIMS_BY_AGE) {
            assert!(wanted.served.is_empty(), "age alone counts");
        } else {
            for owner in at_hand.difference(&sendable) {
                assert!(wanted.served.contains(owner), "{owner} can have no place and is asked");
            }
        }
        assert!(wanted.share >= u64::try_from(self.options.concurrency_per_endpoint).unwrap());
        for endpoint in (0..ENDPOINTS).map(endpoint_id) {
            let has_nothing = self.waiting.iter().all(|(one, _)| one.endpoint != endpoint);
            let has_place = self.in_flight_to(&endpoint) < self.places(&endpoint);
            assert!(
                !(has_nothing && has_place && wanted.busy.contains(&endpoint)),
                "{endpoint} could be sent to"
            );
        }
        assert!(!self.turns.has_freed(), "nothing has changed since the claim");
        self.left_out = wanted.busy;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn bounds_hold_and_nobody_starves_whatever_happens(
        concurrency in 1..10_usize, per_endpoint in 1..7_usize, happenings in happenings(),
    ) {
        let mut world = World::new(options(concurrency, per_endpoint));
        for happening in happenings {
            world.happen(happening);
        }
    }

    #[test]
    fn what_was_claimed_is_sent_once_or_dropped_late_or_handed_back(
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
            prop_assert!(waiting.iter().any(|(one, _)| one.lease_token == *token), "{token} has nothing that waits");
        }
    }

    #[test]
    fn everything_that_is_in_time_is_sent_in_the_end(
        concurrency in 1..10_usize, per_endpoint in 1..7_usize, to in prop::collection::vec(0..ENDPOINTS, 1..60),
    ) {
        let mut world = World::new(options(concurrency, per_endpoint));
        let all = to.len();
        world.happen(Happening::Claimed(to, 1));
        for round in 0..all {
            world.happen(Happening::Asked(usize::MAX));
            world.happen(Happening::Ended(round, if round % 2 == 0 { Manner::Silent } else { Manner::Quick }));
        }
        prop_assert_eq!(world.sent, all);
    }
}

/// Turns in which deliveries wait, given as owner and endpoint, all of one claim and in time.
fn with_waiting(options: Options, to: &[(&str, &str)]) -> (Turns, Instant) {
    let now = Instant::now();
    let mut turns = Turns::new(options);
    add(&mut turns, to, now + Duration::from_secs(1));
    (turns, now)
}

fn add(turns: &mut Turns, to: &[(&str, &str)], until: Instant) {
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

/// The endpoints that are sent to, in order, as long as there is a place.
fn sent(turns: &mut Turns, now: Instant) -> Vec<String> {
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
fn silent_endpoints_of_one_owner_leave_a_place_for_every_other() {
    let silent: Vec<String> = (0..120).map(|number| format!("a{number}")).collect();
    let crowd: Vec<(&str, &str)> = silent.iter().flat_map(|name| [("a", name.as_str()); 20]).collect();
    let (mut turns, now) = with_waiting(options(256, 16), &crowd);
    assert_eq!(sent(&mut turns, now).len(), 224, "an eighth stays free");
    for late in 0..32 {
        let (owner, endpoint) = (format!("b{late}"), format!("b{late}.1"));
        add(&mut turns, &[(&owner, &endpoint)], now + Duration::from_secs(1));
        assert_eq!(sent(&mut turns, now), [endpoint], "nothing of a has ended");
    }
}

#[test]
fn several_owners_with_silent_endpoints_leave_a_place_too() {
    let names: Vec<(String, String)> = (0..240).map(|n| (format!("a{}", n % 12), format!("a{n}"))).collect();
    let crowd: Vec<(&str, &str)> = names.iter().flat_map(|(a, b)| [(a.as_str(), b.as_str()); 9]).collect();
    let (mut turns, now) = with_waiting(options(256, 16), &crowd);
    let begun = sent(&mut turns, now).len();
    assert!((245..256).contains(&begun), "{begun}");
    add(&mut turns, &[("b", "b1")], now + Duration::from_secs(1));
    assert_eq!(sent(&mut turns, now), ["b1"]);
}

#[test]
fn an_endpoint_that_does_not_answer_has_a_quarter_of_its_places_until_it_answers() {
    let (mut turns, now) = with_waiting(options(99, 8), &[("a", "a1"); 40]);
    assert_eq!(sent(&mut turns, now).len(), 8);
    for _ in 0..6 {
        turns.done(&endpoint("a1"), Manner::Silent);
        assert_eq!(sent(&mut turns, now).len(), 0, "two are in flight at least");
    }
    turns.done(&endpoint("a1"), Manner::Silent);
    assert_eq!(sent(&mut turns, now).len(), 1);
    turns.done(&endpoint("a1"), Manner::Usual);
    assert_eq!(sent(&mut turns, now).len(), 7, "one is in flight, and eight may be");
}

#[test]
fn what_waited_too_long_is_dropped_and_takes_no_place() {
    let (mut turns, now) = with_waiting(options(1, 1), &[("a", "a1"), ("a", "a1"), ("b", "b1")]);
    let late = now + Duration::from_secs(1);
    add(&mut turns, &[("a", "a1")], late + Duration::from_millis(1));
    assert_eq!(
        sent(&mut turns, late),
        ["a1"],
        "the last one, since its time has not passed"
    );
    turns.done(&endpoint("a1"), Manner::Usual);
    assert_eq!(sent(&mut turns, late), Vec::<String>::new());
    assert!(
        turns.into_tokens().is_empty(),
        "what was dropped is not handed back either"
    );
}

#[test]
fn an_endpoint_with_enough_is_left_out_until_it_needs_more() {
    let (mut turns, now) = with_waiting(options(99, 2), &[("a", "a1"), ("a", "a1"), ("b", "b1")]);
    sent(&mut turns, now);
    assert_eq!(turns.leave_out(), [endpoint("a1")], "it has no place left");
    turns.done(&endpoint("b1"), Manner::Usual);
    assert!(!turns.has_freed());
    turns.done(&endpoint("a1"), Manner::Usual);
    assert!(turns.has_freed());
}

#[test]
fn a_quick_endpoint_keeps_the_next_ones_at_hand() {
    let (mut turns, now) = with_waiting(options(99, 2), &[("a", "a1"); 11]);
    sent(&mut turns, now);
    turns.done(&endpoint("a1"), Manner::Quick);
    assert_eq!(
        turns.leave_out(),
        [endpoint("a1")],
        "nine wait, and two may be in flight"
    );
    sent(&mut turns, now);
    assert!(!turns.has_freed(), "eight wait, four times as many");
    turns.done(&endpoint("a1"), Manner::Quick);
    sent(&mut turns, now);
    assert!(turns.has_freed(), "seven wait");
    assert!(turns.leave_out().is_empty());
}

#[test]
fn claims_are_larger_while_all_answer_quickly() {
    let (mut turns, now) = with_waiting(options(99, 2), &[("a", "a1"), ("a", "a1"), ("b", "b1"), ("b", "b1")]);
    let share = |turns: &mut Turns| turns.wanted(DateTime::UNIX_EPOCH, String::new()).share;
    sent(&mut turns, now);
    assert_eq!(share(&mut turns), 8);
    turns.done(&endpoint("a1"), Manner::Quick);
    assert_eq!(share(&mut turns), 8, "one of two is quick");
    turns.done(&endpoint("b1"), Manner::Quick);
    assert_eq!(share(&mut turns), 32);
}

#[test]
fn a_claim_asks_for_what_fits_beside_what_is_claimed_already() {
    let (mut turns, now) = with_waiting(options(10, 2), &[("a", "a1"); 7]);
    assert_eq!(turns.room(), 8, "two of the seven can be sent");
    turns.next(now);
    assert_eq!(turns.room(), 8);
    let wanted = turns.wanted(DateTime::UNIX_EPOCH, "token".to_owned());
    assert_eq!((wanted.limit, wanted.busy), (8, vec![endpoint("a1")]));
}

#[test]
fn an_owner_with_enough_is_left_out_of_the_claim_until_it_needs_more() {
    let (mut turns, now) = with_waiting(options(32, 20), &[("a", "a1"); 40]);
    let wanted = |turns: &mut Turns| turns.wanted(DateTime::UNIX_EPOCH, String::new());
    assert_eq!(
        wanted(&mut turns).served,
        [],
        "a may have 28 places, and 20 can be sent"
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
    turns.done(&endpoint("b1"), Manner::Usual);
    assert!(!turns.has_freed());
    for name in begun.iter().filter(|name| name.starts_with('a')) {
        turns.done(&endpoint(name), Manner::Usual);
    }
    assert!(!turns.has_freed(), "a has more at hand than it may send");
    sent(&mut turns, now);
    for name in ["a1", "a2"].iter().cycle().take(30) {
        turns.done(&endpoint(name), Manner::Usual);
        sent(&mut turns, now);
    }
    assert!(turns.has_freed(), "a has nothing left");
}

#[test]
fn one_claim_of_eight_leaves_no_owner_out() {
    let (mut turns, _) = with_waiting(options(8, 20), &[("a", "a1"); 20]);
    let served = std::iter::from_fn(|| Some(turns.wanted(DateTime::UNIX_EPOCH, String::new()).served.len()));
    assert_eq!(served.take(9).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 0, 1]);
}

#[test]
fn what_waits_is_handed_back_and_what_is_sent_is_not() {
    let (mut turns, now) = with_waiting(options(1, 1), &[("a", "a1")]);
    assert_eq!(sent(&mut turns, now), ["a1"]);
    let other = delivery(7, OwnerId("a".to_owned()), endpoint("a1"), "other token");
    turns.add(vec![other], now + Duration::from_secs(1));
    assert_eq!(turns.into_tokens(), HashSet::from(["other token".to_owned()]));
}
