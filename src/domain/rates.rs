//! Rates as feeds tell them, and which of them are believed. What is not beyond doubt is no rate.

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
    /// Where a rate comes from. Source: interface §2.1.
    pub enum RateProvider {
        /// A bridge.
        Lifi = "lifi",
        /// Price feeds on chain.
        Chainlink = "chainlink",
        /// The rate service of that name.
        Coingecko = "coingecko",
        /// Any other feed, and the operator.
        Unknown = "unknown",
    }
}

/// What a feed tells of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// The rate.
    pub rate: Rate,
    /// When it was true, by the word of the feed.
    pub as_of: DateTime<Utc>,
}

wire_text! {
    /// Why a reading is no rate.
    pub enum Flaw {
        /// The feed says nothing of the pair.
        Absent = "absent",
        /// What it says is no number.
        Unreadable = "unreadable",
        /// It says zero.
        Zero = "zero",
        /// It does not say when the rate was true, or a time to come.
        Undated = "undated",
        /// The rate was true too long ago.
        Old = "old",
        /// Two feeds differ too much.
        Apart = "apart",
        /// The token is too far from the dollar that it stands for.
        OffPeg = "off_peg",
        /// The rate is the first one that nothing confirms, or too far from the last accepted one, and has not held long
        /// enough.
        Jumped = "jumped",
    }
}

impl Flaw {
    /// What is wrong, for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Absent => "the feed does not tell it",
            Self::Unreadable => "the feed tells something that is no number",
            Self::Zero => "the feed tells zero",
            Self::Undated => "the feed does not tell of which time it is",
            Self::Old => "the last one is too old",
            Self::Apart => "two feeds differ too much",
            Self::OffPeg => "the token is too far from a dollar",
            Self::Jumped => "it is the first one, or too far from the last one, and has not held long enough",
        }
    }
}

impl From<RateError> for Flaw {
    fn from(error: RateError) -> Self {
        match error {
            RateError::Form => Self::Unreadable,
            RateError::Zero => Self::Zero,
        }
    }
}

/// What a rate has to keep to. Parts are in basis points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateGuards {
    /// For how long a rate is one after it was true.
    pub max_age: TimeDelta,
    /// How far from the last accepted rate it may be.
    pub jump: u16,
    /// For how long a rate that is further off has to hold.
    pub hold: TimeDelta,
    /// Readings in which it has to hold, at least.
    pub hold_readings: usize,
    /// How far from a dollar a dollar token may be.
    pub peg: u16,
    /// How far two feeds may differ.
    pub apart: u16,
}

/// What a sandbox of rates is to tell from now on; what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateChange {
    /// The price of a pair.
    pub price: Option<(Pair, Rate)>,
    /// Whether its prices are a day old.
    pub is_stale: Option<bool>,
    /// Whether it answers with an error.
    pub is_down: Option<bool>,
}

/// A rate that is believed, and who told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedRate {
    /// The rate.
    pub rate: Rate,
    /// Who told it.
    pub provider: RateProvider,
}

wire_text! {
    /// What a reading was found to be, in a word.
    pub enum ReadingState {
        /// A rate.
        Accepted = "accepted",
        /// None until it has held.
        Held = "held",
        /// None.
        Refused = "refused",
    }
}

/// What a reading is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The last accepted rate.
    Last(Rate),
    /// No rate was accepted yet, and another feed or another dollar token confirms this one.
    Confirmed,
    /// No rate was accepted yet, and nothing confirms this one.
    Nothing,
}

/// What a reading was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A rate.
    Accepted(Price),
    /// A first rate that nothing confirms, or one that is too far from the last accepted one, until it has held.
    Held(Price),
    /// None.
    Refused(Flaw),
}

impl Finding {
    /// In a word.
    pub const fn state(self) -> ReadingState {
        match self {
            Self::Accepted(_) => ReadingState::Accepted,
            Self::Held(_) => ReadingState::Held,
            Self::Refused(_) => ReadingState::Refused,
        }
    }
}

/// A reading as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Token and fiat currency.
    pub pair: Pair,
    /// When the feeds were read.
    pub read_at: DateTime<Utc>,
    /// Who told it.
    pub provider: RateProvider,
    /// What it was found to be.
    pub finding: Finding,
}

impl Reading {
    /// The rate, where it is the newest reading at a time and still holds then. Errors: why there is none.
    pub fn holds_at(&self, time: DateTime<Utc>, guards: &RateGuards) -> Result<AppliedRate, Flaw> {
        match self.finding {
            Finding::Accepted(price) if time - price.as_of <= guards.max_age => Ok(AppliedRate {
                rate: price.rate,
                provider: self.provider,
            }),
            Finding::Accepted(_) => Err(Flaw::Old),
            Finding::Held(_) => Err(Flaw::Jumped),
            Finding::Refused(flaw) => Err(flaw),
        }
    }

    /// Its rate, while it is held back.
    pub fn held(&self) -> Option<Rate> {
        match self.finding {
            Finding::Held(price) => Some(price.rate),
            Finding::Accepted(_) | Finding::Refused(_) => None,
        }
    }
}

impl RateGuards {
    /// What several feeds tell together of a pair: what the first one says, when all of them say about the same and none
    /// of it is old.
    pub fn agreed(&self, told: &[Result<Price, Flaw>], now: DateTime<Utc>) -> Result<Price, Flaw> {
        let (first, others) = told.split_first().ok_or(Flaw::Absent)?;
        let first = self.dated(*first, now)?;
        for other in others {
            if self.dated(*other, now)?.rate.is_off(first.rate, self.apart) {
                return Err(Flaw::Apart);
            }
        }
        Ok(first)
    }

    fn dated(&self, told: Result<Price, Flaw>, now: DateTime<Utc>) -> Result<Price, Flaw> {
        let price = told?;
        if price.as_of - now > AHEAD_MAX {
            return Err(Flaw::Undated);
        }
        match now - price.as_of > self.max_age {
            true => Err(Flaw::Old),
            false => Ok(price),
        }
    }

    /// The same, unless the token is one that is meant to cost a dollar and does not; `dollars` is what it costs.
    pub fn on_peg(&self, pair: &Pair, told: Result<Price, Flaw>, dollars: Result<Price, Flaw>) -> Result<Price, Flaw> {
        let price = told?;
        if !DOLLAR_SYMBOLS.contains(&pair.symbol.as_str()) {
            return Ok(price);
        }
        let peg = Rate::parse("1").map_err(Flaw::from)?;
        match dollars?.rate.is_off(peg, self.peg) {
            true => Err(Flaw::OffPeg),
            false => Ok(price),
        }
    }

    /// Those of the newest readings that were held back in a row and tell about the same as `rate`; `since` has the newest
    /// first. An older one that tells something else, and all before it, stay what they are.
    pub fn run<'a>(&self, rate: Rate, since: &'a [Reading]) -> &'a [Reading] {
        let is_same = |rate_then: Rate| !rate_then.is_off(rate, self.jump);
        let run = since
            .iter()
            .take_while(|reading| reading.held().is_some_and(is_same))
            .count();
        since.get(..run).unwrap_or_default()
    }

    /// Whether another dollar token costs about the same in the same currency: what one of them is worth there is no
    /// slip of its own entry then.
    pub fn is_confirmed(&self, pair: &Pair, price: Price, of: impl Fn(&Pair) -> Result<Price, Flaw>) -> bool {
        let is_near = |symbol: &str| {
            let other = of(&Pair::new(symbol, &pair.invoice));
            symbol != pair.symbol && other.is_ok_and(|other| !other.rate.is_off(price.rate, self.peg))
        };
        DOLLAR_SYMBOLS.contains(&pair.symbol.as_str()) && DOLLAR_SYMBOLS.into_iter().any(is_near)
    }

    /// Finds out what a reading is. `since` has the readings after the last accepted one, the newest first.
    ///
    /// Returns how many of those become accepted with it: a first rate that nothing confirms, and one that is far from the
    /// last accepted one, is believed, with hindsight, once enough readings in a row have told it for long enough.
    pub fn judge(
        &self,
        told: Result<Price, Flaw>,
        known: Known,
        since: &[Reading],
        now: DateTime<Utc>,
    ) -> (Finding, usize) {
        let price = match told {
            Ok(price) => price,
            Err(flaw) => return (Finding::Refused(flaw), 0),
        };
        let is_believed = match known {
            Known::Last(last) => !price.rate.is_off(last, self.jump),
            Known::Confirmed => true,
            Known::Nothing => false,
        };
        if is_believed {
            return (Finding::Accepted(price), 0);
        }
        let run = self.run(price.rate, since);
        let has_held = run.last().is_some_and(|first| now - first.read_at >= self.hold);
        match has_held && run.len() + 1 >= self.hold_readings {
            true => (Finding::Accepted(price), run.len()),
            false => (Finding::Held(price), 0),
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

    fn price(rate: &str, minute: i64) -> Price {
        Price {
            rate: Rate::parse(rate).unwrap(),
            as_of: at(minute),
        }
    }

    fn reading(finding: Finding, minute: i64) -> Reading {
        Reading {
            pair: Pair::new("USDC", "USD"),
            read_at: at(minute),
            provider: RateProvider::Unknown,
            finding,
        }
    }

    #[test]
    fn feeds_have_to_agree_and_none_may_be_old_or_ahead() {
        let guards = guards();
        for (told, agreed) in [
            (vec![Ok(price("1", 0))], Ok(price("1", 0))),
            (vec![Ok(price("1", 0)), Ok(price("1.01", 0))], Ok(price("1", 0))),
            (vec![Ok(price("1", 0)), Ok(price("1.0101", 0))], Err(Flaw::Apart)),
            (vec![Ok(price("1", 0)), Err(Flaw::Absent)], Err(Flaw::Absent)),
            (vec![Err(Flaw::Zero), Ok(price("1", 0))], Err(Flaw::Zero)),
            (vec![Ok(price("1", -15))], Ok(price("1", -15))),
            (vec![Ok(price("1", -16))], Err(Flaw::Old)),
            (vec![Ok(price("1", 0)), Ok(price("1", -16))], Err(Flaw::Old)),
            (vec![Ok(price("1", 2))], Err(Flaw::Undated)),
            (vec![], Err(Flaw::Absent)),
        ] {
            assert_eq!(guards.agreed(&told, at(0)), agreed, "{told:?}");
        }
    }

    #[test]
    fn a_dollar_token_off_its_peg_has_no_rate_in_any_currency() {
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
        assert_eq!(guards.on_peg(&euro, told, Err(Flaw::Absent)), Err(Flaw::Absent));
        let free = Pair::new("FAU", "EUR");
        assert_eq!(guards.on_peg(&free, told, Err(Flaw::Absent)), told);
    }

    #[test]
    fn a_jump_is_believed_once_it_has_held() {
        let guards = guards();
        let last = Known::Last(Rate::parse("1").unwrap());
        let held = |minute| reading(Finding::Held(price("0.7", minute)), minute);
        let judge = |since: &[Reading], minute| guards.judge(Ok(price("0.71", minute)), last, since, at(minute));
        assert_eq!(judge(&[], 0), (Finding::Held(price("0.71", 0)), 0));
        assert_eq!(
            judge(&[held(7), held(0)], 14),
            (Finding::Held(price("0.71", 14)), 0),
            "a minute too early"
        );
        assert_eq!(
            judge(&[held(0)], 15),
            (Finding::Held(price("0.71", 15)), 0),
            "two readings"
        );
        assert_eq!(
            judge(&[held(7), held(0)], 15),
            (Finding::Accepted(price("0.71", 15)), 2)
        );
        let broken = [held(10), reading(Finding::Refused(Flaw::Absent), 5), held(0)];
        assert_eq!(judge(&broken, 20).1, 0, "it has to hold in a row");
        let other = [held(10), reading(Finding::Held(price("2", 5)), 5), held(0)];
        assert_eq!(judge(&other, 20).1, 0, "and to be the same");
        assert_eq!(
            guards.judge(Ok(price("0.8", 3)), last, &[held(2), held(1)], at(3)),
            (Finding::Accepted(price("0.8", 3)), 0),
            "back within bounds, it is a rate at once"
        );
        assert_eq!(
            guards.judge(Err(Flaw::Zero), last, &[], at(0)).0,
            Finding::Refused(Flaw::Zero)
        );
    }

    #[test]
    fn a_first_rate_is_believed_once_something_confirms_it_or_it_has_held() {
        let guards = guards();
        let judge = |known, since: &[Reading], minute| guards.judge(Ok(price("5", minute)), known, since, at(minute));
        assert_eq!(judge(Known::Confirmed, &[], 0), (Finding::Accepted(price("5", 0)), 0));
        assert_eq!(judge(Known::Nothing, &[], 0), (Finding::Held(price("5", 0)), 0));
        let held = |rate, minute| reading(Finding::Held(price(rate, minute)), minute);
        let since = [held("5", 7), held("5", 0)];
        assert_eq!(judge(Known::Nothing, &since, 14), (Finding::Held(price("5", 14)), 0));
        assert_eq!(
            judge(Known::Nothing, &since, 15),
            (Finding::Accepted(price("5", 15)), 2)
        );
        let other = [held("50", 7), held("5", 0)];
        assert_eq!(judge(Known::Nothing, &other, 15), (Finding::Held(price("5", 15)), 0));
    }

    #[test]
    fn only_another_dollar_token_in_the_same_currency_confirms_a_rate() {
        let guards = guards();
        let told = |pair: &Pair| match pair.to_string().as_str() {
            "USDC/EUR" => Ok(price("0.9", 0)),
            "USDT/EUR" => Ok(price("0.94", 0)),
            "USDC/JPY" | "FAU/JPY" | "FAU/CNY" | "USDC/CNY" => Ok(price("150", 0)),
            "USDT/JPY" => Ok(price("15000", 0)),
            _ => Err(Flaw::Absent),
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
    fn the_newest_reading_decides_and_only_as_long_as_it_is_fresh() {
        let guards = guards();
        let accepted = reading(Finding::Accepted(price("1", 0)), 1);
        assert!(accepted.holds_at(at(15), &guards).is_ok());
        assert_eq!(accepted.holds_at(at(16), &guards), Err(Flaw::Old));
        let held = reading(Finding::Held(price("0.7", 0)), 1);
        assert_eq!(held.holds_at(at(1), &guards), Err(Flaw::Jumped));
        let refused = reading(Finding::Refused(Flaw::OffPeg), 1);
        assert_eq!(refused.holds_at(at(1), &guards), Err(Flaw::OffPeg));
    }
}
