//! Transactions that this service sends itself: what they cost, when they are sent again at a higher price, and what it
//! means when the chain refuses one.

use super::{
    address::Address,
    ids::{PlatformId, ScheduleId},
    network::Network,
    paying::{Standing, Step},
    permit::Permit,
    wire_text::wire_text,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, TimeDelta, Utc};

/// A price is never raised beyond so many times the one that a new transaction would begin with.
const RAISED_MAX: u128 = 8;

/// What a unit of gas costs at the moment, in the smallest unit of the coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Market {
    /// Price with which a transaction is taken into one of the next blocks.
    pub gas_price: u128,
    /// The part of it that goes to whoever makes the block.
    pub tip: u128,
}

/// What a transaction pays for a unit of gas at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// All of it.
    pub max_fee: u128,
    /// The part of it that goes to whoever makes the block.
    pub tip: u128,
}

impl Price {
    /// The price of a new transaction: it survives six full blocks in a row where `max_fee` allows that. `None` when gas
    /// costs more than `max_fee` now.
    pub fn of(market: &Market, max_fee: u128) -> Option<Self> {
        let gas_price = market.gas_price.max(1);
        (gas_price <= max_fee).then(|| Self {
            max_fee: gas_price.saturating_mul(2).min(max_fee),
            tip: market.tip.min(gas_price),
        })
    }

    /// The price with which a transaction replaces the one before it: raised as the rules say, and at least that of a
    /// new one. `None` when it was raised often enough, so that the price is not what is wrong, or would be above what
    /// the rules allow.
    pub fn raised(&self, market: &Market, rules: &BidRules) -> Option<Self> {
        let fresh = Self::of(market, rules.max_fee)?;
        let raise = |units: u128| {
            let scaled = units.saturating_mul(100 + u128::from(rules.bump_percent)) / 100;
            scaled.max(units.saturating_add(1))
        };
        let max_fee = raise(self.max_fee).max(fresh.max_fee);
        let tip = raise(self.tip).max(fresh.tip).min(max_fee);
        let most = fresh.max_fee.saturating_mul(RAISED_MAX).min(rules.max_fee);
        (max_fee <= most).then_some(Self { max_fee, tip })
    }

    /// What a transaction may cost, in the smallest unit of the coin.
    pub fn cost(&self, gas_limit: u64) -> U256 {
        U256::from(self.max_fee).saturating_mul(U256::from(gas_limit))
    }
}

/// Gas that a transaction may use when a rehearsal used so much: what it costs changes with the state of the token.
pub const fn gas_limit(rehearsed: u64) -> u64 {
    rehearsed.saturating_add(rehearsed / 2)
}

/// A transaction before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsigned {
    /// Its place among all transactions of the relayer.
    pub nonce: u64,
    /// What it calls.
    pub step: Step,
    /// Gas that it may use.
    pub gas_limit: u64,
    /// What it pays for that.
    pub price: Price,
}

/// A signed form of a transaction at one price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bid {
    /// The price.
    pub price: Price,
    /// Hash of the transaction at that price.
    pub tx_hash: B256,
    /// What is sent.
    pub raw: Vec<u8>,
    /// When it was signed.
    pub signed_at: DateTime<Utc>,
}

wire_text! {
    /// What became of a transaction of the relayer.
    pub enum RelayState {
        /// It is in no final block.
        Pending = "pending",
        /// It paid.
        Succeeded = "succeeded",
        /// The contract refused it in a block.
        Reverted = "reverted",
        /// Another transaction took its place.
        Lost = "lost",
    }
}

/// A transaction of the relayer, with its bids, the first one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayTransaction {
    /// Network.
    pub network: Network,
    /// Account that sends it.
    pub relayer: Address,
    /// Its place among all transactions of that account.
    pub nonce: u64,
    /// Tenant of the schedule.
    pub platform: PlatformId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// Which payment of it, from 1.
    pub number: u8,
    /// What it calls.
    pub step: Step,
    /// Gas that it may use.
    pub gas_limit: u64,
    /// Its signed forms.
    pub bids: Vec<Bid>,
}

impl RelayTransaction {
    /// The price that replaces the newest bid, when that has waited for so long.
    pub fn next_price(&self, market: &Market, now: DateTime<Utc>, rules: &BidRules) -> Option<Price> {
        let newest = self.bids.last()?;
        let is_stuck = self.is_stuck(now, rules);
        is_stuck.then(|| newest.price.raised(market, rules)).flatten()
    }

    /// What it may cost at the price of its newest bid, in the smallest unit of the coin.
    pub fn cost(&self) -> U256 {
        let newest = self.bids.last();
        newest.map_or(U256::ZERO, |newest| newest.price.cost(self.gas_limit))
    }

    /// Whether its newest bid has waited for a block for as long as a bid is given.
    pub fn is_stuck(&self, now: DateTime<Utc>, rules: &BidRules) -> bool {
        let newest = self.bids.last();
        newest.is_some_and(|newest| now - newest.signed_at >= rules.patience)
    }
}

/// What the transactions of a network may cost, and when one is sent again at a higher price.
#[derive(Debug, Clone, Copy)]
pub struct BidRules {
    /// The most that is paid for a unit of gas, in the smallest unit of the coin.
    pub max_fee: u128,
    /// How long a bid waits for a block.
    pub patience: TimeDelta,
    /// By how much the next one is higher, in percent.
    pub bump_percent: u32,
}

/// What is known of a payment that the chain refuses.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// Whether the contract lets this relayer execute payments.
    pub is_admitted: bool,
    /// Whether the owner of the contract paused it.
    pub is_paused: bool,
    /// Unix time of the newest block.
    pub chain_time_s: u64,
    /// What the payer has and allows.
    pub standing: Standing,
}

/// Why a payment is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindrance {
    /// It is no fault of the payer, and passes.
    Passing(&'static str),
    /// The permit has ended.
    Expired,
    /// The payment failed: a code, and the sentence for people.
    Failed(&'static str, &'static str),
}

/// How a schedule stands to its contract, which counts its payments for itself and refuses all but the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tally {
    /// Both count alike.
    Even,
    /// The contract counts payments that this service does not: somebody else executed them.
    Behind,
    /// The contract has counted only so many: the chain took some back.
    Ahead(u8),
    /// They will count alike, or it will show how not, once the newest blocks are final.
    Unsettled,
}

/// Compares how many payments this service has executed with what the contract counts before the next block, and what it
/// had counted after the last block that was searched for payments.
pub fn tally(own: u8, next: u8, settled: u8) -> Tally {
    if next == own {
        Tally::Even
    } else if settled > own {
        Tally::Behind
    } else if settled < own && next < own {
        Tally::Ahead(settled)
    } else {
        Tally::Unsettled
    }
}

/// What is said of a contract that does not give the relayer its role.
pub const NOT_ADMITTED: &str = "the contract does not let this relayer execute payments";

/// What is said of a contract that is paused.
pub const PAUSED: &str = "the owner of the contract paused it";

/// Says why the chain refuses a payment of a permit. Source: rules P.7.5.
pub fn hindrance(permit: &Permit, number: u8, found: &Circumstances) -> Hindrance {
    let needed = permit.units_per_payment();
    if !found.is_admitted {
        Hindrance::Passing(NOT_ADMITTED)
    } else if found.is_paused {
        Hindrance::Passing(PAUSED)
    } else if found.chain_time_s > permit.deadline_s {
        Hindrance::Expired
    } else if found.chain_time_s < permit.due_s(number) {
        Hindrance::Passing("by the clock of the chain it is not due")
    } else if found.standing.balance < needed {
        Hindrance::Failed("insufficient_funds", "The payer does not have enough of the token")
    } else if found.standing.allowance < needed {
        Hindrance::Failed(
            "insufficient_allowance",
            "The payer does not allow the contract of recurring payments to take enough of the token",
        )
    } else {
        Hindrance::Failed(
            "failed",
            "The token or the contract of recurring payments refuses the payment",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKET: Market = Market {
        gas_price: 100,
        tip: 10,
    };

    fn rules(max_fee: u128) -> BidRules {
        BidRules {
            max_fee,
            patience: TimeDelta::minutes(3),
            bump_percent: 20,
        }
    }

    #[test]
    fn only_what_is_final_moves_a_schedule() {
        for (own, next, settled, found) in [
            (2, 2, 2, Tally::Even),
            (2, 2, 1, Tally::Even),
            (2, 3, 2, Tally::Unsettled),
            (2, 3, 3, Tally::Behind),
            (0, 2, 1, Tally::Behind),
            (2, 1, 2, Tally::Unsettled),
            (2, 1, 1, Tally::Ahead(1)),
            (2, 1, 0, Tally::Ahead(0)),
            (2, 3, 1, Tally::Unsettled),
        ] {
            assert_eq!(tally(own, next, settled), found, "{own} {next} {settled}");
        }
    }

    #[test]
    fn no_price_is_above_what_is_allowed() {
        assert_eq!(Price::of(&MARKET, 99), None);
        let clamped = Price::of(&MARKET, 150).unwrap();
        assert_eq!((clamped.max_fee, clamped.tip), (150, 10));
        assert_eq!(clamped.raised(&MARKET, &rules(179)), None);
        assert_eq!(
            clamped.raised(&MARKET, &rules(180)).map(|price| price.max_fee),
            Some(180)
        );
        let greedy = Market {
            gas_price: 100,
            tip: u128::MAX,
        };
        assert_eq!(Price::of(&greedy, 1_000).map(|price| price.tip), Some(100));
    }

    #[test]
    fn a_raised_price_is_higher_in_both_parts_and_has_an_end() {
        let mut price = Price::of(&MARKET, u128::MAX).unwrap();
        let rules = rules(u128::MAX);
        assert_eq!((price.max_fee, price.tip), (200, 10));
        let mut raises = 0;
        while let Some(raised) = price.raised(&MARKET, &rules) {
            assert!(raised.max_fee >= price.max_fee * 11 / 10 && raised.tip >= price.tip * 11 / 10);
            assert!(raised.tip <= raised.max_fee && raised.max_fee <= 1_600);
            price = raised;
            raises += 1;
        }
        assert!((8..20).contains(&raises), "{raises}");
        let dearer = Market {
            gas_price: 10_000,
            tip: 50,
        };
        assert_eq!(price.raised(&dearer, &rules).map(|raised| raised.max_fee), Some(20_000));
    }

    #[test]
    fn a_bid_is_replaced_once_it_waited_long_enough() {
        let now = DateTime::UNIX_EPOCH;
        let rules = rules(u128::MAX);
        let address = Address::parse("0x70997970C51812dc3A010C7d01b50e0d17dc79C8").unwrap();
        let transaction = RelayTransaction {
            network: Network::Sepolia,
            relayer: address,
            nonce: 0,
            platform: PlatformId("p".into()),
            schedule: ScheduleId("s".into()),
            number: 1,
            step: Step {
                to: address,
                calldata: Vec::new(),
                value: U256::ZERO,
            },
            gas_limit: 1,
            bids: vec![Bid {
                price: Price::of(&MARKET, u128::MAX).unwrap(),
                tx_hash: B256::ZERO,
                raw: Vec::new(),
                signed_at: now,
            }],
        };
        let after = |seconds| transaction.next_price(&MARKET, now + TimeDelta::seconds(seconds), &rules);
        assert_eq!(after(179), None);
        assert_eq!(after(180).map(|price| price.max_fee), Some(240));
    }
}
