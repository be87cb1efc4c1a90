//! The content of a block of Tron, checked against its header.
//!
//! The header proves the transactions of its block, with their signatures and whether they succeeded. It does not prove
//! their events: these are a node's word, which counts if as many distinct nodes as must agree return equal events. The
//! event of a direct call of a payment contract must also repeat the proven call.

use super::wire::{StatedTronInfo, StatedTronTransaction};
use crate::{
    adapters::nodes::{
        protocol::{BlockContent, IsWanted},
        proven::{Proof, ProvenHeader, SettledTx, UnprovenContent},
        wire::RawLog,
    },
    domain::tron::{ContractResult, StoredCall, StoredTransaction, transactions_root},
};
use alloy::{
    primitives::{Address as EvmAddress, B256, U256, keccak256},
    sol,
    sol_types::{SolCall, SolEvent},
};
use std::fmt;

sol! {
    interface TronFeeProxy {
        event TransferWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
        function transferFromWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes paymentReference, uint256 feeAmount, address feeAddress);
    }
}

/// Transactions and results of a block from a node.
pub(super) struct TronContent {
    pub(super) header: ProvenHeader,
    pub(super) transactions_root: B256,
    pub(super) transactions: Vec<StatedTronTransaction>,
    pub(super) infos: Vec<StatedTronInfo>,
    /// Payment contracts of the network.
    pub(super) proxies: Vec<EvmAddress>,
}

fn untrue<T>(reason: impl fmt::Display) -> Result<T, UnprovenContent> {
    Err(UnprovenContent::Untrue(reason.to_string()))
}

impl BlockContent for TronContent {
    fn count_transactions(&self) -> usize {
        self.transactions.len()
    }

    fn prove(&self, _: Proof, is_wanted: IsWanted<'_>) -> Result<Vec<SettledTx>, UnprovenContent> {
        let stored = self.stored()?;
        if self.infos.len() != stored.len() {
            return untrue(format_args!(
                "{} results were returned for {} transactions of block {}",
                self.infos.len(),
                stored.len(),
                self.header.number
            ));
        }
        let (mut settled, mut first_log) = (Vec::new(), 0);
        for (index, (transaction, info)) in (0_u64..).zip(stored.iter().zip(&self.infos)) {
            if info.id != transaction.tx_id() || info.block_number != self.header.number {
                return untrue(format_args!(
                    "result {index} of block {} belongs to another transaction or block",
                    self.header.number
                ));
            }
            let logs = info
                .logs(&self.header, index, first_log)
                .map_err(UnprovenContent::Untrue)?;
            first_log += info.count_logs();
            if is_wanted(&info.id, &logs) || self.is_direct_call(transaction) {
                let proven = self.prove_one(transaction, info, index, logs)?;
                settled.extend(Some(proven).filter(|proven| is_wanted(&proven.tx_hash, &proven.logs)));
            }
        }
        Ok(settled)
    }
}

impl TronContent {
    /// The transactions, proven by the root in the header.
    fn stored(&self) -> Result<Vec<StoredTransaction>, UnprovenContent> {
        let stored: Option<Vec<_>> = self.transactions.iter().map(StatedTronTransaction::stored).collect();
        let Some(stored) = stored else {
            return Err(UnprovenContent::Unknown(format!(
                "block {} has a transaction with an unknown result, so its root cannot be recomputed",
                self.header.number
            )));
        };
        let leaves: Vec<B256> = stored.iter().map(StoredTransaction::leaf).collect();
        let recomputed = transactions_root(&leaves);
        if recomputed != self.transactions_root {
            return untrue(format_args!(
                "the transactions of block {} have the root {recomputed}, but the header states {}",
                self.header.number, self.transactions_root
            ));
        }
        Ok(stored)
    }

    fn is_direct_call(&self, transaction: &StoredTransaction) -> bool {
        let contract = transaction.read_call().and_then(|call| call.contract);
        contract.is_some_and(|contract| self.proxies.contains(&contract))
    }

    fn prove_one(
        &self,
        transaction: &StoredTransaction,
        info: &StatedTronInfo,
        index: u64,
        logs: Vec<RawLog>,
    ) -> Result<SettledTx, UnprovenContent> {
        let [result] = transaction.results.as_slice() else {
            return Err(UnprovenContent::Unknown(format!(
                "transaction {} has several results",
                info.id
            )));
        };
        let succeeded = !result.is_failed && result.contract_result == ContractResult::Success;
        if !info.agrees_with(succeeded, result.contract_result) {
            return untrue(format_args!(
                "the result of transaction {} is another one than the proven one",
                info.id
            ));
        }
        let Some(call) = transaction.read_call() else {
            return Err(UnprovenContent::Unknown(format!(
                "transaction {} has an unknown form",
                info.id
            )));
        };
        if succeeded {
            self.check_direct_call(&call, info.id, &logs)?;
        }
        Ok(SettledTx {
            tx_hash: info.id,
            index,
            succeeded,
            from: call.owner,
            to: call.contract,
            value: U256::from(call.value_sun),
            input: call.data,
            logs,
        })
    }

    /// Rejects events of a payment contract that differ from a proven direct call of this contract.
    fn check_direct_call(&self, call: &StoredCall, tx_hash: B256, logs: &[RawLog]) -> Result<(), UnprovenContent> {
        let Some(contract) = call.contract.filter(|contract| self.proxies.contains(contract)) else {
            return Ok(());
        };
        // The contract rejects calls that it cannot decode, and other functions emit other events.
        let Ok(paid) = TronFeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&call.data) else {
            return Ok(());
        };
        let event = TronFeeProxy::TransferWithReferenceAndFee {
            tokenAddress: paid.tokenAddress,
            to: paid.to,
            amount: paid.amount,
            paymentReference: keccak256(&paid.paymentReference),
            feeAmount: paid.feeAmount,
            feeAddress: paid.feeAddress,
        };
        let expected = event.encode_log_data();
        // A token that the payer chose can call the contract again, so there may be further events.
        let repeats_call =
            |log: &RawLog| log.address == contract && log.topics == expected.topics() && log.data == expected.data;
        if !logs.iter().any(repeats_call) {
            return untrue(format_args!(
                "transaction {tx_hash} calls a payment contract, but no event repeats the proven call"
            ));
        }
        Ok(())
    }
}
