//! Bodies of the events about received payments.

use super::{
    forms::{ProcessorNames, processor, symbol, timestamp},
    payments::{
        CheckoutScope, ClientIdScope, Creator, EventCustomer, EventFee, EventRecurringPayment, PaymentBody,
        PaymentConfirmed, PaymentConfirmedCheckout, PaymentConfirmedClientId, PaymentPartial, PaymentPartialCheckout,
        PaymentPartialClientId, PaymentReversedBody,
    },
    render::render,
};
use crate::domain::{
    amount::format_units,
    currency::{Catalogue, Currency},
    event::{ChainTransaction, PaymentEventVariant, PaymentReceived, PaymentReversed},
    ledger::Settlement,
    off_ramp::OffRampStatus,
    payment::PayerAccess,
    rate::{RATE_DECIMALS, ratio},
    rates::RateProvider,
};
use alloy::primitives::U256;

/// The body of a payment event.
pub(super) fn body(received: &PaymentReceived, catalogue: &Catalogue, names: &ProcessorNames) -> String {
    let event = received.kind();
    let payment = facts(received, catalogue, names);
    let request = &received.request;
    let creator = Creator {
        client_id: request.origin.client_id.clone(),
        origin: request.origin.page.clone(),
    };
    // A variant is created only for a payment that has the value it is named after, so the texts below are never empty.
    let client_id_scope = || ClientIdScope {
        client_id: request.origin.client_id.clone().unwrap_or_default(),
        origin: request.origin.page.clone(),
    };
    let checkout_scope = || CheckoutScope {
        secure_payment_token: received.secure_payment_token.clone(),
        client_id: request.origin.client_id.clone(),
        origin: request.origin.page.clone(),
    };
    match (received.settlement, received.variant) {
        (Settlement::Confirmed, PaymentEventVariant::Plain) => render(&PaymentConfirmed {
            event,
            payment,
            creator,
        }),
        (Settlement::Partial, PaymentEventVariant::Plain) => render(&PaymentPartial {
            event,
            payment,
            creator,
        }),
        (Settlement::Confirmed, PaymentEventVariant::ClientId) => render(&PaymentConfirmedClientId {
            event,
            payment,
            scope: client_id_scope(),
        }),
        (Settlement::Partial, PaymentEventVariant::ClientId) => render(&PaymentPartialClientId {
            event,
            payment,
            scope: client_id_scope(),
        }),
        (Settlement::Confirmed, PaymentEventVariant::Checkout) => render(&PaymentConfirmedCheckout {
            event,
            payment,
            scope: checkout_scope(),
        }),
        (Settlement::Partial, PaymentEventVariant::Checkout) => render(&PaymentPartialCheckout {
            event,
            payment,
            scope: checkout_scope(),
        }),
    }
}

/// The body of a reversal: the reported payment, with the remaining totals.
pub(super) fn reversed(
    reversed: &PaymentReversed,
    catalogue: &Catalogue,
    names: &ProcessorNames,
) -> PaymentReversedBody {
    let (request, payment) = (reversed.request.clone(), reversed.payment.clone());
    let creator = Creator {
        client_id: request.origin.client_id.clone(),
        origin: request.origin.page.clone(),
    };
    PaymentReversedBody {
        event: "payment.reversed",
        payment_id: reversed.id.to_string(),
        reason: reversed.reason.wire(),
        payment: facts(
            &PaymentReceived::new(Settlement::Partial, request, payment),
            catalogue,
            names,
        ),
        creator,
    }
}

fn facts(received: &PaymentReceived, catalogue: &Catalogue, names: &ProcessorNames) -> PaymentBody {
    let PaymentReceived { request, payment, .. } = received;
    let (terms, ledger) = (&request.terms, &request.ledger);
    let (observed, proven) = (&payment.observed, &payment.proven);
    let invoice = catalogue.find(&terms.invoice_currency);
    let paid_in = catalogue.find(&terms.payment_currency);
    let transaction = ChainTransaction {
        network: observed.network,
        hash: observed.tx_hash.to_string(),
    };
    let paid_decimals = paid_in.map_or(0, |currency| currency.decimals);
    let settled_decimals = paid_in.map_or(0, |currency| terms.settlement_decimals(currency));
    let settled = |units| format_units(units, settled_decimals);
    let is_converted = terms.is_converted();
    let conversion_rate = match payment.applied {
        Some(applied) => Some(applied.rate.to_string()),
        None => ratio(
            payment.credited,
            settled_decimals,
            proven.received_units,
            paid_decimals,
            RATE_DECIMALS,
        ),
    };
    let conversion_rate = conversion_rate.filter(|_| is_converted);
    let converted = is_converted.then(|| format_units(proven.received_units, paid_decimals));
    PaymentBody {
        request_id: request.id.to_string(),
        request_id_upper: request.id.to_string(),
        payment_reference: request.reference.to_string(),
        explorer: transaction.explorer_url(),
        amount: settled(payment.credited),
        total_amount_paid: settled(ledger.credited),
        expected_amount: settled(ledger.expected),
        timestamp: timestamp(payment.at),
        tx_hash: transaction.hash,
        payer_address: proven.payer.map(|payer| payer.to_string()),
        payer_eoa_address: proven.payer_eoa.map(|payer| payer.to_string()),
        network: observed.network.id().to_owned(),
        currency: symbol(invoice, &terms.invoice_currency),
        payment_currency: symbol(paid_in, &terms.payment_currency),
        is_crypto_to_fiat: terms.is_crypto_to_fiat,
        sub_status: received.off_ramp_status.map_or("", OffRampStatus::wire).to_owned(),
        payment_processor: processor(request, names),
        fees: fees(received, paid_in, paid_decimals),
        payee: terms.payee.map(|payee| payee.to_string()),
        customer_info: terms.customer.as_ref().map(EventCustomer::from),
        reference: terms.merchant_reference.clone(),
        recurring_payment: received
            .recurring_payment
            .clone()
            .map(|id| EventRecurringPayment { id }),
        conversion_rate: conversion_rate.clone(),
        conversion_rate_source: conversion_rate.clone(),
        conversion_rate_destination: conversion_rate,
        converted_amount_source: converted.clone(),
        converted_amount_destination: converted,
        rate_provider: is_converted.then(|| {
            let provider = payment.applied.map(|applied| applied.provider);
            provider.unwrap_or(RateProvider::Chainlink).wire().to_owned()
        }),
        excess_amount: ledger.excess().map(settled),
        fee_shortfall: payment.fee_shortfall.map(settled),
        payer_access: payment.payer_access.map(PayerAccess::wire),
    }
}

fn fees(received: &PaymentReceived, paid_in: Option<&Currency>, decimals: u8) -> Vec<EventFee> {
    let payment = &received.payment;
    let charged = if received.request.terms.is_crypto_to_fiat {
        "crypto-to-fiat"
    } else {
        "platform"
    };
    let further = payment.further_fees.iter().map(|fee| fee.units);
    let units = [payment.observed.fee_units].into_iter().chain(further);
    let fees = units.map(|units| (charged, units));
    let kept = received.off_ramp_fee.map(|units| ("offramp", units));
    let fee = |(kind, units): (&str, U256)| EventFee {
        r#type: kind.to_owned(),
        amount: format_units(units, decimals),
        currency: symbol(paid_in, &received.request.terms.payment_currency),
    };
    fees.chain(kept)
        .filter(|(_, units)| !units.is_zero())
        .map(fee)
        .collect()
}
