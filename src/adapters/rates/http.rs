//! A rate feed over HTTP.

use super::simple_price::{CoinIds, read};
use crate::{
    adapters::partner::{self, NoAnswer},
    domain::{pair::Pair, rates::RateProvider},
    ports::rates::{FeedError, FeedReadings, RateFeed},
};
use async_trait::async_trait;
use reqwest::{Client, header::HeaderValue};
use std::{collections::BTreeSet, time::Duration};
use url::Url;

/// Timeout for a whole response.
const DEADLINE: Duration = Duration::from_secs(5);

/// Hosts of CoinGecko, and their API key headers.
const COINGECKO: [(&str, &str); 2] = [
    ("api.coingecko.com", "x-cg-demo-api-key"),
    ("pro-api.coingecko.com", "x-cg-pro-api-key"),
];

/// Options of a feed.
#[derive(Debug, Clone)]
pub struct HttpFeedOptions {
    /// URL of its simple prices.
    pub url: Url,
    /// API key, sent only to CoinGecko.
    pub api_key: Option<String>,
    /// Its token ids.
    pub coin_ids: CoinIds,
}

/// Reads simple prices over HTTP.
pub struct HttpFeed {
    client: Client,
    options: HttpFeedOptions,
    provider: RateProvider,
    key: Option<(&'static str, HeaderValue)>,
}

impl HttpFeed {
    /// Checks the options. Errors: the API key is not a valid header value.
    pub fn new(options: HttpFeedOptions) -> anyhow::Result<Self> {
        let client = partner::client(DEADLINE)?;
        let host = options.url.host_str().unwrap_or_default();
        let known = COINGECKO.into_iter().find(|(known, _)| *known == host);
        let key = known.zip(options.api_key.as_deref()).map(|((_, name), key)| {
            let mut key = HeaderValue::from_str(key)?;
            key.set_sensitive(true);
            anyhow::Ok((name, key))
        });
        let provider = match known {
            Some(_) => RateProvider::Coingecko,
            None => RateProvider::Unknown,
        };
        Ok(Self {
            client,
            key: key.transpose()?,
            options,
            provider,
        })
    }

    async fn ask(&self, pairs: &BTreeSet<Pair>) -> Result<String, NoAnswer> {
        let ids: BTreeSet<&str> = pairs
            .iter()
            .filter_map(|pair| self.options.coin_ids.get(&pair.symbol).map(String::as_str))
            .collect();
        let currencies: BTreeSet<String> = pairs.iter().map(|pair| pair.invoice.to_lowercase()).collect();
        let joined = |texts: Vec<&str>| texts.join(",");
        let mut url = self.options.url.clone();
        url.query_pairs_mut()
            .append_pair("ids", &joined(ids.into_iter().collect()))
            .append_pair(
                "vs_currencies",
                &joined(currencies.iter().map(String::as_str).collect()),
            )
            .append_pair("include_last_updated_at", "true")
            .append_pair("precision", "full");
        let mut call = self.client.get(url);
        if let Some((name, key)) = &self.key {
            call = call.header(*name, key.clone());
        }
        partner::answer(call).await
    }
}

#[async_trait]
impl RateFeed for HttpFeed {
    fn provider(&self) -> RateProvider {
        self.provider
    }

    async fn read(&self, pairs: &BTreeSet<Pair>) -> Result<FeedReadings, FeedError> {
        let text = self.ask(pairs).await.map_err(|why| FeedError(why.to_string()))?;
        let told = read(&text, pairs, &self.options.coin_ids, None);
        told.ok_or_else(|| FeedError("returned no JSON object of coin prices".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_coingecko_hosts_receive_the_coingecko_key() {
        for (url, provider, header) in [
            (
                "https://api.coingecko.com/api/v3/simple/price",
                RateProvider::Coingecko,
                Some("x-cg-demo-api-key"),
            ),
            (
                "https://pro-api.coingecko.com/api/v3/simple/price",
                RateProvider::Coingecko,
                Some("x-cg-pro-api-key"),
            ),
            (
                "https://api.coingecko.com.example/simple/price",
                RateProvider::Unknown,
                None,
            ),
            ("http://127.0.0.1:9/simple/price", RateProvider::Unknown, None),
        ] {
            let feed = HttpFeed::new(HttpFeedOptions {
                url: url.parse().unwrap(),
                api_key: Some("k".to_owned()),
                coin_ids: CoinIds::new(),
            });
            let feed = feed.unwrap();
            assert_eq!(feed.provider(), provider, "{url}");
            assert_eq!(feed.key.map(|(name, _)| name), header, "{url}");
        }
    }
}
