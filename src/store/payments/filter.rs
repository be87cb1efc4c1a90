//! Filters of a search for payments, and which part of its matches is read.

use super::record::RequestSummary;
use crate::domain::{
    address::Address, payment::PaymentKind, payment_record::PaymentRecord, reference::PaymentReference,
    search::PaymentPosition,
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Filter of a search; a payment must match every condition that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Wallet that must be one of three: the payer, the account behind the payer, or the payee.
    pub wallet: Option<Address>,
    /// Whether `wallet` must be the payee; if false, it may be any of the three.
    pub is_wallet_payee: bool,
    /// Payment reference.
    pub reference: Option<PaymentReference>,
    /// Public id of the request.
    pub request_id: Option<String>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Kind.
    pub kind: Option<PaymentKind>,
    /// Currency ids of the invoice; a payment must match any of them.
    pub invoice_currencies: Option<Vec<String>>,
    /// Currency ids of the payment; a payment must match any of them.
    pub payment_currencies: Option<Vec<String>>,
    /// Whether the search excludes payments of links that hide details from callers that are not approved.
    pub leaves_out_hidden: bool,
    /// Not paid before this time.
    pub from: Option<DateTime<Utc>>,
    /// Not paid after this time.
    pub to: Option<DateTime<Utc>>,
}

impl PaymentFilter {
    /// Whether the filter limits the time of payment.
    pub(super) fn is_dated(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// Where a page begins, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageStart {
    /// After this number of matches.
    Row(u64),
    /// The page begins after this payment, even if the payment no longer matches.
    After(PaymentPosition),
}

/// Which part of the matches is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageWindow {
    /// Where it begins.
    pub begin: PageStart,
    /// Payments at most.
    pub limit: u64,
}

/// A payment with the summary of its request.
pub type FoundPayment = (PaymentRecord, RequestSummary);

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPayments {
    /// Payments with their requests, newest first.
    pub rows: Vec<FoundPayment>,
    /// Number of matches: exact if counts are stored, else counted up to [`crate::store::TOTAL_MAX`].
    pub total: u64,
    /// Whether there are matches after this page.
    pub has_more: bool,
}
