//! Payments as the chain shows them, and who paid.

use super::{
    address::Address, ledger::SettlementUnits, network::Network, orchestrator_fees::OrchestratorFees,
    paying::charge::FeeLeg, rates::AppliedRate, wire_text::wire_text,
};
use alloy::primitives::{Address as EvmAddress, B256, U256, U512};
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// Length of the function selector, which precedes the arguments of a call.
const SELECTOR_BYTES: usize = 4;

wire_text! {
    /// Kind of a payment in the API. Source: interface §1; interface §2.1.
    pub enum PaymentKind {
        /// Paid in the invoice currency.
        Direct = "direct",
        /// Invoice currency differs from payment currency.
        Conversion = "conversion",
        /// Paid from another chain.
        Crosschain = "crosschain",
        /// Execution of a schedule.
        Recurring = "recurring",
    }
}

wire_text! {
    /// Whether the payer of a link was allowed to pay it, according to the allow list and the screening of the link.
    pub enum PayerAccess {
        /// Yes.
        Ok = "ok",
        /// The allow list does not name the payer.
        List = "list",
        /// The screening rejected the payer.
        Screening = "screening",
        /// The payer is unknown, or was not screened.
        Unknown = "unknown",
    }
}

wire_text! {
    /// How a network determines that a block is final. Source: decisions D17.
    pub enum Finality {
        /// The finality tag of the nodes.
        Tag = "tag",
        /// The number of later blocks that the network requires, for nodes that have never served the finality tag.
        Depth = "depth",
        /// The depth in the settings.
        Setting = "setting",
    }
}

/// Header fields of a block that the watcher needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Height.
    pub number: u64,
    /// Hash.
    pub hash: B256,
    /// Hash of the parent.
    pub parent_hash: B256,
    /// Time of the block, whole seconds.
    pub time: DateTime<Utc>,
}

/// One payment event of a proxy, decoded. Amounts are token units.
///
/// Its identity is (network, transaction, position). The position among all events of the transaction never changes.
/// The log index would change when a reorganisation includes the transaction again. A count of watched events would
/// depend on the watched contracts. Source: ADR-0013.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Network.
    pub network: Network,
    /// Transaction.
    pub tx_hash: B256,
    /// Position of the event among all events of its transaction, from 0.
    pub position: u32,
    /// Height of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: B256,
    /// Index of the event in its block.
    pub log_index: u64,
    /// Contract that emitted the event.
    pub proxy: Address,
    /// Topic of the reference: keccak-256 of its eight bytes.
    pub reference_topic: B256,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Receiver.
    pub payee: Address,
    /// Units that the payee gets according to the event.
    pub units: U256,
    /// Fee units.
    pub fee_units: U256,
    /// Receiver of the fee, if the event names one.
    pub fee_address: Option<Address>,
    /// Amounts and fee in the invoice currency, if a conversion proxy emitted the event.
    pub conversion: Option<ObservedConversion>,
}

/// What the event of a conversion payment says in the invoice currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedConversion {
    /// Invoice amount in 8-decimal fiat units.
    pub invoice_units: U256,
    /// Invoice fee in 8-decimal fiat units.
    pub invoice_fee_units: U256,
    /// Hash of the invoice currency.
    pub currency: Address,
    /// Maximum accepted age of a rate in seconds; 0 accepts any age. The payer chooses it freely.
    pub max_rate_timespan_s: U256,
}

impl Observation {
    /// Amount of a request that the payment settles when `received_units` of the token arrived.
    ///
    /// For a conversion, the event names the invoice amount. When fewer tokens arrived than the event says, the invoice
    /// amount is reduced in proportion and rounded down.
    pub fn credit(&self, received_units: U256) -> SettlementUnits {
        match self.conversion {
            None => received_units,
            Some(conversion) if received_units >= self.units => conversion.invoice_units,
            Some(conversion) => {
                let product = U512::from(conversion.invoice_units) * U512::from(received_units);
                let share = product / U512::from(self.units);
                U256::checked_from_limbs_slice(share.as_limbs()).unwrap_or(U256::MAX)
            }
        }
    }
}

/// A token transfer inside a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTransfer {
    /// Token contract.
    pub token: Address,
    /// Sender.
    pub from: Address,
    /// Receiver.
    pub to: Address,
    /// Units.
    pub units: U256,
    /// Index in the block.
    pub log_index: u64,
}

/// Facts about a transaction that its receipt proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxProof {
    /// The transaction.
    pub tx_hash: B256,
    /// Block that contains it.
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Account that sent it.
    pub from: Address,
    /// Contract it called.
    pub to: Option<Address>,
    /// Input of the call.
    pub input: Vec<u8>,
    /// Payment events in the transaction, with their positions.
    pub observations: Vec<Observation>,
    /// Token movements in it.
    pub transfers: Vec<TokenTransfer>,
    /// Events of watched contracts in the transaction that could not be decoded.
    pub unreadable: Vec<UnreadableEvent>,
}

/// An event of a watched contract with a form that the contract never emits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEvent {
    /// Position of the event among all events of its transaction.
    pub position: u32,
    /// Why the event could not be decoded.
    pub reason: String,
}

/// A proven block with all its payment data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledBlock {
    /// The block.
    pub block: BlockRef,
    /// Transactions of the block that contain an event of a watched contract.
    pub transactions: Vec<TxProof>,
}

/// An event of a watched contract as a node reports it. It shows where to look and proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Height of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: B256,
    /// Transaction.
    pub tx_hash: B256,
    /// Index of the event in its block.
    pub log_index: u64,
    /// Topic of the reference; `None` when the event has no such topic.
    pub reference_topic: Option<B256>,
}

/// Why a payment event with a known reference was not credited. `Display` continues the sentence "the payment was not
/// credited: ".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnprovenObservation {
    /// The transaction failed.
    #[error("its transaction failed")]
    Failed,
    /// Nothing moved to the payee.
    #[error("the transaction moved nothing to the payee")]
    NothingMoved,
}

wire_text! {
    /// Why a credited payment was reversed. Source: decisions D37.
    pub enum ReversalReason {
        /// A reorganisation removed the final block that contained the payment.
        Reorganised = "reorganised",
        /// A comparison with the chain did not find the payment.
        NotOnChain = "not_on_chain",
    }
}

/// What one proven event transferred to its payee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenTransfer {
    /// Units that actually arrived.
    pub received_units: U256,
    /// Account that paid.
    pub payer: Option<Address>,
    /// Externally owned account that controls the payer, when known.
    pub payer_eoa: Option<Address>,
}

/// The token transfers of a proven transaction in order, with an index for lookups by event. A transaction can contain
/// thousands of transfers and events.
pub struct Movements<'a> {
    proof: &'a TxProof,
    /// Ascending by their index.
    transfers: Vec<&'a TokenTransfer>,
    /// Indices of the events, ascending.
    events: Vec<u64>,
    /// For each token and receiving account: the only account that sent it this token, and the sum. `None` when several
    /// accounts did.
    funding: HashMap<(Address, Address), Option<(Address, U256)>>,
}

impl<'a> Movements<'a> {
    /// The movements of a transaction.
    pub fn of(proof: &'a TxProof) -> Self {
        let mut transfers: Vec<&TokenTransfer> = proof.transfers.iter().collect();
        transfers.sort_by_key(|transfer| transfer.log_index);
        let mut events: Vec<u64> = proof.observations.iter().map(|observed| observed.log_index).collect();
        events.sort_unstable();
        let mut funding = HashMap::new();
        // Tokens allow transfers of zero units without the sender's consent.
        for transfer in proof.transfers.iter().filter(|transfer| !transfer.units.is_zero()) {
            let TokenTransfer {
                token, from, to, units, ..
            } = *transfer;
            let funded = funding.entry((token, to)).or_insert(Some((from, U256::ZERO)));
            *funded = funded
                .filter(|(sole, _)| *sole == from)
                .map(|(sole, sum)| (sole, sum.saturating_add(units)));
        }
        Self {
            proof,
            transfers,
            events,
            funding,
        }
    }

    /// The account that called a proxy, as far as the transaction shows it. It is the sender, when the sender calls the
    /// proxy or a contract of the protocol. It is the called wallet, when that wallet forwards to one of these
    /// contracts. Calls through other contracts are not visible.
    fn caller_of(&self, proxy: &Address, is_intermediary: impl Fn(&Address) -> bool) -> Option<Address> {
        let is_ours = |address: &Address| address == proxy || is_intermediary(address);
        let called = self.proof.to?;
        if is_ours(&called) {
            return Some(self.proof.from);
        }
        forwarded_to(self.proof).as_ref().is_some_and(is_ours).then_some(called)
    }

    /// The transfers between an event and the previous event. Earlier transfers belong to earlier payments.
    fn before(&self, observed: &Observation) -> &[&'a TokenTransfer] {
        let earlier = self.events.partition_point(|index| *index < observed.log_index);
        let begin = match self.events[..earlier].last() {
            Some(previous) => self
                .transfers
                .partition_point(|transfer| transfer.log_index <= *previous),
            None => 0,
        };
        let end = self
            .transfers
            .partition_point(|transfer| transfer.log_index < observed.log_index);
        self.transfers.get(begin..end).unwrap_or_default()
    }
}

/// Selectors of calls with which a wallet calls the account in their first argument: `execute(address,uint256,bytes)`
/// of smart accounts, and `execTransaction` of a Safe. Other calls may use their arguments differently.
const FORWARDING_CALLS: [[u8; SELECTOR_BYTES]; 2] = [[0xb6, 0x1d, 0x27, 0xf6], [0x6a, 0x76, 0x12, 0x02]];

/// The account to which the called wallet forwards.
fn forwarded_to(proof: &TxProof) -> Option<Address> {
    let (selector, arguments) = proof.input.split_first_chunk()?;
    let (padding, account) = arguments.get(..32)?.split_at(12);
    let is_forwarding = FORWARDING_CALLS.contains(selector) && padding.iter().all(|byte| *byte == 0);
    let account = EvmAddress::from_slice(account);
    is_forwarding.then_some(match proof.from {
        Address::Evm(_) => Address::Evm(account),
        Address::Tron(_) => Address::Tron(account),
    })
}

/// Determines from the transfers of a proven transaction what one of its events moved, and who paid.
///
/// A proxy logs the requested amount, which may differ from the received amount. For a token, the credited units are
/// the smaller of two numbers: the units of the transfer to the payee just before the event, and the units in the
/// event. `is_intermediary` identifies contracts of the protocol that forward payments (batch, swap, recurring). If
/// such a contract pays, the payer is the account that funded it in the transaction.
///
/// The coin leaves no transfer event. The payer is then the caller of the proxy, as far as the transaction shows it.
/// Source: rules G.2 (2, 5, 9); rules G.6 (the payer).
pub fn prove(
    observed: &Observation,
    movements: &Movements<'_>,
    is_intermediary: impl Fn(&Address) -> bool,
) -> Result<ProvenTransfer, UnprovenObservation> {
    let proof = movements.proof;
    if !proof.succeeded {
        return Err(UnprovenObservation::Failed);
    }
    let called_by_owner = proof.to.is_some_and(|to| to == observed.proxy || is_intermediary(&to));
    let sender = Some(proof.from);
    let Some(token) = observed.token else {
        if observed.units.is_zero() {
            return Err(UnprovenObservation::NothingMoved);
        }
        let payer = movements.caller_of(&observed.proxy, is_intermediary);
        return Ok(ProvenTransfer {
            received_units: observed.units,
            payer,
            payer_eoa: sender.filter(|_| called_by_owner || payer == sender),
        });
    };
    let own = movements.before(observed).iter();
    let mut arrivals = own.filter(|transfer| transfer.token == token && transfer.to == observed.payee);
    let Some(arrival) = arrivals
        .clone()
        .find(|arrival| arrival.units == observed.units)
        .or_else(|| arrivals.next())
    else {
        return Err(UnprovenObservation::NothingMoved);
    };
    if arrival.units.is_zero() {
        return Err(UnprovenObservation::NothingMoved);
    }
    let payer = if is_intermediary(&arrival.from) {
        match movements.funding.get(&(token, arrival.from)) {
            Some(sole) => sole.filter(|(_, sum)| *sum >= arrival.units).map(|(payer, _)| payer),
            None => sender.filter(|_| called_by_owner),
        }
    } else {
        Some(arrival.from)
    };
    Ok(ProvenTransfer {
        received_units: arrival.units.min(observed.units),
        payer,
        payer_eoa: sender.filter(|_| called_by_owner || payer == sender),
    })
}

/// A settled payment: an event that is final, proven and matches a request in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The event.
    pub observed: Observation,
    /// Its transfer and its payer.
    pub proven: ProvenTransfer,
    /// Amount of the request that the payment settles.
    pub credited: SettlementUnits,
    /// The applied off-chain rate; `None` without a conversion, and for a conversion on chain.
    pub applied: Option<AppliedRate>,
    /// Whether a quote determined the amount.
    pub is_quoted: bool,
    /// How much of the required fees is still unpaid after the payment; `None` if all are paid.
    pub fee_shortfall: Option<SettlementUnits>,
    /// Fees that the transaction paid separately from the payment, in units of the token.
    pub further_fees: Vec<FeeLeg>,
    /// The part of all fees of the payment that went to an orchestrator.
    pub orchestrator_fees: OrchestratorFees,
    /// Whether the payer was allowed to pay; `None` when anyone may pay.
    pub payer_access: Option<PayerAccess>,
    /// Whether the recurring payment contract executed the payment. Other payments can carry the reference of an
    /// execution too.
    pub is_execution: bool,
    /// Time of its block.
    pub at: DateTime<Utc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Address {
        Address::Evm(EvmAddress::with_last_byte(last))
    }

    const PROXY: u8 = 1;
    const TOKEN: u8 = 2;
    const PAYEE: u8 = 3;
    const PAYER: u8 = 4;
    const BATCH: u8 = 5;

    fn observed(position: u32, log_index: u64) -> Observation {
        Observation {
            network: Network::Sepolia,
            tx_hash: B256::repeat_byte(1),
            position,
            block_number: 7,
            block_hash: B256::repeat_byte(7),
            log_index,
            proxy: address(PROXY),
            reference_topic: B256::repeat_byte(9),
            token: Some(address(TOKEN)),
            payee: address(PAYEE),
            units: U256::from(100),
            fee_units: U256::ZERO,
            fee_address: None,
            conversion: None,
        }
    }

    fn transfer(from: u8, to: u8, units: u64, log_index: u64) -> TokenTransfer {
        TokenTransfer {
            token: address(TOKEN),
            from: address(from),
            to: address(to),
            units: U256::from(units),
            log_index,
        }
    }

    fn proof(observations: Vec<Observation>, transfers: Vec<TokenTransfer>) -> TxProof {
        TxProof {
            tx_hash: B256::repeat_byte(1),
            block_number: 7,
            block_hash: B256::repeat_byte(7),
            succeeded: true,
            from: address(PAYER),
            to: Some(address(PROXY)),
            input: Vec::new(),
            observations,
            transfers,
            unreadable: Vec::new(),
        }
    }

    fn is_batch(candidate: &Address) -> bool {
        *candidate == address(BATCH)
    }

    fn proven(observed: &Observation, proof: &TxProof) -> Result<ProvenTransfer, UnprovenObservation> {
        prove(observed, &Movements::of(proof), is_batch)
    }

    #[test]
    fn proving_many_payments_takes_time_proportional_to_their_number() {
        const PAYMENTS: u32 = 40_000;
        let indices = (0..PAYMENTS).map(|payment| (payment, u64::from(payment) * 2));
        let whole = proof(
            indices
                .clone()
                .map(|(payment, index)| observed(payment, index + 1))
                .collect(),
            indices.map(|(_, index)| transfer(PAYER, PAYEE, 100, index)).collect(),
        );
        let started = std::time::Instant::now();
        let movements = Movements::of(&whole);
        for event in &whole.observations {
            assert!(prove(event, &movements, is_batch).is_ok());
        }
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    #[test]
    fn an_event_without_a_transfer_proves_nothing() {
        let event = observed(0, 2);
        assert_eq!(
            proven(&event, &proof(vec![event.clone()], vec![])),
            Err(UnprovenObservation::NothingMoved)
        );
        let late = proof(vec![event.clone()], vec![transfer(PAYER, PAYEE, 100, 3)]);
        assert_eq!(
            proven(&event, &late),
            Err(UnprovenObservation::NothingMoved),
            "a transfer after the event does not belong to it"
        );
        let failed = TxProof {
            succeeded: false,
            ..proof(vec![event.clone()], vec![transfer(PAYER, PAYEE, 100, 1)])
        };
        assert_eq!(proven(&event, &failed), Err(UnprovenObservation::Failed));
    }

    #[test]
    fn a_zero_coin_payment_has_no_transfer() {
        let event = Observation {
            token: None,
            units: U256::ZERO,
            ..observed(0, 2)
        };
        assert_eq!(
            proven(&event, &proof(vec![event.clone()], vec![])),
            Err(UnprovenObservation::NothingMoved)
        );
    }

    #[test]
    fn the_received_amount_counts_up_to_the_event_amount() {
        let event = observed(0, 2);
        for (moved, credited) in [(100, 100), (99, 99), (150, 100)] {
            let proof = proof(vec![event.clone()], vec![transfer(PAYER, PAYEE, moved, 1)]);
            assert_eq!(proven(&event, &proof).unwrap().received_units, U256::from(credited));
        }
    }

    #[test]
    fn the_payer_of_a_batch_is_its_only_funding_account() {
        const OTHER: u8 = 8;
        let event = observed(0, 4);
        for (funding, payer) in [
            // A token lets anyone transfer zero units from another account.
            (vec![(OTHER, 0), (PAYER, 100)], Some(PAYER)),
            (vec![(OTHER, 1), (PAYER, 100)], None),
            (vec![(PAYER, 60), (PAYER, 60)], Some(PAYER)),
            (vec![(OTHER, 99)], None),
        ] {
            let mut transfers: Vec<TokenTransfer> = funding
                .iter()
                .map(|(from, units)| transfer(*from, BATCH, *units, 1))
                .collect();
            transfers.push(transfer(BATCH, PAYEE, 100, 3));
            let proof = proof(vec![event.clone()], transfers);
            assert_eq!(proven(&event, &proof).unwrap().payer, payer.map(address), "{funding:?}");
        }
    }

    #[test]
    fn payments_of_a_batch_share_no_transfer_and_no_payer_contract() {
        let (first, second) = (observed(0, 4), observed(1, 6));
        let transfers = vec![
            transfer(PAYER, BATCH, 200, 1),
            transfer(BATCH, PAYEE, 100, 3),
            transfer(BATCH, PAYEE, 100, 5),
        ];
        let whole = TxProof {
            to: Some(address(BATCH)),
            ..proof(vec![first.clone(), second.clone()], transfers.clone())
        };
        for event in [&first, &second] {
            let proven = proven(event, &whole).unwrap();
            assert_eq!(
                (proven.payer, proven.payer_eoa),
                (Some(address(PAYER)), Some(address(PAYER)))
            );
        }
        let half = TxProof {
            transfers: transfers[..2].to_vec(),
            ..whole
        };
        assert!(proven(&first, &half).is_ok());
        assert_eq!(proven(&second, &half), Err(UnprovenObservation::NothingMoved));
    }
}
