//! A recurring payment that waits for its payer: the permit to sign, and the allowance that it needs first.

use crate::{
    domain::{
        permit::{DOMAIN_NAME, DOMAIN_VERSION, MEMBERS, Permit},
        schedule::allowance::AllowanceNeed,
    },
    http::{forms::calldata::Transaction, operation::*},
};
use alloy::primitives::Address as EvmAddress;

/// The EIP-712 domain of a permit.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PermitDomain {
    /// Name. Example: `ERC20RecurringPaymentProxy`
    #[oai(validator(max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9]*$"))]
    pub name: String,
    /// Version. Example: `1`
    #[oai(validator(max_length = 8, pattern = "^[0-9]+$"))]
    pub version: String,
    /// Chain of the contract. Example: `11155111`
    pub chain_id: u64,
    /// Contract that executes the payments
    pub verifying_contract: WalletText,
}

/// A member of the permit.
#[derive(Debug, Clone, Object)]
pub struct PermitMember {
    /// Name. Example: `subscriber`
    #[oai(validator(max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9]*$"))]
    pub name: String,
    /// Solidity type. Example: `address`
    #[oai(rename = "type", validator(max_length = 32, pattern = "^[a-z][A-Za-z0-9]*$"))]
    pub kind: String,
}

/// The signed structures by name. `EIP712Domain` is absent, because wallet libraries add it.
#[derive(Debug, Clone, Object)]
pub struct PermitTypes {
    /// Members of the permit, in order
    #[oai(rename = "SchedulePermit", validator(max_items = 13))]
    pub schedule_permit: Vec<PermitMember>,
}

/// Values of the permit. Amounts are units of the token.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PermitValues {
    /// Wallet that pays and signs
    pub subscriber: WalletText,
    /// Contract of the token
    pub token: WalletText,
    /// Wallet that receives the payments
    pub recipient: WalletText,
    /// Receiver of the fee; the zero address without a fee. Example: `0x0000000000000000000000000000000000000000`
    pub fee_address: WalletText,
    /// Amount of each payment. Example: `1000000`
    #[oai(validator(max_length = 39, pattern = "^[0-9]+$"))]
    pub amount: String,
    /// Fee on top of each payment. Example: `25000`
    #[oai(validator(max_length = 39, pattern = "^[0-9]+$"))]
    pub fee_amount: String,
    /// Fee of the relayer for each payment. Example: `0`
    #[oai(validator(max_length = 39, pattern = "^[0-9]+$"))]
    pub relayer_fee: String,
    /// Seconds between payments: a month always has 30 days and a year 365. Example: `2592000`
    pub period_seconds: u32,
    /// Unix time at which the first payment is due. Example: `1893456000`
    pub first_payment: u32,
    /// Number of payments. Example: `12`
    pub total_payments: u8,
    /// Random number. Example: `7`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub nonce: String,
    /// Unix time until which payments can be executed. Example: `1927152000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub deadline: String,
    /// Whether payments are executed in order; always true. Example: `true`
    pub strict_order: bool,
}

/// Typed data for the payer to sign: pass its three parts to `signTypedData`, with `SchedulePermit` as primary type.
#[derive(Debug, Clone, Object)]
pub struct RecurringPermit {
    /// The EIP-712 domain
    pub domain: PermitDomain,
    /// The signed structures
    pub types: PermitTypes,
    /// The signed values
    pub values: PermitValues,
}

/// Allowances of the payer, in units of the token.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringAllowance {
    /// Steps of the payer before the first payment: the transactions and the signature. Example: `2`
    pub steps_required: u32,
    /// Allowance needed for this recurring payment and for all other recurring payments in this token that the payer
    /// has signed. Other recurring payments that still wait for a signature do not count. Example: `12312000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub total_needed_allowance: String,
    /// Current allowance. Example: `0`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub current_allowance: String,
    /// Missing allowance. Example: `12312000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub additional_allowance_needed: String,
    /// Allowance needed for the other recurring payments that the payer signed, on any platform. Example: `0`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub existing_payments_amount: String,
}

/// A recurring payment that starts when its payer has signed it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringCreated {
    /// Id of the recurring payment
    pub id: UlidText,
    /// Id of the request of its first payment
    pub request_id: RequestIdText,
    /// Transactions that approve the payments; empty when the allowance is sufficient
    #[oai(validator(max_items = 2))]
    pub transactions: Vec<Transaction>,
    /// Permit for the payer to sign
    pub recurring_payment_permit: RecurringPermit,
    /// Allowances of the payer
    pub metadata: RecurringAllowance,
}

/// The permit as wallets display it.
pub(super) fn permit(permit: &Permit) -> RecurringPermit {
    let member = |(name, kind): &(&str, &str)| PermitMember {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
    };
    let fee_address = permit.fee_address.map_or(EvmAddress::ZERO, |address| address.bytes());
    RecurringPermit {
        domain: PermitDomain {
            name: DOMAIN_NAME.to_owned(),
            version: DOMAIN_VERSION.to_owned(),
            chain_id: permit.chain_id,
            verifying_contract: WalletText::written(permit.contract),
        },
        types: PermitTypes {
            schedule_permit: MEMBERS.iter().map(member).collect(),
        },
        values: PermitValues {
            subscriber: WalletText::written(permit.subscriber),
            token: WalletText::written(permit.token),
            recipient: WalletText::written(permit.recipient),
            fee_address: WalletText::written(fee_address),
            amount: permit.amount.to_string(),
            fee_amount: permit.fee.to_string(),
            relayer_fee: permit.relayer_fee.to_string(),
            period_seconds: permit.period_s,
            first_payment: permit.first_payment_s,
            total_payments: permit.total_payments,
            nonce: permit.nonce.to_string(),
            deadline: permit.deadline_s.to_string(),
            strict_order: true,
        },
    }
}

/// The allowances of the payer, and the number of transactions that raise them.
pub(super) fn allowance(need: &AllowanceNeed, transactions: usize) -> RecurringAllowance {
    RecurringAllowance {
        // The steps are at most two transactions and one signature.
        steps_required: u32::try_from(transactions).unwrap_or(u32::MAX).saturating_add(1),
        total_needed_allowance: need.total().to_string(),
        current_allowance: need.current.to_string(),
        additional_allowance_needed: need.missing().to_string(),
        existing_payments_amount: need.others.to_string(),
    }
}
