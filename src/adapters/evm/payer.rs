//! What calldata needs to know before somebody pays: balances, allowance, gas price and rates.

use super::{
    EvmChain, Patience,
    node::{Failure, Line},
};
use crate::{
    domain::{address::Address, calldata::Standing},
    ports::chain::{ChainError, PayerLookup},
};
use alloy::{
    primitives::{Address as EvmAddress, Bytes, U256},
    sol,
    sol_types::SolCall,
};
use async_trait::async_trait;
use futures_util::future::try_join4;
use serde_json::json;

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

async fn call_contract<C: SolCall>(line: &Line, to: EvmAddress, call: C) -> Result<C::Return, Failure> {
    let request = json!({ "to": to, "data": Bytes::from(call.abi_encode()) });
    let answer: Bytes = line.call("eth_call", (request, "latest")).await?;
    C::abi_decode_returns_validate(&answer)
        .map_err(|_| Failure::Untrue(format!("{to} does not answer {}", C::SIGNATURE)))
}

#[async_trait]
impl PayerLookup for EvmChain {
    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError> {
        let (owner, spender) = (payer.bytes(), spender.bytes());
        let question = |line: Line| async move {
            let line = &line;
            let balance = async {
                match token {
                    Some(token) => call_contract(line, token.bytes(), Token::balanceOfCall { owner })
                        .await
                        .map(Some),
                    None => Ok(None),
                }
            };
            let allowance = async {
                match token {
                    Some(token) => call_contract(line, token.bytes(), Token::allowanceCall { owner, spender }).await,
                    None => Ok(U256::ZERO),
                }
            };
            let native_balance = line.call::<U256>("eth_getBalance", (owner, "latest"));
            let gas_price = line.call::<U256>("eth_gasPrice", ());
            let (balance, allowance, native_balance, gas_price) =
                try_join4(balance, allowance, native_balance, gas_price).await?;
            Ok(Standing {
                balance: balance.unwrap_or(native_balance),
                native_balance,
                allowance,
                gas_price,
            })
        };
        self.ask(Patience::lookup(), question).await
    }

    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<U256, ChainError> {
        let Some(rates) = self.rates else {
            let reason = format!("{} has no contract for rates", self.network);
            return Err(ChainError::Reverted(reason));
        };
        let question = |line: Line| async move {
            let call = ConversionPath::getConversionCall {
                amountIn: units,
                path: path.to_vec(),
            };
            call_contract(&line, rates, call).await.map(|rate| rate.result)
        };
        self.ask(Patience::lookup(), question).await
    }

    async fn batch_fee(&self, contract: Address) -> Result<u16, ChainError> {
        let question =
            |line: Line| async move { call_contract(&line, contract.bytes(), BatchContract::batchFeeCall {}).await };
        self.ask(Patience::lookup(), question).await
    }
}
