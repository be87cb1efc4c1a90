//! Conversion between rows of payments and domain values.

use super::groups::GroupValues;
use crate::{
    domain::{
        ids::{ClientRowId, PaymentId, PlatformId, RequestRowId, ScheduleId},
        ledger::RequestStatus,
        paying::charge::FeeLeg,
        payment::{PayerAccess, PaymentKind, ReversalReason, Settled},
        payment_record::{PaymentRecord, PaymentSource, Reversal},
        rates::{AppliedRate, RateProvider},
        reference::PaymentReference,
        request::{Request, terms::CustomerInfo},
    },
    store::{Sealing, StoreError, columns, rates, requests},
};
use chrono::{DateTime, Utc};
use entities::payments;
use sea_orm::JsonValue;

/// A payment to be recorded, with the request that it settles.
#[derive(Debug, Clone)]
pub struct SettledPayment<'a> {
    /// Fresh id.
    pub id: PaymentId,
    /// The request, which determines owner, kind and currencies.
    pub request: &'a Request,
    /// What the chain proved.
    pub settled: &'a Settled,
    /// Now.
    pub created_at: DateTime<Utc>,
}

/// The fields of a payment's request that a search returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSummary {
    /// Public id.
    pub request_id: String,
    /// Payment reference.
    pub reference: PaymentReference,
    /// State.
    pub status: RequestStatus,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Customer.
    pub customer: Option<CustomerInfo>,
}

impl RequestSummary {
    /// This summary without the customer. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self { customer: None, ..self }
    }
}

pub(super) fn to_row(payment: &SettledPayment<'_>) -> Result<payments::Model, StoreError> {
    let SettledPayment { request, settled, .. } = payment;
    let observed = &settled.observed;
    let client = request.origin.client.as_ref().map(|client| client.as_str());
    let schedule = request.terms.schedule.as_ref().filter(|_| settled.is_execution);
    let facets = GroupValues {
        platform: request.origin.platform.as_str(),
        kind: request.terms.kind.wire(),
        invoice_currency: &request.terms.invoice_currency,
        payment_currency: &request.terms.payment_currency,
        is_hidden: request.is_hidden,
    };
    Ok(payments::Model {
        id: payment.id.0.clone(),
        platform_id: request.origin.platform.0.clone(),
        client_row: request.origin.client.as_ref().map(|client| client.0.clone()),
        request_row: request.row.0.clone(),
        request_id: request.id.0.clone(),
        network: observed.network.id().to_owned(),
        tx_hash: observed.tx_hash.to_vec(),
        position: columns::number("position", observed.position)?,
        block_number: columns::number("block_number", observed.block_number)?,
        block_hash: observed.block_hash.to_vec(),
        log_index: columns::number("log_index", observed.log_index)?,
        proxy: columns::address_bytes(&observed.proxy),
        token: observed.token.as_ref().map(columns::address_bytes),
        payee: columns::address_bytes(&observed.payee),
        payer: settled.proven.payer.as_ref().map(columns::address_bytes),
        payer_eoa: settled.proven.payer_eoa.as_ref().map(columns::address_bytes),
        units: settled.proven.received_units.to_string(),
        event_units: observed.units.to_string(),
        fee_units: observed.fee_units.to_string(),
        fee_address: observed.fee_address.as_ref().map(columns::address_bytes),
        credited: settled.credited.to_string(),
        fee_shortfall: settled.fee_shortfall.map(|missing| missing.to_string()),
        kind: request.terms.kind.wire().to_owned(),
        invoice_currency: request.terms.invoice_currency.clone(),
        payment_currency: request.terms.payment_currency.clone(),
        merchant_reference: request.terms.merchant_reference.clone(),
        reference: request.reference.0.to_vec(),
        paid_at: settled.at,
        created_at: payment.created_at,
        reversed_at: None,
        reversal_reason: None,
        is_told: false,
        schedule_id: schedule.map(|schedule| schedule.0.clone()),
        rate: settled.applied.map(|applied| applied.rate.to_string()),
        rate_provider: settled.applied.map(|applied| applied.provider.wire().to_owned()),
        further_fees: further_fees_text(&settled.further_fees),
        orchestrator_fees: columns::orchestrator_fees_text(settled.orchestrator_fees),
        is_quoted: settled.is_quoted,
        group_key: facets.key(None),
        client_group_key: client.map(|client| facets.key(Some(client))),
        is_hidden: request.is_hidden,
        payer_access: settled.payer_access.map(|access| access.wire().to_owned()),
        source_network: observed.network.id().to_owned(),
        source_tx_hash: observed.tx_hash.to_vec(),
        source_payer: settled.proven.payer.as_ref().map(columns::address_bytes),
    })
}

fn applied(row: &payments::Model) -> Result<Option<AppliedRate>, StoreError> {
    let Some(rate) = row.rate.as_deref() else {
        return Ok(None);
    };
    let provider = row.rate_provider.as_deref().unwrap_or_default();
    Ok(Some(AppliedRate {
        rate: rates::rate(rate)?,
        provider: columns::known("rate_provider", provider, RateProvider::from_wire)?,
    }))
}

fn further_fees_text(fees: &[FeeLeg]) -> Option<String> {
    let texts: Vec<String> = fees
        .iter()
        .map(|fee| format!("{}={}", fee.receiver.canonical(), fee.units))
        .collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

fn further_fees(text: Option<&str>) -> Result<Vec<FeeLeg>, StoreError> {
    let fees = text.into_iter().flat_map(|text| text.split(','));
    fees.map(|fee| {
        let (receiver, units) = fee
            .split_once('=')
            .ok_or_else(|| columns::broken("further_fees", fee))?;
        Ok(FeeLeg {
            receiver: columns::address("further_fees", receiver)?,
            units: columns::units("further_fees", units)?,
        })
    })
    .collect()
}

pub(super) fn from_row(row: payments::Model) -> Result<PaymentRecord, StoreError> {
    let shortfall = row.fee_shortfall.as_deref();
    let shortfall = shortfall.map(|missing| columns::units("fee_shortfall", missing));
    let reason = row.reversal_reason.as_deref();
    let reason = reason.map(|text| columns::known("reversal_reason", text, ReversalReason::from_wire));
    let reversal = row.reversed_at.zip(reason.transpose()?);
    let applied = applied(&row)?;
    let access = row.payer_access.as_deref();
    let access = access.map(|text| columns::known("payer_access", text, PayerAccess::from_wire));
    Ok(PaymentRecord {
        id: PaymentId(row.id),
        platform: PlatformId(row.platform_id),
        client: row.client_row.map(ClientRowId),
        request: RequestRowId(row.request_row),
        request_id: row.request_id,
        network: columns::network(&row.network)?,
        tx_hash: columns::hash_of("tx_hash", &row.tx_hash)?,
        position: columns::number("position", row.position)?,
        block_number: columns::number("block_number", row.block_number)?,
        block_hash: columns::hash_of("block_hash", &row.block_hash)?,
        log_index: columns::number("log_index", row.log_index)?,
        proxy: columns::address_of("proxy", &row.proxy)?,
        token: columns::address_option_of("token", row.token.as_deref())?,
        payee: columns::address_of("payee", &row.payee)?,
        payer: columns::address_option_of("payer", row.payer.as_deref())?,
        payer_eoa: columns::address_option_of("payer_eoa", row.payer_eoa.as_deref())?,
        units: columns::units("units", &row.units)?,
        event_units: columns::units("event_units", &row.event_units)?,
        fee_units: columns::units("fee_units", &row.fee_units)?,
        fee_address: columns::address_option_of("fee_address", row.fee_address.as_deref())?,
        credited: columns::units("credited", &row.credited)?,
        applied,
        is_quoted: row.is_quoted,
        fee_shortfall: shortfall.transpose()?,
        further_fees: further_fees(row.further_fees.as_deref())?,
        orchestrator_fees: columns::orchestrator_fees(row.orchestrator_fees.as_deref())?,
        kind: columns::known("kind", &row.kind, PaymentKind::from_wire)?,
        invoice_currency: row.invoice_currency,
        payment_currency: row.payment_currency,
        merchant_reference: row.merchant_reference,
        reference: columns::reference_of(&row.reference)?,
        paid_at: row.paid_at,
        created_at: row.created_at,
        reversal: reversal.map(|(at, reason)| Reversal { at, reason }),
        is_told: row.is_told,
        schedule: row.schedule_id.map(ScheduleId),
        payer_access: access.transpose()?,
        source: PaymentSource {
            network: columns::network(&row.source_network)?,
            tx_hash: columns::hash_of("source_tx_hash", &row.source_tx_hash)?,
            payer: columns::address_option_of("source_payer", row.source_payer.as_deref())?,
        },
    })
}

/// Reads the summary of a payment's request. State and customer come from the request; the rest comes from the payment.
pub(super) fn summary(
    conn: &impl Sealing,
    payment: &PaymentRecord,
    status: &str,
    customer: Option<JsonValue>,
) -> Result<RequestSummary, StoreError> {
    let place = requests::customer_place(payment.platform.as_str(), payment.request.as_str());
    let customer = customer.map(|value| requests::customer_from_json(conn, place, value));
    Ok(RequestSummary {
        request_id: payment.request_id.clone(),
        reference: payment.reference,
        status: columns::known("status", status, RequestStatus::from_wire)?,
        merchant_reference: payment.merchant_reference.clone(),
        customer: customer.transpose()?,
    })
}
