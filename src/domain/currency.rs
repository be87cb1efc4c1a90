//! The catalogue: currencies, their aliases, the proxies of each network and the routes between invoice and payment.

use super::{
    address::Address,
    network::{Family, Network},
    pair::Pair,
    wire_text::wire_text,
};
use std::collections::{BTreeSet, HashMap};

/// Decimals that conversion contracts use for fiat currencies. Source: rules G.3.
pub const FIAT_CHAIN_DECIMALS: u8 = 8;

/// Fraction digits of amounts in US dollars. Source: rules P.7.1.
pub const DOLLAR_DECIMALS: u8 = 6;

/// Tokens that count as one US dollar. Source: rules P.7.1.
pub(super) const DOLLAR_SYMBOLS: [&str; 3] = ["USDC", "USDT", "DAI"];

wire_text! {
    /// Kind of a currency, and its `type` in the API. Source: rules P.1.3.
    pub enum CurrencyKind {
        /// A token with a contract on an EVM network.
        Erc20 = "ERC20",
        /// A token with a contract on Tron.
        Trc20 = "TRC20",
        /// The native coin of a network.
        Native = "ETH",
        /// A fiat currency.
        Fiat = "ISO4217",
    }
}

/// A currency for invoices or payments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Currency {
    /// Canonical id, `<symbol>-<network>` or the fiat code.
    pub id: String,
    /// Other ids that mean the same currency.
    pub aliases: Vec<String>,
    /// Display name.
    pub name: String,
    /// Symbol.
    pub symbol: String,
    /// Decimals.
    pub decimals: u8,
    /// Contract address of a token; the pseudo address of a coin or fiat currency.
    pub address: String,
    /// Network; `None` for fiat.
    pub network: Option<Network>,
    /// Kind.
    pub kind: CurrencyKind,
    /// Hash that identifies the currency in conversion contracts.
    pub hash: String,
    /// On-chain conversion paths to this currency, by the id of the fiat currency at their start. A path has the hashes
    /// of its currencies, from the invoice currency to this currency.
    pub conversion_paths: HashMap<String, Vec<String>>,
}

#[cfg(test)]
impl Currency {
    /// A token on the network, or a fiat currency.
    pub(crate) fn sample(symbol: &str, decimals: u8, network: Option<Network>) -> Self {
        Self {
            id: network.map_or_else(|| symbol.to_owned(), |network| format!("{symbol}-{network}")),
            aliases: Vec::new(),
            name: symbol.to_owned(),
            symbol: symbol.to_owned(),
            decimals,
            address: String::new(),
            network,
            kind: network.map_or(CurrencyKind::Fiat, |_| CurrencyKind::Erc20),
            hash: String::new(),
            conversion_paths: HashMap::new(),
        }
    }
}

impl Currency {
    /// The contract of a token; `None` for coins and fiat.
    pub fn token(&self) -> Option<Address> {
        match self.kind {
            CurrencyKind::Erc20 | CurrencyKind::Trc20 => Address::parse(&self.address).ok(),
            CurrencyKind::Native | CurrencyKind::Fiat => None,
        }
    }

    /// Whether one unit counts as one US dollar. Source: rules P.7.1.
    pub fn is_dollar(&self) -> bool {
        let is_token = matches!(self.kind, CurrencyKind::Erc20 | CurrencyKind::Trc20);
        self.id == "USD" || (is_token && DOLLAR_SYMBOLS.contains(&self.symbol.as_str()))
    }

    /// Whether the currency only pays network fees, so that no request is in it: the coin of Tron.
    pub fn only_pays_fees(&self) -> bool {
        let is_tron = self.network.is_some_and(|network| network.family() == Family::Tron);
        self.kind == CurrencyKind::Native && is_tron
    }

    /// Whether the token refuses to change a non-zero allowance to another non-zero value.
    pub fn resets_allowance(&self) -> bool {
        self.symbol.starts_with("USDT")
    }
}

/// A contract that the service knows on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownContract {
    /// Which contract.
    pub kind: ContractKind,
    /// Where it is.
    pub address: Address,
    /// Block in which the contract was created; the service watches the contract from this block on.
    pub creation_block: u64,
    /// Whether new calldata uses this contract. Of older versions, the service only watches the payments.
    pub is_default: bool,
}

wire_text! {
    /// The contracts of the payment protocol.
    pub enum ContractKind {
        /// Token payments with reference and fee.
        Erc20FeeProxy = "ERC20FeeProxy",
        /// Coin payments with reference and fee.
        EthereumFeeProxy = "EthereumFeeProxy",
        /// Token payments without fee.
        Erc20Proxy = "ERC20Proxy",
        /// Coin payments without fee.
        EthereumProxy = "EthereumProxy",
        /// Fiat-denominated token payments.
        Erc20ConversionProxy = "Erc20ConversionProxy",
        /// Fiat-denominated coin payments.
        EthConversionProxy = "EthConversionProxy",
        /// Rates of the conversion proxies.
        ChainlinkConversionPath = "ChainlinkConversionPath",
        /// Batches without conversion, older form.
        BatchPayments = "BatchPayments",
        /// Batches.
        BatchConversionPayments = "BatchConversionPayments",
        /// Swap and pay.
        Erc20SwapToPay = "ERC20SwapToPay",
        /// Factory of forwarders.
        SingleRequestProxyFactory = "SingleRequestProxyFactory",
        /// Recurring payments.
        Erc20RecurringPaymentProxy = "ERC20RecurringPaymentProxy",
        /// Batches on Tron.
        Erc20BatchPayments = "ERC20BatchPayments",
        /// Contract of Safe accounts, version 1.3.0.
        Safe130 = "Safe_1_3_0",
        /// The same for networks whose Safes report every transaction.
        SafeL2130 = "SafeL2_1_3_0",
        /// Contract of Safe accounts, version 1.4.1.
        Safe141 = "Safe_1_4_1",
        /// The same for networks whose Safes report every transaction.
        SafeL2141 = "SafeL2_1_4_1",
        /// Contract of Safe accounts, version 1.5.0.
        Safe150 = "Safe_1_5_0",
        /// The same for networks whose Safes report every transaction.
        SafeL2150 = "SafeL2_1_5_0",
    }
}

impl ContractKind {
    /// Whether this contract emits payment events.
    pub const fn emits_payments(self) -> bool {
        matches!(
            self,
            Self::Erc20FeeProxy
                | Self::EthereumFeeProxy
                | Self::Erc20Proxy
                | Self::EthereumProxy
                | Self::Erc20ConversionProxy
                | Self::EthConversionProxy
        )
    }

    /// Whether the contract forwards payments on behalf of its caller. Source: rules G.6 (the payer).
    pub const fn forwards_payments(self) -> bool {
        matches!(
            self,
            Self::BatchPayments
                | Self::BatchConversionPayments
                | Self::Erc20SwapToPay
                | Self::Erc20RecurringPaymentProxy
                | Self::SingleRequestProxyFactory
        )
    }

    /// Parses a name, case-insensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.wire().eq_ignore_ascii_case(name))
    }
}

/// Filters of the currency list.
#[derive(Debug, Clone, Default)]
pub struct CurrencyFilter {
    /// Network ID.
    pub network: Option<String>,
    /// Symbol of the currency, or the part of one of its aliases before the network; case-insensitive.
    pub symbol: Option<String>,
    /// Currency id or alias.
    pub id: Option<String>,
    /// Only the first match.
    pub first_only: bool,
}

/// All currencies and contracts that the service knows; read-only after start.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    currencies: Vec<Currency>,
    by_id: HashMap<String, usize>,
    contracts: HashMap<Network, Vec<KnownContract>>,
    enabled: BTreeSet<Network>,
    /// Upper-case symbols of tokens whose rates off-chain feeds report.
    priced: BTreeSet<String>,
}

impl Catalogue {
    /// Builds the catalogue. Lookups by id and alias are case-insensitive.
    pub fn new(
        currencies: Vec<Currency>,
        contracts: HashMap<Network, Vec<KnownContract>>,
        enabled: BTreeSet<Network>,
    ) -> Self {
        let mut by_id = HashMap::new();
        for (index, currency) in currencies.iter().enumerate() {
            for id in std::iter::once(&currency.id).chain(&currency.aliases) {
                by_id.insert(id.to_lowercase(), index);
            }
        }
        Self {
            currencies,
            by_id,
            contracts,
            enabled,
            priced: BTreeSet::new(),
        }
    }

    /// The catalogue with the upper-case symbols of tokens whose rates off-chain feeds report.
    #[must_use]
    pub fn pricing(self, symbols: BTreeSet<String>) -> Self {
        Self {
            priced: symbols,
            ..self
        }
    }

    /// Finds a currency by id or alias, enabled or not.
    pub fn find(&self, id: &str) -> Option<&Currency> {
        self.by_id
            .get(&id.to_lowercase())
            .and_then(|index| self.currencies.get(*index))
    }

    /// Finds a currency by id or alias. Errors: the message for the caller.
    pub fn known(&self, id: &str) -> Result<&Currency, String> {
        self.find(id).ok_or_else(|| {
            "is not a known currency id: GET /v2/currencies lists them, for example USD or USDC-base".to_owned()
        })
    }

    /// Whether the service handles requests on this network.
    pub fn is_enabled(&self, network: Network) -> bool {
        self.enabled.contains(&network)
    }

    /// The enabled networks.
    pub fn enabled(&self) -> impl Iterator<Item = Network> + '_ {
        self.enabled.iter().copied()
    }

    /// The enabled networks in one line, for messages.
    pub fn enabled_in_words(&self) -> String {
        self.enabled
            .iter()
            .map(|network| network.id())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Canonical ids of the currencies that match a search text. If the text is an id or alias, the result is that
    /// currency. Otherwise it is every currency with this symbol, or with an id or alias that consists of the text, a
    /// dash and the network. So `ETH` matches the native coin of every network, even where the coin has another symbol.
    pub fn ids_or_symbols(&self, text: &str) -> Vec<String> {
        if let Some(currency) = self.find(text) {
            return vec![currency.id.clone()];
        }
        let meant = self.currencies.iter().filter(|currency| self.is_called(currency, text));
        meant.map(|currency| currency.id.clone()).collect()
    }

    /// Whether the symbol of a currency is this text, or its id or an alias is the text, a dash and the network.
    fn is_called(&self, currency: &Currency, text: &str) -> bool {
        let is_named = |network: Network| {
            let named = self.find(&format!("{text}-{}", network.id()));
            named.is_some_and(|named| named.id == currency.id)
        };
        currency.symbol.eq_ignore_ascii_case(text) || currency.network.is_some_and(is_named)
    }

    /// Contracts of a network.
    pub fn contracts(&self, network: Network) -> &[KnownContract] {
        self.contracts.get(&network).map_or(&[], Vec::as_slice)
    }

    /// The contract that new calldata of a network uses.
    pub fn default_contract(&self, network: Network, kind: ContractKind) -> Option<Address> {
        let known = self.contracts(network).iter().filter(|contract| contract.kind == kind);
        known
            .clone()
            .find(|contract| contract.is_default)
            .or_else(|| known.clone().next())
            .map(|contract| contract.address)
    }

    /// The address, if it can receive payments on a network.
    ///
    /// Errors: an address of the wrong family (EVM or Tron), or the address of a token or payment contract, where
    /// payments would be lost.
    pub fn receiver(&self, address: Address, network: Network) -> Result<Address, String> {
        let address = address.usable_on(network).map_err(|error| error.to_string())?;
        self.receives_on(&[network], address)
    }

    /// The address, if it can receive payments on every enabled network of its family.
    ///
    /// Errors: the address of a token or payment contract, where payments would be lost.
    pub fn receiver_anywhere(&self, address: Address) -> Result<Address, String> {
        let networks: Vec<Network> = self
            .enabled()
            .filter(|network| network.family() == address.family())
            .collect();
        self.receives_on(&networks, address)
    }

    fn receives_on(&self, networks: &[Network], address: Address) -> Result<Address, String> {
        if networks.iter().any(|network| self.is_contract(*network, &address)) {
            return Err(
                "must be a wallet: this is the address of a token or payment contract, and payments sent there are lost"
                    .to_owned(),
            );
        }
        Ok(address)
    }

    /// Whether an address is a token or a known contract of a network, which must not be a payee.
    pub fn is_contract(&self, network: Network, address: &Address) -> bool {
        self.contracts(network)
            .iter()
            .any(|contract| contract.address == *address)
            || self
                .currencies
                .iter()
                .any(|currency| currency.network == Some(network) && currency.token() == Some(*address))
    }

    /// The token of a network by its contract.
    pub fn by_token(&self, network: Network, token: &Address) -> Option<&Currency> {
        self.currencies
            .iter()
            .find(|currency| currency.network == Some(network) && currency.token() == Some(*token))
    }

    /// The ids of the tokens of a network.
    pub fn token_ids(&self, network: Network) -> Vec<&str> {
        let tokens = self.currencies.iter();
        let tokens = tokens.filter(|currency| currency.network == Some(network) && currency.token().is_some());
        tokens.map(|currency| currency.id.as_str()).collect()
    }

    /// The coin of a network, which pays its network fees.
    pub fn coin_of(&self, network: Network) -> Option<&Currency> {
        let mut coins = self.currencies.iter();
        coins.find(|currency| currency.network == Some(network) && currency.kind == CurrencyKind::Native)
    }

    /// The tokens of a network that have one of these symbols, with their contracts, for messages.
    pub fn tokens_in_words(&self, network: Network, symbols: &[&str]) -> String {
        let tokens = self.currencies.iter().filter(|currency| {
            currency.network == Some(network)
                && currency.token().is_some()
                && symbols.contains(&currency.symbol.as_str())
        });
        let words: Vec<String> = tokens
            .map(|currency| format!("{} {}", currency.symbol, currency.address))
            .collect();
        words.join(", ")
    }

    /// Currencies of the enabled networks and the fiat currencies, filtered. A coin that only pays network fees is not
    /// listed.
    ///
    /// Source: interface §4.4; rules P.3.1.
    pub fn list(&self, filter: &CurrencyFilter) -> Vec<&Currency> {
        let by_id = filter
            .id
            .as_deref()
            .map(|id| self.find(id).map(|currency| currency.id.as_str()));
        let network = filter.network.as_deref().map(network_filter);
        let found = self.visible().filter(|currency| {
            by_id.is_none_or(|id| id == Some(currency.id.as_str()))
                && network.is_none_or(|wanted| currency.network.map_or("fiat", Network::id) == wanted)
                && filter
                    .symbol
                    .as_deref()
                    .is_none_or(|symbol| self.is_called(currency, symbol))
        });
        if filter.first_only {
            found.take(1).collect()
        } else {
            found.collect()
        }
    }

    /// Payment currencies that an invoice currency can be paid in, on the given networks or on all enabled ones.
    ///
    /// A route exists when the conversion contracts of the network have a path of price feeds, or when an off-chain
    /// feed reports a rate. Source: interface §4.4; rules P.3.1.
    pub fn routes(&self, invoice: &Currency, networks: Option<&[String]>) -> Vec<&Currency> {
        let wanted: Option<Vec<&str>> = networks.map(|networks| networks.iter().map(|id| network_filter(id)).collect());
        self.visible()
            .filter(|currency| {
                let on_network = currency
                    .network
                    .is_some_and(|network| wanted.as_ref().is_none_or(|wanted| wanted.contains(&network.id())));
                let is_routed = self.conversion_path(invoice, currency).is_some();
                on_network && currency.id != invoice.id && (is_routed || self.quoted_pair(invoice, currency).is_some())
            })
            .collect()
    }

    /// The on-chain path from an invoice currency to a payment currency.
    pub fn conversion_path<'a>(&self, invoice: &Currency, payment: &'a Currency) -> Option<&'a [String]> {
        if invoice.kind != CurrencyKind::Fiat {
            return None;
        }
        payment.conversion_paths.get(&invoice.id).map(Vec::as_slice)
    }

    /// The token and fiat currency of the rate that quotes need. `None` when on-chain price feeds convert between them,
    /// or when no off-chain feed reports a rate. Also `None` for native coins and for Tron. Source: interface §1.
    pub fn quoted_pair(&self, invoice: &Currency, payment: &Currency) -> Option<Pair> {
        let is_evm = payment.network.is_some_and(|network| network.family() == Family::Evm);
        let is_quoted = invoice.kind == CurrencyKind::Fiat
            && is_evm
            && payment.token().is_some()
            && self.priced.contains(&payment.symbol.to_uppercase())
            && self.conversion_path(invoice, payment).is_none();
        is_quoted.then(|| Pair::new(&payment.symbol.to_uppercase(), &invoice.id))
    }

    /// The coin of a network and US dollars, if network fees are shown in dollars: only on Tron, and only if an
    /// off-chain feed reports a rate.
    pub fn coin_pair(&self, network: Network) -> Option<Pair> {
        if network.family() != Family::Tron {
            return None;
        }
        let is_coin = |currency: &&Currency| currency.network == Some(network) && currency.kind == CurrencyKind::Native;
        let symbol = self.currencies.iter().find(is_coin)?.symbol.to_uppercase();
        self.priced.contains(&symbol).then(|| Pair::new(&symbol, "USD"))
    }

    /// All pairs of [`Self::quoted_pair`] and [`Self::coin_pair`] that the enabled networks need.
    pub fn quoted_pairs(&self) -> BTreeSet<Pair> {
        let fiat = self
            .currencies
            .iter()
            .filter(|currency| currency.kind == CurrencyKind::Fiat);
        let paid = self.visible().filter(|currency| currency.network.is_some());
        paid.flat_map(|payment| {
            let invoices = fiat.clone();
            invoices.filter_map(move |invoice| self.quoted_pair(invoice, payment))
        })
        .chain(self.enabled().filter_map(|network| self.coin_pair(network)))
        .collect()
    }

    /// Ids of the currencies whose payments use the rate of a pair.
    pub fn paid_by(&self, pair: &Pair) -> Vec<String> {
        let paid = self.currencies.iter().filter(|payment| {
            let is_of = |symbol: &str| symbol.eq_ignore_ascii_case(&pair.symbol);
            payment.network.is_some() && is_of(&payment.symbol)
        });
        paid.map(|payment| payment.id.clone()).collect()
    }

    /// Symbol of the currency with this hash in conversion contracts.
    pub fn symbol_by_hash(&self, hash: &str) -> Option<&str> {
        let known = self
            .currencies
            .iter()
            .find(|currency| currency.hash.eq_ignore_ascii_case(hash));
        known.map(|currency| currency.symbol.as_str())
    }

    /// Whether a currency has this symbol; case-insensitive.
    pub fn knows_symbol(&self, symbol: &str) -> bool {
        self.currencies
            .iter()
            .any(|currency| currency.symbol.eq_ignore_ascii_case(symbol))
    }

    fn visible(&self) -> impl Iterator<Item = &Currency> + Clone {
        let used = self.currencies.iter().filter(|currency| !currency.only_pays_fees());
        used.filter(|currency| currency.network.is_none_or(|network| self.is_enabled(network)))
    }
}

/// `polygon` is an alias of `matic`. Source: rules P.3.1.
fn network_filter(id: &str) -> &str {
    if id.eq_ignore_ascii_case("polygon") {
        "matic"
    } else {
        id
    }
}
