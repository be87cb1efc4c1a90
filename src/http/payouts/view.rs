//! Payouts as clients see them.

use super::bodies::*;
use crate::{
    flows::payouts::create::Payout,
    http::{
        forms::calldata::{PaymentCalldata, calldata},
        operation::*,
    },
};

pub(super) fn created(payout: &Payout) -> PayoutAnswer {
    let PaymentCalldata { transactions, metadata } = calldata(&payout.handout);
    PayoutAnswer::Single(PayoutCreated {
        request_id: RequestIdText::written(&payout.request.id),
        payment_reference: ReferenceText::written(payout.request.reference),
        transactions,
        metadata,
    })
}
