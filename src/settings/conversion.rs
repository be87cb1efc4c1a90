//! Limits of on-chain conversion, and rules for rates from on-chain price feeds and from other feeds.

use super::{off_ramp::OffRampSource, screening::ScreeningSource};
use crate::domain::{amount::Percent, conversion::RateAges, rates::RateGuards};
use anyhow::{Context, bail};
use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use url::Url;

/// External services in addition to the chains.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PartnerSettings {
    /// Source of rates for currencies without an on-chain price feed: `off` for none (such requests are rejected),
    /// `http` for the feeds in `conversion.feed_urls`, `file` for `conversion.feed_file`, `sandbox` for the feed of
    /// `prs dev`.
    pub rates: RateSource,
    /// Provider that screens wallets for secure payments whose policy requires it: `off` for none (such payments cannot
    /// be paid), `http` for the providers in `screening`, `sandbox` for those of `prs dev`.
    pub screening: ScreeningSource,
    /// Partner that verifies payers and pays their bank accounts: `off` for none (payers are unavailable), `http` for
    /// the partner in `offramp`, `sandbox` for the one of `prs dev`.
    pub offramp: OffRampSource,
}

/// Source of rates without an on-chain price feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateSource {
    /// None.
    #[default]
    Off,
    /// The sandbox of `prs dev`.
    Sandbox,
    /// Feeds over HTTP.
    Http,
    /// A file.
    File,
}

/// Conversion, on chain and by quotes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConversionSettings {
    /// Maximum that the payer may be charged above the current rate, in basis points.
    #[schemars(range(min = 0, max = 5_000))]
    pub slippage_basis_points: u16,
    /// Maximum difference between the results of one conversion at one block from different nodes, in basis points of
    /// the smallest result. The service compares as many nodes as `chains.<network>.agreement` requires, and uses the
    /// smallest result. With a larger difference it returns no calldata. Values above `slippage_basis_points` have the
    /// same effect as that setting.
    #[schemars(range(min = 0, max = 1_000))]
    pub nodes_apart_bps: u16,
    /// Maximum age of a rate that a conversion accepts, in seconds, by lowercase currency symbol. Choose the maximum
    /// update interval of the price feed plus a margin; a currency whose market closes at weekends needs more than a
    /// weekend. `default` applies to currencies without an entry. For a path over several feeds the largest value
    /// applies; 0 accepts any age.
    pub max_rate_age_s: BTreeMap<String, u64>,
    /// Share of the requested amount, in basis points, below which a conversion on other terms than the issued ones
    /// needs no action. A conversion that is worth less than this share is recorded as `minor`, so that tiny payments
    /// raise no alert. With 0, every conversion on other terms waits for the operator.
    #[schemars(range(min = 0, max = 1_000))]
    pub minor_basis_points: u16,
    /// Seconds for which a quote from `/pay` is valid, where there is no on-chain price feed.
    #[schemars(range(min = 30, max = 86_400))]
    pub quote_s: u32,
    /// Share of the requested amount, in basis points, that may be missing when a payment without a quote completes a
    /// quoted request. Such a payment is converted at the rate at the time of its block. A payment of a quote settles
    /// exactly the quoted amount. A later change of this setting does not affect existing requests.
    #[schemars(range(min = 0, max = 1_000))]
    pub tolerance_bps: u16,
    /// URLs of price feeds in the CoinGecko simple price format, for example
    /// `https://api.coingecko.com/api/v3/simple/price`; at most two. With two, the service uses the rate of the first
    /// feed while both feeds agree.
    pub feed_urls: Vec<String>,
    /// File with prices in the CoinGecko simple price format, read again every `conversion.rate_interval_s`. Prices
    /// without `last_updated_at` count as current.
    pub feed_file: Option<PathBuf>,
    /// CoinGecko API key; it is sent only to CoinGecko hosts.
    pub feed_api_key: Option<String>,
    /// Token ids of the feeds, by lowercase token symbol. A token without an entry has no rate.
    pub coin_ids: BTreeMap<String, String>,
    /// Seconds between two reads of the feeds.
    #[schemars(range(min = 1, max = 3_600))]
    pub rate_interval_s: u32,
    /// Maximum age of a rate in seconds, by the timestamp from the feed.
    #[schemars(range(min = 10, max = 86_400))]
    pub rate_age_s: u32,
    /// Maximum difference from the last accepted rate, in basis points. A rate with a larger difference is used only
    /// after it has been stable. A first rate also has to be stable, unless a second feed or, for dollar tokens,
    /// another dollar token confirms it.
    #[schemars(range(min = 1, max = 10_000))]
    pub rate_jump_bps: u16,
    /// Seconds for which a first rate, or a rate with a difference above `conversion.rate_jump_bps`, has to be stable.
    #[schemars(range(min = 0, max = 86_400))]
    pub rate_hold_s: u32,
    /// Number of reads in which a first rate, or a rate with a difference above `conversion.rate_jump_bps`, has to be
    /// stable.
    #[schemars(range(min = 1, max = 1_000))]
    pub rate_hold_readings: u32,
    /// Maximum difference of USDC, USDT and DAI from one dollar, in basis points. With a larger difference, the token
    /// has no rate.
    #[schemars(range(min = 1, max = 10_000))]
    pub peg_bps: u16,
    /// Maximum difference between two feeds, in basis points. With a larger difference, no rate is available.
    #[schemars(range(min = 0, max = 10_000))]
    pub feeds_apart_bps: u16,
}

/// Maximum number of HTTP feeds.
const FEEDS_MAX: usize = 2;

/// Key of the maximum age for currencies without their own entry.
pub const USUAL_RATE_AGE: &str = "default";

/// 25 hours, because most feeds update at least once a day.
const USUAL_RATE_AGE_S: u64 = 25 * 3_600;

/// 74 hours, for feeds of currencies whose market closes at the weekend.
const MARKET_RATE_AGE_S: u64 = 74 * 3_600;

/// Maximum of `conversion.max_rate_age_s`, one year; a larger value is treated as a mistake.
const RATE_AGE_MAX_S: u64 = 366 * 24 * 3_600;

impl ConversionSettings {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        for (symbol, age_s) in &self.max_rate_age_s {
            if symbol.to_lowercase() != *symbol {
                bail!("conversion.max_rate_age_s.{symbol}: must be lowercase");
            }
            if *age_s > RATE_AGE_MAX_S {
                bail!("conversion.max_rate_age_s.{symbol}: must be at most {RATE_AGE_MAX_S}; 0 accepts any age");
            }
        }
        let mut ids = BTreeSet::new();
        for (symbol, id) in &self.coin_ids {
            if symbol.to_lowercase() != *symbol {
                bail!("conversion.coin_ids.{symbol}: must be lowercase");
            }
            if id.is_empty() || !ids.insert(id) {
                bail!(
                    "conversion.coin_ids.{symbol}: must be the id of this coin at the feed, different from the ids of \
                     other symbols"
                );
            }
        }
        if self.rate_age_s < self.rate_interval_s {
            bail!(
                "conversion.rate_age_s: must be at least conversion.rate_interval_s, or no rate is available between \
                 two reads"
            );
        }
        Ok(())
    }

    /// Checks that the rate source has the settings that it needs.
    pub(super) fn validate_source(&self, source: RateSource, is_production: bool) -> anyhow::Result<()> {
        let urls = self.urls()?;
        match source {
            RateSource::Off => {}
            RateSource::Sandbox if is_production => {
                bail!("partners.rates: sandbox is for development; choose http, file or off, or http.production false")
            }
            RateSource::Sandbox if urls.is_empty() => {
                bail!("partners.rates: only `prs dev` runs the sandbox; choose http, file or off")
            }
            RateSource::Http if urls.is_empty() => {
                bail!("conversion.feed_urls: partners.rates = \"http\" requires one or two URLs")
            }
            RateSource::File if self.feed_file.is_none() => {
                bail!("conversion.feed_file: partners.rates = \"file\" requires a file")
            }
            RateSource::Sandbox | RateSource::Http | RateSource::File => {}
        }
        Ok(())
    }

    /// The URLs of the feeds. Errors: too many URLs, or one that is neither https nor on this machine.
    pub fn urls(&self) -> anyhow::Result<Vec<Url>> {
        if self.feed_urls.len() > FEEDS_MAX {
            bail!("conversion.feed_urls: must have at most {FEEDS_MAX} entries");
        }
        let url = |text: &String| {
            let url = Url::parse(text).context("conversion.feed_urls: every entry must be an absolute URL")?;
            let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
            if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
                bail!("conversion.feed_urls: every entry must be an https URL; http is allowed only on this machine");
            }
            Ok(url)
        };
        self.feed_urls.iter().map(url).collect()
    }

    /// Token ids of the feeds, by symbol as in the catalogue.
    pub fn coins(&self) -> BTreeMap<String, String> {
        let coins = self.coin_ids.iter();
        coins.map(|(symbol, id)| (symbol.to_uppercase(), id.clone())).collect()
    }

    /// Limits for rates.
    pub fn rate_guards(&self) -> RateGuards {
        RateGuards {
            max_age: TimeDelta::seconds(self.rate_age_s.into()),
            jump: self.rate_jump_bps,
            hold: TimeDelta::seconds(self.rate_hold_s.into()),
            hold_readings: usize::try_from(self.rate_hold_readings).unwrap_or(usize::MAX),
            peg: self.peg_bps,
            apart: self.feeds_apart_bps,
        }
    }

    /// Maximum difference between nodes about a conversion, limited to the slippage.
    pub fn nodes_apart_bps(&self) -> u16 {
        self.nodes_apart_bps.min(self.slippage_basis_points)
    }

    /// Share of the requested amount below which a quarantined payment needs no action.
    pub fn minor_share(&self) -> Option<Percent> {
        Percent::from_basis_points(self.minor_basis_points)
    }

    /// Share of a quoted request that may be missing.
    pub fn tolerance(&self) -> Percent {
        Percent::from_basis_points(self.tolerance_bps).unwrap_or_default()
    }

    /// Maximum age of rates from on-chain price feeds.
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
        let coins = [("dai", "dai"), ("usdc", "usd-coin"), ("usdt", "tether")];
        Self {
            slippage_basis_points: 100,
            nodes_apart_bps: 100,
            max_rate_age_s,
            minor_basis_points: 100,
            quote_s: 600,
            tolerance_bps: 50,
            feed_urls: Vec::new(),
            feed_file: None,
            feed_api_key: None,
            coin_ids: coins.map(|(symbol, id)| (symbol.to_owned(), id.to_owned())).into(),
            rate_interval_s: 60,
            rate_age_s: 900,
            rate_jump_bps: 2_000,
            rate_hold_s: 900,
            rate_hold_readings: 3,
            peg_bps: 500,
            feeds_apart_bps: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(source: RateSource, is_production: bool, urls: &[&str]) -> Option<String> {
        let settings = ConversionSettings {
            feed_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            ..ConversionSettings::default()
        };
        let checked = settings.validate_source(source, is_production);
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn production_never_starts_with_a_sandbox() {
        let sandbox = ["http://127.0.0.1:1/simple/price"];
        assert_eq!(refusal(RateSource::Sandbox, false, &sandbox), None);
        for (is_production, urls) in [(true, &sandbox[..]), (true, &[]), (false, &[])] {
            let refusal = refusal(RateSource::Sandbox, is_production, urls).expect("refused");
            assert!(refusal.starts_with("partners.rates: "), "{refusal}");
        }
    }

    #[test]
    fn a_rate_source_needs_its_feed_settings() {
        let one = "https://rates.example.com/simple/price";
        assert_eq!(refusal(RateSource::Off, true, &[]), None);
        assert_eq!(refusal(RateSource::Http, true, &[one, one]), None);
        assert_eq!(refusal(RateSource::Http, true, &["http://localhost:1/"]), None);
        for (source, urls, name) in [
            (RateSource::Http, &[][..], "conversion.feed_urls"),
            (RateSource::Http, &[one, one, one], "conversion.feed_urls"),
            (RateSource::Http, &["http://rates.example.com/"], "conversion.feed_urls"),
            (RateSource::Http, &["rates.example.com"], "conversion.feed_urls"),
            (RateSource::File, &[], "conversion.feed_file"),
        ] {
            let refusal = refusal(source, true, urls).expect("refused");
            assert!(refusal.starts_with(name), "{refusal}");
        }
    }
}
