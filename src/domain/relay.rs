//! Transactions that this service sends: their cost, when they are replaced at a higher price, and why the chain
//! refuses a payment.

use super::{
    address::Address,
    ids::{PlatformId, ScheduleId},
    network::Network,
    paying::{PayerBalance, PaymentTransaction},
    permit::Permit,
    wire_text::wire_text,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, TimeDelta, Utc};

/// Largest factor by which a price may exceed that of a new transaction.
const RAISED_MAX: u128 = 8;

/// Current price of a unit of gas, in the smallest unit of the coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasMarket {
    /// Price per unit of gas at which one of the next blocks includes a transaction.
    pub gas_price: u128,
    /// Part of `gas_price` that the block producer gets.
    pub tip: u128,
}

/// Maximum price that a transaction pays per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasPrice {
    /// The total.
    pub max_fee: u128,
    /// Part of `max_fee` that the block producer gets.
    pub tip: u128,
}

impl GasPrice {
    /// The price of a new transaction. It is high enough for six full blocks in a row, if `max_fee` allows that. `None`
    /// when gas currently costs more than `max_fee`.
    pub fn of(market: &GasMarket, max_fee: u128) -> Option<Self> {
        let gas_price = market.gas_price.max(1);
        (gas_price <= max_fee).then(|| Self {
            max_fee: gas_price.saturating_mul(2).min(max_fee),
            tip: market.tip.min(gas_price),
        })
    }

    /// The price at which a transaction replaces the previous one: raised by the rules, and at least that of a new
    /// transaction. `None` in two cases: the price was raised so often that it is not the cause of the delay, or the
    /// raised price exceeds the maximum of the rules.
    pub fn raised(&self, market: &GasMarket, rules: &BidRules) -> Option<Self> {
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

    /// Maximum cost of a transaction, in the smallest unit of the coin.
    pub fn cost(&self, gas_limit: u64) -> U256 {
        U256::from(self.max_fee).saturating_mul(U256::from(gas_limit))
    }
}

/// Gas limit of a transaction: the gas of its simulation with a margin, because the cost depends on the state of the
/// token.
pub const fn gas_limit(rehearsed: u64) -> u64 {
    rehearsed.saturating_add(rehearsed / 2)
}

/// A transaction before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedTransaction {
    /// Nonce of the transaction among all transactions of the relayer.
    pub nonce: u64,
    /// The call.
    pub step: PaymentTransaction,
    /// Its gas limit.
    pub gas_limit: u64,
    /// Its gas price.
    pub price: GasPrice,
}

/// A signed version of a transaction at one price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bid {
    /// The price.
    pub price: GasPrice,
    /// Hash of the transaction at that price.
    pub tx_hash: B256,
    /// The signed transaction.
    pub raw: Vec<u8>,
    /// When it was signed.
    pub signed_at: DateTime<Utc>,
}

wire_text! {
    /// State of a transaction of the relayer.
    pub enum RelayState {
        /// The transaction is not in a final block.
        Pending = "pending",
        /// The transaction paid.
        Succeeded = "succeeded",
        /// The transaction reverted in a block.
        Reverted = "reverted",
        /// Another transaction used its nonce.
        Lost = "lost",
    }
}

/// A transaction of the relayer with its bids, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayTransaction {
    /// Network.
    pub network: Network,
    /// Account that sends it.
    pub relayer: Address,
    /// Nonce of the transaction among all transactions of its account.
    pub nonce: u64,
    /// Tenant of the schedule.
    pub platform: PlatformId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// Number of the payment in the schedule, from 1.
    pub number: u8,
    /// The call.
    pub step: PaymentTransaction,
    /// Its gas limit.
    pub gas_limit: u64,
    /// Its signed forms.
    pub bids: Vec<Bid>,
}

impl RelayTransaction {
    /// The price that replaces the newest bid. `None` while that bid has not waited too long, and when the price cannot
    /// be raised.
    pub fn next_price(&self, market: &GasMarket, now: DateTime<Utc>, rules: &BidRules) -> Option<GasPrice> {
        let newest = self.bids.last()?;
        let is_stuck = self.is_stuck(now, rules);
        is_stuck.then(|| newest.price.raised(market, rules)).flatten()
    }

    /// Maximum cost of the transaction at the price of its newest bid, in the smallest unit of the coin.
    pub fn cost(&self) -> U256 {
        let newest = self.bids.last();
        newest.map_or(U256::ZERO, |newest| newest.price.cost(self.gas_limit))
    }

    /// Whether the newest bid has waited for a block longer than the rules allow.
    pub fn is_stuck(&self, now: DateTime<Utc>, rules: &BidRules) -> bool {
        let newest = self.bids.last();
        newest.is_some_and(|newest| now - newest.signed_at >= rules.patience)
    }
}

/// The maximum price of transactions on a network, and when a transaction is replaced at a higher price.
#[derive(Debug, Clone, Copy)]
pub struct BidRules {
    /// Maximum price of a unit of gas, in the smallest unit of the coin.
    pub max_fee: u128,
    /// How long a bid waits for a block.
    pub patience: TimeDelta,
    /// Increase of the next bid, in percent.
    pub bump_percent: u32,
}

/// Facts about a payment that the chain refuses.
#[derive(Debug, Clone, Copy)]
pub struct RefusalFacts {
    /// Whether the contract allows this relayer to execute payments.
    pub is_admitted: bool,
    /// Whether the owner of the contract paused it.
    pub is_paused: bool,
    /// Unix time of the newest block.
    pub chain_time_s: u64,
    /// Balance and allowance of the payer.
    pub standing: PayerBalance,
}

/// Why a payment is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionObstacle {
    /// A temporary reason that the payer did not cause.
    Passing(&'static str),
    /// The permit has expired.
    Expired,
    /// The payment failed: a code and a message.
    Failed(&'static str, &'static str),
}

/// Result of comparing the number of executed payments of a schedule in this service and in the contract. The contract
/// refuses every payment except the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureTally {
    /// Both counts are equal.
    Even,
    /// The contract counts more payments than this service: another account executed them.
    Behind,
    /// The contract counts fewer payments than this service, namely this number: a reorganisation removed the others.
    Ahead(u8),
    /// The counts cannot be compared before the newest blocks are final.
    Unsettled,
}

/// Compares the number of payments that this service executed (`own`) with two counts of the contract: before the next
/// block (`next`), and after the last block that was searched for payments (`settled`).
pub fn tally(own: u8, next: u8, settled: u8) -> FailureTally {
    if next == own {
        FailureTally::Even
    } else if settled > own {
        FailureTally::Behind
    } else if settled < own && next < own {
        FailureTally::Ahead(settled)
    } else {
        FailureTally::Unsettled
    }
}

/// The message for a contract that did not grant the relayer its role.
pub const NOT_ADMITTED: &str = "the contract does not allow this relayer to execute payments";

/// The message for a paused contract.
pub const PAUSED: &str = "the owner of the contract has paused the contract";

/// Says why the chain rejects a recurring payment of a permit. Source: rules P.7.5.
pub fn hindrance(permit: &Permit, number: u8, found: &RefusalFacts) -> ExecutionObstacle {
    let needed = permit.units_per_payment();
    if !found.is_admitted {
        ExecutionObstacle::Passing(NOT_ADMITTED)
    } else if found.is_paused {
        ExecutionObstacle::Passing(PAUSED)
    } else if found.chain_time_s > permit.deadline_s {
        ExecutionObstacle::Expired
    } else if found.chain_time_s < permit.due_s(number) {
        ExecutionObstacle::Passing("the payment is not due yet by the time of the newest block")
    } else if found.standing.balance < needed {
        ExecutionObstacle::Failed("insufficient_funds", "The payer does not have enough of the token")
    } else if found.standing.allowance < needed {
        ExecutionObstacle::Failed(
            "insufficient_allowance",
            "The payer's allowance for the recurring payment contract is too low",
        )
    } else {
        ExecutionObstacle::Failed(
            "failed",
            "The token or the recurring payment contract rejects the payment",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKET: GasMarket = GasMarket {
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
    fn only_final_transactions_advance_a_schedule() {
        for (own, next, settled, found) in [
            (2, 2, 2, FailureTally::Even),
            (2, 2, 1, FailureTally::Even),
            (2, 3, 2, FailureTally::Unsettled),
            (2, 3, 3, FailureTally::Behind),
            (0, 2, 1, FailureTally::Behind),
            (2, 1, 2, FailureTally::Unsettled),
            (2, 1, 1, FailureTally::Ahead(1)),
            (2, 1, 0, FailureTally::Ahead(0)),
            (2, 3, 1, FailureTally::Unsettled),
        ] {
            assert_eq!(tally(own, next, settled), found, "{own} {next} {settled}");
        }
    }

    #[test]
    fn no_price_exceeds_the_allowed_maximum() {
        assert_eq!(GasPrice::of(&MARKET, 99), None);
        let clamped = GasPrice::of(&MARKET, 150).unwrap();
        assert_eq!((clamped.max_fee, clamped.tip), (150, 10));
        assert_eq!(clamped.raised(&MARKET, &rules(179)), None);
        assert_eq!(
            clamped.raised(&MARKET, &rules(180)).map(|price| price.max_fee),
            Some(180)
        );
        let greedy = GasMarket {
            gas_price: 100,
            tip: u128::MAX,
        };
        assert_eq!(GasPrice::of(&greedy, 1_000).map(|price| price.tip), Some(100));
    }

    #[test]
    fn price_raises_increase_both_parts_and_are_bounded() {
        let mut price = GasPrice::of(&MARKET, u128::MAX).unwrap();
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
        let dearer = GasMarket {
            gas_price: 10_000,
            tip: 50,
        };
        assert_eq!(price.raised(&dearer, &rules).map(|raised| raised.max_fee), Some(20_000));
    }

    #[test]
    fn a_bid_is_replaced_after_waiting_long_enough() {
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
            step: PaymentTransaction {
                to: address,
                calldata: Vec::new(),
                value: U256::ZERO,
            },
            gas_limit: 1,
            bids: vec![Bid {
                price: GasPrice::of(&MARKET, u128::MAX).unwrap(),
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
