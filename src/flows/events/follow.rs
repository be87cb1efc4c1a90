//! Follows the log: every event of a caller once, in the order of the log.
//!
//! Ids are drawn before their transactions commit, so a smaller one may appear after a larger one, for as long as
//! [`LATE`]. A look therefore reads the ids from a floor on, and the bodies of those that were not told. The floor rises
//! to what was told that long ago, and to the newest event of that time when the look has seen everything: a follower of
//! rare kinds does not read the common ones again.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::EventId},
    flows::{FlowResult, events::EventRecord},
    store::{self, Scope},
};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;

/// Events of one look.
const BATCH_EVENTS: usize = 100;

/// How long a transaction may take to show an event whose id was drawn earlier than those already seen.
const LATE: TimeDelta = TimeDelta::seconds(10);

/// Most ids that are remembered, whatever their age.
const REMEMBERED_MAX: usize = 2_000;

/// One who follows.
pub struct Follower {
    ctx: Ctx,
    caller: PlatformCaller,
    kinds: Vec<String>,
    /// Everything up to here was told and nothing can appear below it any more.
    floor: Option<EventId>,
    /// What was told above the floor: ids are drawn before their transactions commit, so a smaller one may come later.
    told: BTreeMap<EventId, DateTime<Utc>>,
    /// When it was last looked for an event to which the floor could rise.
    raised_at: DateTime<Utc>,
}

impl Follower {
    /// Starts after an event, or with what happens from now on. No kinds are all kinds.
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

    /// What happened since the last look; samples of tests are left out.
    pub async fn look(&mut self) -> FlowResult<Vec<EventRecord>> {
        // Read before the log: what had not appeared by then was drawn after the settled time.
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
