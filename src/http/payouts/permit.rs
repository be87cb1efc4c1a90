//! A recurring payment that waits for its payer: what the payer signs, and what has to be allowed first.

use crate::{
    domain::{
        permit::{DOMAIN_NAME, DOMAIN_VERSION, MEMBERS, Permit},
        schedule::allowance::Need,
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

/// The signed structures by name. `EIP712Domain` is left to the wallet library, as these expect.
#[derive(Debug, Clone, Object)]
pub struct PermitTypes {
    /// Members of the permit, in order
    #[oai(rename = "SchedulePermit", validator(max_items = 13))]
    pub schedule_permit: Vec<PermitMember>,
}

/// What is permitted. Amounts are units of the token.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct PermitValues {
    /// Wallet that pays and signs
    pub subscriber: WalletText,
    /// Contract of the token
    pub token: WalletText,
    /// Wallet that is paid
    pub recipient: WalletText,
    /// Receiver of the fee, the zero address without one. Example: `0x0000000000000000000000000000000000000000`
    pub fee_address: WalletText,
    /// Amount of each payment. Example: `1000000`
    #[oai(validator(max_length = 39, pattern = "^[0-9]+$"))]
    pub amount: String,
    /// Fee on top of each payment. Example: `25000`
    #[oai(validator(max_length = 39, pattern = "^[0-9]+$"))]
    pub fee_amount: String,
    /// What the relayer gets for each payment. Example: `0`
    #[oai(validator(max_length = 39, pattern = "^[0-9]+$"))]
    pub relayer_fee: String,
    /// Seconds from one payment to the next: a month has 30 days and a year 365, whatever the calendar says. Example: `2592000`
    pub period_seconds: u32,
    /// Unix time from which the first payment is due. Example: `1893456000`
    pub first_payment: u32,
    /// Number of payments. Example: `12`
    pub total_payments: u8,
    /// Random number. Example: `7`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub nonce: String,
    /// Unix time until which payments can be executed. Example: `1927152000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub deadline: String,
    /// Whether payments are executed in their order: always true. Example: `true`
    pub strict_order: bool,
}

/// Typed data for the payer to sign: hand its three parts to `signTypedData`, with `SchedulePermit` as primary type.
#[derive(Debug, Clone, Object)]
pub struct RecurringPermit {
    /// The EIP-712 domain
    pub domain: PermitDomain,
    /// The signed structures
    pub types: PermitTypes,
    /// What is signed
    pub values: PermitValues,
}

/// What has to be allowed, in units of the token.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringAllowance {
    /// Transactions and the signature: what the payer does before the first payment. Example: `2`
    pub steps_required: u32,
    /// What this recurring payment and all others that the payer signed in this token take together; those that wait for a
    /// signature are left out. Example: `12312000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub total_needed_allowance: String,
    /// What is allowed. Example: `0`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub current_allowance: String,
    /// What is missing. Example: `12312000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub additional_allowance_needed: String,
    /// What the others take that the payer signed, whoever made them. Example: `0`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub existing_payments_amount: String,
}

/// A recurring payment that begins when its payer has signed it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringCreated {
    /// Id of the recurring payment
    pub id: UlidText,
    /// Id of the request of its first payment
    pub request_id: RequestIdText,
    /// Transactions with which the payer allows the payments; empty when enough is allowed
    #[oai(validator(max_items = 2))]
    pub transactions: Vec<Transaction>,
    /// What the payer signs
    pub recurring_payment_permit: RecurringPermit,
    /// What has to be allowed
    pub metadata: RecurringAllowance,
}

/// The permit as wallets are shown it.
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

/// What has to be allowed, in so many transactions.
pub(super) fn allowance(need: &Need, transactions: usize) -> RecurringAllowance {
    RecurringAllowance {
        // Two transactions at most, and the signature.
        steps_required: u32::try_from(transactions).unwrap_or(u32::MAX).saturating_add(1),
        total_needed_allowance: need.total().to_string(),
        current_allowance: need.current.to_string(),
        additional_allowance_needed: need.missing().to_string(),
        existing_payments_amount: need.others.to_string(),
    }
}
