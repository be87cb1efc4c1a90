//! Lookups on accounts and contracts of Tron.
//!
//! The API runs a contract only on its newest state, so nodes that are a block apart may return different values.

use super::TronChain;
use crate::{
    adapters::nodes::{
        node::{NodeFailure, NodeLookup},
        protocol::NodeTip,
    },
    domain::{
        address::Address,
        paying::{
            NetworkPrice, PayerBalance, PaymentTransaction, ResourcePrices,
            prepared::{PayerResources, REFERENCE_AGE_MAX_MS, ReferencePoint, StepSimulation},
        },
        tron::ReferenceBlock,
    },
    ports::chain::{ChainError, PreparationLookup, StandingLookup},
};
use alloy::{
    primitives::{Address as EvmAddress, U256},
    sol,
    sol_types::{Revert, SolCall, SolError},
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;

sol! {
    interface TronToken {
        function balanceOf(address owner) view returns (uint256);
        function allowance(address owner, address spender) view returns (uint256);
        function approve(address spender, uint256 amount) returns (bool);
        function isBlackListed(address holder) view returns (bool);
        function isBlacklisted(address holder) view returns (bool);
    }
}

/// Maximum size of an account, a list of prices or a contract result.
const VALUE_BYTES_MAX: usize = 256 * 1_024;

/// Owner of contract calls that concern no account; nodes accept an account that does not exist.
const NO_ACCOUNT: EvmAddress = EvmAddress::ZERO;

#[derive(Deserialize)]
struct StatedAccount {
    address: Option<String>,
    #[serde(default)]
    balance: u64,
}

#[derive(Deserialize)]
struct StatedResources {
    #[serde(rename = "freeNetLimit", default)]
    free_limit: u64,
    #[serde(rename = "freeNetUsed", default)]
    free_used: u64,
    #[serde(rename = "NetLimit", default)]
    staked_limit: u64,
    #[serde(rename = "NetUsed", default)]
    staked_used: u64,
    #[serde(rename = "EnergyLimit", default)]
    energy_limit: u64,
    #[serde(rename = "EnergyUsed", default)]
    energy_used: u64,
}

#[derive(Deserialize)]
struct StatedParameters {
    #[serde(rename = "chainParameter")]
    parameters: Vec<StatedParameter>,
}

#[derive(Deserialize)]
struct StatedParameter {
    key: String,
    /// Absent if it is zero.
    #[serde(default)]
    value: i64,
}

#[derive(Deserialize)]
struct StatedCallResult {
    result: StatedCallStatus,
    #[serde(default)]
    energy_used: u64,
    #[serde(default)]
    constant_result: Vec<String>,
    transaction: Option<StatedCallTransaction>,
}

#[derive(Deserialize)]
struct StatedCallStatus {
    code: Option<String>,
    /// Text in hexadecimal digits.
    message: Option<String>,
}

#[derive(Deserialize)]
struct StatedCallTransaction {
    #[serde(default)]
    ret: Vec<StatedCallRet>,
}

#[derive(Deserialize)]
struct StatedCallRet {
    ret: Option<String>,
}

/// Result of a contract call that a node executed without sending it.
struct ExecutedCall {
    energy: u64,
    /// The returned bytes, or the reason of a revert.
    returned: Result<Vec<u8>, String>,
}

/// Runs a contract as `owner` on the newest state of a node.
async fn execute(
    line: &NodeLookup,
    owner: EvmAddress,
    contract: EvmAddress,
    data: &[u8],
) -> Result<ExecutedCall, NodeFailure> {
    let body = json!({
        "owner_address": hex_address(owner),
        "contract_address": hex_address(contract),
        "data": hex::encode(data),
    });
    let stated: StatedCallResult = line
        .call_api("wallet/triggerconstantcontract", &body, VALUE_BYTES_MAX)
        .await?;
    if let Some(code) = stated.result.code {
        let message = stated.result.message.unwrap_or_default();
        return Err(line.refused_call(&format!("{code} {}", text_of(&message))));
    }
    let bytes = stated.constant_result.first().map(hex::decode).transpose();
    let bytes = bytes.map_err(|_| NodeFailure::Unreadable("a contract result is not hexadecimal".to_owned()))?;
    let bytes = bytes.unwrap_or_default();
    let rets = stated.transaction.iter().flat_map(|transaction| &transaction.ret);
    let is_failed = rets.filter_map(|ret| ret.ret.as_deref()).any(|ret| ret == "FAILED");
    let returned =
        match stated.result.message {
            None if !is_failed => Ok(bytes),
            message => Err(Revert::abi_decode(&bytes)
                .map_or_else(|_| text_of(&message.unwrap_or_default()), |revert| revert.reason)),
        };
    Ok(ExecutedCall {
        energy: stated.energy_used,
        returned,
    })
}

/// The printable part of a text in hexadecimal digits; the text itself if it is none.
fn text_of(digits: &str) -> String {
    let bytes = hex::decode(digits).unwrap_or_else(|_| digits.as_bytes().to_vec());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The 21 bytes of an address in hexadecimal digits, as the API takes them.
fn hex_address(address: EvmAddress) -> String {
    format!("41{}", hex::encode(address))
}

async fn call<C: SolCall>(line: &NodeLookup, contract: EvmAddress, call: &C) -> Result<C::Return, NodeFailure> {
    let executed = execute(line, NO_ACCOUNT, contract, &call.abi_encode()).await?;
    let returned = executed.returned.map_err(NodeFailure::Reverted)?;
    C::abi_decode_returns_validate(&returned).map_err(|_| {
        NodeFailure::Untrue(format!(
            "contract {contract} returned no valid result for {}",
            C::SIGNATURE
        ))
    })
}

async fn account(line: &NodeLookup, address: EvmAddress) -> Result<StatedAccount, NodeFailure> {
    let body = json!({ "address": hex_address(address) });
    line.call_api("wallet/getaccount", &body, VALUE_BYTES_MAX).await
}

async fn prices(line: &NodeLookup) -> Result<ResourcePrices, NodeFailure> {
    let stated: StatedParameters = line
        .call_api("wallet/getchainparameters", &json!({}), VALUE_BYTES_MAX)
        .await?;
    let price = |key: &str| {
        let found = stated.parameters.iter().find(|parameter| parameter.key == key);
        let value = found.and_then(|parameter| u64::try_from(parameter.value).ok());
        value.ok_or_else(|| NodeFailure::Untrue(format!("the parameters of the chain lack {key}")))
    };
    Ok(ResourcePrices {
        energy_sun: price("getEnergyFee")?,
        bandwidth_sun: price("getTransactionFee")?,
    })
}

/// Whether the issuer of a token has frozen an account. Tokens spell the function in two ways, and some have none.
async fn is_blocked(line: &NodeLookup, token: EvmAddress, holder: EvmAddress) -> Result<bool, NodeFailure> {
    match call(line, token, &TronToken::isBlackListedCall { holder }).await {
        Err(NodeFailure::Reverted(_) | NodeFailure::Untrue(_)) => {}
        answer => return answer,
    }
    match call(line, token, &TronToken::isBlacklistedCall { holder }).await {
        Err(NodeFailure::Reverted(_) | NodeFailure::Untrue(_)) => Ok(false),
        answer => answer,
    }
}

#[async_trait]
impl StandingLookup for TronChain {
    async fn standing(
        &self,
        payer: Address,
        token: Option<Address>,
        spender: Address,
    ) -> Result<PayerBalance, ChainError> {
        let (owner, spender) = (payer.bytes(), spender.bytes());
        let question = |line: NodeLookup| async move {
            let native_balance = U256::from(account(&line, owner).await?.balance);
            let price = NetworkPrice::Resources(prices(&line).await?);
            let (balance, allowance) = match token {
                None => (native_balance, U256::ZERO),
                Some(token) => {
                    let token = token.bytes();
                    (
                        call(&line, token, &TronToken::balanceOfCall { owner }).await?,
                        call(&line, token, &TronToken::allowanceCall { owner, spender }).await?,
                    )
                }
            };
            Ok(PayerBalance {
                balance,
                native_balance,
                allowance,
                price,
            })
        };
        self.nodes.ask(self.nodes.lookup(), question).await
    }

    async fn balance(&self, owner: Address, token: Option<Address>) -> Result<U256, ChainError> {
        let bytes = owner.bytes();
        let question = |line: NodeLookup| async move {
            match token {
                Some(token) => call(&line, token.bytes(), &TronToken::balanceOfCall { owner: bytes }).await,
                None => Ok(U256::from(account(&line, bytes).await?.balance)),
            }
        };
        self.agreed(&format!("balance of {owner}"), question).await
    }

    async fn allowance(&self, owner: Address, token: Address, spender: Address) -> Result<U256, ChainError> {
        let (bytes, spender) = (owner.bytes(), spender.bytes());
        let question = |line: NodeLookup| async move {
            let allowance = TronToken::allowanceCall { owner: bytes, spender };
            call(&line, token.bytes(), &allowance).await
        };
        self.agreed(&format!("allowance of {owner}"), question).await
    }
}

#[async_trait]
impl PreparationLookup for TronChain {
    fn fallback_account(&self) -> Option<Address> {
        self.fallback_account
    }

    async fn reference_point(&self, now: DateTime<Utc>) -> Result<ReferencePoint, ChainError> {
        let now_ms = u64::try_from(now.timestamp_millis()).unwrap_or_default();
        let question = |line: NodeLookup| async move {
            let NodeTip { head, .. } = self.nodes.protocol().tip(&line, false).await?;
            let time_ms = head.time_s.saturating_mul(1_000);
            let age_ms = now_ms.saturating_sub(time_ms);
            if age_ms > REFERENCE_AGE_MAX_MS {
                return Err(NodeFailure::Unknown(format!(
                    "the newest block of the node is {} s old, too old for a transaction to refer to",
                    age_ms / 1_000
                )));
            }
            Ok(ReferencePoint {
                block: ReferenceBlock::of_block(&head.hash),
                time_ms,
            })
        };
        self.nodes.ask(self.nodes.lookup(), question).await
    }

    async fn resources(&self, holder: Address, token: Address) -> Result<PayerResources, ChainError> {
        let (holder, token) = (holder.bytes(), token.bytes());
        let question = |line: NodeLookup| async move {
            if account(&line, holder).await?.address.is_none() {
                return Ok(None);
            }
            let body = json!({ "address": hex_address(holder) });
            let stated: StatedResources = line
                .call_api("wallet/getaccountresource", &body, VALUE_BYTES_MAX)
                .await?;
            Ok(Some(PayerResources {
                is_activated: true,
                is_blocked: is_blocked(&line, token, holder).await?,
                energy: stated.energy_limit.saturating_sub(stated.energy_used),
                staked_bandwidth: stated.staked_limit.saturating_sub(stated.staked_used),
                free_bandwidth: stated.free_limit.saturating_sub(stated.free_used),
            }))
        };
        // A node that is behind may not know an account yet, so the account is unknown only if no node knows it.
        let known = self.nodes.ask_for(self.nodes.lookup(), question).await?;
        Ok(known.unwrap_or(PayerResources {
            is_activated: false,
            ..PayerResources::NONE
        }))
    }

    async fn simulate(&self, owner: Address, step: &PaymentTransaction) -> Result<StepSimulation, ChainError> {
        let question = |line: NodeLookup| async move {
            let executed = execute(&line, owner.bytes(), step.to.bytes(), &step.calldata).await?;
            Ok(match executed.returned {
                Ok(returned) if is_refused_approval(&step.calldata, &returned) => StepSimulation::Reverts {
                    reason: "the token returned false".to_owned(),
                },
                Ok(_) => StepSimulation::Succeeds {
                    energy: executed.energy,
                },
                Err(reason) => StepSimulation::Reverts { reason },
            })
        };
        self.nodes.ask(self.nodes.lookup(), question).await
    }
}

fn is_refused_approval(calldata: &[u8], returned: &[u8]) -> bool {
    calldata.starts_with(&TronToken::approveCall::SELECTOR)
        && TronToken::approveCall::abi_decode_returns(returned).is_ok_and(|is_approved| !is_approved)
}

impl TronChain {
    async fn agreed<F>(&self, what: &str, question: impl Fn(NodeLookup) -> F) -> Result<U256, ChainError>
    where
        F: Future<Output = Result<U256, NodeFailure>>,
    {
        let (nodes, wanted) = (&self.nodes, self.nodes.agreement);
        let elected = nodes.elect_by(what, wanted, U256::eq, Vec::new(), nodes.lookup(), question);
        Ok(elected.await?.0)
    }
}
