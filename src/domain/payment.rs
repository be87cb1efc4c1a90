//! Payments as the chain shows them, and who paid.

use super::{
    address::Address, ledger::SettlementUnits, network::Network, paying::charge::FeeLeg, rates::AppliedRate,
    wire_text::wire_text,
};
use alloy::primitives::{Address as EvmAddress, B256, U256, U512};
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// Bytes before the arguments of a call.
const SELECTOR_BYTES: usize = 4;

wire_text! {
    /// Kind of a payment on the wire. Source: interface §1; interface §2.1.
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
    /// Whether who paid a link might have, by its list and its screening.
    pub enum PayerAccess {
        /// Yes.
        Ok = "ok",
        /// The list does not name the payer.
        List = "list",
        /// The screening rejected the payer.
        Screening = "screening",
        /// The payer is not known, or was not screened.
        Unknown = "unknown",
    }
}

wire_text! {
    /// How a block counts as final on a network. Source: decisions D17.
    pub enum Finality {
        /// The nodes say so.
        Tag = "tag",
        /// It lies as deep as the network needs; for nodes that have never served the tag.
        Depth = "depth",
        /// It lies as deep as the settings say.
        Setting = "setting",
    }
}

/// A block, as far as the watcher needs it.
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
/// Identity is (network, transaction, position): the log index changes when a reorganisation includes the transaction
/// again, and a count of watched events changes with what is watched; the position among all events of the transaction
/// does not. Source: ADR-0013.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Network.
    pub network: Network,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction, from 0.
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
    /// Units that the event names for the payee.
    pub units: U256,
    /// Fee units.
    pub fee_units: U256,
    /// Receiver of the fee, when there is a fee address.
    pub fee_address: Option<Address>,
    /// What a conversion proxy says about the invoice side.
    pub conversion: Option<ObservedConversion>,
}

/// Invoice side of a conversion payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedConversion {
    /// Invoice amount in 8-decimal fiat units.
    pub invoice_units: U256,
    /// Invoice fee in the same units.
    pub invoice_fee_units: U256,
    /// Hash of the invoice currency.
    pub currency: Address,
    /// Oldest rate that was accepted, in seconds; 0 means any. The payer chooses it, and it may be any number.
    pub max_rate_timespan_s: U256,
}

impl Observation {
    /// How much of a request it settles when `received_units` of the token arrived.
    ///
    /// For a conversion the event names the invoice amount; when less than the promised tokens arrived, the invoice
    /// amount shrinks in proportion, rounded down.
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

/// Movement of a token inside a transaction.
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

/// What a receipt proves about a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxProof {
    /// The transaction.
    pub tx_hash: B256,
    /// Block that holds it.
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Account that sent it.
    pub from: Address,
    /// Contract it called.
    pub to: Option<Address>,
    /// What it was called with.
    pub input: Vec<u8>,
    /// Payment events in it, with their positions.
    pub observations: Vec<Observation>,
    /// Token movements in it.
    pub transfers: Vec<TokenTransfer>,
    /// Events of watched contracts in it that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// An event of a watched contract that is not what the contract would ever emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Position among all events of its transaction.
    pub position: u32,
    /// What is wrong with it.
    pub reason: String,
}

/// A block with everything in it that concerns payments, proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledBlock {
    /// The block.
    pub block: BlockRef,
    /// Its transactions that hold an event of a watched contract.
    pub transactions: Vec<TxProof>,
}

/// What a node says about an event of a watched contract. It tells where to look and proves nothing.
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

/// Why an observation was not credited although its reference is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    /// The transaction failed.
    Failed,
    /// The token did not move to the payee.
    NothingMoved,
}

wire_text! {
    /// Why a credited payment was taken back. Source: decisions D37.
    pub enum ReversalReason {
        /// A reorganisation dropped its block below what was final.
        Reorganised = "reorganised",
        /// The comparison with the chain did not find it.
        NotOnChain = "not_on_chain",
    }
}

/// What one proven event brought to its payee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenTransfer {
    /// Units that really arrived.
    pub received_units: U256,
    /// Account that the money came from.
    pub payer: Option<Address>,
    /// Externally owned account behind it, when it is known.
    pub payer_eoa: Option<Address>,
}

/// The movements of a proven transaction in their order, to be looked up for each of its events: anybody can put thousands
/// of both in one.
pub struct Movements<'a> {
    proof: &'a TxProof,
    /// Ascending by their index.
    transfers: Vec<&'a TokenTransfer>,
    /// Indices of the events, ascending.
    events: Vec<u64>,
    /// Who alone funded an account with a token, and by how much; `None` where several did.
    funding: HashMap<(Address, Address), Option<(Address, U256)>>,
}

impl<'a> Movements<'a> {
    /// Of a transaction.
    pub fn of(proof: &'a TxProof) -> Self {
        let mut transfers: Vec<&TokenTransfer> = proof.transfers.iter().collect();
        transfers.sort_by_key(|transfer| transfer.log_index);
        let mut events: Vec<u64> = proof.observations.iter().map(|observed| observed.log_index).collect();
        events.sort_unstable();
        let mut funding = HashMap::new();
        // A token allows transfers of zero units without the consent of the sender.
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

    /// The account that called a proxy, as far as the transaction shows it: its sender, when it calls the proxy or a contract
    /// of the protocol; or the wallet that it calls, when that is asked to call one of these. What goes through further
    /// contracts is not shown.
    fn caller_of(&self, proxy: &Address, is_intermediary: impl Fn(&Address) -> bool) -> Option<Address> {
        let is_ours = |address: &Address| address == proxy || is_intermediary(address);
        let called = self.proof.to?;
        if is_ours(&called) {
            return Some(self.proof.from);
        }
        forwarded_to(self.proof).as_ref().is_some_and(is_ours).then_some(called)
    }

    /// Those between an event and the event before it: earlier payments own the ones before them.
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

/// Calls that have a wallet call the account in their first argument: `execute(address,uint256,bytes)` of smart accounts, and
/// `execTransaction` of a Safe. Any other call may do something else with such an argument.
const FORWARDING_CALLS: [[u8; SELECTOR_BYTES]; 2] = [[0xb6, 0x1d, 0x27, 0xf6], [0x6a, 0x76, 0x12, 0x02]];

/// The account that the wallet which a transaction calls is asked to call.
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

/// Reads from the movements of a proven transaction what one of its events really moved and who paid.
///
/// A proxy logs what it was asked for, not what arrived: for tokens the credited units are those of the token's own
/// movement into the payee just before the event, never more than the event says. `is_intermediary` names contracts
/// of the protocol that forward money (batch, swap, recurring): their payer is who funded them in the transaction. The
/// coin leaves no movement: its payer is who called the proxy, as far as the transaction shows it.
/// Source: rules G.2 (2, 5, 9); rules G.6 (the payer).
pub fn prove(
    observed: &Observation,
    movements: &Movements<'_>,
    is_intermediary: impl Fn(&Address) -> bool,
) -> Result<ProvenTransfer, Unproven> {
    let proof = movements.proof;
    if !proof.succeeded {
        return Err(Unproven::Failed);
    }
    let called_by_owner = proof.to.is_some_and(|to| to == observed.proxy || is_intermediary(&to));
    let sender = Some(proof.from);
    let Some(token) = observed.token else {
        if observed.units.is_zero() {
            return Err(Unproven::NothingMoved);
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
        return Err(Unproven::NothingMoved);
    };
    if arrival.units.is_zero() {
        return Err(Unproven::NothingMoved);
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

/// A settled payment: an event that was proven at finality and matched a request in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The event.
    pub observed: Observation,
    /// What it moved and who paid.
    pub proven: ProvenTransfer,
    /// How much of the request it settles.
    pub credited: SettlementUnits,
    /// By which rate, where it was not the chain that converted.
    pub applied: Option<AppliedRate>,
    /// Whether that is what a quote promised.
    pub is_quoted: bool,
    /// How much is missing of the fees on top, when anything is.
    pub fee_shortfall: Option<SettlementUnits>,
    /// Fees that its transaction paid to further receivers, in units of the token.
    pub further_fees: Vec<FeeLeg>,
    /// Whether who paid might have; `None` where everybody might.
    pub payer_access: Option<PayerAccess>,
    /// Whether the contract of recurring payments made it: anybody else can carry the reference of an execution too.
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

    fn proven(observed: &Observation, proof: &TxProof) -> Result<ProvenTransfer, Unproven> {
        prove(observed, &Movements::of(proof), is_batch)
    }

    #[test]
    fn a_transaction_of_very_many_payments_is_judged_in_proportion_to_its_size() {
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
    fn an_event_without_a_movement_proves_nothing() {
        let event = observed(0, 2);
        assert_eq!(
            proven(&event, &proof(vec![event.clone()], vec![])),
            Err(Unproven::NothingMoved)
        );
        let late = proof(vec![event.clone()], vec![transfer(PAYER, PAYEE, 100, 3)]);
        assert_eq!(
            proven(&event, &late),
            Err(Unproven::NothingMoved),
            "a movement after the event is another one"
        );
        let failed = TxProof {
            succeeded: false,
            ..proof(vec![event.clone()], vec![transfer(PAYER, PAYEE, 100, 1)])
        };
        assert_eq!(proven(&event, &failed), Err(Unproven::Failed));
    }

    #[test]
    fn a_coin_payment_of_nothing_moved_nothing() {
        let event = Observation {
            token: None,
            units: U256::ZERO,
            ..observed(0, 2)
        };
        assert_eq!(
            proven(&event, &proof(vec![event.clone()], vec![])),
            Err(Unproven::NothingMoved)
        );
    }

    #[test]
    fn what_arrived_counts_and_never_more_than_the_event_says() {
        let event = observed(0, 2);
        for (moved, credited) in [(100, 100), (99, 99), (150, 100)] {
            let proof = proof(vec![event.clone()], vec![transfer(PAYER, PAYEE, moved, 1)]);
            assert_eq!(proven(&event, &proof).unwrap().received_units, U256::from(credited));
        }
    }

    #[test]
    fn the_payer_of_a_batch_is_the_account_that_alone_funded_it() {
        const OTHER: u8 = 8;
        let event = observed(0, 4);
        for (funding, payer) in [
            // A token lets anybody move nothing from an account of others.
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
    fn payments_of_a_batch_share_neither_movement_nor_payer_contract() {
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
        assert_eq!(proven(&second, &half), Err(Unproven::NothingMoved));
    }
}
