//! Evidence: what follows from an agreed header, recomputed instead of believed.
//!
//! Nothing here asks a node. A header proves itself by its hash; receipts and transactions of its block prove themselves
//! by its two roots, or, where those cannot be recomputed, by the equal answers of distinct nodes. Source: ADR-0012.

use super::{
    receipts::{Form, RawReceipt, RawTransaction, StatedReceipt, StatedTransaction, Unproven, read},
    wire::{RawLog, bloom_of},
};
use crate::domain::network::Network;
use alloy::{
    consensus::{Header, proofs::ordered_trie_root_encoded},
    primitives::{Address, B256, Bloom, Bytes, Keccak256, U64, keccak256},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// What Polygon hashes, with height and hash of the block, to name the transaction that nodes add to a block although
/// neither root covers it. Source: ADR-0012.
const STATE_SYNC_PREFIX: &[u8] = b"matic-bor-receipt-";

/// Type of the transaction of Polygon that brings messages of Ethereum. Source: ADR-0012.
const STATE_SYNC_TYPE: u64 = 0x7f;

/// How the events of a block are proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// By the roots in the header: one answer proves itself.
    Roots,
    /// By equal answers of as many distinct nodes as have to agree.
    Agreement,
}

/// How the blocks of a network are proven. A block of a network with roots that holds [`Unproven::Unknown`] is settled
/// by agreement.
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
pub(super) struct ProvenHeader {
    /// Height.
    pub(super) number: u64,
    /// Hash.
    pub(super) hash: B256,
    /// Hash of the parent.
    pub(super) parent_hash: B256,
    /// Unix seconds.
    pub(super) time_s: u64,
    /// Which addresses and topics the events of the block may have.
    pub(super) logs_bloom: Bloom,
    /// Root of the receipts.
    pub(super) receipts_root: B256,
    /// Root of the transactions.
    pub(super) transactions_root: B256,
}

/// What one transaction did, proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProvenTx {
    /// Hash.
    pub(super) tx_hash: B256,
    /// Index in its block.
    pub(super) index: u64,
    /// Whether it did what it was sent for.
    pub(super) succeeded: bool,
    /// Sender.
    pub(super) from: Address,
    /// Called contract; `None` when one was created.
    pub(super) to: Option<Address>,
    /// What the contract was called with.
    pub(super) input: Bytes,
    /// Every event of its receipt, in order: the position of an event is its index here. The places in them are
    /// counted, not believed.
    pub(super) logs: Vec<RawLog>,
}

#[derive(Deserialize)]
struct StatedHash {
    hash: B256,
}

fn untrue<T>(reason: impl fmt::Display) -> Result<T, Unproven> {
    Err(Unproven::Untrue(reason.to_string()))
}

/// Recomputes the hash of a header. `raw` is what `eth_getBlockByNumber` or `eth_getBlockByHash` returned, with or
/// without full transactions.
///
/// A header with fields that are not known here has another hash and is refused.
pub(super) fn header(raw: &RawValue) -> Result<ProvenHeader, Unproven> {
    let StatedHash { hash } = read(raw, "a block")?;
    let fields: Header = read(raw, "the header of a block")?;
    let recomputed = fields.hash_slow();
    if recomputed != hash {
        return untrue(format_args!(
            "the fields of block {} have hash {recomputed} instead of {hash}",
            fields.number
        ));
    }
    Ok(ProvenHeader {
        number: fields.number,
        hash,
        parent_hash: fields.parent_hash,
        time_s: fields.timestamp,
        logs_bloom: fields.logs_bloom,
        receipts_root: fields.receipts_root,
        transactions_root: fields.transactions_root,
    })
}

/// Transactions and receipts of a block as one node states them, in pairs that agree with each other and the header.
struct Stated<'a> {
    pairs: Vec<(&'a RawValue, StatedTransaction, StatedReceipt)>,
}

impl<'a> Stated<'a> {
    fn read(
        header: &ProvenHeader,
        transactions: &'a [RawTransaction],
        receipts: &[RawReceipt],
        network: Network,
    ) -> Result<Self, Unproven> {
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
                "{} receipts for {} transactions of block {}",
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
            let place = Place {
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
fn added_hash(header: &ProvenHeader) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(STATE_SYNC_PREFIX);
    hasher.update(header.number.to_be_bytes());
    hasher.update(header.hash);
    hasher.finalize()
}

/// Where a transaction is.
struct Place<'a> {
    header: &'a ProvenHeader,
    tx_hash: B256,
    index: u64,
}

impl Place<'_> {
    /// Refuses a pair that does not belong together or says that it is elsewhere.
    fn check(&self, transaction: &StatedTransaction, receipt: &StatedReceipt) -> Result<(), Unproven> {
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
            "transaction {} and its receipt do not agree with their place {} in block {}",
            self.tx_hash, self.index, self.header.number
        ))
    }

    /// Gives an event its place, and refuses one that says another.
    fn put(&self, log: &mut RawLog, log_index: u64) -> Result<(), Unproven> {
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
            "event {log_index} of block {} says that it is elsewhere",
            self.header.number
        ))
    }
}

fn proven(transaction: StatedTransaction, receipt: StatedReceipt, index: u64) -> Result<ProvenTx, Unproven> {
    Ok(ProvenTx {
        tx_hash: transaction.hash,
        index,
        succeeded: receipt.succeeded()?,
        from: transaction.from,
        to: transaction.to,
        input: transaction.input,
        logs: receipt.logs,
    })
}

/// Refuses a transaction whose hash, callee or sender does not follow from its own bytes.
fn check_form(form: &Form, bytes: &[u8], stated: &StatedTransaction) -> Result<(), Unproven> {
    if keccak256(bytes) != stated.hash || form.to() != stated.to {
        return untrue(format_args!("transaction {} has another hash", stated.hash));
    }
    if form.sender()? != stated.from {
        return untrue(format_args!("transaction {} has another sender", stated.hash));
    }
    Ok(())
}

/// Proves transactions and receipts of a whole block by the roots in its header. All of them are needed; what is left
/// out, repeated, reordered or changed gives another root.
///
/// Returns the transactions whose events are wanted, in the order of the block. Every receipt is proven, but a sender is
/// recovered for these alone, since that takes longer than all the rest.
///
/// Source: ADR-0012.
pub(super) fn settle_by_roots(
    header: &ProvenHeader,
    transactions: &[RawTransaction],
    receipts: &[RawReceipt],
    network: Network,
    is_wanted: impl Fn(&[RawLog]) -> bool,
) -> Result<Vec<ProvenTx>, Unproven> {
    let Stated { pairs } = Stated::read(header, transactions, receipts, network)?;
    let mut forms = Vec::with_capacity(pairs.len());
    let (mut transaction_bytes, mut receipt_bytes) = (Vec::new(), Vec::new());
    for (raw, transaction, receipt) in &pairs {
        let form = Form::of(raw, transaction, network)?;
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
                "the {what} of block {} have root {recomputed} instead of {root}",
                header.number
            ));
        }
    }
    let mut settled = Vec::new();
    let proofs = forms.iter().zip(&transaction_bytes);
    for (index, ((_, transaction, receipt), (form, bytes))) in (0..).zip(pairs.into_iter().zip(proofs)) {
        if is_wanted(&receipt.logs) {
            check_form(form, bytes, &transaction)?;
            settled.push(proven(transaction, receipt, index)?);
        }
    }
    Ok(settled)
}

/// Reads a block by the word of one node, checked as far as that goes without roots: hashes and senders of the types
/// that are known here, and that the events are those that the bloom filter of the header speaks of. It counts where as
/// many distinct nodes as have to agree say the same; the caller compares them. Returns what [`settle_by_roots`] returns.
///
/// Source: ADR-0012.
pub(super) fn settle_by_word(
    header: &ProvenHeader,
    transactions: &[RawTransaction],
    receipts: &[RawReceipt],
    network: Network,
    is_wanted: impl Fn(&[RawLog]) -> bool,
) -> Result<Vec<ProvenTx>, Unproven> {
    let Stated { pairs } = Stated::read(header, transactions, receipts, network)?;
    let mut told = Bloom::ZERO;
    let mut settled = Vec::new();
    for (index, (raw, transaction, receipt)) in (0..).zip(pairs) {
        let bloom = bloom_of(&receipt.logs);
        // Polygon may leave the events of messages out of the filter.
        if receipt.kind != U64::from(STATE_SYNC_TYPE) && !header.logs_bloom.contains(&bloom) {
            return untrue(format_args!(
                "transaction {} has events that the header of block {} knows nothing of",
                transaction.hash, header.number
            ));
        }
        told |= bloom;
        if !is_wanted(&receipt.logs) {
            continue;
        }
        match Form::of(raw, &transaction, network) {
            Ok(form) => check_form(&form, &form.encoded(), &transaction)?,
            Err(Unproven::Unknown(_)) => {}
            Err(failure) => return Err(failure),
        }
        settled.push(proven(transaction, receipt, index)?);
    }
    if !told.contains(&header.logs_bloom) {
        return untrue(format_args!("events of block {} are missing", header.number));
    }
    Ok(settled)
}

#[cfg(test)]
mod tests;
