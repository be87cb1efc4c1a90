//! Networks and their nodes.

use crate::domain::network::{Family, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One network. A network is enabled by its node addresses.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChainSettings {
    /// JSON-RPC addresses of an EVM network, tried in order; two or more let the service check one against another.
    pub rpc_urls: Vec<String>,
    /// JSON-RPC address that the payment page names to wallets which do not know the network, so without a key; absent,
    /// their owners add it by themselves.
    pub wallet_rpc_url: Option<String>,
    /// Blocks after which a payment counts as final, the block itself included; absent, the node's `finalized` tag.
    #[schemars(range(min = 1, max = 100_000))]
    pub confirmations: Option<u64>,
    /// Distinct nodes that have to agree on a final block before its payments count; absent, two where two or more
    /// addresses are set. A node that is missing delays payments and never lowers it.
    #[schemars(range(min = 1, max = 16))]
    pub agreement: Option<usize>,
    /// Seconds without agreement after which one node is believed alone; absent, never.
    #[schemars(range(min = 10, max = 604_800))]
    pub agreement_fallback_s: Option<u64>,
    /// First block that is read, when it is older than the final block of the first start; it is filled in beside new
    /// blocks.
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub start_block: Option<u64>,
    /// Shortest pause between two looks at the chain while a payment is awaited, in milliseconds; a slower chain is
    /// looked at when its next block is due, and one on which nothing is awaited after thirty
    /// pauses, or a minute where that is shorter.
    #[schemars(range(min = 20, max = 600_000))]
    pub poll_ms: u64,
    /// Time that one call to a node may take, in milliseconds.
    #[schemars(range(min = 50, max = 60_000))]
    pub call_timeout_ms: u64,
    /// Payment contracts by name, instead of the published ones.
    pub contracts: BTreeMap<String, String>,
    /// Token contracts by symbol, instead of the published ones.
    pub tokens: BTreeMap<String, String>,
    /// The most that the relayer pays for a unit of gas, in gwei; absent, 2000 on `matic` and 200 elsewhere. While gas
    /// costs more, recurring payments wait.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub relayer_max_fee_gwei: Option<u32>,
    /// Address of the HTTP interface of Tron; not in this version, which serves EVM networks only.
    pub api_url: Option<String>,
    /// Key of the HTTP interface of Tron; not in this version.
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
    /// Whether the settings are enough to serve the network.
    pub fn is_enabled(&self, network: Network) -> bool {
        match network.family() {
            Family::Evm => !self.rpc_urls.is_empty(),
            Family::Tron => self.api_url.is_some(),
        }
    }

    /// The most that the relayer pays for a unit of gas, in the smallest unit of the coin.
    pub fn relayer_max_fee(&self, network: Network) -> u128 {
        const GWEI: u128 = 1_000_000_000;
        // Two to four times what gas costs on a busy day, so that only a lie or an extreme is refused.
        let usual = if network == Network::Matic { 2_000 } else { 200 };
        u128::from(self.relayer_max_fee_gwei.unwrap_or(usual)) * GWEI
    }

    /// The name of a setting that is there although a network of this kind has none of it.
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
