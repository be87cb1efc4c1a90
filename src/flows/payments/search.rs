//! Searches settled payments.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        ids::RequestId,
        payment::PaymentKind,
        reference::PaymentReference,
        refusal::{FieldError, Refusal},
    },
    flows::FlowResult,
    store::{
        self, Scope,
        payments::{PaymentFilter, PaymentRecord, RequestSummary},
    },
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Filters, checked for shape; they combine with AND.
#[derive(Debug, Clone, Default)]
pub struct PaymentSearch {
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
    /// Page size.
    pub limit: u64,
    /// Rows before the page.
    pub offset: u64,
}

/// One page of payments, newest first.
#[derive(Debug, Clone)]
pub struct PaymentPage {
    /// Payments with their requests.
    pub payments: Vec<(PaymentRecord, RequestSummary)>,
    /// Matches; exact up to 10,000, never more.
    pub total: u64,
    /// Whether there are more after this page.
    pub has_more: bool,
    /// Page size.
    pub limit: u64,
    /// Rows before the page.
    pub offset: u64,
}

/// Searches the payments of the caller's requests. A public client ID is told nothing about persons, and
/// finds a wallet as payee alone.
///
/// Errors: no search parameter, dates in the wrong order (400).
/// Source: interface §4.1; decisions D13; decisions D14; decisions D15; decisions D23; decisions D32.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, search: &PaymentSearch) -> FlowResult<PaymentPage> {
    check(search)?;
    let filter = PaymentFilter {
        tx_hash: search.tx_hash,
        wallet: search.wallet.map(|wallet| wallet.canonical()),
        // Found by its payer, a payment would tell who paid it.
        is_wallet_payee: caller.is_public(),
        reference: search.reference,
        request_id: search.request_id.as_ref().map(ToString::to_string),
        merchant_reference: search.merchant_reference.clone(),
        kind: search.kind,
        invoice_currencies: search
            .invoice_currency
            .as_deref()
            .map(|text| ctx.catalogue.ids_or_symbols(text)),
        payment_currencies: search
            .payment_currency
            .as_deref()
            .map(|text| ctx.catalogue.ids_or_symbols(text)),
        from: search.from,
        to: search.to,
        limit: search.limit,
        offset: search.offset,
    };
    let found = store::payments::search(ctx.db.reader(), &Scope::from(caller), &filter).await?;
    let mut payments = found.rows;
    if caller.is_public() {
        let rows = payments.into_iter();
        let rows = rows.map(|(payment, request)| (payment.without_persons(), request.without_persons()));
        payments = rows.collect();
    }
    Ok(PaymentPage {
        payments,
        total: found.total,
        has_more: found.has_more,
        limit: search.limit,
        offset: search.offset,
    })
}

fn check(search: &PaymentSearch) -> Result<(), Refusal> {
    let mut errors = Vec::new();
    let is_searching = search.tx_hash.is_some()
        || search.wallet.is_some()
        || search.reference.is_some()
        || search.request_id.is_some()
        || search.merchant_reference.is_some()
        || search.kind.is_some()
        || search.invoice_currency.is_some()
        || search.payment_currency.is_some();
    if !is_searching {
        errors.push(FieldError::new(
            "query",
            "At least one search parameter must be provided",
        ));
    }
    if let (Some(from), Some(to)) = (search.from, search.to)
        && to < from
    {
        errors.push(FieldError::new("toDate", "toDate must be after or equal to fromDate"));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Refusal::fields(errors))
    }
}
