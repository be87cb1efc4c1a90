//! Contract wallets: whether a wallet accepts a signature (ERC-1271), deployed or not (ERC-6492).
//!
//! Strangers choose the called contract. The call therefore has a gas limit, concurrency is limited, and the
//! connections are separate. A slow or failing wallet check never opens the breaker of a connection that payments need.

use super::{
    EvmChain, EvmChainOptions, LookupTimeout,
    node::NodeLookup,
    signature_check::{SignatureCheck, read},
    wallet_owners,
};
use crate::{
    domain::{address::Address as WalletAddress, session::WalletAnswer},
    ports::chain::{ChainError, WalletLookup},
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
    lines: EvmChain,
    check: SignatureCheck,
    places: Semaphore,
}

impl ContractWallets {
    /// Checks the options and sets up connections to the nodes, separate from those of the chain itself.
    pub(super) fn new(options: EvmChainOptions) -> anyhow::Result<Self> {
        Ok(Self {
            lines: EvmChain::set_up(options)?,
            check: SignatureCheck::load()?,
            places: Semaphore::new(PLACES),
        })
    }
}

#[async_trait]
impl WalletLookup for ContractWallets {
    async fn check_signature(&self, wallet: Address, hash: B256, signature: &[u8]) -> Result<WalletAnswer, ChainError> {
        let (lines, network) = (&self.lines, self.lines.network);
        let end = Instant::now() + lines.lookup_timeout;
        let place = timeout_at(end, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(ChainError::Busy { network });
        };
        let check = self.check.call(wallet, hash, signature);
        let question = |line: NodeLookup| {
            let check = check.clone();
            async move { read(line.call::<Bytes>("eth_call", (check, "latest")).await) }
        };
        let answer = lines.ask(LookupTimeout::Until(end), question).await?;
        // A single node with false data must not be sufficient to sign in as another user.
        if answer == WalletAnswer::Accepts && lines.nodes.len() > 1 {
            let answers = lines.ask_distinct(2, lines.lookup(), &[], question).await;
            if answers.given.len() < 2 || answers.given.iter().any(|(_, given)| *given != answer) {
                return Err(ChainError::Disagreement {
                    network,
                    reason: format!("only one node confirms that wallet {wallet} accepts the signature"),
                });
            }
        }
        Ok(answer)
    }

    async fn has_delegated(&self, wallet: WalletAddress, account: WalletAddress) -> Result<bool, ChainError> {
        let (lines, network) = (&self.lines, self.lines.network);
        let end = Instant::now() + lines.lookup_timeout;
        let place = timeout_at(end, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(ChainError::Busy { network });
        };
        let (bytes, account) = (wallet.bytes(), account.bytes());
        let question = |line: NodeLookup| async move { wallet_owners::has_delegated(&line, bytes, account).await };
        let has_delegated = lines.ask(LookupTimeout::Until(end), question).await?;
        // A single node with false data must not be sufficient to pay as another user.
        if has_delegated && lines.nodes.len() > 1 {
            let answers = lines.ask_distinct(2, lines.lookup(), &[], question).await;
            if answers.given.len() < 2 || answers.given.iter().any(|(_, given)| !given) {
                return Err(ChainError::Disagreement {
                    network,
                    reason: format!("only one node confirms the owner of wallet {wallet}"),
                });
            }
        }
        Ok(has_delegated)
    }
}
