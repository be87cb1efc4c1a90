//! Search results as the API shows them.

use crate::{
    domain::ledger::RequestStatus,
    domain::payment_record::PaymentRecord,
    flows::payments::RequestSummary,
    http::{
        forms::payment::{Payment, PaymentRequestSummary, payment},
        operation::*,
    },
};

/// A payment in a search result.
pub(super) fn found(ctx: &Ctx, record: &PaymentRecord, request: RequestSummary) -> Payment {
    let summary = PaymentRequestSummary {
        request_id: RequestIdText::written(request.request_id),
        payment_reference: ReferenceText::written(request.reference),
        has_been_paid: request.status == RequestStatus::Paid,
        customer_info: OrNull(request.customer.map(Into::into)),
        reference: OrNull(request.merchant_reference.map(MerchantReference::written)),
    };
    Payment {
        request: Some(summary),
        ..payment(ctx, record)
    }
}
