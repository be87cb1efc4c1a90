//! Scheduling: which claimed delivery is sent next, and what the next claim should request.
//!
//! **Terms.** Owners (platforms and orchestrators) have endpoints, and deliveries go to endpoints. A claim returns
//! deliveries, each with the latest time at which it may be sent. The delivery loop takes deliveries with
//! [`DeliveryTurns::next`], sends them concurrently, frees each slot with [`DeliveryTurns::done`], and gets the
//! parameters of the next claim with [`DeliveryTurns::wanted`].
//!
//! This module reads no clock, does not wait, and does not use the database. Times are passed in as values, so that
//! tests can run every order of events.
//!
//! **Invariants:**
//!
//! - At most [`DeliveryOptions::concurrency`] deliveries are in flight. An endpoint has
//!   [`DeliveryOptions::concurrency_per_endpoint`] slots, or a quarter of them while it is unresponsive. It gets no
//!   further delivery while all of its slots are taken.
//!
//! - The slots of an owner are at most seven times the free slots of the worker; the first slot of an owner is exempt.
//!   So one busy owner leaves an eighth of the slots free, and two leave a fifteenth. An owner whose first delivery
//!   comes late always finds a free slot, regardless of the number and speed of the other receivers.
//!
//! - Every claimed delivery leaves the module once. It is sent, or it is dropped because its time has passed, or the
//!   stop releases its claim ([`DeliveryTurns::into_tokens`]). Deliveries of one endpoint leave in the order of the
//!   claims.
//!
//! - No delivery is sent after its time. So the lease of a sent delivery lasts longer than the attempt, and no other
//!   worker sends the delivery meanwhile.
//!
//! - Owners take turns, and the endpoints of one owner take turns. An owner or endpoint without a free slot takes no
//!   turn. An owner with a delivery that could be sent waits for at most one delivery of each other owner, regardless
//!   of their endpoints and backlogs. An endpoint waits for one turn of each other endpoint of its owner.
//!
//! - An endpoint with enough claimed deliveries is skipped in the next claim, so that its backlog takes no slot that
//!   another endpoint could use. As soon as the endpoint needs more, [`DeliveryTurns::has_freed`] returns true.
//!
//! - An owner whose claimed deliveries could fill all of its slots is skipped in the next claim, which then reads other
//!   owners. So an owner whose first delivery comes late is in the next claim, and does not wait until the claimed
//!   deliveries of other owners are sent.
//!
//! **Not needed for correctness.** Nothing here is persistent: when a process ends, the leases expire, and the
//! deliveries are claimed again with the same id and retry count. The lease token, not this module, ensures that an
//! attempt is recorded once.
//!
//! The remembered behaviour of an endpoint is only a hint: it decides slots and shares, and losing it costs only speed.
//!
//! This module divides the slots among claimed deliveries. `store::outbox` decides which deliveries are claimed, with a
//! share for each owner.

use crate::domain::{
    ids::{EndpointId, OwnerId},
    webhook::{ClaimRequest, ClaimedDelivery},
};
use chrono::{DateTime, Utc};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Instant,
};

/// Maximum number of deliveries of one endpoint in a claim, as a multiple of its slots.
const SHARE_MULTIPLE: usize = 4;

/// Maximum number of deliveries of one endpoint in a claim while every active endpoint is fast, as a multiple of its
/// slots: larger claims cost less per delivery.
const QUICK_SHARE_MULTIPLE: usize = 16;

/// Number of claimed deliveries that a fast endpoint keeps in reserve, as a multiple of its slots: enough to send
/// during the next claim.
const QUICK_AHEAD: usize = 4;

/// If claimed deliveries can fill all free slots, the next claim is for owners without claimed deliveries. It then
/// requests the number of slots divided by this number.
const LATECOMERS_DIVISOR: usize = 16;

/// Maximum ratio of an owner's slots to the free slots.
const FREE_MULTIPLE: usize = 7;

/// One claim out of this number of claims skips no owner and orders deliveries only by age. So claims also reach owners
/// beyond the number of owners that a claim can list.
const CLAIMS_BY_AGE: u64 = 8;

/// Maximum number of endpoints whose behaviour is remembered.
const REMEMBERED_MAX: usize = 10_000;

/// An unresponsive endpoint has the usual number of slots divided by this number, so that only many unresponsive
/// endpoints together fill the worker.
const SILENT_DIVISOR: usize = 4;

/// Limits of the worker.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryOptions {
    /// Maximum number of deliveries in flight.
    pub concurrency: usize,
    /// Maximum number of deliveries in flight to one endpoint.
    pub concurrency_per_endpoint: usize,
}

/// Behaviour of an endpoint in its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointManner {
    /// The endpoint responded so fast that it should have its next deliveries in reserve.
    Quick,
    /// Responded.
    Usual,
    /// Returned no complete response.
    Silent,
}

/// Claimed deliveries of an endpoint, each with the latest time for sending, and its deliveries in flight.
struct EndpointLane {
    owner: OwnerId,
    waiting: VecDeque<(ClaimedDelivery, Instant)>,
    in_flight: usize,
    /// Whether the endpoint is in the queue of its owner's endpoints that take turns.
    has_turn: bool,
}

/// Claimed deliveries that wait for their turn, and deliveries in flight to each endpoint.
pub(super) struct DeliveryTurns {
    options: DeliveryOptions,
    in_flight: usize,
    /// Deliveries in flight of each owner that has any.
    taken: HashMap<OwnerId, usize>,
    lanes: HashMap<EndpointId, EndpointLane>,
    /// Owners with endpoints in `turns`, in the order of their turns.
    owners: VecDeque<OwnerId>,
    /// Endpoints of each owner in the order of their turns: those with claimed deliveries and a free slot.
    turns: HashMap<OwnerId, VecDeque<EndpointId>>,
    /// Endpoints whose last attempt had no complete response.
    silent: HashSet<EndpointId>,
    /// Endpoints whose last response was fast.
    quick: HashSet<EndpointId>,
    /// Endpoints that the last claim skipped.
    left_out: HashSet<EndpointId>,
    /// Owners that the last claim skipped.
    left_out_owners: HashSet<OwnerId>,
    has_freed: bool,
    claims: u64,
}

impl DeliveryTurns {
    /// Whether nothing is claimed or in flight.
    pub(super) fn new(options: DeliveryOptions) -> Self {
        Self {
            options: DeliveryOptions {
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

    /// Adds a batch that may be sent until the given time.
    pub(super) fn add(&mut self, batch: Vec<ClaimedDelivery>, until: Instant) {
        for delivery in batch {
            let endpoint = delivery.endpoint.clone();
            let lane = self.lanes.entry(endpoint.clone()).or_insert_with(|| EndpointLane {
                owner: delivery.owner.clone(),
                waiting: VecDeque::new(),
                in_flight: 0,
                has_turn: false,
            });
            lane.waiting.push_back((delivery, until));
            self.give_turn(&endpoint);
        }
    }

    /// The next delivery, if a slot is free. It then counts as in flight.
    pub(super) fn next(&mut self, now: Instant) -> Option<ClaimedDelivery> {
        // Owners at their slot limit keep their turn.
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

    /// Takes the turn of an endpoint. A delivery that has waited too long is dropped; it is claimed again when its
    /// lease ends.
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

    /// Frees the slot of a finished attempt.
    pub(super) fn done(&mut self, endpoint: &EndpointId, manner: EndpointManner) {
        remember(&mut self.silent, endpoint, manner == EndpointManner::Silent);
        remember(&mut self.quick, endpoint, manner == EndpointManner::Quick);
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

    /// Lets an endpoint take turns if it has claimed deliveries and a free slot.
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

    /// Updates the records about an endpoint after a change: forgets it if it has no deliveries, and notes whether the
    /// last claim skipped the endpoint or its owner although one of them needs more deliveries now.
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

    /// Free slots.
    fn free(&self) -> usize {
        self.options.concurrency.saturating_sub(self.in_flight)
    }

    /// Number of further slots that an owner may take now.
    fn allowance(&self, owner: &OwnerId) -> usize {
        let (free, taken) = (self.free(), self.taken.get(owner).copied().unwrap_or_default());
        // `more` is the largest number of further slots for which the slots of the owner are at most [`FREE_MULTIPLE`]
        // times the remaining free slots.
        let more = (FREE_MULTIPLE * free).saturating_sub(taken) / (FREE_MULTIPLE + 1);
        if taken == 0 { more.max(1).min(free) } else { more }
    }

    /// Number of claimed deliveries that an owner could send if only the slots of its endpoints limited it.
    fn at_hand(&self, owner: &OwnerId) -> usize {
        let sendable = |endpoint| {
            let lane = self.lanes.get(endpoint)?;
            let room = self.places(endpoint).saturating_sub(lane.in_flight);
            Some(lane.waiting.len().min(room))
        };
        self.turns.get(owner).into_iter().flatten().filter_map(sendable).sum()
    }

    /// Whether an owner needs no more deliveries, because its claimed deliveries could fill all of its slots.
    fn is_served(&self, owner: &OwnerId) -> bool {
        self.at_hand(owner) >= self.allowance(owner)
    }

    /// Owners with deliveries in flight or claimed.
    fn owners_at_work(&self) -> HashSet<&OwnerId> {
        self.taken.keys().chain(self.turns.keys()).collect()
    }

    /// Number of slots of an endpoint.
    fn places(&self, endpoint: &EndpointId) -> usize {
        let usual = self.options.concurrency_per_endpoint;
        if self.silent.contains(endpoint) {
            (usual / SILENT_DIVISOR).max(1)
        } else {
            usual
        }
    }

    /// Whether an endpoint needs no more deliveries. A fast endpoint keeps a reserve, so that it never waits for a
    /// claim.
    fn is_busy(&self, endpoint: &EndpointId) -> bool {
        let places = self.places(endpoint);
        let lane = self.lanes.get(endpoint);
        lane.is_some_and(|lane| {
            if self.quick.contains(endpoint) {
                lane.waiting.len() >= self.options.concurrency_per_endpoint.saturating_mul(QUICK_AHEAD)
            } else {
                !lane.waiting.is_empty() || lane.in_flight >= places
            }
        })
    }

    /// Number of free slots that no claimed delivery can use now.
    pub(super) fn room(&self) -> usize {
        let taking = |owner| self.at_hand(owner).min(self.allowance(owner));
        let sendable: usize = self.turns.keys().map(taking).sum();
        self.free().saturating_sub(sendable)
    }

    /// Number of slots that the active owners could fill with further claims; all slots while no owner is active.
    pub(super) fn open(&self) -> usize {
        let owners = self.owners_at_work();
        if owners.is_empty() {
            return self.options.concurrency;
        }
        let more = |owner: &OwnerId| self.allowance(owner).saturating_sub(self.at_hand(owner));
        owners.into_iter().map(more).sum::<usize>().min(self.free())
    }

    /// Whether the last claim skipped owners.
    pub(super) fn has_left_owners_out(&self) -> bool {
        !self.left_out_owners.is_empty()
    }

    /// Number of deliveries for the next claim: the free slots that no claimed delivery can use. If there are none but
    /// an endpoint has a claimed delivery and a free slot, the claim is for a few deliveries of owners without claimed
    /// deliveries. Otherwise 0.
    pub(super) fn limit(&self) -> usize {
        match self.room() {
            0 if self.turns.is_empty() => 0,
            0 => (self.options.concurrency / LATECOMERS_DIVISOR).max(1),
            room => room,
        }
    }

    /// Whether a skipped endpoint or owner needs more now, so that it could be part of the next claim.
    pub(super) fn has_freed(&self) -> bool {
        self.has_freed
    }

    /// Returns the endpoints that the next claim skips, because they need no more deliveries. [`Self::has_freed`]
    /// returns true as soon as one of them needs more.
    pub(super) fn leave_out(&mut self) -> Vec<EndpointId> {
        let busy: Vec<EndpointId> = self.lanes.keys().filter(|one| self.is_busy(one)).cloned().collect();
        self.left_out = busy.iter().cloned().collect();
        self.has_freed = false;
        busy
    }

    /// Parameters of a claim that begins at `now` with a new token.
    pub(super) fn wanted(&mut self, now: DateTime<Utc>, lease_token: String) -> ClaimRequest {
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
        ClaimRequest {
            now,
            lease_token,
            limit: wide(self.limit()),
            served,
            share: wide(self.options.concurrency_per_endpoint.saturating_mul(multiple)),
            busy: self.leave_out(),
        }
    }

    /// The claims of waiting deliveries, to be released.
    pub(super) fn into_tokens(self) -> HashSet<String> {
        let waiting = self.lanes.into_values().flat_map(|lane| lane.waiting);
        waiting.map(|(delivery, _)| delivery.lease_token).collect()
    }
}

/// Adds an endpoint to a set or removes it. A set that becomes too large is cleared, because it is only a hint.
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
