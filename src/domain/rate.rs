//! Exchange rates as decimal texts, computed with integers.

use super::amount::format_units;
use alloy::primitives::{U256, U512};

/// Fraction digits of the rates in answers.
pub const RATE_DECIMALS: u8 = 18;

/// What one unit of the second quantity is worth in the first: `ratio(2 USD, 1 token)` is `2`.
///
/// The rate has at most `digits` fraction digits; further ones are cut off.
/// `None` when the second quantity is zero or the result leaves 256 bits.
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

    #[test]
    fn a_rate_is_what_one_unit_is_worth() {
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
