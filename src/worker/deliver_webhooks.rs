//! Sends due deliveries: claims batches, sends many at a time but few to each endpoint, records in batches.
//!
//! One endpoint cannot hold up the others: what waits for a full endpoint takes no place that another could use, an
//! endpoint that has enough is left out of the next claim, and one that does not answer gets fewer places until it
//! does. A delivery is sent only while its lease outlasts the try, so that nobody else sends it at the same time.
//! Leases and pauses between tries are times of the clock of the machine. A jump of it is noticed by the time that
//! really passed, and what waits is moved along before anything is claimed, so that no try comes early or hours late. A
//! jump forward that nobody sees, because no worker runs, makes them early once; one back ends their waits at the start.

use crate::{
    ctx::Ctx,
    domain::{
        ids::EndpointId,
        webhook::{ClaimedDelivery, LEASE_MS, TRY_TIMEOUT_MS},
    },
    flows::{
        FlowResult,
        webhooks::{
            deliver::{self, Tried},
            follow_clock,
        },
    },
};
use chrono::{DateTime, TimeDelta, Utc};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Longest sleep when nothing seems due; another instance may have queued something.
const IDLE_PAUSE: Duration = Duration::from_millis(250);

/// Pause after the database did not answer.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Longest wait of a busy worker for a batch that is worth a claim.
const GATHER_PAUSE: Duration = Duration::from_millis(20);

/// Tries that are recorded together at most.
const RECORD_BATCH: usize = 256;

/// Deliveries of one endpoint that are claimed together, in multiples of what it may have in flight.
const SHARE_MULTIPLE: usize = 4;

/// The same while every endpoint at work answers quickly: larger claims cost less for each delivery.
const QUICK_SHARE_MULTIPLE: usize = 16;

/// An answer within this time is quick: a share of deliveries is sent long before its lease ends.
const QUICK: TimeDelta = TimeDelta::milliseconds(100);

/// Endpoints whose manner is remembered at most.
const REMEMBERED_MAX: usize = 10_000;

/// An endpoint that does not answer has this part of the usual places, so that it takes many of them to fill the worker.
const SILENT_DIVISOR: usize = 4;

/// How long after its claim a delivery may still be sent: its try, and a second to record it, fit into the lease.
const SEND_WITHIN: Duration = Duration::from_millis(LEASE_MS.unsigned_abs() - TRY_TIMEOUT_MS - 1_000);

/// A step of the clock that is no correction of its drift; longer than any pause or lease.
const JUMP_MIN: TimeDelta = TimeDelta::seconds(60);

/// How long after a jump times of the old clock may still be written: a try that began before it, and its record.
const JUMP_ECHO: Duration = Duration::from_millis(TRY_TIMEOUT_MS + 5_000);

/// What the clock would show without a jump, and the jump.
type Jump = (DateTime<Utc>, TimeDelta);

/// Compares the clock of the machine with the time that passes.
struct Watch {
    wall: DateTime<Utc>,
    at: Instant,
    /// The last jump, as long as it has an echo.
    echo: Option<(Jump, Instant)>,
}

impl Watch {
    fn new(wall: DateTime<Utc>) -> Self {
        Self {
            wall,
            at: Instant::now(),
            echo: None,
        }
    }

    /// A jump since the last look.
    fn jump(&self, wall: DateTime<Utc>) -> Option<Jump> {
        let passed = TimeDelta::from_std(self.at.elapsed()).unwrap_or(TimeDelta::MAX);
        let expected = self.wall.checked_add_signed(passed)?;
        let by = wall - expected;
        (by.abs() >= JUMP_MIN).then_some((expected, by))
    }

    /// Moves along what waits. Nothing may be claimed while the answer is an error: those that wait do not know the
    /// clock yet.
    async fn follow(&mut self, ctx: &Ctx) -> FlowResult<()> {
        if let Some(((before, by), until)) = self.echo {
            follow_clock::run(ctx, before, by).await?;
            self.echo = self.echo.filter(|_| Instant::now() < until);
        }
        // The look comes last, so that a claim follows it at once; what was done meanwhile may have taken long.
        loop {
            let (wall, seen) = (ctx.clock.now(), Instant::now());
            let jump = self.jump(wall);
            if let Some((before, by)) = jump {
                tracing::warn!(jump_s = by.num_seconds(), "the clock of the machine jumped");
                follow_clock::run(ctx, before, by).await?;
                self.echo = Some(((before, by), Instant::now() + JUMP_ECHO));
            }
            self.wall = wall;
            self.at = seen;
            if jump.is_none() {
                return Ok(());
            }
        }
    }
}

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
enum Manner {
    /// Answered so fast that it is worth having the next deliveries at hand.
    Quick,
    /// Answered.
    Usual,
    /// Gave no complete answer.
    Silent,
}

impl Manner {
    fn of(tried: &Tried) -> Self {
        let outcome = &tried.outcome;
        if outcome.error.is_some() {
            Self::Silent
        } else if outcome.ended_at - outcome.started_at <= QUICK {
            Self::Quick
        } else {
            Self::Usual
        }
    }
}

/// What waits for an endpoint, each with the last moment at which it may be sent, and what is in flight to it.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<(ClaimedDelivery, Instant)>,
    in_flight: usize,
}

/// Claimed deliveries that wait for their turn, and what is in flight to each endpoint.
struct Turns {
    per_endpoint: usize,
    lanes: HashMap<EndpointId, Lane>,
    /// Endpoints that may have something to send and room for it, in the order of their turns.
    ready: VecDeque<EndpointId>,
    /// Endpoints whose last try brought no complete answer.
    silent: HashSet<EndpointId>,
    /// Endpoints whose last answer was quick.
    quick: HashSet<EndpointId>,
    /// Whether an endpoint that was left out of the last claim could be part of the next one.
    has_freed: bool,
}

impl Turns {
    fn new(per_endpoint: usize) -> Self {
        Self {
            per_endpoint: per_endpoint.max(1),
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            silent: HashSet::new(),
            quick: HashSet::new(),
            has_freed: false,
        }
    }

    /// Deliveries that an endpoint may have in flight.
    fn places(&self, endpoint: &EndpointId) -> usize {
        if self.silent.contains(endpoint) {
            (self.per_endpoint / SILENT_DIVISOR).max(1)
        } else {
            self.per_endpoint
        }
    }

    /// Deliveries of one endpoint that are claimed together.
    fn share(&self) -> usize {
        let is_quick = !self.quick.is_empty() && self.lanes.keys().all(|endpoint| self.quick.contains(endpoint));
        let multiple = if is_quick { QUICK_SHARE_MULTIPLE } else { SHARE_MULTIPLE };
        self.per_endpoint.saturating_mul(multiple)
    }

    /// Whether an endpoint needs nothing more for now: a quick one keeps the next ones at hand, so that it never waits
    /// for a claim.
    fn is_busy(&self, endpoint: &EndpointId) -> bool {
        let places = self.places(endpoint);
        let lane = self.lanes.get(endpoint);
        lane.is_some_and(|lane| match self.quick.contains(endpoint) {
            true => lane.waiting.len() >= self.per_endpoint,
            false => !lane.waiting.is_empty() || lane.in_flight >= places,
        })
    }

    /// Endpoints that need nothing more for now.
    fn busy(&self) -> Vec<EndpointId> {
        let busy = self.lanes.keys().filter(|endpoint| self.is_busy(endpoint));
        busy.cloned().collect()
    }

    /// Deliveries that could be sent at once.
    fn sendable(&self) -> usize {
        let of = |endpoint| {
            let lane = self.lanes.get(endpoint)?;
            let room = self.places(endpoint).saturating_sub(lane.in_flight);
            Some(lane.waiting.len().min(room))
        };
        self.ready.iter().filter_map(of).sum()
    }

    /// Takes a batch in.
    fn add(&mut self, batch: Vec<ClaimedDelivery>, until: Instant) {
        let mut endpoints = HashSet::new();
        for delivery in batch {
            endpoints.insert(delivery.endpoint.clone());
            let lane = self.lanes.entry(delivery.endpoint.clone()).or_default();
            lane.waiting.push_back((delivery, until));
        }
        self.ready.extend(endpoints);
    }

    /// The next delivery whose endpoint has room: endpoints take turns.
    ///
    /// What has waited too long is dropped: its lease ends by itself, and it is claimed again with the same identity.
    fn next(&mut self, now: Instant) -> Option<ClaimedDelivery> {
        while let Some(endpoint) = self.ready.pop_front() {
            let places = self.places(&endpoint);
            let Some(lane) = self.lanes.get_mut(&endpoint) else {
                continue;
            };
            if lane.in_flight >= places {
                continue;
            }
            let had_enough = lane.waiting.len() >= self.per_endpoint;
            while lane.waiting.pop_front_if(|(_, until)| *until <= now).is_some() {}
            let next = lane.waiting.pop_front();
            if next.is_some() {
                lane.in_flight += 1;
            }
            let is_short = had_enough && lane.waiting.len() < self.per_endpoint;
            self.has_freed |= is_short && self.quick.contains(&endpoint);
            if lane.in_flight == 0 {
                self.lanes.remove(&endpoint);
            } else if !lane.waiting.is_empty() {
                self.ready.push_back(endpoint);
            } else if lane.in_flight < places {
                self.has_freed = true;
            }
            if let Some((delivery, _)) = next {
                return Some(delivery);
            }
            self.has_freed = true;
        }
        None
    }

    /// Gives the place of a finished try back.
    fn done(&mut self, endpoint: &EndpointId, manner: Manner) {
        let was_busy = self.is_busy(endpoint);
        remember(&mut self.silent, endpoint, manner == Manner::Silent);
        remember(&mut self.quick, endpoint, manner == Manner::Quick);
        if let Some(lane) = self.lanes.get_mut(endpoint) {
            lane.in_flight -= 1;
            if !lane.waiting.is_empty() {
                self.ready.push_back(endpoint.clone());
            } else if lane.in_flight == 0 {
                self.lanes.remove(endpoint);
            }
        }
        self.has_freed |= was_busy && !self.is_busy(endpoint);
    }

    fn into_tokens(self) -> HashSet<String> {
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

/// What is being sent, and to whom: a task that ends without a result gives its place back all the same.
#[derive(Default)]
struct Sending {
    tasks: JoinSet<Tried>,
    endpoints: HashMap<Id, EndpointId>,
}

impl Sending {
    fn start(&mut self, ctx: &Ctx, delivery: ClaimedDelivery) {
        let ctx = ctx.clone();
        let endpoint = delivery.endpoint.clone();
        let task = self.tasks.spawn(async move { deliver::send(&ctx, delivery).await });
        self.endpoints.insert(task.id(), endpoint);
    }
}

/// A finished task.
type Finished = Result<(Id, Tried), JoinError>;

/// What the database answered.
enum Answer {
    /// A batch, whether there may be more than was asked for, and until when it may be sent.
    Claimed(Vec<ClaimedDelivery>, bool, Instant),
    /// How long to wait before the next claim.
    Pause(Duration),
}

/// Tries that are made and not yet recorded. They are recorded in one batch after the other, while others are sent.
///
/// A batch is written by a task of its own: a future that waits here would keep the one writer of SQLite from whoever
/// the loop waits for.
#[derive(Default)]
struct Records {
    made: Vec<Tried>,
    writing: JoinSet<()>,
}

impl Records {
    /// Begins a batch, unless one is being written.
    fn start(&mut self, ctx: &Ctx) {
        if !self.writing.is_empty() || self.made.is_empty() {
            return;
        }
        let batch: Vec<Tried> = self.made.drain(..self.made.len().min(RECORD_BATCH)).collect();
        let ctx = ctx.clone();
        self.writing.spawn(async move {
            if let Err(error) = deliver::record(&ctx, &batch).await {
                // The receivers may have the events already; after the lease they are sent again, under the same identity.
                tracing::warn!(%error, count = batch.len(), "tries could not be recorded");
            }
        });
    }

    /// Writes all that is left.
    async fn finish(&mut self, ctx: &Ctx) {
        loop {
            self.start(ctx);
            match self.writing.join_next().await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::error!(%error, "a batch of tries was not recorded"),
            }
        }
    }
}

/// Runs until `stop`, then finishes what is in flight and hands back what was only claimed.
///
/// Nothing here waits for the database alone: while a batch is claimed and another one recorded, sending goes on.
pub async fn run(ctx: Ctx, options: Options, stop: CancellationToken) {
    let mut sending = Sending::default();
    let mut turns = Turns::new(options.concurrency_per_endpoint);
    let mut records = Records::default();
    let mut asking: JoinSet<Answer> = JoinSet::new();
    // Whether more may be due than was claimed; when not, the pause tells when to look again.
    let mut is_hungry = true;
    let mut pause = IDLE_PAUSE;
    let mut claimed_at = Instant::now();
    let mut watch = Watch::new(ctx.clock.now());
    if let Err(error) = follow_clock::begin(&ctx).await {
        tracing::warn!(%error, "waits could not be compared with the clock");
    }
    while !stop.is_cancelled() {
        if let Err(error) = watch.follow(&ctx).await {
            tracing::warn!(%error, "what waits could not be moved along with the clock");
            tokio::time::sleep(FAILURE_PAUSE).await;
            continue;
        }
        while sending.tasks.len() < options.concurrency
            && let Some(delivery) = turns.next(Instant::now())
        {
            sending.start(&ctx, delivery);
        }
        is_hungry |= turns.has_freed;
        let taken = sending.tasks.len() + turns.sendable();
        let room = options.concurrency.saturating_sub(taken);
        // Small claims cost as much as large ones, so a busy worker waits a moment for a quarter of its room.
        let is_worth_it = room >= options.concurrency / 4 || claimed_at.elapsed() >= GATHER_PAUSE;
        if asking.is_empty() && is_hungry && room > 0 && is_worth_it {
            claimed_at = Instant::now();
            is_hungry = false;
            turns.has_freed = false;
            pause = IDLE_PAUSE;
            asking.spawn(claim(ctx.clone(), watch.wall, room, turns.share(), turns.busy()));
        }
        records.start(&ctx);
        let nap = if is_hungry { GATHER_PAUSE } else { pause };
        tokio::select! {
            () = ctx.due.notified() => is_hungry = true,
            () = tokio::time::sleep(nap) => is_hungry = true,
            Some(finished) = sending.tasks.join_next_with_id() => collect(&mut sending, &mut turns, &mut records, finished),
            Some(answer) = asking.join_next() => match answer {
                Ok(Answer::Claimed(batch, may_be_more, until)) => {
                    turns.add(batch, until);
                    if may_be_more {
                        is_hungry = true;
                    } else {
                        asking.spawn(until_due(ctx.clone(), turns.busy()));
                    }
                }
                Ok(Answer::Pause(until_due)) => pause = until_due,
                Err(error) => tracing::error!(%error, "a claim ended without a result; its lease ends by itself"),
            },
            Some(written) = records.writing.join_next() => if let Err(error) = written {
                tracing::error!(%error, "a batch of tries was not recorded");
            },
            () = stop.cancelled() => {}
        }
    }
    while let Some(answer) = asking.join_next().await {
        if let Ok(Answer::Claimed(batch, _, until)) = answer {
            turns.add(batch, until);
        }
    }
    while let Some(finished) = sending.tasks.join_next_with_id().await {
        collect(&mut sending, &mut turns, &mut records, finished);
        records.start(&ctx);
    }
    records.finish(&ctx).await;
    for token in turns.into_tokens() {
        if let Err(error) = deliver::release(&ctx, &token).await {
            tracing::warn!(%error, "claimed deliveries could not be handed back; their lease ends by itself");
        }
    }
}

/// Claims a batch for endpoints that are not busy.
async fn claim(ctx: Ctx, now: DateTime<Utc>, room: usize, share: usize, busy: Vec<EndpointId>) -> Answer {
    let token = ctx.ids.ulid();
    let until = Instant::now() + SEND_WITHIN;
    let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    match deliver::claim_shared(&ctx, now, &token, wide(room), wide(share), &busy).await {
        Ok(batch) => {
            let is_full = batch.len() == room || is_cut(&batch, share);
            Answer::Claimed(batch, is_full, until)
        }
        Err(error) => {
            tracing::warn!(%error, "due deliveries could not be claimed");
            Answer::Pause(FAILURE_PAUSE)
        }
    }
}

/// Whether an endpoint got all that it may have, so that it may have more.
fn is_cut(batch: &[ClaimedDelivery], share: usize) -> bool {
    let mut counts: HashMap<&EndpointId, usize> = HashMap::new();
    for delivery in batch {
        *counts.entry(&delivery.endpoint).or_default() += 1;
    }
    counts.values().any(|count| *count >= share)
}

/// Time until the next delivery to an endpoint with room is due, at most the idle pause.
async fn until_due(ctx: Ctx, busy: Vec<EndpointId>) -> Answer {
    Answer::Pause(match deliver::next_due(&ctx, &busy).await {
        Ok(Some(due)) => (due - ctx.clock.now())
            .to_std()
            .unwrap_or(Duration::ZERO)
            .clamp(Duration::from_millis(1), IDLE_PAUSE),
        Ok(None) => IDLE_PAUSE,
        Err(_) => FAILURE_PAUSE,
    })
}

/// Takes in the finished try and every other one that has finished meanwhile.
fn collect(sending: &mut Sending, turns: &mut Turns, records: &mut Records, first: Finished) {
    let mut next = Some(first);
    while let Some(finished) = next {
        let id = finished.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let manner = finished.as_ref().map_or(Manner::Silent, |(_, tried)| Manner::of(tried));
        if let Some(endpoint) = sending.endpoints.remove(&id) {
            turns.done(&endpoint, manner);
        }
        match finished {
            Ok((_, tried)) => records.made.push(tried),
            Err(error) => tracing::error!(%error, "a delivery task ended without a result; its lease ends by itself"),
        }
        next = sending.tasks.try_join_next_with_id();
    }
}
