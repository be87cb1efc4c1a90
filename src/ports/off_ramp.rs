//! The partner that proves payers and pays their bank accounts.
//!
//! Each call ends within [`crate::domain::waits::Waits::partner`], and can be repeated with the same key: the partner finds the
//! record that the first one made. What it tells has a number that grows with each change of the record, so that news that was
//! overtaken is seen.

use crate::domain::{
    address::Address,
    amount::Amount,
    event::{AgreementStatus, ForeignJson, KycStatus, PaymentDetailStatus},
    network::Network,
    off_ramp::OffRampStatus,
    off_ramp_refusal::OffRampRefusal,
    off_ramp_sandbox::OffRampBehaviour,
    off_ramp_signature::CallbackText,
    payer::{BankAccount, Person},
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// The partner did not do what it was asked. No text of these holds anything of a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OffRampError {
    /// It refuses what the caller sent; `fields` are names of the form, where it told some.
    #[error("the off-ramp partner refuses: {}", .reason.wire())]
    Refused {
        /// Why.
        reason: OffRampRefusal,
        /// Fields of the form that are wrong.
        fields: Vec<String>,
    },
    /// It does not know the record.
    #[error("the off-ramp partner does not know the record")]
    Unknown,
    /// It was not asked: too many calls are under way.
    #[error("the off-ramp partner is asked too much at the same time")]
    Busy,
    /// It was not asked: nothing was sent.
    #[error("the off-ramp partner {0}")]
    NotSent(String),
    /// There is no answer: it may have been done or not.
    #[error("the off-ramp partner {0}")]
    NoAnswer(String),
    /// It answered with something that is not believed.
    #[error("the off-ramp partner answers with something that is not believed: {0}")]
    Odd(String),
}

/// Under which a record is made at the partner, once: 64 lower-case hexadecimal characters that tell nothing of their cause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartnerKey(pub String);

/// What the partner knows of a payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerNews {
    /// Its own id of the payer.
    pub id: String,
    /// Under which it was made.
    pub key: PartnerKey,
    /// Number of the change, from 1.
    pub version: u64,
    /// Identity.
    pub kyc: KycStatus,
    /// Terms.
    pub agreement: AgreementStatus,
    /// Where the payer proves who they are, while there is something to do.
    pub kyc_url: Option<String>,
    /// Where the payer agrees to the terms, while there is something to do.
    pub agreement_url: Option<String>,
    /// What it told, for the event.
    pub raw: ForeignJson,
}

/// What the partner knows of a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountNews {
    /// Its own id of the account.
    pub id: String,
    /// Under which it was made.
    pub key: PartnerKey,
    /// Its own id of the payer to whom it belongs.
    pub payer: String,
    /// Number of the change, from 1.
    pub version: u64,
    /// Whether it can be paid.
    pub status: PaymentDetailStatus,
    /// Why it was refused.
    pub rejection: Option<String>,
    /// What it told, for the event.
    pub raw: ForeignJson,
}

/// What a quote is asked for: so much of a token for a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuoteQuestion {
    /// Under which the quote is made.
    pub key: PartnerKey,
    /// The partner's id of the payer.
    pub payer: String,
    /// The partner's id of the bank account.
    pub account: String,
    /// Network of the token.
    pub network: Network,
    /// Contract of the token.
    pub token: Address,
    /// How much arrives at the deposit address.
    pub amount: Amount,
    /// Currency of the bank account, ISO 4217 in lower case.
    pub currency: String,
}

/// What the partner offers, and where the money goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffRampQuote {
    /// Its own id of the quote.
    pub id: String,
    /// Where the token is paid to.
    pub deposit_address: Address,
    /// Whether the operator listed that address: it is the same for every payer.
    pub is_listed: bool,
    /// What it keeps, in the token; `None` is nothing, where it earns by the rate alone.
    pub fee: Option<Amount>,
    /// What reaches the bank account, as a decimal of its currency.
    pub pays_out: String,
    /// Until when it holds.
    pub ends_at: DateTime<Utc>,
}

/// A payment that was credited and is to be paid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuestion {
    /// Under which the order is opened, once.
    pub key: PartnerKey,
    /// The partner's id of the quote under which the deposit address was handed out.
    pub quote: String,
    /// The partner's id of the payer.
    pub payer: String,
    /// The partner's id of the bank account.
    pub account: String,
    /// Network of the payment.
    pub network: Network,
    /// Where it arrived.
    pub deposit_address: Address,
    /// Contract of the token.
    pub token: Address,
    /// How much arrived there.
    pub amount: Amount,
    /// Hashes of the transactions that brought it.
    pub transactions: Vec<String>,
}

/// How far an order is: what the contract names, or that it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderStatus {
    /// On its way, arrived, or come back.
    Moved(OffRampStatus),
    /// Given up before money was sent to the bank.
    Failed,
}

/// What the partner knows of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderNews {
    /// Its own id of the order.
    pub id: String,
    /// Under which it was made.
    pub key: PartnerKey,
    /// Number of the change, from 1.
    pub version: u64,
    /// How far it is.
    pub status: OrderStatus,
    /// Its own word for it, at most 64 characters.
    pub word: String,
}

/// Something that changed, told by a signed callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
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
    /// Makes a payer, or updates the one under the key; one who was rejected begins anew.
    async fn register(&self, key: &PartnerKey, person: &Person) -> Result<PayerNews, OffRampError>;
    /// Says that the payer agreed to the terms.
    async fn agree(&self, payer: &str) -> Result<PayerNews, OffRampError>;
    /// What is known of a payer.
    async fn payer(&self, payer: &str) -> Result<PayerNews, OffRampError>;
    /// Adds a bank account to a payer.
    async fn add_account(
        &self,
        key: &PartnerKey,
        payer: &str,
        account: &BankAccount,
    ) -> Result<AccountNews, OffRampError>;
    /// What is known of a bank account.
    async fn account(&self, account: &str) -> Result<AccountNews, OffRampError>;
    /// Asks what a payment would bring, and where to pay it.
    async fn quote(&self, question: &QuoteQuestion) -> Result<OffRampQuote, OffRampError>;
    /// Opens the order of a payment.
    async fn open_order(&self, question: &OrderQuestion) -> Result<OrderNews, OffRampError>;
    /// How far an order is.
    async fn order(&self, order: &str) -> Result<OrderNews, OffRampError>;
    /// Forgets a payer with all bank accounts; one that is not known counts as forgotten.
    async fn erase(&self, payer: &str) -> Result<(), OffRampError>;
    /// Forgets whoever was registered under a key, in the same way: for a registration whose answer nobody heard.
    async fn erase_registered(&self, key: &PartnerKey) -> Result<(), OffRampError>;
    /// Whether the partner signed a callback, lately: before that, nothing of it is believed.
    fn is_signed(&self, callback: &CallbackText<'_>, signature: &str) -> bool;
    /// Reads the body of a callback that was signed. Errors: [`OffRampError::Odd`].
    fn news(&self, body: &[u8]) -> Result<News, OffRampError>;
}

/// Changes how the partner of `prs dev` behaves.
pub trait OffRampControls: Send + Sync + 'static {
    /// Behaves so from now on.
    fn behave(&self, behaviour: OffRampBehaviour);
}
