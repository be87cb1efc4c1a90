//! Fees of an orchestrator that are computed once, when a payment is created.

use super::charge::{CapturedFee, Charge, FeeBearer, FeeKind, FeeOrigin};
use crate::domain::{
    address::Address,
    amount::{Amount, Percent},
    currency::Currency,
    network::{Family, Network},
};
use alloy::primitives::U256;

/// Rate, cap and receivers of a fee of an orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeTerms {
    /// Rate of the gross amount.
    pub rate: Percent,
    /// Maximum fee of one payment in US dollars; `None` without a limit.
    pub cap_usd: Option<Amount>,
    /// Receiver on EVM networks. Without it, payments there carry no such fee.
    pub evm: Option<Address>,
    /// Receiver on Tron. Without it, payments there carry no such fee.
    pub tron: Option<Address>,
}

/// Terms of an orchestrator fee that a new payment will have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureTerms {
    /// Where the fee was set.
    pub source: FeeOrigin,
    /// Who bears it.
    pub bearer: FeeBearer,
    /// Rate, cap and receivers.
    pub terms: FeeTerms,
}

impl CaptureTerms {
    /// The fee on a payment of `gross` units; `None` without a receiver on the network, and for a fee of zero units.
    fn charge(&self, network: Network, currency: &Currency, gross: U256) -> Option<Charge> {
        let receiver = match network.family() {
            Family::Evm => self.terms.evm,
            Family::Tron => self.terms.tron,
        };
        let cap = self.terms.cap_usd.as_ref();
        let rated = Charge {
            kind: FeeKind::Orchestrator,
            source: self.source,
            bearer: self.bearer,
            rate: self.terms.rate,
            cap: cap.map(|cap| cap.to_units(currency.decimals).unwrap_or(U256::MAX)),
            receiver: receiver?,
            captured: None,
        };
        let units = rated.of(gross);
        let captured = Some(CapturedFee::unpaid(gross, units));
        (!units.is_zero()).then_some(Charge { captured, ..rated })
    }
}

/// The orchestrator fees of a new payment of `gross` units, fixed from now on. Empty for a currency that does not count
/// as one US dollar.
///
/// Errors: a fee that the payee bears leaves no unit for the payee.
pub fn capture(
    fees: &[CaptureTerms],
    network: Network,
    currency: &Currency,
    gross: U256,
) -> Result<Vec<Charge>, &'static str> {
    if !currency.is_dollar() {
        return Ok(Vec::new());
    }
    let charges = fees.iter().filter_map(|terms| terms.charge(network, currency, gross));
    let charges: Vec<Charge> = charges.collect();
    let mut payee_borne = charges.iter().filter(|charge| charge.bearer == FeeBearer::Payee);
    if payee_borne.any(|charge| charge.of(gross) >= gross) {
        return Err("must be larger: the fee that the payee bears leaves nothing for the payee");
    }
    Ok(charges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{orchestrator_fees::OrchestratorFees, paying::charge::Charges};
    use proptest::prelude::*;

    fn address(last: u8) -> Address {
        Address::Evm(alloy::primitives::Address::with_last_byte(last))
    }

    fn terms(bearer: FeeBearer, points: u16, cap: Option<&str>) -> CaptureTerms {
        CaptureTerms {
            source: FeeOrigin::OrchestratorDefault,
            bearer,
            terms: FeeTerms {
                rate: Percent::from_basis_points(points).unwrap(),
                cap_usd: cap.map(|cap| Amount::parse(cap).unwrap()),
                evm: Some(address(1)),
                tron: None,
            },
        }
    }

    #[test]
    fn fees_are_capped_and_rounded_down_in_units_of_the_token() {
        let usdc = Currency::sample("USDC", 6, Some(Network::Sepolia));
        let capture = |fees: &[CaptureTerms], currency: &Currency, gross: u64| {
            let charges = capture(fees, Network::Sepolia, currency, U256::from(gross));
            charges.map(|charges| {
                charges
                    .iter()
                    .map(|charge| charge.of(U256::ZERO).to::<u64>())
                    .collect::<Vec<_>>()
            })
        };
        let one = |bearer, points, cap| [terms(bearer, points, cap)];
        assert_eq!(capture(&one(FeeBearer::Payer, 100, None), &usdc, 199), Ok(vec![1]));
        assert_eq!(
            capture(&one(FeeBearer::Payer, 1_000, Some("0.000005")), &usdc, 199),
            Ok(vec![5])
        );
        assert_eq!(
            capture(&one(FeeBearer::Payer, 100, None), &usdc, 99),
            Ok(vec![]),
            "less than a unit"
        );
        assert_eq!(
            capture(&one(FeeBearer::Payer, 0, None), &usdc, 10_000),
            Ok(vec![]),
            "0 % exempts"
        );
        assert_eq!(
            capture(
                &one(FeeBearer::Payer, 100, None),
                &Currency::sample("FAU", 18, Some(Network::Sepolia)),
                10_000
            ),
            Ok(vec![])
        );
        assert!(capture(&one(FeeBearer::Payee, 10_000, None), &usdc, 5).is_err());
        assert_eq!(
            capture(&one(FeeBearer::Payee, 9_999, None), &usdc, 10_000),
            Ok(vec![9_999])
        );
        let mut tron_only = terms(FeeBearer::Payer, 100, None);
        (tron_only.terms.evm, tron_only.terms.tron) = (None, Some(address(1)));
        assert_eq!(capture(&[tron_only], &usdc, 10_000), Ok(vec![]));
    }

    prop_compose! {
        fn fees()(
            (payer, payee) in (0_u16..=10_000, 0_u16..10_000),
            caps in any::<[Option<u32>; 2]>(),
            platform in prop::option::of(1_u16..=10_000),
            protocol in prop::option::of((1_u16..=500, prop::option::of(any::<u32>()))),
        ) -> (Vec<CaptureTerms>, Vec<Charge>) {
            let cap = |cap: Option<u32>| cap.map(|cap| format!("{}.{:06}", cap / 1_000_000, cap.max(1) % 1_000_000))
                .filter(|cap| Amount::parse(cap).is_ok());
            let configs = vec![
                terms(FeeBearer::Payer, payer, cap(caps[0]).as_deref()),
                terms(FeeBearer::Payee, payee, cap(caps[1]).as_deref()),
            ];
            let rate = |points| Percent::from_basis_points(points).unwrap();
            let platform = platform.map(|points| Charge::platform(FeeOrigin::Call, rate(points), address(3)));
            let protocol = protocol
                .map(|(points, cap)| Charge::protocol(rate(points), address(4), cap.map(U256::from)));
            (configs, platform.into_iter().chain(protocol).collect())
        }
    }

    proptest! {
        /// A payment is divided into random parts. The payer pays the net amount and all fees, to the unit. A captured
        /// fee is never more than its cap, and all parts together pay each captured fee once.
        #[test]
        fn payers_pay_the_net_amount_and_every_fee_to_the_unit(
            (configs, rated) in fees(),
            gross in prop_oneof![2_u64..100, any::<u64>().prop_map(|units| units.max(2))],
            wide in any::<bool>(),
            parts in prop::collection::vec(1_u64..=1_000, 0..4),
        ) {
            let usdc = Currency::sample("USDC", if wide { 18 } else { 6 }, Some(Network::Sepolia));
            let gross = if wide { U256::from(gross) * U256::from(1_000_000_000_000_u64) } else { U256::from(gross) };
            let Ok(captured) = capture(&configs, Network::Sepolia, &usdc, gross) else { return Ok(()) };
            let charges: Charges = rated.iter().chain(&captured).copied().collect();
            let net = gross - charges.payee_borne();
            prop_assert!(!net.is_zero());
            prop_assert_eq!(charges.gross_of(net), gross);
            let payer_borne: U256 = charges.iter()
                .filter(|charge| charge.bearer == FeeBearer::Payer)
                .fold(U256::ZERO, |sum, charge| sum + charge.of(gross));
            prop_assert_eq!(charges.with(net), Some(gross + payer_borne));
            let (mut left, mut paid) = (net, OrchestratorFees::default());
            for part in parts.iter().map(|part| U256::from(*part)).chain([U256::MAX]) {
                let units = part.min(left);
                for charged in charges.after(paid).of_units(units) {
                    if charged.kind == FeeKind::Orchestrator {
                        paid.add(charged.bearer, charged.units);
                    }
                }
                left -= units;
            }
            for bearer in FeeBearer::ALL {
                let once = captured.iter().find(|charge| charge.bearer == bearer).map_or(U256::ZERO, |charge| charge.of(gross));
                prop_assert_eq!(paid.of(bearer), once);
            }
        }
    }
}
