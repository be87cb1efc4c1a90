//! Common parts of several event bodies: names that an operator chooses, and formats of values.

use crate::domain::{currency::Currency, event::ForeignJson, request::Request};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

/// Names in bodies that an operator can configure. Source: decisions D11.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessorNames {
    /// `paymentProcessor` of payments that stay on chain.
    pub processor_crypto: String,
    /// `paymentProcessor` of payments that end in a bank account.
    pub processor_fiat: String,
}

impl Default for ProcessorNames {
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
pub(super) fn processor(request: &Request, names: &ProcessorNames) -> String {
    let name = if request.terms.is_crypto_to_fiat {
        &names.processor_fiat
    } else {
        &names.processor_crypto
    };
    name.clone()
}

/// A text of a third party, cut to the maximum length in the document.
pub(super) fn clipped(text: &str, length_max: usize) -> String {
    text.chars().take(length_max).collect()
}

/// An object that a third party wrote. A text that is not a JSON object becomes the only member `text`, so nothing is
/// lost.
///
/// The object is rewritten for JavaScript later, together with the body that contains it.
pub(super) fn foreign(json: &ForeignJson) -> Map<String, Value> {
    serde_json::from_str(&json.0).unwrap_or_else(|_| Map::from_iter([("text".to_owned(), json.0.clone().into())]))
}

/// Symbol of a currency; the id if the catalogue no longer contains the currency.
pub(super) fn symbol(currency: Option<&Currency>, id: &str) -> String {
    currency.map_or_else(|| id.to_owned(), |currency| currency.symbol.clone())
}
