//! Feeds of rates.

use crate::domain::{
    pair::Pair,
    rates::{Flaw, Price, RateChange, RateProvider},
};
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};

/// The feed did not answer, or with something that is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the feed of rates {0}")]
pub struct FeedError(pub String);

/// What a feed says of each pair that it was asked for.
pub type Told = BTreeMap<Pair, Result<Price, Flaw>>;

/// Tells what tokens cost in fiat currencies.
#[async_trait]
pub trait RateFeed: Send + Sync + 'static {
    /// Whose rates it tells.
    fn provider(&self) -> RateProvider;
    /// Asks for pairs. Whether what it tells is believed is decided elsewhere.
    async fn read(&self, pairs: &BTreeSet<Pair>) -> Result<Told, FeedError>;
}

/// Changes what the sandbox of rates tells.
pub trait RateControls: Send + Sync + 'static {
    /// Tells something else from now on.
    fn change(&self, change: &RateChange);
    /// Symbols of the tokens that it knows.
    fn symbols(&self) -> Vec<String>;
}
