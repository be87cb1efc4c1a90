//! What is due, and what is handed out for it.

use crate::{
    domain::{
        address::Address,
        ledger::SettlementUnits,
        network::Network,
        paying::{Allowing, Bundle, BundleError, PaidCharge, PayerMeans, Spending, Steps, charge::Charges},
        quote::Quote,
        rates::AppliedRate,
        refusal::Refusal,
        request::Request,
    },
    flows::FlowError,
};
use chrono::{DateTime, Utc};

/// So much of a request, which is to be paid.
#[derive(Debug, Clone)]
pub struct PaymentDue {
    /// The request.
    pub request: Request,
    /// How much of it.
    pub units: SettlementUnits,
    /// The charges on top of the amount.
    pub charges: Charges,
    /// The rate, where it is agreed already; `None` for that of now.
    pub rate: Option<AppliedRate>,
}

impl PaymentDue {
    /// All that is left of a request, by the rate of now.
    pub fn all_of(request: Request, charges: Charges) -> Self {
        Self {
            units: request.ledger.remaining(),
            request,
            charges,
            rate: None,
        }
    }
}

/// Whose wallet pays, and what it allows.
#[derive(Debug, Clone, Copy)]
pub struct PayingWallet {
    /// Its address; `None` when nobody is named, of whom nothing is looked up.
    pub address: Option<Address>,
    /// How much its approvals allow.
    pub allowing: Allowing,
}

impl PayingWallet {
    /// A wallet whose approvals allow everything.
    pub fn allowing_everything(address: Option<Address>) -> Self {
        let allowing = Allowing::Everything;
        Self { address, allowing }
    }
}

/// How payments are put into a transaction.
#[derive(Debug, Clone, Copy)]
pub enum Packing {
    /// One payment, through a fee proxy where one receiver gets all charges.
    Alone,
    /// Any number of payments through the batch contract.
    Together {
        /// Most gas that they may need; `None` where that was checked before.
        gas_max: Option<u64>,
    },
}

/// What is handed out for one request.
#[derive(Debug, Clone)]
pub struct HandedPayment {
    /// The request.
    pub request: Request,
    /// The charges on top of the amount.
    pub charges: Charges,
    /// Fraction digits of the currency that is paid.
    pub decimals: u8,
    /// What is promised, where no price feed on chain converts.
    pub quote: Option<Quote>,
}

/// What is handed out.
#[derive(Debug, Clone)]
pub struct Handout {
    /// What is paid.
    pub bundle: Bundle,
    /// The request of each payment of the bundle, in their order.
    pub payments: Vec<HandedPayment>,
    /// What the payer signs.
    pub steps: Steps,
    /// What leaves the payer at most.
    pub spendings: Vec<Spending>,
    /// The fees, in the order in which they are paid.
    pub charges: Vec<PaidCharge>,
    /// What the payer has; `None` when nobody is named.
    pub payer: Option<PayerMeans>,
    /// When what was quoted ends.
    pub ends_at: Option<DateTime<Utc>>,
}

impl Handout {
    /// Whether the payer holds the money; true when nobody is named.
    pub fn has_enough_balance(&self) -> bool {
        self.payer.as_ref().is_none_or(|payer| payer.shortages.is_empty())
    }
}

/// Why nothing is handed out.
#[derive(Debug)]
pub enum HandoutError {
    /// One payment cannot be made, by its place.
    Payment(usize, FlowError),
    /// The payments up to one, by its place, are more than 256 bits of units.
    TooLarge(usize),
    /// The contract takes a fee that nobody would get but the payer, who is not named.
    NoPayer,
    /// The payments need more gas than one transaction may.
    TooMuchGas {
        /// How many they are, and how many of the first ones fit.
        counts: (usize, usize),
        /// What they need, and what they may.
        gas: (u64, u64),
    },
    /// Nothing makes several payments at once on the network.
    NoBatchContract(Network),
    /// Something else.
    Failed(FlowError),
}

impl From<FlowError> for HandoutError {
    fn from(error: FlowError) -> Self {
        Self::Failed(error)
    }
}

impl HandoutError {
    /// As a call says it that makes one payment.
    pub fn alone(self) -> FlowError {
        match self {
            Self::Payment(_, error) | Self::Failed(error) => error,
            Self::TooLarge(_) => Refusal::from(BundleError::TooLarge).into(),
            Self::NoPayer => Refusal::from(BundleError::NoPayer).into(),
            Self::TooMuchGas { .. } | Self::NoBatchContract(_) => Refusal::from(BundleError::TooMany).into(),
        }
    }
}
