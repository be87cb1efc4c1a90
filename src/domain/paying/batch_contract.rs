//! Several payments in one atomic transaction: the call of the batch contract, its approvals and its gas.

use super::{
    ApprovalAmount, BundleError, Conversion, Executor, Leg, PaidCharge, PayerBalances, PaymentTransaction,
    PaymentTransactions, Spending, StepWork, approvals,
    charge::{ChargedUnits, FeeBearer, FeeKind},
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
        /// Amount in token units, or in 8-decimal fiat units if it is converted.
        uint256 requestAmount;
        /// For a direct payment, only the token. For a conversion, the hashes of the currencies from the invoice
        /// currency to the payment currency. For the native coin, empty.
        address[] path;
        /// Reference.
        bytes paymentReference;
        /// Fee for the fee receiver of the call, in the unit of the amount.
        uint256 feeAmount;
        /// Maximum units that a conversion may spend.
        uint256 maxToSpend;
        /// Maximum accepted age of a rate, in seconds; 0 accepts any age.
        uint256 maxRateTimespan;
    }
    /// Payments of one kind.
    struct MetaDetail {
        /// The number that the contract uses for this kind of payment.
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

/// Fee receiver of a call without fees. The contract transfers even a zero fee, and tokens refuse transfers to the zero
/// address, so the zero address cannot be used.
const NOBODY: EvmAddress = address!("000000000000000000000000000000000000dEaD");

/// Gas of a call before its first payment. Measured: 23,420 without payments.
const CALL_GAS: u64 = 40_000;

/// Gas for the first payment in a token. The contract transfers the amount from the payer, approves the proxy and
/// returns the rest of a conversion. Measured: 66,000 for a direct payment, 113,000 for a conversion.
const TOKEN_GAS: u64 = 130_000;

/// Gas of a payment in a token to a wallet that holds none of this token. Measured: 40,123 alone, 43,300 among six
/// tokens.
const TOKEN_PAYMENT_GAS: u64 = 52_000;

/// Gas of a payment in the native coin to a wallet without coins. Measured: 52,296.
const COIN_PAYMENT_GAS: u64 = 60_000;

/// Gas of the fee inside a payment. Measured: 5,508 in a token, 6,723 in the native coin.
const FEE_GAS: u64 = 8_000;

/// Gas of a conversion in addition to its payment, and gas of each price feed of its path. Measured with two feeds:
/// 31,816 for a token, 38,124 for the native coin. Feeds of live networks forward calls, which needs more gas.
const CONVERSION_GAS: u64 = 20_000;
const FEED_GAS: u64 = 14_000;

/// Address and own fee of the batch contract. Source: rules G.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchTerms {
    /// The contract.
    pub contract: Address,
    /// The contract's own fee in basis points of the payments. The fee receiver of the call gets it in addition to the
    /// fees of the payments.
    pub fee_basis_points: u16,
    /// Price feeds from a token to the dollar; the key `None` is the native coin. The contract uses them to limit its
    /// own fee.
    pub paths_to_usd: BTreeMap<Option<Address>, Vec<EvmAddress>>,
}

/// Kinds of payments with the numbers that the contract uses, in the order that the contract requires. After the last
/// group, the contract returns the remaining coins to the payer. The contract also has a kind 1, for payments in a
/// single token; the service uses kind 2 for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum BatchEntryKind {
    TokenConversion = 0,
    Token = 2,
    Coin = 3,
    CoinConversion = 4,
}

impl BatchEntryKind {
    fn of(leg: &Leg) -> Self {
        match (leg.token.is_some(), leg.conversion.is_some()) {
            (true, true) => Self::TokenConversion,
            (true, false) => Self::Token,
            (false, false) => Self::Coin,
            (false, true) => Self::CoinConversion,
        }
    }
}

/// An entry of the call: a payment, or a separately paid fee.
#[derive(Debug, Clone)]
struct BatchEntry {
    kind: BatchEntryKind,
    token: Option<Address>,
    resets_allowance: bool,
    detail: Detail,
    /// The charges that it pays.
    paid: Vec<PaidCharge>,
}

impl BatchEntry {
    fn new(leg: &Leg, receiver: Address, reference: PaymentReference) -> Self {
        let (path, max_rate_timespan_s) = match (&leg.conversion, leg.token) {
            (Some(conversion), _) => (conversion.path.clone(), conversion.max_rate_timespan_s),
            (None, Some(token)) => (vec![token.bytes()], 0),
            (None, None) => (Vec::new(), 0),
        };
        Self {
            kind: BatchEntryKind::of(leg),
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

    /// Whether the fee of a payment may be added to this separately paid fee. Both need the same currency, receiver and
    /// conversion terms.
    fn takes(&self, leg: &Leg, receiver: Address) -> bool {
        let is_same_conversion = leg.conversion.as_ref().is_none_or(|conversion| {
            conversion.path == self.detail.path
                && U256::from(conversion.max_rate_timespan_s) == self.detail.maxRateTimespan
        });
        self.kind == BatchEntryKind::of(leg)
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

    /// Maximum units of the payment currency that the payer spends.
    fn spends(&self) -> Option<U256> {
        match self.kind {
            BatchEntryKind::TokenConversion | BatchEntryKind::CoinConversion => Some(self.detail.maxToSpend),
            BatchEntryKind::Token | BatchEntryKind::Coin => {
                self.detail.requestAmount.checked_add(self.detail.feeAmount)
            }
        }
    }

    fn gas(&self) -> u64 {
        let payment = match self.token {
            Some(_) => TOKEN_PAYMENT_GAS,
            None => COIN_PAYMENT_GAS,
        };
        let fee = if self.detail.feeAmount.is_zero() { 0 } else { FEE_GAS };
        let conversion = match self.kind {
            BatchEntryKind::TokenConversion | BatchEntryKind::CoinConversion => {
                let feeds = self.detail.path.len().saturating_sub(1);
                CONVERSION_GAS + FEED_GAS.saturating_mul(u64::try_from(feeds).unwrap_or(u64::MAX))
            }
            BatchEntryKind::Token | BatchEntryKind::Coin => 0,
        };
        payment + fee + conversion
    }
}

/// Maximum number of payments in one batch. Source: rules P.1.6.
pub const ITEMS_MAX: usize = 200;

/// The message for a batch with a payment on Tron. Source: interface §7.
const TRON: &str = "Batch payments are not supported for TRON networks. Please submit individual payment requests.";

/// The message for a batch on several networks. Source: rules P.3.6.
const ONE_NETWORK: &str = "All requests must be on the same network";

/// Checks the networks of payments: Tron is refused first, then different networks.
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

/// Checks the network families of payments.
pub fn admit_families(mut families: impl Iterator<Item = Family>) -> Result<(), Refusal> {
    if families.any(|family| family == Family::Tron) {
        return Err(Refusal::invalid(TRON));
    }
    Ok(())
}

/// The batch contract with its payments.
#[derive(Debug, Clone)]
pub struct BatchContract {
    contract: Address,
    fee_receiver: EvmAddress,
    paths_to_usd: Vec<Vec<EvmAddress>>,
    /// Payments and separately paid fees, in the order of the call.
    entries: Vec<BatchEntry>,
    spendings: Vec<Spending>,
    paid: Vec<PaidCharge>,
}

impl BatchContract {
    /// Creates the call for payments. The contract supports one fee receiver. Fees of other receivers are added up by
    /// currency and paid as separate payments with unique references.
    ///
    /// Errors: a sum exceeds 256 bits, or the payer is missing.
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
        let PayerSpending { spendings, own } = spent(&entries, terms.fee_basis_points).ok_or(BundleError::TooLarge)?;
        let own = own.into_iter().filter(|(_, units)| !units.is_zero());
        // Without a fee receiver, the contract refunds its own fee to the payer.
        let own = own.filter_map(|(token, units)| {
            let charged = ChargedUnits {
                kind: FeeKind::Contract,
                bearer: FeeBearer::Payer,
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
    pub fn payment_step(&self) -> PaymentTransaction {
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
        PaymentTransaction {
            to: self.contract,
            calldata: call.abi_encode(),
            value: super::spent(&self.spendings, None),
        }
    }

    /// Gas that the call may need. The figures are measured and rounded up.
    pub fn gas(&self) -> u64 {
        let entries = self.entries.iter();
        let tokens: BTreeSet<_> = entries
            .clone()
            .filter_map(|entry| Some((entry.token?, entry.kind)))
            .collect();
        let tokens = TOKEN_GAS.saturating_mul(u64::try_from(tokens.len()).unwrap_or(u64::MAX));
        entries
            .map(BatchEntry::gas)
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

    fn work(&self) -> StepWork {
        StepWork {
            approval: approvals::APPROVAL_GAS,
            payment: self.gas(),
        }
    }

    fn steps(&self, allowing: ApprovalAmount, standings: &PayerBalances) -> PaymentTransactions {
        approvals::steps(&self.spendings, self.payment_step(), allowing, standings)
    }
}

/// Number of payments, from the first on, that fit into `gas_max` together.
pub fn fitting(terms: &BatchTerms, legs: &[Leg], payer: Option<Address>, gas_max: u64) -> usize {
    let fits = |count: usize| {
        let some = legs.get(..count).unwrap_or(legs);
        BatchContract::admit(terms, some, payer).is_ok_and(|batch| batch.gas() <= gas_max)
    };
    let counts: Vec<usize> = (1..=legs.len()).collect();
    counts.partition_point(|count| fits(*count))
}

/// The entries of the call: the payments with the fees of `taker` inside, then the fees of all other receivers as
/// separate payments. `None` when a sum exceeds 256 bits.
fn entries(legs: &[Leg], taker: Option<Address>) -> Option<Vec<BatchEntry>> {
    let mut payments = Vec::with_capacity(legs.len());
    let mut fees: Vec<BatchEntry> = Vec::new();
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
        let mut payment = BatchEntry::new(leg, leg.payee, leg.reference);
        payment.detail.feeAmount = riding;
        payment.add(leg.units, limit(own)?)?;
        payment.paid = taker.into_iter().flat_map(paid_to).collect();
        payments.push(payment);
        for fee in others {
            let known = fees.iter_mut().find(|entry| entry.takes(leg, fee.receiver));
            match known {
                Some(entry) => entry.add(fee.units, limit(fee.units)?)?,
                None => {
                    let mut entry = BatchEntry::new(leg, fee.receiver, fee_reference(leg.reference, fee.receiver));
                    entry.add(fee.units, limit(fee.units)?)?;
                    fees.push(entry);
                }
            }
            // Fees with different conversion terms are separate payments. The fees of one receiver in one currency are
            // still reported together.
            let is_told =
                |entry: &&mut BatchEntry| (entry.token, entry.detail.recipient) == (leg.token, fee.receiver.bytes());
            if let Some(first) = fees.iter_mut().find(is_told) {
                first.paid.extend(paid_to(fee.receiver));
            }
        }
    }
    payments.append(&mut fees);
    Some(payments)
}

/// The share of a spending limit for a part of the converted amount, rounded up. This is enough, because each part is
/// converted separately and rounded down.
fn share(limit: U256, part: U256, total: U256) -> Option<U256> {
    if part == total {
        return Some(limit);
    }
    let scaled = U512::from(limit) * U512::from(part);
    let share = scaled.checked_add(U512::from(total))?.checked_sub(U512::from(1))?;
    U256::checked_from_limbs_slice(share.checked_div(U512::from(total))?.as_limbs())
}

/// Reference of a separately paid fee. It belongs to no request. So the fee is not credited as a payment, even when its
/// receiver is the payee.
fn fee_reference(payment: PaymentReference, receiver: Address) -> PaymentReference {
    let digest = keccak256([payment.0.as_slice(), receiver.bytes().as_slice()].concat());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[24..]);
    PaymentReference(bytes)
}

/// What the payer spends.
struct PayerSpending {
    /// Amounts by currency: tokens in the order of their first payment, then the coin.
    spendings: Vec<Spending>,
    /// The part of these amounts that is the contract's own fee, by currency.
    own: BTreeMap<Option<Address>, U256>,
}

/// What the payer spends in tokens and in the native coin. The contract charges its own fee on the sum of all payments
/// in one currency, without the fees inside them. For conversions, this function uses the spending limits, because the
/// converted amounts are never higher. The contract returns the remaining coins.
fn spent(entries: &[BatchEntry], fee_basis_points: u16) -> Option<PayerSpending> {
    let own_fee = |units: U256| {
        let fee = U512::from(units) * U512::from(fee_basis_points) / U512::from(10_000);
        U256::checked_from_limbs_slice(fee.as_limbs())
    };
    let mut spendings: Vec<Spending> = Vec::new();
    let mut sums: BTreeMap<(Option<Address>, BatchEntryKind), U256> = BTreeMap::new();
    for entry in entries {
        let units = entry.spends()?;
        let charged = match entry.kind {
            BatchEntryKind::Token | BatchEntryKind::Coin => entry.detail.requestAmount,
            BatchEntryKind::TokenConversion | BatchEntryKind::CoinConversion => units,
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
    Some(PayerSpending { spendings, own })
}

/// The price feeds with which the contract limits its own fee. Empty when a payment is in the native coin and the feed
/// of this coin is missing, because the contract would otherwise look up the missing feed itself.
fn paths_to_usd(terms: &BatchTerms, entries: &[BatchEntry]) -> Vec<Vec<EvmAddress>> {
    let paid: BTreeSet<Option<Address>> = entries.iter().map(|entry| entry.token).collect();
    if paid.contains(&None) && !terms.paths_to_usd.contains_key(&None) {
        return Vec::new();
    }
    let paths = paid.iter().filter_map(|currency| terms.paths_to_usd.get(currency));
    paths.cloned().collect()
}

/// The message when the payments need more gas than one transaction may use. It says how many of the first payments
/// fit.
pub fn too_much_gas(list: &str, (count, fitting): (usize, usize), (gas, gas_max): (u64, u64)) -> Refusal {
    Refusal::field(
        list,
        format!(
            "must have fewer items: these {count} payments may need {gas} gas, and one transaction may use {gas_max}; the first \
             {fitting} fit"
        ),
    )
}

#[cfg(test)]
mod tests;
