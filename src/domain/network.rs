//! The eight networks and what each of them supports.

use std::fmt;

/// Format of addresses, transactions and proofs on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Hexadecimal addresses, JSON-RPC.
    Evm,
    /// Base58 addresses, Tron HTTP interface.
    Tron,
}

impl Family {
    /// The address family that a text looks like, whether or not the text is a valid address.
    pub fn of_address(text: &str) -> Self {
        if text.starts_with('T') { Self::Tron } else { Self::Evm }
    }

    /// The text of an address as it is compared: in lower case for EVM, where the case is only a checksum, and
    /// unchanged for Tron, where the case matters.
    pub fn in_one_case(text: &str) -> String {
        match Self::of_address(text) {
            Self::Evm => text.to_ascii_lowercase(),
            Self::Tron => text.to_owned(),
        }
    }
}

/// A supported network.
///
/// Source: interface §1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Network {
    /// Ethereum.
    Mainnet,
    /// Arbitrum One.
    ArbitrumOne,
    /// Optimism.
    Optimism,
    /// Base.
    Base,
    /// Polygon.
    Matic,
    /// BNB Smart Chain.
    Bsc,
    /// Tron.
    Tron,
    /// Sepolia, the test network.
    Sepolia,
}

impl Network {
    /// Every network, in the order of the specification.
    pub const ALL: [Self; 8] = [
        Self::Mainnet,
        Self::ArbitrumOne,
        Self::Optimism,
        Self::Base,
        Self::Matic,
        Self::Bsc,
        Self::Tron,
        Self::Sepolia,
    ];

    /// The network ID in the API.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Mainnet => "mainnet",
            Self::ArbitrumOne => "arbitrum-one",
            Self::Optimism => "optimism",
            Self::Base => "base",
            Self::Matic => "matic",
            Self::Bsc => "bsc",
            Self::Tron => "tron",
            Self::Sepolia => "sepolia",
        }
    }

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mainnet => "Ethereum",
            Self::ArbitrumOne => "Arbitrum One",
            Self::Optimism => "Optimism",
            Self::Base => "Base",
            Self::Matic => "Polygon",
            Self::Bsc => "BNB Smart Chain",
            Self::Tron => "Tron",
            Self::Sepolia => "Sepolia",
        }
    }

    /// Name of the network in the API of payment pages, which lists chains to pay from. `None` for Tron, which is not
    /// listed.
    ///
    /// Source: decisions D3.
    pub const fn chain_name(self) -> Option<&'static str> {
        match self {
            Self::Mainnet => Some("ETHEREUM"),
            Self::ArbitrumOne => Some("ARBITRUM"),
            Self::Optimism => Some("OPTIMISM"),
            Self::Base => Some("BASE"),
            Self::Matic => Some("POLYGON"),
            Self::Bsc => Some("BNB"),
            Self::Sepolia => Some("SEPOLIA"),
            Self::Tron => None,
        }
    }

    /// Name of the network in `paymentOptions`.
    pub const fn option_name(self) -> &'static str {
        match self.chain_name() {
            Some(name) => name,
            None => "TRON",
        }
    }

    /// The chain ID.
    pub const fn chain_id(self) -> u64 {
        match self {
            Self::Mainnet => 1,
            Self::ArbitrumOne => 42_161,
            Self::Optimism => 10,
            Self::Base => 8_453,
            Self::Matic => 137,
            Self::Bsc => 56,
            Self::Tron => 728_126_428,
            Self::Sepolia => 11_155_111,
        }
    }

    /// Family of the network.
    pub const fn family(self) -> Family {
        match self {
            Self::Tron => Family::Tron,
            _ => Family::Evm,
        }
    }

    /// Number of fraction digits of the native coin of the network.
    pub const fn coin_decimals(self) -> u8 {
        match self.family() {
            Family::Evm => 18,
            Family::Tron => 6,
        }
    }

    /// Whether the coins and tokens of the network have no value (a test network).
    pub const fn is_test(self) -> bool {
        matches!(self, Self::Sepolia)
    }

    /// Number of blocks after which a payment is treated as final when the node serves no `finalized` tag.
    ///
    /// Source: rules B.1 (distances of two public indexers, the larger one).
    pub const fn finality_depth(self) -> u64 {
        match self {
            Self::Mainnet | Self::Sepolia => 65,
            Self::ArbitrumOne => 240,
            Self::Matic => 200,
            Self::Optimism | Self::Base | Self::Bsc => 30,
            Self::Tron => 20,
        }
    }

    /// Usual time between two blocks in milliseconds; the service uses it to decide whether a head is too old.
    ///
    /// Source: rules G.6.
    pub const fn block_time_ms(self) -> u64 {
        match self {
            Self::Mainnet | Self::Sepolia => 12_000,
            Self::ArbitrumOne => 250,
            Self::Optimism | Self::Base | Self::Matic => 2_000,
            Self::Bsc => 450,
            Self::Tron => 3_000,
        }
    }

    /// How long the newest final block may stay the same while the chain grows, in seconds of block time. Where finality
    /// follows Ethereum, blocks become final by epochs of 384 s, and one epoch may fail.
    pub const fn finality_pause_max_s(self) -> i64 {
        match self {
            Self::Mainnet | Self::Sepolia | Self::ArbitrumOne | Self::Optimism | Self::Base => 900,
            Self::Matic | Self::Bsc | Self::Tron => 300,
        }
    }

    /// Address of the public explorer page of a transaction.
    ///
    /// Source: interface §6.3 (`explorer` links to a public transaction explorer).
    pub fn explorer_url(self, transaction_hash: &str) -> String {
        let root = match self {
            Self::Mainnet => "https://etherscan.io/tx/",
            Self::ArbitrumOne => "https://arbiscan.io/tx/",
            Self::Optimism => "https://optimistic.etherscan.io/tx/",
            Self::Base => "https://basescan.org/tx/",
            Self::Matic => "https://polygonscan.com/tx/",
            Self::Bsc => "https://bscscan.com/tx/",
            Self::Tron => "https://tronscan.org/#/transaction/",
            Self::Sepolia => "https://sepolia.etherscan.io/tx/",
        };
        format!("{root}{transaction_hash}")
    }

    /// The setting that names the nodes of the network, for messages to the operator.
    pub fn node_setting(self) -> String {
        match self.family() {
            Family::Evm => format!("chains.{self}.rpc_urls"),
            Family::Tron => format!("chains.{self}.api_urls"),
        }
    }

    /// Reads a chain ID.
    pub fn from_chain_id(chain_id: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.chain_id() == chain_id)
    }

    /// Reads a network ID.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.id() == id)
    }

    /// All network IDs in one line, for messages that list the valid values.
    pub fn ids_in_words() -> String {
        Self::ALL.map(Self::id).join(", ")
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.id())
    }
}
