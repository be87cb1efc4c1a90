//! What a conversion on chain may cost, and how old its rates may be.

use crate::domain::{amount::Percent, conversion::RateAges};
use anyhow::bail;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// On-chain conversion.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConversionSettings {
    /// How far above the current rate the payer may be charged, in basis points.
    #[schemars(range(min = 0, max = 5_000))]
    pub slippage_basis_points: u16,
    /// Oldest rate that a conversion accepts, in seconds, by the symbol of a currency in lower case: how often its price
    /// feed is renewed at the latest, and a margin. `default` is for every currency without an entry; markets that close
    /// need more than a weekend. Of a path over several feeds the largest counts; 0 accepts any age.
    pub max_rate_age_s: BTreeMap<String, u64>,
    /// Part of what a request asks for, in basis points: a conversion on other terms than were handed out that is worth
    /// less is kept as `minor` and waits for nobody, so that dust neither hides a payment nor raises an alert. 0 has
    /// everything wait.
    #[schemars(range(min = 0, max = 1_000))]
    pub minor_basis_points: u16,
}

/// Key of the age that counts for currencies without one of their own.
pub const USUAL_RATE_AGE: &str = "default";

/// Most feeds are renewed within a day: 25 hours.
const USUAL_RATE_AGE_S: u64 = 25 * 3_600;

/// Feeds of currencies whose market closes over the weekend: 74 hours.
const MARKET_RATE_AGE_S: u64 = 74 * 3_600;

/// A year; nobody means a larger one.
const RATE_AGE_MAX_S: u64 = 366 * 24 * 3_600;

impl ConversionSettings {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        for (symbol, age_s) in &self.max_rate_age_s {
            if symbol.to_lowercase() != *symbol {
                bail!("conversion.max_rate_age_s.{symbol}: must be written in lower case");
            }
            if *age_s > RATE_AGE_MAX_S {
                bail!("conversion.max_rate_age_s.{symbol}: must be at most {RATE_AGE_MAX_S}; 0 accepts any age");
            }
        }
        Ok(())
    }

    /// Part of what a request asks for below which a payment that is set aside waits for nobody.
    pub fn minor_share(&self) -> Option<Percent> {
        Percent::from_basis_points(self.minor_basis_points)
    }

    /// How old the rates of price feeds may be.
    pub fn rate_ages(&self) -> RateAges {
        let mut by_symbol = self.max_rate_age_s.clone();
        RateAges {
            usual_s: by_symbol.remove(USUAL_RATE_AGE).unwrap_or(USUAL_RATE_AGE_S),
            by_symbol,
        }
    }
}

impl Default for ConversionSettings {
    fn default() -> Self {
        let markets = ["cny", "eur", "gbp", "jpy"].map(|symbol| (symbol.to_owned(), MARKET_RATE_AGE_S));
        let mut max_rate_age_s = BTreeMap::from(markets);
        max_rate_age_s.insert(USUAL_RATE_AGE.to_owned(), USUAL_RATE_AGE_S);
        Self {
            slippage_basis_points: 100,
            max_rate_age_s,
            minor_basis_points: 100,
        }
    }
}
