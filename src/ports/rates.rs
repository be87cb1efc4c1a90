//! Feeds of rates.

use crate::domain::{
    pair::Pair,
    rates::{FeedPrice, RateChange, RateFlaw, RateProvider},
};
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};

/// The feed did not respond, or returned an invalid response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rate feed {0}")]
pub struct FeedError(pub String);

/// Result of a feed for each requested pair.
pub type FeedReadings = BTreeMap<Pair, Result<FeedPrice, RateFlaw>>;

/// A feed of token prices in fiat currencies.
#[async_trait]
pub trait RateFeed: Send + Sync + 'static {
    /// Provider of the rates.
    fn provider(&self) -> RateProvider;
    /// Reads pairs. The caller decides whether to accept the rates.
    async fn read(&self, pairs: &BTreeSet<Pair>) -> Result<FeedReadings, FeedError>;
}

/// Controls of the rates sandbox.
pub trait RateControls: Send + Sync + 'static {
    /// Changes the rates.
    fn change(&self, change: &RateChange);
    /// Symbols of the known tokens.
    fn symbols(&self) -> Vec<String>;
}
