//! Quotes: token amounts for an amount in another currency, valid until they expire. Also the worth of payments by a
//! quote or a rate.

use super::{ledger::SettlementUnits, rates::AppliedRate};
use alloy::primitives::U256;
use chrono::{DateTime, TimeDelta, Utc};

/// Maximum number of unexpired quotes for partial amounts that a credential may have for one request. Calldata for the
/// remaining amount always gets a quote.
pub const NAMED_QUOTES_MAX: u64 = 100;

/// How far the clock of a chain may be behind that of the service. A payment of a quote is mined after the quote was
/// issued, but its block may show an earlier time.
const BEHIND_MAX: TimeDelta = TimeDelta::seconds(15);

/// A quote: token units for an amount of a request, valid until an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// Amount of the request that these units settle.
    pub settlement: SettlementUnits,
    /// Token units for the payee, without fees.
    pub units: U256,
    /// The applied rate, with its provider.
    pub applied: AppliedRate,
    /// When it was issued.
    pub from: DateTime<Utc>,
    /// When it expires.
    pub until: DateTime<Utc>,
}

/// Worth of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentValue {
    /// Amount of the request that the payment settles.
    pub credited: SettlementUnits,
    /// The applied rate, with its provider.
    pub applied: AppliedRate,
    /// Whether a quote determined the amount.
    pub is_quoted: bool,
}

impl Quote {
    /// The quote for an amount of a request at the current rate, with token units rounded up. `None` beyond 256 bits.
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

    /// Whether a payment with these units in a block of this time pays the quote.
    fn is_paid_by(&self, units: U256, mined_at: DateTime<Utc>) -> bool {
        self.units == units && self.from - BEHIND_MAX <= mined_at && mined_at < self.until
    }
}

/// The worth of a payment by its quote. If the payment matches several quotes, the quote that settles most decides.
///
/// A payment matches a quote if it has exactly the units of the quote and is mined before the quote expires.
pub fn quoted(units: U256, mined_at: DateTime<Utc>, quotes: &[Quote]) -> Option<PaymentValue> {
    let paid = quotes.iter().filter(|quote| quote.is_paid_by(units, mined_at));
    paid.max_by_key(|quote| quote.settlement).map(|quote| PaymentValue {
        credited: quote.settlement,
        applied: quote.applied,
        is_quoted: true,
    })
}

/// The worth of a payment at a rate, rounded down.
pub fn rated(units: U256, decimals: u8, applied: AppliedRate) -> PaymentValue {
    PaymentValue {
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
    fn a_quote_applies_to_exactly_its_units_before_it_expires() {
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
    fn among_quotes_with_equal_units_the_highest_settlement_applies() {
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
            "the other quote has expired"
        );
    }

    proptest! {
        /// Units that arrive after a quote expired are credited at the current rate, not at the quoted one.
        #[test]
        fn an_expired_quote_is_worth_the_current_rate(dollars in 1_u64..1_000_000, rate in 100_u64..1_000_000, percent in 1_u64..90) {
            let text = |scaled: u64| format!("{scaled}e-4");
            let told = quote(dollars, &text(rate), 0);
            let later = rated(told.units, DECIMALS, applied(&text(rate - rate * percent / 100)));
            prop_assert!(later.credited < told.settlement);
            let same = rated(told.units, DECIMALS, told.applied);
            prop_assert!(same.credited >= told.settlement, "at the rate of the quote the units still pay in full");
        }

        #[test]
        fn separately_quoted_parts_add_up_to_the_whole(one in 1_u64..1_000_000, other in 1_u64..1_000_000, rate in 1_u64..1_000_000) {
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
