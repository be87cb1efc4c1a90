//! Networks and their nodes.

use super::addresses::is_loopback;
use crate::domain::{
    address::Address,
    network::{Family, Network},
};
use anyhow::{anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use url::Url;

/// One network. Setting its node URLs enables it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChainSettings {
    /// JSON-RPC URLs of an EVM network, tried in order. With two or more, the service checks the nodes against each
    /// other.
    pub rpc_urls: Vec<String>,
    /// JSON-RPC URL that the payment page gives to wallets that do not know the network. It is public, so it must not
    /// contain a key. If absent, wallet owners have to add the network themselves.
    pub wallet_rpc_url: Option<String>,
    /// Number of blocks after which a payment is final; the block of the payment is the first of them. If absent, the
    /// node's `finalized` tag decides. `tron` does not have this setting: there, a payment is final once its block is
    /// solid.
    #[schemars(range(min = 1, max = 100_000))]
    pub confirmations: Option<u64>,
    /// Number of distinct nodes that must agree on a final block before its payments count. Default: two if two or more
    /// URLs are set. An unavailable node delays payments but never lowers this number.
    #[schemars(range(min = 1, max = 16))]
    pub agreement: Option<usize>,
    /// Seconds without agreement after which the service trusts a single node. If absent, it never trusts a single
    /// node.
    #[schemars(range(min = 10, max = 604_800))]
    pub agreement_fallback_s: Option<u64>,
    /// First block to read, if it is older than the final block at the first start. Old blocks are read in parallel
    /// with new blocks.
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub start_block: Option<u64>,
    /// Minimum interval between two polls of the chain while a payment is expected, in milliseconds. A slower chain is
    /// polled when its next block is due. A chain without expected payments is polled every thirty intervals, but at
    /// least once a minute.
    #[schemars(range(min = 20, max = 600_000))]
    pub poll_ms: u64,
    /// Timeout of one call to a node, in milliseconds.
    #[schemars(range(min = 50, max = 60_000))]
    pub call_timeout_ms: u64,
    /// Payment contracts by name. If any is set, they replace all published payment contracts of the network.
    pub contracts: BTreeMap<String, String>,
    /// Token contracts by symbol. Each replaces the published contract of that token.
    pub tokens: BTreeMap<String, String>,
    /// Maximum gas price that the relayer pays, in gwei. Default: 2000 on `matic`, 200 elsewhere. While gas costs more,
    /// recurring payments wait.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub relayer_max_fee_gwei: Option<u32>,
    /// URLs of the HTTP API of Tron nodes, tried in order; only for `tron`, which has no `rpc_urls`. With two or more,
    /// the service checks the nodes against each other. The service appends paths such as `/wallet/getnowblock`.
    pub api_urls: Vec<String>,
    /// JSON-RPC URLs of the Tron nodes: the first entry belongs to the first entry of `api_urls`, and so on. For a node
    /// without an entry it is `/jsonrpc` under its API URL.
    pub jsonrpc_urls: Vec<String>,
    /// Key of the Tron nodes. The service sends it to every API URL in the header `TRON-PRO-API-KEY`, and to a JSON-RPC
    /// URL only if it is on the same host and port. Nodes on other machines therefore need https URLs.
    pub api_key: Option<String>,
    /// Tron wallet for which the service estimates network fees while a caller names no wallet. If absent, such a
    /// response has no estimates.
    pub fallback_address: Option<String>,
    /// Maximum fee for the energy of an approval on Tron, in TRX. The fee for bandwidth, usually less than 1 TRX, comes on
    /// top. Calldata whose estimated fee for energy is higher is refused. Default: 100.
    #[schemars(range(min = 1, max = 15_000))]
    pub approval_fee_limit_trx: Option<u32>,
    /// Maximum fee for the energy of a payment on Tron, in TRX. The fee for bandwidth, usually less than 1 TRX, comes on
    /// top. Calldata whose estimated fee for energy is higher is refused. Default: 300.
    #[schemars(range(min = 1, max = 15_000))]
    pub payment_fee_limit_trx: Option<u32>,
}

impl Default for ChainSettings {
    fn default() -> Self {
        Self {
            rpc_urls: Vec::new(),
            wallet_rpc_url: None,
            confirmations: None,
            agreement: None,
            agreement_fallback_s: None,
            start_block: None,
            poll_ms: 2_000,
            call_timeout_ms: 2_000,
            contracts: BTreeMap::new(),
            tokens: BTreeMap::new(),
            relayer_max_fee_gwei: None,
            api_urls: Vec::new(),
            jsonrpc_urls: Vec::new(),
            api_key: None,
            fallback_address: None,
            approval_fee_limit_trx: None,
            payment_fee_limit_trx: None,
        }
    }
}

/// Smallest units of the coin of Tron in one TRX.
const SUN: u64 = 1_000_000;

/// URLs of one Tron node. They may contain a key, so the type has no debug form.
#[derive(Clone, PartialEq, Eq)]
pub struct TronNodeUrls {
    /// HTTP API, without a slash at the end of its path.
    pub api: String,
    /// JSON-RPC interface.
    pub jsonrpc: String,
}

impl ChainSettings {
    /// Whether the settings are sufficient to serve the network.
    pub fn is_enabled(&self, network: Network) -> bool {
        !self.node_urls(network).is_empty()
    }

    /// The URLs of the nodes of the network, in the setting [`Network::node_setting`].
    pub fn node_urls(&self, network: Network) -> &[String] {
        match network.family() {
            Family::Evm => &self.rpc_urls,
            Family::Tron => &self.api_urls,
        }
    }

    /// The Tron nodes, best first. Call it on validated settings.
    pub fn tron_nodes(&self) -> Vec<TronNodeUrls> {
        let nodes = self.api_urls.iter().enumerate();
        let nodes = nodes.map(|(index, api)| {
            let api = api.trim_end_matches('/').to_owned();
            let jsonrpc = self.jsonrpc_urls.get(index).cloned();
            TronNodeUrls {
                jsonrpc: jsonrpc.unwrap_or_else(|| format!("{api}/jsonrpc")),
                api,
            }
        });
        nodes.collect()
    }

    /// The Tron wallet for estimates without a wallet. Errors: it is no Tron address.
    pub fn fallback_wallet(&self) -> anyhow::Result<Option<Address>> {
        let wallet = self.fallback_address.as_deref();
        let wallet = wallet.map(|text| Address::parse_on(text, Network::Tron)).transpose();
        wallet.map_err(|error| anyhow!("chains.tron.fallback_address: {error}"))
    }

    /// Maximum fee for the energy of an approval on Tron, in sun.
    pub fn approval_fee_limit_sun(&self) -> u64 {
        SUN.saturating_mul(self.approval_fee_limit_trx.unwrap_or(100).into())
    }

    /// Maximum fee for the energy of a payment on Tron, in sun.
    pub fn payment_fee_limit_sun(&self) -> u64 {
        SUN.saturating_mul(self.payment_fee_limit_trx.unwrap_or(300).into())
    }

    /// Maximum gas price that the relayer pays, in the smallest unit of the coin.
    pub fn relayer_max_fee(&self, network: Network) -> u128 {
        const GWEI: u128 = 1_000_000_000;
        // Two to four times the gas price of a busy day, so that only false data or extremes are rejected.
        let usual = if network == Network::Matic { 2_000 } else { 200 };
        u128::from(self.relayer_max_fee_gwei.unwrap_or(usual)) * GWEI
    }

    /// Checks what types cannot express. Errors: the first wrong setting with what is wrong and what is expected. No
    /// message repeats a URL or a key.
    pub(super) fn validate(&self, network: Network) -> anyhow::Result<()> {
        if !self.rpc_urls.iter().all(|url| is_http(url)) {
            bail!("chains.{network}.rpc_urls: every entry must be an http or https URL");
        }
        if !self.wallet_rpc_url.iter().all(|url| is_http(url)) {
            bail!("chains.{network}.wallet_rpc_url: must be an http or https URL");
        }
        if let Some((name, advice)) = self.misplaced(network) {
            bail!("chains.{network}.{name}: {network} does not have this setting; {advice}");
        }
        let nodes = self.node_urls(network).len();
        if self.agreement.is_some_and(|agreement| agreement > nodes) {
            let setting = network.node_setting();
            bail!("chains.{network}.agreement: must be at most the number of URLs in {setting}, {nodes}");
        }
        match network.family() {
            Family::Evm => Ok(()),
            Family::Tron => self.validate_tron(),
        }
    }

    fn validate_tron(&self) -> anyhow::Result<()> {
        // The service appends a path to each URL.
        let is_base = |text: &String| {
            let has_end = |url: Url| url.query().is_some() || url.fragment().is_some();
            is_http(text) && !Url::parse(text).is_ok_and(has_end)
        };
        if !self.api_urls.iter().all(is_base) {
            bail!("chains.tron.api_urls: every entry must be an http or https URL without a query and a fragment");
        }
        if !self.jsonrpc_urls.iter().all(|url| is_http(url)) {
            bail!("chains.tron.jsonrpc_urls: every entry must be an http or https URL");
        }
        if self.jsonrpc_urls.len() > self.api_urls.len() {
            bail!(
                "chains.tron.jsonrpc_urls: must have at most as many entries as chains.tron.api_urls, {}: each belongs \
                 to the API URL in the same place",
                self.api_urls.len()
            );
        }
        if let Some(key) = &self.api_key {
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                bail!(
                    "chains.tron.api_key: must be the key of the provider: letters, digits and signs, without spaces"
                );
            }
            if !self
                .api_urls
                .iter()
                .chain(&self.jsonrpc_urls)
                .all(|url| is_protected(url))
            {
                bail!(
                    "chains.tron.api_key: must be absent unless every entry of chains.tron.api_urls and \
                     chains.tron.jsonrpc_urls is an https URL or points to this machine: others could read the key"
                );
            }
        }
        self.fallback_wallet().map(drop)
    }

    /// A setting that is set but does not apply to this kind of network, with what to do instead.
    fn misplaced(&self, network: Network) -> Option<(&'static str, &'static str)> {
        const REMOVE: &str = "remove it";
        let of_evm = [
            (
                "rpc_urls",
                !self.rpc_urls.is_empty(),
                "set chains.tron.api_urls, and chains.tron.jsonrpc_urls for JSON-RPC at another address",
            ),
            ("wallet_rpc_url", self.wallet_rpc_url.is_some(), REMOVE),
            (
                "confirmations",
                self.confirmations.is_some(),
                "remove it: a payment on Tron is final once its block is solid",
            ),
            ("relayer_max_fee_gwei", self.relayer_max_fee_gwei.is_some(), REMOVE),
        ];
        let of_tron = [
            ("api_urls", !self.api_urls.is_empty(), "set rpc_urls instead"),
            ("jsonrpc_urls", !self.jsonrpc_urls.is_empty(), "set rpc_urls instead"),
            ("api_key", self.api_key.is_some(), REMOVE),
            ("fallback_address", self.fallback_address.is_some(), REMOVE),
            ("approval_fee_limit_trx", self.approval_fee_limit_trx.is_some(), REMOVE),
            ("payment_fee_limit_trx", self.payment_fee_limit_trx.is_some(), REMOVE),
        ];
        let others: &[(&'static str, bool, &'static str)] = match network.family() {
            Family::Evm => &of_tron,
            Family::Tron => &of_evm,
        };
        let set = others.iter().find(|(_, is_set, _)| *is_set);
        set.map(|(name, _, advice)| (*name, *advice))
    }
}

fn is_http(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// Whether no other machine than the host can read what is sent to a URL.
fn is_protected(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.scheme() == "https" || is_loopback(&url))
}
