//! Contract wallets: whether one accepts a signature (ERC-1271), deployed or not (ERC-6492).
//!
//! The question is a contract of our own that is never deployed: a call without recipient runs its constructor, which
//! creates the wallet if it has to, asks it and answers one word. The node takes everything back afterwards.

use super::{
    EvmChain, Pace,
    node::{Failure, Line},
};
use crate::{
    domain::session::WalletAnswer,
    ports::chain::{ChainError, Reader, WalletLookup},
};
use alloy::{
    primitives::{Address, B256, Bytes, U256, address},
    sol_types::SolValue,
};
use anyhow::Context;
use async_trait::async_trait;
use serde_json::{Value, json};

/// The compiled `SignatureCheck.sol`.
const ARTIFACT: &str = include_str!("../../../devnet/artifacts/SignatureCheck.json");

/// Who asks. Some wallets accept everything from the zero address, because only simulations come from there.
const ASKER: Address = address!("000000000000000000000000000000000000a51d");

/// The question, without its arguments.
pub(super) struct Check {
    creation: Vec<u8>,
}

impl Check {
    /// Reads the compiled contract. Errors: it is damaged.
    pub(super) fn load() -> anyhow::Result<Self> {
        let artifact: Value = serde_json::from_str(ARTIFACT).context("SignatureCheck.json")?;
        let text = artifact["bytecode"].as_str().context("SignatureCheck.json: bytecode")?;
        let creation = hex::decode(text).context("SignatureCheck.json: bytecode")?;
        Ok(Self { creation })
    }

    /// The call that asks a wallet.
    fn call(&self, wallet: Address, hash: B256, signature: &[u8]) -> Value {
        let arguments = (wallet, hash, Bytes::copy_from_slice(signature)).abi_encode_params();
        json!({ "from": ASKER, "data": Bytes::from([self.creation.as_slice(), &arguments].concat()) })
    }
}

/// Reads the answer. A question that is reverted was not well-formed, which no honest signature is.
fn read(answer: Result<Bytes, Failure>) -> Result<WalletAnswer, Failure> {
    let word = match answer {
        Err(Failure::Reverted(_)) => return Ok(WalletAnswer::Refuses),
        answer => answer?,
    };
    match U256::try_from_be_slice(&word).filter(|_| word.len() == 32) {
        Some(U256::ZERO) => Ok(WalletAnswer::NoContract),
        Some(U256::ONE) => Ok(WalletAnswer::Accepts),
        Some(two) if two == U256::from(2) => Ok(WalletAnswer::Refuses),
        _ => Err(Failure::Untrue("a wallet is asked and the answer is none".to_owned())),
    }
}

#[async_trait]
impl WalletLookup for EvmChain {
    async fn check_signature(&self, wallet: Address, hash: B256, signature: &[u8]) -> Result<WalletAnswer, ChainError> {
        let check = self.wallet_check.call(wallet, hash, signature);
        let question = |line: Line| {
            let check = check.clone();
            async move { read(line.call::<Bytes>("eth_call", (check, "latest")).await) }
        };
        let answer = self.ask(Reader::First, Pace::lookup(), question).await?;
        // One node that lies must not be enough to sign in as somebody else.
        if answer == WalletAnswer::Accepts && self.nodes.len() > 1 {
            let second = self.ask(Reader::Second, Pace::lookup(), question).await?;
            if second != answer {
                return Err(ChainError::Disagreement {
                    network: self.network,
                    reason: format!("the wallet {wallet} accepts a signature on one of them alone"),
                });
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_words_are_answers() {
        let word = |number: u64| Ok(Bytes::from(U256::from(number).to_be_bytes_vec()));
        assert_eq!(read(word(0)).unwrap(), WalletAnswer::NoContract);
        assert_eq!(read(word(1)).unwrap(), WalletAnswer::Accepts);
        assert_eq!(read(word(2)).unwrap(), WalletAnswer::Refuses);
        assert!(read(word(3)).is_err());
        assert!(read(Ok(Bytes::new())).is_err());
        assert!(read(Ok(Bytes::from_static(&[1]))).is_err());
        let reverted = Err(Failure::Reverted(String::new()));
        assert_eq!(read(reverted).unwrap(), WalletAnswer::Refuses);
        assert!(read(Err(Failure::Slow)).is_err());
    }
}
