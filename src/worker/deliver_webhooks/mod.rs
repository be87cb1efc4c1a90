//! Sends due deliveries: claims batches, sends many at a time but few to each endpoint, records in batches.
//!
//! One endpoint cannot hold up the others, and one owner cannot hold up another: [`turns`] says who is next. A delivery
//! is sent only while its lease outlasts the try, so that nobody else sends it at the same time. [`clock_watch`] keeps
//! leases and pauses right when the clock of the machine jumps.

mod clock_watch;
mod records;
mod turns;

use crate::{
    ctx::Ctx,
    domain::{
        ids::EndpointId,
        webhook::{ClaimedDelivery, LEASE_MS, TRY_TIMEOUT_MS, Tried, Wanted},
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
use turns::{Manner, Turns};

pub use turns::Options;

/// Longest sleep when nothing seems due; another instance may have queued something.
const IDLE_PAUSE: Duration = Duration::from_millis(250);

/// Longest wait of a busy worker for a batch that is worth a claim.
const GATHER_PAUSE: Duration = Duration::from_millis(20);

/// The same when somebody who was not left out has just published something.
const NEWS_PAUSE: Duration = Duration::from_millis(5);

/// Pause between two looks while owners are left out: when something is due for others is not worth a question of its own.
const LEFT_OUT_PAUSE: Duration = Duration::from_millis(50);

/// An answer within this time is quick: a share of deliveries is sent long before its lease ends.
const QUICK: TimeDelta = TimeDelta::milliseconds(100);

/// How long after its claim a delivery may still be sent: its try, and a second to record it, fit into the lease.
const SEND_WITHIN: Duration = Duration::from_millis(LEASE_MS.unsigned_abs() - TRY_TIMEOUT_MS - 1_000);

/// Runs until `stop`, then finishes what is in flight and releases what was only claimed.
///
/// Nothing here waits for the database alone: while a batch is claimed and another one recorded, sending goes on.
pub async fn run(ctx: Ctx, options: Options, stop: CancellationToken) {
    let mut clock = ClockWatch::new(ctx.clock.now(), ctx.clock.steady());
    if let Err(error) = follow_clock::begin(&ctx).await {
        tracing::warn!(%error, "waits could not be compared with the clock");
    }
    let mut sending = Sending::new(options);
    let mut claims = Claims::new(options);
    let mut records = Records::default();
    while !stop.is_cancelled() {
        if let Err(error) = clock.follow(&ctx).await {
            tracing::warn!(%error, "what waits could not be moved along with the clock");
            tokio::time::sleep(FAILURE_PAUSE).await;
            continue;
        }
        sending.start(&ctx);
        // After a jump a record may hold times of the old clock: it is moved along before anything is claimed beside it.
        if !clock.is_echoing() || records.writing.is_empty() {
            claims.start(&ctx, clock.wall(), &mut sending.turns);
        }
        if !clock.is_echoing() || claims.asking.is_empty() {
            records.start(&ctx, sending.tasks.is_empty());
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
            tracing::warn!(%error, "claimed deliveries could not be handed back; their lease ends by itself");
        }
    }
}

/// A finished task.
type Finished = Result<(Id, Option<Tried>), JoinError>;

/// What is being sent, and to whom: a task that ends without a result gives its place back all the same.
struct Sending {
    turns: Turns,
    tasks: JoinSet<Option<Tried>>,
    endpoints: HashMap<Id, EndpointId>,
    opened: Arc<OpenedSecrets>,
}

impl Sending {
    fn new(options: Options) -> Self {
        Self {
            turns: Turns::new(options),
            tasks: JoinSet::new(),
            endpoints: HashMap::new(),
            opened: Arc::default(),
        }
    }

    /// Sends whatever has its turn.
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

    /// Takes in the finished try and every other one that has finished meanwhile.
    fn collect(&mut self, first: Finished) -> Vec<Tried> {
        let mut made = Vec::new();
        let mut next = Some(first);
        while let Some(finished) = next {
            let id = finished.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
            let manner = match &finished {
                Ok((_, Some(tried))) => manner(tried),
                _ => Manner::Silent,
            };
            if let Some(endpoint) = self.endpoints.remove(&id) {
                self.turns.done(&endpoint, manner);
            }
            match finished {
                Ok((_, tried)) => made.extend(tried),
                Err(error) => {
                    tracing::error!(%error, "a delivery task ended without a result; its lease ends by itself")
                }
            }
            next = self.tasks.try_join_next_with_id();
        }
        made
    }
}

fn manner(tried: &Tried) -> Manner {
    let outcome = &tried.outcome;
    if outcome.error.is_some() {
        Manner::Silent
    } else if outcome.ended_at - outcome.started_at <= QUICK {
        Manner::Quick
    } else {
        Manner::Usual
    }
}

/// What the database answered.
enum Answer {
    /// A batch, whether there may be more than was asked for, and until when it may be sent.
    Claimed(Vec<ClaimedDelivery>, bool, Instant),
    /// How long to wait before the next claim.
    Pause(Duration),
}

/// When to claim: as soon as something may be due, one claim at a time, and not for a few places only.
struct Claims {
    asking: JoinSet<Answer>,
    /// Places that are worth a claim at once.
    worth: usize,
    begun: Instant,
    /// When the last look was, or the last answer came. The pause counts from then, however often a try ends meanwhile.
    looked: Instant,
    /// Whether more may be due than was claimed; when not, the pause tells when to look again.
    is_hungry: bool,
    /// Whether something was published since the last claim.
    has_news: bool,
    pause: Duration,
}

impl Claims {
    fn new(options: Options) -> Self {
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

    /// Takes in that something was published.
    fn hear(&mut self) {
        self.is_hungry = true;
        self.has_news = true;
    }

    /// Begins a claim if it is time for one; `now` is when the clock was seen right.
    fn start(&mut self, ctx: &Ctx, now: DateTime<Utc>, turns: &mut Turns) {
        self.is_hungry |= turns.has_freed();
        // Small claims cost as much as large ones, so a busy worker waits a moment for a part of its places. An owner that
        // comes late has a place already.
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

    /// Looks again after a pause. Where nothing was due, two reads tell whether there is something to claim: a claim takes the
    /// one writer of SQLite, four times a second.
    fn wake(&mut self, ctx: &Ctx, turns: &mut Turns) {
        self.looked = Instant::now();
        if !self.is_hungry && self.pause == IDLE_PAUSE && self.asking.is_empty() {
            self.asking.spawn(until_due(ctx.clone(), turns.leave_out()));
        } else {
            self.is_hungry = true;
        }
    }

    fn gather_pause(&self, turns: &Turns) -> Duration {
        match self.has_news && turns.has_left_owners_out() {
            true => NEWS_PAUSE,
            false => GATHER_PAUSE,
        }
    }

    fn next_look(&self, turns: &Turns) -> Instant {
        let pause = match self.is_hungry {
            true => self.gather_pause(turns),
            false => self.pause,
        };
        self.looked + pause
    }

    /// Takes in what the database answered, and asks for the next due time once nothing more is due.
    fn take(&mut self, ctx: &Ctx, answer: Result<Answer, JoinError>, turns: &mut Turns) {
        self.looked = Instant::now();
        match answer {
            Ok(Answer::Claimed(batch, may_be_more, until)) => {
                turns.add(batch, until);
                self.is_hungry |= may_be_more;
                match self.is_hungry {
                    true => {}
                    false if turns.has_left_owners_out() => self.pause = LEFT_OUT_PAUSE,
                    false => drop(self.asking.spawn(until_due(ctx.clone(), turns.leave_out()))),
                }
            }
            Ok(Answer::Pause(pause)) => self.pause = pause,
            Err(error) => tracing::error!(%error, "a claim ended without a result; its lease ends by itself"),
        }
    }

    /// Waits for what was asked, so that a last batch can be handed back.
    async fn finish(&mut self, turns: &mut Turns) {
        while let Some(answer) = self.asking.join_next().await {
            if let Ok(Answer::Claimed(batch, _, until)) = answer {
                turns.add(batch, until);
            }
        }
    }
}

async fn claim(ctx: Ctx, wanted: Wanted, until: Instant) -> Answer {
    match deliver::claim(&ctx, &wanted).await {
        Ok(batch) => {
            let may_be_more = wanted.may_be_more(&batch);
            Answer::Claimed(batch, may_be_more, until)
        }
        Err(error) => {
            tracing::warn!(%error, "due deliveries could not be claimed");
            Answer::Pause(FAILURE_PAUSE)
        }
    }
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
