//! Lookups on Safe accounts.

use super::signature_check::{GAS_MAX, is_out_of_gas};
use crate::{
    adapters::nodes::node::{CONTRACT_CALL, NodeFailure, NodeLookup},
    domain::{address::Address, network::Network},
    ports::chain::SafeContract,
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U64, U256, keccak256},
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

/// The contract to which a Safe delegates, and its version, according to one node; `None` for an account that is
/// certainly no Safe.
///
/// A Safe is a proxy that stores the address of its contract in the first slot. Any contract can imitate this, so the
/// caller compares the code, the address and the version with known ones.
pub(super) async fn contract_of(
    line: &NodeLookup,
    wallet: EvmAddress,
    network: Network,
) -> Result<Option<SafeContract>, NodeFailure> {
    let slot = line
        .call::<B256>("eth_getStorageAt", (wallet, U256::ZERO, "latest"))
        .await?;
    let singleton = EvmAddress::from_word(slot);
    if slot.is_zero() || singleton.into_word() != slot {
        return Ok(None);
    }
    let version = match ask(line, wallet, &Safe::VERSIONCall {}).await {
        Ok(version) => version,
        Err(NodeFailure::Reverted(_)) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let code: Bytes = line.call("eth_getCode", (wallet, "latest")).await?;
    Ok(Some(SafeContract {
        code_hash: keccak256(&code),
        singleton: Address::on(network, singleton),
        version,
    }))
}

/// The nonce of the next transaction of a Safe, according to one node.
pub(super) async fn nonce_of(line: &NodeLookup, safe: EvmAddress) -> Result<u64, NodeFailure> {
    Ok(ask(line, safe, &Safe::nonceCall {}).await?.saturating_to())
}

/// Calls a contract that a stranger chose. If the contract uses up the gas or returns another form, the node has not
/// failed, so the call counts as reverted.
async fn ask<C: SolCall>(line: &NodeLookup, contract: EvmAddress, call: &C) -> Result<C::Return, NodeFailure> {
    let data = Bytes::from(call.abi_encode());
    let call = json!([{ "to": contract, "data": data, "gas": U64::from(GAS_MAX) }, "latest"]);
    match line.call::<Bytes>(CONTRACT_CALL, call).await {
        Ok(answer) => C::abi_decode_returns_validate(&answer)
            .map_err(|_| NodeFailure::Reverted(format!("{contract} returned no valid result for {}", C::SIGNATURE))),
        Err(NodeFailure::Refused { message, .. }) if is_out_of_gas(&message) => Err(NodeFailure::Reverted(message)),
        Err(failure) => Err(failure),
    }
}
