//! What bodies of several events have in common: names that an operator chooses, and how values are written.

use crate::domain::{currency::Currency, event::ForeignJson, request::Request};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

/// Names in bodies that an operator can choose. Source: decisions D11.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// `paymentProcessor` of payments that stay on chain.
    pub processor_crypto: String,
    /// `paymentProcessor` of payments that end in a bank account.
    pub processor_fiat: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            processor_crypto: "service-network".to_owned(),
            processor_fiat: "service-tech".to_owned(),
        }
    }
}

/// Time as bodies write it.
pub(super) fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// `paymentProcessor` of a request.
pub(super) fn processor(request: &Request, names: &Names) -> String {
    let name = match request.terms.is_crypto_to_fiat {
        true => &names.processor_fiat,
        false => &names.processor_crypto,
    };
    name.clone()
}

/// Text of somebody else, no longer than the document promises.
pub(super) fn clipped(text: &str, length_max: usize) -> String {
    text.chars().take(length_max).collect()
}

/// The object that somebody else wrote; what is no object is passed on as its one member `text`, so nothing is lost.
///
/// It is rewritten for JavaScript together with the body that holds it.
pub(super) fn foreign(json: &ForeignJson) -> Map<String, Value> {
    serde_json::from_str(&json.0).unwrap_or_else(|_| Map::from_iter([("text".to_owned(), json.0.clone().into())]))
}

/// Symbol of a currency; the id of one that left the catalogue.
pub(super) fn symbol(currency: Option<&Currency>, id: &str) -> String {
    currency.map_or_else(|| id.to_owned(), |currency| currency.symbol.clone())
}
