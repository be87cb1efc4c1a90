//! Sends due deliveries. The worker claims them in batches, sends many concurrently but few to each endpoint, and
//! records the results in batches.
//!
//! One endpoint cannot delay the others, and one owner cannot delay another: [`turns`] decides which delivery is next.
//! A delivery is sent only if its lease lasts longer than the attempt, so that no other worker sends it at the same
//! time. [`clock_watch`] adjusts leases and pauses when the clock of the machine jumps.

mod clock_watch;
mod records;
mod turns;

use crate::{
    ctx::Ctx,
    domain::{
        ids::EndpointId,
        webhook::{ClaimRequest, ClaimedDelivery, FinishedAttempt, LEASE_MS, TRY_TIMEOUT_MS},
    },
    flows::webhooks::{deliver, follow_clock, opened::OpenedSecrets},
};
use chrono::{DateTime, TimeDelta, Utc};
use clock_watch::ClockWatch;
use records::{FAILURE_PAUSE, Records};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use turns::{DeliveryTurns, EndpointManner};

pub use turns::DeliveryOptions;

/// Maximum sleep when no delivery seems due, because another instance may have queued a delivery.
const IDLE_PAUSE: Duration = Duration::from_millis(250);

/// Maximum time for which a busy worker delays a claim to wait for more free slots.
const GATHER_PAUSE: Duration = Duration::from_millis(20);

/// Maximum time for which a busy worker delays a claim after an event was published, if the last claim skipped owners.
const NEWS_PAUSE: Duration = Duration::from_millis(5);

/// Pause after a claim that skipped owners. After this pause, the worker claims without first querying when the next
/// delivery is due: while owners are skipped, this query is not worth its cost.
const LEFT_OUT_PAUSE: Duration = Duration::from_millis(50);

/// A response within this time is fast. A batch of deliveries to a fast endpoint is sent long before its lease ends.
const QUICK: TimeDelta = TimeDelta::milliseconds(100);

/// How long after its claim a delivery may still be sent: the attempt, and a second for recording it, must fit into the
/// lease.
const SEND_WITHIN: Duration = Duration::from_millis(LEASE_MS.unsigned_abs() - TRY_TIMEOUT_MS - 1_000);

/// Runs until `stop`, then finishes deliveries in flight and releases unsent ones.
///
/// Sending never waits for the database: it continues while a batch is claimed and another one recorded.
pub async fn run(ctx: Ctx, options: DeliveryOptions, stop: CancellationToken) {
    let mut clock = ClockWatch::new(ctx.clock.now(), ctx.clock.steady());
    if let Err(error) = follow_clock::begin(&ctx).await {
        tracing::warn!(%error, "retry times could not be compared with the clock");
    }
    let mut sending = Sending::new(options);
    let mut claims = ClaimSchedule::new(options);
    let mut records = Records::default();
    let mut was_record = false;
    while !stop.is_cancelled() {
        if let Err(error) = clock.follow(&ctx).await {
            tracing::warn!(%error, "pending retry times could not be adjusted to the clock");
            tokio::time::sleep(FAILURE_PAUSE).await;
            continue;
        }
        sending.start(&ctx);
        if !clock.is_echoing() {
            claims.start(&ctx, clock.wall(), &mut sending.turns);
            records.start(&ctx, sending.tasks.is_empty());
        } else if claims.asking.is_empty() && records.writing.is_empty() {
            // After a clock jump, a record may contain times of the old clock. No claim starts while a record is
            // written, so that these times are adjusted before the next claim. Records and claims take turns, so that
            // a stream of new events delays no record, and a stream of finished attempts no claim.
            if was_record {
                claims.start(&ctx, clock.wall(), &mut sending.turns);
            }
            if claims.asking.is_empty() {
                records.start(&ctx, sending.tasks.is_empty());
            }
            was_record = !records.writing.is_empty();
            if !was_record {
                claims.start(&ctx, clock.wall(), &mut sending.turns);
            }
        }
        tokio::select! {
            () = ctx.due.notified() => claims.hear(),
            () = tokio::time::sleep_until(claims.next_look(&sending.turns).into()) => {
                claims.wake(&ctx, &mut sending.turns);
                sending.opened.forget_old(ctx.clock.steady());
            }
            () = tokio::time::sleep(records.pause()), if records.is_gathering() => {}
            Some(finished) = sending.tasks.join_next_with_id() => records.add(sending.collect(finished)),
            Some(answer) = claims.asking.join_next() => claims.take(&ctx, answer, &mut sending.turns),
            Some(written) = records.writing.join_next() => records.take(written),
            () = stop.cancelled() => {}
        }
    }
    claims.finish(&mut sending.turns).await;
    while let Some(finished) = sending.tasks.join_next_with_id().await {
        records.add(sending.collect(finished));
        records.start(&ctx, sending.tasks.is_empty());
    }
    records.finish(&ctx).await;
    for token in sending.turns.into_tokens() {
        if let Err(error) = deliver::release(&ctx, &token).await {
            tracing::warn!(%error, "claimed deliveries could not be released; their lease will expire");
        }
    }
}

/// A finished task.
type FinishedTask = Result<(Id, Option<FinishedAttempt>), JoinError>;

/// Deliveries being sent, with their endpoints, so that a task without a result also frees its slot.
struct Sending {
    turns: DeliveryTurns,
    tasks: JoinSet<Option<FinishedAttempt>>,
    endpoints: HashMap<Id, EndpointId>,
    opened: Arc<OpenedSecrets>,
}

impl Sending {
    fn new(options: DeliveryOptions) -> Self {
        Self {
            turns: DeliveryTurns::new(options),
            tasks: JoinSet::new(),
            endpoints: HashMap::new(),
            opened: Arc::default(),
        }
    }

    /// Sends the next deliveries.
    fn start(&mut self, ctx: &Ctx) {
        while let Some(delivery) = self.turns.next(Instant::now()) {
            let (ctx, opened) = (ctx.clone(), self.opened.clone());
            let endpoint = delivery.endpoint.clone();
            let task = self
                .tasks
                .spawn(async move { deliver::send(&ctx, &opened, delivery).await });
            self.endpoints.insert(task.id(), endpoint);
        }
    }

    /// Handles this finished attempt and all further attempts that have finished by now.
    fn collect(&mut self, first: FinishedTask) -> Vec<FinishedAttempt> {
        let mut made = Vec::new();
        let mut next = Some(first);
        while let Some(finished) = next {
            let id = finished.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
            let manner = match &finished {
                Ok((_, Some(tried))) => manner(tried),
                _ => EndpointManner::Silent,
            };
            if let Some(endpoint) = self.endpoints.remove(&id) {
                self.turns.done(&endpoint, manner);
            }
            match finished {
                Ok((_, tried)) => made.extend(tried),
                Err(error) => {
                    tracing::error!(%error, "a delivery task ended without a result; its lease will expire")
                }
            }
            next = self.tasks.try_join_next_with_id();
        }
        made
    }
}

fn manner(tried: &FinishedAttempt) -> EndpointManner {
    let outcome = &tried.outcome;
    if outcome.error.is_some() {
        EndpointManner::Silent
    } else if outcome.ended_at - outcome.started_at <= QUICK {
        EndpointManner::Quick
    } else {
        EndpointManner::Usual
    }
}

/// Result of a database query.
enum ClaimResult {
    /// A batch, whether there may be more, and until when it may be sent.
    Claimed(Vec<ClaimedDelivery>, bool, Instant),
    /// How long to wait before the next claim.
    Pause(Duration),
}

/// When to claim: as soon as deliveries may be due, one claim at a time, and only when enough slots are free.
struct ClaimSchedule {
    asking: JoinSet<ClaimResult>,
    /// Number of free slots that justify an immediate claim.
    worth: usize,
    begun: Instant,
    /// Time of the last check or database result. The pause counts from this time, regardless of finished attempts.
    looked: Instant,
    /// Whether more deliveries may be due than were claimed. Otherwise the pause decides when to check again.
    is_hungry: bool,
    /// Whether an event was published since the last claim.
    has_news: bool,
    pause: Duration,
}

impl ClaimSchedule {
    fn new(options: DeliveryOptions) -> Self {
        Self {
            asking: JoinSet::new(),
            worth: options.concurrency / 4,
            begun: Instant::now(),
            looked: Instant::now(),
            is_hungry: true,
            has_news: false,
            pause: IDLE_PAUSE,
        }
    }

    /// Records that an event was published.
    fn hear(&mut self) {
        self.is_hungry = true;
        self.has_news = true;
    }

    /// Starts a claim if it is time for one; `now` is the time of the last clock check.
    fn start(&mut self, ctx: &Ctx, now: DateTime<Utc>, turns: &mut DeliveryTurns) {
        self.is_hungry |= turns.has_freed();
        // A small claim costs as much as a large one, so a busy worker waits a moment for more free slots. Meanwhile a
        // free slot remains for an owner whose first event comes late.
        let is_worth_it = turns.open() >= self.worth || self.begun.elapsed() >= self.gather_pause(turns);
        if self.asking.is_empty() && self.is_hungry && turns.limit() > 0 && is_worth_it {
            let wanted = turns.wanted(now, ctx.ids.ulid());
            self.begun = Instant::now();
            self.is_hungry = false;
            self.has_news = false;
            self.pause = IDLE_PAUSE;
            self.asking.spawn(claim(ctx.clone(), wanted, self.begun + SEND_WITHIN));
        }
    }

    /// Ends a pause. If no delivery was due before the pause, the worker only queries the next due time. A claim
    /// instead of this query would use the single writer of SQLite four times a second.
    fn wake(&mut self, ctx: &Ctx, turns: &mut DeliveryTurns) {
        self.looked = Instant::now();
        if !self.is_hungry && self.pause == IDLE_PAUSE && self.asking.is_empty() {
            self.asking.spawn(until_due(ctx.clone(), turns.leave_out()));
        } else {
            self.is_hungry = true;
        }
    }

    fn gather_pause(&self, turns: &DeliveryTurns) -> Duration {
        if self.has_news && turns.has_left_owners_out() {
            NEWS_PAUSE
        } else {
            GATHER_PAUSE
        }
    }

    fn next_look(&self, turns: &DeliveryTurns) -> Instant {
        let pause = if self.is_hungry {
            self.gather_pause(turns)
        } else {
            self.pause
        };
        self.looked + pause
    }

    /// Handles a database result, and queries the next due time once no delivery is due.
    fn take(&mut self, ctx: &Ctx, answer: Result<ClaimResult, JoinError>, turns: &mut DeliveryTurns) {
        self.looked = Instant::now();
        match answer {
            Ok(ClaimResult::Claimed(batch, may_be_more, until)) => {
                turns.add(batch, until);
                self.is_hungry |= may_be_more;
                match self.is_hungry {
                    true => {}
                    false if turns.has_left_owners_out() => self.pause = LEFT_OUT_PAUSE,
                    false => drop(self.asking.spawn(until_due(ctx.clone(), turns.leave_out()))),
                }
            }
            Ok(ClaimResult::Pause(pause)) => self.pause = pause,
            Err(error) => tracing::error!(%error, "a claim ended without a result; its lease will expire"),
        }
    }

    /// Waits for a running claim, so that its deliveries can be released.
    async fn finish(&mut self, turns: &mut DeliveryTurns) {
        while let Some(answer) = self.asking.join_next().await {
            if let Ok(ClaimResult::Claimed(batch, _, until)) = answer {
                turns.add(batch, until);
            }
        }
    }
}

async fn claim(ctx: Ctx, wanted: ClaimRequest, until: Instant) -> ClaimResult {
    match deliver::claim(&ctx, &wanted).await {
        Ok(batch) => {
            let may_be_more = wanted.may_be_more(&batch);
            ClaimResult::Claimed(batch, may_be_more, until)
        }
        Err(error) => {
            tracing::warn!(%error, "due deliveries could not be claimed");
            ClaimResult::Pause(FAILURE_PAUSE)
        }
    }
}

/// Time until the next delivery to an endpoint with free slots is due, at most the idle pause.
async fn until_due(ctx: Ctx, busy: Vec<EndpointId>) -> ClaimResult {
    ClaimResult::Pause(match deliver::next_due(&ctx, &busy).await {
        Ok(Some(due)) => (due - ctx.clock.now())
            .to_std()
            .unwrap_or(Duration::ZERO)
            .clamp(Duration::from_millis(1), IDLE_PAUSE),
        Ok(None) => IDLE_PAUSE,
        Err(_) => FAILURE_PAUSE,
    })
}
