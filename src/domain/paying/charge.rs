//! The charges on a payment: an ordered list, each with its rate, cap and receiver.

use crate::domain::{
    address::Address,
    amount::{Amount, Percent},
    currency::{Catalogue, Currency},
    network::{Family, Network},
    orchestrator_fees::OrchestratorFees,
    refusal::{Checks, Refusal},
    wire_text::wire_text,
};
use alloy::primitives::{U256, U512};

pub use crate::domain::orchestrator_fees::FeeBearer;

wire_text! {
    /// Owner of a fee.
    pub enum FeeKind {
        /// The platform.
        Platform = "platform",
        /// The service.
        Protocol = "protocol",
        /// The batch contract.
        Contract = "batch_contract",
        /// The orchestrator that created the payment.
        Orchestrator = "orchestrator",
    }
}

wire_text! {
    /// Where a fee was set.
    pub enum FeeOrigin {
        /// The call that created the payment.
        Call = "call",
        /// The client ID.
        ClientId = "client_id",
        /// The settings of the service.
        Service = "service_settings",
        /// In the orchestrator's fee config for all its client IDs.
        OrchestratorDefault = "orchestrator_default",
        /// In the orchestrator's fee config for one client ID.
        OrchestratorClient = "orchestrator_client",
    }
}

/// A charge on a payment, with its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Its owner.
    pub kind: FeeKind,
    /// Where the charge was set. The price terms of a request do not distinguish a call from a client ID.
    pub source: FeeOrigin,
    /// Who bears it.
    pub bearer: FeeBearer,
    /// Rate.
    pub rate: Percent,
    /// Maximum units for one payment.
    pub cap: Option<U256>,
    /// Receiver.
    pub receiver: Address,
    /// The fixed units of a fee of an orchestrator; `None` for every other fee, which each payment pays by its rate.
    pub captured: Option<CapturedFee>,
}

/// A fee that was computed once, for the whole amount of a request, when the request was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFee {
    /// The amount from which the fee was computed: the sum of what the payee gets and the fee that the payee bears.
    pub gross: U256,
    /// Units of the fee.
    pub units: U256,
    /// Units of the fee that no earlier payment paid.
    pub open: U256,
}

impl CapturedFee {
    /// A fee of which no payment has paid anything yet.
    pub const fn unpaid(gross: U256, units: U256) -> Self {
        let open = units;
        Self { gross, units, open }
    }

    /// The gross amount of a payment of which the payee gets `units` and bears this fee. Up to the net amount of the
    /// request, it is `units` multiplied by the gross amount of the request and divided by its net amount, rounded
    /// down. Units beyond the net amount carry no share of the fee.
    fn gross_of(&self, units: U256) -> U256 {
        let net = self.gross.saturating_sub(self.units);
        if units >= net {
            return self.gross.saturating_add(units - net);
        }
        let share = U512::from(units) * U512::from(self.gross) / U512::from(net);
        U256::checked_from_limbs_slice(share.as_limbs()).unwrap_or(U256::MAX)
    }
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
            captured: None,
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
            captured: None,
        }
    }

    /// Units of the charge on a gross amount: the rate, rounded down, and at most the cap. For a captured fee: the
    /// units that no earlier payment paid.
    pub fn of(&self, gross: U256) -> U256 {
        if let Some(captured) = self.captured {
            return captured.open;
        }
        let part = self.rate.of(gross);
        self.cap.map_or(part, |cap| part.min(cap))
    }

    /// Whether the call itself set the charge. Every other charge is fixed with the request or set on the client ID of
    /// the call.
    pub fn is_named(&self) -> bool {
        self.source == FeeOrigin::Call
    }

    /// The fee of a client ID; `None` if the fee address belongs to the other family, which cannot receive on this
    /// network.
    fn of_client(fee: Option<(Percent, Address)>, network: Network) -> Option<Self> {
        let fee = fee.and_then(|fee| Self::above_zero(FeeOrigin::ClientId, fee));
        fee.filter(|fee| fee.receiver.family() == network.family())
    }

    /// The fee of a call or a client ID; `None` for 0 %.
    fn above_zero(source: FeeOrigin, (rate, receiver): (Percent, Address)) -> Option<Self> {
        (rate.basis_points() > 0).then_some(Self::platform(source, rate, receiver))
    }
}

/// The service's own fee, on every payment. Source: rules P.7.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolFee {
    /// Rate.
    pub percent: Percent,
    /// Receiver on EVM networks.
    pub receiver: Address,
    /// Receiver on Tron. Without it, payments there carry no such fee.
    pub tron_receiver: Option<Address>,
    /// Maximum for one payment in US dollars, in human units.
    pub cap_usd: Option<Amount>,
}

impl ProtocolFee {
    /// The fee on a payment on a network, in units of `unit` with `decimals` decimals.
    ///
    /// `None` without a receiver on the network. The cap applies only when `unit` is a dollar.
    fn on(&self, network: Network, unit: &Currency, decimals: u8) -> Option<Charge> {
        let cap = self.cap_usd.as_ref().filter(|_| unit.is_dollar());
        let cap = cap.and_then(|cap| cap.to_units(decimals).ok());
        let receiver = match network.family() {
            Family::Evm => self.receiver,
            Family::Tron => self.tron_receiver?,
        };
        Some(Charge::protocol(self.percent, receiver, cap))
    }
}

/// Total fee that one receiver gets with a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeLeg {
    /// Receiver.
    pub receiver: Address,
    /// Units of the amount's unit.
    pub units: U256,
}

/// The units of one charge of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChargedUnits {
    /// Owner of the fee.
    pub kind: FeeKind,
    /// Who bears it.
    pub bearer: FeeBearer,
    /// Receiver.
    pub receiver: Address,
    /// Units of the amount's unit.
    pub units: U256,
}

/// The total of several charges by receiver, in order of first occurrence. A sum beyond 256 bits becomes the largest
/// number, so any total that contains it is also too large.
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

/// Network and currency of the units of a payment.
#[derive(Debug, Clone, Copy)]
pub struct ChargeBase<'a> {
    /// Network of the payment.
    pub network: Network,
    /// Currency of the units.
    pub unit: &'a Currency,
    /// Their decimals.
    pub decimals: u8,
}

/// The fee that a call sets. Records an error if its receiver cannot receive on the network of the payment.
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

/// Charges of a payment, in the order in which its transaction pays them. The payer bears most of them on top of the
/// amount; the payee may bear one, which was deducted from the amount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charges(Vec<Charge>);

impl FromIterator<Charge> for Charges {
    fn from_iter<I: IntoIterator<Item = Charge>>(charges: I) -> Self {
        Self(charges.into_iter().collect())
    }
}

impl Charges {
    /// The charges that are fixed when a request is created: the fee of the client ID, unless it is 0 %, and the fee of
    /// the service. Source: rules P.7.1.
    pub fn fixed(base: ChargeBase<'_>, client_fee: Option<(Percent, Address)>, protocol: Option<&ProtocolFee>) -> Self {
        let ChargeBase {
            network,
            unit,
            decimals,
        } = base;
        let platform = Charge::of_client(client_fee, network);
        let protocol = protocol.and_then(|fee| fee.on(network, unit, decimals));
        platform.into_iter().chain(protocol).collect()
    }

    /// All charges.
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

    /// Whether the call itself chose the fee of the platform. True also when there is no such fee.
    pub fn is_platform_named(&self) -> bool {
        self.platform().is_none_or(Charge::is_named)
    }

    /// These charges with another fee of the platform, or without it.
    #[must_use]
    pub fn with_platform(&self, platform: Option<Charge>) -> Self {
        let others = self.iter().filter(|charge| charge.kind != FeeKind::Platform);
        platform.into_iter().chain(others.copied()).collect()
    }

    /// Charges of issued calldata. They are the fixed charges. If the fixed charges contain no fee of the platform, one
    /// is added: the fee of the calling client ID, or otherwise the fee that the call sets, whose receiver was checked
    /// before. Source: rules P.7.1.
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

    /// Checks the receiver of the platform's fee. It was checked when it was stored, but the catalogue may have new
    /// contracts since. Errors: the fee of a client ID would go to a contract and be lost (400).
    pub fn checked(self, network: Network, catalogue: &Catalogue) -> Result<Self, Refusal> {
        if let Some(fee) = self.platform().filter(|fee| !fee.is_named()) {
            let receiver = catalogue.receiver(fee.receiver, network);
            receiver.map_err(|message| Refusal::invalid(format!("feeAddress of the client ID {message}")))?;
        }
        Ok(self)
    }

    /// These charges, followed by the captured fees: a transaction pays the captured fees last.
    #[must_use]
    pub fn with_captured(&self, captured: Vec<Charge>) -> Self {
        self.iter().copied().chain(captured).collect()
    }

    /// These charges, with the orchestrator fees reduced by what earlier payments already paid.
    #[must_use]
    pub fn after(&self, paid: OrchestratorFees) -> Self {
        let charges = self.iter().map(|charge| Charge {
            captured: charge.captured.map(|captured| CapturedFee {
                open: captured.units.saturating_sub(paid.of(charge.bearer)),
                ..captured
            }),
            ..*charge
        });
        charges.collect()
    }

    /// Whether any of these charges is a captured fee.
    pub fn has_captured(&self) -> bool {
        self.iter().any(|charge| charge.captured.is_some())
    }

    /// The orchestrator fee that the payee bears, in units, for the whole request.
    pub fn payee_borne(&self) -> U256 {
        self.payee_fee().map_or(U256::ZERO, |fee| fee.units)
    }

    /// The gross amount of a payment of `units` to the payee: these units and their share of the fee that the payee
    /// bears.
    pub fn gross_of(&self, units: U256) -> U256 {
        self.payee_fee().map_or(units, |fee| fee.gross_of(units))
    }

    fn payee_fee(&self) -> Option<CapturedFee> {
        let fee = self.iter().find(|charge| charge.bearer == FeeBearer::Payee);
        fee.and_then(|charge| charge.captured)
    }

    /// The units of each charge on a payment of `units` to the payee; charges of zero units are left out. A payment of
    /// zero units has no charges.
    pub fn of_units(&self, units: U256) -> Vec<ChargedUnits> {
        if units.is_zero() {
            return Vec::new();
        }
        let gross = self.gross_of(units);
        let charged = self.iter().map(|charge| ChargedUnits {
            kind: charge.kind,
            bearer: charge.bearer,
            receiver: charge.receiver,
            units: charge.of(gross),
        });
        charged.filter(|charged| !charged.units.is_zero()).collect()
    }

    /// The units that each receiver of charges gets with a payment of `units`.
    pub fn legs(&self, units: U256) -> Vec<FeeLeg> {
        by_receiver(&self.of_units(units))
    }

    /// `units` and all charges on them; `None` beyond 256 bits.
    pub fn with(&self, units: U256) -> Option<U256> {
        let mut charged = self.of_units(units).into_iter();
        charged.try_fold(units, |sum, charged| sum.checked_add(charged.units))
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
    fn each_receiver_gets_its_share_once() {
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
    fn fees_to_one_receiver_over_256_bits_have_no_sum() {
        let charges = charges(Some((10_000, 2)), Some((10_000, 2, None)));
        assert_eq!(charges.with(U256::MAX), None);
        assert_eq!(by_receiver(&charges.of_units(U256::MAX))[0].units, U256::MAX);
    }
}
