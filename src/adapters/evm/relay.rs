//! The account of this service on an EVM chain: its transactions are rehearsed, signed here and sent to the nodes.

use super::{
    EvmChain, Patience,
    node::{Failure, Line},
};
use crate::{
    domain::{
        address::Address,
        ids::Secret,
        paying::Step,
        permit::Permit,
        relay::{Bid, Market, Price, Unsigned},
    },
    ports::{
        chain::ChainError,
        relay::{Account, ContractState, Receipt, Relay, Sent},
    },
};
use alloy::{
    consensus::{SignableTransaction, TxEip1559},
    eips::eip2718::Encodable2718,
    primitives::{Address as EvmAddress, B256, Bytes, TxKind, U64, U128, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol,
    sol_types::SolCall,
};
use anyhow::Context;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::future::try_join3;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

sol! {
    interface RecurringState {
        function hasRole(bytes32 role, address account) view returns (bool);
        function paused() view returns (bool);
        function lastPaymentIndex(bytes32 digest) view returns (uint8);
    }
}

/// What a call is run on: the newest block may be older than a due time that has passed, the next one is not.
const NEXT_BLOCK: &str = "pending";

/// How nodes say that they have a transaction already.
const KNOWN: [&str; 3] = ["already known", "already imported", "known transaction"];

/// How they say that another one with its nonce is in a block.
const NONCE_USED: [&str; 2] = ["nonce too low", "nonce is too low"];

/// How they say that they hold one with its nonce that pays as much.
const UNDERPRICED: [&str; 1] = ["underpriced"];

/// How they say that the account cannot pay for it.
const UNAFFORDABLE: [&str; 1] = ["insufficient funds"];

/// The account of this service on an EVM chain.
pub(super) struct EvmRelay {
    chain: Arc<EvmChain>,
    key: PrivateKeySigner,
    chain_id: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReceipt {
    transaction_hash: B256,
    block_number: Option<U64>,
    status: Option<U64>,
}

#[derive(Deserialize)]
struct RawTime {
    timestamp: U64,
}

/// The key of an account, of 64 hexadecimal digits with or without `0x`. Errors: it is none; its text is not repeated.
pub fn signing_key(text: &Secret) -> anyhow::Result<PrivateKeySigner> {
    let bytes: Option<[u8; 32]> = hex::decode_to_array(text.reveal()).ok();
    let bytes = bytes.context("must have 64 hexadecimal digits")?;
    PrivateKeySigner::from_bytes(&B256::from(bytes))
        .ok()
        .context("must be a key of the curve secp256k1")
}

impl EvmRelay {
    /// The account of a key on a chain.
    pub(super) fn new(chain: Arc<EvmChain>, key: PrivateKeySigner) -> Self {
        let chain_id = chain.network.chain_id();
        Self { chain, key, chain_id }
    }

    /// Asks a contract a question with the answer yes or no. One that is not there, or knows no such question, says no.
    async fn says<C: SolCall<Return = bool>>(line: &Line, to: EvmAddress, call: C) -> Result<bool, Failure> {
        let request = json!({ "to": to, "data": Bytes::from(call.abi_encode()) });
        match line.call::<Bytes>("eth_call", (request, "latest")).await {
            Ok(answer) => Ok(C::abi_decode_returns_validate(&answer).unwrap_or(false)),
            Err(Failure::Reverted(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Asks a contract how many payments of a permit it has counted, in the state of a block.
    async fn count(line: Line, permit: &Permit, block: Value) -> Result<u8, Failure> {
        let call = RecurringState::lastPaymentIndexCall {
            digest: permit.digest(),
        };
        let request = json!({ "to": permit.contract.bytes(), "data": Bytes::from(call.abi_encode()) });
        let answer = line.call::<Bytes>("eth_call", (request, block)).await?;
        let count = RecurringState::lastPaymentIndexCall::abi_decode_returns_validate(&answer);
        count.map_err(|_| Failure::Untrue("a count of payments that is no number of 8 bits".to_owned()))
    }
}

#[async_trait]
impl Relay for EvmRelay {
    fn address(&self) -> Address {
        Address::Evm(self.key.address())
    }

    fn sign(&self, transaction: &Unsigned, now: DateTime<Utc>) -> anyhow::Result<Bid> {
        let Unsigned {
            nonce,
            step,
            gas_limit,
            price: Price { max_fee, tip },
        } = transaction;
        let unsigned = TxEip1559 {
            chain_id: self.chain_id,
            nonce: *nonce,
            gas_limit: *gas_limit,
            max_fee_per_gas: *max_fee,
            max_priority_fee_per_gas: *tip,
            to: TxKind::Call(step.to.bytes()),
            value: step.value,
            input: step.calldata.clone().into(),
            ..TxEip1559::default()
        };
        let signature = self.key.sign_hash_sync(&unsigned.signature_hash());
        let signed = unsigned.into_signed(signature.context("signing a transaction")?);
        Ok(Bid {
            price: transaction.price,
            tx_hash: *signed.hash(),
            raw: signed.encoded_2718(),
            signed_at: now,
        })
    }

    async fn account(&self) -> Result<Account, ChainError> {
        let address = self.key.address();
        let question = |line: Line| async move {
            let line = &line;
            let nonce = line.call::<U64>("eth_getTransactionCount", (address, "latest"));
            let balance = line.call::<U256>("eth_getBalance", (address, "latest"));
            let gas_price = line.call::<U128>("eth_gasPrice", ());
            let (nonce, balance, gas_price) = try_join3(nonce, balance, gas_price).await?;
            // Chains without tips have no such method.
            let tip = line.call::<U128>("eth_maxPriorityFeePerGas", ()).await;
            let tip = tip.map_or(gas_price, |tip| tip);
            Ok(Account {
                nonce: nonce.to(),
                is_agreed: true,
                balance,
                market: Market {
                    gas_price: gas_price.to(),
                    tip: tip.to(),
                },
            })
        };
        let wanted = self.chain.agreement_now();
        let answers = self.chain.ask_distinct(wanted, Patience::Thorough, &[], question).await;
        let told = answers.given.len();
        let lowest = answers
            .given
            .into_iter()
            .map(|(_, account)| account)
            .reduce(Account::lowest);
        let lowest = lowest.filter(|_| told >= wanted);
        lowest.ok_or_else(|| self.chain.sum_up(&answers.failures))
    }

    async fn counted(&self, former: Address) -> Result<u64, ChainError> {
        let former = former.bytes();
        let question =
            |line: Line| async move { line.call::<U64>("eth_getTransactionCount", (former, "latest")).await };
        let wanted = self.chain.agreement_now();
        let answers = self.chain.ask_distinct(wanted, Patience::Thorough, &[], question).await;
        let told = answers.given.len();
        let lowest = answers.given.into_iter().map(|(_, count)| count.to()).min();
        let lowest = lowest.filter(|_| told >= wanted);
        lowest.ok_or_else(|| self.chain.sum_up(&answers.failures))
    }

    async fn contract(&self, contract: Address) -> Result<ContractState, ChainError> {
        let (contract, account) = (contract.bytes(), self.key.address());
        let question = |line: Line| async move {
            let line = &line;
            let role = keccak256("RELAYER_ROLE");
            let admitted = Self::says(line, contract, RecurringState::hasRoleCall { role, account });
            let paused = Self::says(line, contract, RecurringState::pausedCall {});
            let time = line.call::<RawTime>("eth_getBlockByNumber", (NEXT_BLOCK, false));
            let (is_admitted, is_paused, time) = try_join3(admitted, paused, time).await?;
            Ok(ContractState {
                is_admitted,
                is_paused,
                time_s: time.timestamp.to(),
            })
        };
        self.chain.ask(self.chain.lookup(), question).await
    }

    async fn counted_next(&self, permit: &Permit) -> Result<u8, ChainError> {
        let question = |line| Self::count(line, permit, json!(NEXT_BLOCK));
        self.chain.ask(Patience::Thorough, question).await
    }

    async fn counted_by(&self, permit: &Permit, block: u64) -> Result<u8, ChainError> {
        let question = |line| Self::count(line, permit, json!(U64::from(block)));
        let wanted = self.chain.agreement_now();
        let answers = self.chain.ask_distinct(wanted, Patience::Thorough, &[], question).await;
        let told = answers.given.len();
        let lowest = answers.given.into_iter().map(|(_, count)| count).min();
        let lowest = lowest.filter(|_| told >= wanted);
        lowest.ok_or_else(|| self.chain.sum_up(&answers.failures))
    }

    async fn rehearse(&self, step: &Step) -> Result<u64, ChainError> {
        let from = self.key.address();
        let question = |line: Line| async move {
            let request = json!({
                "from": from,
                "to": step.to.bytes(),
                "data": Bytes::from(step.calldata.clone()),
            });
            // Only a call says of itself that the chain refuses it.
            line.call::<Bytes>("eth_call", (&request, NEXT_BLOCK)).await?;
            let gas = line.call::<U64>("eth_estimateGas", (&request, NEXT_BLOCK)).await?;
            Ok(gas.to())
        };
        self.chain.ask(Patience::Thorough, question).await
    }

    async fn send(&self, raw: &[u8]) -> Result<Sent, ChainError> {
        let question = |line: Line| async move {
            let sent = line.call::<B256>("eth_sendRawTransaction", [Bytes::copy_from_slice(raw)]);
            match sent.await {
                Ok(_) => Ok(Sent::Accepted),
                Err(Failure::Refused { code, message }) => {
                    let text = message.to_lowercase();
                    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
                    if says(&KNOWN) {
                        Ok(Sent::Accepted)
                    } else if says(&NONCE_USED) {
                        Ok(Sent::NonceUsed)
                    } else if says(&UNAFFORDABLE) {
                        Ok(Sent::Unaffordable)
                    } else if says(&UNDERPRICED) {
                        Ok(Sent::Underpriced)
                    } else {
                        Err(Failure::Refused { code, message })
                    }
                }
                Err(failure) => Err(failure),
            }
        };
        self.chain.ask(Patience::Thorough, question).await
    }

    async fn receipt(&self, tx_hashes: &[B256]) -> Result<Option<Receipt>, ChainError> {
        for tx_hash in tx_hashes {
            let question = |line: Line| async move {
                let receipt = line.call::<Option<RawReceipt>>("eth_getTransactionReceipt", [tx_hash]);
                let Some(receipt) = receipt.await? else { return Ok(None) };
                if receipt.transaction_hash != *tx_hash {
                    return Err(Failure::Untrue(format!(
                        "the receipt of another transaction for {tx_hash}"
                    )));
                }
                let mined = receipt.block_number.zip(receipt.status);
                Ok(mined.map(|(block_number, status)| Receipt {
                    tx_hash: *tx_hash,
                    block_number: block_number.to(),
                    succeeded: status.to::<u64>() == 1,
                }))
            };
            if let Some(receipt) = self.chain.ask_for(Patience::Thorough, question).await? {
                return Ok(Some(receipt));
            }
        }
        Ok(None)
    }
}
