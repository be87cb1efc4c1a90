//! Pairs of a token and its fiat price currency.

use std::fmt;

/// The fiat currency that dollar tokens are pegged to.
const DOLLAR: &str = "USD";

/// A token whose unit is priced in a fiat currency: `USDC/USD` is dollars for one USDC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// Symbol of the token.
    pub symbol: String,
    /// Id of the fiat currency.
    pub invoice: String,
}

impl Pair {
    /// A token and a fiat currency.
    pub fn new(symbol: &str, invoice: &str) -> Self {
        Self {
            symbol: symbol.to_owned(),
            invoice: invoice.to_owned(),
        }
    }

    /// Parses `USDC/USD`.
    pub fn parse(text: &str) -> Option<Self> {
        let (symbol, invoice) = text.split_once('/')?;
        let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_name(symbol) && is_name(invoice)).then(|| Self::new(&symbol.to_uppercase(), &invoice.to_uppercase()))
    }

    /// The same token priced in dollars.
    #[must_use]
    pub fn in_dollars(&self) -> Self {
        Self::new(&self.symbol, DOLLAR)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.symbol, self.invoice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_round_trip_through_text() {
        let pair = Pair::new("USDC", "USD");
        assert_eq!(Pair::parse("usdc/usd"), Some(pair.clone()));
        assert_eq!(Pair::parse(&pair.to_string()), Some(pair));
        for text in ["", "USDC", "/USD", "USDC/", "US DC/USD", "A/B/C"] {
            assert_eq!(Pair::parse(text), None, "{text}");
        }
    }
}
