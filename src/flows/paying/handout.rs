//! Amounts due, and the calldata issued for them.

use crate::{
    domain::{
        address::Address,
        ledger::SettlementUnits,
        network::Network,
        paying::{
            ApprovalAmount, Bundle, BundleError, Costs, Executor, PaidCharge, PayerBalances, PayerMeans,
            PaymentTransactions, Spending,
            charge::Charges,
            prepared::{PayerFlaw, PayerResources, PreparedPayment, SimulatedEnergy},
        },
        quote::Quote,
        rate::Rate,
        rates::AppliedRate,
        refusal::Refusal,
        request::Request,
    },
    flows::FlowError,
    ports::chain::ChainError,
};
use chrono::{DateTime, Utc};

/// An amount of a request to be paid.
#[derive(Debug, Clone)]
pub struct PaymentDue {
    /// The request.
    pub request: Request,
    /// The amount.
    pub units: SettlementUnits,
    /// The charges on top of the amount.
    pub charges: Charges,
    /// The rate, if it is already fixed; `None` means that the current rate is looked up.
    pub rate: Option<AppliedRate>,
}

impl PaymentDue {
    /// The remaining amount of a request, at the current rate.
    pub fn all_of(request: Request, charges: Charges) -> Self {
        Self {
            units: request.ledger.remaining(),
            request,
            charges,
            rate: None,
        }
    }
}

/// The paying wallet, and how much it approves.
#[derive(Debug, Clone, Copy)]
pub struct PayingWallet {
    /// Address of the wallet; `None` if the caller names no payer, in which case no balance is looked up.
    pub address: Option<Address>,
    /// Whether the token approvals are unlimited or for exactly the needed amount.
    pub allowing: ApprovalAmount,
    /// Whether the wallet is a Safe. Its owners sign approvals and payment together, and any account executes them, so
    /// every approval is included, and the coins of the wallet pay no network fee.
    pub is_safe: bool,
}

impl PayingWallet {
    /// A wallet with unlimited approvals.
    pub fn allowing_everything(address: Option<Address>) -> Self {
        Self {
            address,
            allowing: ApprovalAmount::Everything,
            is_safe: false,
        }
    }
}

/// How payments are packed into a transaction.
#[derive(Debug, Clone, Copy)]
pub enum PaymentPacking {
    /// One payment, through a fee proxy contract if all its charges go to one receiver.
    Alone,
    /// Any number of payments through the batch contract.
    Together {
        /// Maximum gas; `None` when the gas was already checked.
        gas_max: Option<u64>,
    },
}

/// Issued calldata of one request.
#[derive(Debug, Clone)]
pub struct HandedPayment {
    /// The request.
    pub request: Request,
    /// The charges on top of the amount.
    pub charges: Charges,
    /// Decimals of the payment currency.
    pub decimals: u8,
    /// The off-chain quote, if no price feed on chain converts the amount.
    pub quote: Option<Quote>,
}

/// Issued calldata.
#[derive(Debug, Clone)]
pub struct Handout {
    /// The payments.
    pub bundle: Bundle,
    /// The request of each payment of the bundle, in order.
    pub payments: Vec<HandedPayment>,
    /// Transactions for the payer to sign.
    pub steps: PaymentTransactions,
    /// Maximum amounts that the payer spends.
    pub spendings: Vec<Spending>,
    /// The fees, in payment order.
    pub charges: Vec<PaidCharge>,
    /// Balances of the payer; `None` if the call does not say who pays.
    pub payer: Option<PayerMeans>,
    /// Whether a Safe pays.
    pub is_of_safe: bool,
    /// When the quotes expire.
    pub ends_at: Option<DateTime<Utc>>,
    /// Estimates and complete transactions, where the service prepares them.
    pub prepared: Option<PreparedPayment>,
    /// Price of the coin in US dollars, for the estimates; `None` without a rate.
    pub coin_rate: Option<Rate>,
}

impl Handout {
    /// Whether the payer's coins cover the network fees; `None` if the call does not say who pays, and for a Safe.
    pub fn has_enough_gas(&self) -> Option<bool> {
        let payer = self.payer.as_ref().filter(|_| !self.is_of_safe);
        payer.map(|payer| payer.has_enough_gas)
    }

    /// Estimated network fees; `None` if neither the payer nor a fallback account is known.
    pub fn costs(&self) -> Option<Costs> {
        let of_payer = self.payer.as_ref().map(|payer| payer.costs);
        of_payer.or_else(|| self.prepared.as_ref().map(PreparedPayment::costs))
    }

    /// Whether the payer's balance is sufficient; true if the call does not say who pays.
    pub fn has_enough_balance(&self) -> bool {
        self.payer.as_ref().is_none_or(|payer| payer.shortages.is_empty())
    }
}

/// The transactions of a payer before their fees are estimated.
pub(super) struct PaymentDraft {
    /// The payments.
    pub(super) bundle: Bundle,
    /// The request of each payment.
    pub(super) payments: Vec<HandedPayment>,
    /// The contract that pays them.
    pub(super) executor: Box<dyn Executor>,
    /// Balances of the payer; empty if no payer is named.
    pub(super) standings: PayerBalances,
    /// Resources of the payer, where the service prepares the transactions.
    pub(super) resources: Option<PayerResources>,
    /// Energy of the approvals of the payer, where the service prepares the transactions.
    pub(super) simulated: SimulatedEnergy,
    /// The transactions.
    pub(super) steps: PaymentTransactions,
}

/// Why no calldata can be issued.
#[derive(Debug)]
pub enum HandoutError {
    /// The payment at this position is not possible.
    Payment(usize, FlowError),
    /// The sum of the payments up to this position exceeds 256 bits.
    TooLarge(usize),
    /// The contract charges a fee that would go back to the payer, who is not named.
    NoPayer,
    /// The payments need more gas than one transaction may use.
    TooMuchGas {
        /// Number of all payments, and how many of them, from the first one on, fit into one transaction.
        counts: (usize, usize),
        /// Gas that all payments need, and gas that one transaction may use.
        gas: (u64, u64),
    },
    /// The network has no contract for several payments.
    NoBatchContract(Network),
    /// The payer cannot pay.
    Payer(PayerFlaw),
    /// Something else.
    Failed(FlowError),
}

impl From<FlowError> for HandoutError {
    fn from(error: FlowError) -> Self {
        Self::Failed(error)
    }
}

impl From<ChainError> for HandoutError {
    fn from(error: ChainError) -> Self {
        Self::Failed(error.into())
    }
}

impl HandoutError {
    /// The error of a call with a single payment, whose payer is in the field `wallet`.
    pub fn alone(self) -> FlowError {
        match self {
            Self::Payment(_, error) | Self::Failed(error) => error,
            Self::TooLarge(_) => Refusal::from(BundleError::TooLarge).into(),
            Self::NoPayer => Refusal::from(BundleError::NoPayer).into(),
            Self::Payer(flaw) => flaw.refusal("wallet").into(),
            Self::TooMuchGas { .. } | Self::NoBatchContract(_) => Refusal::from(BundleError::TooMany).into(),
        }
    }
}
