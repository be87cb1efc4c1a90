//! Totals of a bundle for the payer, by currency.

use super::{
    Leg, PaidCharge, Spending,
    charge::{FeeKind, FeeLeg},
    spent,
};
use alloy::primitives::U256;

/// Units that the payees receive; `None` for payments in several currencies, and for a sum beyond 256 bits.
pub fn net(legs: &[Leg]) -> Option<U256> {
    let first = legs.first()?.token;
    let is_one = legs.iter().all(|leg| leg.token == first);
    let sum = || legs.iter().try_fold(U256::ZERO, |sum, leg| sum.checked_add(leg.units));
    is_one.then(sum).flatten()
}

/// Maximum that a wallet spends in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrencyTotal {
    /// Position of the first payment in this currency.
    pub leg: usize,
    /// Units, including all charges.
    pub units: U256,
    /// The contract's own fee in this currency.
    pub contract_fee: Option<FeeLeg>,
    /// The part that the contract refunds to the payer.
    pub returned: U256,
}

/// Totals that a wallet spends, by currency in the order of the payments.
pub fn totals(legs: &[Leg], charges: &[PaidCharge], spendings: &[Spending]) -> Vec<CurrencyTotal> {
    let token_of = |leg: usize| legs.get(leg).map(|leg| leg.token);
    let mut totals: Vec<CurrencyTotal> = Vec::new();
    for (place, leg) in legs.iter().enumerate() {
        let known = totals.iter().position(|total| token_of(total.leg) == Some(leg.token));
        let own = known.unwrap_or_else(|| {
            let of_currency = || charges.iter().filter(|paid| token_of(paid.leg) == Some(leg.token));
            let of_contract = of_currency().find(|paid| paid.charged.kind == FeeKind::Contract);
            let sum = of_currency().fold(U256::ZERO, |sum, paid| sum.saturating_add(paid.charged.units));
            let units = spent(spendings, leg.token);
            totals.push(CurrencyTotal {
                leg: place,
                units,
                contract_fee: of_contract.map(|paid| FeeLeg {
                    receiver: paid.charged.receiver,
                    units: paid.charged.units,
                }),
                // The units of the payees are subtracted below.
                returned: units.saturating_sub(sum),
            });
            totals.len() - 1
        });
        if let Some(total) = totals.get_mut(own) {
            total.returned = total.returned.saturating_sub(leg.units);
        }
    }
    totals
}
