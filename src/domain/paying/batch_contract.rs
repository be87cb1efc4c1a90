//! Several payments in one transaction, all of them or none: the call of the batch contract, its approvals and its gas.

use super::{
    Allowing, BundleError, Conversion, Costs, Executor, Leg, NetworkPrice, PaidCharge, Spending, Standings, Step,
    Steps,
    charge::{ChargedUnits, FeeKind},
    evm,
};
use crate::domain::{
    address::Address,
    network::{Family, Network},
    reference::PaymentReference,
    refusal::Refusal,
};
use alloy::{
    primitives::{Address as EvmAddress, U256, U512, address, keccak256},
    sol,
    sol_types::SolCall,
};
use std::collections::{BTreeMap, BTreeSet};

sol! {
    /// One payment of a batch.
    #[derive(Debug)]
    struct Detail {
        /// Receiver.
        address recipient;
        /// Units, or 8-decimal fiat units when converted.
        uint256 requestAmount;
        /// Token alone, or hashes from invoice to payment currency; empty for the native coin.
        address[] path;
        /// Reference.
        bytes paymentReference;
        /// Fee in the unit of the amount, for the receiver of fees of the call.
        uint256 feeAmount;
        /// Most units that a conversion may spend.
        uint256 maxToSpend;
        /// Oldest accepted rate in seconds; 0 accepts any.
        uint256 maxRateTimespan;
    }
    /// Payments of one kind.
    struct MetaDetail {
        /// Number by which the contract knows the kind.
        uint256 paymentNetworkId;
        /// The payments.
        Detail[] requestDetails;
    }
    interface BatchConversionPayments {
        function batchPayments(MetaDetail[] metaDetails, address[][] pathsToUSD, address feeAddress);
        function batchMultiERC20ConversionPayments(Detail[] requestDetails, address[][] pathsToUSD, address feeAddress);
        function batchNativeConversionPayments(Detail[] requestDetails, bool skipFeeUSDLimit, address feeAddress);
    }
}

/// Receiver of fees of a call in which nobody takes one. The zero address will not do: tokens refuse it, and the contract
/// moves even a fee of nothing.
const NOBODY: EvmAddress = address!("000000000000000000000000000000000000dEaD");

/// Gas of a call before its first payment. Measured: 23,420 for none.
const CALL_GAS: u64 = 40_000;

/// Gas for the first payment in a token: the contract takes what it pays from the payer, lets the proxy have it and
/// returns the rest of a conversion. Measured: 66,000, and 113,000 for conversions.
const TOKEN_GAS: u64 = 130_000;

/// Gas of a payment in a token to a wallet that holds none. Measured: 40,123 alone, 43,300 among six tokens.
const TOKEN_PAYMENT_GAS: u64 = 52_000;

/// Gas of a payment in the native coin to a wallet that holds none. Measured: 52,296.
const COIN_PAYMENT_GAS: u64 = 60_000;

/// Gas of the fee that rides in a payment. Measured: 5,508 in a token, 6,723 in the coin.
const FEE_GAS: u64 = 8_000;

/// Gas of a conversion beside its payment, and of each price feed of its path. Measured with two feeds: 31,816 for a
/// token, 38,124 for the coin; feeds of live networks pass questions on.
const CONVERSION_GAS: u64 = 20_000;
const FEED_GAS: u64 = 14_000;

/// What the contract takes for itself, and where it is. Source: rules G.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchTerms {
    /// The contract.
    pub contract: Address,
    /// Its own fee, which the receiver of fees of the call gets beside its own, in basis points of what is paid.
    pub fee_basis_points: u16,
    /// Price feeds from a token, or with `None` the native coin, to the dollar: with them the contract keeps its fee
    /// below a limit of its own.
    pub paths_to_usd: BTreeMap<Option<Address>, Vec<EvmAddress>>,
}

/// Kinds of payments by the number that the contract has for them, in the order in which it has to be given them: what is
/// left of the coins goes back to the payer at the end of the last group. Its kind 1, payments in one token, is served
/// by 2 as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Kind {
    TokenConversion = 0,
    Token = 2,
    Coin = 3,
    CoinConversion = 4,
}

impl Kind {
    fn of(leg: &Leg) -> Self {
        match (leg.token.is_some(), leg.conversion.is_some()) {
            (true, true) => Self::TokenConversion,
            (true, false) => Self::Token,
            (false, false) => Self::Coin,
            (false, true) => Self::CoinConversion,
        }
    }
}

/// What the call says of a payment, or of a fee that is paid by itself.
#[derive(Debug, Clone)]
struct Entry {
    kind: Kind,
    token: Option<Address>,
    resets_allowance: bool,
    detail: Detail,
    /// The charges that it pays.
    paid: Vec<PaidCharge>,
}

impl Entry {
    fn new(leg: &Leg, receiver: Address, reference: PaymentReference) -> Self {
        let (path, max_rate_timespan_s) = match (&leg.conversion, leg.token) {
            (Some(conversion), _) => (conversion.path.clone(), conversion.max_rate_timespan_s),
            (None, Some(token)) => (vec![token.bytes()], 0),
            (None, None) => (Vec::new(), 0),
        };
        Self {
            kind: Kind::of(leg),
            token: leg.token,
            resets_allowance: leg.resets_allowance,
            detail: Detail {
                recipient: receiver.bytes(),
                requestAmount: U256::ZERO,
                path,
                paymentReference: reference.0.to_vec().into(),
                feeAmount: U256::ZERO,
                maxToSpend: U256::ZERO,
                maxRateTimespan: U256::from(max_rate_timespan_s),
            },
            paid: Vec::new(),
        }
    }

    /// Whether the fee of a payment may be added to this fee: conversions of other terms are other payments.
    fn takes(&self, leg: &Leg, receiver: Address) -> bool {
        let is_same_conversion = leg.conversion.as_ref().is_none_or(|conversion| {
            conversion.path == self.detail.path
                && U256::from(conversion.max_rate_timespan_s) == self.detail.maxRateTimespan
        });
        self.kind == Kind::of(leg)
            && self.token == leg.token
            && self.detail.recipient == receiver.bytes()
            && is_same_conversion
    }

    fn add(&mut self, units: U256, limit: U256) -> Option<()> {
        let detail = &mut self.detail;
        detail.requestAmount = detail.requestAmount.checked_add(units)?;
        detail.maxToSpend = detail.maxToSpend.checked_add(limit)?;
        Some(())
    }

    /// Most units of the payment currency that leave the payer.
    fn spends(&self) -> Option<U256> {
        match self.kind {
            Kind::TokenConversion | Kind::CoinConversion => Some(self.detail.maxToSpend),
            Kind::Token | Kind::Coin => self.detail.requestAmount.checked_add(self.detail.feeAmount),
        }
    }

    fn gas(&self) -> u64 {
        let payment = match self.token {
            Some(_) => TOKEN_PAYMENT_GAS,
            None => COIN_PAYMENT_GAS,
        };
        let fee = if self.detail.feeAmount.is_zero() { 0 } else { FEE_GAS };
        let conversion = match self.kind {
            Kind::TokenConversion | Kind::CoinConversion => {
                let feeds = self.detail.path.len().saturating_sub(1);
                CONVERSION_GAS + FEED_GAS.saturating_mul(u64::try_from(feeds).unwrap_or(u64::MAX))
            }
            Kind::Token | Kind::Coin => 0,
        };
        payment + fee + conversion
    }
}

/// Most payments of one batch. Source: rules P.1.6.
pub const ITEMS_MAX: usize = 200;

/// What is said of a batch with a payment on Tron. Source: interface §7.
const TRON: &str = "Batch payments are not supported for TRON networks. Please submit individual payment requests.";

/// What is said of a batch on several networks. Source: rules P.3.6.
const ONE_NETWORK: &str = "All requests must be on the same network";

/// Admits payments on networks: those on Tron are refused before those on different networks.
pub fn admit_networks(networks: impl IntoIterator<Item = Network> + Clone) -> Result<(), Refusal> {
    admit_families(networks.clone().into_iter().map(Network::family))?;
    let mut networks = networks.into_iter();
    let first = networks.next();
    if networks.all(|network| Some(network) == first) {
        Ok(())
    } else {
        Err(Refusal::invalid(ONE_NETWORK))
    }
}

/// Admits payments on networks of families.
pub fn admit_families(mut families: impl Iterator<Item = Family>) -> Result<(), Refusal> {
    if families.any(|family| family == Family::Tron) {
        return Err(Refusal::invalid(TRON));
    }
    Ok(())
}

/// The batch contract with the payments that it makes.
#[derive(Debug, Clone)]
pub struct BatchContract {
    contract: Address,
    fee_receiver: EvmAddress,
    paths_to_usd: Vec<Vec<EvmAddress>>,
    /// In the order of the call.
    entries: Vec<Entry>,
    spendings: Vec<Spending>,
    paid: Vec<PaidCharge>,
}

impl BatchContract {
    /// Admits payments. The contract knows one receiver of fees: what others get is added up by currency and paid to them
    /// like a payment of its own, with a reference that is nobody else's.
    ///
    /// Errors: a sum leaves 256 bits, or the payer is missing.
    pub fn admit(terms: &BatchTerms, legs: &[Leg], payer: Option<Address>) -> Result<Self, BundleError> {
        let taker = legs.iter().find_map(|leg| leg.fees().first().map(|fee| fee.receiver));
        let is_free = terms.fee_basis_points == 0;
        let fee_receiver = match (taker, payer) {
            (Some(taker), _) => taker.bytes(),
            (None, _) if is_free => NOBODY,
            (None, Some(payer)) => payer.bytes(),
            (None, None) => return Err(BundleError::NoPayer),
        };
        let mut entries = entries(legs, taker).ok_or(BundleError::TooLarge)?;
        let mut paid: Vec<PaidCharge> = entries.iter().flat_map(|entry| entry.paid.iter().copied()).collect();
        entries.sort_by_key(|entry| entry.kind);
        let Spent { spendings, own } = spent(&entries, terms.fee_basis_points).ok_or(BundleError::TooLarge)?;
        let own = own.into_iter().filter(|(_, units)| !units.is_zero());
        // Where nobody takes fees, it goes back to the payer.
        let own = own.filter_map(|(token, units)| {
            let charged = ChargedUnits {
                kind: FeeKind::Contract,
                receiver: taker?,
                units,
            };
            let leg = legs.iter().position(|leg| leg.token == token)?;
            Some(PaidCharge { leg, charged })
        });
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|paid| paid.leg);
        paid.append(&mut own);
        paid.sort_by_key(|paid| legs[paid.leg].token.is_none());
        Ok(Self {
            contract: terms.contract,
            fee_receiver,
            paths_to_usd: if is_free {
                Vec::new()
            } else {
                paths_to_usd(terms, &entries)
            },
            entries,
            spendings,
            paid,
        })
    }

    /// The call.
    pub fn payment_step(&self) -> Step {
        let groups = self.entries.chunk_by(|one, next| one.kind == next.kind);
        let groups = groups.map(|entries| MetaDetail {
            paymentNetworkId: U256::from(entries.first().map_or(0, |entry| entry.kind as u8)),
            requestDetails: entries.iter().map(|entry| entry.detail.clone()).collect(),
        });
        let call = BatchConversionPayments::batchPaymentsCall {
            metaDetails: groups.collect(),
            pathsToUSD: self.paths_to_usd.clone(),
            feeAddress: self.fee_receiver,
        };
        Step {
            to: self.contract,
            calldata: call.abi_encode(),
            value: super::spent(&self.spendings, None),
        }
    }

    /// Gas that the call may need; rounded up from measured figures.
    pub fn gas(&self) -> u64 {
        let entries = self.entries.iter();
        let tokens: BTreeSet<_> = entries
            .clone()
            .filter_map(|entry| Some((entry.token?, entry.kind)))
            .collect();
        let tokens = TOKEN_GAS.saturating_mul(u64::try_from(tokens.len()).unwrap_or(u64::MAX));
        entries
            .map(Entry::gas)
            .fold(CALL_GAS.saturating_add(tokens), u64::saturating_add)
    }
}

impl Executor for BatchContract {
    fn contract(&self) -> Address {
        self.contract
    }

    fn spendings(&self) -> &[Spending] {
        &self.spendings
    }

    fn paid(&self) -> &[PaidCharge] {
        &self.paid
    }

    fn costs(&self, approvals: usize, price: NetworkPrice) -> Costs {
        evm::costs(approvals, self.gas(), price)
    }

    fn steps(&self, allowing: Allowing, standings: &Standings) -> Steps {
        evm::steps(&self.spendings, self.payment_step(), allowing, standings)
    }
}

/// How many of the first payments fit into so much gas together.
pub fn fitting(terms: &BatchTerms, legs: &[Leg], payer: Option<Address>, gas_max: u64) -> usize {
    let fits = |count: usize| {
        let some = legs.get(..count).unwrap_or(legs);
        BatchContract::admit(terms, some, payer).is_ok_and(|batch| batch.gas() <= gas_max)
    };
    let counts: Vec<usize> = (1..=legs.len()).collect();
    counts.partition_point(|count| fits(*count))
}

/// The payments, and after them what further receivers of fees get. `None` beyond 256 bits.
fn entries(legs: &[Leg], taker: Option<Address>) -> Option<Vec<Entry>> {
    let mut payments = Vec::with_capacity(legs.len());
    let mut fees: Vec<Entry> = Vec::new();
    for (place, leg) in legs.iter().enumerate() {
        let paid_to = move |receiver: Address| {
            let charges = leg.charges.iter().filter(move |charged| charged.receiver == receiver);
            charges.map(move |charged| PaidCharge {
                leg: place,
                charged: *charged,
            })
        };
        let (riding, others) = leg
            .fees()
            .into_iter()
            .partition::<Vec<_>, _>(|fee| Some(fee.receiver) == taker);
        let riding = riding.first().map_or(U256::ZERO, |fee| fee.units);
        let (own, total) = (leg.units.checked_add(riding)?, leg.total()?);
        let limit = |part: U256| match &leg.conversion {
            Some(Conversion { max_to_spend, .. }) => share(*max_to_spend, part, total),
            None => Some(U256::ZERO),
        };
        let mut payment = Entry::new(leg, leg.payee, leg.reference);
        payment.detail.feeAmount = riding;
        payment.add(leg.units, limit(own)?)?;
        payment.paid = taker.into_iter().flat_map(paid_to).collect();
        payments.push(payment);
        for fee in others {
            let known = fees.iter_mut().find(|entry| entry.takes(leg, fee.receiver));
            match known {
                Some(entry) => entry.add(fee.units, limit(fee.units)?)?,
                None => {
                    let mut entry = Entry::new(leg, fee.receiver, fee_reference(leg.reference, fee.receiver));
                    entry.add(fee.units, limit(fee.units)?)?;
                    fees.push(entry);
                }
            }
            // Other terms of a conversion make another payment; what one receiver gets in a currency is told together.
            let is_told =
                |entry: &&mut Entry| (entry.token, entry.detail.recipient) == (leg.token, fee.receiver.bytes());
            if let Some(first) = fees.iter_mut().find(is_told) {
                first.paid.extend(paid_to(fee.receiver));
            }
        }
    }
    payments.append(&mut fees);
    Some(payments)
}

/// The part of a spending limit that belongs to a part of what is converted, rounded up: each part is converted by itself
/// and rounded down, so that it is enough.
fn share(limit: U256, part: U256, total: U256) -> Option<U256> {
    if part == total {
        return Some(limit);
    }
    let scaled = U512::from(limit) * U512::from(part);
    let share = scaled.checked_add(U512::from(total))?.checked_sub(U512::from(1))?;
    U256::checked_from_limbs_slice(share.checked_div(U512::from(total))?.as_limbs())
}

/// Reference of a fee that is paid by itself: that of no request, so that nobody takes it for a payment, not even when its
/// receiver is the payee.
fn fee_reference(payment: PaymentReference, receiver: Address) -> PaymentReference {
    let digest = keccak256([payment.0.as_slice(), receiver.bytes().as_slice()].concat());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[24..]);
    PaymentReference(bytes)
}

/// What leaves the payer.
struct Spent {
    /// By currency: tokens in the order of their first payment, then the coin.
    spendings: Vec<Spending>,
    /// What of that the contract takes for itself, by currency.
    own: BTreeMap<Option<Address>, U256>,
}

/// What leaves the payer in tokens, and in the coin. The contract takes its own fee of what the receivers get, of the sum of
/// all payments in one currency, and not of the fees that ride in them; of conversions it is taken from their limits, which
/// are never less. The rest of the coins goes back.
fn spent(entries: &[Entry], fee_basis_points: u16) -> Option<Spent> {
    let own_fee = |units: U256| {
        let fee = U512::from(units) * U512::from(fee_basis_points) / U512::from(10_000);
        U256::checked_from_limbs_slice(fee.as_limbs())
    };
    let mut spendings: Vec<Spending> = Vec::new();
    let mut sums: BTreeMap<(Option<Address>, Kind), U256> = BTreeMap::new();
    for entry in entries {
        let units = entry.spends()?;
        let charged = match entry.kind {
            Kind::Token | Kind::Coin => entry.detail.requestAmount,
            Kind::TokenConversion | Kind::CoinConversion => units,
        };
        let sum = sums.entry((entry.token, entry.kind)).or_default();
        *sum = sum.checked_add(charged)?;
        match spendings.iter_mut().find(|spending| spending.token == entry.token) {
            Some(spending) => spending.units = spending.units.checked_add(units)?,
            None => spendings.push(Spending {
                token: entry.token,
                units,
                resets_allowance: entry.resets_allowance,
            }),
        }
    }
    let mut own: BTreeMap<Option<Address>, U256> = BTreeMap::new();
    for ((token, _), sum) in sums {
        let fee = own.entry(token).or_default();
        *fee = fee.checked_add(own_fee(sum)?)?;
    }
    for spending in &mut spendings {
        let of_contract = own.get(&spending.token).copied().unwrap_or_default();
        spending.units = spending.units.checked_add(of_contract)?;
    }
    spendings.sort_by_key(|spending| spending.token.is_none());
    Some(Spent { spendings, own })
}

/// The feeds by which the contract limits its fee; none where it would ask for one of the native coin that is not there,
/// since it looks that one up by itself.
fn paths_to_usd(terms: &BatchTerms, entries: &[Entry]) -> Vec<Vec<EvmAddress>> {
    let paid: BTreeSet<Option<Address>> = entries.iter().map(|entry| entry.token).collect();
    if paid.contains(&None) && !terms.paths_to_usd.contains_key(&None) {
        return Vec::new();
    }
    let paths = paid.iter().filter_map(|currency| terms.paths_to_usd.get(currency));
    paths.cloned().collect()
}

/// What is said when the payments need more gas than one transaction may: how many of the first ones fit.
pub fn too_much_gas(list: &str, (count, fitting): (usize, usize), (gas, gas_max): (u64, u64)) -> Refusal {
    Refusal::field(
        list,
        format!(
            "must be fewer: these {count} payments may need {gas} gas, and one transaction may have {gas_max}; the first \
             {fitting} fit"
        ),
    )
}

#[cfg(test)]
mod tests;
