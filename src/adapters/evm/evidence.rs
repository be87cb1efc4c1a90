//! Evidence: recomputes the content of a block from an agreed header instead of trusting nodes.
//!
//! This module makes no lookups. The hash of a header proves the header. The two roots of the header prove the receipts
//! and transactions of the block. Without roots that can be recomputed, equal responses of distinct nodes count as the
//! proof. Source: ADR-0012.

use super::receipts::{EncodedTransaction, RawReceipt, RawTransaction, StatedReceipt, StatedTransaction, read};
use crate::{
    adapters::nodes::{
        protocol::IsWanted,
        proven::{Proof, ProvenHeader, SettledTx, UnprovenContent},
        wire::{RawLog, bloom_of},
    },
    domain::network::Network,
};
use alloy::{
    consensus::{Header, proofs::ordered_trie_root_encoded},
    primitives::{B256, Bloom, Keccak256, U64, keccak256},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// Polygon nodes add a transaction to a block that neither root covers. Its hash is the hash of this prefix, followed
/// by height and hash of the block. Source: ADR-0012.
const STATE_SYNC_PREFIX: &[u8] = b"matic-bor-receipt-";

/// Type of the Polygon transaction that delivers messages from Ethereum. Source: ADR-0012.
const STATE_SYNC_TYPE: u64 = 0x7f;

/// How the blocks of a network are proven. Exception: a block with [`UnprovenContent::Unknown`] content is proven by
/// equal responses of distinct nodes even on a network with roots.
///
/// Source: ADR-0012.
pub(super) const fn proof_of(network: Network) -> Proof {
    match network {
        Network::Mainnet | Network::Sepolia | Network::Optimism | Network::Base | Network::Bsc | Network::Matic => {
            Proof::Roots
        }
        Network::ArbitrumOne | Network::Tron => Proof::Agreement,
    }
}

/// A header whose hash was recomputed from its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EvmHeader {
    /// Height.
    pub(super) number: u64,
    /// Hash.
    pub(super) hash: B256,
    parent_hash: B256,
    time_s: u64,
    logs_bloom: Bloom,
    receipts_root: B256,
    transactions_root: B256,
}

impl EvmHeader {
    /// The header in the form of all families of chains.
    pub(super) fn proven(&self) -> ProvenHeader {
        ProvenHeader {
            number: self.number,
            hash: self.hash,
            parent_hash: self.parent_hash,
            time_s: self.time_s,
            logs_bloom: Some(self.logs_bloom),
        }
    }
}

#[derive(Deserialize)]
struct StatedTransactionHash {
    hash: B256,
}

fn untrue<T>(reason: impl fmt::Display) -> Result<T, UnprovenContent> {
    Err(UnprovenContent::Untrue(reason.to_string()))
}

/// Recomputes the hash of a header. `raw` is what `eth_getBlockByNumber` or `eth_getBlockByHash` returned, with or
/// without full transactions.
///
/// A header with unknown fields has another hash and is rejected.
pub(super) fn header(raw: &RawValue) -> Result<EvmHeader, UnprovenContent> {
    let StatedTransactionHash { hash } = read(raw, "a block")?;
    let fields: Header = read(raw, "the header of a block")?;
    let recomputed = fields.hash_slow();
    if recomputed != hash {
        return untrue(format_args!(
            "the header fields of block {} have the hash {recomputed}, but the node states {hash}",
            fields.number
        ));
    }
    Ok(EvmHeader {
        number: fields.number,
        hash,
        parent_hash: fields.parent_hash,
        time_s: fields.timestamp,
        logs_bloom: fields.logs_bloom,
        receipts_root: fields.receipts_root,
        transactions_root: fields.transactions_root,
    })
}

/// Transactions and receipts of a block from one node, in pairs that match each other and the header.
struct StatedContents<'a> {
    pairs: Vec<(&'a RawValue, StatedTransaction, StatedReceipt)>,
}

impl<'a> StatedContents<'a> {
    fn read(
        header: &EvmHeader,
        transactions: &'a [RawTransaction],
        receipts: &[RawReceipt],
        network: Network,
    ) -> Result<Self, UnprovenContent> {
        let added = (network == Network::Matic).then(|| added_hash(header));
        let transactions = match transactions.split_last() {
            Some((last, before)) if Some(last.hash) == added => before,
            _ => transactions,
        };
        let receipts = match receipts.split_last() {
            Some((last, before)) if Some(last.tx_hash) == added => before,
            _ => receipts,
        };
        if transactions.len() != receipts.len() {
            return untrue(format_args!(
                "{} receipts were returned for {} transactions of block {}",
                receipts.len(),
                transactions.len(),
                header.number
            ));
        }
        let mut pairs = Vec::with_capacity(transactions.len());
        let mut log_index = 0;
        for (index, (RawTransaction { raw, .. }, receipt)) in (0..).zip(transactions.iter().zip(receipts)) {
            let transaction: StatedTransaction = read(raw, "a transaction")?;
            let mut receipt: StatedReceipt = read(&receipt.raw, "a receipt")?;
            let place = TransactionPosition {
                header,
                tx_hash: transaction.hash,
                index,
            };
            place.check(&transaction, &receipt)?;
            for log in &mut receipt.logs {
                place.put(log, log_index)?;
                log_index += 1;
            }
            pairs.push((raw.as_ref(), transaction, receipt));
        }
        Ok(Self { pairs })
    }
}

/// Hash of the transaction that Polygon's nodes add to a block.
fn added_hash(header: &EvmHeader) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(STATE_SYNC_PREFIX);
    hasher.update(header.number.to_be_bytes());
    hasher.update(header.hash);
    hasher.finalize()
}

/// Position of a transaction.
struct TransactionPosition<'a> {
    header: &'a EvmHeader,
    tx_hash: B256,
    index: u64,
}

impl TransactionPosition<'_> {
    /// Rejects a transaction and receipt that do not match each other, or that state another position.
    fn check(&self, transaction: &StatedTransaction, receipt: &StatedReceipt) -> Result<(), UnprovenContent> {
        let is_here = |hash: Option<B256>, number: Option<U64>, index: Option<U64>| {
            hash.is_none_or(|hash| hash == self.header.hash)
                && number.is_none_or(|number| number == U64::from(self.header.number))
                && index.is_none_or(|index| index == U64::from(self.index))
        };
        let transaction_is_here = is_here(
            transaction.block_hash,
            transaction.block_number,
            transaction.transaction_index,
        );
        let receipt_is_here = is_here(
            Some(receipt.block_hash),
            Some(receipt.block_number),
            Some(receipt.transaction_index),
        );
        let is_pair = receipt.transaction_hash == self.tx_hash
            && receipt.from == transaction.from
            && receipt.to == transaction.to
            && receipt.kind == transaction.kind;
        if transaction_is_here && receipt_is_here && is_pair {
            return Ok(());
        }
        untrue(format_args!(
            "transaction {} does not match its receipt, or one of them does not state position {} in block {}",
            self.tx_hash, self.index, self.header.number
        ))
    }

    /// Sets the position of an event, and rejects an event that states another position.
    fn put(&self, log: &mut RawLog, log_index: u64) -> Result<(), UnprovenContent> {
        let placed = RawLog {
            address: log.address,
            topics: std::mem::take(&mut log.topics),
            data: std::mem::take(&mut log.data),
            block_hash: Some(self.header.hash),
            block_number: Some(U64::from(self.header.number)),
            transaction_hash: Some(self.tx_hash),
            transaction_index: Some(U64::from(self.index)),
            log_index: Some(U64::from(log_index)),
            removed: false,
        };
        let is_here = !log.removed
            && (log.block_hash.is_none() || log.block_hash == placed.block_hash)
            && (log.block_number.is_none() || log.block_number == placed.block_number)
            && (log.transaction_hash.is_none() || log.transaction_hash == placed.transaction_hash)
            && (log.transaction_index.is_none() || log.transaction_index == placed.transaction_index)
            && (log.log_index.is_none() || log.log_index == placed.log_index);
        *log = placed;
        if is_here {
            return Ok(());
        }
        untrue(format_args!(
            "event {log_index} of block {} states another block, transaction or index",
            self.header.number
        ))
    }
}

fn proven(transaction: StatedTransaction, receipt: StatedReceipt, index: u64) -> Result<SettledTx, UnprovenContent> {
    Ok(SettledTx {
        tx_hash: transaction.hash,
        index,
        succeeded: receipt.succeeded()?,
        from: transaction.from,
        to: transaction.to,
        value: transaction.value,
        input: transaction.input,
        logs: receipt.logs,
    })
}

/// Rejects a transaction whose hash, callee or sender does not match its bytes.
fn check_form(form: &EncodedTransaction, bytes: &[u8], stated: &StatedTransaction) -> Result<(), UnprovenContent> {
    if keccak256(bytes) != stated.hash || form.to() != stated.to {
        return untrue(format_args!(
            "the bytes of transaction {} do not match its stated hash or callee",
            stated.hash
        ));
    }
    if form.sender()? != stated.from {
        return untrue(format_args!(
            "the sender of transaction {} does not match its signature",
            stated.hash
        ));
    }
    Ok(())
}

/// Proves transactions and receipts of a whole block by the roots in its header. The node must return every transaction
/// and receipt: an omission, repetition, reordering or change gives another root.
///
/// Returns the wanted transactions, in block order. Every receipt is proven. Senders are recovered only
/// for the returned transactions, because recovery takes longer than all other steps.
///
/// Source: ADR-0012.
pub(super) fn settle_by_roots(
    header: &EvmHeader,
    transactions: &[RawTransaction],
    receipts: &[RawReceipt],
    network: Network,
    is_wanted: IsWanted<'_>,
) -> Result<Vec<SettledTx>, UnprovenContent> {
    let StatedContents { pairs } = StatedContents::read(header, transactions, receipts, network)?;
    let mut forms = Vec::with_capacity(pairs.len());
    let (mut transaction_bytes, mut receipt_bytes) = (Vec::new(), Vec::new());
    for (raw, transaction, receipt) in &pairs {
        let form = EncodedTransaction::of(raw, transaction, network)?;
        transaction_bytes.push(form.encoded());
        receipt_bytes.push(receipt.encoded());
        forms.push(form);
    }
    for (what, root, bytes) in [
        ("transactions", header.transactions_root, &transaction_bytes),
        ("receipts", header.receipts_root, &receipt_bytes),
    ] {
        let recomputed = ordered_trie_root_encoded(bytes);
        if recomputed != root {
            return untrue(format_args!(
                "the {what} of block {} have the trie root {recomputed}, but the header states {root}",
                header.number
            ));
        }
    }
    let mut settled = Vec::new();
    let proofs = forms.iter().zip(&transaction_bytes);
    for (index, ((_, transaction, receipt), (form, bytes))) in (0..).zip(pairs.into_iter().zip(proofs)) {
        if is_wanted(&receipt.transaction_hash, &receipt.logs) {
            check_form(form, bytes, &transaction)?;
            settled.push(proven(transaction, receipt, index)?);
        }
    }
    Ok(settled)
}

/// Reads a block from one node, checked as far as possible without roots: hashes and senders of known types, and
/// whether the events match the bloom filter of the header. The result is valid if as many distinct nodes as must agree
/// return an equal block; the caller compares their blocks. Returns the same as [`settle_by_roots`].
///
/// Source: ADR-0012.
pub(super) fn settle_by_word(
    header: &EvmHeader,
    transactions: &[RawTransaction],
    receipts: &[RawReceipt],
    network: Network,
    is_wanted: IsWanted<'_>,
) -> Result<Vec<SettledTx>, UnprovenContent> {
    let StatedContents { pairs } = StatedContents::read(header, transactions, receipts, network)?;
    let mut told = Bloom::ZERO;
    let mut settled = Vec::new();
    for (index, (raw, transaction, receipt)) in (0..).zip(pairs) {
        let bloom = bloom_of(&receipt.logs);
        // Polygon may leave the events of messages from Ethereum out of the bloom filter.
        if receipt.kind != U64::from(STATE_SYNC_TYPE) && !header.logs_bloom.contains(&bloom) {
            return untrue(format_args!(
                "transaction {} has events that are not in the bloom filter of block {}",
                transaction.hash, header.number
            ));
        }
        told |= bloom;
        if !is_wanted(&receipt.transaction_hash, &receipt.logs) {
            continue;
        }
        match EncodedTransaction::of(raw, &transaction, network) {
            Ok(form) => check_form(&form, &form.encoded(), &transaction)?,
            Err(UnprovenContent::Unknown(_)) => {}
            Err(failure) => return Err(failure),
        }
        settled.push(proven(transaction, receipt, index)?);
    }
    if !told.contains(&header.logs_bloom) {
        return untrue(format_args!(
            "the bloom filter of block {} announces events that the node did not return",
            header.number
        ));
    }
    Ok(settled)
}

#[cfg(test)]
mod tests;
