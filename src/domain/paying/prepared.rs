//! Transactions that the service prepares completely, so that wallets only sign them: estimates of their resources, and
//! the limits of their fees. On other networks, a wallet adds everything except call and value itself.

use super::{Costs, PaymentTransaction, PaymentTransactions, ResourcePrices, StepWork};
use crate::domain::{
    address::Address,
    amount::format_units,
    network::Network,
    refusal::{Refusal, RefusalCode},
    tron::{ReferenceBlock, TronCall, TronTransaction},
};
use alloy::primitives::U256;

/// How long a prepared transaction can be included in a block, counted from the time of its reference block.
pub const LIFETIME_MS: u64 = 60_000;

/// Maximum age of the newest block of a node to which prepared transactions may refer. A transaction that refers to an
/// older block would leave its signer too little time.
pub const REFERENCE_AGE_MAX_MS: u64 = LIFETIME_MS / 2;

/// Bytes that a transaction has in addition to its raw data: the key and the length of the raw data (3, as the raw data
/// has 128 to 16,383 bytes), and one signature with its key and length.
const ENVELOPE_BYTES: u64 = 3 + 67;

/// Bytes for which the chain charges in addition to the transaction: room for its result.
const RESULT_BYTES: u64 = 64;

/// Longest reason of a failed simulation in a message, in characters.
const REASON_LENGTH_MAX: usize = 120;

/// An account and the resources that it can use without a fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayerResources {
    /// Whether the account exists on the chain. Only such an account can send transactions.
    pub is_activated: bool,
    /// Whether the issuer of the token has frozen the account, which is also called blacklisting. The token then
    /// transfers nothing from it.
    pub is_blocked: bool,
    /// Energy.
    pub energy: u64,
    /// Bytes of bandwidth from staked coins.
    pub staked_bandwidth: u64,
    /// Bytes of bandwidth that every account gets for free.
    pub free_bandwidth: u64,
}

impl PayerResources {
    /// An account without any resources, which pays the highest fees.
    pub const NONE: Self = Self {
        is_activated: true,
        is_blocked: false,
        energy: 0,
        staked_bandwidth: 0,
        free_bandwidth: 0,
    };

    /// Errors: the account can pay nothing.
    pub fn usable(&self) -> Result<(), PayerFlaw> {
        match self {
            Self {
                is_activated: false, ..
            } => Err(PayerFlaw::NotActivated),
            Self { is_blocked: true, .. } => Err(PayerFlaw::Blocked),
            _ => Ok(()),
        }
    }

    /// Uses resources for a step and returns its fee in sun. Energy is used up first and the rest is paid; bandwidth is
    /// used only if one kind suffices for all bytes, otherwise all bytes are paid.
    fn take(&mut self, energy: u64, bandwidth: u64, prices: ResourcePrices) -> u64 {
        let paid_energy = energy.saturating_sub(self.energy);
        self.energy = self.energy.saturating_sub(energy);
        let kinds = [&mut self.staked_bandwidth, &mut self.free_bandwidth];
        let paid_bandwidth = match kinds.into_iter().find(|left| **left >= bandwidth) {
            Some(left) => {
                *left -= bandwidth;
                0
            }
            None => bandwidth,
        };
        let energy_fee = paid_energy.saturating_mul(prices.energy_sun);
        energy_fee.saturating_add(paid_bandwidth.saturating_mul(prices.bandwidth_sun))
    }
}

/// Why a payer cannot pay. Each text continues the name of the field that contains the payer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayerFlaw {
    /// The account does not exist on the chain.
    #[error("is not activated: a Tron account exists only after it has received TRX, so send some TRX to it first")]
    NotActivated,
    /// The issuer of the token has frozen the account.
    #[error("is frozen by the issuer of the token, which is also called blacklisted: pay from another wallet")]
    Blocked,
    /// A simulated approval fails.
    #[error("cannot approve the payment: the token refuses a simulated approval of this wallet ({0})")]
    ApprovalReverts(String),
    /// A simulated payment fails although balance and allowance suffice.
    #[error("cannot pay: a simulated payment of this wallet fails ({0}), so the transaction would only cost fees")]
    PaymentReverts(String),
}

impl PayerFlaw {
    /// A simulated approval failed for this reason, which a node or a contract wrote.
    pub fn approval(reason: &str) -> Self {
        Self::ApprovalReverts(readable(reason))
    }

    /// A simulated payment failed for this reason, which a node or a contract wrote.
    pub fn payment(reason: &str) -> Self {
        Self::PaymentReverts(readable(reason))
    }

    /// The refusal of a call that names the payer in this field.
    pub fn refusal(&self, field: &str) -> Refusal {
        let code = match self {
            Self::NotActivated => Some(RefusalCode::AccountNotActivated),
            Self::Blocked => Some(RefusalCode::PayerBlacklisted),
            Self::ApprovalReverts(_) | Self::PaymentReverts(_) => None,
        };
        Refusal::field(field, self.to_string()).with_code(code)
    }
}

/// A foreign text as part of a message: only its printable ASCII characters, and not too many.
fn readable(reason: &str) -> String {
    let printable = reason
        .chars()
        .filter(|letter| letter.is_ascii_graphic() || *letter == ' ');
    let text: String = printable.take(REASON_LENGTH_MAX).collect();
    if text.is_empty() {
        "no reason given".to_owned()
    } else {
        text
    }
}

/// Result of a simulated transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepSimulation {
    /// It would succeed.
    Succeeds {
        /// All energy that it uses, including the penalty for contracts in high demand.
        energy: u64,
    },
    /// It would fail.
    Reverts {
        /// The reason that the contract gives, or an empty text.
        reason: String,
    },
}

/// Block to which prepared transactions refer, with its time. The chain accepts them only if it contains this block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferencePoint {
    /// The block.
    pub block: ReferenceBlock,
    /// Unix time of the block.
    pub time_ms: u64,
}

/// Maximum fees for energy that owners sign, in sun. A transaction that needs more energy fails, and its owner still
/// pays this fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeLimits {
    /// For an approval.
    pub approval_sun: u64,
    /// For the payment.
    pub payment_sun: u64,
}

/// Energy of the steps, as simulated; `None` for a step that cannot be simulated yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimulatedEnergy {
    /// For each approval.
    pub approvals: Vec<Option<u64>>,
    /// For the payment.
    pub payment: Option<u64>,
}

/// Resources and fee of a transaction, as estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEstimate {
    /// Energy, including energy that the owner does not pay for.
    pub energy: u64,
    /// Bytes of bandwidth, including bandwidth that the owner does not pay for.
    pub bandwidth: u64,
    /// Fee, in sun.
    pub fee_sun: u64,
    /// Whether the energy is a usual value, because the transaction cannot be simulated yet.
    pub is_assumed: bool,
}

/// Sum of the estimates of several transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceTotal {
    /// Energy.
    pub energy: u64,
    /// Bytes of bandwidth.
    pub bandwidth: u64,
}

/// Estimates of all transactions of a payment, and the transactions themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPayment {
    /// Of the approvals.
    pub approvals: Vec<StepEstimate>,
    /// Of the payment.
    pub payment: StepEstimate,
    /// The limits in the transactions.
    pub limits: FeeLimits,
    /// The transactions in execution order; empty if the owner is not known.
    pub unsigned: Vec<TronTransaction>,
}

/// What estimates and transactions of a payment depend on.
#[derive(Debug, Clone, Copy)]
pub struct PreparationFacts<'a> {
    /// Account that is used for the estimates.
    pub account: Address,
    /// Resources of the account.
    pub resources: PayerResources,
    /// Prices of the network.
    pub prices: ResourcePrices,
    /// Simulated energy.
    pub simulated: &'a SimulatedEnergy,
    /// Usual energy, for steps that cannot be simulated.
    pub usual: StepWork,
    /// Maximum fees.
    pub limits: FeeLimits,
    /// The block to which the transactions refer. `None` if the account is not the payer, so that nothing is signed.
    pub reference: Option<ReferencePoint>,
}

/// An estimate is above the maximum fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "The energy of {step} on {network} costs an estimated {} TRX, and this service allows at most {} TRX for it: retry \
     when energy is cheaper, or ask the operator to raise {setting}", trx(.estimate_sun), trx(.limit_sun)
)]
pub struct OverLimit {
    step: &'static str,
    setting: &'static str,
    network: Network,
    estimate_sun: u64,
    limit_sun: u64,
}

impl From<OverLimit> for Refusal {
    fn from(error: OverLimit) -> Self {
        Self::invalid(error.to_string()).with_code(Some(RefusalCode::FeeLimitExceeded))
    }
}

fn trx(sun: &u64) -> String {
    format_units(U256::from(*sun), Network::Tron.coin_decimals())
}

impl PreparedPayment {
    /// Estimates the steps of a payment and prepares their transactions.
    ///
    /// The limit of a transaction is compared with all of its energy, as the chain does, even if the account has energy
    /// of its own. Errors: an estimate is above its limit.
    pub fn new(steps: &PaymentTransactions, facts: PreparationFacts<'_>) -> Result<Self, OverLimit> {
        let FeeLimits {
            approval_sun,
            payment_sun,
        } = facts.limits;
        let mut left = facts.resources;
        let mut prepared = Vec::with_capacity(steps.approvals.len() + 1);
        let simulated = facts.simulated.approvals.iter().copied().chain(std::iter::repeat(None));
        for (step, energy) in steps.approvals.iter().zip(simulated) {
            let limit = ("an approval", "chains.tron.approval_fee_limit_trx", approval_sun);
            prepared.push(facts.prepare(step, energy, facts.usual.approval, limit, &mut left)?);
        }
        let limit = ("the payment", "chains.tron.payment_fee_limit_trx", payment_sun);
        let energy = facts.simulated.payment;
        let (payment, transaction) = facts.prepare(&steps.payment, energy, facts.usual.payment, limit, &mut left)?;
        let (approvals, mut unsigned): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
        unsigned.push(transaction);
        Ok(Self {
            approvals,
            payment,
            limits: facts.limits,
            unsigned: if facts.reference.is_some() {
                unsigned
            } else {
                Vec::new()
            },
        })
    }

    /// The fees, in sun.
    pub fn costs(&self) -> Costs {
        let approvals = self.approvals.iter().map(|estimate| U256::from(estimate.fee_sun));
        Costs {
            approvals: approvals.fold(U256::ZERO, U256::saturating_add),
            payment: U256::from(self.payment.fee_sun),
        }
    }

    /// Resources of all approvals.
    pub fn approval_resources(&self) -> ResourceTotal {
        let sum = |total: ResourceTotal, estimate: &StepEstimate| ResourceTotal {
            energy: total.energy.saturating_add(estimate.energy),
            bandwidth: total.bandwidth.saturating_add(estimate.bandwidth),
        };
        self.approvals.iter().fold(ResourceTotal::default(), sum)
    }
}

impl PreparationFacts<'_> {
    /// Estimates and prepares one step, and takes its resources from those that are left.
    fn prepare(
        &self,
        step: &PaymentTransaction,
        simulated: Option<u64>,
        usual: u64,
        (name, setting, limit_sun): (&'static str, &'static str, u64),
        left: &mut PayerResources,
    ) -> Result<(StepEstimate, TronTransaction), OverLimit> {
        let energy = simulated.unwrap_or(usual);
        let estimate_sun = energy.saturating_mul(self.prices.energy_sun);
        if estimate_sun > limit_sun {
            return Err(OverLimit {
                step: name,
                setting,
                network: Network::Tron,
                estimate_sun,
                limit_sun,
            });
        }
        let transaction = self.transaction(step, limit_sun);
        let raw_bytes = u64::try_from(transaction.encode().len()).unwrap_or(u64::MAX);
        let bandwidth = raw_bytes.saturating_add(ENVELOPE_BYTES + RESULT_BYTES);
        let estimate = StepEstimate {
            energy,
            bandwidth,
            fee_sun: left.take(energy, bandwidth, self.prices),
            is_assumed: simulated.is_none(),
        };
        Ok((estimate, transaction))
    }

    /// The transaction of a step. Without a reference block, only its length is right.
    fn transaction(&self, step: &PaymentTransaction, fee_limit_sun: u64) -> TronTransaction {
        let nothing = ReferencePoint {
            block: ReferenceBlock {
                number_bytes: [0; 2],
                hash_bytes: [0; 8],
            },
            // Every time from 1972 to 2108 has the same number of bytes.
            time_ms: 2_000_000_000_000,
        };
        let ReferencePoint { block, time_ms } = self.reference.unwrap_or(nothing);
        TronTransaction {
            reference_block: block,
            expiration_ms: time_ms.saturating_add(LIFETIME_MS),
            timestamp_ms: time_ms,
            fee_limit_sun,
            permission_id: 0,
            call: owner_call(step, self.account),
        }
    }
}

/// The call of a step as its owner signs it. A signed transaction belongs to a step only if it contains exactly this
/// call.
pub fn owner_call(step: &PaymentTransaction, owner: Address) -> TronCall {
    TronCall {
        owner: owner.bytes(),
        contract: step.to.bytes(),
        value_sun: step.value.saturating_to(),
        data: step.calldata.clone().into(),
        token_value: 0,
        token_id: 0,
    }
}

#[cfg(test)]
mod tests;
