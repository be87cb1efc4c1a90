//! Lookups on accounts and contracts of Tron.
//!
//! The API runs a contract only on its newest state, so nodes that are a block apart may return different values. It
//! takes one call at a time, so the calls of a lookup are sent side by side: one after the other, they would need more
//! than the time that a waiting caller has for a node.

use super::TronChain;
use crate::{
    adapters::nodes::{
        locked::{locked, store},
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
use futures_util::future::{try_join, try_join3};
use serde::Deserialize;
use serde_json::json;
use std::sync::{Mutex, PoisonError};

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
    let returned = match stated.result.message {
        None if !is_failed => Ok(bytes),
        message => {
            let reason = Revert::abi_decode(&bytes).map(|revert| revert.reason);
            let reason = reason.unwrap_or_else(|_| text_of(&message.unwrap_or_default()));
            // The reason is returned to callers.
            Err(line.without_secrets(&reason))
        }
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
            let of_token = async {
                let Some(token) = token.map(|token| token.bytes()) else {
                    return Ok(None);
                };
                let (balance, allowance) = (
                    TronToken::balanceOfCall { owner },
                    TronToken::allowanceCall { owner, spender },
                );
                try_join(call(&line, token, &balance), call(&line, token, &allowance))
                    .await
                    .map(Some)
            };
            let (account, prices, of_token) = try_join3(account(&line, owner), prices(&line), of_token).await?;
            let native_balance = U256::from(account.balance);
            let (balance, allowance) = of_token.unwrap_or((native_balance, U256::ZERO));
            Ok(PayerBalance {
                balance,
                native_balance,
                allowance,
                price: NetworkPrice::Resources(prices),
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
            let age_ms = now_ms.abs_diff(time_ms);
            if age_ms > REFERENCE_AGE_MAX_MS {
                return Err(NodeFailure::Unknown(format!(
                    "the newest block of the node is {} s {}, so no transaction refers to it",
                    age_ms / 1_000,
                    if time_ms < now_ms {
                        "old"
                    } else {
                        "ahead of the clock of this machine"
                    }
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
        // What refuses a payer counts only if no node contradicts it: a node may be behind, or lie.
        let refusing = &Mutex::new(PayerResources {
            is_activated: false,
            ..PayerResources::NONE
        });
        let question = |line: NodeLookup| async move {
            let body = json!({ "address": hex_address(holder) });
            let stated = line.call_api("wallet/getaccountresource", &body, VALUE_BYTES_MAX);
            let (account, stated, is_blocked) =
                try_join3(account(&line, holder), stated, is_blocked(&line, token, holder)).await?;
            let stated: StatedResources = stated;
            let resources = account.address.map(|_| PayerResources {
                is_activated: true,
                is_blocked,
                energy: stated.energy_limit.saturating_sub(stated.energy_used),
                staked_bandwidth: stated.staked_limit.saturating_sub(stated.staked_used),
                free_bandwidth: stated.free_limit.saturating_sub(stated.free_used),
            });
            match resources {
                Some(blocked) if is_blocked => store(refusing, blocked),
                usable => return Ok(usable),
            }
            Ok(None)
        };
        let usable = self.nodes.ask_for(self.nodes.lookup(), question).await?;
        Ok(usable.unwrap_or_else(|| locked(refusing)))
    }

    async fn simulate(&self, owner: Address, step: &PaymentTransaction) -> Result<StepSimulation, ChainError> {
        // A revert counts only if the call succeeds on no node.
        let reasons = Mutex::new(String::new());
        let reason = &reasons;
        let question = |line: NodeLookup| async move {
            let executed = execute(&line, owner.bytes(), step.to.bytes(), &step.calldata).await?;
            let refused = match executed.returned {
                Ok(returned) if is_refused_approval(&step.calldata, &returned) => "the token returned false".to_owned(),
                Ok(_) => return Ok(Some(executed.energy)),
                Err(reason) => reason,
            };
            store(reason, refused);
            Ok(None)
        };
        let energy = self.nodes.ask_for(self.nodes.lookup(), question).await?;
        Ok(match energy {
            Some(energy) => StepSimulation::Succeeds { energy },
            None => StepSimulation::Reverts {
                reason: reasons.into_inner().unwrap_or_else(PoisonError::into_inner),
            },
        })
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
