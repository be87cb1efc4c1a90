//! Rate tiers of credentials, and the consequences of too many calls.

use super::wire_text::wire_text;
use std::{fmt, str::FromStr, time::Duration};

wire_text! {
    /// Number of calls that a credential may make from one address, smallest tier first. Source: rules P.1.5.
    #[derive(Default)]
    pub enum Tier {
        /// 120 a minute.
        Basic = "basic",
        /// 300 a minute.
        #[default]
        Default = "default",
        /// 600 a minute.
        Premium = "premium",
        /// 1,200 a minute.
        HighVolume = "high-volume",
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.wire())
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_wire(text).ok_or_else(|| "must be basic, default, premium or high-volume".to_owned())
    }
}

/// Time window of a sustained breach. A caller breaches the quota if the number of its refused calls within this window
/// reaches the number of calls that it may make in a minute.
const WINDOW: Duration = Duration::from_secs(60);

/// Refused calls of a caller. Times are readings of a monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct QuotaBreach {
    window_from: Duration,
    refused: u32,
    blocked_until: Option<Duration>,
}

impl QuotaBreach {
    /// Remaining time of the block.
    pub fn blocked_for(&self, now: Duration) -> Option<Duration> {
        let until = self.blocked_until?;
        until.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Records a refused call. A caller whose refused calls reach `per_minute` is blocked for `block`.
    ///
    /// Source: rules P.1.5 (sustained breach: five minutes).
    pub fn refuse(&mut self, now: Duration, per_minute: u32, block: Duration) {
        if now.saturating_sub(self.window_from) >= WINDOW {
            self.window_from = now;
            self.refused = 0;
        }
        self.refused = self.refused.saturating_add(1);
        if self.refused >= per_minute {
            self.blocked_until = Some(now + block);
            self.refused = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Duration = Duration::from_secs(300);

    #[test]
    fn tiers_round_trip_through_text() {
        for tier in Tier::ALL {
            assert_eq!(tier.wire().parse(), Ok(tier));
        }
        assert!("gold".parse::<Tier>().is_err());
    }

    #[test]
    fn only_a_sustained_breach_blocks() {
        let mut breach = QuotaBreach::default();
        let mut now = Duration::from_secs(1_000);
        for _ in 0..10 {
            for _ in 0..9 {
                breach.refuse(now, 10, BLOCK);
            }
            assert_eq!(breach.blocked_for(now), None, "{now:?}");
            now += WINDOW;
        }
        for _ in 0..10 {
            breach.refuse(now, 10, BLOCK);
        }
        assert_eq!(breach.blocked_for(now), Some(BLOCK));
        assert_eq!(breach.blocked_for(now + BLOCK), None);
    }
}
