//! Logs and receipts in domain words. What does not decode is an error, never a default.

use crate::domain::{
    address::Address,
    currency::{ContractKind, KnownContract},
    network::Network,
    payment::{Observation, ObservedConversion, TokenTransfer, TxProof},
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U64, U256},
    sol,
    sol_types::{SolEvent, SolValue},
};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
    /// Conversion proxies name the invoice side of a payment after its money side.
    event TransferWithConversionAndReference(uint256 amount, address currency, bytes indexed paymentReference, uint256 feeAmount, uint256 maxRateTimespan);
}

mod token {
    alloy::sol! {
        event TransferWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
        event TransferWithReference(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference);
    }
}

mod coin {
    alloy::sol! {
        event TransferWithReferenceAndFee(address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
        event TransferWithReference(address to, uint256 amount, bytes indexed paymentReference);
    }
}

/// Topics of all payment events.
pub(super) const TOPICS: [B256; 5] = [
    token::TransferWithReferenceAndFee::SIGNATURE_HASH,
    coin::TransferWithReferenceAndFee::SIGNATURE_HASH,
    token::TransferWithReference::SIGNATURE_HASH,
    coin::TransferWithReference::SIGNATURE_HASH,
    TransferWithConversionAndReference::SIGNATURE_HASH,
];

/// A log as nodes write it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawLog {
    pub address: EvmAddress,
    pub topics: Vec<B256>,
    pub data: Bytes,
    pub block_number: U64,
    pub block_hash: B256,
    pub transaction_hash: B256,
    pub log_index: U64,
    #[serde(default)]
    pub removed: bool,
}

impl RawLog {
    pub(super) fn block(&self) -> u64 {
        self.block_number.to()
    }

    pub(super) fn index(&self) -> u64 {
        self.log_index.to()
    }
}

/// A receipt as nodes write it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawReceipt {
    pub transaction_hash: B256,
    pub block_number: U64,
    pub block_hash: B256,
    pub status: U64,
    pub from: EvmAddress,
    pub to: Option<EvmAddress>,
    pub logs: Vec<RawLog>,
}

/// The contracts whose events count.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    network: Network,
    kinds: HashMap<EvmAddress, ContractKind>,
}

impl Watched {
    pub(super) fn new(network: Network, contracts: &[KnownContract]) -> Self {
        let emitting = contracts.iter().filter(|contract| contract.kind.emits_payments());
        Self {
            network,
            kinds: emitting
                .map(|contract| (contract.address.bytes(), contract.kind))
                .collect(),
        }
    }

    pub(super) fn addresses(&self) -> Vec<EvmAddress> {
        let mut addresses: Vec<_> = self.kinds.keys().copied().collect();
        addresses.sort();
        addresses
    }

    pub(super) fn holds(&self, log: &RawLog) -> bool {
        self.kinds.contains_key(&log.address) && log.topics.first().is_some_and(|topic| TOPICS.contains(topic))
    }

    /// Payment events of whole transactions, with their ordinals, in the order of the chain.
    ///
    /// Logs that appear twice count once. Errors: a log of a watched contract whose data is not what its topic says.
    pub(super) fn observations(&self, logs: &[RawLog]) -> Result<Vec<Observation>, String> {
        let mut by_transaction: BTreeMap<(u64, B256), BTreeMap<u64, &RawLog>> = BTreeMap::new();
        for log in logs.iter().filter(|log| self.holds(log)) {
            let place = by_transaction.entry((log.block(), log.transaction_hash)).or_default();
            if let Some(twin) = place.insert(log.index(), log)
                && twin != log
            {
                return Err(format!(
                    "two different logs at index {} of block {}",
                    log.index(),
                    log.block()
                ));
            }
        }
        let mut found = Vec::new();
        for logs in by_transaction.into_values() {
            self.transaction(logs.into_values().collect(), &mut found)?;
        }
        found.sort_by_key(|observed: &Observation| (observed.block_number, observed.log_index));
        Ok(found)
    }

    fn transaction(&self, logs: Vec<&RawLog>, found: &mut Vec<Observation>) -> Result<(), String> {
        let mut payments: Vec<Observation> = Vec::new();
        for log in logs {
            let topic = log.topics.first().copied().unwrap_or_default();
            if topic == TransferWithConversionAndReference::SIGNATURE_HASH {
                let conversion = conversion(log)?;
                let reference = reference(log)?;
                // The invoice side belongs to the last payment of the same contract and reference that lacks one.
                let payment = payments.iter_mut().rev().find(|payment| {
                    payment.proxy.bytes() == log.address
                        && payment.reference_topic == reference
                        && payment.conversion.is_none()
                });
                match payment {
                    Some(payment) => payment.conversion = Some(conversion),
                    None => {
                        return Err(format!(
                            "a conversion without payment at index {} of block {}",
                            log.index(),
                            log.block()
                        ));
                    }
                }
            } else {
                let ordinal =
                    u32::try_from(payments.len()).map_err(|_| "too many events in a transaction".to_owned())?;
                payments.push(self.payment(log, topic, ordinal)?);
            }
        }
        found.extend(payments);
        Ok(())
    }

    fn payment(&self, log: &RawLog, topic: B256, ordinal: u32) -> Result<Observation, String> {
        let broken = |_| {
            format!(
                "event data at index {} of block {} does not decode",
                log.index(),
                log.block()
            )
        };
        let data = &log.data;
        let (token, to, units, fee_units, fee_address) = if topic == token::TransferWithReferenceAndFee::SIGNATURE_HASH
        {
            let (token, to, units, fee, fee_address) =
                <(EvmAddress, EvmAddress, U256, U256, EvmAddress)>::abi_decode_params(data).map_err(broken)?;
            (Some(token), to, units, fee, Some(fee_address))
        } else if topic == coin::TransferWithReferenceAndFee::SIGNATURE_HASH {
            let (to, units, fee, fee_address) =
                <(EvmAddress, U256, U256, EvmAddress)>::abi_decode_params(data).map_err(broken)?;
            (None, to, units, fee, Some(fee_address))
        } else if topic == token::TransferWithReference::SIGNATURE_HASH {
            let (token, to, units) = <(EvmAddress, EvmAddress, U256)>::abi_decode_params(data).map_err(broken)?;
            (Some(token), to, units, U256::ZERO, None)
        } else {
            let (to, units) = <(EvmAddress, U256)>::abi_decode_params(data).map_err(broken)?;
            (None, to, units, U256::ZERO, None)
        };
        let on = |address| Address::on(self.network, address);
        Ok(Observation {
            network: self.network,
            tx_hash: log.transaction_hash,
            ordinal,
            block_number: log.block(),
            block_hash: log.block_hash,
            log_index: log.index(),
            proxy: on(log.address),
            reference_topic: reference(log)?,
            token: token.map(on),
            payee: on(to),
            units,
            fee_units,
            fee_address: fee_address.filter(|address| !address.is_zero()).map(on),
            conversion: None,
        })
    }

    /// What a receipt proves.
    pub(super) fn proof(&self, receipt: &RawReceipt) -> Result<TxProof, String> {
        let on = |address| Address::on(self.network, address);
        let mut transfers = Vec::new();
        for log in &receipt.logs {
            if log.topics.len() == 3 && log.topics[0] == Transfer::SIGNATURE_HASH && log.data.len() == 32 {
                transfers.push(TokenTransfer {
                    token: on(log.address),
                    from: on(EvmAddress::from_word(log.topics[1])),
                    to: on(EvmAddress::from_word(log.topics[2])),
                    units: U256::from_be_slice(&log.data),
                    log_index: log.index(),
                });
            }
        }
        Ok(TxProof {
            tx_hash: receipt.transaction_hash,
            block_number: receipt.block_number.to(),
            block_hash: receipt.block_hash,
            succeeded: receipt.status == U64::from(1),
            from: on(receipt.from),
            to: receipt.to.map(on),
            observations: self.observations(&receipt.logs)?,
            transfers,
        })
    }
}

fn reference(log: &RawLog) -> Result<B256, String> {
    match log.topics.as_slice() {
        [_, reference] => Ok(*reference),
        _ => Err(format!(
            "event at index {} of block {} has no reference",
            log.index(),
            log.block()
        )),
    }
}

fn conversion(log: &RawLog) -> Result<ObservedConversion, String> {
    let (invoice_units, currency, invoice_fee_units, timespan) =
        <(U256, EvmAddress, U256, U256)>::abi_decode_params(&log.data).map_err(|_| {
            format!(
                "conversion data at index {} of block {} does not decode",
                log.index(),
                log.block()
            )
        })?;
    Ok(ObservedConversion {
        invoice_units,
        invoice_fee_units,
        currency: Address::Evm(currency),
        max_rate_timespan_s: u64::try_from(timespan).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watched() -> Watched {
        let contract = |kind, last| KnownContract {
            kind,
            address: Address::Evm(EvmAddress::with_last_byte(last)),
            creation_block: 0,
            is_default: true,
        };
        Watched::new(
            Network::Sepolia,
            &[
                contract(ContractKind::Erc20FeeProxy, 1),
                contract(ContractKind::Erc20ConversionProxy, 2),
            ],
        )
    }

    fn log(address: u8, index: u64, topic: B256, data: Vec<u8>) -> RawLog {
        RawLog {
            address: EvmAddress::with_last_byte(address),
            topics: vec![topic, B256::repeat_byte(7)],
            data: data.into(),
            block_number: U64::from(5),
            block_hash: B256::repeat_byte(5),
            transaction_hash: B256::repeat_byte(9),
            log_index: U64::from(index),
            removed: false,
        }
    }

    fn paid(index: u64, address: u8) -> RawLog {
        let data = (
            EvmAddress::with_last_byte(3),
            EvmAddress::with_last_byte(4),
            U256::from(10),
            U256::from(1),
            EvmAddress::ZERO,
        );
        log(address, index, TOPICS[0], data.abi_encode_params())
    }

    #[test]
    fn a_conversion_is_one_payment_with_two_sides() {
        let sides = (U256::from(500), EvmAddress::with_last_byte(6), U256::ZERO, U256::ZERO).abi_encode_params();
        let logs = [paid(3, 2), log(2, 4, TOPICS[4], sides), paid(8, 1)];
        let found = watched().observations(&logs).unwrap();
        assert_eq!(
            found.iter().map(|o| (o.ordinal, o.log_index)).collect::<Vec<_>>(),
            [(0, 3), (1, 8)]
        );
        assert_eq!(found[0].conversion.unwrap().invoice_units, U256::from(500));
        assert_eq!(found[1].conversion, None);
        assert_eq!(found[1].fee_address, None, "a zero fee address receives nothing");
    }

    #[test]
    fn a_log_that_appears_twice_counts_once_and_a_contradiction_is_an_error() {
        assert_eq!(watched().observations(&[paid(3, 1), paid(3, 1)]).unwrap().len(), 1);
        let mut other = paid(3, 1);
        other.topics[1] = B256::repeat_byte(8);
        assert!(watched().observations(&[paid(3, 1), other]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(data in proptest::collection::vec(any::<u8>(), 0..300), topic in 0usize..5, topics in 0usize..4, address in 1u8..4) {
            let mut log = log(address, 1, TOPICS[topic], data);
            log.topics.resize(topics, B256::ZERO);
            let _ = watched().observations(&[log]);
        }
    }
}
