//! Paying: what is paid to whom with which charges, and the contracts that do it in one transaction.

pub mod batch_contract;
pub mod charge;
mod evm;
pub mod fee_proxy;
pub mod summary;

use super::{address::Address, network::Network, reference::PaymentReference, refusal::Refusal};
use alloy::primitives::{Address as EvmAddress, U256};
use charge::{ChargedUnits, FeeLeg, by_receiver};
pub use evm::approval_step;
use std::collections::BTreeMap;

/// One transaction for the payer to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Contract that is called.
    pub to: Address,
    /// Encoded call.
    pub calldata: Vec<u8>,
    /// Native coin that goes with it, in its smallest unit.
    pub value: U256,
}

/// What the payer signs, in the order of execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// Allow the contract to take tokens, each after a reset where its token needs one.
    pub approvals: Vec<Step>,
    /// Pays.
    pub payment: Step,
}

impl Steps {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        self.approvals.iter().chain([&self.payment])
    }
}

/// On-chain conversion of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// Hashes from invoice to payment currency.
    pub path: Vec<EvmAddress>,
    /// Most payment units that may be spent, charges included.
    pub max_to_spend: U256,
    /// Oldest accepted rate in seconds; 0 accepts any.
    pub max_rate_timespan_s: u64,
}

/// One payment of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Receiver.
    pub payee: Address,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Whether the token refuses to change a non-zero allowance to another non-zero one.
    pub resets_allowance: bool,
    /// Token units, or 8-decimal fiat units when converted.
    pub units: U256,
    /// Reference.
    pub reference: PaymentReference,
    /// What is charged on top, in the same units.
    pub charges: Vec<ChargedUnits>,
    /// Conversion. What it may spend is enough for the amount and all charges.
    pub conversion: Option<Conversion>,
}

impl Leg {
    /// What each receiver of charges gets.
    pub fn fees(&self) -> Vec<FeeLeg> {
        by_receiver(&self.charges)
    }

    /// Units with everything on top of them; `None` beyond 256 bits.
    pub fn total(&self) -> Option<U256> {
        let mut charges = self.charges.iter();
        charges.try_fold(self.units, |sum, charge| sum.checked_add(charge.units))
    }
}

/// What is paid in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Where.
    pub network: Network,
    /// The payments.
    pub legs: Vec<Leg>,
}

impl Bundle {
    /// Its payment where a fee proxy can make it: a single one, of whose charges one receiver gets all.
    pub fn for_fee_proxy(&self) -> Option<&Leg> {
        match self.legs.as_slice() {
            [leg] if leg.fees().len() <= 1 => Some(leg),
            _ => None,
        }
    }
}

/// Why a contract does not pay a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A sum leaves 256 bits.
    #[error("is too large together with the fees")]
    TooLarge,
    /// The contract takes a fee that nobody would get but the payer, who is not named.
    #[error("is required: the batch contract takes a fee, which goes back to the payer where nobody else gets one")]
    NoPayer,
    /// There are more payments, or more receivers of charges, than the contract pays in one transaction.
    #[error("cannot be paid in one transaction by this contract")]
    TooMany,
}

impl From<BundleError> for Refusal {
    /// As a call says it that makes one payment.
    fn from(error: BundleError) -> Self {
        let field = match error {
            BundleError::TooLarge | BundleError::TooMany => "amount",
            BundleError::NoPayer => "payer",
        };
        Self::field(field, error.to_string())
    }
}

/// What a network charges for its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPrice {
    /// Price of one unit of gas, in the smallest unit of the coin.
    Gas(U256),
}

/// What the chain says about a payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Balance of the payment currency.
    pub balance: U256,
    /// Balance of the native coin.
    pub native_balance: U256,
    /// Allowance of the contract that is called over the token.
    pub allowance: U256,
    /// What the network charges for its work.
    pub price: NetworkPrice,
}

/// What the chain says about a payer, token by token; of the native coin alone under `None`.
pub type Standings = BTreeMap<Option<Address>, Standing>;

/// How much an approval allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowing {
    /// Everything for ever, as the published interface shows it.
    Everything,
    /// Exactly what the payment needs: the payer of a link may never pay here again.
    WhatIsNeeded,
}

/// What leaves the payer in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spending {
    /// The token; `None` for the native coin.
    pub token: Option<Address>,
    /// Most units of it, with every fee.
    pub units: U256,
    /// Whether the token refuses to change a non-zero allowance to another non-zero one.
    pub resets_allowance: bool,
}

/// One fee as it is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaidCharge {
    /// Position of the payment that it is paid with.
    pub leg: usize,
    /// What it is. Of what a contract takes for itself it is the most: the contract may have a limit of its own.
    pub charged: ChargedUnits,
}

/// What the network takes for transactions at most, in units of its coin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// For the approvals together.
    pub approvals: U256,
    /// For the payment.
    pub payment: U256,
}

impl Costs {
    /// For all transactions.
    pub fn total(&self) -> U256 {
        self.approvals.saturating_add(self.payment)
    }
}

/// A contract that pays one bundle in one transaction. It is made for the bundle, and what it cannot pay it does not admit.
pub trait Executor: Send + Sync {
    /// The contract, which the payer calls and allows to take tokens.
    fn contract(&self) -> Address;
    /// What leaves the payer at most: tokens in the order of their first payment, then the coin.
    fn spendings(&self) -> &[Spending];
    /// The fees, with what the contract takes for itself and does not give back: those in tokens before those in the coin,
    /// and in each of the two those that ride in payments, those that are paid alone, and those of the contract.
    fn paid(&self) -> &[PaidCharge];
    /// What the network takes for the payment after so many approvals.
    fn costs(&self, approvals: usize, price: NetworkPrice) -> Costs;
    /// The transactions of the payer: approvals of what is not allowed or not known to be, and the payment.
    fn steps(&self, allowing: Allowing, standings: &Standings) -> Steps;
}

/// A currency of which the payer holds too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Contract; `None` for the native coin.
    pub token: Option<Address>,
    /// Units that are needed.
    pub required: U256,
    /// Units that are there.
    pub available: U256,
}

/// What a payer has, beside what is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerMeans {
    /// What the chain says.
    pub standings: Standings,
    /// What the network takes.
    pub costs: Costs,
    /// What is there too little of, without the costs.
    pub shortages: Vec<Shortage>,
    /// Whether the coins are enough for the payment and the costs.
    pub has_enough_gas: bool,
}

impl PayerMeans {
    /// Compares what the chain says of a payer with what an executor needs after so many approvals; `None` where it says
    /// nothing.
    pub fn of(executor: &dyn Executor, approvals: usize, standings: Standings) -> Option<Self> {
        let first = standings.values().next()?;
        let costs = executor.costs(approvals, first.price);
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

/// Units that leave the payer in a currency.
pub fn spent(spendings: &[Spending], token: Option<Address>) -> U256 {
    let spending = spendings.iter().find(|spending| spending.token == token);
    spending.map_or(U256::ZERO, |spending| spending.units)
}
