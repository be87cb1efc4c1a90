//! A rate feed from a file that the operator writes.

use super::simple_price::{CoinIds, read};
use crate::{
    domain::{pair::Pair, rates::RateProvider},
    ports::{
        clock::Clock,
        rates::{FeedError, FeedReadings, RateFeed},
    },
};
use async_trait::async_trait;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// Reads prices in the CoinGecko simple price format, from the file at each query. Prices without a time count as
/// current.
pub struct FileFeed {
    path: PathBuf,
    coin_ids: CoinIds,
    clock: Arc<dyn Clock>,
}

impl FileFeed {
    /// Feed of a file.
    pub fn new(path: PathBuf, coin_ids: CoinIds, clock: Arc<dyn Clock>) -> Self {
        Self { path, coin_ids, clock }
    }
}

#[async_trait]
impl RateFeed for FileFeed {
    fn provider(&self) -> RateProvider {
        RateProvider::Unknown
    }

    async fn read(&self, pairs: &BTreeSet<Pair>) -> Result<FeedReadings, FeedError> {
        let text = tokio::fs::read_to_string(&self.path).await;
        let text = text.map_err(|error| FeedError(format!("cannot be read from its file: {error}")))?;
        let told = read(&text, pairs, &self.coin_ids, Some(self.clock.now()));
        told.ok_or_else(|| FeedError("has a file that is not a JSON object of coin prices".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{adapters::clock::SystemClock, domain::rates::RateFlaw};

    #[tokio::test]
    async fn a_file_is_reread_and_needs_no_timestamps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rates.json");
        let ids = CoinIds::from([("USDC".to_owned(), "usd-coin".to_owned())]);
        let feed = FileFeed::new(path.clone(), ids, Arc::new(SystemClock));
        let pair = Pair::new("USDC", "EUR");
        let pairs = BTreeSet::from([pair.clone()]);
        assert!(feed.read(&pairs).await.is_err());
        std::fs::write(&path, r#"{"usd-coin":{"eur":0.92}}"#).unwrap();
        assert_eq!(
            feed.read(&pairs).await.unwrap()[&pair].unwrap().rate.to_string(),
            "0.92"
        );
        std::fs::write(&path, r#"{"usd-coin":{"eur":null}}"#).unwrap();
        assert_eq!(feed.read(&pairs).await.unwrap()[&pair], Err(RateFlaw::Absent));
        std::fs::write(&path, "{").unwrap();
        assert!(feed.read(&pairs).await.is_err());
    }
}
