//! The off-ramp partner, which verifies payers and pays to their bank accounts.
//!
//! Each call ends within [`crate::domain::waits::Waits::partner`]. A call can be retried with the same key: the partner
//! then finds the record that the first call created. Each record of the partner has a version number that grows with
//! each change. The service uses this number to recognise outdated news.

use crate::domain::{
    address::Address,
    amount::Amount,
    event::{AgreementStatus, ForeignJson, KycStatus, PaymentDetailStatus},
    network::Network,
    off_ramp::OffRampStatus,
    off_ramp_refusal::OffRampRefusal,
    off_ramp_sandbox::OffRampBehaviour,
    off_ramp_signature::CallbackText,
    payer::{BankAccount, DescribedPayer},
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// Errors of the off-ramp partner. Their texts contain no personal data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OffRampError {
    /// The partner rejects the caller's data; `fields` are the wrong form fields, if the partner named any.
    #[error("the off-ramp partner rejects the call: {}", .reason.wire())]
    Refused {
        /// Why.
        reason: OffRampRefusal,
        /// Wrong form fields.
        fields: Vec<String>,
    },
    /// The record is unknown to the partner.
    #[error("the off-ramp partner does not know the record")]
    Unknown,
    /// The partner was not called: too many calls are in flight.
    #[error("too many calls to the off-ramp partner are in flight")]
    Busy,
    /// The call failed before anything was sent to the partner.
    #[error("the off-ramp partner {0}")]
    NotSent(String),
    /// No response: the partner may or may not have executed the call.
    #[error("the off-ramp partner {0}")]
    NoAnswer(String),
    /// The partner returned invalid data.
    #[error("the off-ramp partner returned invalid data: {0}")]
    Odd(String),
}

/// Key under which a record is created only once at the partner. It has 64 lowercase hexadecimal characters and reveals
/// nothing about the values from which it is computed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartnerKey(pub String);

/// A payer at the partner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerNews {
    /// The partner's id of the payer.
    pub id: String,
    /// Key under which the payer was created.
    pub key: PartnerKey,
    /// Version, from 1.
    pub version: u64,
    /// Identity.
    pub kyc: KycStatus,
    /// Terms.
    pub agreement: AgreementStatus,
    /// URL for identity verification, while it is required.
    pub kyc_url: Option<String>,
    /// URL for accepting the terms, while it is required.
    pub agreement_url: Option<String>,
    /// Data for the event.
    pub raw: ForeignJson,
}

/// A bank account at the partner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountNews {
    /// The partner's id of the account.
    pub id: String,
    /// Key under which the account was created.
    pub key: PartnerKey,
    /// The partner's id of the payer of the account.
    pub payer: String,
    /// Version, from 1.
    pub version: u64,
    /// Whether it can be paid.
    pub status: PaymentDetailStatus,
    /// Why it was rejected.
    pub rejection: Option<String>,
    /// Data for the event.
    pub raw: ForeignJson,
}

/// Request for a quote: an amount of a token for a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuoteQuestion {
    /// Key under which the quote is created.
    pub key: PartnerKey,
    /// The partner's id of the payer.
    pub payer: String,
    /// The partner's id of the bank account.
    pub account: String,
    /// Network of the token.
    pub network: Network,
    /// Contract of the token.
    pub token: Address,
    /// Amount that arrives at the deposit address.
    pub amount: Amount,
    /// Currency of the bank account, lowercase ISO 4217.
    pub currency: String,
}

/// A quote of the partner, with its deposit address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffRampQuote {
    /// The partner's id of the quote.
    pub id: String,
    /// Deposit address for the token.
    pub deposit_address: Address,
    /// Whether the operator listed the deposit address in the settings. A listed address is the same for every payer.
    pub is_listed: bool,
    /// Fee of the partner in the token; `None` if the partner charges no fee and earns only by the rate.
    pub fee: Option<Amount>,
    /// Amount that reaches the bank account, as a decimal in its currency.
    pub pays_out: String,
    /// Time of expiry.
    pub ends_at: DateTime<Utc>,
}

/// A credited payment to pay out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuestion {
    /// Key under which the order is opened, once.
    pub key: PartnerKey,
    /// The partner's id of the quote with the deposit address.
    pub quote: String,
    /// The partner's id of the payer.
    pub payer: String,
    /// The partner's id of the bank account.
    pub account: String,
    /// Network of the payment.
    pub network: Network,
    /// Deposit address.
    pub deposit_address: Address,
    /// Contract of the token.
    pub token: Address,
    /// Arrived amount.
    pub amount: Amount,
    /// Hashes of its transactions.
    pub transactions: Vec<String>,
}

/// State of an order: a payout status of the contract, or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderStatus {
    /// In transit, arrived, or returned.
    Moved(OffRampStatus),
    /// The order failed before money was sent to the bank.
    Failed,
}

/// An order at the partner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderNews {
    /// The partner's id of the order.
    pub id: String,
    /// Key under which the order was created.
    pub key: PartnerKey,
    /// Version, from 1.
    pub version: u64,
    /// State.
    pub status: OrderStatus,
    /// The partner's word for the state, at most 64 characters.
    pub word: String,
}

/// A change reported by a signed callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartnerNews {
    /// A payer.
    Payer(PayerNews),
    /// A bank account.
    Account(AccountNews),
    /// An order.
    Order(OrderNews),
}

/// The partner.
#[async_trait]
pub trait OffRamp: Send + Sync + 'static {
    /// Creates a payer, or updates the payer under the key. A rejected payer starts again.
    async fn register(&self, key: &PartnerKey, person: &DescribedPayer) -> Result<PayerNews, OffRampError>;
    /// Reports that the payer accepted the terms.
    async fn agree(&self, payer: &str) -> Result<PayerNews, OffRampError>;
    /// Reads a payer.
    async fn payer(&self, payer: &str) -> Result<PayerNews, OffRampError>;
    /// Adds a bank account to a payer.
    async fn add_account(
        &self,
        key: &PartnerKey,
        payer: &str,
        account: &BankAccount,
    ) -> Result<AccountNews, OffRampError>;
    /// Reads a bank account.
    async fn account(&self, account: &str) -> Result<AccountNews, OffRampError>;
    /// Requests a quote with a deposit address.
    async fn quote(&self, question: &QuoteQuestion) -> Result<OffRampQuote, OffRampError>;
    /// Opens the order of a payment.
    async fn open_order(&self, question: &OrderQuestion) -> Result<OrderNews, OffRampError>;
    /// Reads an order.
    async fn order(&self, order: &str) -> Result<OrderNews, OffRampError>;
    /// Deletes a payer with all bank accounts. An unknown payer counts as deleted.
    async fn erase(&self, payer: &str) -> Result<(), OffRampError>;
    /// Like `erase`, but deletes the payer registered under a key. Used for a registration whose response was lost.
    async fn erase_registered(&self, key: &PartnerKey) -> Result<(), OffRampError>;
    /// Whether the partner signed a callback recently. A callback without such a signature is not trusted.
    fn is_signed(&self, callback: &CallbackText<'_>, signature: &str) -> bool;
    /// Reads the body of a signed callback. Errors: [`OffRampError::Odd`].
    fn news(&self, body: &[u8]) -> Result<PartnerNews, OffRampError>;
}

/// Controls of the off-ramp partner of `prs dev`.
pub trait OffRampControls: Send + Sync + 'static {
    /// Sets the behaviour.
    fn behave(&self, behaviour: OffRampBehaviour);
}
