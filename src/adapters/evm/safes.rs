//! Lookups on Safe accounts.

use super::{
    node::{CONTRACT_CALL, NodeFailure, NodeLookup},
    payer::{contract_call, returned},
};
use crate::{
    domain::{address::Address, network::Network},
    ports::chain::SafeContract,
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U256},
    sol,
    sol_types::SolCall,
};
use serde_json::json;

sol! {
    interface Safe {
        function VERSION() view returns (string);
        function nonce() view returns (uint256);
    }
}

/// Number of leading zero bytes of an address in storage.
const PADDING: usize = 12;

/// The contract to which a Safe delegates, and its version, according to one node; `None` for an account that is
/// certainly no Safe.
///
/// A Safe is a proxy that stores the address of its contract in the first slot. Any contract can imitate this, so the
/// caller compares the address and the version with known ones.
pub(super) async fn contract_of(
    line: &NodeLookup,
    wallet: EvmAddress,
    network: Network,
) -> Result<Option<SafeContract>, NodeFailure> {
    let slot = line
        .call::<B256>("eth_getStorageAt", (wallet, U256::ZERO, "latest"))
        .await?;
    let (padding, singleton) = slot.split_at(PADDING);
    if slot.is_zero() || padding.iter().any(|byte| *byte != 0) {
        return Ok(None);
    }
    let version = contract_call(wallet, &Safe::VERSIONCall {}, json!("latest"));
    let version = match line.call::<Bytes>(CONTRACT_CALL, version).await {
        Ok(version) => version,
        Err(NodeFailure::Reverted(_)) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let Ok(version) = Safe::VERSIONCall::abi_decode_returns_validate(&version) else {
        return Ok(None);
    };
    Ok(Some(SafeContract {
        singleton: Address::on(network, EvmAddress::from_slice(singleton)),
        version,
    }))
}

/// The nonce of the next transaction of a Safe, according to one node.
pub(super) async fn nonce_of(line: &NodeLookup, safe: EvmAddress) -> Result<u64, NodeFailure> {
    let call = contract_call(safe, &Safe::nonceCall {}, json!("latest"));
    let answer: Bytes = line.call(CONTRACT_CALL, call).await?;
    Ok(returned::<Safe::nonceCall>(safe, &answer)?.saturating_to())
}
