//! What is searched for, and which part of it is read.

use super::record::RequestSummary;
use crate::domain::{
    address::Address, payment::PaymentKind, payment_record::PaymentRecord, reference::PaymentReference,
    search::PaymentPosition,
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// What to search for; everything that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Payer, account behind the payer or payee.
    pub wallet: Option<Address>,
    /// Whether the wallet counts as payee alone.
    pub is_wallet_payee: bool,
    /// Payment reference.
    pub reference: Option<PaymentReference>,
    /// Public id of the request.
    pub request_id: Option<String>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Kind.
    pub kind: Option<PaymentKind>,
    /// Currency ids of the invoice, any of them.
    pub invoice_currencies: Option<Vec<String>>,
    /// Currency ids of the payment, any of them.
    pub payment_currencies: Option<Vec<String>>,
    /// Whether payments are left out of links that hide something from who is not approved.
    pub leaves_out_hidden: bool,
    /// Not paid before this time.
    pub from: Option<DateTime<Utc>>,
    /// Not paid after this time.
    pub to: Option<DateTime<Utc>>,
}

impl PaymentFilter {
    /// Whether a span of time is asked for.
    pub(super) fn is_dated(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// Where a page begins, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// Behind so many matches.
    Row(u64),
    /// Behind this payment, whether it still matches or not.
    After(PaymentPosition),
}

/// Which part of the matches is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub begin: Begin,
    /// Payments at most.
    pub limit: u64,
}

/// A payment with what a search tells about its request.
pub type FoundPayment = (PaymentRecord, RequestSummary);

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentPage {
    /// Payments with their requests, newest first.
    pub rows: Vec<FoundPayment>,
    /// Number of matches: exact where counts are kept, else up to [`crate::store::TOTAL_MAX`].
    pub total: u64,
    /// Whether there is a row behind this page.
    pub has_more: bool,
}
