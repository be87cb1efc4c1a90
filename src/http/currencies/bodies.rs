//! Bodies of currencies and routes.

use crate::{domain::currency::CurrencyKind, http::operation::*};

/// Largest number of networks in one filter.
const NETWORKS_MAX: usize = 16;

words! {
    /// Kind of a currency: token, Tron token, native coin, fiat
    CurrencyKind as "CurrencyType";
}

text! {
    /// Boolean filter, as a string.
    FirstOnlyText {
        pattern: "^(true|false)$",
        length_max: 5,
        example: "true",
        hint: "firstOnly must be 'true' or 'false' if provided",
    }
    /// Network IDs, separated by commas.
    NetworksText {
        pattern: "^[ ,]*(?:[a-z0-9-]{1,32}(?:[ ,]*,[ ,]*[a-z0-9-]{1,32}){0,15}[ ,]*)?$",
        length_min: 1,
        length_max: 256,
        example: "sepolia,base",
        hint: "must be network IDs separated by commas, for example sepolia,base",
        holds: |text: &str| networks(text).is_some_and(|networks| networks.len() <= NETWORKS_MAX),
    }
}

/// A currency for invoices or payments.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Currency {
    /// Id for `invoiceCurrency` and `paymentCurrency`. Example: `FAU-sepolia`
    pub id: CurrencyIdText,
    /// Display name. Example: `FAU`
    #[oai(validator(max_length = 100))]
    pub name: String,
    /// Symbol. Example: `FAU`
    pub symbol: SymbolText,
    /// Decimals of an amount. Example: `18`
    #[oai(validator(minimum(value = "0"), maximum(value = "30")))]
    pub decimals: i32,
    /// Contract of a token; native coins and fiat currencies have a pseudo address. Example: `0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C`
    pub address: WalletText,
    /// Network ID; `fiat` for fiat currencies
    pub network: NetworkText,
    /// Kind of the currency
    #[oai(rename = "type")]
    pub kind: CurrencyKind,
    /// Hash that identifies the currency in conversion contracts; for tokens, the address. Example: `0x370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C`
    pub hash: WalletText,
    /// Chain ID; 0 for fiat currencies. Example: `11155111`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub chain_id: i64,
}

/// Currencies that can pay an invoice currency.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConversionRouteList {
    /// Invoice currency. Example: `ETH-sepolia-sepolia`
    pub currency_id: CurrencyIdText,
    /// Alias of the currency that the caller used; absent when the caller used its id. Example: `ETH-sepolia`
    pub alias: Option<CurrencyIdText>,
    /// The `network` filter of the call; null if the call had no filter, absent if it had `networks`
    pub network: Option<OrNull<NetworkText>>,
    /// The `networks` filter of the call; absent if the call had none. Example: `["sepolia","base"]`
    #[oai(validator(max_items = 16))]
    pub networks: Option<Vec<NetworkText>>,
    /// Payment currencies, each with its network and its contract address
    #[oai(validator(max_items = 1000))]
    pub conversion_routes: Vec<Currency>,
}

impl NetworksText {
    /// The networks of the list.
    pub fn networks(&self) -> Vec<NetworkText> {
        networks(self.as_str()).unwrap_or_default()
    }
}

/// The ids between the commas; `None` when one of them is malformed.
fn networks(list: &str) -> Option<Vec<NetworkText>> {
    let ids = list.split(',').map(str::trim).filter(|id| !id.is_empty());
    ids.map(|id| NetworkText::parse(id).ok()).collect()
}
