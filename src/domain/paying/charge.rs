//! The charges on a payment: an ordered list, each with its rate, cap and receiver.

use crate::domain::{
    address::Address,
    amount::{Amount, Percent},
    currency::{Catalogue, Currency},
    network::Network,
    refusal::{Checks, Refusal},
    wire_text::wire_text,
};
use alloy::primitives::U256;

wire_text! {
    /// Whose fee it is.
    pub enum FeeKind {
        /// That of the platform.
        Platform = "platform",
        /// That of the service.
        Protocol = "protocol",
        /// That of the contract that makes several payments at once.
        Contract = "batch_contract",
    }
}

wire_text! {
    /// Who bears a fee.
    pub enum FeeBearer {
        /// Whoever pays: it comes on top of the amount.
        Payer = "payer",
        /// Whoever is paid: it is taken from the amount.
        Payee = "payee",
    }
}

wire_text! {
    /// Where a fee was set.
    pub enum FeeOrigin {
        /// In the call that made the payment.
        Call = "call",
        /// On the client ID.
        ClientId = "client_id",
        /// In the settings of the service.
        Service = "service_settings",
    }
}

/// A part of an amount that somebody gets with its payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Whose it is.
    pub kind: FeeKind,
    /// Where it was set. The price terms of a request do not tell a call from a client ID: both are fixed there.
    pub source: FeeOrigin,
    /// Who bears it.
    pub bearer: FeeBearer,
    /// Rate.
    pub rate: Percent,
    /// Most units of one payment.
    pub cap: Option<U256>,
    /// Who gets it.
    pub receiver: Address,
}

impl Charge {
    /// The fee of a platform, on top of the amount.
    pub const fn platform(source: FeeOrigin, rate: Percent, receiver: Address) -> Self {
        Self {
            kind: FeeKind::Platform,
            source,
            bearer: FeeBearer::Payer,
            rate,
            cap: None,
            receiver,
        }
    }

    /// The service's own fee, on top of the amount.
    pub const fn protocol(rate: Percent, receiver: Address, cap: Option<U256>) -> Self {
        Self {
            kind: FeeKind::Protocol,
            source: FeeOrigin::Service,
            bearer: FeeBearer::Payer,
            rate,
            cap,
            receiver,
        }
    }

    /// Units of so many, rounded down.
    pub fn of(&self, units: U256) -> U256 {
        let part = self.rate.of(units);
        self.cap.map_or(part, |cap| part.min(cap))
    }

    /// Whether the call itself named it; every other one is fixed with the request or set on the client ID of the call.
    pub fn is_named(&self) -> bool {
        self.source == FeeOrigin::Call
    }

    /// The fee that is set on a client ID. A fee address of the other family cannot receive on this network.
    fn of_client(fee: Option<(Percent, Address)>, network: Network) -> Option<Self> {
        let fee = fee.and_then(|fee| Self::above_zero(FeeOrigin::ClientId, fee));
        fee.filter(|fee| fee.receiver.family() == network.family())
    }

    /// The fee of a call or a client ID; one of 0 % is none.
    fn above_zero(source: FeeOrigin, (rate, receiver): (Percent, Address)) -> Option<Self> {
        (rate.basis_points() > 0).then_some(Self::platform(source, rate, receiver))
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
    fn on(&self, network: Network, unit: &Currency, decimals: u8) -> Option<Charge> {
        let cap = self.cap_usd.as_ref().filter(|_| unit.is_dollar());
        let cap = cap.and_then(|cap| cap.to_units(decimals).ok());
        (self.receiver.family() == network.family()).then_some(Charge::protocol(self.percent, self.receiver, cap))
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

/// The units of one charge of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChargedUnits {
    /// Whose they are.
    pub kind: FeeKind,
    /// Who gets them.
    pub receiver: Address,
    /// Units of the amount's unit.
    pub units: U256,
}

/// What each receiver gets of several charges, in the order in which they come first. A sum beyond 256 bits is the largest
/// number, so that no total with it fits.
pub fn by_receiver(charged: &[ChargedUnits]) -> Vec<FeeLeg> {
    let mut legs: Vec<FeeLeg> = Vec::with_capacity(charged.len());
    for ChargedUnits { receiver, units, .. } in charged {
        match legs.iter_mut().find(|leg| leg.receiver == *receiver) {
            Some(leg) => leg.units = leg.units.saturating_add(*units),
            None => legs.push(FeeLeg {
                receiver: *receiver,
                units: *units,
            }),
        }
    }
    legs
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

/// What is charged on top of a payment, in the order in which its transaction pays it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charges(Vec<Charge>);

impl FromIterator<Charge> for Charges {
    fn from_iter<I: IntoIterator<Item = Charge>>(charges: I) -> Self {
        Self(charges.into_iter().collect())
    }
}

impl Charges {
    /// What is fixed when something is created: the fee of its client ID other than `0`, and the service's own.
    /// Source: rules P.7.1.
    pub fn fixed(base: Base<'_>, client_fee: Option<(Percent, Address)>, protocol: Option<&ProtocolFee>) -> Self {
        let Base {
            network,
            unit,
            decimals,
        } = base;
        let platform = Charge::of_client(client_fee, network);
        let protocol = protocol.and_then(|fee| fee.on(network, unit, decimals));
        platform.into_iter().chain(protocol).collect()
    }

    /// Charge by charge.
    pub fn iter(&self) -> impl Iterator<Item = &Charge> {
        self.0.iter()
    }

    /// The charge of a kind.
    pub fn of(&self, kind: FeeKind) -> Option<&Charge> {
        self.iter().find(|charge| charge.kind == kind)
    }

    /// The fee of the platform.
    pub fn platform(&self) -> Option<&Charge> {
        self.of(FeeKind::Platform)
    }

    /// Whether the call itself chose what the platform gets: it named its fee, or there is none.
    pub fn is_platform_named(&self) -> bool {
        self.platform().is_none_or(Charge::is_named)
    }

    /// The same with another fee of the platform, or none.
    #[must_use]
    pub fn with_platform(&self, platform: Option<Charge>) -> Self {
        let others = self.iter().filter(|charge| charge.kind != FeeKind::Platform);
        platform.into_iter().chain(others.copied()).collect()
    }

    /// What is charged when calldata is asked for: what is fixed and, where that leaves the platform without a fee, the one
    /// of another client ID that asks, else that of the call, whose receiver was checked. Source: rules P.7.1.
    #[must_use]
    pub fn asked_with(
        &self,
        other_client: Option<(Percent, Address)>,
        call: Option<(Percent, Address)>,
        network: Network,
    ) -> Self {
        if self.platform().is_some() {
            return self.clone();
        }
        let of_call = || call.and_then(|fee| Charge::above_zero(FeeOrigin::Call, fee));
        self.with_platform(Charge::of_client(other_client, network).or_else(of_call))
    }

    /// Errors: the fee of a client ID would go to a contract that keeps it (400). Its receiver was a wallet when it was
    /// stored, but the catalogue may know more since.
    pub fn checked(self, network: Network, catalogue: &Catalogue) -> Result<Self, Refusal> {
        if let Some(fee) = self.platform().filter(|fee| !fee.is_named()) {
            let receiver = catalogue.receiver(fee.receiver, network);
            receiver.map_err(|message| Refusal::invalid(format!("feeAddress of the client ID {message}")))?;
        }
        Ok(self)
    }

    /// The units of each charge on a payment of `units`; charges of zero units are left out.
    pub fn of_units(&self, units: U256) -> Vec<ChargedUnits> {
        let charged = self.iter().map(|charge| ChargedUnits {
            kind: charge.kind,
            receiver: charge.receiver,
            units: charge.of(units),
        });
        charged.filter(|charged| !charged.units.is_zero()).collect()
    }

    /// The units that each receiver of charges gets with a payment of `units`.
    pub fn legs(&self, units: U256) -> Vec<FeeLeg> {
        by_receiver(&self.of_units(units))
    }

    /// `units` and all charges on them; `None` beyond 256 bits.
    pub fn with(&self, units: U256) -> Option<U256> {
        self.iter()
            .try_fold(units, |sum, charge| sum.checked_add(charge.of(units)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::Address as EvmAddress;

    fn address(last: u8) -> Address {
        Address::Evm(EvmAddress::with_last_byte(last))
    }

    fn rate(points: u16) -> Percent {
        Percent::from_basis_points(points).unwrap()
    }

    fn charges(platform: Option<(u16, u8)>, protocol: Option<(u16, u8, Option<u64>)>) -> Charges {
        let platform = platform.map(|(points, to)| Charge::platform(FeeOrigin::Call, rate(points), address(to)));
        let protocol =
            protocol.map(|(points, to, cap)| Charge::protocol(rate(points), address(to), cap.map(U256::from)));
        platform.into_iter().chain(protocol).collect()
    }

    #[test]
    fn each_receiver_gets_its_part_once() {
        for (platform, protocol, expected) in [
            (None, None, vec![]),
            (Some((250, 2)), None, vec![(2, 250)]),
            (None, Some((5, 3, None)), vec![(3, 5)]),
            (Some((250, 2)), Some((5, 3, None)), vec![(2, 250), (3, 5)]),
            (Some((250, 2)), Some((5, 2, None)), vec![(2, 255)]),
            (Some((250, 2)), Some((1_000, 3, Some(40))), vec![(2, 250), (3, 40)]),
            (Some((250, 2)), Some((5, 3, Some(0))), vec![(2, 250)]),
        ] {
            let charges = charges(platform, protocol);
            let legs = expected.iter().map(|(receiver, units)| FeeLeg {
                receiver: address(*receiver),
                units: U256::from(*units),
            });
            let legs: Vec<FeeLeg> = legs.collect();
            let sum = expected.iter().fold(10_000_u64, |sum, (_, units)| sum + units);
            assert_eq!(charges.legs(U256::from(10_000)), legs, "{charges:?}");
            assert_eq!(charges.with(U256::from(10_000)), Some(U256::from(sum)), "{charges:?}");
        }
    }

    #[test]
    fn fees_to_one_receiver_that_leave_256_bits_have_no_sum() {
        let charges = charges(Some((10_000, 2)), Some((10_000, 2, None)));
        assert_eq!(charges.with(U256::MAX), None);
        assert_eq!(by_receiver(&charges.of_units(U256::MAX))[0].units, U256::MAX);
    }
}
