//! Networks and their nodes.

use crate::domain::network::{Family, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// node's `finalized` tag decides.
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
    /// URL of the Tron HTTP API; not used in this version, which serves EVM networks only.
    pub api_url: Option<String>,
    /// Key of the Tron HTTP API; not used in this version.
    pub api_key: Option<String>,
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
            api_url: None,
            api_key: None,
        }
    }
}

impl ChainSettings {
    /// Whether the settings are sufficient to serve the network.
    pub fn is_enabled(&self, network: Network) -> bool {
        match network.family() {
            Family::Evm => !self.rpc_urls.is_empty(),
            Family::Tron => self.api_url.is_some(),
        }
    }

    /// Maximum gas price that the relayer pays, in the smallest unit of the coin.
    pub fn relayer_max_fee(&self, network: Network) -> u128 {
        const GWEI: u128 = 1_000_000_000;
        // Two to four times the gas price of a busy day, so that only false data or extremes are rejected.
        let usual = if network == Network::Matic { 2_000 } else { 200 };
        u128::from(self.relayer_max_fee_gwei.unwrap_or(usual)) * GWEI
    }

    /// The name of a setting that is set but does not apply to this kind of network.
    pub(super) fn misplaced(&self, network: Network) -> Option<&'static str> {
        let of_nodes = [
            ("rpc_urls", !self.rpc_urls.is_empty()),
            ("wallet_rpc_url", self.wallet_rpc_url.is_some()),
            ("agreement", self.agreement.is_some()),
            ("agreement_fallback_s", self.agreement_fallback_s.is_some()),
            ("relayer_max_fee_gwei", self.relayer_max_fee_gwei.is_some()),
        ];
        let of_interface = [("api_url", self.api_url.is_some()), ("api_key", self.api_key.is_some())];
        let others: &[(&str, bool)] = match network.family() {
            Family::Evm => &of_interface,
            Family::Tron => &of_nodes,
        };
        others.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
    }
}
