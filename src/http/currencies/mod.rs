//! Currencies.

use crate::{
    ctx::Ctx,
    domain::{
        currency::{self, CurrencyFilter},
        network::Network,
        refusal::Checks,
    },
    flows,
    http::{
        contract::tags::PlatformTag,
        error::{Fail, s},
        forms::{
            null::OrNull,
            text::text,
            wire::{Checked, CurrencyIdText, NetworkText, SymbolText},
        },
        gate::{access::KeyOrClient, extractor::Auth},
    },
};
use poem::web::Data;
use poem_openapi::{
    Enum, Object, OpenApi,
    param::{Path, Query},
    payload::Json,
};

text! {
    /// Truth value of the filter, in a string.
    FirstOnlyText {
        pattern: "^(true|false)$",
        length_max: 5,
        example: "true",
        hint: "firstOnly must be 'true' or 'false' if provided",
    }
    /// Network IDs, separated by commas.
    NetworksText {
        pattern: "^[a-z0-9, -]{1,256}$",
        length_max: 256,
        example: "sepolia,base",
        hint: "must be at most 16 network IDs separated by commas, for example sepolia,base",
    }
}

/// A currency that requests can be written or paid in.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Currency {
    /// Id for `invoiceCurrency` and `paymentCurrency`. Example: `USDC-sepolia`
    #[oai(validator(max_length = 64))]
    pub id: String,
    /// Name for people. Example: `USD Coin`
    #[oai(validator(max_length = 100))]
    pub name: String,
    /// Symbol. Example: `USDC`
    #[oai(validator(max_length = 32))]
    pub symbol: String,
    /// Fraction digits of an amount. Example: `6`
    #[oai(validator(minimum(value = "0"), maximum(value = "30")))]
    pub decimals: i32,
    /// Contract of a token; native coins and fiat currencies have a pseudo address. Example: `0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238`
    #[oai(validator(max_length = 42))]
    pub address: String,
    /// Network ID; `fiat` for fiat currencies. Example: `sepolia`
    #[oai(validator(max_length = 32))]
    pub network: String,
    /// What kind of currency it is
    #[oai(rename = "type")]
    pub kind: CurrencyType,
    /// Hash that conversion contracts know it by; the address for tokens. Example: `0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238`
    #[oai(validator(max_length = 42))]
    pub hash: String,
    /// Chain ID; 0 for fiat currencies. Example: `11155111`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub chain_id: i64,
}

/// Kind of a currency: token, Tron token, native coin, fiat
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum CurrencyType {
    /// Token on an EVM network
    #[oai(rename = "ERC20")]
    Erc20,
    /// Token on Tron
    #[oai(rename = "TRC20")]
    Trc20,
    /// Native coin
    #[oai(rename = "ETH")]
    Native,
    /// Fiat currency
    #[oai(rename = "ISO4217")]
    Fiat,
}

impl From<currency::Currency> for Currency {
    fn from(currency: currency::Currency) -> Self {
        Self {
            decimals: i32::from(currency.decimals),
            network: currency.network.map_or("fiat", Network::id).to_owned(),
            chain_id: currency
                .network
                .and_then(|network| i64::try_from(network.chain_id()).ok())
                .unwrap_or(0),
            kind: match currency.kind {
                currency::CurrencyKind::Erc20 => CurrencyType::Erc20,
                currency::CurrencyKind::Trc20 => CurrencyType::Trc20,
                currency::CurrencyKind::Native => CurrencyType::Native,
                currency::CurrencyKind::Fiat => CurrencyType::Fiat,
            },
            id: currency.id,
            name: currency.name,
            symbol: currency.symbol,
            address: currency.address,
            hash: currency.hash,
        }
    }
}

/// What an invoice currency can be paid in.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct ConversionRoutes {
    /// Invoice currency. Example: `USD`
    #[oai(validator(max_length = 64))]
    pub currency_id: String,
    /// Network filter as it was given; null when there was none. Absent when `networks` was given. Example: `sepolia`
    #[oai(validator(max_length = 32))]
    pub network: Option<OrNull<String>>,
    /// Network filter as it was given, when it was a list. Example: `["sepolia","base"]`
    #[oai(validator(max_items = 16))]
    pub networks: Option<Vec<NetworkText>>,
    /// Payment currencies, each with the address the payer needs
    #[oai(validator(max_items = 1000))]
    pub conversion_routes: Vec<Currency>,
}

/// Most networks of one filter.
const NETWORKS_MAX: usize = 16;

/// The networks of a list. Errors: one of them is no network id, or there are too many.
fn each_network(list: &NetworksText) -> Result<Vec<NetworkText>, &'static str> {
    let ids = list.as_str().split(',').map(str::trim).filter(|id| !id.is_empty());
    let ids = ids.map(NetworkText::parse).collect::<Result<Vec<_>, _>>();
    ids.ok()
        .filter(|ids| ids.len() <= NETWORKS_MAX)
        .ok_or(NetworksText::HINT)
}

/// Currencies.
pub struct Currencies;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Currencies")]
impl Currencies {
    /// List currencies
    ///
    /// Lists the currencies of the enabled networks and the fiat currencies that requests can be written in. Filters
    /// combine with AND; a filter that matches nothing answers 404. The answer is always an array.
    ///
    /// 200: The currencies that match, in one array
    /// 400 firstOnly: firstOnly can only be used when both network and symbol are provided
    /// 404: Token not found
    #[oai(path = "/currencies", method = "get", operation_id = "listCurrencies")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        _caller: Auth<KeyOrClient>,
        /// Only currencies of this network
        network: Query<Checked<NetworkText>>,
        /// Only currencies with this symbol, in any case
        symbol: Query<Checked<SymbolText>>,
        /// `true` answers only the first match; needs `network` and `symbol`
        #[oai(name = "firstOnly")]
        first_only: Query<Checked<FirstOnlyText>>,
        /// Only the currency with this id or alias
        id: Query<Checked<CurrencyIdText>>,
    ) -> Result<Json<Vec<Currency>>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let network = network.0.take("network", &mut checks);
        let symbol = symbol.0.take("symbol", &mut checks);
        let id = id.0.take("id", &mut checks);
        let first_only = first_only
            .0
            .take("firstOnly", &mut checks)
            .is_some_and(|text| text.as_str() == "true");
        checks.finish().map_err(|refusal| refusal.led_by("firstOnly"))?;
        let filter = CurrencyFilter {
            network: network.map(|text| text.as_str().to_owned()),
            symbol: symbol.map(|text| text.as_str().to_owned()),
            id: id.map(|text| text.as_str().to_owned()),
            first_only,
        };
        let found = flows::currencies::list::run(&ctx, &filter)?;
        Ok(Json(found.into_iter().map(Currency::from).collect()))
    }

    /// List conversion routes
    ///
    /// Lists the payment currencies in which a request in this invoice currency can be paid on chain. A currency
    /// without routes has an empty list.
    ///
    /// 200: The routes of the currency, and the filter as it was given
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
        network: Query<Checked<NetworkText>>,
        /// Only payment currencies of these networks, separated by commas; wins over `network`
        networks: Query<Checked<NetworksText>>,
    ) -> Result<Json<ConversionRoutes>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let mut checks = Checks::new();
        let network = network
            .0
            .take("network", &mut checks)
            .map(|text| text.as_str().to_owned());
        let networks = networks.0.take("networks", &mut checks);
        let networks = networks.and_then(|list| checks.take("networks", each_network(&list)));
        checks.finish()?;
        let ids = |list: &Vec<NetworkText>| list.iter().map(|id| id.as_str().to_owned()).collect();
        let wanted: Option<Vec<String>> = networks.as_ref().map(ids);
        let wanted = wanted.or_else(|| network.clone().map(|network| vec![network]));
        let found = flows::currencies::routes::run(&ctx, &currency_id, wanted.as_deref())?;
        Ok(Json(ConversionRoutes {
            currency_id: found.currency_id,
            network: networks.is_none().then_some(OrNull(network)),
            networks,
            conversion_routes: found.routes.into_iter().map(Currency::from).collect(),
        }))
    }
}
