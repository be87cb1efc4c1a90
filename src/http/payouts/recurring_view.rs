//! Recurring payouts as clients see them.

use super::{
    PayoutAnswer,
    permit::{RecurringCreated, allowance, permit},
    recurring_bodies::*,
};
use crate::{
    domain::{amount::format_units, payment_record::PaymentRecord, request, schedule::Schedule},
    flows::schedules::{create::ScheduleMade, read::ScheduleDetail, update::ChangedSchedule},
    http::{forms::calldata::transactions, operation::*},
};

pub(super) fn created(made: &ScheduleMade) -> PayoutAnswer {
    PayoutAnswer::Recurring(RecurringCreated {
        id: UlidText::written(&made.schedule.id),
        request_id: RequestIdText::written(&made.first.request.id),
        transactions: transactions(&made.steps, made.schedule.network),
        recurring_payment_permit: permit(&made.schedule.permit),
        metadata: allowance(&made.need, made.steps.len()),
    })
}

pub(super) fn activated(schedule: &Schedule) -> RecurringActivated {
    RecurringActivated {
        message: "Recurring payment activated successfully".to_owned(),
        id: UlidText::written(&schedule.id),
        status: schedule.status,
    }
}

pub(super) fn recurring(ctx: &Ctx, detail: &ScheduleDetail) -> RecurringView {
    let ScheduleDetail {
        schedule,
        requests,
        payments,
    } = detail;
    let request = |request: &request::Request| RecurringRequest {
        payment_reference: ReferenceText::written(request.reference),
        request_id: RequestIdText::written(&request.id),
    };
    let decimals = ctx
        .catalogue
        .by_token(schedule.network, &schedule.permit.token)
        .map_or(0, |currency| currency.decimals);
    let payment = |payment: &PaymentRecord| RecurringPaymentMade {
        id: UlidText::written(&payment.id),
        amount: AmountText::written(format_units(payment.units, decimals)),
        timestamp: Instant(payment.paid_at),
        tx_hash: TxHash::written(payment.tx_hash),
    };
    RecurringView {
        id: UlidText::written(&schedule.id),
        status: schedule.status,
        processed_payments: schedule.executed.into(),
        total_payments: schedule.permit.total_payments.into(),
        last_payment_date: OrNull(schedule.last_paid_at.map(Instant)),
        next_payment_date: OrNull(schedule.next_payment_at().map(Instant)),
        requests: requests.iter().map(request).collect(),
        payments: payments.iter().map(payment).collect(),
        failure_count: schedule.failures,
        failure_reason: OrNull(schedule.failure_reason.clone()),
    }
}

pub(super) fn updated(changed: &ChangedSchedule) -> RecurringUpdated {
    let ChangedSchedule { schedule, .. } = changed;
    RecurringUpdated {
        id: UlidText::written(&schedule.id),
        status: schedule.status,
        transactions: transactions(&changed.steps, schedule.network),
        metadata: RecurringProgress {
            processed_payments: schedule.executed.into(),
            total_payments: schedule.permit.total_payments.into(),
            remaining_payments: changed.remaining.into(),
            remaining_amount: changed.remaining_units.to_string(),
            next_payment_date: OrNull(schedule.next_payment_at().map(Instant)),
        },
    }
}
