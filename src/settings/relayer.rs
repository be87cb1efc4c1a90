//! The account that executes recurring payments.

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

/// Maximum number of fraction digits of a token.
const FEE_DECIMALS_MAX: u8 = 18;

/// Maximum fee in units of a token with [`FEE_DECIMALS_MAX`] digits. The sum of this fee and any payment amount stays
/// far below 256 bits.
const FEE_UNITS_MAX: u128 = u128::MAX;

/// The account that executes recurring payments.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelayerSettings {
    /// Private key of the account, 64 hexadecimal digits, with or without `0x`. If absent, recurring payments are
    /// unavailable. The contract of each network must grant the account its relayer role. The account pays for gas, so
    /// it needs coins on every network. Do not use the account for anything else, because the service manages its
    /// transaction nonces.
    pub private_key: Option<String>,
    /// Fee that the account receives on top of each payment, in the payment currency, for example `0.25`; at most 18
    /// fraction digits. A schedule keeps the fee that its payer signed.
    pub fee: String,
    /// Whether client IDs with allowed domains may create recurring payments; otherwise they get 403. Anyone can copy
    /// such a client ID from its page, so strangers could make the account pay gas for up to `caps.public_schedules`
    /// recurring payments, as far as `relayer.fee` does not cover the cost. `prs dev` allows it.
    pub public_client_ids: bool,
    /// Seconds after its creation within which the payer has to sign a recurring payment; afterwards an unsigned one is
    /// cancelled.
    #[schemars(range(min = 60, max = 2_592_000))]
    pub sign_within_s: u32,
    /// Number of consecutive failures after which a recurring payment is paused.
    #[schemars(range(min = 1, max = 100))]
    pub failures_max: u32,
    /// Seconds between a failure and the next attempt.
    #[schemars(range(min = 1, max = 604_800))]
    pub retry_after_s: u32,
    /// Seconds after which a transaction that is not in a block is sent again with a higher gas price.
    #[schemars(range(min = 10, max = 86_400))]
    pub replace_after_s: u32,
    /// Increase of the gas price of a transaction that is sent again, in percent; nodes reject an increase below 10.
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

/// Whether a string has digits and all of them are 0.
fn is_zero(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}

impl RelayerSettings {
    /// Fee of the account for each payment; `None` for no fee. Errors: the setting is not an amount, has too many
    /// digits or is too large.
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

    /// Policy for failed executions.
    pub fn retries(&self) -> RetryRules {
        RetryRules {
            failures_max: self.failures_max,
            pause: TimeDelta::seconds(i64::from(self.retry_after_s)),
        }
    }

    /// Gas price limits of transactions on a network with the given maximum gas price.
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
    fn strangers_spend_no_gas_by_default() {
        assert!(!RelayerSettings::default().public_client_ids);
    }

    #[test]
    fn only_a_numeric_zero_means_no_fee() {
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
