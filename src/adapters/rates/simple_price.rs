//! The simple price format: `{"usd-coin":{"usd":0.9998,"last_updated_at":1711356300}}`.
//!
//! Each member is parsed separately from its own text: an invalid member does not affect the others, and no number
//! becomes a float.

use crate::{
    domain::{
        pair::Pair,
        rate::Rate,
        rates::{FeedPrice, RateFlaw},
    },
    ports::rates::FeedReadings,
};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Coin ids by uppercase token symbol.
pub type CoinIds = BTreeMap<String, String>;

/// Name of the member with the time of a coin's prices, in Unix seconds.
const UPDATED: &str = "last_updated_at";

type Members = BTreeMap<String, Box<RawValue>>;

/// Parses a response. `undated` is the time that prices without a time get; `None` if a time is required.
///
/// Returns `None` if the text is not a JSON object.
pub(super) fn read(
    text: &str,
    pairs: &BTreeSet<Pair>,
    ids: &CoinIds,
    undated: Option<DateTime<Utc>>,
) -> Option<FeedReadings> {
    let coins: Members = serde_json::from_str(text).ok()?;
    let told = |pair: &Pair| {
        let coin = ids
            .get(&pair.symbol)
            .and_then(|id| coins.get(id))
            .ok_or(RateFlaw::Absent)?;
        let coin: Option<Members> = serde_json::from_str(coin.get()).map_err(|_| RateFlaw::Unreadable)?;
        price(&coin.ok_or(RateFlaw::Absent)?, &pair.invoice.to_lowercase(), undated)
    };
    Some(pairs.iter().map(|pair| (pair.clone(), told(pair))).collect())
}

fn price(coin: &Members, currency: &str, undated: Option<DateTime<Utc>>) -> Result<FeedPrice, RateFlaw> {
    let text = coin.get(currency).ok_or(RateFlaw::Absent)?.get();
    if text == "null" {
        return Err(RateFlaw::Absent);
    }
    let rate = Rate::parse(text)?;
    let as_of = match coin.get(UPDATED) {
        Some(seconds) => seconds.get().parse().ok().and_then(|s| DateTime::from_timestamp(s, 0)),
        None => undated,
    };
    Ok(FeedPrice {
        rate,
        as_of: as_of.ok_or(RateFlaw::Undated)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(coin: &str) -> Result<FeedPrice, RateFlaw> {
        let pair = Pair::new("USDC", "USD");
        let ids = CoinIds::from([("USDC".to_owned(), "usd-coin".to_owned())]);
        let text = format!(r#"{{"tether":{{"usd":1}},"usd-coin":{coin}}}"#);
        let mut told = read(&text, &BTreeSet::from([pair.clone()]), &ids, None).unwrap();
        told.remove(&pair).unwrap()
    }

    #[test]
    fn prices_are_parsed_exactly() {
        let price = told(r#"{"usd": 0.99970000000000003, "last_updated_at": 1711356300}"#).unwrap();
        assert_eq!(price.rate.to_string(), "0.99970000000000003");
        assert_eq!(price.as_of.timestamp(), 1_711_356_300);
        let small = told(r#"{"usd":1.5e-05,"last_updated_at":1711356300}"#).unwrap();
        assert_eq!(small.rate.to_string(), "0.000015");
    }

    /// Each field of the format is given invalid values.
    #[test]
    fn only_a_dated_number_is_a_price() {
        for (coin, flaw) in [
            (r"null", RateFlaw::Absent),
            (r"{}", RateFlaw::Absent),
            (r#""1""#, RateFlaw::Unreadable),
            (r"1", RateFlaw::Unreadable),
            (r"[]", RateFlaw::Unreadable),
            (r#"{"usd":null,"last_updated_at":1711356300}"#, RateFlaw::Absent),
            (r#"{"eur":1,"last_updated_at":1711356300}"#, RateFlaw::Absent),
            (r#"{"usd":"1","last_updated_at":1711356300}"#, RateFlaw::Unreadable),
            (r#"{"usd":true,"last_updated_at":1711356300}"#, RateFlaw::Unreadable),
            (r#"{"usd":{},"last_updated_at":1711356300}"#, RateFlaw::Unreadable),
            (r#"{"usd":[1],"last_updated_at":1711356300}"#, RateFlaw::Unreadable),
            (r#"{"usd":-1,"last_updated_at":1711356300}"#, RateFlaw::Unreadable),
            (r#"{"usd":1e99,"last_updated_at":1711356300}"#, RateFlaw::Unreadable),
            (r#"{"usd":0,"last_updated_at":1711356300}"#, RateFlaw::Zero),
            (r#"{"usd":0.0,"last_updated_at":1711356300}"#, RateFlaw::Zero),
            (r#"{"usd":1}"#, RateFlaw::Undated),
            (r#"{"usd":1,"last_updated_at":null}"#, RateFlaw::Undated),
            (r#"{"usd":1,"last_updated_at":"1711356300"}"#, RateFlaw::Undated),
            (r#"{"usd":1,"last_updated_at":1711356300.5}"#, RateFlaw::Undated),
            (r#"{"usd":1,"last_updated_at":99999999999999999999}"#, RateFlaw::Undated),
        ] {
            assert_eq!(told(coin), Err(flaw), "{coin}");
        }
    }

    #[test]
    fn non_object_responses_are_rejected() {
        for text in ["", "null", "[]", "1", "<html>", r#"{"usd-coin":{"usd":1"#] {
            assert!(read(text, &BTreeSet::new(), &CoinIds::new(), None).is_none(), "{text}");
        }
    }

    #[test]
    fn unrequested_coins_have_no_price() {
        let pair = Pair::new("FAU", "USD");
        let told = read("{}", &BTreeSet::from([pair.clone()]), &CoinIds::new(), None).unwrap();
        assert_eq!(told[&pair], Err(RateFlaw::Absent));
    }
}
