//! Quotes of the partner: so much of a token at an address, for so much at a bank account, until an end.

use super::Deposit;
use crate::domain::{
    address::Address,
    ids::{BankAccountId, OffRampQuoteId, PayerId, PlatformId, RequestId, RequestRowId},
    ledger::SettlementUnits,
    rates::AppliedRate,
};
use alloy::primitives::{U256, keccak256};
use chrono::{DateTime, Utc};

/// To whom a request is paid out, from its first quote on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidOutTo {
    /// Row of the payer.
    pub payer: PayerId,
    /// Row of the bank account.
    pub account: BankAccountId,
}

/// The partner's ids of a payer and of a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledByPartner {
    /// Of the payer.
    pub payer: String,
    /// Of the bank account.
    pub account: String,
}

/// A quote that was handed out for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiatQuote {
    /// Its row.
    pub id: OffRampQuoteId,
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the request.
    pub request: RequestRowId,
    /// To whom it is paid out.
    pub to: PaidOutTo,
    /// How the partner calls them; `None` once the payer is erased.
    pub called: Option<CalledByPartner>,
    /// What it says.
    pub terms: QuoteTerms,
    /// When it was handed out.
    pub created_at: DateTime<Utc>,
}

/// What a quote says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuoteTerms {
    /// The partner's id of it.
    pub partner_quote: String,
    /// Where the token is paid to.
    pub address: Address,
    /// Token units that arrive there.
    pub units: U256,
    /// How much of the request they settle.
    pub settlement: SettlementUnits,
    /// By which rate, where the request is in another currency.
    pub applied: Option<AppliedRate>,
    /// What the partner keeps of it, in token units.
    pub fee: U256,
    /// What reaches the bank account, a decimal of its currency.
    pub pays_out: String,
    /// Currency of the bank account, ISO 4217 in lower case.
    pub currency: String,
    /// When it ends.
    pub ends_at: DateTime<Utc>,
}

impl FiatQuote {
    /// The address that it hands out, and what money there is worth.
    pub fn deposit(&self) -> Deposit {
        Deposit {
            address: self.terms.address,
            units: self.terms.units,
            settlement: self.terms.settlement,
            applied: self.terms.applied,
            from: self.created_at,
        }
    }

    /// Whether it still says what somebody asks for.
    pub fn holds(&self, to: &PaidOutTo, remaining: SettlementUnits, now: DateTime<Utc>) -> bool {
        self.to == *to && self.terms.settlement == remaining && now < self.terms.ends_at
    }

    /// Whether the partner says the same by another quote under its id: where the money goes, how much and until when.
    ///
    /// The rate is the service's own, and may have moved between two calls that share a quote.
    pub fn is_same(&self, other: &Self) -> bool {
        let said = |terms: &QuoteTerms| QuoteTerms {
            applied: None,
            ..terms.clone()
        };
        self.to == other.to && said(&self.terms) == said(&other.terms)
    }
}

/// Under which the order of a request is opened: one request has one, however often it is asked for.
pub fn order_key(platform: &PlatformId, request: &RequestId) -> String {
    key(&["order", platform.as_str(), request.as_str()])
}

/// Under which a quote is made: calls at the same time share one, and one that was lost is found again for a minute.
pub fn quote_key(
    (platform, request): (&PlatformId, &RequestId),
    to: &PaidOutTo,
    units: U256,
    (known, now): (usize, DateTime<Utc>),
) -> String {
    let minute = now.timestamp() / 60;
    key(&[
        "quote",
        platform.as_str(),
        request.as_str(),
        to.payer.as_str(),
        to.account.as_str(),
        &units.to_string(),
        &known.to_string(),
        &minute.to_string(),
    ])
}

fn key(parts: &[&str]) -> String {
    hex::encode(keccak256(parts.join("|")))
}
