//! Chooses how each process dies while recurring items are due: usually at a crash point, where the points take turns,
//! and sometimes at a random moment.

use std::collections::{HashSet, VecDeque};

use anyhow::Result;
use fastrand::Rng;

use crate::service::Service;

/// Points where a process can end while it executes a payment, credits it, or creates the request of a period.
pub(crate) const POINTS: [&str; 24] = [
    "open_execution.begun",
    "open_execution.request_inserted",
    "open_execution.before_commit",
    "open_execution.after_commit",
    "relay.rehearsed",
    "relay.signed",
    "sign_execution.begun",
    "sign_execution.inserted",
    "sign_execution.before_commit",
    "sign_execution.after_commit",
    "relay.before_send",
    "relay.after_send",
    "confirm_blocks.credited",
    "confirm_blocks.before_commit",
    "confirm_blocks.after_commit",
    "advance_schedule.begun",
    "advance_schedule.settled",
    "advance_schedule.before_commit",
    "advance_schedule.after_commit",
    "repeat_request.begun",
    "repeat_request.inserted",
    "repeat_request.planned",
    "repeat_request.before_commit",
    "repeat_request.after_commit",
];

/// One process in this number dies at a random moment. All others die at a crash point.
const RANDOM_EVERY: u64 = 6;

/// Maximum number of times that a process passes a crash point before it ends there.
const PASSES_MAX: u64 = 1;
/// How a process dies: at a crash point after this number of passes, or at a random moment if `None`.
pub(crate) type End = Option<(&'static str, u64)>;

/// Counts the deaths of processes, and chooses how the next ones end.
pub(crate) struct Deaths {
    queue: VecDeque<&'static str>,
    drawn: u64,
    /// Points at which a process has ended.
    pub(crate) reached: HashSet<&'static str>,
    /// Total number of deaths.
    pub(crate) count: u64,
    /// Number of deaths of the leader of the network.
    pub(crate) leaders: u64,
}

impl Deaths {
    /// Begins with no deaths and a random order of the crash points.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut order = POINTS;
        rng.shuffle(&mut order);
        Self {
            queue: order.into(),
            reached: HashSet::new(),
            count: 0,
            drawn: 0,
            leaders: 0,
        }
    }

    /// Chooses how the next process dies.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> End {
        self.drawn += 1;
        if self.drawn.is_multiple_of(RANDOM_EVERY) {
            return None;
        }
        let point = self.queue.pop_front()?;
        self.queue.push_back(point);
        Some((point, rng.u64(0..=PASSES_MAX)))
    }

    /// Records whether a process died as planned. If the process did not reach its crash point, the next process gets
    /// the same point.
    pub(crate) fn note(&mut self, end: End, is_reached: bool) {
        self.count += 1;
        let Some((point, _)) = end else { return };
        if is_reached {
            self.reached.insert(point);
        } else if !self.reached.contains(point) {
            self.queue.retain(|queued| *queued != point);
            self.queue.push_front(point);
        }
    }
}

/// Whether only the leader of the network reaches a crash point. Every instance reaches the points of `repeat_request`.
pub(crate) fn is_of_leader((point, _): (&'static str, u64)) -> bool {
    !point.starts_with("repeat_request.")
}

/// Starts a process that will die in this way.
pub(crate) fn launch(service: &mut Service, end: End) -> Result<()> {
    let points = end.map(|(point, passes)| match passes {
        0 => format!("{point}=return"),
        passes => format!("{point}={passes}*off->return"),
    });
    service.launch(points.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_full_run_dies_often_enough_for_every_point() {
        let plan = Plan::new(false, None, "prs".into(), "evidence".into(), 0);
        let at_points = plan.recurring_kills - plan.recurring_kills / RANDOM_EVERY;
        assert!(usize::try_from(at_points).unwrap() >= POINTS.len() * 3 / 2);
    }

    #[test]
    fn a_point_that_was_not_reached_comes_again_and_others_rotate() {
        let mut rng = Rng::with_seed(1);
        let mut deaths = Deaths::new(&mut rng);
        let first = deaths.draw(&mut rng);
        deaths.note(first, false);
        let again = deaths.draw(&mut rng);
        assert_eq!(again.map(|(point, _)| point), first.map(|(point, _)| point));
        deaths.note(again, true);
        while deaths.count < 60 {
            let end = deaths.draw(&mut rng);
            deaths.note(end, end.is_some());
        }
        assert_eq!(deaths.reached.len(), POINTS.len());
    }
}
