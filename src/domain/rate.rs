//! Exchange rates as decimal texts, computed with integers.

use super::{amount::format_units, currency::FIAT_CHAIN_DECIMALS, ledger::SettlementUnits};
use alloy::primitives::{U256, U512};
use std::fmt;

/// Decimals of the rates in responses.
pub const RATE_DECIMALS: u8 = 18;

/// Longest accepted text of a rate.
const TEXT_LENGTH_MAX: usize = 128;

/// Largest accepted exponent of a rate, with either sign.
const EXPONENT_MAX: i32 = 60;

/// Maximum digits before the point; no currency needs more, and results stay in bounds.
const WHOLE_DIGITS_MAX: u8 = 18;

/// Price of one unit of a token in an invoice currency: greater than zero, less than 10¹⁸, with at most 18 decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(U256);

/// Why a text is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The text is not a decimal number, or its exponent or length is far out of range.
    #[error("must be a number greater than 0 in decimal digits, for example 0.9998")]
    Form,
    /// Zero within 18 decimals.
    #[error("must be greater than 0")]
    Zero,
}

impl Rate {
    /// Parses a decimal number in JSON notation, with or without an exponent. Decimals after the eighteenth are cut
    /// off.
    pub fn parse(text: &str) -> Result<Self, RateError> {
        if text.len() > TEXT_LENGTH_MAX {
            return Err(RateError::Form);
        }
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err(RateError::Form),
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let are_digits = [whole, fraction]
            .iter()
            .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if whole.is_empty() || !are_digits {
            return Err(RateError::Form);
        }
        let mut digits = format!("{whole}{fraction}");
        let fraction_digits = i32::try_from(fraction.len()).map_err(|_| RateError::Form)?;
        let shift = i32::from(RATE_DECIMALS) + exponent - fraction_digits;
        match usize::try_from(shift) {
            Ok(zeros) => digits.extend(std::iter::repeat_n('0', zeros)),
            Err(_) => {
                let cut = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
                digits.truncate(digits.len().saturating_sub(cut));
            }
        }
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Err(RateError::Zero);
        }
        if digits.len() > usize::from(WHOLE_DIGITS_MAX + RATE_DECIMALS) {
            return Err(RateError::Form);
        }
        U256::from_str_radix(digits, 10).map(Self).map_err(|_| RateError::Form)
    }

    /// The smallest number of token units that is worth at least `settlement`; `decimals` are those of the token.
    ///
    /// `None` beyond 256 bits.
    pub fn units_for(self, settlement: SettlementUnits, decimals: u8) -> Option<U256> {
        let numerator = U512::from(settlement).checked_mul(unit_scale(decimals)?)?;
        let (units, rest) = (numerator / U512::from(self.0), numerator % U512::from(self.0));
        let units = units.checked_add(U512::from(u8::from(!rest.is_zero())))?;
        U256::checked_from_limbs_slice(units.as_limbs())
    }

    /// The worth of token units, rounded down; `decimals` are those of the token. `None` beyond 256 bits.
    pub fn worth(self, units: U256, decimals: u8) -> Option<SettlementUnits> {
        let worth = U512::from(units).checked_mul(U512::from(self.0))? / unit_scale(decimals)?;
        U256::checked_from_limbs_slice(worth.as_limbs())
    }

    /// Whether this rate differs from another rate by more than a number of basis points of the other rate.
    pub fn is_off(self, other: Self, basis_points: u16) -> bool {
        let difference = U512::from(self.0.abs_diff(other.0)) * U512::from(10_000);
        difference > U512::from(other.0) * U512::from(basis_points)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format_units(self.0, RATE_DECIMALS))
    }
}

fn read_exponent(text: &str) -> Result<i32, RateError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RateError::Form);
    }
    let exponent: i32 = text.parse().map_err(|_| RateError::Form)?;
    if exponent.abs() <= EXPONENT_MAX {
        Ok(exponent)
    } else {
        Err(RateError::Form)
    }
}

/// Divisor that converts the product of token units and a rate to settlement units. The rate is an integer with 18
/// decimals.
fn unit_scale(decimals: u8) -> Option<U512> {
    let exponent = u16::from(decimals) + u16::from(RATE_DECIMALS) - u16::from(FIAT_CHAIN_DECIMALS);
    U512::from(10).checked_pow(U512::from(exponent))
}

/// The price of one unit of the second quantity in units of the first: `ratio(2 USD, 1 token)` is `2`.
///
/// The rate has at most `digits` decimals; the remaining ones are cut off. `None` when the second quantity is zero or
/// the result exceeds 256 bits.
pub fn ratio(units: U256, decimals: u8, per_units: U256, per_decimals: u8, digits: u8) -> Option<String> {
    let scale = |exponent: u8| U512::from(10).checked_pow(U512::from(exponent));
    let numerator = U512::from(units)
        .checked_mul(scale(per_decimals)?)?
        .checked_mul(scale(digits)?)?;
    let denominator = U512::from(per_units).checked_mul(scale(decimals)?)?;
    let scaled = U256::checked_from_limbs_slice(numerator.checked_div(denominator)?.as_limbs())?;
    Some(format_units(scaled, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> Rate {
        Rate::parse(text).unwrap()
    }

    #[test]
    fn json_numbers_are_parsed_exactly_without_floats() {
        for (text, shown) in [
            ("1", "1"),
            ("0.9997", "0.9997"),
            ("1.000", "1"),
            ("150.123456789012345678", "150.123456789012345678"),
            ("0.1234567890123456789", "0.123456789012345678"),
            ("9.1e-05", "0.000091"),
            ("1.5E3", "1500"),
            ("12e+1", "120"),
            ("1e-18", "0.000000000000000001"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("999999999999999999", "999999999999999999"),
        ] {
            assert_eq!(rate(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn invalid_prices_are_not_rates() {
        for text in ["0", "0.0", "0e5", "1e-19", "0.0000000000000000009"] {
            assert_eq!(Rate::parse(text), Err(RateError::Zero), "{text}");
        }
        let long = "1".repeat(200);
        for text in [
            "",
            "-1",
            "+1",
            "1.",
            ".5",
            "1e",
            "1e+",
            "e5",
            "1e999999999999",
            "1e61",
            "1e18",
            "NaN",
            "null",
            "\"1\"",
            " 1",
            "1,5",
            "0x10",
            "1_000",
            &long,
        ] {
            assert_eq!(Rate::parse(text), Err(RateError::Form), "{text}");
        }
    }

    #[test]
    fn bounds_are_inclusive() {
        for (new, old, basis_points, is_off) in [
            ("0.8", "1", 2_000, false),
            ("0.799999999999999999", "1", 2_000, true),
            ("1.2", "1", 2_000, false),
            ("1.200000000000000001", "1", 2_000, true),
            ("0.95", "1", 500, false),
            ("1.01", "1", 100, false),
            ("1.0101", "1", 100, true),
            ("1", "1", 0, false),
        ] {
            assert_eq!(rate(new).is_off(rate(old), basis_points), is_off, "{new} {old}");
        }
    }

    proptest! {
        /// The units computed from a rate are worth at least the amount; one unit less is worth less.
        #[test]
        fn the_requested_units_pay_in_full_and_one_unit_less_does_not(
            settlement in 1_u64..u64::MAX,
            scaled in 1_u64..u64::MAX,
            exponent in -18_i32..1,
            decimals in 0_u8..=18,
        ) {
            let Ok(rate) = Rate::parse(&format!("{scaled}e{exponent}")) else { return Ok(()) };
            let settlement = U256::from(settlement);
            let units = rate.units_for(settlement, decimals).unwrap();
            prop_assert!(rate.worth(units, decimals).unwrap() >= settlement);
            prop_assert!(rate.worth(units - U256::ONE, decimals).unwrap() < settlement);
        }

        #[test]
        fn rates_round_trip_through_text(scaled in 1_u128..1_000_000_000_000_000_000_000_000_000_000_000_000) {
            let rate = Rate(U256::from(scaled));
            prop_assert_eq!(Rate::parse(&rate.to_string()), Ok(rate));
        }

        #[test]
        fn parts_never_add_up_to_more_than_the_whole(one in any::<u64>(), other in any::<u64>(), scaled in 1_u64..u64::MAX, decimals in 0_u8..=18) {
            let rate = Rate(U256::from(scaled));
            let worth = |units: u128| rate.worth(U256::from(units), decimals).unwrap();
            let (one, other) = (u128::from(one), u128::from(other));
            prop_assert!(worth(one) + worth(other) <= worth(one + other));
        }
    }

    #[test]
    fn numbers_over_256_bits_are_rejected() {
        let (cheap, dear) = (rate("1e-18"), rate("999999999999999999"));
        assert_eq!(cheap.units_for(U256::MAX, 18), None);
        assert_eq!(dear.worth(U256::MAX, 0), None);
        assert!(dear.units_for(U256::MAX, 0).is_some());
    }

    #[test]
    fn a_rate_is_the_value_of_one_unit() {
        let ratio = |units: u64, decimals, per_units: u64, per_decimals, digits| {
            ratio(U256::from(units), decimals, U256::from(per_units), per_decimals, digits)
        };
        assert_eq!(ratio(250_000_000, 8, 2_500_000, 6, RATE_DECIMALS).as_deref(), Some("1"));
        assert_eq!(
            ratio(100_000_000, 8, 3_000_000, 6, RATE_DECIMALS).as_deref(),
            Some("0.333333333333333333")
        );
        assert_eq!(ratio(100_000_000, 8, 3_000_000, 6, 8).as_deref(), Some("0.33333333"));
        assert_eq!(ratio(1, 0, 0, 0, RATE_DECIMALS), None);
    }
}
