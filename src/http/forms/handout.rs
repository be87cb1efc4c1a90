//! What is handed out in the texts of the contract: every form of it, and the payment page, takes them from here.

use crate::{
    domain::{
        amount::format_units,
        network::Network,
        paying::{
            Step,
            charge::{Charge, FeeKind},
        },
    },
    flows::paying::Handout,
    http::forms::wire::*,
};
use alloy::primitives::U256;
use poem_openapi::Object;

/// A transaction of the payer.
#[derive(Debug, Clone)]
pub struct StepTexts {
    /// Encoded call.
    pub data: String,
    /// Contract that is called.
    pub to: WalletText,
    /// Native coin that goes with it, in its smallest unit.
    pub value: U256,
    /// Chain that it is sent on.
    pub chain_id: u64,
}

impl StepTexts {
    /// Of a step on a network.
    pub fn of(step: &Step, network: Network) -> Self {
        Self {
            data: hex::encode_prefixed(&step.calldata),
            to: WalletText::written(step.to),
            value: step.value,
            chain_id: network.chain_id(),
        }
    }

    /// The value as wallets take it: hexadecimal, without zeros in front.
    pub fn quantity(&self) -> String {
        format!("{:#x}", self.value)
    }
}

/// Fee on top of the amount.
#[derive(Debug, Clone, Object)]
pub struct PlatformFee {
    /// Rate in percent
    pub percentage: PercentText,
    /// Receiver
    pub address: WalletText,
}

impl From<&Charge> for PlatformFee {
    fn from(charge: &Charge) -> Self {
        Self {
            percentage: PercentText::written(charge.rate),
            address: WalletText::written(charge.receiver),
        }
    }
}

/// What is handed out, in texts.
#[derive(Debug, Clone, Copy)]
pub struct HandoutTexts<'a>(pub &'a Handout);

impl<'a> HandoutTexts<'a> {
    /// The transactions, in the order of execution.
    pub fn steps(self) -> impl Iterator<Item = StepTexts> {
        let Handout { bundle, steps, .. } = self.0;
        steps.iter().map(|step| StepTexts::of(step, bundle.network))
    }

    /// The approvals.
    pub fn approvals(self) -> impl Iterator<Item = StepTexts> {
        self.steps().take(self.0.steps.approvals.len())
    }

    /// The payment.
    pub fn payment(self) -> StepTexts {
        StepTexts::of(&self.0.steps.payment, self.0.bundle.network)
    }

    /// Position of the payment, which is the number of approvals.
    pub fn payment_index(self) -> u32 {
        // A plan has a handful of steps.
        u32::try_from(self.0.steps.approvals.len()).unwrap_or(u32::MAX)
    }

    /// Position of the approval, if there is one: the last of them, since a reset comes before.
    pub fn approval_index(self) -> Option<u32> {
        self.payment_index().checked_sub(1)
    }

    /// Number of transactions.
    pub fn steps_required(self) -> u32 {
        self.payment_index().saturating_add(1)
    }

    /// A charge of the first payment.
    pub fn charge(self, kind: FeeKind) -> Option<&'a Charge> {
        self.0.payments.first()?.charges.of(kind)
    }

    /// Units of the currency of a payment, human; `leg` is one of those that are handed out.
    pub fn amount(self, leg: usize, units: U256) -> String {
        format_units(units, self.0.payments[leg].decimals)
    }

    /// Units of the native coin, human.
    pub fn coins(self, units: U256) -> String {
        format_units(units, self.0.bundle.network.coin_decimals())
    }
}
