//! Several payments in one transaction, all of them or none: the call of the batch contract, its approvals and its gas.

use super::{
    address::Address,
    calldata::{APPROVAL_GAS, Allowing, Calldata, PaymentPlan, Standing, Step, approval_step},
    fees::FeeLeg,
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

/// Why payments are not made together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A sum leaves 256 bits.
    #[error("is too large together with the fees")]
    TooLarge,
    /// The contract takes a fee that nobody would get but the payer, who is not named.
    #[error("is required: the batch contract takes a fee, which goes back to the payer where nobody else gets one")]
    NoPayer,
}

impl From<BatchError> for Refusal {
    /// As a call says it that makes one payment.
    fn from(error: BatchError) -> Self {
        let field = match error {
            BatchError::TooLarge => "amount",
            BatchError::NoPayer => "payer",
        };
        Self::field(field, error.to_string())
    }
}

/// A payment of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchItem<'a> {
    /// The payment with the fee that would ride in it if it were alone. What its conversion may spend is enough for all
    /// its fees.
    pub plan: &'a PaymentPlan,
    /// Fees of further receivers.
    pub further_fees: &'a [FeeLeg],
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
    fn of(plan: &PaymentPlan) -> Self {
        match (plan.token.is_some(), plan.conversion.is_some()) {
            (true, true) => Self::TokenConversion,
            (true, false) => Self::Token,
            (false, false) => Self::Coin,
            (false, true) => Self::CoinConversion,
        }
    }
}

/// What a payment is made of in the call.
#[derive(Debug, Clone)]
struct Leg {
    kind: Kind,
    token: Option<Address>,
    resets_allowance: bool,
    detail: Detail,
}

impl Leg {
    fn new(plan: &PaymentPlan, payee: Address, reference: PaymentReference) -> Self {
        let (path, max_rate_timespan_s) = match (&plan.conversion, plan.token) {
            (Some(conversion), _) => (conversion.path.clone(), conversion.max_rate_timespan_s),
            (None, Some(token)) => (vec![token.bytes()], 0),
            (None, None) => (Vec::new(), 0),
        };
        Self {
            kind: Kind::of(plan),
            token: plan.token,
            resets_allowance: plan.resets_allowance,
            detail: Detail {
                recipient: payee.bytes(),
                requestAmount: U256::ZERO,
                path,
                paymentReference: reference.0.to_vec().into(),
                feeAmount: U256::ZERO,
                maxToSpend: U256::ZERO,
                maxRateTimespan: U256::from(max_rate_timespan_s),
            },
        }
    }

    /// Whether the fee of a payment may be added to this fee: conversions of other terms are other payments.
    fn takes(&self, plan: &PaymentPlan, receiver: Address) -> bool {
        let is_same_conversion = plan.conversion.as_ref().is_none_or(|conversion| {
            conversion.path == self.detail.path
                && U256::from(conversion.max_rate_timespan_s) == self.detail.maxRateTimespan
        });
        self.kind == Kind::of(plan)
            && self.token == plan.token
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

/// What leaves the payer in one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spending {
    /// The token.
    pub token: Address,
    /// Most units of it, with every fee.
    pub units: U256,
    /// Whether the token refuses to change a non-zero allowance to another non-zero one.
    pub resets_allowance: bool,
}

/// What the contract takes in one currency for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnFee {
    /// The token; `None` for the native coin.
    pub token: Option<Address>,
    /// Who gets it, and how much at most: the contract may have a limit of its own.
    pub leg: FeeLeg,
}

/// Payments that are made together.
#[derive(Debug, Clone)]
pub struct Batch {
    contract: Address,
    fee_receiver: EvmAddress,
    paths_to_usd: Vec<Vec<EvmAddress>>,
    /// In the order of the call.
    legs: Vec<Leg>,
    /// In the order of their first payment.
    spendings: Vec<Spending>,
    value: U256,
    own_fees: Vec<OwnFee>,
}

impl Batch {
    /// Puts payments together. The contract knows one receiver of fees: what others get is added up by currency and paid
    /// to them like a payment of its own, with a reference that is nobody else's.
    ///
    /// Errors: every [`BatchError`].
    pub fn of(terms: &BatchTerms, items: &[BatchItem<'_>], payer: Option<Address>) -> Result<Self, BatchError> {
        let mut fees = items
            .iter()
            .flat_map(|item| item.plan.fee.iter().chain(item.further_fees));
        let taker = fees.next().map(|fee| fee.receiver);
        let is_free = terms.fee_basis_points == 0;
        let fee_receiver = match (taker, payer) {
            (Some(taker), _) => taker.bytes(),
            (None, _) if is_free => NOBODY,
            (None, Some(payer)) => payer.bytes(),
            (None, None) => return Err(BatchError::NoPayer),
        };
        let legs = legs(items, taker).ok_or(BatchError::TooLarge)?;
        let Spent { spendings, value, own } = spent(&legs, terms.fee_basis_points).ok_or(BatchError::TooLarge)?;
        let own = own.into_iter().filter(|(_, units)| !units.is_zero());
        // Where nobody takes fees, it goes back to the payer.
        let own_fees = own.filter_map(|(token, units)| {
            let leg = FeeLeg {
                receiver: taker?,
                units,
            };
            Some(OwnFee { token, leg })
        });
        let own_fees = own_fees.collect();
        Ok(Self {
            contract: terms.contract,
            fee_receiver,
            paths_to_usd: if is_free {
                Vec::new()
            } else {
                paths_to_usd(terms, &legs)
            },
            legs,
            spendings,
            value,
            own_fees,
        })
    }

    /// The call.
    pub fn step(&self) -> Step {
        let groups = self.legs.chunk_by(|one, next| one.kind == next.kind);
        let groups = groups.map(|legs| MetaDetail {
            paymentNetworkId: U256::from(legs.first().map_or(0, |leg| leg.kind as u8)),
            requestDetails: legs.iter().map(|leg| leg.detail.clone()).collect(),
        });
        let call = BatchConversionPayments::batchPaymentsCall {
            metaDetails: groups.collect(),
            pathsToUSD: self.paths_to_usd.clone(),
            feeAddress: self.fee_receiver,
        };
        Step {
            to: self.contract,
            calldata: call.abi_encode(),
            value: self.value,
        }
    }

    /// Native coin that goes with the call.
    pub fn value(&self) -> U256 {
        self.value
    }

    /// What leaves the payer in each token, at most.
    pub fn spendings(&self) -> &[Spending] {
        &self.spendings
    }

    /// What the contract takes for itself and does not give back.
    pub fn own_fees(&self) -> &[OwnFee] {
        &self.own_fees
    }

    /// One approval for each token whose allowance is not enough or not known, after a reset where the token needs one.
    /// Source: rules G.2 (6); rules G.5 (4).
    pub fn approvals(&self, allowing: Allowing, allowance: impl Fn(&Address) -> Option<U256>) -> Vec<Step> {
        let mut steps = Vec::new();
        for Spending {
            token,
            units,
            resets_allowance,
        } in &self.spendings
        {
            let allowance = allowance(token);
            if allowance.is_some_and(|allowance| allowance >= *units) {
                continue;
            }
            // An unknown allowance may be one that such a token refuses to change; without one, the reset changes nothing.
            if *resets_allowance && allowance.is_none_or(|allowance| !allowance.is_zero()) {
                steps.push(approval_step(*token, self.contract, U256::ZERO));
            }
            steps.push(approval_step(*token, self.contract, allowing.units(*units)));
        }
        steps
    }

    /// Gas that the call may need; rounded up from measured figures.
    pub fn gas(&self) -> u64 {
        let tokens: BTreeSet<_> = self
            .legs
            .iter()
            .filter_map(|leg| Some((leg.token?, leg.kind)))
            .collect();
        let tokens = TOKEN_GAS.saturating_mul(u64::try_from(tokens.len()).unwrap_or(u64::MAX));
        let legs = self.legs.iter().map(Leg::gas);
        legs.fold(CALL_GAS.saturating_add(tokens), u64::saturating_add)
    }
}

/// How many of the first payments fit into so much gas together.
pub fn fitting(terms: &BatchTerms, items: &[BatchItem<'_>], payer: Option<Address>, gas_max: u64) -> usize {
    let fits = |count: usize| {
        let some = items.get(..count).unwrap_or(items);
        Batch::of(terms, some, payer).is_ok_and(|batch| batch.gas() <= gas_max)
    };
    let counts: Vec<usize> = (1..=items.len()).collect();
    counts.partition_point(|count| fits(*count))
}

/// Puts the approval and the payment of one request in order whose fees have several receivers, as
/// [`super::calldata::assemble`] does where one of them gets all; `standing` is that towards the batch contract.
///
/// Errors: as those of [`Batch::of`].
pub fn assemble(
    terms: &BatchTerms,
    item: BatchItem<'_>,
    payer: Option<Address>,
    standing: Option<&Standing>,
    allowing: Allowing,
) -> Result<Calldata, Refusal> {
    let batch = Batch::of(terms, &[item], payer)?;
    let mut steps = batch.approvals(allowing, |_| standing.map(|standing| standing.allowance));
    let payment_index = steps.len();
    let payment = batch.step();
    let needed = batch.spendings.first().map_or(payment.value, |spending| spending.units);
    let approval_gas = u64::try_from(payment_index)
        .unwrap_or(u64::MAX)
        .saturating_mul(APPROVAL_GAS);
    let gas = U256::from(approval_gas.saturating_add(batch.gas()));
    let value = payment.value;
    steps.push(payment);
    Ok(Calldata {
        approval_index: payment_index.checked_sub(1),
        payment_index,
        steps,
        has_enough_balance: standing.is_none_or(|standing| standing.balance >= needed),
        has_enough_gas: standing.is_none_or(|standing| {
            standing.native_balance >= value.saturating_add(gas.saturating_mul(standing.gas_price))
        }),
        needed,
        approval_gas,
        payment_gas: batch.gas(),
        contract_fee: batch.own_fees.first().map(|own| own.leg),
    })
}

/// The payments and after them, in each group, what further receivers of fees get. `None` beyond 256 bits.
fn legs(items: &[BatchItem<'_>], taker: Option<Address>) -> Option<Vec<Leg>> {
    let mut payments = Vec::with_capacity(items.len());
    let mut fees: Vec<Leg> = Vec::new();
    for BatchItem { plan, further_fees } in items {
        let all = || plan.fee.iter().chain(*further_fees);
        let of = |legs: Vec<&FeeLeg>| legs.iter().try_fold(U256::ZERO, |sum, fee| sum.checked_add(fee.units));
        let (riding, others) = all().partition::<Vec<_>, _>(|fee| Some(fee.receiver) == taker);
        let riding = of(riding)?;
        let own = plan.units.checked_add(riding)?;
        let total = own.checked_add(of(others.clone())?)?;
        let limit = |part: U256| match &plan.conversion {
            Some(conversion) => share(conversion.max_to_spend, part, total),
            None => Some(U256::ZERO),
        };
        let mut payment = Leg::new(plan, plan.payee, plan.reference);
        payment.detail.feeAmount = riding;
        payment.add(plan.units, limit(own)?)?;
        payments.push(payment);
        for fee in others.into_iter().filter(|fee| !fee.units.is_zero()) {
            let known = fees.iter_mut().find(|leg| leg.takes(plan, fee.receiver));
            match known {
                Some(leg) => leg.add(fee.units, limit(fee.units)?)?,
                None => {
                    let mut leg = Leg::new(plan, fee.receiver, fee_reference(plan.reference, fee.receiver));
                    leg.add(fee.units, limit(fee.units)?)?;
                    fees.push(leg);
                }
            }
        }
    }
    payments.append(&mut fees);
    payments.sort_by_key(|leg| leg.kind);
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
    /// In tokens.
    spendings: Vec<Spending>,
    /// In the coin.
    value: U256,
    /// What of that the contract takes for itself, by currency.
    own: BTreeMap<Option<Address>, U256>,
}

/// What leaves the payer in tokens, and in the coin. The contract takes its own fee of what the receivers get, of the sum of
/// all payments in one currency, and not of the fees that ride in them; of conversions it is taken from their limits, which
/// are never less. The rest of the coins goes back.
fn spent(legs: &[Leg], fee_basis_points: u16) -> Option<Spent> {
    let own_fee = |units: U256| {
        let fee = U512::from(units) * U512::from(fee_basis_points) / U512::from(10_000);
        U256::checked_from_limbs_slice(fee.as_limbs())
    };
    let (mut spendings, mut value): (Vec<Spending>, _) = (Vec::new(), U256::ZERO);
    let mut sums: BTreeMap<(Option<Address>, Kind), U256> = BTreeMap::new();
    for leg in legs {
        let units = leg.spends()?;
        let charged = match leg.kind {
            Kind::Token | Kind::Coin => leg.detail.requestAmount,
            Kind::TokenConversion | Kind::CoinConversion => units,
        };
        let sum = sums.entry((leg.token, leg.kind)).or_default();
        *sum = sum.checked_add(charged)?;
        let Some(token) = leg.token else {
            value = value.checked_add(units)?;
            continue;
        };
        match spendings.iter_mut().find(|spending| spending.token == token) {
            Some(spending) => spending.units = spending.units.checked_add(units)?,
            None => spendings.push(Spending {
                token,
                units,
                resets_allowance: leg.resets_allowance,
            }),
        }
    }
    let mut own: BTreeMap<Option<Address>, U256> = BTreeMap::new();
    for ((token, _), sum) in sums {
        let fee = own.entry(token).or_default();
        *fee = fee.checked_add(own_fee(sum)?)?;
    }
    let of = |token: Option<Address>| own.get(&token).copied().unwrap_or_default();
    for spending in &mut spendings {
        spending.units = spending.units.checked_add(of(Some(spending.token)))?;
    }
    let value = value.checked_add(of(None))?;
    Some(Spent { spendings, value, own })
}

/// The feeds by which the contract limits its fee; none where it would ask for one of the native coin that is not there,
/// since it looks that one up by itself.
fn paths_to_usd(terms: &BatchTerms, legs: &[Leg]) -> Vec<Vec<EvmAddress>> {
    let paid: BTreeSet<Option<Address>> = legs.iter().map(|leg| leg.token).collect();
    if paid.contains(&None) && !terms.paths_to_usd.contains_key(&None) {
        return Vec::new();
    }
    let paths = paid.iter().filter_map(|currency| terms.paths_to_usd.get(currency));
    paths.cloned().collect()
}

#[cfg(test)]
mod tests;
