//! Capabilities of chains: common ones and optional ones.
//!
//! Each optional capability has a map by network. A network without the capability is missing in its map, so no adapter
//! has a method that always fails.

use crate::domain::{
    address::Address,
    network::Network,
    paying::{
        PayerBalance, PaymentTransaction,
        prepared::{PayerResources, ReferencePoint, StepSimulation},
    },
    payment::{BlockRef, Finality, Hint, SettledBlock},
    proven_tx::ProvenTx,
    secure_payment::broadcast::{BroadcastOutcome, SignedTransaction},
    session::WalletAnswer,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Errors of chain lookups.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChainError {
    /// Too few nodes returned a usable response in time.
    #[error("the nodes of {network} are unavailable: {reason}")]
    Unavailable {
        /// Network.
        network: Network,
        /// Last failure, without node URLs.
        reason: String,
    },
    /// Enough nodes agree on a block header, but none of them returns the content of the block.
    #[error("no node of {network} returned the content of a block: {reason}")]
    Withheld {
        /// Network.
        network: Network,
        /// Last failures, without node URLs.
        reason: String,
    },
    /// Too many lookups of this kind are in progress.
    #[error("too many lookups on {network} are in progress")]
    Busy {
        /// Network.
        network: Network,
    },
    /// The service has no node for this network or capability.
    #[error("{network} is not enabled")]
    NotEnabled {
        /// Network.
        network: Network,
    },
    /// A node returned invalid data.
    #[error("a node of {network} returned invalid data: {reason}")]
    Malformed {
        /// Network.
        network: Network,
        /// What was invalid.
        reason: String,
    },
    /// The contract call reverted.
    #[error("the chain rejected the call: {0}")]
    Reverted(String),
    /// Nodes contradict each other, and too few of them agree.
    #[error("nodes of {network} disagree: {reason}")]
    Disagreement {
        /// Network.
        network: Network,
        /// Subject of the disagreement.
        reason: String,
    },
}

/// State of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainTip {
    /// Newest block. If several nodes were queried, it is the block of the most advanced node.
    pub head: BlockRef,
    /// Newest block that a sufficient number of distinct nodes report as final.
    pub finalized: BlockRef,
    /// Finality rule used.
    pub finality: Finality,
    /// Whether the heads of a sufficient number of distinct nodes advance with the chain.
    pub is_current: bool,
}

/// Logs of a range of final blocks, as returned by the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedEvents {
    /// Blocks to read, with the nodes that reported them. A node is given by its index in the settings.
    pub hints: Vec<(Hint, Vec<usize>)>,
    /// Blocks whose logs a node does not return because there are too many of them. `hints` does not contain their
    /// logs.
    pub unlisted: BTreeSet<u64>,
    /// Last height that every queried node returned in full.
    pub read_to: u64,
    /// The block at `read_to`, if a sufficient number of nodes returned it with the logs.
    pub reached: Option<BlockRef>,
}

/// A new block near the head, from one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlock {
    /// The block.
    pub block: BlockRef,
    /// Events of watched contracts in the block.
    pub hints: Vec<Hint>,
}

/// Reads a chain. Credited payments come only from [`Chain::settled`]; all other methods only show where to look.
/// "Enough nodes" means the agreement that the settings require.
///
/// Source: ADR-0012.
#[async_trait]
pub trait Chain: Send + Sync + 'static {
    /// Network.
    fn network(&self) -> Network;
    /// First block to read, if the settings contain one that is older than the first start of the service.
    fn start_block(&self) -> Option<u64>;
    /// State of the chain. `known` is the previous finality rule. A network that ever served the finality tag never
    /// falls back to a depth.
    async fn tip(&self, known: Option<Finality>) -> Result<ChainTip, ChainError>;
    /// Drops the newest known final block, which otherwise never decreases. The operator does this after nodes returned
    /// false data.
    fn forget_final(&self);
    /// Block at a height from one node; `None` if its chain is shorter.
    async fn block(&self, number: u64) -> Result<Option<BlockRef>, ChainError>;
    /// Final block at a height, on which enough distinct nodes agree.
    async fn agreed(&self, number: u64) -> Result<BlockRef, ChainError>;
    /// Blocks near the head from one node; fewer than requested if its chain is shorter.
    async fn new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError>;
    /// Logs of final blocks from `from` on, at most to `to`, from enough distinct nodes.
    ///
    /// If `proves_absence` is set and only one node has to respond, the headers of the range must prove that this node
    /// omitted no log.
    async fn list_events(&self, from: u64, to: u64, proves_absence: bool) -> Result<ReportedEvents, ChainError>;
    /// A final block on which nodes agree, with a proof of its content. If the header is agreed and the content is not
    /// proven, the error affects only this block. It is `Withheld` if no node returns the content, and `Malformed` if
    /// no node returns it for the second time in a row, or if no returned content proves the block.
    async fn settled(&self, number: u64) -> Result<SettledBlock, ChainError>;
    /// [`Chain::settled`] for several heights, in their order.
    async fn settled_all(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)>;
    /// A block near the head from one node, proven against its header.
    async fn noted(&self, block: &BlockRef) -> Result<SettledBlock, ChainError>;
}

/// Result of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvertedUnits {
    /// Units of the last currency of the path.
    pub units: U256,
    /// Unix timestamp of the oldest rate on the path.
    pub oldest_rate_at_s: U256,
}

/// Balances and allowances of payers.
#[async_trait]
pub trait StandingLookup: Send + Sync + 'static {
    /// Balances, allowance and prices of a payer from one node. They are informational and never used as amounts of
    /// payments. `token` is `None` for the native coin.
    async fn standing(
        &self,
        payer: Address,
        token: Option<Address>,
        spender: Address,
    ) -> Result<PayerBalance, ChainError>;
    /// Balance of an account in a token or, for `None`, in the native coin, on which enough distinct nodes agree.
    async fn balance(&self, owner: Address, token: Option<Address>) -> Result<U256, ChainError>;
    /// Allowance of a token's owner for a spender, on which enough distinct nodes agree.
    async fn allowance(&self, owner: Address, token: Address, spender: Address) -> Result<U256, ChainError>;
}

/// Lookups for transactions that the service prepares completely, so that wallets only sign them.
///
/// No result is used as the amount of a payment, so one node per lookup is enough. A network with these lookups reports
/// its prices as [`NetworkPrice::Resources`] in every [`PayerBalance`].
///
/// [`NetworkPrice::Resources`]: crate::domain::paying::NetworkPrice::Resources
#[async_trait]
pub trait PreparationLookup: Send + Sync + 'static {
    /// The account in the settings that is used for estimates while no payer is named; `None` if there is none.
    fn fallback_account(&self) -> Option<Address>;
    /// The newest block of a node, with the time in its header: at most [`REFERENCE_AGE_MAX_MS`] before `now`. The block
    /// may still leave the chain.
    ///
    /// Errors: `Unavailable` if no node that responds has such a block.
    ///
    /// [`REFERENCE_AGE_MAX_MS`]: crate::domain::paying::prepared::REFERENCE_AGE_MAX_MS
    async fn reference_point(&self, now: DateTime<Utc>) -> Result<ReferencePoint, ChainError>;
    /// The resources of an account now, and whether the issuer of `token` has frozen it.
    ///
    /// `energy` and `staked_bandwidth` are limit minus use, at least 0. `is_activated` is false only if no node
    /// knows the account. `is_blocked` is the result of the blacklist function of the token, and false for a token
    /// without such a function.
    async fn resources(&self, account: Address, token: Address) -> Result<PayerResources, ChainError>;
    /// Executes a transaction of `owner` on the newest state without sending it. The owner pays nothing and needs no
    /// coins. An approval counts as failed also if the token returns false.
    ///
    /// The energy is all energy that the transaction would use, including penalty energy and energy that the contract
    /// would pay. `Reverts` means that the contract failed; its reason is the decoded text of `Error(string)`, or an
    /// empty text. Errors: no node executed the transaction.
    async fn simulate(&self, owner: Address, step: &PaymentTransaction) -> Result<StepSimulation, ChainError>;
}

/// Conversion by the price feeds of a network.
#[async_trait]
pub trait PriceFeeds: Send + Sync + 'static {
    /// Converts units of the first currency of a path into units of the last one by the on-chain feeds. Returns the
    /// smallest result. The results must come from enough distinct nodes and be close to each other.
    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError>;
}

/// Lookups on batch contracts.
#[async_trait]
pub trait BatchFees: Send + Sync + 'static {
    /// Fee of a batch contract, in basis points of its payments, on which enough distinct nodes agree.
    async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError>;
}

/// The contract to which a Safe account delegates, as the account states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeContract {
    /// Hash of the code of the account.
    pub code_hash: B256,
    /// Address in the first storage slot.
    pub singleton: Address,
    /// Version that the account returns.
    pub version: String,
}

/// Lookups on contract wallets. A contract wallet has no key with which a signature could be checked.
#[async_trait]
pub trait WalletLookup: Send + Sync + 'static {
    /// Verifies the signature of a hash with a contract wallet. The signature may contain the deployment of a wallet
    /// that is not deployed yet. All reachable nodes must agree on the result.
    async fn check_signature(
        &self,
        wallet: EvmAddress,
        hash: B256,
        signature: &[u8],
    ) -> Result<WalletAnswer, ChainError>;
    /// Whether an account has delegated to the code of a wallet (EIP-7702). Returns true only if all reachable nodes
    /// agree.
    async fn has_delegated(&self, wallet: Address, account: Address) -> Result<bool, ChainError>;
    /// The contract to which a Safe account delegates; `None` for an account that is certainly no Safe. All reachable
    /// nodes must agree on a contract. Any contract can imitate a Safe, so the caller compares the result with known
    /// contracts.
    async fn safe_at(&self, wallet: Address) -> Result<Option<SafeContract>, ChainError>;
    /// The nonce of the next transaction of a Safe. All reachable nodes must agree.
    async fn safe_nonce(&self, safe: Address) -> Result<u64, ChainError>;
}

/// A contract whose events are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emitter {
    /// The contract.
    pub contract: Address,
    /// Value that the second of two topics of the events, or the first of two words of their data, must have.
    pub mark: B256,
    /// First block to search.
    pub from: u64,
}

/// Transactions with events of a contract, as nodes report them. They only show where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedEmissions {
    /// Hashes of the transactions. Each node can name only a few, so that a node with false data neither hides those of
    /// other nodes nor causes endless proofs.
    pub tx_hashes: BTreeSet<B256>,
    /// Last block that every asked node searched. `None` if a node does not return the events of this contract, so that
    /// the search must be repeated.
    pub read_to: Option<u64>,
}

/// Proofs of single transactions.
#[async_trait]
pub trait TxProofs: Send + Sync + 'static {
    /// A transaction with all its events, in a block at `final_to` or below. Enough distinct nodes agree on this block,
    /// and its content is proven. `None` if no node that responds knows such a transaction: this proves nothing, because
    /// a node can conceal one.
    async fn proven(&self, tx_hash: B256, final_to: u64) -> Result<Option<ProvenTx>, ChainError>;
    /// Transactions up to block `to` with an event of each contract that has one of the first topics and the mark, in the
    /// order of the contracts. Enough distinct nodes are queried, and every transaction that one of them names is listed.
    async fn list_emissions(
        &self,
        emitters: &[Emitter],
        topics: &[B256],
        to: u64,
    ) -> Result<Vec<ReportedEmissions>, ChainError>;
}

/// Sends transactions that wallets have signed.
#[async_trait]
pub trait TransactionBroadcast: Send + Sync + 'static {
    /// Sends a transaction to three nodes at once, or to all if there are fewer. Each node that does not respond in time,
    /// cannot take transactions now, or responds with something unknown is replaced by the next one, until three nodes
    /// have accepted, known or refused the transaction, or no node is left.
    ///
    /// Every node gets exactly the bytes of [`SignedTransaction::encoded`]. A node counts as accepting only if it returns
    /// the hash of the transaction or no hash. [`BroadcastOutcome::of_nodes`] combines the responses: one node that has
    /// the transaction outweighs all refusals, and the result is unavailable if no node gave a usable response.
    async fn broadcast(&self, signed: &SignedTransaction) -> BroadcastOutcome;
}

/// Capabilities of the enabled networks.
#[derive(Clone, Default)]
pub struct Chains {
    /// Every enabled network.
    pub followed: BTreeMap<Network, Arc<dyn Chain>>,
    /// Networks with payer lookups.
    pub standings: BTreeMap<Network, Arc<dyn StandingLookup>>,
    /// Networks whose transactions the service prepares.
    pub preparations: BTreeMap<Network, Arc<dyn PreparationLookup>>,
    /// Networks with price feeds.
    pub price_feeds: BTreeMap<Network, Arc<dyn PriceFeeds>>,
    /// Networks with batch contracts.
    pub batch_fees: BTreeMap<Network, Arc<dyn BatchFees>>,
    /// Networks with contract wallets.
    pub wallets: BTreeMap<Network, Arc<dyn WalletLookup>>,
    /// Networks whose single transactions can be proven.
    pub proofs: BTreeMap<Network, Arc<dyn TxProofs>>,
    /// Networks whose wallets can let this service broadcast what they signed.
    pub broadcasts: BTreeMap<Network, Arc<dyn TransactionBroadcast>>,
}

/// Capabilities of one network.
pub struct ChainParts {
    /// Its blocks.
    pub followed: Arc<dyn Chain>,
    /// Its payer lookups.
    pub standings: Arc<dyn StandingLookup>,
    /// Its lookups for prepared transactions.
    pub preparations: Option<Arc<dyn PreparationLookup>>,
    /// Its price feeds.
    pub price_feeds: Option<Arc<dyn PriceFeeds>>,
    /// Its batch contracts.
    pub batch_fees: Option<Arc<dyn BatchFees>>,
    /// Its contract wallets.
    pub wallets: Option<Arc<dyn WalletLookup>>,
    /// Its proofs of single transactions.
    pub proofs: Option<Arc<dyn TxProofs>>,
    /// Its broadcast of transactions that wallets have signed.
    pub broadcast: Option<Arc<dyn TransactionBroadcast>>,
}

impl Chains {
    /// Adds a network.
    pub fn add(&mut self, network: Network, parts: ChainParts) {
        self.followed.insert(network, parts.followed);
        self.standings.insert(network, parts.standings);
        self.preparations
            .extend(parts.preparations.map(|lookups| (network, lookups)));
        self.price_feeds.extend(parts.price_feeds.map(|feeds| (network, feeds)));
        self.batch_fees.extend(parts.batch_fees.map(|fees| (network, fees)));
        self.wallets.extend(parts.wallets.map(|wallets| (network, wallets)));
        self.proofs.extend(parts.proofs.map(|proofs| (network, proofs)));
        self.broadcasts
            .extend(parts.broadcast.map(|broadcast| (network, broadcast)));
    }
}
