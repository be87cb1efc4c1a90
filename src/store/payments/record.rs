//! Rows of payments and what they say.

use super::groups::Facets;
use crate::{
    domain::{
        address::Address,
        ids::{ClientRowId, PaymentId, PlatformId, RequestRowId, ScheduleId},
        ledger::{Credit, RequestStatus, SettlementUnits},
        network::Network,
        paying::charge::FeeLeg,
        payment::{Observation, PayerAccess, PaymentKind, ProvenTransfer, ReversalReason, Settled},
        rates::{AppliedRate, RateProvider},
        reference::PaymentReference,
        request::{Request, terms::CustomerInfo},
    },
    store::{Sealing, StoreError, columns, rates, requests},
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};
use entities::payments;
use sea_orm::JsonValue;

/// A payment to be recorded, with the request that it settles.
#[derive(Debug, Clone)]
pub struct SettledPayment<'a> {
    /// Fresh id.
    pub id: PaymentId,
    /// The request: owner, kind and currencies are taken from it.
    pub request: &'a Request,
    /// What the chain proved.
    pub settled: &'a Settled,
    /// Now.
    pub created_at: DateTime<Utc>,
}

/// A recorded payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRecord {
    /// Row.
    pub id: PaymentId,
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID of the request.
    pub client: Option<ClientRowId>,
    /// Row of the request.
    pub request: RequestRowId,
    /// Public id of the request.
    pub request_id: String,
    /// Network.
    pub network: Network,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction.
    pub position: u32,
    /// Height of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: B256,
    /// Index of the event in its block.
    pub log_index: u64,
    /// Contract that emitted the event.
    pub proxy: Address,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Receiver.
    pub payee: Address,
    /// Where the money came from.
    pub payer: Option<Address>,
    /// Account behind the payer.
    pub payer_eoa: Option<Address>,
    /// Token units that arrived.
    pub units: U256,
    /// Token units that the event names.
    pub event_units: U256,
    /// Token units of the fee.
    pub fee_units: U256,
    /// Receiver of the fee.
    pub fee_address: Option<Address>,
    /// How much of the request it settled.
    pub credited: SettlementUnits,
    /// By which rate, where it was not the chain that converted.
    pub applied: Option<AppliedRate>,
    /// Whether that is what a quote promised.
    pub is_quoted: bool,
    /// How much of the fees on top is missing.
    pub fee_shortfall: Option<SettlementUnits>,
    /// Fees that its transaction paid to further receivers, in token units.
    pub further_fees: Vec<FeeLeg>,
    /// Kind.
    pub kind: PaymentKind,
    /// Currency id of the invoice.
    pub invoice_currency: String,
    /// Currency id of the payment.
    pub payment_currency: String,
    /// Merchant reference of the request.
    pub merchant_reference: Option<String>,
    /// Payment reference.
    pub reference: PaymentReference,
    /// Time of the block.
    pub paid_at: DateTime<Utc>,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
    /// When and why it was taken back, while it is.
    pub reversal: Option<Reversal>,
    /// Whether it was told as confirmed or partial, and that was not taken back.
    pub is_told: bool,
    /// Recurring payment that executed it.
    pub schedule: Option<ScheduleId>,
    /// Whether who paid a link might have; `None` where everybody might.
    pub payer_access: Option<PayerAccess>,
}

impl PaymentRecord {
    /// Its transaction, and its position among all events of that.
    pub fn place(&self) -> (B256, u32) {
        (self.tx_hash, self.position)
    }

    /// Payments as a ledger counts them.
    pub fn credits(payments: &[Self]) -> Vec<Credit> {
        let credit = |payment: &Self| Credit {
            units: payment.credited,
            tx_hash: payment.tx_hash,
            is_told: payment.is_told,
            is_quoted: payment.is_quoted,
        };
        payments.iter().map(credit).collect()
    }

    /// The payment as it was settled. What a conversion proxy said about the invoice side is not kept; how much it settled is.
    pub fn settled(&self) -> Settled {
        Settled {
            observed: Observation {
                network: self.network,
                tx_hash: self.tx_hash,
                position: self.position,
                block_number: self.block_number,
                block_hash: self.block_hash,
                log_index: self.log_index,
                proxy: self.proxy,
                reference_topic: self.reference.topic(),
                token: self.token,
                payee: self.payee,
                units: self.event_units,
                fee_units: self.fee_units,
                fee_address: self.fee_address,
                conversion: None,
            },
            proven: ProvenTransfer {
                received_units: self.units,
                payer: self.payer,
                payer_eoa: self.payer_eoa,
            },
            credited: self.credited,
            applied: self.applied,
            is_quoted: self.is_quoted,
            fee_shortfall: self.fee_shortfall,
            further_fees: self.further_fees.clone(),
            payer_access: self.payer_access,
            is_execution: self.schedule.is_some(),
            at: self.paid_at,
        }
    }

    /// The payment without whose wallet paid and what was found about it. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            payer: None,
            payer_eoa: None,
            payer_access: None,
            ..self
        }
    }
}

/// That a payment was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub reason: ReversalReason,
}

/// What a search tells about the request of a payment.
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
    /// The same without who buys. Source: decisions D32.
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
    let facets = Facets {
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
        is_quoted: settled.is_quoted,
        group_key: facets.key(None),
        client_group_key: client.map(|client| facets.key(Some(client))),
        is_hidden: request.is_hidden,
        payer_access: settled.payer_access.map(|access| access.wire().to_owned()),
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
    })
}

/// Reads what a search tells about the request of a payment: its state and customer, and the rest off the payment.
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
