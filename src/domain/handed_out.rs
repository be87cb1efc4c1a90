//! Platform fees in issued calldata that the price terms of a request do not contain, and the comparison of payments
//! with the price terms and the issued calldata.

use super::{
    conversion_call::ConversionCall,
    fee_legs::FeeLegs,
    ledger::SettlementUnits,
    orchestrator_fees::OrchestratorFees,
    paying::charge::{Charge, Charges, FeeKind, FeeLeg},
    payment::{Observation, Settled},
    request::price::PriceTerms,
};
use alloy::primitives::{Address as EvmAddress, U256};

/// Maximum number of different fees that a credential can use for one request. The limit keeps the comparison of
/// payments cheap.
pub const NAMED_FEES_MAX: u64 = 100;

/// The part of a `/pay` response that the price terms of the request do not contain. Calldata never expires on chain,
/// so the service accepts payments with the calldata of a response for as long as the request exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOut {
    /// Fee of the platform, if the price terms leave it open; `None` when the response had no such fee.
    pub fee: Option<Charge>,
}

/// Result of comparing a payment with the issued calldata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// It matches.
    AsHandedOut,
    /// The payee was paid, but the fee is too low.
    FeeShortfall {
        /// The missing amount, in settlement units.
        missing: SettlementUnits,
    },
    /// The conversion of the payment does not match the issued calldata.
    NotHandedOut(TermsDeparture),
}

/// How a conversion differs from the price terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermsDeparture {
    /// The path cannot be decoded from the transaction.
    UnknownPath,
    /// The path differs.
    Path(Vec<EvmAddress>),
    /// The accepted rate age differs.
    RateAge(U256),
}

/// The fees of a payment that its event does not show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PaidFees {
    /// Fees that the transaction paid separately from the payment, in token units.
    pub further: Vec<FeeLeg>,
    /// The part of all fees of the payment that went to an orchestrator, in settlement units.
    pub orchestrator: OrchestratorFees,
}

/// Compares a payment with the price terms of its request and the issued calldata. `call` is the conversion call of the
/// payment. `legs` are the separately paid fees of its transaction. Those that belong to the payment are taken from
/// `legs` and returned. `price` contains the orchestrator fees only as far as earlier payments did not pay them.
///
/// The path is compared first, then the rate age, then the fee. The fee is compared with the issued response that
/// leaves the smallest shortfall. Without issued calldata, only the fixed fees count. Source: decisions D38; decisions
/// D32.
pub fn compare(
    observed: &Observation,
    call: Option<&ConversionCall>,
    legs: &mut FeeLegs,
    price: &PriceTerms,
    handed: &[HandedOut],
) -> (Comparison, PaidFees) {
    let departed = |departure| (Comparison::NotHandedOut(departure), PaidFees::default());
    let (paid, fee_units) = match observed.conversion {
        None => (observed.units, observed.fee_units),
        Some(conversion) => {
            let Some(call) = call else {
                return departed(TermsDeparture::UnknownPath);
            };
            let Some(rates) = price.rates.as_ref().filter(|rates| rates.path == call.path) else {
                return departed(TermsDeparture::Path(call.path.clone()));
            };
            let age = conversion.max_rate_timespan_s;
            if U256::from(rates.max_age_s) != age {
                return departed(TermsDeparture::RateAge(age));
            }
            (conversion.invoice_units, conversion.invoice_fee_units)
        }
    };
    let is_open = price.charges.platform().is_none();
    // The fee that a receiver must get in addition to the fee inside the payment.
    let beside = |wanted: FeeLeg| {
        let rides = observed.fee_address == Some(wanted.receiver);
        let riding = if rides { fee_units } else { U256::ZERO };
        FeeLeg {
            units: wanted.units.saturating_sub(riding),
            ..wanted
        }
    };
    let missing = |charges: &Charges| {
        let lacks = charges.legs(paid).into_iter().map(beside).map(|lack| {
            let left = legs.left(observed, call, lack.receiver);
            lack.units.saturating_sub(left)
        });
        lacks.fold(U256::ZERO, U256::saturating_add)
    };
    let named = handed.iter().filter(|_| is_open);
    let named = named.map(|one| price.charges.with_platform(one.fee));
    let nearest = named
        .map(|charges| (missing(&charges), charges))
        .min_by_key(|(missing, _)| *missing);
    let (missing, nearest) = nearest.unwrap_or_else(|| (missing(&price.charges), price.charges.clone()));
    let wanted = nearest.legs(paid);
    let arrived: Vec<FeeLeg> = wanted
        .iter()
        .map(|leg| {
            let lack = beside(*leg).units;
            let lack = lack.saturating_sub(legs.left(observed, call, leg.receiver));
            FeeLeg {
                units: leg.units.saturating_sub(lack),
                ..*leg
            }
        })
        .collect();
    let lacks = wanted.into_iter().map(beside);
    let fees = PaidFees {
        further: lacks.filter_map(|lack| legs.take(observed, call, lack)).collect(),
        orchestrator: of_orchestrator(&nearest, paid, arrived),
    };
    if missing.is_zero() {
        (Comparison::AsHandedOut, fees)
    } else {
        (Comparison::FeeShortfall { missing }, fees)
    }
}

/// Adds to a payment the captured fees that it paid although earlier payments had paid them. The record then shows every
/// fee of the transaction. If an earlier payment leaves the chain, this payment counts for the fee.
pub(super) fn take_captured(
    settled: &mut Settled,
    call: Option<&ConversionCall>,
    legs: &mut FeeLegs,
    charges: &Charges,
) {
    let observed = &settled.observed;
    let mut arrived = Vec::new();
    for leg in charges.legs(observed.units) {
        let rides = observed.fee_address == Some(leg.receiver);
        let riding = if rides { observed.fee_units } else { U256::ZERO };
        let beside = settled.further_fees.iter().filter(|fee| fee.receiver == leg.receiver);
        let paid = beside.fold(riding, |sum, fee| sum.saturating_add(fee.units));
        let lack = FeeLeg {
            units: leg.units.saturating_sub(paid),
            ..leg
        };
        let again = legs.take(observed, call, lack);
        settled.further_fees.extend(again);
        let units = again.map_or(paid, |fee| paid.saturating_add(fee.units));
        arrived.push(FeeLeg {
            units: units.min(leg.units),
            ..leg
        });
    }
    settled.orchestrator_fees = of_orchestrator(charges, observed.units, arrived);
}

/// The part of the received fees that belongs to an orchestrator. If one receiver has several charges, the amount that
/// it got pays these charges in their order.
fn of_orchestrator(charges: &Charges, paid: SettlementUnits, mut arrived: Vec<FeeLeg>) -> OrchestratorFees {
    let mut fees = OrchestratorFees::default();
    for charged in charges.of_units(paid) {
        let Some(left) = arrived.iter_mut().find(|leg| leg.receiver == charged.receiver) else {
            continue;
        };
        let units = charged.units.min(left.units);
        left.units = left.units.saturating_sub(units);
        if charged.kind == FeeKind::Orchestrator {
            fees.add(charged.bearer, units);
        }
    }
    fees
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        address::Address,
        amount::Percent,
        conversion::RateBounds,
        currency::ContractKind,
        network::Network,
        paying::charge::FeeOrigin,
        payment::{ObservedConversion, ProvenTransfer},
    };
    use alloy::primitives::B256;
    use proptest::prelude::*;

    fn address(last: u8) -> Address {
        Address::Evm(EvmAddress::with_last_byte(last))
    }

    fn path(hashes: &[u8]) -> Vec<EvmAddress> {
        hashes.iter().map(|hash| EvmAddress::with_last_byte(*hash)).collect()
    }

    fn rate(points: u16) -> Percent {
        Percent::from_basis_points(points).unwrap()
    }

    fn fee(points: u16, receiver: u8) -> Option<Charge> {
        Some(Charge::platform(FeeOrigin::Call, rate(points), address(receiver)))
    }

    fn own(points: u16, receiver: u8, cap: Option<u64>) -> Option<Charge> {
        Some(Charge::protocol(rate(points), address(receiver), cap.map(U256::from)))
    }

    /// Price terms with these fees of the platform and the service.
    fn price(platform: Option<Charge>, protocol: Option<Charge>, rates: Option<RateBounds>) -> PriceTerms {
        PriceTerms {
            rates,
            charges: platform.into_iter().chain(protocol).collect(),
        }
    }

    fn short(missing: u64) -> Comparison {
        Comparison::FeeShortfall {
            missing: U256::from(missing),
        }
    }

    fn rates(hashes: &[u8], max_age_s: u64) -> Option<RateBounds> {
        Some(RateBounds {
            path: path(hashes),
            max_age_s,
        })
    }

    fn paid(units: u64, fee_units: u64, receiver: Option<u8>, conversion: Option<u64>) -> Observation {
        Observation {
            network: Network::Sepolia,
            tx_hash: B256::ZERO,
            position: 0,
            block_number: 1,
            block_hash: B256::ZERO,
            log_index: 0,
            proxy: address(1),
            reference_topic: B256::ZERO,
            token: None,
            payee: address(2),
            units: U256::from(units),
            fee_units: U256::from(fee_units),
            fee_address: receiver.map(address),
            conversion: conversion.map(|max_rate_timespan_s| ObservedConversion {
                invoice_units: U256::from(units),
                invoice_fee_units: U256::from(fee_units),
                currency: address(3),
                max_rate_timespan_s: U256::from(max_rate_timespan_s),
            }),
        }
    }

    fn call(hashes: &[u8]) -> ConversionCall {
        ConversionCall {
            kind: ContractKind::EthConversionProxy,
            payee: EvmAddress::ZERO,
            invoice_units: U256::ZERO,
            path: path(hashes),
            reference_topic: B256::ZERO,
            invoice_fee_units: U256::ZERO,
            max_rate_timespan_s: U256::ZERO,
        }
    }

    fn compared(
        observed: &Observation,
        call: Option<&ConversionCall>,
        price: &PriceTerms,
        handed: &[HandedOut],
    ) -> Comparison {
        compare(observed, call, &mut FeeLegs::default(), price, handed).0
    }

    #[test]
    fn a_missing_smaller_or_misdirected_fee_is_a_shortfall() {
        let price = price(fee(250, 9), None, None);
        for (fee_units, receiver, expected) in [
            (25, Some(9), Comparison::AsHandedOut),
            (30, Some(9), Comparison::AsHandedOut),
            (20, Some(9), short(5)),
            (0, None, short(25)),
            (25, Some(8), short(25)),
            (25, None, short(25)),
        ] {
            let payment = paid(1_000, fee_units, receiver, None);
            assert_eq!(compared(&payment, None, &price, &[]), expected);
        }
        assert_eq!(
            compared(&paid(400, 10, Some(9), None), None, &price, &[]),
            Comparison::AsHandedOut,
            "a partial payment with its share of the fee"
        );
    }

    #[test]
    fn the_smallest_issued_fee_is_the_shortfall_of_a_bare_payment() {
        let open = PriceTerms::default();
        let both = [fee(250, 9), fee(100, 7)].map(|fee| HandedOut { fee });
        let bare = paid(1_000, 0, None, None);
        assert_eq!(
            compared(&paid(1_000, 10, Some(7), None), None, &open, &both),
            Comparison::AsHandedOut
        );
        assert_eq!(compared(&bare, None, &open, &both), short(10));
        assert_eq!(compared(&bare, None, &open, &[]), Comparison::AsHandedOut);
        let without = [both[0], HandedOut { fee: None }];
        assert_eq!(compared(&bare, None, &open, &without), Comparison::AsHandedOut);
    }

    #[test]
    fn no_issued_calldata_replaces_a_fixed_platform_fee() {
        let price = price(fee(100, 7), None, None);
        let handed = [HandedOut { fee: None }];
        assert_eq!(compared(&paid(1_000, 0, None, None), None, &price, &handed), short(10));
    }

    #[test]
    fn a_conversion_must_match_path_rate_age_and_fee_of_its_request() {
        let price = price(fee(100, 9), None, rates(&[1, 2], 90_000));
        let of = |hashes: &[u8], age| compared(&paid(1_000, 0, None, Some(age)), Some(&call(hashes)), &price, &[]);
        assert_eq!(of(&[1, 2], 90_000), short(10));
        for age in [0, 60, 89_999, 90_001] {
            let departed = Comparison::NotHandedOut(TermsDeparture::RateAge(U256::from(age)));
            assert_eq!(of(&[1, 2], age), departed);
        }
        assert_eq!(
            of(&[1, 4, 2], 90_000),
            Comparison::NotHandedOut(TermsDeparture::Path(path(&[1, 4, 2])))
        );
        assert_eq!(
            compared(&paid(1_000, 0, None, Some(90_000)), None, &price, &[]),
            Comparison::NotHandedOut(TermsDeparture::UnknownPath)
        );
        let unpriced = PriceTerms::default();
        assert_eq!(
            compared(&paid(1_000, 0, None, Some(0)), Some(&call(&[1, 2])), &unpriced, &[]),
            Comparison::NotHandedOut(TermsDeparture::Path(path(&[1, 2])))
        );
    }

    #[test]
    fn a_separate_fee_payment_counts_once_and_only_for_its_kind() {
        let price = price(fee(250, 9), own(100, 7, Some(5)), None);
        let got = |units: u64| ProvenTransfer {
            received_units: U256::from(units),
            payer: None,
            payer_eoa: None,
        };
        let beside = Observation {
            payee: address(7),
            ..paid(8, 0, None, None)
        };
        let mut legs = FeeLegs::default();
        legs.add(&beside, None, &got(8));
        let payment = paid(1_000, 25, Some(9), None);
        let taken = |units: u64| {
            vec![FeeLeg {
                receiver: address(7),
                units: U256::from(units),
            }]
        };
        let mut compare = |payment: &Observation| {
            let (compared, fees) = compare(payment, None, &mut legs, &price, &[]);
            (compared, fees.further)
        };
        let in_token = Observation {
            token: Some(address(4)),
            ..payment.clone()
        };
        assert_eq!(
            compare(&in_token),
            (short(5), vec![]),
            "the fee was paid in another currency"
        );
        assert_eq!(compare(&payment), (Comparison::AsHandedOut, taken(5)), "up to the cap");
        assert_eq!(compare(&payment), (short(2), taken(3)), "the rest of the fee payment");
        assert_eq!(compare(&payment), (short(5), vec![]));
    }

    #[test]
    fn the_service_fee_is_added_to_another_fee_of_the_same_receiver() {
        let own = own(50, 9, None);
        let alone = price(None, own, None);
        assert_eq!(compared(&paid(1_000, 0, None, None), None, &alone, &[]), short(5));
        assert_eq!(
            compared(&paid(1_000, 5, Some(9), None), None, &alone, &[]),
            Comparison::AsHandedOut
        );
        let both = price(fee(250, 9), own, None);
        let asked = [HandedOut { fee: fee(250, 9) }];
        for (price, handed) in [(&both, &[][..]), (&alone, &asked)] {
            assert_eq!(compared(&paid(1_000, 25, Some(9), None), None, price, handed), short(5));
            assert_eq!(
                compared(&paid(1_000, 30, Some(9), None), None, price, handed),
                Comparison::AsHandedOut
            );
        }
    }

    prop_compose! {
        fn fees()(points in 0_u16..=10_000, receiver in 7_u8..=9, is_charged in any::<bool>()) -> Option<Charge> {
            fee(points, receiver).filter(|_| is_charged)
        }
    }

    proptest! {
        /// Random payments are compared. A conversion must have exactly the path and rate age of the price terms,
        /// whatever calldata was issued. The shortfall is the smallest one that any issued response leaves. If the
        /// price terms fix the platform fee, the issued responses do not count.
        #[test]
        fn payments_are_compared_with_the_price_terms_of_their_request(
            units in any::<[u64; 4]>(),
            fee_units in any::<[u64; 4]>(),
            receiver in 7_u8..=9,
            (age, max_age_s) in (0_u64..4, 0_u64..4),
            (hashes, fixed) in (prop::collection::vec(1_u8..4, 0..3), prop::collection::vec(1_u8..4, 0..3)),
            is_converted in any::<bool>(),
            (platform, protocol) in (fees(), fees().prop_map(|fee| fee.and_then(|fee| own(fee.rate.basis_points(), fee.receiver.bytes().0[19], None)))),
            named in prop::collection::vec(fees(), 0..4),
        ) {
            let (units, fee_units) = (U256::from_limbs(units), U256::from_limbs(fee_units));
            let mut observed = paid(0, 0, Some(receiver), None);
            (observed.units, observed.fee_units) = (units, fee_units);
            observed.conversion = is_converted.then_some(ObservedConversion {
                invoice_units: units,
                invoice_fee_units: fee_units,
                currency: address(3),
                max_rate_timespan_s: U256::from(age),
            });
            let price = price(platform, protocol, rates(&fixed, max_age_s));
            let handed: Vec<HandedOut> = named.into_iter().map(|fee| HandedOut { fee }).collect();
            let compared = compared(&observed, Some(&call(&hashes)), &price, &handed);
            if is_converted && hashes != fixed {
                prop_assert_eq!(compared, Comparison::NotHandedOut(TermsDeparture::Path(path(&hashes))));
                return Ok(());
            }
            if is_converted && age != max_age_s {
                prop_assert_eq!(compared, Comparison::NotHandedOut(TermsDeparture::RateAge(U256::from(age))));
                return Ok(());
            }
            let platforms: Vec<Option<Charge>> = match (platform, handed.as_slice()) {
                (Some(_), _) | (None, []) => vec![platform],
                (None, handed) => handed.iter().map(|one| one.fee).collect(),
            };
            let lacks = platforms.into_iter().map(|platform| {
                let due = |to: u8| {
                    let fees = [platform, protocol].into_iter().flatten();
                    let own = fees.filter(|fee| fee.receiver == address(to)).map(|fee| fee.of(units));
                    own.fold(U256::ZERO, U256::saturating_add)
                };
                let lack = |to: u8| if to == receiver { due(to).saturating_sub(fee_units) } else { due(to) };
                (7..=9).map(lack).fold(U256::ZERO, U256::saturating_add)
            });
            let least = lacks.min().unwrap_or_default();
            let expected = if least.is_zero() { Comparison::AsHandedOut } else { Comparison::FeeShortfall { missing: least } };
            prop_assert_eq!(compared, expected);
        }
    }
}
