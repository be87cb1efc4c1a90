//! Quotes: tokens for an amount in another currency, promised until an end, and what a payment is worth beside them.

use super::{ledger::SettlementUnits, rates::AppliedRate};
use alloy::primitives::U256;
use chrono::{DateTime, TimeDelta, Utc};

/// Quotes of one request that a credential may have handed out for named amounts and that have not ended; plain calldata
/// is always quoted.
pub const NAMED_QUOTES_MAX: u64 = 100;

/// How far the clock of a chain may be behind that of the service: a payment of a quote is mined after it was told.
const BEHIND_MAX: TimeDelta = TimeDelta::seconds(15);

/// So many token units for so much of a request, until an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// How much of the request they settle.
    pub settlement: SettlementUnits,
    /// Token units for the payee, without fees.
    pub units: U256,
    /// By which rate, and whose.
    pub applied: AppliedRate,
    /// When it was told.
    pub from: DateTime<Utc>,
    /// When it ends.
    pub until: DateTime<Utc>,
}

/// What a payment is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worth {
    /// How much of the request it settles.
    pub credited: SettlementUnits,
    /// By which rate, and whose.
    pub applied: AppliedRate,
    /// Whether a quote promised it.
    pub is_quoted: bool,
}

impl Quote {
    /// The tokens for so much of a request by the rate of now, rounded up. `None` beyond 256 bits.
    pub fn of(
        settlement: SettlementUnits,
        decimals: u8,
        applied: AppliedRate,
        now: DateTime<Utc>,
        lasts: TimeDelta,
    ) -> Option<Self> {
        Some(Self {
            settlement,
            units: applied.rate.units_for(settlement, decimals)?,
            applied,
            from: now,
            until: now + lasts,
        })
    }

    /// Whether a payment of so many units in a block of that time is the one that was quoted.
    fn is_paid_by(&self, units: U256, mined_at: DateTime<Utc>) -> bool {
        self.units == units && self.from - BEHIND_MAX <= mined_at && mined_at < self.until
    }
}

/// What a payment of so many units is worth as a quote: of several that it pays, the one that settles most.
///
/// A payment of exactly a quote's units that is mined before its end counts as that quote.
pub fn quoted(units: U256, mined_at: DateTime<Utc>, quotes: &[Quote]) -> Option<Worth> {
    let paid = quotes.iter().filter(|quote| quote.is_paid_by(units, mined_at));
    paid.max_by_key(|quote| quote.settlement).map(|quote| Worth {
        credited: quote.settlement,
        applied: quote.applied,
        is_quoted: true,
    })
}

/// What a payment of so many units is worth by a rate, rounded down.
pub fn rated(units: U256, decimals: u8, applied: AppliedRate) -> Worth {
    Worth {
        credited: applied.rate.worth(units, decimals).unwrap_or(U256::MAX),
        applied,
        is_quoted: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{rate::Rate, rates::RateProvider};
    use proptest::prelude::*;

    const DECIMALS: u8 = 6;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(1) + TimeDelta::seconds(second)
    }

    fn applied(rate: &str) -> AppliedRate {
        AppliedRate {
            rate: Rate::parse(rate).unwrap(),
            provider: RateProvider::Unknown,
        }
    }

    fn quote(dollars: u64, rate: &str, from: i64) -> Quote {
        let settlement = U256::from(dollars * 100_000_000);
        Quote::of(settlement, DECIMALS, applied(rate), at(from), TimeDelta::minutes(10)).unwrap()
    }

    fn units(of: u64) -> U256 {
        U256::from(of)
    }

    #[test]
    fn exactly_its_units_before_its_end_count_as_the_quote() {
        let quote = quote(10, "0.97", 0);
        assert_eq!(quote.units, units(10_309_279), "rounded up");
        let of = |paid: u64, second| quoted(units(paid), at(second), &[quote]).map(|worth| worth.credited);
        let whole = Some(U256::from(1_000_000_000));
        for (paid, second, credited) in [
            (10_309_279, 0, whole),
            (10_309_279, 599, whole),
            (10_309_279, -15, whole),
            (10_309_279, 600, None),
            (10_309_279, -16, None),
            (10_309_278, 0, None),
            (10_309_280, 0, None),
        ] {
            assert_eq!(of(paid, second), credited, "{paid} at {second}");
        }
    }

    #[test]
    fn of_quotes_with_the_same_units_the_one_counts_that_settles_most() {
        let (cheap, dear) = (quote(10, "1", 0), quote(8, "0.8", 30));
        assert_eq!(cheap.units, dear.units);
        for quotes in [[cheap, dear], [dear, cheap]] {
            let worth = quoted(cheap.units, at(60), &quotes).unwrap();
            assert_eq!(worth.credited, cheap.settlement);
            assert_eq!(worth.applied, applied("1"));
        }
        assert_eq!(
            quoted(cheap.units, at(610), &[cheap, dear]).unwrap().credited,
            dear.settlement,
            "the other one has ended"
        );
    }

    proptest! {
        /// A quote that has ended is worth what its tokens are worth then, whatever was promised.
        #[test]
        fn after_a_fall_an_old_quote_is_not_worth_what_it_was(dollars in 1_u64..1_000_000, rate in 100_u64..1_000_000, percent in 1_u64..90) {
            let text = |scaled: u64| format!("{scaled}e-4");
            let told = quote(dollars, &text(rate), 0);
            let later = rated(told.units, DECIMALS, applied(&text(rate - rate * percent / 100)));
            prop_assert!(later.credited < told.settlement);
            let same = rated(told.units, DECIMALS, told.applied);
            prop_assert!(same.credited >= told.settlement, "at the rate of the quote it still pays in full");
        }

        #[test]
        fn parts_that_are_quoted_one_by_one_add_up_to_the_whole(one in 1_u64..1_000_000, other in 1_u64..1_000_000, rate in 1_u64..1_000_000) {
            let text = format!("{rate}e-4");
            let quotes = [quote(one, &text, 0), quote(other, &text, 5)];
            let sum = quotes.iter().fold(U256::ZERO, |sum, quote| {
                let worth = quoted(quote.units, at(10), std::slice::from_ref(quote)).unwrap();
                sum + worth.credited
            });
            prop_assert_eq!(sum, U256::from(one + other) * U256::from(100_000_000));
        }
    }
}
