//! A feed of rates from a file, for rates that the operator vouches for.

use super::simple_price::{CoinIds, read};
use crate::{
    domain::{pair::Pair, rates::RateProvider},
    ports::{
        clock::Clock,
        rates::{FeedError, RateFeed, Told},
    },
};
use async_trait::async_trait;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// Reads simple prices from a file, anew each time. Prices without a time are those of the moment.
pub struct FileFeed {
    path: PathBuf,
    coin_ids: CoinIds,
    clock: Arc<dyn Clock>,
}

impl FileFeed {
    /// Of a file.
    pub fn new(path: PathBuf, coin_ids: CoinIds, clock: Arc<dyn Clock>) -> Self {
        Self { path, coin_ids, clock }
    }
}

#[async_trait]
impl RateFeed for FileFeed {
    fn provider(&self) -> RateProvider {
        RateProvider::Unknown
    }

    async fn read(&self, pairs: &BTreeSet<Pair>) -> Result<Told, FeedError> {
        let text = tokio::fs::read_to_string(&self.path).await;
        let text = text.map_err(|error| FeedError(format!("cannot be read from its file: {error}")))?;
        let told = read(&text, pairs, &self.coin_ids, Some(self.clock.now()));
        told.ok_or_else(|| FeedError("is a file that holds no object of coins".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{adapters::clock::SystemClock, domain::rates::Flaw};

    #[tokio::test]
    async fn a_file_is_read_anew_and_needs_no_times() {
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
        assert_eq!(feed.read(&pairs).await.unwrap()[&pair], Err(Flaw::Absent));
        std::fs::write(&path, "{").unwrap();
        assert!(feed.read(&pairs).await.is_err());
    }
}
