//! The rates of `prs dev`: fixed prices until a developer changes them, in the format of the real feed.

use super::simple_price::CoinIds;
use crate::{
    domain::{pair::Pair, rate::Rate, rates::RateChange},
    ports::{clock::Clock, rates::RateControls},
};
use chrono::TimeDelta;
use serde_json::{Map, Value, value::RawValue};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Age of stale prices.
const STALE: TimeDelta = TimeDelta::days(1);

/// Price of a dollar token in each currency, as in the price feeds of the local chain.
const DOLLAR_PRICES: [(&str, &str); 5] = [
    ("USD", "1"),
    ("EUR", "0.909090909090909091"),
    ("GBP", "0.769230769230769231"),
    ("JPY", "150"),
    ("CNY", "7.2"),
];

/// A controllable feed.
pub struct RateSandbox {
    coin_ids: CoinIds,
    clock: Arc<dyn Clock>,
    state: Mutex<SandboxState>,
}

#[derive(Default)]
struct SandboxState {
    prices: BTreeMap<Pair, Rate>,
    is_stale: bool,
    is_down: bool,
}

impl RateSandbox {
    /// Every token costs a dollar.
    pub fn new(coin_ids: CoinIds, clock: Arc<dyn Clock>) -> Self {
        let prices = coin_ids.keys().flat_map(|symbol| {
            let priced = DOLLAR_PRICES.iter();
            priced.filter_map(move |(invoice, price)| Some((Pair::new(symbol, invoice), Rate::parse(price).ok()?)))
        });
        let state = SandboxState {
            prices: prices.collect(),
            ..SandboxState::default()
        };
        Self {
            coin_ids,
            clock,
            state: Mutex::new(state),
        }
    }

    /// The response for comma-separated coins and currencies; `None` while the feed is down.
    pub fn answer(&self, ids: &str, currencies: &str) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_down {
            return None;
        }
        let age = if state.is_stale { STALE } else { TimeDelta::zero() };
        let updated_at = (self.clock.now() - age).timestamp();
        let mut coins: BTreeMap<&str, BTreeMap<String, Box<RawValue>>> = BTreeMap::new();
        for (pair, rate) in &state.prices {
            let id = self.coin_ids.get(&pair.symbol).map_or("", String::as_str);
            let currency = pair.invoice.to_lowercase();
            let is_asked = ids.split(',').any(|asked| asked == id) && currencies.split(',').any(|one| one == currency);
            if let (true, Ok(price)) = (is_asked, RawValue::from_string(rate.to_string())) {
                coins.entry(id).or_default().insert(currency, price);
            }
        }
        for coin in coins.values_mut() {
            if let Ok(time) = RawValue::from_string(updated_at.to_string()) {
                coin.insert("last_updated_at".to_owned(), time);
            }
        }
        let empty = || Value::Object(Map::new()).to_string();
        Some(serde_json::to_string(&coins).unwrap_or_else(|_| empty()))
    }
}

impl RateControls for RateSandbox {
    fn change(&self, change: &RateChange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((pair, rate)) = &change.price {
            state.prices.insert(pair.clone(), *rate);
        }
        state.is_stale = change.is_stale.unwrap_or(state.is_stale);
        state.is_down = change.is_down.unwrap_or(state.is_down);
    }

    fn symbols(&self) -> Vec<String> {
        self.coin_ids.keys().cloned().collect()
    }
}
