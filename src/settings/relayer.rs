//! The account with which this service executes recurring payments.

use crate::domain::{
    amount::{Amount, AmountError, format_units},
    relay::BidRules,
    schedule::RetryRules,
};
use alloy::primitives::U256;
use anyhow::{anyhow, bail};
use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most fraction digits of a token.
const FEE_DECIMALS_MAX: u8 = 18;

/// Largest fee in units of a token with so many digits: added to any amount of a payment it stays far below 256 bits.
const FEE_UNITS_MAX: u128 = u128::MAX;

/// The account with which this service executes recurring payments.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelayerSettings {
    /// Private key of the account, 64 hexadecimal digits, with or without `0x`; absent, recurring payments are not offered. The contract of a
    /// network has to give the account its relayer role, and the account pays for gas: it needs coins on every network.
    /// Use it for nothing else, because its transactions are counted.
    pub private_key: Option<String>,
    /// What the account gets for each payment on top of it, in the payment currency, for example `0.25`; at most 18
    /// fraction digits. A schedule keeps the fee that its payer signed.
    pub fee: String,
    /// Whether client IDs with allowed domains make recurring payments too, which is a 403 else. Everybody reads such a
    /// client ID off its page, so strangers would spend the account's coins, as far as `caps.public_schedules` lets them
    /// and `fee` does not pay for it; `prs dev` allows it.
    pub public_client_ids: bool,
    /// Seconds within which the payer has to sign; a recurring payment that nobody signed in time is cancelled.
    #[schemars(range(min = 60, max = 2_592_000))]
    pub sign_within_s: u32,
    /// Failures in a row after which a recurring payment is paused.
    #[schemars(range(min = 1, max = 100))]
    pub failures_max: u32,
    /// Seconds between a failure and the next try.
    #[schemars(range(min = 1, max = 604_800))]
    pub retry_after_s: u32,
    /// Seconds after which a transaction that is in no block is sent again at a higher price.
    #[schemars(range(min = 10, max = 86_400))]
    pub replace_after_s: u32,
    /// By how much a higher price is higher, in percent; nodes refuse less than 10.
    #[schemars(range(min = 10, max = 100))]
    pub price_bump_percent: u32,
}

impl Default for RelayerSettings {
    fn default() -> Self {
        Self {
            private_key: None,
            fee: "0".to_owned(),
            public_client_ids: false,
            sign_within_s: 86_400,
            failures_max: 3,
            retry_after_s: 3_600,
            replace_after_s: 180,
            price_bump_percent: 20,
        }
    }
}

/// Whether a text has digits and all of them are 0.
fn is_zero(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}

impl RelayerSettings {
    /// What the account gets for each payment; `None` for nothing. Errors: what is wrong with the setting.
    pub fn fee(&self) -> anyhow::Result<Option<Amount>> {
        let (whole, fraction) = self.fee.split_once('.').unwrap_or((&self.fee, "0"));
        if [whole, fraction].iter().all(|digits| is_zero(digits)) {
            return Ok(None);
        }
        let fee = Amount::parse(&self.fee).map_err(|error| anyhow!("relayer.fee: {error}, or \"0\""))?;
        match fee.to_units(FEE_DECIMALS_MAX) {
            Ok(units) if units <= U256::from(FEE_UNITS_MAX) => Ok(Some(fee)),
            Ok(_) | Err(AmountError::TooLarge) => {
                let most = format_units(U256::from(FEE_UNITS_MAX), FEE_DECIMALS_MAX);
                bail!("relayer.fee: must be at most {most}");
            }
            Err(_) => bail!("relayer.fee: must have at most {FEE_DECIMALS_MAX} fraction digits"),
        }
    }

    /// What follows when an execution fails.
    pub fn retries(&self) -> RetryRules {
        RetryRules {
            failures_max: self.failures_max,
            pause: TimeDelta::seconds(i64::from(self.retry_after_s)),
        }
    }

    /// What transactions may cost on a network where a unit of gas may cost so much.
    pub fn bids(&self, max_fee: u128) -> BidRules {
        BidRules {
            max_fee,
            patience: TimeDelta::seconds(i64::from(self.replace_after_s)),
            bump_percent: self.price_bump_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_spend_no_gas_unless_the_operator_says_so() {
        assert!(!RelayerSettings::default().public_client_ids);
    }

    #[test]
    fn no_fee_is_a_number_that_is_zero_and_nothing_else() {
        let fee = |text: &str| {
            let settings = RelayerSettings {
                fee: text.to_owned(),
                ..RelayerSettings::default()
            };
            settings.fee().map(|fee| fee.map(|fee| fee.to_string()))
        };
        for nothing in ["0", "00", "0.0", "0.000"] {
            assert_eq!(fee(nothing).unwrap(), None, "{nothing}");
        }
        assert_eq!(fee("0.25").unwrap().as_deref(), Some("0.25"));
        for wrong in ["", ".", "..", "0.", ".0", "0.0.0"] {
            let error = fee(wrong).unwrap_err().to_string();
            assert!(error.starts_with("relayer.fee: "), "{wrong}: {error}");
        }
    }
}
