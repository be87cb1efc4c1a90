//! Filters and cursor of a payment search.

use crate::domain::{
    address::Address,
    ids::{PaymentId, RequestId},
    payment::PaymentKind,
    reference::PaymentReference,
    refusal::Checks,
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Filters of a search, checked for their form; they combine with AND.
#[derive(Debug, Clone, Default)]
pub struct PaymentSearch {
    /// Whether a filter other than a date was given, even an invalid one.
    pub is_searching: bool,
    /// Source or destination transaction.
    pub tx_hash: Option<B256>,
    /// Payer or payee. For a public client ID only the payee is searched.
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
    /// Earliest time.
    pub from: Option<DateTime<Utc>>,
    /// Latest time.
    pub to: Option<DateTime<Utc>>,
}

impl PaymentSearch {
    /// Records missing and contradictory filters: a search without any search parameter, and dates in the wrong order.
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

/// Position of a payment in the order of searches: by time, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentPosition {
    /// Time of its block.
    pub paid_at: DateTime<Utc>,
    /// Its id.
    pub id: PaymentId,
}
