//! The relayer account of this service on an EVM chain: transactions are simulated, signed here and sent to the nodes.

use crate::{
    adapters::nodes::{
        LookupTimeout, NodeChain,
        node::{NodeFailure, NodeLookup},
    },
    domain::{
        address::Address,
        ids::Secret,
        paying::PaymentTransaction,
        permit::Permit,
        relay::{Bid, GasMarket, GasPrice, UnsignedTransaction},
    },
    ports::{
        chain::ChainError,
        relay::{ContractState, Receipt, Relay, RelayAccount, SendResult},
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

/// Block tag for simulations. The newest block may be older than a due time that has passed; the pending block is not.
const NEXT_BLOCK: &str = "pending";

/// Node messages for a transaction that is already known.
const KNOWN: [&str; 3] = ["already known", "already imported", "known transaction"];

/// Node messages for a used nonce.
const NONCE_USED: [&str; 2] = ["nonce too low", "nonce is too low"];

/// Node messages for a pending transaction with the same nonce and at least the same price.
const UNDERPRICED: [&str; 1] = ["underpriced"];

/// Node messages for insufficient balance.
const UNAFFORDABLE: [&str; 1] = ["insufficient funds"];

/// The relayer account of this service on an EVM chain.
pub(super) struct EvmRelay {
    chain: Arc<NodeChain>,
    key: PrivateKeySigner,
    chain_id: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RelayReceipt {
    transaction_hash: B256,
    block_number: Option<U64>,
    status: Option<U64>,
}

#[derive(Deserialize)]
struct RawTime {
    timestamp: U64,
}

/// The key of an account, 64 hexadecimal digits with or without `0x`. Errors: the key is invalid. The error does not
/// contain the key.
pub fn signing_key(text: &Secret) -> anyhow::Result<PrivateKeySigner> {
    let bytes: Option<[u8; 32]> = hex::decode_to_array(text.reveal()).ok();
    let bytes = bytes.context("must have 64 hexadecimal digits")?;
    PrivateKeySigner::from_bytes(&B256::from(bytes))
        .ok()
        .context("must be a valid secp256k1 private key")
}

impl EvmRelay {
    /// The account that signs with this key on this chain.
    pub(super) fn new(chain: Arc<NodeChain>, key: PrivateKeySigner) -> Self {
        let chain_id = chain.network.chain_id();
        Self { chain, key, chain_id }
    }

    /// Calls a contract function that returns a boolean. A missing contract or function returns false.
    async fn says<C: SolCall<Return = bool>>(line: &NodeLookup, to: EvmAddress, call: C) -> Result<bool, NodeFailure> {
        let request = json!({ "to": to, "data": Bytes::from(call.abi_encode()) });
        match line.call::<Bytes>("eth_call", (request, "latest")).await {
            Ok(answer) => Ok(C::abi_decode_returns_validate(&answer).unwrap_or(false)),
            Err(NodeFailure::Reverted(_)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Reads how many payments of a permit the contract has counted, at the given block.
    async fn count(line: NodeLookup, permit: &Permit, block: Value) -> Result<u8, NodeFailure> {
        let call = RecurringState::lastPaymentIndexCall {
            digest: permit.digest(),
        };
        let request = json!({ "to": permit.contract.bytes(), "data": Bytes::from(call.abi_encode()) });
        let answer = line.call::<Bytes>("eth_call", (request, block)).await?;
        let count = RecurringState::lastPaymentIndexCall::abi_decode_returns_validate(&answer);
        count.map_err(|_| {
            NodeFailure::Untrue("the contract returned a payment count that is not an 8-bit number".to_owned())
        })
    }
}

#[async_trait]
impl Relay for EvmRelay {
    fn address(&self) -> Address {
        Address::Evm(self.key.address())
    }

    fn sign(&self, transaction: &UnsignedTransaction, now: DateTime<Utc>) -> anyhow::Result<Bid> {
        let UnsignedTransaction {
            nonce,
            step,
            gas_limit,
            price: GasPrice { max_fee, tip },
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

    async fn account(&self) -> Result<RelayAccount, ChainError> {
        let address = self.key.address();
        let question = |line: NodeLookup| async move {
            let line = &line;
            let nonce = line.call::<U64>("eth_getTransactionCount", (address, "latest"));
            let balance = line.call::<U256>("eth_getBalance", (address, "latest"));
            let gas_price = line.call::<U128>("eth_gasPrice", ());
            let (nonce, balance, gas_price) = try_join3(nonce, balance, gas_price).await?;
            // Chains without priority fees do not have this method.
            let tip = line.call::<U128>("eth_maxPriorityFeePerGas", ()).await;
            let tip = tip.map_or(gas_price, |tip| tip);
            Ok(RelayAccount {
                nonce: nonce.to(),
                is_agreed: true,
                balance,
                market: GasMarket {
                    gas_price: gas_price.to(),
                    tip: tip.to(),
                },
            })
        };
        let wanted = self.chain.agreement_now();
        let answers = self
            .chain
            .ask_distinct(wanted, LookupTimeout::Thorough, &[], question)
            .await;
        let told = answers.given.len();
        let lowest = answers
            .given
            .into_iter()
            .map(|(_, account)| account)
            .reduce(RelayAccount::lowest);
        let lowest = lowest.filter(|_| told >= wanted);
        lowest.ok_or_else(|| self.chain.sum_up(&answers.failures))
    }

    async fn counted(&self, former: Address) -> Result<u64, ChainError> {
        let former = former.bytes();
        let question =
            |line: NodeLookup| async move { line.call::<U64>("eth_getTransactionCount", (former, "latest")).await };
        let wanted = self.chain.agreement_now();
        let answers = self
            .chain
            .ask_distinct(wanted, LookupTimeout::Thorough, &[], question)
            .await;
        let told = answers.given.len();
        let lowest = answers.given.into_iter().map(|(_, count)| count.to()).min();
        let lowest = lowest.filter(|_| told >= wanted);
        lowest.ok_or_else(|| self.chain.sum_up(&answers.failures))
    }

    async fn contract(&self, contract: Address) -> Result<ContractState, ChainError> {
        let (contract, account) = (contract.bytes(), self.key.address());
        let question = |line: NodeLookup| async move {
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
        self.chain.ask(LookupTimeout::Thorough, question).await
    }

    async fn counted_by(&self, permit: &Permit, block: u64) -> Result<u8, ChainError> {
        let question = |line| Self::count(line, permit, json!(U64::from(block)));
        let wanted = self.chain.agreement_now();
        let answers = self
            .chain
            .ask_distinct(wanted, LookupTimeout::Thorough, &[], question)
            .await;
        let told = answers.given.len();
        let lowest = answers.given.into_iter().map(|(_, count)| count).min();
        let lowest = lowest.filter(|_| told >= wanted);
        lowest.ok_or_else(|| self.chain.sum_up(&answers.failures))
    }

    async fn rehearse(&self, step: &PaymentTransaction) -> Result<u64, ChainError> {
        let from = self.key.address();
        let question = |line: NodeLookup| async move {
            let request = json!({
                "from": from,
                "to": step.to.bytes(),
                "data": Bytes::from(step.calldata.clone()),
            });
            // `eth_call` runs first, because only an error of `eth_call` counts as a rejection by the chain.
            line.call::<Bytes>("eth_call", (&request, NEXT_BLOCK)).await?;
            let gas = line.call::<U64>("eth_estimateGas", (&request, NEXT_BLOCK)).await?;
            Ok(gas.to())
        };
        self.chain.ask(LookupTimeout::Thorough, question).await
    }

    async fn send(&self, raw: &[u8]) -> Result<SendResult, ChainError> {
        let question = |line: NodeLookup| async move {
            let sent = line.call::<B256>("eth_sendRawTransaction", [Bytes::copy_from_slice(raw)]);
            match sent.await {
                Ok(_) => Ok(SendResult::Accepted),
                Err(NodeFailure::Refused { code, message }) => {
                    let text = message.to_lowercase();
                    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
                    if says(&KNOWN) {
                        Ok(SendResult::Accepted)
                    } else if says(&NONCE_USED) {
                        Ok(SendResult::NonceUsed)
                    } else if says(&UNAFFORDABLE) {
                        Ok(SendResult::Unaffordable)
                    } else if says(&UNDERPRICED) {
                        Ok(SendResult::Underpriced)
                    } else {
                        Err(NodeFailure::Refused { code, message })
                    }
                }
                Err(failure) => Err(failure),
            }
        };
        self.chain.ask(LookupTimeout::Thorough, question).await
    }

    async fn receipt(&self, tx_hashes: &[B256]) -> Result<Option<Receipt>, ChainError> {
        for tx_hash in tx_hashes {
            let question = |line: NodeLookup| async move {
                let receipt = line.call::<Option<RelayReceipt>>("eth_getTransactionReceipt", [tx_hash]);
                let Some(receipt) = receipt.await? else { return Ok(None) };
                if receipt.transaction_hash != *tx_hash {
                    return Err(NodeFailure::Untrue(format!(
                        "the node returned the receipt of another transaction for {tx_hash}"
                    )));
                }
                let mined = receipt.block_number.zip(receipt.status);
                Ok(mined.map(|(block_number, status)| Receipt {
                    tx_hash: *tx_hash,
                    block_number: block_number.to(),
                    succeeded: status.to::<u64>() == 1,
                }))
            };
            if let Some(receipt) = self.chain.ask_for(LookupTimeout::Thorough, question).await? {
                return Ok(Some(receipt));
            }
        }
        Ok(None)
    }
}
