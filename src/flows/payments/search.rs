//! Searches settled payments.

use super::cursor;
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        refusal::Checks,
        search::{PaymentPosition, PaymentSearch},
    },
    flows::FlowResult,
    store::{
        self, Scope,
        payments::{PageWindow, PaymentFilter},
    },
};

pub use crate::store::payments::{FoundPayment, PageStart};

/// Start of a page, as the caller requests it.
#[derive(Debug, Clone)]
pub enum Start {
    /// After a number of matches.
    Row(u64),
    /// After the last payment of a previous page, by its cursor.
    Cursor(String),
}

/// One page of payments, newest first.
#[derive(Debug, Clone)]
pub struct PaymentPage {
    /// Payments with their requests.
    pub payments: Vec<FoundPayment>,
    /// Number of matches; exact up to 10,000, and above that if a count is stored.
    pub total: u64,
    /// Whether there are more payments after this page.
    pub has_more: bool,
    /// Cursor of the next page, if any.
    pub next: Option<String>,
}

/// Searches the payments of the requests of a caller. A public client ID gets no personal data and no payments of links
/// that hide details, and can search for a wallet only as the payee.
///
/// Errors (400): invalid parameters, no search parameter, dates in the wrong order, an unknown currency, or a cursor of
/// another search. Source: interface §4.1; decisions D13; decisions D14; decisions D15; decisions D23; decisions D32.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    search: &PaymentSearch,
    start: Start,
    limit: u64,
    mut checks: Checks,
) -> FlowResult<PaymentPage> {
    let (filter, scope) = (filter(ctx, caller, search, &mut checks), Scope::from(caller));
    let begin = match start {
        Start::Row(offset) => Some(PageStart::Row(offset)),
        Start::Cursor(text) => checks
            .join(cursor::read(ctx, &scope, &filter, &text))
            .map(PageStart::After),
    };
    let begin = checks.finish_with(begin)?;
    let window = PageWindow { begin, limit };
    let found = store::payments::search(ctx.db.reader(), &scope, &filter, &window).await?;
    let mut payments = found.rows;
    let last = payments
        .last()
        .filter(|_| found.has_more)
        .map(|(payment, _)| PaymentPosition {
            paid_at: payment.paid_at,
            id: payment.id.clone(),
        });
    let next = last.map(|last| cursor::write(ctx, &scope, &filter, &last));
    if caller.is_public() {
        let rows = payments.into_iter();
        let rows = rows.map(|(payment, request)| (payment.without_persons(), request.without_persons()));
        payments = rows.collect();
    }
    Ok(PaymentPage {
        payments,
        total: found.total,
        has_more: found.has_more,
        next,
    })
}

/// Converts a search to a filter of rows; records missing, contradictory and unknown values.
pub(super) fn filter(ctx: &Ctx, caller: &PlatformCaller, search: &PaymentSearch, checks: &mut Checks) -> PaymentFilter {
    search.check(checks);
    let invoice_currencies = currencies(ctx, "invoiceCurrency", search.invoice_currency.as_deref(), checks);
    let payment_currencies = currencies(ctx, "paymentCurrency", search.payment_currency.as_deref(), checks);
    PaymentFilter {
        tx_hash: search.tx_hash,
        wallet: search.wallet,
        // Searching by payer would reveal who made a payment.
        is_wallet_payee: caller.is_public(),
        reference: search.reference,
        request_id: search.request_id.as_ref().map(ToString::to_string),
        merchant_reference: search.merchant_reference.clone(),
        kind: search.kind,
        invoice_currencies,
        payment_currencies,
        leaves_out_hidden: caller.is_public(),
        from: search.from,
        to: search.to,
    }
}

/// Ids of the currencies that match a text.
fn currencies(ctx: &Ctx, field: &str, text: Option<&str>, checks: &mut Checks) -> Option<Vec<String>> {
    let found = ctx.catalogue.ids_or_symbols(text?);
    if found.is_empty() {
        let message = "is not a currency of this service; GET /v2/currencies lists them all";
        checks.fail(field, message);
    }
    Some(found)
}
