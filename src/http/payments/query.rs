//! Filters of payments as query parameters.

use crate::{
    domain::{payment::PaymentKind, search::PaymentSearch},
    http::operation::*,
};

/// Unparsed filters, each valid or invalid.
pub(super) struct FilterTexts {
    /// `txHash`.
    pub(super) tx_hash: Checked<TxHash>,
    /// `walletAddress`.
    pub(super) wallet: Checked<WalletText>,
    /// `paymentReference`.
    pub(super) reference: Checked<ReferenceText>,
    /// `requestId`.
    pub(super) request_id: Checked<RequestIdText>,
    /// `reference`.
    pub(super) merchant_reference: Checked<MerchantReference>,
    /// `type`.
    pub(super) kind: Checked<PaymentKind>,
    /// `invoiceCurrency`.
    pub(super) invoice_currency: Checked<CurrencyIdText>,
    /// `paymentCurrency`.
    pub(super) payment_currency: Checked<CurrencyIdText>,
    /// `fromDate`.
    pub(super) from: Checked<UtcTimeText>,
    /// `toDate`.
    pub(super) to: Checked<UtcTimeText>,
}

impl FilterTexts {
    /// Parses the filters and records invalid ones.
    pub(super) fn read(self, checks: &mut Checks) -> PaymentSearch {
        let is_searching = self.tx_hash.is_given()
            || self.wallet.is_given()
            || self.reference.is_given()
            || self.request_id.is_given()
            || self.merchant_reference.is_given()
            || self.kind.is_given()
            || self.invoice_currency.is_given()
            || self.payment_currency.is_given();
        PaymentSearch {
            is_searching,
            tx_hash: self.tx_hash.read(checks),
            wallet: self.wallet.read(checks),
            reference: self.reference.read(checks),
            request_id: self.request_id.read(checks),
            merchant_reference: self.merchant_reference.take(checks).map(String::from),
            kind: self.kind.take(checks),
            invoice_currency: self.invoice_currency.take(checks).map(String::from),
            payment_currency: self.payment_currency.take(checks).map(String::from),
            from: self.from.read(checks),
            to: self.to.read(checks),
        }
    }
}
