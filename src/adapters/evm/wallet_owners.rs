//! Whether an account controls a wallet. Any contract can claim an owner, and a Safe can hide other owners. Only the
//! delegation that the account itself signed therefore counts.

use crate::adapters::nodes::node::{NodeFailure, NodeLookup};
use alloy::primitives::{Address as EvmAddress, Bytes};
use serde_json::json;

/// Code prefix of a delegated account (EIP-7702); the address of the code follows.
const DELEGATION: [u8; 3] = [0xef, 0x01, 0x00];

/// Whether an account has delegated to the code of a wallet, according to one node.
pub(super) async fn has_delegated(
    line: &NodeLookup,
    wallet: EvmAddress,
    account: EvmAddress,
) -> Result<bool, NodeFailure> {
    let questions = [wallet, account].map(|address| ("eth_getCode", json!([address, "latest"])));
    let codes: Vec<Bytes> = line.batch(&questions).await?.into_iter().collect::<Result<_, _>>()?;
    let [code, delegation] = codes.as_slice() else {
        return Err(NodeFailure::Unreadable("too few responses".to_owned()));
    };
    let expected = [DELEGATION.as_slice(), wallet.as_slice()].concat();
    Ok(!code.is_empty() && delegation[..] == expected)
}
