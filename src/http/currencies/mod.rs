//! Currencies.

mod bodies;
mod view;

use crate::{domain::currency::CurrencyFilter, flows, http::operation::*};
pub use bodies::*;

/// Currencies.
pub struct Currencies;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Currencies")]
impl Currencies {
    /// List currencies
    ///
    /// Lists the currencies of the enabled networks and the fiat currencies that invoices can use. Filters combine with
    /// AND. Filters without a match return 404. The response is always an array.
    ///
    /// When: you choose a currency for a request, or list the supported ones
    /// Next: list the routes of a currency with `GET /v2/currencies/{currencyId}/conversion-routes`, or create a request with `POST /v2/request` and the id of a currency
    /// 200: The currencies that match, in one array
    /// 400 firstOnly: firstOnly can only be used when both network and symbol are provided
    /// 404: Token not found
    #[oai(path = "/currencies", method = "get", operation_id = "listCurrencies")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        _caller: Auth<KeyOrClient>,
        /// Only currencies of this network
        network: Checked<NetworkText>,
        /// Only currencies with this symbol, or with this name before the network in the id or an alias;
        /// case-insensitive. Example: `FAU`
        symbol: Checked<SymbolText>,
        /// `true` returns only the first match; needs `network` and `symbol`
        #[oai(name = "firstOnly")]
        first_only: Checked<FirstOnlyText>,
        /// Only the currency with this id or alias
        id: Checked<CurrencyIdText>,
    ) -> Result<Json<Vec<Currency>>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let first_only = first_only.take(&mut checks);
        let filter = CurrencyFilter {
            network: network.take(&mut checks).map(String::from),
            symbol: symbol.take(&mut checks).map(String::from),
            id: id.take(&mut checks).map(String::from),
            first_only: first_only.is_some_and(|text| text.as_str() == "true"),
        };
        checks.finish().map_err(|refusal| refusal.led_by("firstOnly"))?;
        let found = flows::currencies::list::run(&ctx, &filter)?;
        Ok(Json(found.into_iter().map(view::currency).collect()))
    }

    /// List conversion routes
    ///
    /// Lists the payment currencies that can pay a request in this invoice currency on chain. The list is empty for a
    /// currency without routes.
    ///
    /// When: you offer payers a choice of payment currencies
    /// Needs: the id or alias of an invoice currency
    /// Next: create a request with `POST /v2/request` and one of these currencies as `paymentCurrency`
    /// 200: The routes of the currency, and the filter of the call
    /// 404: Token not found
    #[oai(
        path = "/currencies/:currencyId/conversion-routes",
        method = "get",
        operation_id = "listConversionRoutes"
    )]
    async fn routes(
        &self,
        ctx: Data<&Ctx>,
        _caller: Auth<KeyOrClient>,
        /// Invoice currency. Example: `USD`
        #[oai(name = "currencyId", validator(max_length = 64))]
        currency_id: Path<String>,
        /// Only payment currencies of this network
        network: Checked<NetworkText>,
        /// Only payment currencies of these networks, separated by commas; takes precedence over `network`
        networks: Checked<NetworksText>,
    ) -> Result<Json<ConversionRouteList>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let network = network.take(&mut checks);
        let networks = networks.take(&mut checks).map(|list| list.networks());
        checks.finish()?;
        let wanted = networks.as_deref().or(network.as_ref().map(std::slice::from_ref));
        let wanted: Option<Vec<String>> = wanted.map(|list| list.iter().map(ToString::to_string).collect());
        let found = flows::currencies::routes::run(&ctx, &currency_id, wanted.as_deref())?;
        Ok(Json(view::routes(found, network, networks)))
    }
}
