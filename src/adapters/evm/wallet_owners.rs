//! Whether an account stands behind a wallet: every contract can say that somebody owns it, and a Safe can hide who else
//! moves it, so what counts is what the account itself has signed.

use super::node::{Failure, Line};
use alloy::primitives::{Address as EvmAddress, Bytes};
use serde_json::json;

/// What the code of an account begins with that has delegated itself (EIP-7702); the address of the code follows.
const DELEGATION: [u8; 3] = [0xef, 0x01, 0x00];

/// Whether a node shows that an account has delegated itself to the code of a wallet.
pub(super) async fn has_delegated(line: &Line, wallet: EvmAddress, account: EvmAddress) -> Result<bool, Failure> {
    let questions = [wallet, account].map(|address| ("eth_getCode", json!([address, "latest"])));
    let codes: Vec<Bytes> = line.batch(&questions).await?.into_iter().collect::<Result<_, _>>()?;
    let [code, delegation] = codes.as_slice() else {
        return Err(Failure::Unreadable("too few answers".to_owned()));
    };
    let expected = [DELEGATION.as_slice(), wallet.as_slice()].concat();
    Ok(!code.is_empty() && delegation[..] == expected)
}
