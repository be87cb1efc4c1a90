//! Paying: payments with their charges, and the contracts that execute them in one transaction.

mod approvals;
pub mod batch_contract;
pub mod capture;
pub mod charge;
pub mod contracts;
pub mod fee_proxy;
pub mod prepared;
pub mod summary;
pub mod tron_proxy;

use super::{address::Address, network::Network, reference::PaymentReference, refusal::Refusal};
use alloy::primitives::{Address as EvmAddress, U256};
pub use approvals::approval_step;
use charge::{ChargedUnits, FeeLeg, by_receiver};
use std::collections::BTreeMap;

/// One transaction for the payer to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentTransaction {
    /// Called contract.
    pub to: Address,
    /// Encoded call.
    pub calldata: Vec<u8>,
    /// Amount of the native coin to send, in its smallest unit.
    pub value: U256,
}

/// Transactions for the payer to sign, in execution order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentTransactions {
    /// Approvals for the contract. If the token needs it, a reset to zero precedes the approval.
    pub approvals: Vec<PaymentTransaction>,
    /// The payment.
    pub payment: PaymentTransaction,
}

impl PaymentTransactions {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &PaymentTransaction> {
        self.approvals.iter().chain([&self.payment])
    }
}

/// On-chain conversion of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// Hashes of the currencies along the path, from the invoice currency to the payment currency.
    pub path: Vec<EvmAddress>,
    /// Maximum payment units to spend, including charges.
    pub max_to_spend: U256,
    /// Maximum accepted age of a rate, in seconds; 0 accepts any age.
    pub max_rate_timespan_s: u64,
}

/// One payment of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Receiver.
    pub payee: Address,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Whether the token refuses to change a non-zero allowance to another non-zero value.
    pub resets_allowance: bool,
    /// Amount in token units, or in 8-decimal fiat units if it is converted.
    pub units: U256,
    /// Reference.
    pub reference: PaymentReference,
    /// Charges that the payer pays together with the amount for the payee, in its units.
    pub charges: Vec<ChargedUnits>,
    /// Conversion, if any. Its spending limit covers the amount and all charges.
    pub conversion: Option<Conversion>,
}

impl Leg {
    /// Fees by receiver.
    pub fn fees(&self) -> Vec<FeeLeg> {
        by_receiver(&self.charges)
    }

    /// Units including all charges; `None` beyond 256 bits.
    pub fn total(&self) -> Option<U256> {
        let mut charges = self.charges.iter();
        charges.try_fold(self.units, |sum, charge| sum.checked_add(charge.units))
    }
}

/// Payments in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Network.
    pub network: Network,
    /// The payments.
    pub legs: Vec<Leg>,
}

impl Bundle {
    /// The payment, if a fee proxy can execute the bundle: a single payment with one receiver of charges.
    pub fn for_fee_proxy(&self) -> Option<&Leg> {
        match self.legs.as_slice() {
            [leg] if leg.fees().len() <= 1 => Some(leg),
            _ => None,
        }
    }
}

/// Why a contract cannot pay a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A sum exceeds 256 bits.
    #[error("is too large together with the fees")]
    TooLarge,
    /// The contract charges a fee that it would refund to the payer, but no payer is named.
    #[error(
        "is required: the batch contract charges a fee and refunds it to the payer when there is no other fee receiver"
    )]
    NoPayer,
    /// There are more payments or receivers of charges than the contract supports in one transaction.
    #[error("cannot be paid in one transaction by this contract")]
    TooMany,
    /// The network has no contract for one of the payments.
    #[error("{0} has no contract for this kind of payment")]
    NoContract(Network),
    /// The network has no batch contract.
    #[error("{0} has no contract for several payments in one transaction")]
    NoBatchContract(Network),
}

impl From<BundleError> for Refusal {
    /// The refusal of a call that pays a single payment.
    fn from(error: BundleError) -> Self {
        let sentence = error.to_string();
        match error {
            BundleError::TooLarge | BundleError::TooMany => Self::field("amount", sentence),
            BundleError::NoPayer => Self::field("payer", sentence),
            BundleError::NoContract(_) | BundleError::NoBatchContract(_) => Self::invalid(sentence),
        }
    }
}

/// Prices of resources that a transaction uses beyond those of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourcePrices {
    /// Price of one unit of energy, in sun.
    pub energy_sun: u64,
    /// Price of one byte of bandwidth, in sun.
    pub bandwidth_sun: u64,
}

/// Price of transactions on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPrice {
    /// Price of one unit of gas, in the smallest unit of the coin.
    Gas(U256),
    /// Prices of the resources of Tron: energy and bandwidth.
    Resources(ResourcePrices),
}

impl NetworkPrice {
    /// The fee for work of this size, in the smallest unit of the coin. On Tron, it lacks the fee for bandwidth.
    fn fee(self, work: u64) -> U256 {
        let price = match self {
            Self::Gas(price) => price,
            Self::Resources(prices) => U256::from(prices.energy_sun),
        };
        U256::from(work).saturating_mul(price)
    }
}

/// Work that a network charges for: gas, or energy on Tron. The figures are upper bounds for usual transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepWork {
    /// Work of one approval.
    pub approval: u64,
    /// Work of the payment.
    pub payment: u64,
}

/// On-chain state of a payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayerBalance {
    /// Balance of the payment currency.
    pub balance: U256,
    /// Balance of the native coin.
    pub native_balance: U256,
    /// Allowance of the called contract for the token.
    pub allowance: U256,
    /// Price of transactions on the network.
    pub price: NetworkPrice,
}

/// On-chain state of a payer by token; the key `None` is the native coin.
pub type PayerBalances = BTreeMap<Option<Address>, PayerBalance>;

/// Amount of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalAmount {
    /// Unlimited, as the published interface says.
    Everything,
    /// Exactly the needed amount. Links use it, because the payer of a link may never pay here again.
    WhatIsNeeded,
}

/// Amount that the payer spends in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spending {
    /// The token; `None` for the native coin.
    pub token: Option<Address>,
    /// Maximum units, including every fee.
    pub units: U256,
    /// Whether the token refuses to change a non-zero allowance to another non-zero value.
    pub resets_allowance: bool,
}

/// One paid fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaidCharge {
    /// Position of its payment.
    pub leg: usize,
    /// The fee. For a fee of the contract itself, this is the maximum, because the contract may limit its own fee.
    pub charged: ChargedUnits,
}

/// Maximum network fees of the transactions, in units of the coin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// For all approvals.
    pub approvals: U256,
    /// For the payment.
    pub payment: U256,
}

impl Costs {
    /// The costs of a number of approvals and of the payment, computed from their usual work.
    pub fn usual(work: StepWork, approvals: usize, price: NetworkPrice) -> Self {
        let approvals = u64::try_from(approvals).unwrap_or(u64::MAX);
        Self {
            approvals: price.fee(approvals.saturating_mul(work.approval)),
            payment: price.fee(work.payment),
        }
    }

    /// For all transactions.
    pub fn total(&self) -> U256 {
        self.approvals.saturating_add(self.payment)
    }
}

/// A contract that pays one bundle in one transaction. It is created for the bundle and refuses bundles that it cannot
/// pay.
pub trait Executor: Send + Sync {
    /// The contract that the payer calls and approves.
    fn contract(&self) -> Address;
    /// Maximum amounts that the payer spends: tokens in the order of their first payment, then the coin.
    fn spendings(&self) -> &[Spending];
    /// The fees. The contract's own fee is included unless it is refunded to the payer. Fees in tokens come before fees
    /// in the coin. Within a currency, fees inside payments come first, then separately paid fees, then the fee of the
    /// contract.
    fn paid(&self) -> &[PaidCharge];
    /// Work of the payment and of each approval.
    fn work(&self) -> StepWork;
    /// The transactions of the payer: approvals for insufficient or unknown allowances, and the payment.
    fn steps(&self, allowing: ApprovalAmount, standings: &PayerBalances) -> PaymentTransactions;
}

/// A currency in which the payer's balance is too low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Contract; `None` for the native coin.
    pub token: Option<Address>,
    /// Required units.
    pub required: U256,
    /// Available units.
    pub available: U256,
}

/// On-chain state of a payer compared with the required amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerMeans {
    /// On-chain state.
    pub standings: PayerBalances,
    /// Network fees.
    pub costs: Costs,
    /// Currencies with too low a balance, not counting network fees.
    pub shortages: Vec<Shortage>,
    /// Whether the coin balance covers the payment and the network fees.
    pub has_enough_gas: bool,
}

impl PayerMeans {
    /// Compares the on-chain state of a payer with what an executor needs after a number of approvals; `costs` are
    /// known from an estimate. `None` when no on-chain state is known. A token whose balance is unknown counts as
    /// available.
    pub fn of(
        executor: &dyn Executor,
        approvals: usize,
        costs: Option<Costs>,
        standings: PayerBalances,
    ) -> Option<Self> {
        let first = standings.values().next()?;
        let costs = costs.unwrap_or_else(|| Costs::usual(executor.work(), approvals, first.price));
        let shortage = |spending: &Spending| Shortage {
            token: spending.token,
            required: spending.units,
            available: match spending.token {
                None => first.native_balance,
                token => standings
                    .get(&token)
                    .map_or(spending.units, |standing| standing.balance),
            },
        };
        let shortages = executor.spendings().iter().map(shortage);
        let value = spent(executor.spendings(), None);
        Some(Self {
            shortages: shortages.filter(|one| one.available < one.required).collect(),
            has_enough_gas: first.native_balance >= value.saturating_add(costs.total()),
            costs,
            standings,
        })
    }
}

/// Units that the payer spends in a currency.
pub fn spent(spendings: &[Spending], token: Option<Address>) -> U256 {
    let spending = spendings.iter().find(|spending| spending.token == token);
    spending.map_or(U256::ZERO, |spending| spending.units)
}
