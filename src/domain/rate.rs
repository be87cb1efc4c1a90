//! Exchange rates as decimal texts, computed with integers.

use super::amount::format_units;
use alloy::primitives::{U256, U512};

/// Fraction digits of a written rate; further ones are cut off.
const RATE_DECIMALS: u8 = 18;

/// What one unit of the second quantity is worth in the first: `ratio(2 USD, 1 token)` is `2`.
///
/// `None` when the second quantity is zero or the result leaves 256 bits.
pub fn ratio(units: U256, decimals: u8, per_units: U256, per_decimals: u8) -> Option<String> {
    if per_units.is_zero() {
        return None;
    }
    let scale = |exponent: u8| U512::from(10).pow(U512::from(exponent));
    let numerator = U512::from(units)
        .checked_mul(scale(per_decimals))?
        .checked_mul(scale(RATE_DECIMALS))?;
    let denominator = U512::from(per_units).checked_mul(scale(decimals))?;
    let scaled = U256::checked_from_limbs_slice((numerator / denominator).as_limbs())?;
    Some(format_units(scaled, RATE_DECIMALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_one_unit_is_worth() {
        assert_eq!(
            ratio(U256::from(250_000_000u64), 8, U256::from(2_500_000u64), 6).as_deref(),
            Some("1")
        );
        assert_eq!(
            ratio(U256::from(100_000_000u64), 8, U256::from(3_000_000u64), 6).as_deref(),
            Some("0.333333333333333333")
        );
        assert_eq!(ratio(U256::from(1), 0, U256::ZERO, 0), None);
    }
}
