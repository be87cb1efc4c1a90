//! Decodes events into payments: relevant contracts and topics, their data, and their positions.
//!
//! Any value that a payer can put into an event is accepted. Data that no contract of the protocol would emit is an
//! error and never replaced by a default. Source: rules G.2.

use super::{proven::SettledTx, wire::RawLog};
use crate::domain::{
    address::Address,
    currency::{ContractKind, KnownContract},
    network::Network,
    payment::{BlockRef, Hint, Observation, ObservedConversion, TokenTransfer, TxProof, UnreadableEvent},
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bloom, BloomInput, U256},
    sol,
    sol_types::{SolEvent, SolType},
};
use std::collections::HashMap;

sol! {
    interface TokenProxy {
        event TransferWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
        event TransferWithReference(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference);
    }
    interface CoinProxy {
        event TransferWithReferenceAndFee(address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
        event TransferWithReference(address to, uint256 amount, bytes indexed paymentReference);
    }
    interface ConversionProxy {
        event TransferWithConversionAndReference(uint256 amount, address currency, bytes indexed paymentReference, uint256 feeAmount, uint256 maxRateTimespan);
    }
    interface Token {
        event Transfer(address indexed from, address indexed to, uint256 value);
    }
}

/// Topic of the conversion event of a conversion proxy. This event states the invoice currency and the invoice amounts
/// of a payment.
const COMPANION: B256 = ConversionProxy::TransferWithConversionAndReference::SIGNATURE_HASH;

/// Topics of the events that a contract emits for payments, including the conversion event.
fn topics_of(kind: ContractKind) -> &'static [B256] {
    const TOKEN_FEE: B256 = TokenProxy::TransferWithReferenceAndFee::SIGNATURE_HASH;
    const COIN_FEE: B256 = CoinProxy::TransferWithReferenceAndFee::SIGNATURE_HASH;
    match kind {
        ContractKind::Erc20FeeProxy => &[TOKEN_FEE],
        ContractKind::EthereumFeeProxy => &[COIN_FEE],
        ContractKind::Erc20Proxy => &[TokenProxy::TransferWithReference::SIGNATURE_HASH],
        ContractKind::EthereumProxy => &[CoinProxy::TransferWithReference::SIGNATURE_HASH],
        ContractKind::Erc20ConversionProxy => &[TOKEN_FEE, COMPANION],
        ContractKind::EthConversionProxy => &[COIN_FEE, COMPANION],
        _ => &[],
    }
}

/// One event with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedLog {
    pub(super) block_number: u64,
    pub(super) block_hash: B256,
    pub(super) tx_hash: B256,
    pub(super) tx_index: u64,
    pub(super) log_index: u64,
    pub(super) log: RawLog,
}

impl PlacedLog {
    /// Rejects pending and removed events.
    pub(super) fn new(log: RawLog) -> Result<Self, String> {
        let (Some(block_number), Some(block_hash), Some(tx_hash), Some(tx_index), Some(log_index)) = (
            log.block_number,
            log.block_hash,
            log.transaction_hash,
            log.transaction_index,
            log.log_index,
        ) else {
            return Err("an event lacks its block, its transaction or its index".to_owned());
        };
        if log.removed {
            return Err("an event is marked as removed".to_owned());
        }
        Ok(Self {
            block_number: block_number.to(),
            block_hash,
            tx_hash,
            tx_index: tx_index.to(),
            log_index: log_index.to(),
            log,
        })
    }
}

/// Sorts events, drops exact duplicates and rejects contradicting events.
pub(super) fn in_order(logs: Vec<RawLog>) -> Result<Vec<PlacedLog>, String> {
    let mut placed = logs.into_iter().map(PlacedLog::new).collect::<Result<Vec<_>, _>>()?;
    placed.sort_by_key(|log| (log.block_number, log.log_index));
    placed.dedup();
    for pair in placed.windows(2) {
        let [before, after] = pair else { continue };
        if before.block_number == after.block_number {
            if before.block_hash != after.block_hash {
                return Err(format!(
                    "the events of block {} state two different block hashes",
                    after.block_number
                ));
            }
            if before.log_index == after.log_index {
                return Err(format!(
                    "two different events have index {} in block {}",
                    after.log_index, after.block_number
                ));
            }
            // Event positions follow transaction positions, so the events of each transaction are contiguous.
            let is_same = before.tx_hash == after.tx_hash;
            if after.tx_index < before.tx_index || is_same != (before.tx_index == after.tx_index) {
                return Err(format!(
                    "the events of block {} are not in the order of its transactions",
                    after.block_number
                ));
            }
        }
    }
    let mut blocks: HashMap<B256, u64> = HashMap::new();
    for log in &placed {
        if *blocks.entry(log.tx_hash).or_insert(log.block_number) != log.block_number {
            return Err(format!(
                "the events of transaction {} state two different blocks",
                log.tx_hash
            ));
        }
    }
    Ok(placed)
}

/// The contracts whose events are payments.
#[derive(Debug)]
pub(super) struct Watched {
    network: Network,
    proxies: HashMap<EvmAddress, Vec<B256>>,
    /// Addresses to query.
    pub(super) addresses: Vec<EvmAddress>,
    /// First topics to query.
    pub(super) topics: Vec<B256>,
}

fn read<E: SolEvent>(log: &RawLog) -> Result<E, String> {
    let named = |what: &str| format!("an event {} has {what}", E::SIGNATURE);
    if Some(log.data.len()) != <E::DataTuple<'_> as SolType>::ENCODED_SIZE {
        return Err(named("data of the wrong length"));
    }
    E::decode_raw_log_validate(log.topics.iter().copied(), &log.data).map_err(|_| named("invalid topics or data"))
}

impl Watched {
    /// Takes the contracts of a network.
    pub(super) fn new(network: Network, contracts: &[KnownContract]) -> Self {
        let mut proxies: HashMap<EvmAddress, Vec<B256>> = HashMap::new();
        for contract in contracts.iter().filter(|contract| contract.kind.emits_payments()) {
            let topics = proxies.entry(contract.address.bytes()).or_default();
            topics.extend_from_slice(topics_of(contract.kind));
        }
        let mut addresses: Vec<EvmAddress> = proxies.keys().copied().collect();
        addresses.sort_unstable();
        let mut topics: Vec<B256> = proxies.values().flatten().copied().collect();
        topics.sort_unstable();
        topics.dedup();
        Self {
            network,
            proxies,
            addresses,
            topics,
        }
    }

    /// Whether an event is from a watched contract and has one of the contract's topics.
    pub(super) fn holds(&self, log: &RawLog) -> bool {
        self.proxies
            .get(&log.address)
            .is_some_and(|topics| log.topics.first().is_some_and(|topic| topics.contains(topic)))
    }

    /// Whether a block may contain watched events, according to its bloom filter. False positives are possible.
    pub(super) fn is_spoken_of(&self, bloom: &Bloom) -> bool {
        let speaks_of = |bytes: &[u8]| bloom.contains_input(BloomInput::Raw(bytes));
        let mut proxies = self.proxies.iter();
        proxies.any(|(address, topics)| {
            speaks_of(address.as_slice()) && topics.iter().any(|topic| speaks_of(topic.as_slice()))
        })
    }

    /// Locations of the payments in these events. The conversion event of a proxy follows a payment of the same
    /// transaction and is not listed separately.
    pub(super) fn hints(&self, logs: &[PlacedLog]) -> Vec<Hint> {
        let payments = logs
            .iter()
            .filter(|placed| self.holds(&placed.log) && placed.log.topics.first() != Some(&COMPANION));
        let hint = |placed: &PlacedLog| Hint {
            block_number: placed.block_number,
            block_hash: placed.block_hash,
            tx_hash: placed.tx_hash,
            log_index: placed.log_index,
            reference_topic: placed.log.topics.get(1).copied(),
        };
        payments.map(hint).collect()
    }

    /// Whether these logs contain events of watched contracts.
    pub(super) fn are_in(&self, logs: &[RawLog]) -> bool {
        logs.iter().any(|log| self.holds(log))
    }

    /// Reads the payments of a proven transaction.
    pub(super) fn read(&self, transaction: &SettledTx, block: &BlockRef) -> TxProof {
        let on = |bytes| Address::on(self.network, bytes);
        let mut proof = TxProof {
            tx_hash: transaction.tx_hash,
            block_number: block.number,
            block_hash: block.hash,
            succeeded: transaction.succeeded,
            from: on(transaction.from),
            to: transaction.to.map(on),
            input: transaction.input.to_vec(),
            observations: Vec::new(),
            transfers: Vec::new(),
            unreadable: Vec::new(),
        };
        // Payments of conversion proxies, by their index in `observations`, whose conversion event may still follow.
        let mut awaiting: Vec<usize> = Vec::new();
        for (position, log) in (0_u32..).zip(&transaction.logs) {
            let log_index = log.log_index.unwrap_or_default().to();
            proof.transfers.extend(self.transfer(log, log_index));
            if !self.holds(log) {
                continue;
            }
            let read = if log.topics.first() == Some(&COMPANION) {
                self.join_companion(log, &mut proof.observations, &mut awaiting)
            } else {
                self.payment(log).map(|read| {
                    if self.has_companion(log) {
                        awaiting.push(proof.observations.len());
                    }
                    proof.observations.push(Observation {
                        tx_hash: transaction.tx_hash,
                        position,
                        block_number: block.number,
                        block_hash: block.hash,
                        log_index,
                        ..read
                    });
                })
            };
            if let Err(reason) = read {
                proof.unreadable.push(UnreadableEvent { position, reason });
            }
        }
        for alone in awaiting.into_iter().rev() {
            let position = proof.observations.remove(alone).position;
            let reason = "a conversion proxy emitted a payment event without its conversion event".to_owned();
            proof.unreadable.push(UnreadableEvent { position, reason });
        }
        proof
    }

    fn has_companion(&self, log: &RawLog) -> bool {
        let topics = self.proxies.get(&log.address);
        topics.is_some_and(|topics| topics.contains(&COMPANION))
    }

    /// Adds a conversion event to its payment. A conversion proxy emits the payment event first and the conversion
    /// event second. Calls may nest, so the conversion belongs to the last payment of the same proxy and reference that
    /// has no conversion yet.
    fn join_companion(
        &self,
        log: &RawLog,
        payments: &mut [Observation],
        awaiting: &mut Vec<usize>,
    ) -> Result<(), String> {
        let (reference_topic, conversion) = self.companion(log)?;
        let proxy = Address::on(self.network, log.address);
        let is_its_payment =
            |place: &usize| payments[*place].proxy == proxy && payments[*place].reference_topic == reference_topic;
        let found = awaiting.iter().rposition(is_its_payment);
        let place =
            awaiting.remove(found.ok_or("a conversion proxy emitted a conversion event without its payment event")?);
        payments[place].conversion = Some(conversion);
        Ok(())
    }

    /// Reads a payment; the caller adds its position in the chain.
    fn payment(&self, log: &RawLog) -> Result<Observation, String> {
        let on = |bytes| Address::on(self.network, bytes);
        let observed =
            |reference_topic, token: Option<EvmAddress>, payee, units, fee_units, fee: EvmAddress| Observation {
                network: self.network,
                tx_hash: B256::ZERO,
                position: 0,
                block_number: 0,
                block_hash: B256::ZERO,
                log_index: 0,
                proxy: on(log.address),
                reference_topic,
                token: token.map(on),
                payee: on(payee),
                units,
                fee_units,
                fee_address: (!fee.is_zero()).then(|| on(fee)),
                conversion: None,
            };
        match log.topics.first().copied().unwrap_or_default() {
            TokenProxy::TransferWithReferenceAndFee::SIGNATURE_HASH => {
                let event: TokenProxy::TransferWithReferenceAndFee = read(log)?;
                Ok(observed(
                    event.paymentReference,
                    Some(event.tokenAddress),
                    event.to,
                    event.amount,
                    event.feeAmount,
                    event.feeAddress,
                ))
            }
            CoinProxy::TransferWithReferenceAndFee::SIGNATURE_HASH => {
                let event: CoinProxy::TransferWithReferenceAndFee = read(log)?;
                Ok(observed(
                    event.paymentReference,
                    None,
                    event.to,
                    event.amount,
                    event.feeAmount,
                    event.feeAddress,
                ))
            }
            TokenProxy::TransferWithReference::SIGNATURE_HASH => {
                let event: TokenProxy::TransferWithReference = read(log)?;
                Ok(observed(
                    event.paymentReference,
                    Some(event.tokenAddress),
                    event.to,
                    event.amount,
                    U256::ZERO,
                    EvmAddress::ZERO,
                ))
            }
            CoinProxy::TransferWithReference::SIGNATURE_HASH => {
                let event: CoinProxy::TransferWithReference = read(log)?;
                Ok(observed(
                    event.paymentReference,
                    None,
                    event.to,
                    event.amount,
                    U256::ZERO,
                    EvmAddress::ZERO,
                ))
            }
            _ => Err("the node returned an event that was not requested".to_owned()),
        }
    }

    fn companion(&self, log: &RawLog) -> Result<(B256, ObservedConversion), String> {
        let event: ConversionProxy::TransferWithConversionAndReference = read(log)?;
        let conversion = ObservedConversion {
            invoice_units: event.amount,
            invoice_fee_units: event.feeAmount,
            currency: Address::on(self.network, event.currency),
            max_rate_timespan_s: event.maxRateTimespan,
        };
        Ok((event.paymentReference, conversion))
    }

    /// Reads a token transfer. `None` for an event of another form: any contract can emit events with the topic of a
    /// transfer.
    fn transfer(&self, log: &RawLog, log_index: u64) -> Option<TokenTransfer> {
        let on = |bytes| Address::on(self.network, bytes);
        if log.topics.first() != Some(&Token::Transfer::SIGNATURE_HASH) {
            return None;
        }
        let event: Token::Transfer = read(log).ok()?;
        Some(TokenTransfer {
            token: on(log.address),
            from: on(event.from),
            to: on(event.to),
            units: event.value,
            log_index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::nodes::wire::bloom_of;
    use alloy::primitives::{Bytes, U64, b256, keccak256};
    use proptest::prelude::*;

    const FEE_PROXY: EvmAddress = EvmAddress::repeat_byte(1);
    const COIN_CONVERSION: EvmAddress = EvmAddress::repeat_byte(2);
    const TOKEN_CONVERSION: EvmAddress = EvmAddress::repeat_byte(3);

    fn watched() -> Watched {
        let contracts = [
            (ContractKind::Erc20FeeProxy, FEE_PROXY),
            (ContractKind::EthConversionProxy, COIN_CONVERSION),
            (ContractKind::Erc20ConversionProxy, TOKEN_CONVERSION),
        ]
        .map(|(kind, address)| KnownContract {
            kind,
            address: Address::Evm(address),
            creation_block: 0,
            is_default: true,
        });
        Watched::new(Network::Sepolia, &contracts)
    }

    fn placed<E: SolEvent>(address: EvmAddress, tx: u8, log_index: u64, event: &E) -> RawLog {
        let log = event.encode_log_data();
        RawLog {
            address,
            topics: log.topics().to_vec(),
            data: log.data,
            block_hash: Some(B256::repeat_byte(7)),
            block_number: Some(U64::from(9)),
            transaction_hash: Some(B256::repeat_byte(tx)),
            transaction_index: Some(U64::from(tx)),
            log_index: Some(U64::from(log_index)),
            removed: false,
        }
    }

    fn token_payment(reference: u8, units: u64) -> TokenProxy::TransferWithReferenceAndFee {
        TokenProxy::TransferWithReferenceAndFee {
            tokenAddress: EvmAddress::repeat_byte(0x70),
            to: EvmAddress::repeat_byte(0x71),
            amount: U256::from(units),
            paymentReference: keccak256([reference; 8]),
            feeAmount: U256::from(5),
            feeAddress: EvmAddress::ZERO,
        }
    }

    fn conversion(reference: u8, units: u64) -> ConversionProxy::TransferWithConversionAndReference {
        ConversionProxy::TransferWithConversionAndReference {
            amount: U256::from(units),
            currency: EvmAddress::repeat_byte(0x72),
            paymentReference: keccak256([reference; 8]),
            feeAmount: U256::ZERO,
            maxRateTimespan: U256::MAX,
        }
    }

    /// Reads the payments of the transactions that emitted these events.
    fn proofs(logs: Vec<RawLog>) -> Result<Vec<TxProof>, String> {
        let block = BlockRef {
            number: 9,
            hash: B256::repeat_byte(7),
            parent_hash: B256::repeat_byte(6),
            time: chrono::DateTime::UNIX_EPOCH,
        };
        let placed = in_order(logs)?;
        let transactions = placed.chunk_by(|one, other| one.tx_hash == other.tx_hash);
        let read = transactions.map(|logs| {
            let transaction = SettledTx {
                tx_hash: logs[0].tx_hash,
                index: logs[0].tx_index,
                succeeded: true,
                from: EvmAddress::ZERO,
                to: None,
                value: alloy::primitives::U256::ZERO,
                input: Bytes::new(),
                logs: logs.iter().map(|placed| placed.log.clone()).collect(),
            };
            watched().read(&transaction, &block)
        });
        Ok(read.collect())
    }

    fn observe(logs: Vec<RawLog>) -> Result<Vec<Observation>, String> {
        let mut found = Vec::new();
        for proof in proofs(logs)? {
            if let Some(unreadable) = proof.unreadable.into_iter().next() {
                return Err(unreadable.reason);
            }
            found.extend(proof.observations);
        }
        Ok(found)
    }

    #[test]
    fn topics_match_the_published_contracts() {
        let topic = |kind: ContractKind, index: usize| topics_of(kind)[index];
        assert_eq!(
            topic(ContractKind::Erc20FeeProxy, 0),
            b256!("9f16cbcc523c67a60c450e5ffe4f3b7b6dbe772e7abcadb2686ce029a9a0a2b6")
        );
        assert_eq!(
            topic(ContractKind::EthereumFeeProxy, 0),
            b256!("a1c241e337c4610a9d0f881111e977e9dc8690c85fe2108897bb1483c66e6a96")
        );
        assert_eq!(
            topic(ContractKind::Erc20Proxy, 0),
            b256!("4d4e9dbb7207a31cc25529ccb52e52ddba30ded7734e32691d13da66df7f81da")
        );
        assert_eq!(
            topic(ContractKind::EthereumProxy, 0),
            b256!("f20789bd5e67749fbe748d26a9ffacd11036adee6a64a8dbc70cc37a98b4e542")
        );
        assert_eq!(
            topic(ContractKind::EthConversionProxy, 1),
            b256!("96d0d1d75923f40b50f6fe74613b2c23239149607848fbca3941fee7ac041cdc")
        );
        for kind in ContractKind::ALL {
            assert_eq!(kind.emits_payments(), !topics_of(kind).is_empty(), "{}", kind.wire());
        }
    }

    #[test]
    fn payments_are_identified_by_position_among_transaction_events() {
        let found = observe(vec![
            placed(FEE_PROXY, 2, 11, &token_payment(3, 300)),
            placed(FEE_PROXY, 1, 4, &token_payment(2, 200)),
            placed(FEE_PROXY, 1, 2, &token_payment(1, 100)),
        ])
        .unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|o| (o.tx_hash[0], o.position, o.units.to::<u64>()))
            .collect();
        assert_eq!(seen, [(1, 0, 100), (1, 1, 200), (2, 0, 300)]);
        assert_eq!(found[0].fee_units, U256::from(5));
        assert_eq!(found[0].fee_address, None);
    }

    #[test]
    fn a_conversion_counts_as_one_payment() {
        let found = observe(vec![
            placed(TOKEN_CONVERSION, 1, 1, &token_payment(1, 100)),
            placed(TOKEN_CONVERSION, 1, 2, &conversion(1, 10_000)),
            placed(FEE_PROXY, 1, 3, &token_payment(2, 200)),
        ])
        .unwrap();
        assert_eq!(found.len(), 2);
        let converted = found[0].conversion.unwrap();
        assert_eq!(converted.invoice_units, U256::from(10_000));
        assert_eq!(converted.max_rate_timespan_s, U256::MAX);
        assert_eq!((found[1].position, found[1].conversion), (2, None));
    }

    #[test]
    fn nested_conversions_of_one_reference_keep_their_own_amounts() {
        let found = observe(vec![
            placed(TOKEN_CONVERSION, 1, 1, &token_payment(1, 100)),
            placed(TOKEN_CONVERSION, 1, 2, &token_payment(1, 200)),
            placed(TOKEN_CONVERSION, 1, 3, &conversion(1, 20_000)),
            placed(TOKEN_CONVERSION, 1, 4, &conversion(1, 10_000)),
        ])
        .unwrap();
        let invoiced: Vec<_> = found.iter().map(|o| o.conversion.unwrap().invoice_units).collect();
        assert_eq!(invoiced, [U256::from(10_000), U256::from(20_000)]);
    }

    #[test]
    fn an_incomplete_conversion_is_rejected() {
        assert!(observe(vec![placed(TOKEN_CONVERSION, 1, 1, &token_payment(1, 100))]).is_err());
        assert!(observe(vec![placed(TOKEN_CONVERSION, 1, 1, &conversion(1, 100))]).is_err());
        let other_reference = vec![
            placed(TOKEN_CONVERSION, 1, 1, &token_payment(1, 100)),
            placed(TOKEN_CONVERSION, 1, 2, &conversion(2, 100)),
        ];
        assert!(observe(other_reference).is_err());
        let other_transaction = vec![
            placed(TOKEN_CONVERSION, 1, 1, &token_payment(1, 100)),
            placed(TOKEN_CONVERSION, 2, 2, &conversion(1, 100)),
        ];
        assert!(observe(other_transaction).is_err());
    }

    #[test]
    fn an_unreadable_event_does_not_affect_others_of_its_transaction() {
        let mut broken = placed(FEE_PROXY, 1, 5, &token_payment(1, 100));
        broken.data = broken.data.slice(..broken.data.len() - 1);
        let read = proofs(vec![
            broken,
            placed(FEE_PROXY, 1, 6, &token_payment(2, 200)),
            placed(TOKEN_CONVERSION, 1, 7, &token_payment(3, 300)),
            placed(TOKEN_CONVERSION, 1, 8, &token_payment(4, 400)),
            placed(TOKEN_CONVERSION, 1, 9, &conversion(4, 40_000)),
        ]);
        let [proof] = &read.unwrap()[..] else {
            panic!("one transaction")
        };
        let positions: Vec<_> = proof.observations.iter().map(|o| o.position).collect();
        let unreadable: Vec<_> = proof.unreadable.iter().map(|event| event.position).collect();
        assert_eq!((positions, unreadable), (vec![1, 3], vec![0, 2]));
    }

    #[test]
    fn hints_name_every_payment_once() {
        let mut without_reference = placed(FEE_PROXY, 1, 4, &token_payment(2, 1));
        without_reference.topics.truncate(1);
        let logs = vec![
            placed(TOKEN_CONVERSION, 1, 2, &token_payment(1, 100)),
            placed(TOKEN_CONVERSION, 1, 3, &conversion(1, 10_000)),
            without_reference,
        ];
        let hints = watched().hints(&in_order(logs).unwrap());
        let seen: Vec<_> = hints
            .iter()
            .map(|hint| (hint.log_index, hint.reference_topic))
            .collect();
        assert_eq!(seen, [(2, Some(conversion(1, 1).paymentReference)), (4, None)]);
    }

    #[test]
    fn duplicate_logs_collapse_and_contradictory_ones_are_rejected() {
        let one = placed(FEE_PROXY, 1, 1, &token_payment(1, 100));
        assert_eq!(observe(vec![one.clone(), one.clone()]).unwrap().len(), 1);
        let other_amount = placed(FEE_PROXY, 1, 1, &token_payment(1, 101));
        assert!(observe(vec![one.clone(), other_amount]).is_err());
        let other_hash = RawLog {
            block_hash: Some(B256::repeat_byte(8)),
            ..placed(FEE_PROXY, 2, 2, &token_payment(2, 1))
        };
        assert!(observe(vec![one.clone(), other_hash]).is_err());
        let other_block = RawLog {
            block_number: Some(U64::from(10)),
            ..one.clone()
        };
        assert!(observe(vec![one.clone(), other_block]).is_err());
        let same_index = RawLog {
            transaction_index: Some(U64::from(1)),
            ..placed(FEE_PROXY, 2, 2, &token_payment(2, 1))
        };
        assert!(observe(vec![one.clone(), same_index]).is_err());
        let removed = RawLog {
            removed: true,
            ..one.clone()
        };
        assert!(observe(vec![removed]).is_err());
        let pending = RawLog {
            block_hash: None,
            ..one
        };
        assert!(observe(vec![pending]).is_err());
    }

    #[test]
    fn data_of_the_wrong_length_is_rejected() {
        let mut log = placed(FEE_PROXY, 1, 1, &token_payment(1, 100));
        log.data = log.data.slice(..log.data.len() - 32);
        assert!(observe(vec![log.clone()]).is_err());
        log.data = [token_payment(1, 100).encode_data(), vec![0; 32]].concat().into();
        assert!(observe(vec![log]).is_err());
    }

    #[test]
    fn a_bloom_filter_that_may_contain_payments_is_detected() {
        let payment = placed(FEE_PROXY, 1, 1, &token_payment(1, 100));
        let elsewhere = RawLog {
            address: EvmAddress::repeat_byte(0x44),
            ..payment.clone()
        };
        assert!(watched().is_spoken_of(&bloom_of(&[payment])));
        assert!(!watched().is_spoken_of(&bloom_of(&[elsewhere])));
        assert!(!watched().is_spoken_of(&Bloom::ZERO));
    }

    #[test]
    fn malformed_transfers_are_skipped() {
        let transfer = Token::Transfer {
            from: FEE_PROXY,
            to: COIN_CONVERSION,
            value: U256::from(3),
        };
        let good = placed(TOKEN_CONVERSION, 1, 1, &transfer);
        let mut unique_token = placed(TOKEN_CONVERSION, 1, 2, &transfer);
        unique_token.topics.push(B256::ZERO);
        unique_token.data = Default::default();
        let mut dirty = placed(TOKEN_CONVERSION, 1, 3, &transfer);
        dirty.topics[1] = B256::repeat_byte(0xff);
        let payment = placed(FEE_PROXY, 1, 4, &token_payment(1, 100));
        let moved = proofs(vec![good, unique_token, dirty, payment])
            .unwrap()
            .remove(0)
            .transfers;
        assert_eq!(moved.len(), 1);
        assert_eq!(
            (moved[0].units, moved[0].to),
            (U256::from(3), Address::Evm(COIN_CONVERSION))
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic_the_decoder(
            parts in proptest::collection::vec(
                (0u8..5, 0u8..6, any::<[u8; 32]>(), 0usize..5, proptest::collection::vec(any::<u8>(), 0..200), 0u64..3, 0u64..4),
                0..6,
            )
        ) {
            let topics: Vec<B256> = [ContractKind::Erc20Proxy, ContractKind::EthereumProxy]
                .into_iter()
                .flat_map(topics_of)
                .copied()
                .chain(watched().topics)
                .chain([Token::Transfer::SIGNATURE_HASH])
                .collect();
            let logs = parts.into_iter().map(|(address, topic, word, count, data, tx, log_index)| RawLog {
                address: EvmAddress::repeat_byte(address),
                topics: std::iter::once(topics[usize::from(topic) % topics.len()])
                    .chain(std::iter::repeat_n(B256::from(word), 3))
                    .take(count)
                    .collect(),
                data: data.into(),
                block_hash: Some(B256::ZERO),
                block_number: Some(U64::ZERO),
                transaction_hash: Some(B256::from(U256::from(tx))),
                transaction_index: Some(U64::from(tx)),
                log_index: Some(U64::from(log_index)),
                removed: false,
            }).collect::<Vec<_>>();
            let bloom = bloom_of(&logs);
            let _ = proofs(logs.clone());
            if let Ok(logs) = in_order(logs) {
                let _ = watched().hints(&logs);
                let _ = watched().is_spoken_of(&bloom);
            }
        }
    }
}
