//! The question whether a contract wallet accepts a signature, and how its answer is read.
//!
//! The question is a contract of our own that is never deployed: a call without recipient runs its constructor, which
//! creates the wallet if it has to, asks it and answers one word. The node takes everything back afterwards.

use super::node::Failure;
use crate::domain::session::WalletAnswer;
use alloy::{
    primitives::{Address, B256, Bytes, U64, U256, address},
    sol_types::SolValue,
};
use anyhow::Context;
use serde_json::{Value, json};

/// The compiled `SignatureCheck.sol`.
const ARTIFACT: &str = include_str!("../../../devnet/artifacts/SignatureCheck.json");

/// Who asks. Some wallets accept everything from the zero address, because only simulations come from there.
const ASKER: Address = address!("000000000000000000000000000000000000a51d");

/// Gas of one question. Published wallets need a tenth of it to be created and asked; the node's own bound would let a
/// contract keep it busy for seconds.
const GAS_MAX: u64 = 3_000_000;

/// The question, without its arguments.
pub(super) struct SignatureCheck {
    creation: Vec<u8>,
}

impl SignatureCheck {
    /// Reads the compiled contract. Errors: it is damaged.
    pub(super) fn load() -> anyhow::Result<Self> {
        let artifact: Value = serde_json::from_str(ARTIFACT).context("SignatureCheck.json")?;
        let text = artifact["bytecode"].as_str().context("SignatureCheck.json: bytecode")?;
        let creation = hex::decode(text).context("SignatureCheck.json: bytecode")?;
        Ok(Self { creation })
    }

    /// The call that asks a wallet.
    pub(super) fn call(&self, wallet: Address, hash: B256, signature: &[u8]) -> Value {
        let arguments = (wallet, hash, Bytes::copy_from_slice(signature)).abi_encode_params();
        let gas = U64::from(GAS_MAX);
        json!({ "from": ASKER, "gas": gas, "data": Bytes::from([self.creation.as_slice(), &arguments].concat()) })
    }
}

/// Reads the answer. A question that is reverted was not well-formed, and one that runs out of gas met a contract that
/// takes what it can get: neither is an honest signature, and neither speaks against the node.
pub(super) fn read(answer: Result<Bytes, Failure>) -> Result<WalletAnswer, Failure> {
    let word = match answer {
        Err(Failure::Reverted(_)) => return Ok(WalletAnswer::Refuses),
        Err(Failure::Refused { message, .. }) if is_out_of_gas(&message) => return Ok(WalletAnswer::Refuses),
        answer => answer?,
    };
    match U256::try_from_be_slice(&word).filter(|_| word.len() == 32) {
        Some(U256::ZERO) => Ok(WalletAnswer::NoContract),
        Some(U256::ONE) => Ok(WalletAnswer::Accepts),
        Some(two) if two == U256::from(2) => Ok(WalletAnswer::Refuses),
        _ => Err(Failure::Untrue("a wallet is asked and the answer is none".to_owned())),
    }
}

/// Nodes write `out of gas`, `OutOfGas` or `gas exhausted`, each with a code of its own.
fn is_out_of_gas(message: &str) -> bool {
    let letters: String = message.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    letters.contains("outofgas") || letters.contains("gasexhausted")
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
        let refused = |message: &str| {
            let message = message.to_owned();
            read(Err(Failure::Refused { code: -32_000, message }))
        };
        assert_eq!(refused("EVM error OutOfGas").unwrap(), WalletAnswer::Refuses);
        assert_eq!(refused("out of gas: not enough").unwrap(), WalletAnswer::Refuses);
        assert!(refused("header not found").is_err());
    }
}
