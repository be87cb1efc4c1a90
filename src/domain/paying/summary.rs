//! What a bundle takes from a payer: fee by fee, and currency by currency.

use super::{
    Leg, OwnFee, Spending,
    charge::{ChargedUnits, FeeKind, FeeLeg},
    spent,
};
use crate::domain::address::Address;
use alloy::primitives::U256;

/// One fee as it is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaidCharge {
    /// Position of the payment that it is paid with.
    pub leg: usize,
    /// What it is.
    pub charged: ChargedUnits,
}

/// When a transaction pays a fee, among the payments of tokens or among those of the coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// In a payment.
    Riding,
    /// After the payments, with what else its receiver gets in the same currency.
    Alone,
    /// At the end, by the contract itself.
    OfContract,
}

/// The fees in the order in which the transaction pays them. The contract of batches pays tokens before the coin, and knows
/// one receiver of riding fees, that of the first one.
pub fn paid_charges(legs: &[Leg], own: &[OwnFee]) -> Vec<PaidCharge> {
    let charged = legs.iter().enumerate().flat_map(|(place, leg)| {
        let charges = leg.charges.iter();
        charges.map(move |charged| (place, leg.token, *charged))
    });
    let charged: Vec<(usize, Option<Address>, ChargedUnits)> = charged.collect();
    let taker = charged.first().map(|(_, _, charged)| charged.receiver);
    // What one receiver gets alone in a currency is paid where the first part of it stands.
    let first = |token: Option<Address>, receiver: Address| {
        let mut charged = charged.iter();
        charged.position(|(_, other, charged)| (*other, charged.receiver) == (token, receiver))
    };
    let of_calls = charged.iter().map(|(leg, token, charged)| {
        let (turn, place) = if Some(charged.receiver) == taker {
            (Turn::Riding, None)
        } else {
            (Turn::Alone, first(*token, charged.receiver))
        };
        let paid = PaidCharge {
            leg: *leg,
            charged: *charged,
        };
        ((token.is_none(), turn, place), paid)
    });
    let of_contract = own.iter().filter_map(|own| {
        let leg = legs.iter().position(|leg| leg.token == own.token)?;
        let charged = ChargedUnits {
            kind: FeeKind::Contract,
            receiver: own.leg.receiver,
            units: own.leg.units,
        };
        let paid = PaidCharge { leg, charged };
        Some(((own.token.is_none(), Turn::OfContract, Some(leg)), paid))
    });
    let mut placed: Vec<_> = of_calls.chain(of_contract).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, paid)| paid).collect()
}

/// Units that the payees get; `None` when they are in several currencies, or leave 256 bits.
pub fn gross(legs: &[Leg]) -> Option<U256> {
    let first = legs.first()?.token;
    let is_one = legs.iter().all(|leg| leg.token == first);
    let sum = || legs.iter().try_fold(U256::ZERO, |sum, leg| sum.checked_add(leg.units));
    is_one.then(sum).flatten()
}

/// What a wallet is asked for in one currency, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrencyTotal {
    /// Position of the first payment in it.
    pub leg: usize,
    /// Units, with everything on top of what is paid.
    pub units: U256,
    /// What of it the contract takes for itself.
    pub contract_fee: Option<FeeLeg>,
    /// What of it the contract gives back to the payer.
    pub returned: U256,
}

/// What a wallet is asked for, by currency in the order of the payments.
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
                // What nobody gets, once the payees below have theirs.
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
