//! Terms of a request. They never change, except that a recurrence can end.

use super::price::PriceTerms;
use crate::domain::{
    address::Address,
    amount::Amount,
    currency::{Currency, FIAT_CHAIN_DECIMALS},
    ids::ScheduleId,
    instant::parse_instant,
    ledger::PaymentEnding,
    network::Network,
    pair::Pair,
    payment::PaymentKind,
    wire_text::wire_text,
};
use chrono::NaiveDate;

/// Terms of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Kind of its payments.
    pub kind: PaymentKind,
    /// Network of the payment currency.
    pub network: Network,
    /// Payee. `None` for a request that is paid to a bank account: its deposit address is known only when calldata is
    /// issued.
    pub payee: Option<Address>,
    /// Expected payer.
    pub payer: Option<Address>,
    /// Amount in the invoice currency.
    pub amount: Amount,
    /// Canonical id of the invoice currency.
    pub invoice_currency: String,
    /// Canonical id of the payment currency.
    pub payment_currency: String,
    /// Token of the payment currency; `None` for the native coin.
    pub token: Option<Address>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Customer.
    pub customer: Option<CustomerInfo>,
    /// Recurrence.
    pub recurrence: Option<Recurrence>,
    /// Parent of a generated request.
    pub original_request_id: Option<String>,
    /// Reference of the parent.
    pub original_request_reference: Option<String>,
    /// Whether the request is paid to a bank account.
    pub is_crypto_to_fiat: bool,
    /// Recurring payment that pays the request.
    pub schedule: Option<ScheduleId>,
    /// Whether the request is paid by quotes, because no on-chain price feed converted its currencies when it was
    /// created.
    pub is_quoted: bool,
    /// Price terms of its payments.
    pub price: PriceTerms,
}

/// How a payment is converted to the invoice currency of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// The request is paid in its invoice currency, so nothing is converted.
    Direct,
    /// The contracts convert by on-chain price feeds.
    OnChain,
    /// Tokens are paid directly. An off-chain rate determines the number of tokens.
    Quoted,
}

impl Terms {
    /// Whether payment currency and invoice currency differ.
    pub fn is_converted(&self) -> bool {
        self.invoice_currency != self.payment_currency
    }

    /// The requested amount and the id of its currency.
    pub fn asked(&self) -> (&Amount, &str) {
        (&self.amount, &self.invoice_currency)
    }

    /// Where the money of the request finally arrives, before an off-ramp order exists.
    pub fn ending(&self) -> PaymentEnding {
        if self.is_crypto_to_fiat {
            PaymentEnding::Bank
        } else {
            PaymentEnding::Wallet
        }
    }

    /// How its payments are converted.
    pub fn exchange(&self) -> Exchange {
        match (self.is_converted(), self.is_quoted) {
            (false, _) => Exchange::Direct,
            (true, false) => Exchange::OnChain,
            (true, true) => Exchange::Quoted,
        }
    }

    /// The pair whose rate the quotes of the request need; `None` for a request without quotes.
    pub fn quoted_pair(&self, payment: &Currency) -> Option<Pair> {
        (self.exchange() == Exchange::Quoted).then(|| Pair::new(&payment.symbol.to_uppercase(), &self.invoice_currency))
    }

    /// Decimals of the settlement units.
    pub fn settlement_decimals(&self, payment: &Currency) -> u8 {
        if self.is_converted() {
            FIAT_CHAIN_DECIMALS
        } else {
            payment.decimals
        }
    }

    /// These terms without personal data: the customer and the payer's wallet. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            payer: None,
            customer: None,
            ..self
        }
    }

    /// Whether the recurrence is stopped.
    pub fn is_recurrence_stopped(&self) -> bool {
        self.recurrence.as_ref().is_some_and(|recurrence| recurrence.is_stopped)
    }
}

wire_text! {
    /// How often a recurring request repeats. Source: rules P.3.3.
    pub enum Frequency {
        /// Every day.
        Daily = "DAILY",
        /// Every week.
        Weekly = "WEEKLY",
        /// Every month.
        Monthly = "MONTHLY",
        /// Every year.
        Yearly = "YEARLY",
    }
}

/// Parses the first due day of a recurrence: a day, or a UTC time on that day.
///
/// Times with another offset are refused, because their day in UTC could differ. Errors: the message for the caller.
/// Source: decisions D47.
pub fn start_day(text: &str) -> Result<NaiveDate, &'static str> {
    let utc = || {
        let time = parse_instant(text)?;
        let is_utc = text.ends_with('Z') || text.ends_with("+00:00");
        is_utc.then(|| time.date_naive())
    };
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().or_else(utc);
    day.ok_or("must be a day, for example 2030-01-01, or a time in UTC that ends in Z or +00:00")
}

/// Recurrence of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    /// First due day, in UTC.
    pub start_date: NaiveDate,
    /// Period.
    pub frequency: Frequency,
    /// Whether the recurrence is stopped.
    pub is_stopped: bool,
}

/// Postal address of a customer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomerAddress {
    /// Street.
    pub street: Option<String>,
    /// City.
    pub city: Option<String>,
    /// State.
    pub state: Option<String>,
    /// Postal code.
    pub postal_code: Option<String>,
    /// Country, two letters.
    pub country: Option<String>,
}

/// Customer details, for receipts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomerInfo {
    /// Given name.
    pub first_name: Option<String>,
    /// Family name.
    pub last_name: Option<String>,
    /// E-mail address.
    pub email: Option<String>,
    /// Postal address.
    pub address: Option<CustomerAddress>,
}
