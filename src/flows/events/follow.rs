//! Follows the event log: returns every event of a caller once, in the order of the log.
//!
//! The id of an event is created before the transaction of the event commits. So an event may become visible up to
//! [`LATE`] after events with larger ids. Each query therefore reads all ids above a lower bound, and returns the
//! events that were not returned before.
//!
//! The lower bound rises to the returned ids whose events are older than [`LATE`]. When a query has reached the end of
//! the log, the lower bound also rises to the newest event that is older than [`LATE`], of any kind. So a follower of
//! rare kinds does not read the ids of other kinds again.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::EventId},
    flows::{FlowResult, events::EventRecord},
    store::{self, Scope},
};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;

/// Events per query.
const BATCH_EVENTS: usize = 100;

/// How long after the creation of its id an event may still become visible in the log.
const LATE: TimeDelta = TimeDelta::seconds(10);

/// Maximum number of returned ids that are remembered, whatever their age.
const REMEMBERED_MAX: usize = 2_000;

/// A follower of the log.
pub struct LogFollower {
    ctx: Ctx,
    caller: PlatformCaller,
    kinds: Vec<String>,
    /// The lower bound. Every event up to this id was returned, and no event can appear below it.
    floor: Option<EventId>,
    /// Returned ids above the lower bound, with the creation times of their events.
    told: BTreeMap<EventId, DateTime<Utc>>,
    /// Time of the last search for a newer lower bound among events of all kinds.
    raised_at: DateTime<Utc>,
}

impl LogFollower {
    /// Starts after a given event, or with the next one. Without kinds all kinds are returned.
    pub async fn start(
        ctx: &Ctx,
        caller: &PlatformCaller,
        kinds: Vec<String>,
        after: Option<EventId>,
    ) -> FlowResult<Self> {
        let floor = match after {
            Some(after) => Some(after),
            None => store::event_log::newest_event(ctx.db.reader(), &Scope::from(caller), None).await?,
        };
        Ok(Self {
            ctx: ctx.clone(),
            caller: caller.clone(),
            kinds,
            floor,
            told: BTreeMap::new(),
            raised_at: ctx.clock.now(),
        })
    }

    /// The events since the last query; test events are excluded.
    pub async fn look(&mut self) -> FlowResult<Vec<EventRecord>> {
        // The clock is read before the log. So the id of an event that becomes visible after the query is newer than
        // `settled`.
        let now = self.ctx.clock.now();
        let settled = now - LATE;
        let limit = BATCH_EVENTS + self.told.len();
        let wide = u64::try_from(limit).unwrap_or(u64::MAX);
        let scope = Scope::from(&self.caller);
        let conn = self.ctx.db.reader();
        let mut ids = store::event_log::ids_after(conn, &scope, self.floor.as_ref(), &self.kinds, wide).await?;
        let has_seen_all = ids.len() < limit;
        ids.retain(|id| !self.told.contains_key(id));
        let mut events = store::event_log::events_by_id(conn, &scope, &ids).await?;
        for event in &events {
            self.told.insert(event.id.clone(), event.created_at);
        }
        while let Some(entry) = self.told.first_entry() {
            let is_settled = *entry.get() <= settled;
            if !is_settled && self.told.len() <= REMEMBERED_MAX {
                break;
            }
            self.floor = self.told.pop_first().map(|(id, _)| id);
        }
        if has_seen_all && (now - self.raised_at).abs() >= LATE {
            let newest = store::event_log::newest_event(conn, &scope, Some(settled)).await?;
            if newest > self.floor {
                self.told.retain(|id, _| Some(id) > newest.as_ref());
                self.floor = newest;
            }
            self.raised_at = now;
        }
        events.retain(|event| !event.is_test);
        Ok(events)
    }
}
