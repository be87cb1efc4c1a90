//! Conversion by on-chain price feeds: along which path, and how old a rate may be.

use super::currency::{Catalogue, Currency};
use alloy::primitives::{Address as EvmAddress, U256};
use std::collections::BTreeMap;

/// Path of price feeds and the age that their rates may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateBounds {
    /// Hashes from invoice to payment currency.
    pub path: Vec<EvmAddress>,
    /// Oldest accepted rate in seconds; 0 accepts any.
    pub max_age_s: u64,
}

/// How old the rates of price feeds may be, in seconds; 0 accepts any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateAges {
    /// Of feeds without an entry of their own.
    pub usual_s: u64,
    /// By the symbol of a currency in lower case.
    pub by_symbol: BTreeMap<String, u64>,
}

impl RateAges {
    /// The bound of a path: a contract knows one for all its feeds, so it is the largest of them.
    fn of(&self, symbols: impl IntoIterator<Item = Option<String>>) -> u64 {
        let ages = symbols.into_iter().map(|symbol| {
            let own = symbol.and_then(|symbol| self.by_symbol.get(&symbol.to_lowercase()));
            *own.unwrap_or(&self.usual_s)
        });
        // A feed whose rates may have any age is the largest of all.
        ages.reduce(|one, other| if one == 0 || other == 0 { 0 } else { one.max(other) })
            .unwrap_or(self.usual_s)
    }
}

impl RateBounds {
    /// Whether a payment may use a rate at a time; both in seconds since 1970.
    pub fn admit(&self, oldest_rate_at_s: U256, now_s: U256) -> bool {
        self.max_age_s == 0 || now_s.saturating_sub(oldest_rate_at_s) <= U256::from(self.max_age_s)
    }

    /// What a payment of an invoice currency in another one has to keep to; `None` without a route.
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
    fn a_rate_may_be_as_old_as_its_bound() {
        let admitted = |max_age_s, set_at: u64| {
            let bounds = RateBounds {
                path: Vec::new(),
                max_age_s,
            };
            bounds.admit(U256::from(set_at), U256::from(1_000))
        };
        assert!(admitted(100, 900));
        assert!(!admitted(100, 899));
        assert!(admitted(0, 0), "any age");
        assert!(admitted(100, 2_000), "a clock may be behind that of the chain");
    }

    #[test]
    fn the_slowest_feed_of_a_path_bounds_it() {
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
        assert_eq!(
            of(&["USD", "DAI"]),
            90_000,
            "the feed of the dollar may be as old as any"
        );
        assert_eq!(
            of(&["EUR", "XAU"]),
            0,
            "a feed without a bound leaves the path without one"
        );
        assert_eq!(ages.of([None]), 90_000);
    }
}
