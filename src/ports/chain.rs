//! Chains: what every one of them can do, and what only some can.
//!
//! A network that lacks a part is missing in the map of that part, so no adapter has a method that can only fail.

use crate::domain::{
    address::Address,
    network::Network,
    paying::Standing,
    payment::{BlockRef, Finality, Hint, SettledBlock},
    session::WalletAnswer,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use async_trait::async_trait;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Why the chain could not be asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChainError {
    /// No node answered in time.
    #[error("no node of {network} answered: {reason}")]
    Unavailable {
        /// Network.
        network: Network,
        /// Last failure, without addresses of nodes.
        reason: String,
    },
    /// Enough nodes agree on the header of a block, and none delivers its content.
    #[error("no node of {network} delivered the content of a block: {reason}")]
    Withheld {
        /// Network.
        network: Network,
        /// Last failures, without addresses of nodes.
        reason: String,
    },
    /// Too many such questions are in flight.
    #[error("too many questions are put to {network} at the same time")]
    Busy {
        /// Network.
        network: Network,
    },
    /// The service asks no node of it about this.
    #[error("{network} is not enabled")]
    NotEnabled {
        /// Network.
        network: Network,
    },
    /// Nodes answered, but with something that cannot be true.
    #[error("a node of {network} answered with something that cannot be true: {reason}")]
    Malformed {
        /// Network.
        network: Network,
        /// What was wrong.
        reason: String,
    },
    /// The contract call was refused by the chain.
    #[error("the chain refused the call: {0}")]
    Reverted(String),
    /// Nodes contradict each other, and too few of them agree.
    #[error("nodes of {network} disagree: {reason}")]
    Disagreement {
        /// Network.
        network: Network,
        /// About what.
        reason: String,
    },
}

/// Where a chain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// Newest block, of the node that is furthest where several were asked.
    pub head: BlockRef,
    /// Newest block that enough distinct nodes call final.
    pub finalized: BlockRef,
    /// How it was found.
    pub finality: Finality,
    /// Whether the heads of as many distinct nodes as have to agree move with the chain.
    pub is_current: bool,
}

/// Events of a range of final blocks, as the nodes tell them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Where to look, with the positions in the settings of the nodes that said so.
    pub hints: Vec<(Hint, Vec<usize>)>,
    /// Blocks whose events a node does not list because they are too many: whatever is in them is not among `hints`.
    pub unlisted: BTreeSet<u64>,
    /// Last height that was read in full by every node that was asked.
    pub read_to: u64,
    /// The block there, when as many nodes as have to agree showed it beside the events.
    pub reached: Option<BlockRef>,
}

/// A new block near the head, as one node tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlock {
    /// The block.
    pub block: BlockRef,
    /// Events of watched contracts in it.
    pub hints: Vec<Hint>,
}

/// Reads a chain. What is credited comes from [`Chain::settled`] alone; everything else tells where to look.
///
/// Source: ADR-0012.
#[async_trait]
pub trait Chain: Send + Sync + 'static {
    /// Network.
    fn network(&self) -> Network;
    /// First block that matters, when the settings name one older than the first start.
    fn start_block(&self) -> Option<u64>;
    /// Where the chain stands. `known` is how blocks counted as final before: a network that ever served the tag
    /// never falls back to a depth.
    async fn tip(&self, known: Option<Finality>) -> Result<Tip, ChainError>;
    /// Forgets the newest block that was called final, which else never falls: the operator found out that nodes lied.
    fn forget_final(&self);
    /// Block at a height by the word of one node; `None` when its chain is shorter.
    async fn block(&self, number: u64) -> Result<Option<BlockRef>, ChainError>;
    /// Final block at a height on which enough distinct nodes agree.
    async fn agreed(&self, number: u64) -> Result<BlockRef, ChainError>;
    /// Blocks near the head by the word of one node; fewer than asked for when its chain is shorter.
    async fn new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError>;
    /// Events of final blocks from `from` on, at most to `to`, asked of as many distinct nodes as have to agree.
    ///
    /// `proves_absence`: a single node has to prove by the headers of the range that it left nothing out.
    async fn told(&self, from: u64, to: u64, proves_absence: bool) -> Result<Told, ChainError>;
    /// A final block, agreed and proven. With an agreed header, `Withheld` when no node delivers its content, and
    /// `Malformed` when none proves it, or none delivers it for the second time in a row.
    async fn settled(&self, number: u64) -> Result<SettledBlock, ChainError>;
    /// What [`Chain::settled`] returns for each of several heights, in their order.
    async fn settled_all(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)>;
    /// A block near the head, proven against its own header by one node.
    async fn noted(&self, block: &BlockRef) -> Result<SettledBlock, ChainError>;
}

/// Units of a currency that are worth as much as units of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvertedUnits {
    /// Units of the last currency of the path.
    pub units: U256,
    /// When the oldest rate on the path was set, in seconds since 1970.
    pub oldest_rate_at_s: U256,
}

/// Answers what a payer has and allows.
#[async_trait]
pub trait StandingLookup: Send + Sync + 'static {
    /// Balances, allowance and prices of a payer, by the word of one node: they inform, and become no amount. `token` is
    /// `None` for the native coin.
    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError>;
    /// Units of a token that a spender may take from its owner, on which enough distinct nodes agree.
    async fn allowance(&self, owner: Address, token: Address, spender: Address) -> Result<U256, ChainError>;
}

/// Converts by the price feeds of a network.
#[async_trait]
pub trait PriceFeeds: Send + Sync + 'static {
    /// Converts units of the first currency of a path into the last one by the on-chain feeds. Of the answers that enough
    /// distinct nodes give and that are close to each other, the smallest.
    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError>;
}

/// Asks batch contracts.
#[async_trait]
pub trait BatchFees: Send + Sync + 'static {
    /// What a batch contract takes for itself, in basis points of what it pays, on which enough distinct nodes agree.
    async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError>;
}

/// Asks contract wallets, which have no key that a signature could be checked with.
#[async_trait]
pub trait WalletLookup: Send + Sync + 'static {
    /// What a contract wallet says about a signature of a hash; one that is not deployed yet may bring its creation
    /// along. Only what every node that could be asked agrees on is answered.
    async fn check_signature(
        &self,
        wallet: EvmAddress,
        hash: B256,
        signature: &[u8],
    ) -> Result<WalletAnswer, ChainError>;
    /// Whether an account has delegated itself to the code of a wallet (EIP-7702). Yes is only answered where every node
    /// that could be asked agrees.
    async fn has_delegated(&self, wallet: Address, account: Address) -> Result<bool, ChainError>;
}

/// What the enabled networks offer.
#[derive(Clone, Default)]
pub struct Chains {
    /// Every enabled network.
    pub followed: BTreeMap<Network, Arc<dyn Chain>>,
    /// Networks that can be asked about a payer.
    pub standings: BTreeMap<Network, Arc<dyn StandingLookup>>,
    /// Networks that have price feeds.
    pub price_feeds: BTreeMap<Network, Arc<dyn PriceFeeds>>,
    /// Networks that have batch contracts.
    pub batch_fees: BTreeMap<Network, Arc<dyn BatchFees>>,
    /// Networks that have contract wallets.
    pub wallets: BTreeMap<Network, Arc<dyn WalletLookup>>,
}

/// What one network offers.
pub struct ChainParts {
    /// Its blocks.
    pub followed: Arc<dyn Chain>,
    /// What payers have.
    pub standings: Arc<dyn StandingLookup>,
    /// Its price feeds.
    pub price_feeds: Option<Arc<dyn PriceFeeds>>,
    /// Its batch contracts.
    pub batch_fees: Option<Arc<dyn BatchFees>>,
    /// Its contract wallets.
    pub wallets: Option<Arc<dyn WalletLookup>>,
}

impl Chains {
    /// Adds a network.
    pub fn add(&mut self, network: Network, parts: ChainParts) {
        self.followed.insert(network, parts.followed);
        self.standings.insert(network, parts.standings);
        self.price_feeds.extend(parts.price_feeds.map(|feeds| (network, feeds)));
        self.batch_fees.extend(parts.batch_fees.map(|fees| (network, fees)));
        self.wallets.extend(parts.wallets.map(|wallets| (network, wallets)));
    }
}
