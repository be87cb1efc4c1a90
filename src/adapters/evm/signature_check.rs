//! The call that checks whether a contract wallet accepts a signature, and its result.
//!
//! The call uses a contract that is never deployed. A call without recipient runs the constructor of the contract,
//! which deploys the wallet if needed, calls it and returns one word. The node discards all changes afterwards.

use crate::{adapters::nodes::node::NodeFailure, domain::session::WalletAnswer};
use alloy::{
    primitives::{Address, B256, Bytes, U64, U256, address},
    sol_types::SolValue,
};
use anyhow::Context;
use serde_json::{Value, json};

/// The compiled `SignatureCheck.sol`.
const ARTIFACT: &str = include_str!("../../../devnet/artifacts/SignatureCheck.json");

/// Sender of the call. It is not the zero address: some wallets accept everything from that address, because only
/// simulations use it.
const ASKER: Address = address!("000000000000000000000000000000000000a51d");

/// Gas limit of one call. Published wallets need a tenth of it to be deployed and called. The limit of the node itself
/// would let a contract keep the node busy for seconds.
pub(super) const GAS_MAX: u64 = 3_000_000;

/// The call, without its arguments.
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

    /// The call for a wallet.
    pub(super) fn call(&self, wallet: Address, hash: B256, signature: &[u8]) -> Value {
        let arguments = (wallet, hash, Bytes::copy_from_slice(signature)).abi_encode_params();
        let gas = U64::from(GAS_MAX);
        json!({ "from": ASKER, "gas": gas, "data": Bytes::from([self.creation.as_slice(), &arguments].concat()) })
    }
}

/// Reads the result. A call that reverts had malformed input. A call that runs out of gas reached a contract that
/// consumes all gas. In both cases the signature is invalid, and the node has not failed.
pub(super) fn read(answer: Result<Bytes, NodeFailure>) -> Result<WalletAnswer, NodeFailure> {
    let word = match answer {
        Err(NodeFailure::Reverted(_)) => return Ok(WalletAnswer::Refuses),
        Err(NodeFailure::Refused { message, .. }) if is_out_of_gas(&message) => return Ok(WalletAnswer::Refuses),
        answer => answer?,
    };
    match U256::try_from_be_slice(&word).filter(|_| word.len() == 32) {
        Some(U256::ZERO) => Ok(WalletAnswer::NoContract),
        Some(U256::ONE) => Ok(WalletAnswer::Accepts),
        Some(two) if two == U256::from(2) => Ok(WalletAnswer::Refuses),
        _ => Err(NodeFailure::Untrue(
            "the node returned an invalid result for the check of a wallet signature".to_owned(),
        )),
    }
}

/// Nodes write `out of gas`, `OutOfGas` or `gas exhausted`, each with its own code.
pub(super) fn is_out_of_gas(message: &str) -> bool {
    let letters: String = message.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    letters.contains("outofgas") || letters.contains("gasexhausted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_result_words_are_accepted() {
        let word = |number: u64| Ok(Bytes::from(U256::from(number).to_be_bytes_vec()));
        assert_eq!(read(word(0)).unwrap(), WalletAnswer::NoContract);
        assert_eq!(read(word(1)).unwrap(), WalletAnswer::Accepts);
        assert_eq!(read(word(2)).unwrap(), WalletAnswer::Refuses);
        assert!(read(word(3)).is_err());
        assert!(read(Ok(Bytes::new())).is_err());
        assert!(read(Ok(Bytes::from_static(&[1]))).is_err());
        let reverted = Err(NodeFailure::Reverted(String::new()));
        assert_eq!(read(reverted).unwrap(), WalletAnswer::Refuses);
        assert!(read(Err(NodeFailure::Slow)).is_err());
        let refused = |message: &str| {
            let message = message.to_owned();
            read(Err(NodeFailure::Refused { code: -32_000, message }))
        };
        assert_eq!(refused("EVM error OutOfGas").unwrap(), WalletAnswer::Refuses);
        assert_eq!(refused("out of gas: not enough").unwrap(), WalletAnswer::Refuses);
        assert!(refused("header not found").is_err());
    }
}
