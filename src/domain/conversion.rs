//! Conversion by on-chain price feeds: the path, and the maximum age of rates.

use super::currency::{Catalogue, Currency};
use alloy::primitives::{Address as EvmAddress, U256};
use std::collections::BTreeMap;

/// Path of price feeds and the maximum age of their rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateBounds {
    /// Hashes of the currencies along the path, from the invoice currency to the payment currency.
    pub path: Vec<EvmAddress>,
    /// Maximum accepted age of a rate, in seconds; 0 accepts any age.
    pub max_age_s: u64,
}

/// Maximum age of the rates of price feeds, in seconds; 0 accepts any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateAges {
    /// Maximum age for feeds without an entry in `by_symbol`.
    pub usual_s: u64,
    /// Maximum age of single feeds, by the symbol of their currency in lower case.
    pub by_symbol: BTreeMap<String, u64>,
}

impl RateAges {
    /// The maximum age for a path: the largest maximum age of its feeds, because the contract has a single limit for
    /// all feeds of a path.
    fn of(&self, symbols: impl IntoIterator<Item = Option<String>>) -> u64 {
        let ages = symbols.into_iter().map(|symbol| {
            let own = symbol.and_then(|symbol| self.by_symbol.get(&symbol.to_lowercase()));
            *own.unwrap_or(&self.usual_s)
        });
        // 0 means no limit, so it counts as the largest age.
        ages.reduce(|one, other| if one == 0 || other == 0 { 0 } else { one.max(other) })
            .unwrap_or(self.usual_s)
    }
}

impl RateBounds {
    /// Whether a payment at `now_s` may use the rates of its path, of which the oldest was set at `oldest_rate_at_s`.
    /// Both times are in seconds since 1970.
    pub fn admit(&self, oldest_rate_at_s: U256, now_s: U256) -> bool {
        self.max_age_s == 0 || now_s.saturating_sub(oldest_rate_at_s) <= U256::from(self.max_age_s)
    }

    /// The path and maximum rate age of payments between two currencies; `None` without a route.
    pub fn between(catalogue: &Catalogue, ages: &RateAges, invoice: &Currency, payment: &Currency) -> Option<Self> {
        let hashes = catalogue.conversion_path(invoice, payment)?;
        let path = hashes
            .iter()
            .map(|hash| hash.parse().ok())
            .collect::<Option<Vec<_>>>()?;
        let symbols = hashes
            .iter()
            .map(|hash| catalogue.symbol_by_hash(hash).map(str::to_owned));
        Some(Self {
            path,
            max_age_s: ages.of(symbols),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_valid_up_to_its_maximum_age() {
        let admitted = |max_age_s, set_at: u64| {
            let bounds = RateBounds {
                path: Vec::new(),
                max_age_s,
            };
            bounds.admit(U256::from(set_at), U256::from(1_000))
        };
        assert!(admitted(100, 900));
        assert!(!admitted(100, 899));
        assert!(admitted(0, 0), "a bound of 0 allows any age");
        assert!(admitted(100, 2_000), "this clock may be behind the chain's clock");
    }

    #[test]
    fn the_slowest_feed_of_a_path_sets_its_maximum_age() {
        let ages = RateAges {
            usual_s: 90_000,
            by_symbol: BTreeMap::from([
                ("eur".to_owned(), 266_400),
                ("dai".to_owned(), 60),
                ("xau".to_owned(), 0),
            ]),
        };
        let of = |symbols: &[&str]| ages.of(symbols.iter().map(|symbol| Some((*symbol).to_owned())));
        assert_eq!(of(&["USD", "USDC"]), 90_000);
        assert_eq!(of(&["EUR", "USD", "USDC"]), 266_400);
        assert_eq!(of(&["DAI"]), 60);
        assert_eq!(of(&["USD", "DAI"]), 90_000, "the dollar feed has the default bound");
        assert_eq!(
            of(&["EUR", "XAU"]),
            0,
            "a feed without a bound leaves the path without one"
        );
        assert_eq!(ages.of([None]), 90_000);
    }
}
