//! The shape of simple prices: `{"usd-coin":{"usd":0.9998,"last_updated_at":1711356300}}`.
//!
//! Each member is read for itself, from its own text: one that is odd spoils no other, and no number becomes a float.

use crate::{
    domain::{
        pair::Pair,
        rate::Rate,
        rates::{Flaw, Price},
    },
    ports::rates::Told,
};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Ids of coins by the symbols of tokens in upper case.
pub type CoinIds = BTreeMap<String, String>;

/// Member that says when the prices of a coin were true, in Unix seconds.
const UPDATED: &str = "last_updated_at";

type Members = BTreeMap<String, Box<RawValue>>;

/// Reads an answer. `undated` is when prices without a time were true; `None` where they need one.
///
/// `None` when it is no JSON object.
pub(super) fn read(text: &str, pairs: &BTreeSet<Pair>, ids: &CoinIds, undated: Option<DateTime<Utc>>) -> Option<Told> {
    let coins: Members = serde_json::from_str(text).ok()?;
    let told = |pair: &Pair| {
        let coin = ids.get(&pair.symbol).and_then(|id| coins.get(id)).ok_or(Flaw::Absent)?;
        let coin: Option<Members> = serde_json::from_str(coin.get()).map_err(|_| Flaw::Unreadable)?;
        price(&coin.ok_or(Flaw::Absent)?, &pair.invoice.to_lowercase(), undated)
    };
    Some(pairs.iter().map(|pair| (pair.clone(), told(pair))).collect())
}

fn price(coin: &Members, currency: &str, undated: Option<DateTime<Utc>>) -> Result<Price, Flaw> {
    let text = coin.get(currency).ok_or(Flaw::Absent)?.get();
    if text == "null" {
        return Err(Flaw::Absent);
    }
    let rate = Rate::parse(text)?;
    let as_of = match coin.get(UPDATED) {
        Some(seconds) => seconds.get().parse().ok().and_then(|s| DateTime::from_timestamp(s, 0)),
        None => undated,
    };
    Ok(Price {
        rate,
        as_of: as_of.ok_or(Flaw::Undated)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(coin: &str) -> Result<Price, Flaw> {
        let pair = Pair::new("USDC", "USD");
        let ids = CoinIds::from([("USDC".to_owned(), "usd-coin".to_owned())]);
        let text = format!(r#"{{"tether":{{"usd":1}},"usd-coin":{coin}}}"#);
        let mut told = read(&text, &BTreeSet::from([pair.clone()]), &ids, None).unwrap();
        told.remove(&pair).unwrap()
    }

    #[test]
    fn a_price_is_read_digit_by_digit() {
        let price = told(r#"{"usd": 0.99970000000000003, "last_updated_at": 1711356300}"#).unwrap();
        assert_eq!(price.rate.to_string(), "0.99970000000000003");
        assert_eq!(price.as_of.timestamp(), 1_711_356_300);
        let small = told(r#"{"usd":1.5e-05,"last_updated_at":1711356300}"#).unwrap();
        assert_eq!(small.rate.to_string(), "0.000015");
    }

    /// Every field of the shape with everything that it must not be.
    #[test]
    fn nothing_but_a_dated_number_is_a_price() {
        for (coin, flaw) in [
            (r"null", Flaw::Absent),
            (r"{}", Flaw::Absent),
            (r#""1""#, Flaw::Unreadable),
            (r"1", Flaw::Unreadable),
            (r"[]", Flaw::Unreadable),
            (r#"{"usd":null,"last_updated_at":1711356300}"#, Flaw::Absent),
            (r#"{"eur":1,"last_updated_at":1711356300}"#, Flaw::Absent),
            (r#"{"usd":"1","last_updated_at":1711356300}"#, Flaw::Unreadable),
            (r#"{"usd":true,"last_updated_at":1711356300}"#, Flaw::Unreadable),
            (r#"{"usd":{},"last_updated_at":1711356300}"#, Flaw::Unreadable),
            (r#"{"usd":[1],"last_updated_at":1711356300}"#, Flaw::Unreadable),
            (r#"{"usd":-1,"last_updated_at":1711356300}"#, Flaw::Unreadable),
            (r#"{"usd":1e99,"last_updated_at":1711356300}"#, Flaw::Unreadable),
            (r#"{"usd":0,"last_updated_at":1711356300}"#, Flaw::Zero),
            (r#"{"usd":0.0,"last_updated_at":1711356300}"#, Flaw::Zero),
            (r#"{"usd":1}"#, Flaw::Undated),
            (r#"{"usd":1,"last_updated_at":null}"#, Flaw::Undated),
            (r#"{"usd":1,"last_updated_at":"1711356300"}"#, Flaw::Undated),
            (r#"{"usd":1,"last_updated_at":1711356300.5}"#, Flaw::Undated),
            (r#"{"usd":1,"last_updated_at":99999999999999999999}"#, Flaw::Undated),
        ] {
            assert_eq!(told(coin), Err(flaw), "{coin}");
        }
    }

    #[test]
    fn what_is_no_object_is_no_answer() {
        for text in ["", "null", "[]", "1", "<html>", r#"{"usd-coin":{"usd":1"#] {
            assert!(read(text, &BTreeSet::new(), &CoinIds::new(), None).is_none(), "{text}");
        }
    }

    #[test]
    fn a_coin_that_nobody_named_has_no_price() {
        let pair = Pair::new("FAU", "USD");
        let told = read("{}", &BTreeSet::from([pair.clone()]), &CoinIds::new(), None).unwrap();
        assert_eq!(told[&pair], Err(Flaw::Absent));
    }
}
