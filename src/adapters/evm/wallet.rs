//! Contract wallets: whether a wallet accepts a signature (ERC-1271), deployed or not (ERC-6492).
//!
//! Strangers choose the called contract. The call therefore has a gas limit, concurrency is limited, and the
//! connections are separate. A slow or failing wallet check never opens the breaker of a connection that payments need.

use super::{
    safes,
    signature_check::{SignatureCheck, read},
    wallet_owners,
};
use crate::{
    adapters::nodes::{
        LookupTimeout, NodeChain,
        node::{NodeFailure, NodeLookup},
    },
    domain::{address::Address as WalletAddress, session::WalletAnswer},
    ports::chain::{ChainError, SafeContract, WalletLookup},
};
use alloy::primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// Maximum number of concurrent wallet checks per network.
const PLACES: usize = 4;

/// The contract wallets of a network.
pub(super) struct ContractWallets {
    lines: NodeChain,
    check: SignatureCheck,
    places: Semaphore,
}

impl ContractWallets {
    /// Wallets over connections of their own, separate from those of the chain itself. Errors: the contract of the check
    /// is damaged.
    pub(super) fn new(lines: NodeChain) -> anyhow::Result<Self> {
        Ok(Self {
            lines,
            check: SignatureCheck::load()?,
            places: Semaphore::new(PLACES),
        })
    }
}

impl ContractWallets {
    /// The response of a node. A response that `grants` something counts only if another reachable node returns the
    /// same, because a single node with false data must not be sufficient to act as another user.
    async fn ask<T: PartialEq, F>(
        &self,
        grants: impl Fn(&T) -> bool,
        what: &str,
        question: impl Fn(NodeLookup) -> F,
    ) -> Result<T, ChainError>
    where
        F: Future<Output = Result<T, NodeFailure>>,
    {
        let (lines, network) = (&self.lines, self.lines.network);
        let end = Instant::now() + lines.lookup_timeout;
        // The lookup itself has at least half of the time; otherwise a queue would look like a slow node.
        let place = timeout_at(end - lines.lookup_timeout / 2, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(ChainError::Busy { network });
        };
        let answer = lines.ask(LookupTimeout::Until(end), &question).await?;
        if grants(&answer) && lines.nodes.len() > 1 {
            let answers = lines.ask_distinct(2, lines.lookup(), &[], &question).await;
            if answers.given.len() < 2 || answers.given.iter().any(|(_, given)| *given != answer) {
                return Err(ChainError::Disagreement {
                    network,
                    reason: format!("only one node confirms {what}"),
                });
            }
        }
        Ok(answer)
    }
}

#[async_trait]
impl WalletLookup for ContractWallets {
    async fn check_signature(&self, wallet: Address, hash: B256, signature: &[u8]) -> Result<WalletAnswer, ChainError> {
        let check = self.check.call(wallet, hash, signature);
        let question = |line: NodeLookup| {
            let check = check.clone();
            async move { read(line.call::<Bytes>("eth_call", (check, "latest")).await) }
        };
        let what = format!("that wallet {wallet} accepts the signature");
        self.ask(|answer| *answer == WalletAnswer::Accepts, &what, question)
            .await
    }

    async fn has_delegated(&self, wallet: WalletAddress, account: WalletAddress) -> Result<bool, ChainError> {
        let (bytes, account) = (wallet.bytes(), account.bytes());
        let question = |line: NodeLookup| async move { wallet_owners::has_delegated(&line, bytes, account).await };
        let what = format!("the owner of wallet {wallet}");
        self.ask(|has_delegated| *has_delegated, &what, question).await
    }

    async fn safe_at(&self, wallet: WalletAddress) -> Result<Option<SafeContract>, ChainError> {
        let (bytes, network) = (wallet.bytes(), self.lines.network);
        let question = |line: NodeLookup| async move { safes::contract_of(&line, bytes, network).await };
        let what = format!("that wallet {wallet} is a Safe");
        self.ask(Option::is_some, &what, question).await
    }

    async fn safe_nonce(&self, safe: WalletAddress) -> Result<u64, ChainError> {
        let safe = safe.bytes();
        let question = |line: NodeLookup| async move { safes::nonce_of(&line, safe).await };
        let what = format!("the nonce of Safe {safe}");
        self.ask(|_| true, &what, question).await
    }
}
