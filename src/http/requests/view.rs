//! Requests and payments as clients see them.

use crate::{
    ctx::Ctx,
    domain::{
        amount::format_units,
        currency::{Currency, CurrencyKind, FIAT_CHAIN_DECIMALS},
        ledger::RequestStatus,
        rate::{RATE_DECIMALS, ratio},
        request::terms::Terms,
    },
    flows::{
        payments::{PaymentRecord, RequestSummary},
        requests::read::RequestDetail,
    },
    http::{
        forms::{null::OrNull, wire::Instant},
        payments::{Fee, FeeStage, Payment, PaymentRequestSummary},
        requests::bodies::{
            ConversionBreakdown, ConvertedPayment, FeeType, PaymentRateSource, RateSource, RequestFee,
            RequestStatusView,
        },
    },
};

/// Tokens that count as one US dollar. Source: rules P.7.1.
const DOLLAR_SYMBOLS: [&str; 3] = ["USDC", "USDT", "DAI"];

/// A request with its payments.
pub(super) async fn view(ctx: &Ctx, detail: RequestDetail) -> RequestStatusView {
    let request = &detail.request;
    let (terms, ledger) = (&request.terms, &request.ledger);
    let settlement_decimals = settlement_decimals(ctx, terms);
    let is_in_dollars = ctx.catalogue.find(&terms.invoice_currency).is_some_and(is_dollar);
    let completing = ledger.tx_hash.as_ref().and_then(|hash| {
        detail
            .payments
            .iter()
            .find(|payment| payment.tx_hash.to_string() == *hash)
    });
    let is_split = ledger.payment_count > 1 || (ledger.payment_count == 1 && !ledger.has_been_paid());
    let conversion_rate = match (is_split, terms.is_converted(), detail.payments.first()) {
        (true, ..) => None,
        (false, false, _) => Some("1".to_owned()),
        (false, true, Some(payment)) => rate_of(ctx, payment),
        (false, true, None) => detail.market_rate.clone(),
    };
    let excess = ledger.excess().map(|excess| format_units(excess, settlement_decimals));
    RequestStatusView {
        has_been_paid: ledger.has_been_paid(),
        payment_reference: request.reference.to_string(),
        request_id: request.id.to_string(),
        is_listening: ledger.is_listening,
        tx_hash: OrNull(ledger.tx_hash.clone()),
        recurrence: terms.recurrence.clone().map(Into::into),
        original_request_id: terms.original_request_id.clone(),
        status: ledger.status.into(),
        is_crypto_to_fiat_available: terms.is_crypto_to_fiat,
        original_request_payment_reference: terms.original_request_reference.clone(),
        payments: detail
            .payments
            .iter()
            .map(|record| payment(ctx, record, None))
            .collect(),
        is_recurrence_stopped: terms.is_recurrence_stopped(),
        customer_info: OrNull(terms.customer.clone().map(Into::into)),
        reference: OrNull(terms.merchant_reference.clone()),
        amount_in_usd: OrNull(is_in_dollars.then(|| terms.amount.to_string())),
        rate_source: terms.is_converted().then_some(RateSource::Chainlink),
        conversion_breakdown: OrNull(
            (terms.is_converted() && is_split).then(|| breakdown(ctx, &detail, settlement_decimals, is_in_dollars)),
        ),
        conversion_rate: OrNull(conversion_rate),
        fees: OrNull(Some(
            detail
                .payments
                .iter()
                .filter_map(|record| request_fee(ctx, record))
                .collect(),
        )),
        payee: terms.payee.to_string(),
        request_amount: terms.amount.to_string(),
        invoice_currency: terms.invoice_currency.clone(),
        payment_currency: terms.payment_currency.clone(),
        paid_amount: format_units(ledger.credited, settlement_decimals),
        excess_amount: excess,
        detected_amount: (!detail.detected_units.is_zero())
            .then(|| format_units(detail.detected_units, settlement_decimals)),
        payer_address: OrNull(
            completing
                .and_then(|payment| payment.payer)
                .map(|payer| payer.to_string()),
        ),
        payer_eoa_address: OrNull(
            completing
                .and_then(|payment| payment.payer_eoa)
                .map(|payer| payer.to_string()),
        ),
        created_at: Instant(request.created_at),
    }
}

/// A payment that a search found.
pub(in crate::http) fn found_payment(ctx: &Ctx, record: &PaymentRecord, request: RequestSummary) -> Payment {
    let summary = PaymentRequestSummary {
        request_id: request.request_id,
        payment_reference: request.reference.to_string(),
        has_been_paid: request.status == RequestStatus::Paid,
        customer_info: OrNull(request.customer.map(Into::into)),
        reference: OrNull(request.merchant_reference),
    };
    payment(ctx, record, Some(summary))
}

fn payment(ctx: &Ctx, record: &PaymentRecord, request: Option<PaymentRequestSummary>) -> Payment {
    let is_converted = record.invoice_currency != record.payment_currency;
    let converted = is_converted.then(|| format_units(record.units, payment_decimals(ctx, record)));
    let rate = if is_converted { rate_of(ctx, record) } else { None };
    let network = record.network.id().to_owned();
    Payment {
        id: record.id.to_string(),
        amount: format_units(record.credited, credited_decimals(ctx, record)),
        source_network: network.clone(),
        destination_network: network,
        source_tx_hash: OrNull(Some(record.tx_hash.to_string())),
        destination_tx_hash: OrNull(Some(record.tx_hash.to_string())),
        timestamp: Instant(record.paid_at),
        kind: record.kind.into(),
        conversion_rate_source: OrNull(rate.clone()),
        conversion_rate_destination: OrNull(rate),
        converted_amount_source: OrNull(converted.clone()),
        converted_amount_destination: OrNull(converted),
        currency: symbol(ctx, &record.invoice_currency),
        payment_currency: symbol(ctx, &record.payment_currency),
        fees: OrNull(Some(fee(ctx, record).into_iter().collect())),
        recurring_payment_id: OrNull(None),
        rate_provider: OrNull(is_converted.then_some(PaymentRateSource::Chainlink)),
        request,
    }
}

fn fee(ctx: &Ctx, record: &PaymentRecord) -> Option<Fee> {
    let amount = fee_amount(ctx, record)?;
    let currency = ctx.catalogue.find(&record.payment_currency);
    Some(Fee {
        kind: FeeType::Platform,
        stage: FeeStage::Proxying,
        provider: ctx.payments.processor_crypto.clone(),
        amount_in_usd: currency.filter(|currency| is_dollar(currency)).map(|_| amount.clone()),
        amount,
        currency: symbol(ctx, &record.payment_currency),
        receiver_address: record.fee_address.map(|address| address.to_string()),
        network: record.network.id().to_owned(),
        rate_provider: "unknown".to_owned(),
    })
}

fn request_fee(ctx: &Ctx, record: &PaymentRecord) -> Option<RequestFee> {
    Some(RequestFee {
        kind: FeeType::Platform,
        provider: ctx.payments.processor_crypto.clone(),
        amount: fee_amount(ctx, record)?,
        currency: symbol(ctx, &record.payment_currency),
    })
}

/// The platform fee in the payment currency; an event without fee address moved nothing.
fn fee_amount(ctx: &Ctx, record: &PaymentRecord) -> Option<String> {
    let is_paid = !record.fee_units.is_zero() && record.fee_address.is_some();
    is_paid.then(|| format_units(record.fee_units, payment_decimals(ctx, record)))
}

fn breakdown(ctx: &Ctx, detail: &RequestDetail, decimals: u8, is_in_dollars: bool) -> ConversionBreakdown {
    let ledger = &detail.request.ledger;
    let paid = format_units(ledger.credited, decimals);
    let remaining = format_units(ledger.remaining(), decimals);
    let market_rate = if ledger.has_been_paid() {
        None
    } else {
        detail.market_rate.clone()
    };
    ConversionBreakdown {
        paid_amount_in_usd: is_in_dollars.then(|| paid.clone()),
        paid_amount: paid,
        remaining_amount_in_usd: is_in_dollars.then(|| remaining.clone()),
        remaining_amount: remaining,
        current_market_rate_source: OrNull(market_rate.is_some().then_some(PaymentRateSource::Chainlink)),
        current_market_rate: OrNull(market_rate),
        payments: detail
            .payments
            .iter()
            .map(|record| {
                let amount = format_units(record.credited, decimals);
                ConvertedPayment {
                    amount_in_usd: is_in_dollars.then(|| amount.clone()),
                    amount,
                    conversion_rate: rate_of(ctx, record),
                    rate_source: PaymentRateSource::Chainlink,
                    timestamp: Instant(record.paid_at).to_string(),
                }
            })
            .collect(),
    }
}

/// Invoice units for one unit of the payment currency, as it was paid.
fn rate_of(ctx: &Ctx, record: &PaymentRecord) -> Option<String> {
    ratio(
        record.credited,
        credited_decimals(ctx, record),
        record.units,
        payment_decimals(ctx, record),
        RATE_DECIMALS,
    )
}

fn settlement_decimals(ctx: &Ctx, terms: &Terms) -> u8 {
    ctx.catalogue
        .find(&terms.payment_currency)
        .map_or(0, |payment| terms.settlement_decimals(payment))
}

fn credited_decimals(ctx: &Ctx, record: &PaymentRecord) -> u8 {
    if record.invoice_currency == record.payment_currency {
        payment_decimals(ctx, record)
    } else {
        FIAT_CHAIN_DECIMALS
    }
}

fn payment_decimals(ctx: &Ctx, record: &PaymentRecord) -> u8 {
    ctx.catalogue
        .find(&record.payment_currency)
        .map_or(0, |currency| currency.decimals)
}

fn symbol(ctx: &Ctx, id: &str) -> String {
    ctx.catalogue
        .find(id)
        .map_or_else(|| id.to_owned(), |currency| currency.symbol.clone())
}

fn is_dollar(currency: &Currency) -> bool {
    let is_token = matches!(currency.kind, CurrencyKind::Erc20 | CurrencyKind::Trc20);
    currency.id == "USD" || (is_token && DOLLAR_SYMBOLS.contains(&currency.symbol.as_str()))
}
