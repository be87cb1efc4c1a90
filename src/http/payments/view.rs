//! Payments as clients see them.

use super::bodies::{Fee, FeeStage, FeeType, Payment, PaymentRateSource, PaymentRequestSummary};
use crate::{
    ctx::Ctx,
    domain::{
        currency::Currency,
        ledger::RequestStatus,
        request::progress::{Part, Scale},
    },
    flows::payments::{PaymentRecord, RequestSummary},
    http::forms::{
        null::OrNull,
        wire::{
            AmountText, Instant, MerchantReference, NetworkText, ReferenceText, RequestIdText, SymbolText, TxHash,
            UlidText, WalletText,
        },
    },
};

/// A payment beside what the catalogue says about its currencies.
pub(in crate::http) struct Shown<'a> {
    record: &'a PaymentRecord,
    scale: Scale,
    payment_currency: Option<&'a Currency>,
}

impl<'a> Shown<'a> {
    /// Looks the currencies of a payment up.
    pub(in crate::http) fn new(ctx: &'a Ctx, record: &'a PaymentRecord) -> Self {
        Self {
            record,
            scale: Scale::of(&ctx.catalogue, &record.invoice_currency, &record.payment_currency),
            payment_currency: ctx.catalogue.find(&record.payment_currency),
        }
    }

    /// How much of its request it settled.
    pub(in crate::http) fn amount(&self) -> AmountText {
        AmountText::written(self.scale.amount(self.record.credited))
    }

    /// Invoice units for one unit of the payment currency, as it was paid.
    pub(in crate::http) fn rate(&self) -> Option<AmountText> {
        let part = Part {
            credited: self.record.credited,
            units: self.record.units,
        };
        self.scale.rate(part).map(AmountText::written)
    }

    /// The fee that was paid with it.
    pub(in crate::http) fn fee(&self) -> Option<AmountText> {
        let fee = self.scale.fee(self.record.fee_units, self.record.fee_address);
        fee.map(AmountText::written)
    }

    /// Symbol of the currency that was paid.
    pub(in crate::http) fn symbol(&self) -> SymbolText {
        let symbol = self.payment_currency.map(|currency| &currency.symbol);
        SymbolText::written(symbol.unwrap_or(&self.record.payment_currency))
    }
}

/// A payment that a search found.
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

/// A payment inside its request.
pub(in crate::http) fn payment(ctx: &Ctx, record: &PaymentRecord) -> Payment {
    let shown = Shown::new(ctx, record);
    let is_converted = record.invoice_currency != record.payment_currency;
    let converted = is_converted.then(|| AmountText::written(shown.scale.paid(record.units)));
    let rate = shown.rate().filter(|_| is_converted);
    let network = NetworkText::written(record.network);
    let tx_hash = Some(TxHash::written(record.tx_hash));
    let invoice = ctx.catalogue.find(&record.invoice_currency);
    Payment {
        id: UlidText::written(&record.id),
        amount: shown.amount(),
        source_network: network.clone(),
        destination_network: network,
        source_tx_hash: OrNull(tx_hash.clone()),
        destination_tx_hash: OrNull(tx_hash),
        timestamp: Instant(record.paid_at),
        kind: record.kind,
        conversion_rate_source: OrNull(rate.clone()),
        conversion_rate_destination: OrNull(rate),
        converted_amount_source: OrNull(converted.clone()),
        converted_amount_destination: OrNull(converted),
        currency: SymbolText::written(invoice.map_or(&record.invoice_currency, |currency| &currency.symbol)),
        payment_currency: shown.symbol(),
        fees: OrNull(Some(fee(ctx, &shown).into_iter().collect())),
        recurring_payment_id: OrNull(None),
        rate_provider: OrNull(is_converted.then_some(PaymentRateSource::Chainlink)),
        request: None,
    }
}

fn fee(ctx: &Ctx, shown: &Shown<'_>) -> Option<Fee> {
    let amount = shown.fee()?;
    let is_dollar = shown.payment_currency.is_some_and(Currency::is_dollar);
    Some(Fee {
        kind: FeeType::Platform,
        stage: FeeStage::Proxying,
        provider: ctx.payments.processor_crypto.clone(),
        amount_in_usd: is_dollar.then(|| amount.clone()),
        amount,
        currency: shown.symbol(),
        receiver_address: shown.record.fee_address.map(WalletText::written),
        network: NetworkText::written(shown.record.network),
        rate_provider: "unknown".to_owned(),
    })
}
