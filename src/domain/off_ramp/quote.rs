//! Quotes of the partner: the amount of a token to pay to an address, the amount that a bank account receives for it,
//! and the expiry.

use super::DepositAddress;
use crate::domain::{
    address::Address,
    ids::{BankAccountId, OffRampQuoteId, PayerId, PlatformId, RequestId, RequestRowId},
    ledger::SettlementUnits,
    rates::AppliedRate,
};
use alloy::primitives::{U256, keccak256};
use chrono::{DateTime, Utc};

/// Payer and bank account to which a request is paid out. The first quote of the request fixes both.
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
    /// Id of the payer.
    pub payer: String,
    /// Id of the bank account.
    pub account: String,
}

/// A quote that was issued for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiatQuote {
    /// Row of the quote.
    pub id: OffRampQuoteId,
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the request.
    pub request: RequestRowId,
    /// Payer and bank account.
    pub to: PaidOutTo,
    /// The partner's ids of the payer and the bank account; `None` once the payer is erased.
    pub called: Option<CalledByPartner>,
    /// Its terms.
    pub terms: QuoteTerms,
    /// When it was issued.
    pub created_at: DateTime<Utc>,
}

/// Terms of a quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuoteTerms {
    /// The partner's id of the quote.
    pub partner_quote: String,
    /// Address to which the token is paid.
    pub address: Address,
    /// Token units that arrive there.
    pub units: U256,
    /// Amount of the request that these units settle.
    pub settlement: SettlementUnits,
    /// The rate, if the request is in another currency.
    pub applied: Option<AppliedRate>,
    /// Amount that the partner keeps, in token units.
    pub fee: U256,
    /// Amount that reaches the bank account, a decimal in its currency.
    pub pays_out: String,
    /// Currency of the bank account, ISO 4217 in lower case.
    pub currency: String,
    /// Time of expiry.
    pub ends_at: DateTime<Utc>,
}

impl FiatQuote {
    /// The deposit address of the quote, and the worth of money that arrives there.
    pub fn deposit(&self) -> DepositAddress {
        DepositAddress {
            address: self.terms.address,
            units: self.terms.units,
            settlement: self.terms.settlement,
            applied: self.terms.applied,
            from: self.created_at,
        }
    }

    /// Whether a call can use the quote again: same payer and bank account, same amount, not expired.
    pub fn holds(&self, to: &PaidOutTo, remaining: SettlementUnits, now: DateTime<Utc>) -> bool {
        self.to == *to && self.terms.settlement == remaining && now < self.terms.ends_at
    }

    /// Whether another quote with the same partner id has the same terms. The rate is not compared.
    ///
    /// The service computes the rate itself, so the rate may have changed between two calls that share a quote.
    pub fn is_same(&self, other: &Self) -> bool {
        let said = |terms: &QuoteTerms| QuoteTerms {
            applied: None,
            ..terms.clone()
        };
        self.to == other.to && said(&self.terms) == said(&other.terms)
    }
}

/// Key under which the partner opens the order of a request. All attempts for one request use the same key, so a
/// request has one order.
pub fn order_key(platform: &PlatformId, request: &RequestId) -> String {
    key(&["order", platform.as_str(), request.as_str()])
}

/// Key under which the partner creates a quote. Calls for the same payout get the same key for a minute. So concurrent
/// calls share one quote, and a quote whose response was lost is found again. `known` is the number of quotes that the
/// request already has.
pub fn quote_key(
    platform: &PlatformId,
    request: &RequestId,
    to: &PaidOutTo,
    units: U256,
    known: usize,
    now: DateTime<Utc>,
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
