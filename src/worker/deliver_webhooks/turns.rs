//! Whose turn it is: which claimed delivery is sent next, and what is wanted from the next claim.
//!
//! **Parties.** Owners (platforms and orchestrators) have endpoints, and deliveries go to endpoints. A claim brings
//! deliveries, each with the last moment at which it may be sent. The loop around this takes one after the other with
//! [`Turns::next`], sends them all at the same time, gives each place back with [`Turns::done`], and asks with
//! [`Turns::wanted`] what to claim. Nothing here reads a clock, waits, or knows the database: moments come in as
//! values, so that every order of events can be tried in a test.
//!
//! **What always holds.**
//! - At most [`Options::concurrency`] deliveries are in flight. An endpoint gets another one only while it has fewer
//!   than its places: [`Options::concurrency_per_endpoint`], or a quarter of them while it does not answer.
//! - An owner that has a place already gets another one only if it then has at most seven times what stays free. So one
//!   owner alone leaves an eighth of the places, two leave a fifteenth, and there is one for an owner that comes late,
//!   however slowly the receivers of the others answer and however many they are.
//! - What was claimed comes out once: it is sent, or it is dropped because its time has passed, or its claim is among
//!   [`Turns::into_tokens`], which hands it back at the stop. Those of one endpoint come out in the order of the
//!   claims.
//! - Nothing is sent after its time. So the lease outlasts the try, and nobody else sends the delivery meanwhile.
//! - Owners take turns, and the endpoints of one owner take turns among themselves. An owner that could send waits for
//!   one delivery of each other owner at most, however many endpoints these have and however much waits for them; an
//!   endpoint waits for one turn of each other endpoint of its owner. One that has no place left takes no turn.
//! - An endpoint that has enough is left out of the next claim, so that what waits for it takes no place that another
//!   could use. As soon as it needs more, [`Turns::has_freed`] says so.
//! - An owner whose deliveries at hand could take every place that it may have is left out of the claim: it asks what
//!   others wait for. So an owner that comes late is claimed with the next claim, not after what others have at hand.
//!
//! **What is not needed for correctness.** Nothing here is kept: a process that ends forgets it all, the leases end by
//! themselves, and the deliveries are claimed again with the same identity and retry count. That a try is recorded once
//! is the matter of the lease token, not of turns. How an endpoint behaved is a hint: it decides places and shares, and
//! forgetting it costs speed. Turns are fair to what was claimed; what is claimed is the matter of `store::outbox`,
//! where each owner has its part.

use crate::domain::{
    ids::{EndpointId, OwnerId},
    webhook::{ClaimedDelivery, Wanted},
};
use chrono::{DateTime, Utc};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Instant,
};

/// Deliveries of one endpoint that are claimed together, in multiples of what it may have in flight.
const SHARE_MULTIPLE: usize = 4;

/// The same while every endpoint at work answers quickly: larger claims cost less for each delivery.
const QUICK_SHARE_MULTIPLE: usize = 16;

/// What a quick endpoint keeps at hand, in multiples of what it may have in flight: enough to send while the next claim is
/// made.
const QUICK_AHEAD: usize = 4;

/// While there is no room, a claim for the owners that have nothing at hand asks for this part of the places.
const LATECOMERS_DIVISOR: usize = 16;

/// How many times the free places an owner may have.
const FREE_MULTIPLE: usize = 7;

/// One claim of so many leaves no owner out: then age alone counts, also for owners beyond those that a claim lists.
const CLAIMS_BY_AGE: u64 = 8;

/// Endpoints whose manner is remembered at most.
const REMEMBERED_MAX: usize = 10_000;

/// An endpoint that does not answer has this part of the usual places, so that it takes many of them to fill the
/// worker.
const SILENT_DIVISOR: usize = 4;

/// Sizes of the worker.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Deliveries in flight.
    pub concurrency: usize,
    /// Deliveries in flight to one endpoint.
    pub concurrency_per_endpoint: usize,
}

/// How an endpoint behaved in its last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Answered so fast that it is worth having the next deliveries at hand.
    Quick,
    /// Answered.
    Usual,
    /// Gave no complete answer.
    Silent,
}

/// What waits for an endpoint, each with the last moment at which it may be sent, and what is in flight to it.
struct Lane {
    owner: OwnerId,
    waiting: VecDeque<(ClaimedDelivery, Instant)>,
    in_flight: usize,
    /// Whether the endpoint is among those of its owner that take turns.
    has_turn: bool,
}

/// Claimed deliveries that wait for their turn, and what is in flight to each endpoint.
pub(super) struct Turns {
    options: Options,
    in_flight: usize,
    /// Deliveries in flight of each owner that has any.
    taken: HashMap<OwnerId, usize>,
    lanes: HashMap<EndpointId, Lane>,
    /// Owners in the order of their turns: those that `turns` knows.
    owners: VecDeque<OwnerId>,
    /// Endpoints of each owner in the order of their turns: those with something that waits and a place for it.
    turns: HashMap<OwnerId, VecDeque<EndpointId>>,
    /// Endpoints whose last try brought no complete answer.
    silent: HashSet<EndpointId>,
    /// Endpoints whose last answer was quick.
    quick: HashSet<EndpointId>,
    /// Endpoints that the last claim left out.
    left_out: HashSet<EndpointId>,
    /// Owners that the last claim left out.
    left_out_owners: HashSet<OwnerId>,
    has_freed: bool,
    claims: u64,
}

impl Turns {
    /// Nothing waits, and nothing is in flight.
    pub(super) fn new(options: Options) -> Self {
        Self {
            options: Options {
                concurrency: options.concurrency.max(1),
                concurrency_per_endpoint: options.concurrency_per_endpoint.max(1),
            },
            in_flight: 0,
            taken: HashMap::new(),
            lanes: HashMap::new(),
            owners: VecDeque::new(),
            turns: HashMap::new(),
            silent: HashSet::new(),
            quick: HashSet::new(),
            left_out: HashSet::new(),
            left_out_owners: HashSet::new(),
            has_freed: false,
            claims: 0,
        }
    }

    /// Takes a batch in that may be sent until a moment.
    pub(super) fn add(&mut self, batch: Vec<ClaimedDelivery>, until: Instant) {
        for delivery in batch {
            let endpoint = delivery.endpoint.clone();
            let lane = self.lanes.entry(endpoint.clone()).or_insert_with(|| Lane {
                owner: delivery.owner.clone(),
                waiting: VecDeque::new(),
                in_flight: 0,
                has_turn: false,
            });
            lane.waiting.push_back((delivery, until));
            self.give_turn(&endpoint);
        }
    }

    /// The next delivery, while there is a place for one; it is in flight from now on.
    pub(super) fn next(&mut self, now: Instant) -> Option<ClaimedDelivery> {
        // Owners that have enough places for now keep their turn.
        let mut passed = Vec::new();
        let mut next = None;
        while next.is_none()
            && self.in_flight < self.options.concurrency
            && let Some(owner) = self.owners.pop_front()
        {
            if self.allowance(&owner) == 0 {
                passed.push(owner);
                continue;
            }
            let mut endpoints = self.turns.remove(&owner).unwrap_or_default();
            while next.is_none()
                && let Some(endpoint) = endpoints.pop_front()
            {
                next = self.take(&endpoint, now);
                if self.lanes.get(&endpoint).is_some_and(|lane| lane.has_turn) {
                    endpoints.push_back(endpoint);
                }
            }
            if !endpoints.is_empty() {
                self.turns.insert(owner.clone(), endpoints);
                self.owners.push_back(owner);
            }
        }
        for owner in passed.into_iter().rev() {
            self.owners.push_front(owner);
        }
        next
    }

    /// Takes the turn of an endpoint. What has waited too long is dropped: it is claimed again when its lease ends.
    fn take(&mut self, endpoint: &EndpointId, now: Instant) -> Option<ClaimedDelivery> {
        let places = self.places(endpoint);
        let lane = self.lanes.get_mut(endpoint)?;
        while lane.waiting.pop_front_if(|(_, until)| *until <= now).is_some() {}
        let next = (lane.in_flight < places).then(|| lane.waiting.pop_front()).flatten();
        if next.is_some() {
            lane.in_flight += 1;
            self.in_flight += 1;
            *self.taken.entry(lane.owner.clone()).or_default() += 1;
        }
        lane.has_turn = !lane.waiting.is_empty() && lane.in_flight < places;
        self.settle(endpoint);
        next.map(|(delivery, _)| delivery)
    }

    /// Gives the place of a finished try back.
    pub(super) fn done(&mut self, endpoint: &EndpointId, manner: Manner) {
        remember(&mut self.silent, endpoint, manner == Manner::Silent);
        remember(&mut self.quick, endpoint, manner == Manner::Quick);
        if let Some(lane) = self.lanes.get_mut(endpoint)
            && lane.in_flight > 0
        {
            lane.in_flight -= 1;
            self.in_flight -= 1;
            if let Some(taken) = self.taken.get_mut(&lane.owner) {
                *taken -= 1;
                if *taken == 0 {
                    self.taken.remove(&lane.owner);
                }
            }
        }
        self.give_turn(endpoint);
        self.settle(endpoint);
    }

    /// Lets an endpoint take turns if it has something that waits and a place for it.
    fn give_turn(&mut self, endpoint: &EndpointId) {
        let places = self.places(endpoint);
        let Some(lane) = self.lanes.get_mut(endpoint) else {
            return;
        };
        if lane.has_turn || lane.waiting.is_empty() || lane.in_flight >= places {
            return;
        }
        lane.has_turn = true;
        let turns = self.turns.entry(lane.owner.clone()).or_default();
        if turns.is_empty() {
            self.owners.push_back(lane.owner.clone());
        }
        turns.push_back(endpoint.clone());
    }

    /// Forgets an endpoint that has nothing left, and notes when it or its owner was left out of the last claim and needs
    /// more.
    fn settle(&mut self, endpoint: &EndpointId) {
        let Some(lane) = self.lanes.get(endpoint) else { return };
        let is_idle = lane.in_flight == 0 && lane.waiting.is_empty();
        let was_left_out = self.left_out_owners.contains(&lane.owner);
        self.has_freed |= was_left_out && !self.is_served(&lane.owner);
        if is_idle {
            self.lanes.remove(endpoint);
        }
        self.has_freed |= self.left_out.contains(endpoint) && !self.is_busy(endpoint);
    }

    /// Places that nobody has.
    fn free(&self) -> usize {
        self.options.concurrency.saturating_sub(self.in_flight)
    }

    /// Further places that an owner may have at once, if nobody else takes one meanwhile.
    fn allowance(&self, owner: &OwnerId) -> usize {
        let (free, taken) = (self.free(), self.taken.get(owner).copied().unwrap_or_default());
        // The largest number for which what it then has is no more than the multiple of what is then free.
        let more = (FREE_MULTIPLE * free).saturating_sub(taken) / (FREE_MULTIPLE + 1);
        if taken == 0 { more.max(1).min(free) } else { more }
    }

    /// What an owner has at hand and could send if it might have any number of places.
    fn at_hand(&self, owner: &OwnerId) -> usize {
        let sendable = |endpoint| {
            let lane = self.lanes.get(endpoint)?;
            let room = self.places(endpoint).saturating_sub(lane.in_flight);
            Some(lane.waiting.len().min(room))
        };
        self.turns.get(owner).into_iter().flatten().filter_map(sendable).sum()
    }

    /// Whether an owner needs nothing more for now: what it has at hand could take every place that it may have.
    fn is_served(&self, owner: &OwnerId) -> bool {
        self.at_hand(owner) >= self.allowance(owner)
    }

    /// Owners with something in flight or at hand.
    fn owners_at_work(&self) -> HashSet<&OwnerId> {
        self.taken.keys().chain(self.turns.keys()).collect()
    }

    /// Deliveries that an endpoint may have in flight.
    fn places(&self, endpoint: &EndpointId) -> usize {
        let usual = self.options.concurrency_per_endpoint;
        if self.silent.contains(endpoint) {
            (usual / SILENT_DIVISOR).max(1)
        } else {
            usual
        }
    }

    /// Whether an endpoint needs nothing more for now: a quick one keeps the next ones at hand, so that it never waits
    /// for a claim.
    fn is_busy(&self, endpoint: &EndpointId) -> bool {
        let places = self.places(endpoint);
        let lane = self.lanes.get(endpoint);
        lane.is_some_and(|lane| match self.quick.contains(endpoint) {
            true => lane.waiting.len() >= self.options.concurrency_per_endpoint.saturating_mul(QUICK_AHEAD),
            false => !lane.waiting.is_empty() || lane.in_flight >= places,
        })
    }

    /// Places that nothing claimed could take at once.
    pub(super) fn room(&self) -> usize {
        let taking = |owner| self.at_hand(owner).min(self.allowance(owner));
        let sendable: usize = self.turns.keys().map(taking).sum();
        self.free().saturating_sub(sendable)
    }

    /// Places that the owners at work could take at once if more was claimed; all of them while nobody is at work.
    pub(super) fn open(&self) -> usize {
        let owners = self.owners_at_work();
        if owners.is_empty() {
            return self.options.concurrency;
        }
        let more = |owner: &OwnerId| self.allowance(owner).saturating_sub(self.at_hand(owner));
        owners.into_iter().map(more).sum::<usize>().min(self.free())
    }

    /// Whether the last claim left owners out.
    pub(super) fn has_left_owners_out(&self) -> bool {
        !self.left_out_owners.is_empty()
    }

    /// Deliveries that the next claim asks for: as many as there is room for; without room, a few for those who have
    /// nothing at hand.
    pub(super) fn limit(&self) -> usize {
        match self.room() {
            0 if self.turns.is_empty() => 0,
            0 => (self.options.concurrency / LATECOMERS_DIVISOR).max(1),
            room => room,
        }
    }

    /// Whether an endpoint or an owner that was left out needs more by now, so that it could be part of the next claim.
    pub(super) fn has_freed(&self) -> bool {
        self.has_freed
    }

    /// Endpoints that need nothing more for now, to be left out. From here on [`Self::has_freed`] watches them.
    pub(super) fn leave_out(&mut self) -> Vec<EndpointId> {
        let busy: Vec<EndpointId> = self.lanes.keys().filter(|one| self.is_busy(one)).cloned().collect();
        self.left_out = busy.iter().cloned().collect();
        self.has_freed = false;
        busy
    }

    /// What is wanted from a claim that begins at `now` under a fresh token.
    pub(super) fn wanted(&mut self, now: DateTime<Utc>, lease_token: String) -> Wanted {
        let is_quick = !self.quick.is_empty() && self.lanes.keys().all(|endpoint| self.quick.contains(endpoint));
        let multiple = if is_quick { QUICK_SHARE_MULTIPLE } else { SHARE_MULTIPLE };
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.claims += 1;
        let mut served: Vec<OwnerId> = Vec::new();
        if !self.claims.is_multiple_of(CLAIMS_BY_AGE) {
            let owners = self.owners_at_work().into_iter();
            served.extend(owners.filter(|owner| self.is_served(owner)).cloned());
        }
        self.left_out_owners = served.iter().cloned().collect();
        Wanted {
            now,
            lease_token,
            limit: wide(self.limit()),
            served,
            share: wide(self.options.concurrency_per_endpoint.saturating_mul(multiple)),
            busy: self.leave_out(),
        }
    }

    /// The claims of what waits, to be handed back.
    pub(super) fn into_tokens(self) -> HashSet<String> {
        let waiting = self.lanes.into_values().flat_map(|lane| lane.waiting);
        waiting.map(|(delivery, _)| delivery.lease_token).collect()
    }
}

/// Keeps a set of endpoints up to date. One that has grown too large begins anew: what it says is only a hint.
fn remember(set: &mut HashSet<EndpointId>, endpoint: &EndpointId, belongs: bool) {
    if !belongs {
        set.remove(endpoint);
    } else if !set.contains(endpoint) {
        if set.len() >= REMEMBERED_MAX {
            set.clear();
        }
        set.insert(endpoint.clone());
    }
}

#[cfg(test)]
mod tests;
