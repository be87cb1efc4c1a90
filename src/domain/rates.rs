//! Readings of rate feeds, and the rules that decide which of them are accepted as rates.

use super::{
    currency::DOLLAR_SYMBOLS,
    pair::Pair,
    rate::{Rate, RateError},
    wire_text::wire_text,
};
use chrono::{DateTime, TimeDelta, Utc};

/// How far the clock of a feed may be ahead.
const AHEAD_MAX: TimeDelta = TimeDelta::minutes(1);

wire_text! {
    /// Source of a rate. Source: interface §2.1.
    pub enum RateProvider {
        /// A bridge.
        Lifi = "lifi",
        /// On-chain price feeds.
        Chainlink = "chainlink",
        /// The CoinGecko rate service.
        Coingecko = "coingecko",
        /// Any other feed, or a rate that the operator set.
        Unknown = "unknown",
    }
}

/// Price of a pair from a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPrice {
    /// The rate.
    pub rate: Rate,
    /// Time of the rate, as the feed reports it.
    pub as_of: DateTime<Utc>,
}

wire_text! {
    /// Why a reading is not accepted.
    pub enum RateFlaw {
        /// The feed does not report the pair.
        Absent = "absent",
        /// The feed does not report a number.
        Unreadable = "unreadable",
        /// The feed reports zero.
        Zero = "zero",
        /// The feed reports no time for the rate, or a future time.
        Undated = "undated",
        /// The rate is too old.
        Old = "old",
        /// Two feeds differ too much.
        Apart = "apart",
        /// The price of the dollar token is too far from a dollar.
        OffPeg = "off_peg",
        /// The rate is the first one without a confirmation, or too far from the last accepted rate, and the feed has
        /// not reported it for long enough.
        Jumped = "jumped",
    }
}

impl RateFlaw {
    /// The message of the flaw.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Absent => "the feed does not report the pair",
            Self::Unreadable => "the feed does not report a number",
            Self::Zero => "the feed reports zero",
            Self::Undated => "the feed does not report a valid time for the rate",
            Self::Old => "the last rate is too old",
            Self::Apart => "the rates of two feeds differ too much",
            Self::OffPeg => "the price of the token is too far from a dollar",
            Self::Jumped => {
                "the rate is unconfirmed or too far from the last accepted rate, and has not been stable for long \
                 enough"
            }
        }
    }
}

impl From<RateError> for RateFlaw {
    fn from(error: RateError) -> Self {
        match error {
            RateError::Form => Self::Unreadable,
            RateError::Zero => Self::Zero,
        }
    }
}

/// Limits for accepting rates. Differences are in basis points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateGuards {
    /// Maximum age of a rate.
    pub max_age: TimeDelta,
    /// Maximum difference from the last accepted rate.
    pub jump: u16,
    /// How long the feed must report a rate with a larger difference before the rate is accepted.
    pub hold: TimeDelta,
    /// Minimum number of consecutive readings with such a rate before the rate is accepted.
    pub hold_readings: usize,
    /// Maximum difference of a dollar token from a dollar.
    pub peg: u16,
    /// Maximum difference between two feeds.
    pub apart: u16,
}

/// New values for the rate sandbox of `prs dev`; `None` leaves a value unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateChange {
    /// The price of a pair.
    pub price: Option<(Pair, Rate)>,
    /// Whether the reported prices are a day old.
    pub is_stale: Option<bool>,
    /// Whether the sandbox returns an error.
    pub is_down: Option<bool>,
}

/// An accepted rate with its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedRate {
    /// The rate.
    pub rate: Rate,
    /// Provider.
    pub provider: RateProvider,
}

wire_text! {
    /// State of a reading.
    pub enum ReadingState {
        /// A rate.
        Accepted = "accepted",
        /// The rate is accepted only after the feed has reported it for long enough.
        Held = "held",
        /// The reading is not accepted.
        Refused = "refused",
    }
}

/// Reference for a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateReference {
    /// The last accepted rate.
    Last(Rate),
    /// There is no accepted rate yet. Another feed or another dollar token confirms this rate.
    Confirmed,
    /// There is no accepted rate yet, and nothing confirms this rate.
    Nothing,
}

/// Result for a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingResult {
    /// A rate.
    Accepted(FeedPrice),
    /// The price is accepted only after the feed has reported it for long enough: it is the first one without a
    /// confirmation, or too far from the last accepted rate.
    Held(FeedPrice),
    /// The reading is not accepted, for this reason.
    Refused(RateFlaw),
}

impl ReadingResult {
    /// The state of the reading.
    pub const fn state(self) -> ReadingState {
        match self {
            Self::Accepted(_) => ReadingState::Accepted,
            Self::Held(_) => ReadingState::Held,
            Self::Refused(_) => ReadingState::Refused,
        }
    }
}

/// A stored reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReading {
    /// Token and fiat currency.
    pub pair: Pair,
    /// When the feeds were read.
    pub read_at: DateTime<Utc>,
    /// Provider.
    pub provider: RateProvider,
    /// Its result.
    pub finding: ReadingResult,
}

impl StoredReading {
    /// The rate of this reading at a time, if it is still valid then. The reading must be the newest one at that time.
    /// Errors: why there is no rate.
    pub fn holds_at(&self, time: DateTime<Utc>, guards: &RateGuards) -> Result<AppliedRate, RateFlaw> {
        match self.finding {
            ReadingResult::Accepted(price) if time - price.as_of <= guards.max_age => Ok(AppliedRate {
                rate: price.rate,
                provider: self.provider,
            }),
            ReadingResult::Accepted(_) => Err(RateFlaw::Old),
            ReadingResult::Held(_) => Err(RateFlaw::Jumped),
            ReadingResult::Refused(flaw) => Err(flaw),
        }
    }

    /// The rate of the reading, if the reading is not accepted yet and may be accepted later.
    pub fn held(&self) -> Option<Rate> {
        match self.finding {
            ReadingResult::Held(price) => Some(price.rate),
            ReadingResult::Accepted(_) | ReadingResult::Refused(_) => None,
        }
    }
}

impl RateGuards {
    /// The price of a pair from several feeds. It is the price of the first feed, if no feed's price is old and all
    /// feeds report about the same.
    pub fn agreed(&self, told: &[Result<FeedPrice, RateFlaw>], now: DateTime<Utc>) -> Result<FeedPrice, RateFlaw> {
        let (first, others) = told.split_first().ok_or(RateFlaw::Absent)?;
        let first = self.dated(*first, now)?;
        for other in others {
            if self.dated(*other, now)?.rate.is_off(first.rate, self.apart) {
                return Err(RateFlaw::Apart);
            }
        }
        Ok(first)
    }

    fn dated(&self, told: Result<FeedPrice, RateFlaw>, now: DateTime<Utc>) -> Result<FeedPrice, RateFlaw> {
        let price = told?;
        if price.as_of - now > AHEAD_MAX {
            return Err(RateFlaw::Undated);
        }
        if now - price.as_of > self.max_age {
            Err(RateFlaw::Old)
        } else {
            Ok(price)
        }
    }

    /// The reading, unless the token is a dollar token that is off its peg; `dollars` is the price of the token in
    /// dollars.
    pub fn on_peg(
        &self,
        pair: &Pair,
        told: Result<FeedPrice, RateFlaw>,
        dollars: Result<FeedPrice, RateFlaw>,
    ) -> Result<FeedPrice, RateFlaw> {
        let price = told?;
        if !DOLLAR_SYMBOLS.contains(&pair.symbol.as_str()) {
            return Ok(price);
        }
        let peg = Rate::parse("1").map_err(RateFlaw::from)?;
        if dollars?.rate.is_off(peg, self.peg) {
            Err(RateFlaw::OffPeg)
        } else {
            Ok(price)
        }
    }

    /// The newest consecutive readings that are not accepted yet and have about the rate `rate`. `since` is sorted with
    /// the newest first. The run ends at the first other reading; that reading and older ones stay as they are.
    pub fn run<'a>(&self, rate: Rate, since: &'a [StoredReading]) -> &'a [StoredReading] {
        let is_same = |rate_then: Rate| !rate_then.is_off(rate, self.jump);
        let run = since
            .iter()
            .take_while(|reading| reading.held().is_some_and(is_same))
            .count();
        since.get(..run).unwrap_or_default()
    }

    /// Whether another dollar token has about the same price in the same currency. This rules out an error in a single
    /// entry of the feed.
    pub fn is_confirmed(
        &self,
        pair: &Pair,
        price: FeedPrice,
        of: impl Fn(&Pair) -> Result<FeedPrice, RateFlaw>,
    ) -> bool {
        let is_near = |symbol: &str| {
            let other = of(&Pair::new(symbol, &pair.invoice));
            symbol != pair.symbol && other.is_ok_and(|other| !other.rate.is_off(price.rate, self.peg))
        };
        DOLLAR_SYMBOLS.contains(&pair.symbol.as_str()) && DOLLAR_SYMBOLS.into_iter().any(is_near)
    }

    /// Judges a reading. `since` contains the readings after the last accepted one, newest first.
    ///
    /// Also returns how many readings of `since` become accepted together with this one. An unconfirmed first rate, or
    /// a rate far from the last accepted one, is accepted retroactively once enough consecutive readings have reported
    /// it for long enough.
    pub fn judge(
        &self,
        told: Result<FeedPrice, RateFlaw>,
        known: RateReference,
        since: &[StoredReading],
        now: DateTime<Utc>,
    ) -> (ReadingResult, usize) {
        let price = match told {
            Ok(price) => price,
            Err(flaw) => return (ReadingResult::Refused(flaw), 0),
        };
        let is_believed = match known {
            RateReference::Last(last) => !price.rate.is_off(last, self.jump),
            RateReference::Confirmed => true,
            RateReference::Nothing => false,
        };
        if is_believed {
            return (ReadingResult::Accepted(price), 0);
        }
        let run = self.run(price.rate, since);
        let has_held = run.last().is_some_and(|first| now - first.read_at >= self.hold);
        if has_held && run.len() + 1 >= self.hold_readings {
            (ReadingResult::Accepted(price), run.len())
        } else {
            (ReadingResult::Held(price), 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guards() -> RateGuards {
        RateGuards {
            max_age: TimeDelta::minutes(15),
            jump: 2_000,
            hold: TimeDelta::minutes(15),
            hold_readings: 3,
            peg: 500,
            apart: 100,
        }
    }

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(1) + TimeDelta::minutes(minute)
    }

    fn price(rate: &str, minute: i64) -> FeedPrice {
        FeedPrice {
            rate: Rate::parse(rate).unwrap(),
            as_of: at(minute),
        }
    }

    fn reading(finding: ReadingResult, minute: i64) -> StoredReading {
        StoredReading {
            pair: Pair::new("USDC", "USD"),
            read_at: at(minute),
            provider: RateProvider::Unknown,
            finding,
        }
    }

    #[test]
    fn feeds_must_agree_and_be_neither_stale_nor_in_the_future() {
        let guards = guards();
        for (told, agreed) in [
            (vec![Ok(price("1", 0))], Ok(price("1", 0))),
            (vec![Ok(price("1", 0)), Ok(price("1.01", 0))], Ok(price("1", 0))),
            (vec![Ok(price("1", 0)), Ok(price("1.0101", 0))], Err(RateFlaw::Apart)),
            (vec![Ok(price("1", 0)), Err(RateFlaw::Absent)], Err(RateFlaw::Absent)),
            (vec![Err(RateFlaw::Zero), Ok(price("1", 0))], Err(RateFlaw::Zero)),
            (vec![Ok(price("1", -15))], Ok(price("1", -15))),
            (vec![Ok(price("1", -16))], Err(RateFlaw::Old)),
            (vec![Ok(price("1", 0)), Ok(price("1", -16))], Err(RateFlaw::Old)),
            (vec![Ok(price("1", 2))], Err(RateFlaw::Undated)),
            (vec![], Err(RateFlaw::Absent)),
        ] {
            assert_eq!(guards.agreed(&told, at(0)), agreed, "{told:?}");
        }
    }

    #[test]
    fn a_depegged_dollar_token_has_no_rate_in_any_currency() {
        let (guards, euro) = (guards(), Pair::new("USDT", "EUR"));
        let told = Ok(price("0.9", 0));
        for (dollars, is_rate) in [
            ("1", true),
            ("0.95", true),
            ("0.9499", false),
            ("1.05", true),
            ("1.06", false),
        ] {
            let found = guards.on_peg(&euro, told, Ok(price(dollars, 0)));
            assert_eq!(found.is_ok(), is_rate, "{dollars}");
        }
        assert_eq!(guards.on_peg(&euro, told, Err(RateFlaw::Absent)), Err(RateFlaw::Absent));
        let free = Pair::new("FAU", "EUR");
        assert_eq!(guards.on_peg(&free, told, Err(RateFlaw::Absent)), told);
    }

    #[test]
    fn a_rate_jump_is_accepted_once_it_has_held() {
        let guards = guards();
        let last = RateReference::Last(Rate::parse("1").unwrap());
        let held = |minute| reading(ReadingResult::Held(price("0.7", minute)), minute);
        let judge = |since: &[StoredReading], minute| guards.judge(Ok(price("0.71", minute)), last, since, at(minute));
        assert_eq!(judge(&[], 0), (ReadingResult::Held(price("0.71", 0)), 0));
        assert_eq!(
            judge(&[held(7), held(0)], 14),
            (ReadingResult::Held(price("0.71", 14)), 0),
            "a minute too early"
        );
        assert_eq!(
            judge(&[held(0)], 15),
            (ReadingResult::Held(price("0.71", 15)), 0),
            "two readings are too few"
        );
        assert_eq!(
            judge(&[held(7), held(0)], 15),
            (ReadingResult::Accepted(price("0.71", 15)), 2)
        );
        let broken = [held(10), reading(ReadingResult::Refused(RateFlaw::Absent), 5), held(0)];
        assert_eq!(
            judge(&broken, 20).1,
            0,
            "a refused reading in between restarts the count"
        );
        let other = [held(10), reading(ReadingResult::Held(price("2", 5)), 5), held(0)];
        assert_eq!(judge(&other, 20).1, 0, "a different held price restarts the count");
        assert_eq!(
            guards.judge(Ok(price("0.8", 3)), last, &[held(2), held(1)], at(3)),
            (ReadingResult::Accepted(price("0.8", 3)), 0),
            "a price back within bounds is accepted at once"
        );
        assert_eq!(
            guards.judge(Err(RateFlaw::Zero), last, &[], at(0)).0,
            ReadingResult::Refused(RateFlaw::Zero)
        );
    }

    #[test]
    fn a_first_rate_is_accepted_once_confirmed_or_held() {
        let guards = guards();
        let judge =
            |known, since: &[StoredReading], minute| guards.judge(Ok(price("5", minute)), known, since, at(minute));
        assert_eq!(
            judge(RateReference::Confirmed, &[], 0),
            (ReadingResult::Accepted(price("5", 0)), 0)
        );
        assert_eq!(
            judge(RateReference::Nothing, &[], 0),
            (ReadingResult::Held(price("5", 0)), 0)
        );
        let held = |rate, minute| reading(ReadingResult::Held(price(rate, minute)), minute);
        let since = [held("5", 7), held("5", 0)];
        assert_eq!(
            judge(RateReference::Nothing, &since, 14),
            (ReadingResult::Held(price("5", 14)), 0)
        );
        assert_eq!(
            judge(RateReference::Nothing, &since, 15),
            (ReadingResult::Accepted(price("5", 15)), 2)
        );
        let other = [held("50", 7), held("5", 0)];
        assert_eq!(
            judge(RateReference::Nothing, &other, 15),
            (ReadingResult::Held(price("5", 15)), 0)
        );
    }

    #[test]
    fn a_rate_is_confirmed_only_by_another_dollar_token_in_its_currency() {
        let guards = guards();
        let told = |pair: &Pair| match pair.to_string().as_str() {
            "USDC/EUR" => Ok(price("0.9", 0)),
            "USDT/EUR" => Ok(price("0.94", 0)),
            "USDC/JPY" | "FAU/JPY" | "FAU/CNY" | "USDC/CNY" => Ok(price("150", 0)),
            "USDT/JPY" => Ok(price("15000", 0)),
            _ => Err(RateFlaw::Absent),
        };
        for (pair, is_confirmed) in [
            ("USDC/EUR", true),
            ("USDT/EUR", true),
            ("USDC/JPY", false),
            ("USDC/CNY", false),
            ("FAU/CNY", false),
        ] {
            let pair = Pair::parse(pair).unwrap();
            let price = told(&pair).unwrap();
            assert_eq!(guards.is_confirmed(&pair, price, told), is_confirmed, "{pair}");
        }
    }

    #[test]
    fn a_rate_applies_only_if_accepted_and_fresh() {
        let guards = guards();
        let accepted = reading(ReadingResult::Accepted(price("1", 0)), 1);
        assert!(accepted.holds_at(at(15), &guards).is_ok());
        assert_eq!(accepted.holds_at(at(16), &guards), Err(RateFlaw::Old));
        let held = reading(ReadingResult::Held(price("0.7", 0)), 1);
        assert_eq!(held.holds_at(at(1), &guards), Err(RateFlaw::Jumped));
        let refused = reading(ReadingResult::Refused(RateFlaw::OffPeg), 1);
        assert_eq!(refused.holds_at(at(1), &guards), Err(RateFlaw::OffPeg));
    }
}
