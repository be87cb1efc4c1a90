//! Decodes the conversion paths of payments from the input of their transaction, because the events of the proxies do
//! not contain the paths.

use super::{
    address::Address,
    currency::ContractKind,
    paying::{
        batch_contract::BatchConversionPayments,
        fee_proxy::{Erc20ConversionProxy, EthConversionProxy},
    },
    payment::{Observation, TxProof},
};
use alloy::{
    primitives::{Address as EvmAddress, B256, U256, keccak256},
    sol_types::SolCall,
};
use std::collections::HashMap;

/// `paymentNetworkId` of token payments with conversion in a batch.
const BATCH_TOKEN_CONVERSION: U256 = U256::ZERO;

/// `paymentNetworkId` of coin payments with conversion in a batch.
const BATCH_COIN_CONVERSION: U256 = U256::from_limbs([4, 0, 0, 0]);

/// A call of a conversion proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversionCall {
    /// Kind of the proxy.
    pub kind: ContractKind,
    /// Receiver.
    pub payee: EvmAddress,
    /// Invoice amount in 8-decimal fiat units.
    pub invoice_units: U256,
    /// Hashes of the currencies along the path, from the invoice currency to the payment currency.
    pub path: Vec<EvmAddress>,
    /// Topic of the reference.
    pub reference_topic: B256,
    /// Invoice fee in 8-decimal fiat units.
    pub invoice_fee_units: U256,
    /// Maximum accepted age of a rate, in seconds; 0 accepts any age.
    pub max_rate_timespan_s: U256,
}

/// Kind of a proxy and topic of a reference; events and calls with equal values are paired.
type ConversionCallKey = (ContractKind, B256);

/// Conversion calls of a transaction, and its conversion events.
#[derive(Debug, Clone, Default)]
pub struct ConversionCalls {
    /// Called contract, when known.
    called: Option<ContractKind>,
    /// Calls in order.
    calls: HashMap<ConversionCallKey, Vec<ConversionCall>>,
    /// Positions of the events, ascending.
    events: HashMap<ConversionCallKey, Vec<u32>>,
}

impl ConversionCalls {
    /// Decodes the conversions of a transaction; none unless it called a conversion proxy or a batch contract.
    ///
    /// Runs in time linear in the size of the transaction, which can contain thousands of conversions.
    pub fn read(proof: &TxProof, kind_of: impl Fn(&Address) -> Option<ContractKind>) -> Self {
        let called = proof.to.as_ref().and_then(&kind_of);
        let mut calls: HashMap<ConversionCallKey, Vec<ConversionCall>> = HashMap::new();
        for call in called
            .and_then(|called| decode(called, &proof.input))
            .into_iter()
            .flatten()
        {
            calls.entry((call.kind, call.reference_topic)).or_default().push(call);
        }
        let mut events: HashMap<ConversionCallKey, Vec<u32>> = HashMap::new();
        for observed in proof
            .observations
            .iter()
            .filter(|observed| observed.conversion.is_some())
        {
            if let Some(kind) = kind_of(&observed.proxy) {
                let positions = events.entry((kind, observed.reference_topic)).or_default();
                positions.push(observed.position);
            }
        }
        events.values_mut().for_each(|positions| positions.sort_unstable());
        Self { called, calls, events }
    }

    /// The conversion call of an event of the transaction.
    ///
    /// Events and calls with the same reference are paired in order. `None` when the pairing is ambiguous: an event or
    /// a call is missing, or the event and its call differ.
    pub fn of(
        &self,
        observed: &Observation,
        proof: &TxProof,
        kind_of: impl Fn(&Address) -> Option<ContractKind>,
    ) -> Option<&ConversionCall> {
        let kind = kind_of(&observed.proxy)?;
        if self.called == Some(kind) && proof.to != Some(observed.proxy) {
            return None;
        }
        let pairing = (kind, observed.reference_topic);
        let (events, calls) = (self.events.get(&pairing)?, self.calls.get(&pairing)?);
        if events.len() != calls.len() {
            return None;
        }
        let call = calls.get(events.partition_point(|position| *position < observed.position))?;
        let conversion = observed.conversion?;
        let says_the_same = call.payee == observed.payee.bytes()
            && call.invoice_units == conversion.invoice_units
            && call.invoice_fee_units == conversion.invoice_fee_units
            && call.max_rate_timespan_s == conversion.max_rate_timespan_s;
        says_the_same.then_some(call)
    }
}

/// Decodes the input of a call to a contract of the protocol. `None` when it is not a conversion.
pub fn decode(called: ContractKind, input: &[u8]) -> Option<Vec<ConversionCall>> {
    use BatchConversionPayments as Batch;
    const TOKEN: [u8; 4] = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::SELECTOR;
    const COIN: [u8; 4] = EthConversionProxy::transferWithReferenceAndFeeCall::SELECTOR;
    const MIXED: [u8; 4] = Batch::batchPaymentsCall::SELECTOR;
    const TOKENS: [u8; 4] = Batch::batchMultiERC20ConversionPaymentsCall::SELECTOR;
    const COINS: [u8; 4] = Batch::batchNativeConversionPaymentsCall::SELECTOR;
    let (selector, arguments) = input.split_first_chunk::<4>()?;
    let mut words = AbiWords::new(arguments);
    let (token, coin) = (ContractKind::Erc20ConversionProxy, ContractKind::EthConversionProxy);
    match (called, *selector) {
        (ContractKind::Erc20ConversionProxy, TOKEN) => Some(vec![words.call(token, 0, 7)?]),
        (ContractKind::EthConversionProxy, COIN) => Some(vec![words.call(coin, 0, 6)?]),
        (ContractKind::BatchConversionPayments, TOKENS) => words.details(token, 0, 0),
        (ContractKind::BatchConversionPayments, COINS) => words.details(coin, 0, 0),
        (ContractKind::BatchConversionPayments, MIXED) => {
            let mut calls = Vec::new();
            for group in words.elements(0, 0)? {
                let id = words.number(group)?;
                let kind = [(BATCH_TOKEN_CONVERSION, token), (BATCH_COIN_CONVERSION, coin)];
                if let Some((_, kind)) = kind.into_iter().find(|(known, _)| *known == id) {
                    calls.extend(words.details(kind, group, 1)?);
                }
            }
            Some(calls)
        }
        _ => None,
    }
}

/// Reads ABI words on demand, in total at most as many as the input has.
///
/// ABI offsets may all point at the same words, so a general decoder can expand a small input to gigabytes. The limit
/// of this decoder prevents this; valid calls never reach it.
struct AbiWords<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> AbiWords<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            left: bytes.len() / 32,
        }
    }

    fn word(&mut self, at: usize) -> Option<[u8; 32]> {
        self.left = self.left.checked_sub(1)?;
        self.bytes.get(at..at.checked_add(32)?)?.try_into().ok()
    }

    fn number(&mut self, at: usize) -> Option<U256> {
        self.word(at).map(U256::from_be_bytes)
    }

    fn size(&mut self, at: usize) -> Option<usize> {
        self.number(at)?.try_into().ok()
    }

    fn address(&mut self, at: usize) -> Option<EvmAddress> {
        let word = self.word(at)?;
        word[..12]
            .iter()
            .all(|byte| *byte == 0)
            .then(|| EvmAddress::from_slice(&word[12..]))
    }

    /// Position of the value to which a slot of a tuple points.
    fn pointed(&mut self, tuple: usize, slot: usize) -> Option<usize> {
        let offset = self.size(slot_of(tuple, slot)?)?;
        tuple.checked_add(offset)
    }

    /// Positions of the elements of an array of tuples.
    fn elements(&mut self, tuple: usize, slot: usize) -> Option<Vec<usize>> {
        let array = self.pointed(tuple, slot)?;
        let (count, first) = (self.size(array)?, array.checked_add(32)?);
        if count > self.left {
            return None;
        }
        (0..count).map(|index| self.pointed(first, index)).collect()
    }

    fn details(&mut self, kind: ContractKind, tuple: usize, slot: usize) -> Option<Vec<ConversionCall>> {
        let details = self.elements(tuple, slot)?;
        details.into_iter().map(|detail| self.call(kind, detail, 6)).collect()
    }

    /// Reads a conversion. Both proxies and the batch contract have the same first arguments. The slot of the maximum
    /// rate age differs.
    fn call(&mut self, kind: ContractKind, tuple: usize, timespan_slot: usize) -> Option<ConversionCall> {
        let path = self.pointed(tuple, 2)?;
        let reference = self.pointed(tuple, 3)?;
        Some(ConversionCall {
            kind,
            payee: self.address(tuple)?,
            invoice_units: self.number(slot_of(tuple, 1)?)?,
            path: self.path(path)?,
            reference_topic: self.topic(reference)?,
            invoice_fee_units: self.number(slot_of(tuple, 4)?)?,
            max_rate_timespan_s: self.number(slot_of(tuple, timespan_slot)?)?,
        })
    }

    fn path(&mut self, at: usize) -> Option<Vec<EvmAddress>> {
        let count = self.size(at)?;
        if count > self.left {
            return None;
        }
        (0..count)
            .map(|index| self.address(slot_of(at.checked_add(32)?, index)?))
            .collect()
    }

    fn topic(&mut self, at: usize) -> Option<B256> {
        let length = self.size(at)?;
        let first = at.checked_add(32)?;
        let bytes = self.bytes.get(first..first.checked_add(length)?)?;
        self.left = self.left.checked_sub(length.div_ceil(32))?;
        Some(keccak256(bytes))
    }
}

fn slot_of(tuple: usize, slot: usize) -> Option<usize> {
    tuple.checked_add(slot.checked_mul(32)?)
}

#[cfg(test)]
mod tests;
