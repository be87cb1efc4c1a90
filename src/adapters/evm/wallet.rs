//! Contract wallets: whether one accepts a signature (ERC-1271), deployed or not (ERC-6492).

use super::{EvmChain, Patience, node::Line, signature_check::read};
use crate::{
    domain::session::WalletAnswer,
    ports::chain::{ChainError, WalletLookup},
};
use alloy::primitives::{Address, B256, Bytes};
use async_trait::async_trait;

#[async_trait]
impl WalletLookup for EvmChain {
    async fn check_signature(&self, wallet: Address, hash: B256, signature: &[u8]) -> Result<WalletAnswer, ChainError> {
        let check = self.signature_check.call(wallet, hash, signature);
        let question = |line: Line| {
            let check = check.clone();
            async move { read(line.call::<Bytes>("eth_call", (check, "latest")).await) }
        };
        let answer = self.ask(Patience::lookup(), question).await?;
        // One node that lies must not be enough to sign in as somebody else.
        if answer == WalletAnswer::Accepts && self.nodes.len() > 1 {
            let answers = self.ask_distinct(2, Patience::lookup(), &[], question).await;
            if answers.given.len() < 2 || answers.given.iter().any(|(_, given)| *given != answer) {
                return Err(ChainError::Disagreement {
                    network: self.network,
                    reason: format!("the wallet {wallet} accepts a signature on one of them alone"),
                });
            }
        }
        Ok(answer)
    }
}
