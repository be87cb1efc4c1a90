//! What a conversion on chain may cost, and which rates count: of price feeds on chain, and of feeds beside it.

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

/// Whom the service asks beside the chains.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PartnerSettings {
    /// Where rates come from for currencies that no price feed on chain converts: `off` for nowhere, so that such
    /// requests are refused; `http` for the feeds of `conversion.feed_urls`; `file` for `conversion.feed_file`;
    /// `sandbox` for the one that `prs dev` runs.
    pub rates: RateSource,
    /// Who screens the wallets of secure payments whose policy asks for it: `off` for nobody, so that nobody may pay them;
    /// `http` for the providers of `screening`; `sandbox` for those that `prs dev` runs.
    pub screening: ScreeningSource,
    /// Who proves payers and pays their bank accounts: `off` for nobody, so that there are no payers; `http` for the
    /// partner of `offramp`; `sandbox` for the one that `prs dev` runs.
    pub offramp: OffRampSource,
}

/// Where rates come from that no price feed on chain tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateSource {
    /// Nowhere.
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
    /// How far above the current rate the payer may be charged, in basis points.
    #[schemars(range(min = 0, max = 5_000))]
    pub slippage_basis_points: u16,
    /// How far apart the nodes that have to agree (`chains.<network>.agreement`) may be about a conversion at one block, in
    /// basis points of the smallest answer, which is the one that counts; further apart, nothing is handed out. It counts
    /// only up to `slippage_basis_points`, which covers the difference.
    #[schemars(range(min = 0, max = 1_000))]
    pub nodes_apart_bps: u16,
    /// Oldest rate that a conversion accepts, in seconds, by the symbol of a currency in lower case: how often its price
    /// feed is renewed at the latest, and a margin. `default` is for every currency without an entry; markets that close
    /// need more than a weekend. Of a path over several feeds the largest counts; 0 accepts any age.
    pub max_rate_age_s: BTreeMap<String, u64>,
    /// Part of what a request asks for, in basis points: a conversion on other terms than were handed out that is worth
    /// less is kept as `minor` and waits for nobody, so that dust neither hides a payment nor raises an alert. 0 has
    /// everything wait.
    #[schemars(range(min = 0, max = 1_000))]
    pub minor_basis_points: u16,
    /// Seconds for which a quote holds that `/pay` hands out where no price feed on chain converts.
    #[schemars(range(min = 30, max = 86_400))]
    pub quote_s: u32,
    /// Part of what such a request asks for that may be missing when a payment at the rate of its block's time completes
    /// it, in basis points. A payment of a quote settles what was quoted, and nothing may be missing then. It is set when
    /// the request is created.
    #[schemars(range(min = 0, max = 1_000))]
    pub tolerance_bps: u16,
    /// Addresses of feeds that tell simple prices in the shape of CoinGecko, for example
    /// `https://api.coingecko.com/api/v3/simple/price`; at most two. Of two, the first one counts while they agree.
    pub feed_urls: Vec<String>,
    /// File with prices of the same shape, read again each time; prices without `last_updated_at` are of that moment.
    pub feed_file: Option<PathBuf>,
    /// Key of CoinGecko, which is sent to its hosts alone.
    pub feed_api_key: Option<String>,
    /// What feeds call the tokens, by their symbols in lower case. A token without an entry has no rate.
    pub coin_ids: BTreeMap<String, String>,
    /// Seconds between two readings of the feeds.
    #[schemars(range(min = 1, max = 3_600))]
    pub rate_interval_s: u32,
    /// Seconds after which a rate is too old to be one, by the time that the feed gives.
    #[schemars(range(min = 10, max = 86_400))]
    pub rate_age_s: u32,
    /// How far from the last accepted rate another one may be, in basis points; further off it is none until it has held.
    /// A first rate has to hold too, unless a second feed or, of dollar tokens, another one confirms it.
    #[schemars(range(min = 1, max = 10_000))]
    pub rate_jump_bps: u16,
    /// Seconds for which such a rate has to hold.
    #[schemars(range(min = 0, max = 86_400))]
    pub rate_hold_s: u32,
    /// Readings in which such a rate has to hold.
    #[schemars(range(min = 1, max = 1_000))]
    pub rate_hold_readings: u32,
    /// How far from a dollar USDC, USDT and DAI may be, in basis points; further off they have no rate.
    #[schemars(range(min = 1, max = 10_000))]
    pub peg_bps: u16,
    /// How far two feeds may differ, in basis points; beyond it there is no rate.
    #[schemars(range(min = 0, max = 10_000))]
    pub feeds_apart_bps: u16,
}

/// Most feeds over HTTP.
const FEEDS_MAX: usize = 2;

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
        let mut ids = BTreeSet::new();
        for (symbol, id) in &self.coin_ids {
            if symbol.to_lowercase() != *symbol {
                bail!("conversion.coin_ids.{symbol}: must be written in lower case");
            }
            if id.is_empty() || !ids.insert(id) {
                bail!("conversion.coin_ids.{symbol}: must be the feed's own name of this one coin");
            }
        }
        if self.rate_age_s < self.rate_interval_s {
            bail!("conversion.rate_age_s: must be at least conversion.rate_interval_s, or there is no rate in between");
        }
        Ok(())
    }

    /// Checks that the source of rates has what it needs.
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
                bail!("conversion.feed_urls: partners.rates = \"http\" needs one or two addresses")
            }
            RateSource::File if self.feed_file.is_none() => {
                bail!("conversion.feed_file: partners.rates = \"file\" needs one")
            }
            RateSource::Sandbox | RateSource::Http | RateSource::File => {}
        }
        Ok(())
    }

    /// The addresses of the feeds. Errors: too many, or one that anybody on the way could change.
    pub fn urls(&self) -> anyhow::Result<Vec<Url>> {
        if self.feed_urls.len() > FEEDS_MAX {
            bail!("conversion.feed_urls: must be at most {FEEDS_MAX}");
        }
        let url = |text: &String| {
            let url = Url::parse(text).context("conversion.feed_urls: every entry must be an absolute address")?;
            let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
            if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
                bail!("conversion.feed_urls: every entry must be an https address; http is for this machine alone");
            }
            Ok(url)
        };
        self.feed_urls.iter().map(url).collect()
    }

    /// What feeds call the tokens, by their symbols as the catalogue writes them.
    pub fn coins(&self) -> BTreeMap<String, String> {
        let coins = self.coin_ids.iter();
        coins.map(|(symbol, id)| (symbol.to_uppercase(), id.clone())).collect()
    }

    /// What a rate has to keep to.
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

    /// How far apart nodes may be about a conversion: no further than what is charged at most makes up for.
    pub fn nodes_apart_bps(&self) -> u16 {
        self.nodes_apart_bps.min(self.slippage_basis_points)
    }

    /// Part of what a request asks for below which a payment that is set aside waits for nobody.
    pub fn minor_share(&self) -> Option<Percent> {
        Percent::from_basis_points(self.minor_basis_points)
    }

    /// Part of a quoted request that may be missing.
    pub fn tolerance(&self) -> Percent {
        Percent::from_basis_points(self.tolerance_bps).unwrap_or_default()
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
    fn production_never_begins_with_a_sandbox() {
        let sandbox = ["http://127.0.0.1:1/simple/price"];
        assert_eq!(refusal(RateSource::Sandbox, false, &sandbox), None);
        for (is_production, urls) in [(true, &sandbox[..]), (true, &[]), (false, &[])] {
            let refusal = refusal(RateSource::Sandbox, is_production, urls).expect("refused");
            assert!(refusal.starts_with("partners.rates: "), "{refusal}");
        }
    }

    #[test]
    fn a_source_of_rates_needs_what_it_reads() {
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
