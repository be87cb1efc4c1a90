//! What a request asks for. It does not change, but for the end of a repetition.

use super::price::PriceTerms;
use crate::domain::{
    address::Address,
    amount::Amount,
    currency::{Currency, FIAT_CHAIN_DECIMALS},
    ids::ScheduleId,
    instant::parse_instant,
    ledger::Ending,
    network::Network,
    pair::Pair,
    payment::PaymentKind,
    wire_text::wire_text,
};
use chrono::NaiveDate;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Kind of its payments.
    pub kind: PaymentKind,
    /// Network of the payment currency.
    pub network: Network,
    /// Who is paid; `None` of a request that a bank account gets: where its payments go is known when they are asked for.
    pub payee: Option<Address>,
    /// Who is expected to pay.
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
    /// Repetition.
    pub recurrence: Option<Recurrence>,
    /// Parent of a generated request.
    pub original_request_id: Option<String>,
    /// Reference of the parent.
    pub original_request_reference: Option<String>,
    /// Whether a bank account gets it.
    pub is_crypto_to_fiat: bool,
    /// Recurring payment that pays it.
    pub schedule: Option<ScheduleId>,
    /// Whether it is paid by quotes, because no price feed on chain converted its currencies when it was created.
    pub is_quoted: bool,
    /// What each of its payments keeps to.
    pub price: PriceTerms,
}

/// How the payment of a request becomes what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// It is paid in its own currency.
    Direct,
    /// The contracts convert by price feeds on chain.
    OnChain,
    /// Tokens are paid directly, so many as a rate beside the chain makes of it.
    Quoted,
}

impl Terms {
    /// Whether it is paid in another currency than it is written in.
    pub fn is_converted(&self) -> bool {
        self.invoice_currency != self.payment_currency
    }

    /// What is asked for: an amount, and the id of its currency.
    pub fn asked(&self) -> (&Amount, &str) {
        (&self.amount, &self.invoice_currency)
    }

    /// Where its money ends, before anything is ordered.
    pub fn ending(&self) -> Ending {
        match self.is_crypto_to_fiat {
            true => Ending::Bank,
            false => Ending::Wallet,
        }
    }

    /// How its payment becomes what it asks for.
    pub fn exchange(&self) -> Exchange {
        match (self.is_converted(), self.is_quoted) {
            (false, _) => Exchange::Direct,
            (true, false) => Exchange::OnChain,
            (true, true) => Exchange::Quoted,
        }
    }

    /// The rate that its quotes need; `None` where nothing is quoted.
    pub fn quoted_pair(&self, payment: &Currency) -> Option<Pair> {
        (self.exchange() == Exchange::Quoted).then(|| Pair::new(&payment.symbol.to_uppercase(), &self.invoice_currency))
    }

    /// Fraction digits of the settlement units.
    pub fn settlement_decimals(&self, payment: &Currency) -> u8 {
        if self.is_converted() {
            FIAT_CHAIN_DECIMALS
        } else {
            payment.decimals
        }
    }

    /// The same, without what they say about persons: who buys, and whose wallet pays. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            payer: None,
            customer: None,
            ..self
        }
    }

    /// Whether it repeats no more.
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

/// Reads the first due day of a repetition: a day, or a point in time in UTC on that day.
///
/// The day of a time in another zone is another one here, so it is refused. Errors: the sentence for the caller.
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

/// Repetition of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    /// First due day, in UTC.
    pub start_date: NaiveDate,
    /// Period.
    pub frequency: Frequency,
    /// Whether it repeats no more.
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

/// Who the customer is, for receipts.
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
