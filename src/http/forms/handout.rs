//! Calldata in the text forms of the API contract, shared by all response bodies and the payment page.

use crate::{
    domain::{
        amount::format_units,
        currency::FIAT_CHAIN_DECIMALS,
        network::Network,
        paying::{
            PaymentTransaction,
            charge::{Charge, FeeKind},
        },
    },
    flows::paying::Handout,
    http::forms::{unsigned::UnsignedTexts, wire::*},
};
use alloy::primitives::U256;
use poem_openapi::Object;

/// A transaction of the payer.
#[derive(Debug, Clone)]
pub struct StepTexts {
    /// Encoded call.
    pub data: String,
    /// Called contract.
    pub to: WalletText,
    /// Amount of the native coin to send, in its smallest unit.
    pub value: U256,
    /// Chain of the transaction.
    pub chain_id: u64,
    /// The unsigned transaction, where the service prepares it.
    pub unsigned: Option<UnsignedTexts>,
}

impl StepTexts {
    /// Writes a transaction on a network as texts.
    pub fn of(step: &PaymentTransaction, network: Network) -> Self {
        Self {
            data: hex::encode_prefixed(&step.calldata),
            to: WalletText::written(step.to),
            value: step.value,
            chain_id: network.chain_id(),
            unsigned: None,
        }
    }

    /// The value as wallets expect it: hexadecimal without leading zeros.
    pub fn quantity(&self) -> String {
        format!("{:#x}", self.value)
    }
}

/// Fee on top of the amount.
#[derive(Debug, Clone, Object)]
pub struct PlatformFee {
    /// Rate in percent
    pub percentage: PercentText,
    /// Wallet that receives the fee
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

/// The texts of issued calldata.
#[derive(Debug, Clone, Copy)]
pub struct HandoutTexts<'a>(pub &'a Handout);

impl<'a> HandoutTexts<'a> {
    /// The transactions, in execution order.
    pub fn steps(self) -> impl Iterator<Item = StepTexts> {
        let Handout {
            bundle,
            steps,
            prepared,
            ..
        } = self.0;
        let unsigned = prepared.iter().flat_map(|prepared| &prepared.unsigned);
        let unsigned = unsigned.map(Some).chain(std::iter::repeat(None));
        steps.iter().zip(unsigned).map(|(step, unsigned)| StepTexts {
            unsigned: unsigned.map(UnsignedTexts::from),
            ..StepTexts::of(step, bundle.network)
        })
    }

    /// The approvals.
    pub fn approvals(self) -> impl Iterator<Item = StepTexts> {
        self.steps().take(self.0.steps.approvals.len())
    }

    /// The payment.
    pub fn payment(self) -> StepTexts {
        StepTexts::of(&self.0.steps.payment, self.0.bundle.network)
    }

    /// Position of the payment; equal to the number of approvals.
    pub fn payment_index(self) -> u32 {
        // The conversion cannot fail: a plan has only a few steps.
        u32::try_from(self.0.steps.approvals.len()).unwrap_or(u32::MAX)
    }

    /// Position of the approval, if any. It is the last approval transaction, because a reset comes before it.
    pub fn approval_index(self) -> Option<u32> {
        self.payment_index().checked_sub(1)
    }

    /// Number of transactions.
    pub fn steps_required(self) -> u32 {
        self.payment_index().saturating_add(1)
    }

    /// The charge of this kind that the first payment of the calldata includes, if any.
    pub fn charge(self, kind: FeeKind) -> Option<&'a Charge> {
        self.0.payments.first()?.charges.of(kind)
    }

    /// Units of the currency of a payment in human units; `leg` is the position of the payment in this calldata.
    pub fn amount(self, leg: usize, units: U256) -> String {
        format_units(units, self.0.payments[leg].decimals)
    }

    /// Units of the native coin in US dollars; `None` without a rate.
    pub fn dollars(self, units: U256) -> Option<String> {
        let worth = self.0.coin_rate?.worth(units, self.0.bundle.network.coin_decimals())?;
        Some(format_units(worth, FIAT_CHAIN_DECIMALS))
    }

    /// Units of the native coin in human units.
    pub fn coins(self, units: U256) -> String {
        format_units(units, self.0.bundle.network.coin_decimals())
    }
}
