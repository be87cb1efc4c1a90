//! Requests as clients see them.

use super::bodies::*;
use crate::{
    domain::payment_record::PaymentRecord,
    domain::request::{self, progress::Scale, terms},
    flows::{payments::quarantine::QuarantineEntry, requests::read::RequestDetail},
    http::{
        forms::{
            payment::{FeeType, PaymentRateSource, PricedPayment, payment},
            recurrence::StartDayText,
        },
        operation::*,
    },
};

/// Largest number of fees in one response.
const FEES_MAX: usize = 100;

pub(super) fn created(request: &request::Request) -> RequestCreated {
    RequestCreated {
        payment_reference: ReferenceText::written(request.reference),
        request_id: RequestIdText::written(&request.id),
    }
}

pub(super) fn row(request: request::Request) -> RequestSummaryRow {
    let request::Request { terms, ledger, .. } = request;
    RequestSummaryRow {
        request_id: RequestIdText::written(request.id),
        payment_reference: ReferenceText::written(request.reference),
        amount: OrNull(Some(AmountText::written(terms.amount))),
        invoice_currency: CurrencyIdText::written(terms.invoice_currency),
        payment_currency: CurrencyIdText::written(terms.payment_currency),
        has_been_paid: ledger.has_been_paid(),
        status: OrNull(Some(ledger.status)),
        reference: OrNull(terms.merchant_reference.map(MerchantReference::written)),
        created_at: OrNull(Some(Instant(request.created_at))),
        tx_hash: OrNull(ledger.tx_hash.map(TxHash::written)),
        payee: OrNull(terms.payee.map(WalletText::written)),
        payer: OrNull(terms.payer.map(WalletText::written)),
        recurring_payment_id: terms.schedule.as_ref().map(UlidText::written),
    }
}

/// A request with its payments.
pub(super) fn detail(ctx: &Ctx, detail: RequestDetail) -> RequestStatusView {
    let breakdown = detail.progress.is_broken_down.then(|| breakdown(ctx, &detail));
    let rate_source = detail.request.terms.is_converted().then(|| rate_source(ctx, &detail));
    let RequestDetail {
        request,
        payments,
        quarantined,
        quarantined_total,
        progress,
        ..
    } = detail;
    let (terms, ledger) = (request.terms, request.ledger);
    let completing = payments.iter().find(|payment| ledger.tx_hash == Some(payment.tx_hash));
    let (payer, payer_eoa) = completing.map_or((None, None), |payment| (payment.payer, payment.payer_eoa));
    let request_amount = AmountText::written(&terms.amount);
    let scale = Scale::of(&ctx.catalogue, &terms.invoice_currency, &terms.payment_currency);
    let is_cut = |total: u64, shown: usize| u64::try_from(shown).is_ok_and(|shown| total > shown);
    let payments_total = is_cut(ledger.payment_count.into(), payments.len()).then_some(ledger.payment_count);
    let quarantined_payments_total = is_cut(quarantined_total, quarantined.len()).then_some(quarantined_total);
    RequestStatusView {
        has_been_paid: ledger.has_been_paid(),
        payment_reference: ReferenceText::written(request.reference),
        request_id: RequestIdText::written(request.id),
        is_listening: ledger.is_listening,
        is_recurrence_stopped: terms.is_recurrence_stopped(),
        rate_source,
        recurrence: terms.recurrence.map(Into::into),
        original_request_id: terms.original_request_id,
        recurring_payment_id: terms.schedule.as_ref().map(UlidText::written),
        status: ledger.status,
        is_crypto_to_fiat_available: terms.is_crypto_to_fiat,
        original_request_payment_reference: terms.original_request_reference,
        payments_total,
        payments: payments.iter().map(|record| payment(ctx, record)).collect(),
        customer_info: OrNull(terms.customer.map(Into::into)),
        reference: OrNull(terms.merchant_reference.map(MerchantReference::written)),
        amount_in_usd: OrNull(progress.is_in_dollars.then(|| request_amount.clone())),
        conversion_rate: OrNull(progress.rate.map(AmountText::written)),
        conversion_breakdown: OrNull(breakdown),
        fees: OrNull(Some(
            payments
                .iter()
                .flat_map(|record| fees(ctx, record, terms.is_crypto_to_fiat))
                .take(FEES_MAX)
                .collect(),
        )),
        payee: OrNull(terms.payee.map(WalletText::written)),
        request_amount,
        invoice_currency: CurrencyIdText::written(terms.invoice_currency),
        payment_currency: CurrencyIdText::written(terms.payment_currency),
        paid_amount: AmountText::written(progress.paid),
        excess_amount: progress.excess.map(AmountText::written),
        detected_amount: progress.detected.map(AmountText::written),
        quarantined_payments: (!quarantined.is_empty()).then(|| {
            quarantined
                .into_iter()
                .filter_map(|one| set_aside(scale, one))
                .collect()
        }),
        quarantined_payments_total,
        payer_address: OrNull(payer.map(WalletText::written)),
        payer_eoa_address: OrNull(payer_eoa.map(WalletText::written)),
        tx_hash: OrNull(ledger.tx_hash.map(TxHash::written)),
        created_at: Instant(request.created_at),
    }
}

fn set_aside(scale: Scale, quarantined: QuarantineEntry) -> Option<QuarantinedPayment> {
    let stake = quarantined.oddity.stake();
    let amount = stake.map(|stake| AmountText::written(scale.paid(stake.units)));
    Some(QuarantinedPayment {
        tx_hash: TxHash::written(quarantined.oddity.tx_hash?),
        position: OrNull(quarantined.oddity.position),
        reason: quarantined.oddity.reason,
        state: quarantined.state,
        amount: OrNull(amount),
        first_seen_at: Instant(quarantined.first_seen),
    })
}

impl From<terms::Recurrence> for Recurrence {
    fn from(recurrence: terms::Recurrence) -> Self {
        Self {
            start_date: StartDayText::written(recurrence.start_date),
            frequency: recurrence.frequency,
        }
    }
}

fn fees(ctx: &Ctx, record: &PaymentRecord, is_crypto_to_fiat: bool) -> Vec<RequestFee> {
    let shown = PricedPayment::new(ctx, record);
    let fees = shown.fees().map(|(amount, _)| RequestFee {
        kind: if is_crypto_to_fiat {
            FeeType::CryptoToFiat
        } else {
            FeeType::Platform
        },
        provider: if is_crypto_to_fiat {
            ctx.payments.processor_fiat.clone()
        } else {
            ctx.payments.processor_crypto.clone()
        },
        amount,
        currency: shown.symbol(),
    });
    fees.collect()
}

/// The source of the rates of a converted request: the source of its payments, or the current market source if it has
/// no payments.
fn rate_source(ctx: &Ctx, detail: &RequestDetail) -> RateSource {
    let paid = detail
        .payments
        .iter()
        .map(|record| PricedPayment::new(ctx, record).rate_source());
    let mut sources: Vec<PaymentRateSource> = paid.collect();
    if let (true, Some(market)) = (sources.is_empty(), &detail.market_rate) {
        sources.push(market.provider.into());
    }
    match sources.split_first() {
        Some((first, others)) if others.iter().all(|other| other == first) => (*first).into(),
        Some(_) => RateSource::Mixed,
        None if detail.request.terms.is_quoted => RateSource::Unknown,
        None => RateSource::Chainlink,
    }
}

fn breakdown(ctx: &Ctx, detail: &RequestDetail) -> ConversionBreakdown {
    let progress = &detail.progress;
    let in_usd = |amount: &AmountText| progress.is_in_dollars.then(|| amount.clone());
    let (paid, remaining) = (
        AmountText::written(&progress.paid),
        AmountText::written(&progress.remaining),
    );
    let market = detail.market_rate.as_ref();
    let source = market.map(|market| PaymentRateSource::from(market.provider));
    ConversionBreakdown {
        paid_amount_in_usd: in_usd(&paid),
        paid_amount: paid,
        remaining_amount_in_usd: in_usd(&remaining),
        remaining_amount: remaining,
        current_market_rate: OrNull(market.map(|market| AmountText::written(&market.rate))),
        current_market_rate_source: OrNull(source),
        payments: detail
            .payments
            .iter()
            .map(|record| {
                let shown = PricedPayment::new(ctx, record);
                let amount = shown.amount();
                ConvertedPayment {
                    amount_in_usd: in_usd(&amount),
                    amount,
                    conversion_rate: shown.rate(),
                    rate_source: shown.rate_source(),
                    timestamp: Instant(record.paid_at),
                }
            })
            .collect(),
    }
}
