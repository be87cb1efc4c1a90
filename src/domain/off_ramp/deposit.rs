//! Deposit addresses of the partner, at which the money of a request arrives.

use crate::domain::{
    address::Address, currency::Currency, ledger::SettlementUnits, network::Network, quote::PaymentValue,
    rates::AppliedRate,
};
use alloy::primitives::{U256, U512};
use chrono::{DateTime, TimeDelta, Utc};

/// The token that is paid out.
const SYMBOL: &str = "USDC";

/// Networks on which the token is accepted. Source: rules P.7.6.
const NETWORKS: [Network; 4] = [Network::Mainnet, Network::Matic, Network::ArbitrumOne, Network::Sepolia];

/// How far the clock of a chain may be behind that of the service. A payment is mined after its address was issued, but
/// its block may show an earlier time.
const BEHIND_MAX: TimeDelta = TimeDelta::seconds(15);

/// Whether a bank account can be paid with this currency. Errors: the message for the caller.
pub fn is_offered(payment: &Currency, network: Network) -> Result<(), String> {
    if payment.symbol == SYMBOL && NETWORKS.contains(&network) {
        return Ok(());
    }
    let networks = NETWORKS.map(Network::id).join(", ");
    Err(format!(
        "must be {SYMBOL} on one of {networks} when isCryptoToFiatAvailable is true"
    ))
}

/// An address issued for a request, and the worth of money that arrives there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositAddress {
    /// The address.
    pub address: Address,
    /// Requested token units.
    pub units: U256,
    /// Amount of the request that these units settle.
    pub settlement: SettlementUnits,
    /// The rate, if the request is in another currency.
    pub applied: Option<AppliedRate>,
    /// When it was issued.
    pub from: DateTime<Utc>,
}

impl DepositAddress {
    /// The worth of units that arrived at a deposit address, for a request in another currency. The newest quote for
    /// exactly these units decides, if it existed when the payment was mined. Without such a quote, the newest quote
    /// decides that existed when the payment was mined. Without any quote from before that time, the oldest quote
    /// decides. Addresses never expire.
    ///
    /// `None` when no quote has a rate.
    pub fn worth(units: U256, payee: Address, mined_at: DateTime<Utc>, deposits: &[Self]) -> Option<PaymentValue> {
        let mut of_address: Vec<&Self> = deposits.iter().filter(|deposit| deposit.address == payee).collect();
        of_address.sort_by_key(|deposit| deposit.from);
        let is_told = |deposit: &&&Self| deposit.from - BEHIND_MAX <= mined_at;
        let exact = |deposit: &&&Self| deposit.units == units;
        let mut told = of_address.iter().filter(is_told);
        let deposit = told
            .clone()
            .rfind(exact)
            .or_else(|| told.next_back())
            .or_else(|| of_address.first())?;
        deposit.worth_of(units)
    }

    fn worth_of(&self, units: U256) -> Option<PaymentValue> {
        let share = (U512::from(self.settlement) * U512::from(units)).checked_div(U512::from(self.units))?;
        let share = U256::checked_from_limbs_slice(share.as_limbs()).unwrap_or(U256::MAX);
        let is_quoted = units == self.units;
        Some(PaymentValue {
            credited: if is_quoted { self.settlement } else { share },
            applied: self.applied?,
            is_quoted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{rate::Rate, rates::RateProvider};

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(1) + TimeDelta::seconds(second)
    }

    fn address(byte: u8) -> Address {
        Address::Evm(alloy::primitives::Address::with_last_byte(byte))
    }

    fn deposit(byte: u8, units: u64, settlement: u64, from: i64) -> DepositAddress {
        let applied = AppliedRate {
            rate: Rate::parse("1").unwrap(),
            provider: RateProvider::Chainlink,
        };
        DepositAddress {
            address: address(byte),
            units: U256::from(units),
            settlement: U256::from(settlement),
            applied: Some(applied),
            from: at(from),
        }
    }

    #[test]
    fn every_network_and_token_is_offered_as_the_table_says() {
        for network in Network::ALL {
            for symbol in ["USDC", "USDT", "DAI", "FAU"] {
                let offered = is_offered(&Currency::sample(symbol, 6, Some(network)), network);
                let is_listed = matches!(network.id(), "mainnet" | "matic" | "arbitrum-one" | "sepolia");
                assert_eq!(offered.is_ok(), symbol == "USDC" && is_listed, "{symbol} on {network}");
                println!("{:<14} {symbol:<5} {}", network.id(), offered.err().unwrap_or_default());
            }
        }
    }

    #[test]
    fn a_deposit_is_credited_at_the_quote_of_its_address() {
        let deposits = [
            deposit(1, 100, 10_000, 0),
            deposit(1, 110, 10_000, 600),
            deposit(2, 50, 6_000, 0),
        ];
        let worth = |units: u64, byte, second| {
            let worth = DepositAddress::worth(U256::from(units), address(byte), at(second), &deposits);
            worth.map(|worth| (worth.credited.to::<u64>(), worth.is_quoted))
        };
        for (units, byte, second, credited) in [
            (100, 1, 10, Some((10_000, true))),
            (50, 1, 10, Some((5_000, false))),
            (150, 1, 10, Some((15_000, false))),
            (110, 1, 700, Some((10_000, true))),
            (100, 1, 700, Some((10_000, true))),
            (55, 1, 700, Some((5_000, false))),
            (50, 2, 10_000_000, Some((6_000, true))),
            (50, 2, -600, Some((6_000, true))),
            (50, 3, 10, None),
        ] {
            assert_eq!(worth(units, byte, second), credited, "{units} at {byte}, {second}");
        }
    }
}
