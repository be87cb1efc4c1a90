//! What calldata needs to know before somebody pays: balances, allowance, gas price and rates.

use super::{
    EvmChain, Patience,
    node::{CONTRACT_CALL, Failure, Line},
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

/// The parameters of a call of a contract as of the newest block.
fn contract_call<C: SolCall>(to: EvmAddress, call: &C) -> Value {
    json!([{ "to": to, "data": Bytes::from(call.abi_encode()) }, "latest"])
}

fn returned<C: SolCall>(to: EvmAddress, answer: &[u8]) -> Result<C::Return, Failure> {
    C::abi_decode_returns_validate(answer)
        .map_err(|_| Failure::Untrue(format!("{to} does not answer {}", C::SIGNATURE)))
}

async fn call_contract<C: SolCall>(line: &Line, to: EvmAddress, call: C) -> Result<C::Return, Failure> {
    let answer: Bytes = line.call(CONTRACT_CALL, contract_call(to, &call)).await?;
    returned::<C>(to, &answer)
}

fn read<T: FromStr>(answer: &str, what: &str) -> Result<T, Failure> {
    // The parser's text may quote the answer.
    answer
        .parse()
        .map_err(|_| Failure::Unreadable(format!("{what} is no number of the protocol")))
}

#[async_trait]
impl PayerLookup for EvmChain {
    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError> {
        let (owner, spender) = (payer.bytes(), spender.bytes());
        let question = |line: Line| async move {
            let mut calls = vec![
                ("eth_getBalance", json!([owner, "latest"])),
                ("eth_gasPrice", json!([])),
            ];
            if let Some(token) = token {
                let token = token.bytes();
                calls.push((CONTRACT_CALL, contract_call(token, &Token::balanceOfCall { owner })));
                calls.push((
                    CONTRACT_CALL,
                    contract_call(token, &Token::allowanceCall { owner, spender }),
                ));
            }
            // Whoever pays waits for this: one question is answered in a quarter of the time of four.
            let answers: Vec<String> = line.batch(&calls).await?.into_iter().collect::<Result<_, _>>()?;
            let (native_balance, gas_price, of_token) = match answers.as_slice() {
                [native_balance, gas_price, of_token @ ..] => (native_balance, gas_price, of_token),
                _ => return Err(Failure::Unreadable("too few answers".to_owned())),
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
            Ok(Standing {
                balance,
                native_balance,
                allowance,
                gas_price: read(gas_price, "a price of gas")?,
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
