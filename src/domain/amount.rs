//! Decimal amounts and token units, without silent rounding and without floats.

use alloy::primitives::{U256, U512};
use std::{cmp::Ordering, fmt};

/// Longest accepted decimal text: 77 integer digits, a point, 30 fraction digits.
///
/// Source: rules C.3 (2^256 has 78 digits).
const TEXT_LENGTH_MAX: usize = 108;

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Not a plain decimal.
    #[error(
        "must be a decimal number written as a string, for example \"10.5\": digits, optionally a point and more digits"
    )]
    Form,
    /// Zero.
    #[error("must be greater than 0")]
    Zero,
    /// The amount has more decimals than its currency.
    #[error("must have at most {decimals} fraction digits for this currency")]
    Precision {
        /// Decimals of the currency.
        decimals: u8,
    },
    /// The amount does not fit into 256 bits of token units.
    #[error("is too large for this currency")]
    TooLarge,
}

/// A decimal number greater than zero, in human units, in canonical form (no superfluous zeros).
///
/// Source: interface §2.10; interface §8.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Amount(String);

impl Amount {
    /// Parses a decimal text. Errors: [`AmountError::Form`], [`AmountError::Zero`].
    pub fn parse(text: &str) -> Result<Self, AmountError> {
        let (whole, fraction) = split(text).ok_or(AmountError::Form)?;
        let canonical = canonical(whole, fraction);
        if canonical == "0" {
            Err(AmountError::Zero)
        } else {
            Ok(Self(canonical))
        }
    }

    /// Converts a number of smallest units of a currency with `decimals` decimals to an amount; `None` for zero.
    pub fn of_units(units: U256, decimals: u8) -> Option<Self> {
        (!units.is_zero()).then(|| Self(format_units(units, decimals)))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Key for sorting. The text has no superfluous zeros, so the longer integer part is larger and fractions sort as
    /// text.
    fn sortable(&self) -> (usize, &str, &str) {
        let (whole, fraction) = self.0.split_once('.').unwrap_or((&self.0, ""));
        (whole.len(), whole, fraction)
    }

    /// The exact sum with another amount.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let [mine, others] = [&self.0, &other.0].map(|text| text.split_once('.').unwrap_or((text, "")));
        let decimals = mine.1.len().max(others.1.len());
        let width = mine.0.len().max(others.0.len()) + 1;
        let digits = |(whole, fraction): (&str, &str)| format!("{whole:0>width$}{fraction:0<decimals$}").into_bytes();
        let mut sum = digits(mine);
        let mut carry = 0;
        for (digit, further) in sum.iter_mut().zip(digits(others)).rev() {
            let value = (*digit - b'0') + (further - b'0') + carry;
            (*digit, carry) = (b'0' + value % 10, value / 10);
        }
        let sum: String = sum.into_iter().map(char::from).collect();
        let (whole, fraction) = sum.split_at(width);
        let whole = whole.trim_start_matches('0');
        Self(canonical(if whole.is_empty() { "0" } else { whole }, fraction))
    }

    /// Converts the amount to the smallest unit of a currency with `decimals` decimals.
    ///
    /// Errors: [`AmountError::Precision`] when the amount would have to be rounded, [`AmountError::TooLarge`].
    pub fn to_units(&self, decimals: u8) -> Result<U256, AmountError> {
        let (whole, fraction) = self.0.split_once('.').unwrap_or((&self.0, ""));
        if fraction.len() > usize::from(decimals) {
            return Err(AmountError::Precision { decimals });
        }
        let padding = usize::from(decimals) - fraction.len();
        let digits = format!("{whole}{fraction}{}", "0".repeat(padding));
        U256::from_str_radix(&digits, 10).map_err(|_| AmountError::TooLarge)
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    /// Compares numbers of any length.
    fn cmp(&self, other: &Self) -> Ordering {
        self.sortable().cmp(&other.sortable())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Splits at the point; `None` unless the text is ASCII digits with at most one point.
fn split(text: &str) -> Option<(&str, &str)> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if digits(fraction) => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    (digits(whole) && !leading_zero && text.len() <= TEXT_LENGTH_MAX).then_some((whole, fraction))
}

fn canonical(whole: &str, fraction: &str) -> String {
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        whole.to_owned()
    } else {
        format!("{whole}.{fraction}")
    }
}

/// Writes token units as a human decimal without superfluous zeros: `1500000` with 6 decimals is `1.5`.
pub fn format_units(units: U256, decimals: u8) -> String {
    let digits = units.to_string();
    let decimals = usize::from(decimals);
    if decimals == 0 {
        return digits;
    }
    let padded = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, fraction) = padded.split_at(padded.len() - decimals);
    canonical(whole, fraction)
}

/// A percentage from 0 to 100 with at most two fraction digits, stored in hundredths of a percent.
///
/// Source: interface §2.10; interface §8; decisions D1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u16);

/// Why a text is not a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a number from 0 to 100 with at most 2 fraction digits, written as a string, for example \"2.5\"")]
pub struct PercentError;

impl Percent {
    /// Parses `2.5` as 2.5 %.
    pub fn parse(text: &str) -> Result<Self, PercentError> {
        let (whole, fraction) = split(text).ok_or(PercentError)?;
        if fraction.len() > 2 || whole.len() > 3 {
            return Err(PercentError);
        }
        let hundredths: u32 = format!("{whole}{fraction:0<2}").parse().map_err(|_| PercentError)?;
        if hundredths > 10_000 {
            return Err(PercentError);
        }
        u16::try_from(hundredths).map(Self).map_err(|_| PercentError)
    }

    /// Hundredths of a percent, which are basis points.
    pub fn basis_points(self) -> u16 {
        self.0
    }

    /// The percentage of a number of basis points; `None` above 100 %.
    pub fn from_basis_points(points: u16) -> Option<Self> {
        (points <= 10_000).then_some(Self(points))
    }

    /// This percentage of `units`, rounded down; never more than `units`.
    pub fn of(self, units: U256) -> U256 {
        let part = U512::from(units) * U512::from(self.0) / U512::from(10_000);
        U256::checked_from_limbs_slice(part.as_limbs()).unwrap_or(units)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format_units(U256::from(self.0), 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sums_are_exact_for_any_number_of_digits() {
        let long = format!("{}.{}", "9".repeat(77), "9".repeat(30));
        let carried = format!("1{}.{}1", "0".repeat(77), "0".repeat(29));
        for (one, other, sum) in [
            ("1", "2", "3"),
            ("0.1", "0.2", "0.3"),
            ("99.99", "0.01", "100"),
            ("0.000001", "250", "250.000001"),
            ("0.5", "0.75", "1.25"),
            (&long, &format!("0.{}2", "0".repeat(29)), &carried),
        ] {
            let amount = |text: &str| Amount::parse(text).unwrap();
            assert_eq!(amount(one).plus(&amount(other)).as_str(), sum, "{one} + {other}");
            assert_eq!(amount(other).plus(&amount(one)).as_str(), sum, "{other} + {one}");
        }
    }

    #[test]
    fn texts_other_than_plain_decimals_are_rejected() {
        for text in [
            "", "-1", "+1", "1e3", "1.", ".5", "1.2.3", "1,5", " 1", "1 ", "0x10", "NaN", "01", "١", "１", "1_000",
            "1\0", "∞",
        ] {
            assert_eq!(Amount::parse(text), Err(AmountError::Form), "{text:?}");
        }
        assert_eq!(Amount::parse("0"), Err(AmountError::Zero));
        assert_eq!(Amount::parse("0.000"), Err(AmountError::Zero));
    }

    #[test]
    fn excess_fraction_digits_are_rejected_not_rounded() {
        let amount = Amount::parse("1.0000001").unwrap();
        assert_eq!(amount.to_units(6), Err(AmountError::Precision { decimals: 6 }));
        assert_eq!(amount.to_units(7), Ok(U256::from(10_000_001)));
    }

    #[test]
    fn the_largest_unit_fits_and_the_next_does_not() {
        let largest = Amount::parse(&U256::MAX.to_string());
        assert_eq!(largest.unwrap().to_units(0), Ok(U256::MAX));
        let next = format!("{}6", &U256::MAX.to_string()[..77]);
        assert!(U256::MAX.to_string() == format!("{}5", &next[..77]));
        assert_eq!(Amount::parse(&next).unwrap().to_units(0), Err(AmountError::TooLarge));
    }

    #[test]
    fn percentages_have_at_most_two_digits_and_end_at_one_hundred() {
        assert_eq!(Percent::parse("100").unwrap().basis_points(), 10_000);
        assert_eq!(Percent::parse("2.5").unwrap().basis_points(), 250);
        assert_eq!(Percent::parse("2.5").unwrap().to_string(), "2.5");
        for text in ["100.01", "101", "2.555", "-1", "", "1e1"] {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn units_round_trip_through_text(words in any::<[u64; 4]>(), decimals in 0u8..=30) {
            let units = U256::from_limbs(words);
            prop_assume!(!units.is_zero());
            let text = format_units(units, decimals);
            prop_assert_eq!(Amount::parse(&text).unwrap().to_units(decimals), Ok(units));
        }

        #[test]
        fn amounts_compare_like_their_units(one in 1u64.., other in 1u64.., decimals in 0u8..=30) {
            let amount = |units: u64| Amount::of_units(U256::from(units), decimals).unwrap();
            prop_assert_eq!(amount(one).cmp(&amount(other)), one.cmp(&other));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            if let Ok(amount) = Amount::parse(&text) {
                prop_assert!(amount.as_str().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
            }
        }

        #[test]
        fn a_fee_is_exact_up_to_the_largest_base(words in any::<[u64; 4]>(), points in 0u16..=10_000) {
            let units = U256::from_limbs(words);
            let percent = Percent::parse(&format!("{}.{:02}", points / 100, points % 100)).unwrap();
            prop_assert_eq!(Some(percent), Percent::from_basis_points(points));
            let scaled = U512::from(percent.of(units)) * U512::from(10_000);
            let exact = U512::from(units) * U512::from(points);
            prop_assert!(scaled <= exact && exact - scaled < U512::from(10_000));
        }
    }
}
