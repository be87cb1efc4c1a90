//! Lookups for the calldata of a payment: balances, allowance, gas price and rates.

use super::EvmChain;
use crate::{
    adapters::nodes::{
        locked::store,
        node::{CONTRACT_CALL, NodeFailure, NodeLookup},
    },
    domain::{
        address::Address,
        paying::{NetworkPrice, PayerBalance},
    },
    ports::chain::{BatchFees, ChainError, ConvertedUnits, PriceFeeds, StandingLookup},
};
use alloy::{
    primitives::{Address as EvmAddress, Bytes, U256, U512},
    sol,
    sol_types::SolCall,
};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::str::FromStr;

sol! {
    interface Token {
        function balanceOf(address owner) view returns (uint256);
        function allowance(address owner, address spender) view returns (uint256);
    }
    interface ConversionPath {
        function getConversion(uint256 amountIn, address[] path) view returns (uint256 result, uint256 oldestRateTimestamp);
    }
    interface BatchContract {
        function batchFee() view returns (uint16);
    }
}

/// The parameters of a contract call at a block.
pub(super) fn contract_call<C: SolCall>(to: EvmAddress, call: &C, block: Value) -> Value {
    json!([{ "to": to, "data": Bytes::from(call.abi_encode()) }, block])
}

pub(super) fn returned<C: SolCall>(to: EvmAddress, answer: &[u8]) -> Result<C::Return, NodeFailure> {
    C::abi_decode_returns_validate(answer)
        .map_err(|_| NodeFailure::Untrue(format!("contract {to} returned no valid result for {}", C::SIGNATURE)))
}

/// Whether two nodes agree closely enough to use the smaller amount. `used` must be the smaller amount, and `other` may
/// exceed it by at most `basis_points` of `used`. So the result is never more than an honest node returns.
fn is_close_below(used: U256, other: U256, basis_points: u16) -> bool {
    let Some(more) = other.checked_sub(used) else {
        return false;
    };
    U512::from(more) * U512::from(10_000) <= U512::from(used) * U512::from(basis_points)
}

fn read<T: FromStr>(answer: &str, what: &str) -> Result<T, NodeFailure> {
    // The parser's message may quote the response.
    answer
        .parse()
        .map_err(|_| NodeFailure::Unreadable(format!("{what} is not a valid number")))
}

#[async_trait]
impl StandingLookup for EvmChain {
    async fn standing(
        &self,
        payer: Address,
        token: Option<Address>,
        spender: Address,
    ) -> Result<PayerBalance, ChainError> {
        let (owner, spender) = (payer.bytes(), spender.bytes());
        let question = |line: NodeLookup| async move {
            let mut calls = vec![
                ("eth_getBalance", json!([owner, "latest"])),
                ("eth_gasPrice", json!([])),
            ];
            if let Some(token) = token {
                let token = token.bytes();
                let balance = contract_call(token, &Token::balanceOfCall { owner }, json!("latest"));
                let allowance = contract_call(token, &Token::allowanceCall { owner, spender }, json!("latest"));
                calls.extend([(CONTRACT_CALL, balance), (CONTRACT_CALL, allowance)]);
            }
            // The payer waits for these values; one batch takes a quarter of the time of four calls.
            let answers: Vec<String> = line.batch(&calls).await?.into_iter().collect::<Result<_, _>>()?;
            let (native_balance, gas_price, of_token) = match answers.as_slice() {
                [native_balance, gas_price, of_token @ ..] => (native_balance, gas_price, of_token),
                _ => return Err(NodeFailure::Unreadable("too few responses".to_owned())),
            };
            let native_balance = read(native_balance, "a balance")?;
            let (balance, allowance) = match (token, of_token) {
                (Some(token), [balance, allowance]) => {
                    let (token, balance) = (token.bytes(), read::<Bytes>(balance, "a balance")?);
                    let allowance = read::<Bytes>(allowance, "an allowance")?;
                    (
                        returned::<Token::balanceOfCall>(token, &balance)?,
                        returned::<Token::allowanceCall>(token, &allowance)?,
                    )
                }
                _ => (native_balance, U256::ZERO),
            };
            Ok(PayerBalance {
                balance,
                native_balance,
                allowance,
                price: NetworkPrice::Gas(read(gas_price, "a gas price")?),
            })
        };
        self.nodes.ask(self.nodes.lookup(), question).await
    }

    async fn balance(&self, owner: Address, token: Option<Address>) -> Result<U256, ChainError> {
        let owner = owner.bytes();
        match token {
            Some(token) => {
                let call = Token::balanceOfCall { owner };
                self.agreed_answer(token.bytes(), call, |balance| balance, U256::eq)
                    .await
            }
            None => self.agreed_balance(owner).await,
        }
    }

    async fn allowance(&self, owner: Address, token: Address, spender: Address) -> Result<U256, ChainError> {
        let (owner, spender) = (owner.bytes(), spender.bytes());
        let call = Token::allowanceCall { owner, spender };
        // The cached height is discarded: it may be older than the block with the payer's latest approval.
        store(&self.common_height, None);
        self.agreed_answer(token.bytes(), call, |allowance| allowance, U256::eq)
            .await
    }
}

#[async_trait]
impl PriceFeeds for EvmChain {
    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<ConvertedUnits, ChainError> {
        let Some(rates) = self.rates else {
            let reason = format!("{} has no contract that returns rates", self.nodes.network);
            return Err(ChainError::Reverted(reason));
        };
        let call = ConversionPath::getConversionCall {
            amountIn: units,
            path: path.to_vec(),
        };
        let confirms = |used: &ConvertedUnits, other: &ConvertedUnits| {
            used.oldest_rate_at_s == other.oldest_rate_at_s
                && is_close_below(used.units, other.units, self.nodes_apart_bps)
        };
        let read = |rate: ConversionPath::getConversionReturn| ConvertedUnits {
            units: rate.result,
            oldest_rate_at_s: rate.oldestRateTimestamp,
        };
        self.agreed_answer(rates, call, read, confirms).await
    }
}

#[async_trait]
impl BatchFees for EvmChain {
    async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError> {
        let call = BatchContract::batchFeeCall {};
        self.agreed_answer(contract.bytes(), call, |fee| fee, u16::eq).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_two_close_amounts_is_used() {
        for (used, other, basis_points, expected) in [
            (100, 100, 0, true),
            (100, 101, 0, false),
            (100, 101, 100, true),
            (101, 100, 100, false),
            (10_000, 10_100, 100, true),
            (10_000, 10_101, 100, false),
            (0, 0, 100, true),
            (0, 1, 100, false),
            (1, 2, 1_000, false),
        ] {
            let close = is_close_below(U256::from(used), U256::from(other), basis_points);
            assert_eq!(close, expected, "{used} and {other} by {basis_points}");
        }
        assert!(is_close_below(U256::MAX, U256::MAX, 1_000));
        assert!(!is_close_below(U256::ONE, U256::MAX, 1_000));
    }
}
