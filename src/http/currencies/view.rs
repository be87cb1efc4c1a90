//! Currencies and routes as clients see them.

use super::bodies::{ConversionRouteList, Currency};
use crate::{
    domain::{currency, network::Network},
    flows::currencies::routes::CurrencyRoutes,
    http::operation::*,
};

pub(super) fn currency(currency: currency::Currency) -> Currency {
    let chain_id = currency.network.map(|network| i64::try_from(network.chain_id()));
    Currency {
        id: CurrencyIdText::written(currency.id),
        name: currency.name,
        symbol: SymbolText::written(currency.symbol),
        decimals: i32::from(currency.decimals),
        address: WalletText::written(currency.address),
        network: NetworkText::written(currency.network.map_or("fiat", Network::id)),
        kind: currency.kind,
        hash: WalletText::written(currency.hash),
        chain_id: chain_id.and_then(Result::ok).unwrap_or(0),
    }
}

/// Routes with the filter of the call; `networks` takes precedence over `network`.
pub(super) fn routes(
    found: CurrencyRoutes,
    network: Option<NetworkText>,
    networks: Option<Vec<NetworkText>>,
) -> ConversionRouteList {
    ConversionRouteList {
        currency_id: CurrencyIdText::written(found.currency_id),
        alias: found.alias.map(CurrencyIdText::written),
        network: networks.is_none().then_some(OrNull(network)),
        networks,
        conversion_routes: found.routes.into_iter().map(currency).collect(),
    }
}
