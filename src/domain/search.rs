//! What payments are searched for, and where a search goes on.

use crate::domain::{
    address::Address,
    ids::{PaymentId, RequestId},
    payment::PaymentKind,
    reference::PaymentReference,
    refusal::Checks,
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Filters of a search, checked for shape; they combine with AND.
#[derive(Debug, Clone, Default)]
pub struct PaymentSearch {
    /// Whether a filter other than dates was given, right or wrong.
    pub is_searching: bool,
    /// Source or destination transaction.
    pub tx_hash: Option<B256>,
    /// Payer or payee; payee alone for a public client ID.
    pub wallet: Option<Address>,
    /// Reference.
    pub reference: Option<PaymentReference>,
    /// Request.
    pub request_id: Option<RequestId>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Kind.
    pub kind: Option<PaymentKind>,
    /// Id, alias or symbol of the invoice currency.
    pub invoice_currency: Option<String>,
    /// Id, alias or symbol of the payment currency.
    pub payment_currency: Option<String>,
    /// From this time on.
    pub from: Option<DateTime<Utc>>,
    /// Up to this time.
    pub to: Option<DateTime<Utc>>,
}

impl PaymentSearch {
    /// Notes what is missing and what contradicts itself: a search without search parameter, dates in the wrong order.
    ///
    /// Source: interface §4.1; decisions D13.
    pub fn check(&self, checks: &mut Checks) {
        if !self.is_searching {
            checks.fail("query", "At least one search parameter must be provided");
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && to < from
        {
            checks.fail("toDate", "toDate must be after or equal to fromDate");
        }
    }
}

/// Where a payment stands in the order of searches: by time, and by id within one time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentPosition {
    /// Time of its block.
    pub paid_at: DateTime<Utc>,
    /// Its id.
    pub id: PaymentId,
}
