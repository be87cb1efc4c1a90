//! The fee proxies: contracts for one payment with one receiver of charges, in a token or the native coin, with or
//! without conversion by price feeds.

use super::{
    ApprovalAmount, BundleError, Conversion, Executor, Leg, PaidCharge, PayerBalances, PaymentTransaction,
    PaymentTransactions, Spending, StepWork, approvals,
};
use crate::domain::{address::Address, currency::ContractKind};
use alloy::{
    primitives::{Address as EvmAddress, U256},
    sol,
    sol_types::SolCall,
};

sol! {
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

/// Gas that one payment may need, including new receivers and a fee.
///
/// Source: rules G.2 (93,622 direct, 118,618 converted).
const PAYMENT_GAS: u64 = 130_000;

/// A fee proxy that executes a payment.
#[derive(Debug, Clone)]
pub struct FeeProxy {
    spending: Spending,
    paid: Vec<PaidCharge>,
    payment: PaymentTransaction,
    work: StepWork,
}

impl FeeProxy {
    /// The kind of contract that pays in a token or the coin, with or without on-chain conversion.
    pub const fn kind(is_token: bool, is_converted: bool) -> ContractKind {
        match (is_token, is_converted) {
            (true, false) => ContractKind::Erc20FeeProxy,
            (false, false) => ContractKind::EthereumFeeProxy,
            (true, true) => ContractKind::Erc20ConversionProxy,
            (false, true) => ContractKind::EthConversionProxy,
        }
    }

    /// Creates the call for a payment on an EVM network. Errors: several receivers of charges, or a sum beyond 256 bits.
    pub fn admit(proxy: Address, leg: &Leg) -> Result<Self, BundleError> {
        let work = StepWork {
            approval: approvals::APPROVAL_GAS,
            payment: PAYMENT_GAS,
        };
        Self::admit_with(proxy, leg, work)
    }

    /// Creates the call for a payment that costs this work. Errors: those of [`FeeProxy::admit`].
    pub(super) fn admit_with(proxy: Address, leg: &Leg, work: StepWork) -> Result<Self, BundleError> {
        let payment = payment_step(proxy, leg)?;
        let total = leg.total().ok_or(BundleError::TooLarge)?;
        let paid = leg.charges.iter().map(|charged| PaidCharge {
            leg: 0,
            charged: *charged,
        });
        Ok(Self {
            spending: Spending {
                token: leg.token,
                units: leg
                    .conversion
                    .as_ref()
                    .map_or(total, |conversion| conversion.max_to_spend),
                resets_allowance: leg.resets_allowance,
            },
            paid: paid.collect(),
            payment,
            work,
        })
    }
}

impl Executor for FeeProxy {
    fn contract(&self) -> Address {
        self.payment.to
    }

    fn spendings(&self) -> &[Spending] {
        std::slice::from_ref(&self.spending)
    }

    fn paid(&self) -> &[PaidCharge] {
        &self.paid
    }

    fn work(&self) -> StepWork {
        self.work
    }

    fn steps(&self, allowing: ApprovalAmount, standings: &PayerBalances) -> PaymentTransactions {
        approvals::steps(self.spendings(), self.payment.clone(), allowing, standings)
    }
}

/// The call of a proxy for a payment. Errors: several receivers of charges, or a sum beyond 256 bits.
pub fn payment_step(proxy: Address, leg: &Leg) -> Result<PaymentTransaction, BundleError> {
    let fees = leg.fees();
    let (fee_units, fee_address) = match fees.as_slice() {
        [] => (U256::ZERO, EvmAddress::ZERO),
        [fee] => (fee.units, fee.receiver.bytes()),
        _ => return Err(BundleError::TooMany),
    };
    let reference = leg.reference.0.to_vec().into();
    let to = leg.payee.bytes();
    let (calldata, value) = match (&leg.token, &leg.conversion) {
        (Some(token), None) => {
            let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall {
                token: token.bytes(),
                to,
                amount: leg.units,
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
            (call.abi_encode(), leg.total().ok_or(BundleError::TooLarge)?)
        }
        (Some(_), Some(conversion)) => {
            let Conversion {
                path,
                max_to_spend,
                max_rate_timespan_s,
            } = conversion.clone();
            let call = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall {
                to,
                requestAmount: leg.units,
                path,
                paymentReference: reference,
                feeAmount: fee_units,
                feeAddress: fee_address,
                maxToSpend: max_to_spend,
                maxRateTimespan: U256::from(max_rate_timespan_s),
            };
            (call.abi_encode(), U256::ZERO)
        }
        (None, Some(conversion)) => {
            let call = EthConversionProxy::transferWithReferenceAndFeeCall {
                to,
                requestAmount: leg.units,
                path: conversion.path.clone(),
                paymentReference: reference,
                feeAmount: fee_units,
                feeAddress: fee_address,
                maxRateTimespan: U256::from(conversion.max_rate_timespan_s),
            };
            (call.abi_encode(), conversion.max_to_spend)
        }
    };
    Ok(PaymentTransaction {
        to: proxy,
        calldata,
        value,
    })
}
