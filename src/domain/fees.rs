//! Fees on top of an amount: the platform's and the service's own, and who gets which part of it.

use super::{
    address::Address,
    amount::{Amount, Percent},
    currency::{Catalogue, Currency},
    network::Network,
    refusal::{Checks, Refusal},
};
use alloy::primitives::U256;

/// A part of an amount that somebody gets on top of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fee {
    /// Rate.
    pub percent: Percent,
    /// Who gets it.
    pub receiver: Address,
    /// Most units of one payment.
    pub cap: Option<U256>,
}

impl Fee {
    /// Units on top of so many, rounded down.
    pub fn of(&self, units: U256) -> U256 {
        let part = self.percent.of(units);
        self.cap.map_or(part, |cap| part.min(cap))
    }

    /// The fee that is set on a client ID. A fee address of the other family cannot receive on this network.
    fn of_client(fee: Option<(Percent, Address)>, network: Network) -> Option<Self> {
        let fee = fee.and_then(Self::above_zero);
        fee.filter(|fee| fee.receiver.family() == network.family())
    }

    /// The fee of a call or a client ID; one of 0 % is none.
    fn above_zero((percent, receiver): (Percent, Address)) -> Option<Self> {
        (percent.basis_points() > 0).then_some(Self {
            percent,
            receiver,
            cap: None,
        })
    }
}

/// The service's own fee, on every payment. Source: rules P.7.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolFee {
    /// Rate.
    pub percent: Percent,
    /// Who gets it.
    pub receiver: Address,
    /// Most of one payment in US dollars, human units.
    pub cap_usd: Option<Amount>,
}

impl ProtocolFee {
    /// The fee of a payment on a network whose units are those of `unit` with so many fraction digits.
    ///
    /// None where its receiver has no address. The cap counts where the units are dollars.
    fn on(&self, network: Network, unit: &Currency, decimals: u8) -> Option<Fee> {
        let cap = self.cap_usd.as_ref().filter(|_| unit.is_dollar());
        (self.receiver.family() == network.family()).then_some(Fee {
            percent: self.percent,
            receiver: self.receiver,
            cap: cap.and_then(|cap| cap.to_units(decimals).ok()),
        })
    }
}

/// What one receiver of a fee gets with a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeLeg {
    /// Who gets it.
    pub receiver: Address,
    /// Units of the amount's unit.
    pub units: U256,
}

/// The legs of the fees of one payment: at most two, to different receivers, none of them nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Legs {
    /// Rides in the payment.
    pub riding: Option<FeeLeg>,
    /// Is paid by itself, in the same transaction.
    pub further: Option<FeeLeg>,
}

impl Legs {
    /// Units of all legs together; `None` beyond 256 bits.
    pub fn units(&self) -> Option<U256> {
        let units = |leg: Option<FeeLeg>| leg.map_or(U256::ZERO, |leg| leg.units);
        units(self.riding).checked_add(units(self.further))
    }
}

/// In what the units of a payment count.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// Network of the payment.
    pub network: Network,
    /// Currency of the units.
    pub unit: &'a Currency,
    /// Their fraction digits.
    pub decimals: u8,
}

/// A fee that a call names, when its receiver can receive on the network of the payment; else that is noted.
pub fn of_call(
    fee: Option<(Percent, Address)>,
    network: Network,
    catalogue: &Catalogue,
    checks: &mut Checks,
) -> Option<(Percent, Address)> {
    let (percent, receiver) = fee?;
    let receiver = checks.take("feeAddress", catalogue.receiver(receiver, network))?;
    Some((percent, receiver))
}

/// What is charged on top of a payment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fees {
    /// Fee of the platform.
    pub platform: Option<Fee>,
    /// Whether that is fixed with the request or set on the client ID of the call; the call names every other one.
    pub is_own: bool,
    /// Fee of the service.
    pub protocol: Option<Fee>,
}

impl Fees {
    /// What is fixed when something is created: the fee of its client ID other than `0`, and the service's own.
    /// Source: rules P.7.1.
    pub fn fixed(base: Base<'_>, client_fee: Option<(Percent, Address)>, protocol: Option<&ProtocolFee>) -> Self {
        let Base {
            network,
            unit,
            decimals,
        } = base;
        let platform = Fee::of_client(client_fee, network);
        Self {
            platform,
            is_own: platform.is_some(),
            protocol: protocol.and_then(|fee| fee.on(network, unit, decimals)),
        }
    }

    /// What is charged when calldata is asked for: what is fixed and, where that leaves the platform without a fee, the one
    /// of another client ID that asks, else that of the call, whose receiver was checked. Source: rules P.7.1.
    #[must_use]
    pub fn asked_with(
        self,
        other_client: Option<(Percent, Address)>,
        call: Option<(Percent, Address)>,
        network: Network,
    ) -> Self {
        if self.platform.is_some() {
            return self;
        }
        let own = Fee::of_client(other_client, network);
        Self {
            platform: own.or_else(|| call.and_then(Fee::above_zero)),
            is_own: own.is_some(),
            ..self
        }
    }

    /// Errors: the fee of a client ID would go to a contract that keeps it (400). Its receiver was a wallet when it was
    /// stored, but the catalogue may know more since.
    pub fn checked(self, network: Network, catalogue: &Catalogue) -> Result<Self, Refusal> {
        if let Some(fee) = self.platform.filter(|_| self.is_own) {
            let receiver = catalogue.receiver(fee.receiver, network);
            receiver.map_err(|message| Refusal::invalid(format!("feeAddress of the client ID {message}")))?;
        }
        Ok(self)
    }

    /// What the receivers get on top of so many units; one that both fees go to gets them together.
    ///
    /// `None` beyond 256 bits.
    pub fn legs(&self, units: U256) -> Option<Legs> {
        let leg = |fee: Option<Fee>| {
            let leg = fee.map(|fee| FeeLeg {
                receiver: fee.receiver,
                units: fee.of(units),
            });
            leg.filter(|leg| !leg.units.is_zero())
        };
        Some(match (leg(self.platform), leg(self.protocol)) {
            (Some(one), Some(other)) if one.receiver == other.receiver => Legs {
                riding: Some(FeeLeg {
                    units: one.units.checked_add(other.units)?,
                    ..one
                }),
                further: None,
            },
            (Some(riding), further) => Legs {
                riding: Some(riding),
                further,
            },
            (None, riding) => Legs { riding, further: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::Address as EvmAddress;

    fn address(last: u8) -> Address {
        Address::Evm(EvmAddress::with_last_byte(last))
    }

    fn fee(points: u16, receiver: u8, cap: Option<u64>) -> Option<Fee> {
        Some(Fee {
            percent: Percent::from_basis_points(points).unwrap(),
            receiver: address(receiver),
            cap: cap.map(U256::from),
        })
    }

    fn leg(receiver: u8, units: u64) -> Option<FeeLeg> {
        Some(FeeLeg {
            receiver: address(receiver),
            units: U256::from(units),
        })
    }

    #[test]
    fn each_receiver_gets_its_part_once() {
        let none = None;
        for (platform, protocol, riding, further) in [
            (none, none, None, None),
            (fee(250, 2, None), none, leg(2, 250), None),
            (none, fee(5, 3, None), leg(3, 5), None),
            (fee(250, 2, None), fee(5, 3, None), leg(2, 250), leg(3, 5)),
            (fee(250, 2, None), fee(5, 2, None), leg(2, 255), None),
            (fee(250, 2, None), fee(1_000, 3, Some(40)), leg(2, 250), leg(3, 40)),
            (fee(250, 2, None), fee(5, 3, Some(0)), leg(2, 250), None),
        ] {
            let fees = Fees {
                platform,
                is_own: false,
                protocol,
            };
            let legs = fees.legs(U256::from(10_000));
            assert_eq!(legs, Some(Legs { riding, further }), "{fees:?}");
        }
    }

    #[test]
    fn fees_to_one_receiver_that_leave_256_bits_are_no_legs() {
        let fees = Fees {
            platform: fee(10_000, 2, None),
            is_own: false,
            protocol: fee(10_000, 2, None),
        };
        assert_eq!(fees.legs(U256::MAX), None);
    }
}
