//! Circuit breaker for a node or partner that fails repeatedly.

use std::time::Duration;
use tokio::time::Instant;

/// Consecutive failures that open the breaker.
const FAILURES_MAX: u32 = 3;

/// First pause after the breaker opened; longer than the timeout of a lookup. The pause doubles with every failed trial
/// call.
const PAUSE_MIN: Duration = Duration::from_secs(2);

/// Maximum pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long one trial call blocks other calls if the outcome of the trial is never reported.
const TRIAL: Duration = Duration::from_secs(5);

/// A circuit breaker: closed, open for a pause, then half-open for one trial call.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    pause: Option<Duration>,
    open_until: Option<Instant>,
    is_trying: bool,
}

/// Whether a call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallAdmission {
    /// The call is allowed.
    Allowed,
    /// The call is allowed as the trial after a pause: other calls wait for its outcome.
    Trial,
    /// The call has to wait for the outcome of a trial.
    DuringTrial,
    /// The call is rejected during a pause.
    Rejected,
}

impl CallAdmission {
    /// Whether the call may be made now.
    pub(super) const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed | Self::Trial)
    }
}

impl Breaker {
    fn is_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }

    /// Whether a trial call is in flight.
    pub(super) fn is_in_trial(&self, now: Instant) -> bool {
        self.is_trying && self.is_open(now)
    }

    /// Whether a call would be allowed, now or after a trial that is in flight.
    pub(super) fn is_available(&self, now: Instant) -> bool {
        self.is_trying || !self.is_open(now)
    }

    /// Allows or rejects a call. After a pause only one call is allowed until its outcome is known.
    pub(super) fn admit(&mut self, now: Instant) -> CallAdmission {
        if self.is_in_trial(now) {
            return CallAdmission::DuringTrial;
        }
        if self.is_open(now) {
            return CallAdmission::Rejected;
        }
        if self.pause.is_none() {
            return CallAdmission::Allowed;
        }
        self.open_until = Some(now + TRIAL);
        self.is_trying = true;
        CallAdmission::Trial
    }

    /// Ends a trial whose caller gave it up, so that the next call can be the trial.
    pub(super) fn abandon_trial(&mut self, now: Instant) {
        if self.is_trying {
            self.is_trying = false;
            self.open_until = Some(now);
        }
    }

    /// Records a success.
    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// Records a failure. Calls that were in flight when the breaker opened are ignored.
    pub(super) fn fail(&mut self, now: Instant) {
        if !self.is_trying && self.is_open(now) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.rest(now);
        }
    }

    /// Opens the breaker immediately.
    pub(super) fn rest(&mut self, now: Instant) {
        let pause = self.pause.map_or(PAUSE_MIN, |pause| (pause * 2).min(PAUSE_MAX));
        self.pause = Some(pause);
        self.is_trying = false;
        self.open_until = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_MAX {
            assert!(breaker.admit(now).is_allowed());
            breaker.fail(now);
        }
        breaker
    }

    #[test]
    fn it_opens_only_after_consecutive_failures() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.fail(now);
            breaker.fail(now);
            breaker.succeed();
        }
        assert_eq!(breaker.admit(now), CallAdmission::Allowed);
        assert_eq!(open(now).admit(now), CallAdmission::Rejected);
    }

    #[test]
    fn concurrent_failures_open_it_once() {
        let now = Instant::now();
        let mut breaker = open(now);
        for _ in 0..16 {
            breaker.fail(now);
        }
        assert!(breaker.is_available(now + PAUSE_MIN), "the pause is the shortest one");
    }

    #[test]
    fn after_the_pause_one_trial_decides_and_pauses_grow() {
        let now = Instant::now();
        let mut breaker = open(now);
        let later = now + PAUSE_MIN;
        assert_eq!(breaker.admit(later), CallAdmission::Trial);
        assert_eq!(breaker.admit(later), CallAdmission::DuringTrial);
        breaker.fail(later);
        assert!(!breaker.is_available(later + PAUSE_MIN));
        assert!(breaker.is_available(later + PAUSE_MIN * 2));
        assert_eq!(breaker.admit(later + PAUSE_MIN * 2), CallAdmission::Trial);
        breaker.succeed();
        assert_eq!(breaker.admit(later + PAUSE_MIN * 2), CallAdmission::Allowed);
        assert_eq!(breaker.admit(later + PAUSE_MIN * 2), CallAdmission::Allowed);
    }

    #[test]
    fn a_trial_without_an_outcome_does_not_block_it_permanently() {
        let now = Instant::now();
        let mut breaker = open(now);
        assert_eq!(breaker.admit(now + PAUSE_MIN), CallAdmission::Trial);
        assert_eq!(breaker.admit(now + PAUSE_MIN + TRIAL), CallAdmission::Trial);
    }

    #[test]
    fn another_call_becomes_the_trial_when_the_first_one_is_given_up() {
        let now = Instant::now();
        let mut breaker = open(now);
        let later = now + PAUSE_MIN;
        assert_eq!(breaker.admit(later), CallAdmission::Trial);
        breaker.abandon_trial(later);
        assert_eq!(breaker.admit(later), CallAdmission::Trial);
        breaker.succeed();
        breaker.abandon_trial(later);
        assert_eq!(
            breaker.admit(later),
            CallAdmission::Allowed,
            "there is no trial to give up"
        );
    }
}
