//! Executable calldata: encoding of each step, and the order of approval and payment.

use super::{address::Address, fees::FeeLeg, reference::PaymentReference};
use alloy::{
    primitives::{Address as EvmAddress, U256},
    sol,
    sol_types::SolCall,
};

sol! {
    interface Erc20 {
        function approve(address spender, uint256 amount);
    }
    interface Erc20FeeProxy {
        function transferFromWithReferenceAndFee(address token, address to, uint256 amount, bytes paymentReference, uint256 feeAmount, address feeAddress);
    }
    interface EthereumFeeProxy {
        function transferWithReferenceAndFee(address to, bytes paymentReference, uint256 feeAmount, address feeAddress);
    }
    interface Erc20ConversionProxy {
        function transferFromWithReferenceAndFee(address to, uint256 requestAmount, address[] path, bytes paymentReference, uint256 feeAmount, address feeAddress, uint256 maxToSpend, uint256 maxRateTimespan);
    }
    interface EthConversionProxy {
        function transferWithReferenceAndFee(address to, uint256 requestAmount, address[] path, bytes paymentReference, uint256 feeAmount, address feeAddress, uint256 maxRateTimespan);
    }
}

/// Gas that one approval may need; rounded up from measured figures.
///
/// Source: rules G.2 (47,206 measured).
pub const APPROVAL_GAS: u64 = 60_000;

/// Gas that one payment may need, cold receivers and a fee included.
///
/// Source: rules G.2 (93,622 direct, 118,618 converted).
const PAYMENT_GAS: u64 = 130_000;

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

/// On-chain conversion of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// Hashes from invoice to payment currency.
    pub path: Vec<EvmAddress>,
    /// Most payment units that may be spent, fee included.
    pub max_to_spend: U256,
    /// Oldest accepted rate in seconds; 0 accepts any.
    pub max_rate_timespan_s: u64,
}

/// What has to be paid, to whom, through which contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentPlan {
    /// Proxy that takes the payment.
    pub proxy: Address,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Whether the token refuses to change a non-zero allowance to another non-zero one.
    pub resets_allowance: bool,
    /// Receiver.
    pub payee: Address,
    /// Token units, or 8-decimal fiat units when converted.
    pub units: U256,
    /// Reference.
    pub reference: PaymentReference,
    /// Fee that rides in the payment.
    pub fee: Option<FeeLeg>,
    /// Conversion.
    pub conversion: Option<Conversion>,
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
    /// Price of one unit of gas, in the smallest unit of the coin.
    pub gas_price: U256,
}

/// How much an approval allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowing {
    /// Everything for ever, as the published interface shows it.
    Everything,
    /// What the payment needs and nothing more: whoever pays here may never come again.
    WhatIsNeeded,
}

impl Allowing {
    /// Units of an approval for a payment that needs so many.
    pub(super) fn units(self, needed: U256) -> U256 {
        match self {
            Self::Everything => U256::MAX,
            Self::WhatIsNeeded => needed,
        }
    }
}

/// Steps and what is known about them.
///
/// Source: interface §2.6; rules H.1; rules H.2; rules H.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calldata {
    /// In the order of execution: approvals first, payment last.
    pub steps: Vec<Step>,
    /// Position of the approval, if there is one.
    pub approval_index: Option<usize>,
    /// Position of the payment.
    pub payment_index: usize,
    /// Whether the payer holds the money; true when no payer was named.
    pub has_enough_balance: bool,
    /// Whether the payer holds the gas; true when no payer was named.
    pub has_enough_gas: bool,
    /// What the contract takes for itself and does not give back, at most; `None` where it takes nothing.
    pub contract_fee: Option<FeeLeg>,
    /// Units that leave the payer in the payment currency, at most.
    pub needed: U256,
    /// Gas that the approvals may need together.
    pub approval_gas: u64,
    /// Gas that the payment may need.
    pub payment_gas: u64,
}

impl PaymentPlan {
    /// Units that leave the payer in the payment currency: amount and fee, or the spending limit of a conversion.
    ///
    /// `None` when the sum leaves 256 bits.
    pub fn total_units(&self) -> Option<U256> {
        match &self.conversion {
            Some(conversion) => Some(conversion.max_to_spend),
            None => self.units.checked_add(self.fee.map_or(U256::ZERO, |fee| fee.units)),
        }
    }

    /// The payment itself.
    pub fn payment_step(&self) -> Step {
        let (fee_units, fee_address) = self
            .fee
            .map_or((U256::ZERO, EvmAddress::ZERO), |fee| (fee.units, fee.receiver.bytes()));
        let reference = self.reference.0.to_vec().into();
        let to = self.payee.bytes();
        let (calldata, value) = match (&self.token, &self.conversion) {
            (Some(token), None) => {
                let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall {
                    token: token.bytes(),
                    to,
                    amount: self.units,
                    paymentReference: reference,
                    feeAmount: fee_units,
                    feeAddress: fee_address,
                };
                (call.abi_encode(), U256::ZERO)
            }
            (None, None) => {
                let call = EthereumFeeProxy::transferWithReferenceAndFeeCall {
                    to,
                    paymentReference: reference,
                    feeAmount: fee_units,
                    feeAddress: fee_address,
                };
                (call.abi_encode(), self.units.saturating_add(fee_units))
            }
            (Some(_), Some(conversion)) => {
                let call = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall {
                    to,
                    requestAmount: self.units,
                    path: conversion.path.clone(),
                    paymentReference: reference,
                    feeAmount: fee_units,
                    feeAddress: fee_address,
                    maxToSpend: conversion.max_to_spend,
                    maxRateTimespan: U256::from(conversion.max_rate_timespan_s),
                };
                (call.abi_encode(), U256::ZERO)
            }
            (None, Some(conversion)) => {
                let call = EthConversionProxy::transferWithReferenceAndFeeCall {
                    to,
                    requestAmount: self.units,
                    path: conversion.path.clone(),
                    paymentReference: reference,
                    feeAmount: fee_units,
                    feeAddress: fee_address,
                    maxRateTimespan: U256::from(conversion.max_rate_timespan_s),
                };
                (call.abi_encode(), conversion.max_to_spend)
            }
        };
        Step {
            to: self.proxy,
            calldata,
            value,
        }
    }
}

/// Allows `spender` to move `units` of `token`.
pub fn approval_step(token: Address, spender: Address, units: U256) -> Step {
    let call = Erc20::approveCall {
        spender: spender.bytes(),
        amount: units,
    };
    Step {
        to: token,
        calldata: call.abi_encode(),
        value: U256::ZERO,
    }
}

/// Puts approval and payment in order.
///
/// Shape: without `standing` nothing is known of the payer, so a token payment carries its approval and the balances
/// count as sufficient. An allowance that covers amount and fee needs no approval.
/// Source: rules P.2; rules G.2 (6); rules G.5 (4).
pub fn assemble(plan: &PaymentPlan, standing: Option<&Standing>, allowing: Allowing) -> Calldata {
    let needed = plan.total_units().unwrap_or(U256::MAX);
    let mut steps = Vec::new();
    let mut approval_index = None;
    if let Some(token) = plan.token {
        let allowance = standing.map(|standing| standing.allowance);
        if allowance.is_none_or(|allowance| allowance < needed) {
            // An unknown allowance may be one that such a token refuses to change; without one, the reset changes nothing.
            if plan.resets_allowance && allowance.is_none_or(|allowance| !allowance.is_zero()) {
                steps.push(approval_step(token, plan.proxy, U256::ZERO));
            }
            approval_index = Some(steps.len());
            steps.push(approval_step(token, plan.proxy, allowing.units(needed)));
        }
    }
    let payment_index = steps.len();
    steps.push(plan.payment_step());
    let approval_gas = u64::try_from(payment_index)
        .unwrap_or(u64::MAX)
        .saturating_mul(APPROVAL_GAS);
    let gas = U256::from(approval_gas.saturating_add(PAYMENT_GAS));
    let value = if plan.token.is_none() { needed } else { U256::ZERO };
    Calldata {
        steps,
        approval_index,
        payment_index,
        has_enough_balance: standing.is_none_or(|standing| standing.balance >= needed),
        has_enough_gas: standing.is_none_or(|standing| {
            standing.native_balance >= value.saturating_add(gas.saturating_mul(standing.gas_price))
        }),
        contract_fee: None,
        needed,
        approval_gas,
        payment_gas: PAYMENT_GAS,
    }
}
