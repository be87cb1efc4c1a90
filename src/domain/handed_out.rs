//! What calldata was handed out for a request beyond what is fixed for it, and whether a payment keeps to both.

use super::{
    conversion_call::ConversionCall,
    fee_legs::FeeLegs,
    ledger::SettlementUnits,
    paying::charge::{Charge, Charges, FeeLeg},
    payment::Observation,
    request::price::PriceTerms,
};
use alloy::primitives::{Address as EvmAddress, U256};

/// Different fees that a credential may have handed out for one request; each further one is refused, so that the
/// comparison of its payments stays small.
pub const NAMED_FEES_MAX: u64 = 100;

/// What an answer of `/pay` says beyond the price terms of its request. Calldata has no end on chain, so an answer counts as
/// long as its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOut {
    /// Fee of the platform, which the price terms leave open; `None` where the answer had none either.
    pub fee: Option<Charge>,
}

/// How a payment stands to what was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// It keeps to it.
    AsHandedOut,
    /// The payee has the money, and the fee is short.
    FeeShortfall {
        /// What is missing, in the units in which the request is settled.
        missing: SettlementUnits,
    },
    /// Its conversion keeps to nothing that was handed out.
    NotHandedOut(Departure),
}

/// In what a conversion departs from everything that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Departure {
    /// The path cannot be read from the transaction.
    UnknownPath,
    /// The path is another one.
    Path(Vec<EvmAddress>),
    /// Rates of another age were accepted.
    RateAge(U256),
}

/// Compares a payment with the price terms of its request and with what was handed out for it; `call` is what its conversion
/// asked for, `legs` what its transaction paid to receivers of fees by itself, of which the fees of the payment are taken and
/// returned.
///
/// The path decides first, then the age of its rates, then the fee: of several answers the one that the payment comes nearest
/// to. Where none was handed out, the fixed fees count alone. Source: decisions D38; decisions D32.
pub fn compare(
    observed: &Observation,
    call: Option<&ConversionCall>,
    legs: &mut FeeLegs,
    price: &PriceTerms,
    handed: &[HandedOut],
) -> (Comparison, Vec<FeeLeg>) {
    let departed = |departure| (Comparison::NotHandedOut(departure), Vec::new());
    let (paid, fee_units) = match observed.conversion {
        None => (observed.units, observed.fee_units),
        Some(conversion) => {
            let Some(call) = call else {
                return departed(Departure::UnknownPath);
            };
            let Some(rates) = price.rates.as_ref().filter(|rates| rates.path == call.path) else {
                return departed(Departure::Path(call.path.clone()));
            };
            let age = conversion.max_rate_timespan_s;
            if U256::from(rates.max_age_s) != age {
                return departed(Departure::RateAge(age));
            }
            (conversion.invoice_units, conversion.invoice_fee_units)
        }
    };
    let is_open = price.charges.platform().is_none();
    // What a receiver lacks after the fee that rides in the payment.
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
    let lacks = nearest.legs(paid).into_iter().map(beside);
    let taken = lacks.filter_map(|lack| legs.take(observed, call, lack)).collect();
    match missing.is_zero() {
        true => (Comparison::AsHandedOut, taken),
        false => (Comparison::FeeShortfall { missing }, taken),
    }
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
    fn a_fee_that_is_missing_smaller_or_of_another_receiver_is_a_shortfall() {
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
            "a part with its part of the fee"
        );
    }

    #[test]
    fn the_nearest_fee_of_several_answers_counts_instead_of_none() {
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
    fn a_fixed_fee_of_the_platform_is_replaced_by_no_answer() {
        let price = price(fee(100, 7), None, None);
        let handed = [HandedOut { fee: None }];
        assert_eq!(compared(&paid(1_000, 0, None, None), None, &price, &handed), short(10));
    }

    #[test]
    fn a_conversion_keeps_to_path_age_and_fee_of_its_request() {
        let price = price(fee(100, 9), None, rates(&[1, 2], 90_000));
        let of = |hashes: &[u8], age| compared(&paid(1_000, 0, None, Some(age)), Some(&call(hashes)), &price, &[]);
        assert_eq!(of(&[1, 2], 90_000), short(10));
        for age in [0, 60, 89_999, 90_001] {
            let departed = Comparison::NotHandedOut(Departure::RateAge(U256::from(age)));
            assert_eq!(of(&[1, 2], age), departed);
        }
        assert_eq!(
            of(&[1, 4, 2], 90_000),
            Comparison::NotHandedOut(Departure::Path(path(&[1, 4, 2])))
        );
        assert_eq!(
            compared(&paid(1_000, 0, None, Some(90_000)), None, &price, &[]),
            Comparison::NotHandedOut(Departure::UnknownPath)
        );
        let unpriced = PriceTerms::default();
        assert_eq!(
            compared(&paid(1_000, 0, None, Some(0)), Some(&call(&[1, 2])), &unpriced, &[]),
            Comparison::NotHandedOut(Departure::Path(path(&[1, 2])))
        );
    }

    #[test]
    fn what_is_paid_by_itself_counts_once_and_for_payments_of_its_kind() {
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
        let mut compare = |payment: &Observation| compare(payment, None, &mut legs, &price, &[]);
        let in_token = Observation {
            token: Some(address(4)),
            ..payment.clone()
        };
        assert_eq!(compare(&in_token), (short(5), vec![]), "paid in something else");
        assert_eq!(compare(&payment), (Comparison::AsHandedOut, taken(5)), "up to the cap");
        assert_eq!(compare(&payment), (short(2), taken(3)), "what is left of it");
        assert_eq!(compare(&payment), (short(5), vec![]));
    }

    #[test]
    fn the_fee_of_the_service_is_added_to_that_of_the_same_receiver() {
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
        /// Rates are judged before fees, exactly, and by nothing that was handed out; a payment with every fee lacks none,
        /// and what is missing is never more than the fees that are fixed or handed out.
        #[test]
        fn a_payment_is_judged_by_the_price_terms_of_its_request(
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
                prop_assert_eq!(compared, Comparison::NotHandedOut(Departure::Path(path(&hashes))));
                return Ok(());
            }
            if is_converted && age != max_age_s {
                prop_assert_eq!(compared, Comparison::NotHandedOut(Departure::RateAge(U256::from(age))));
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
                let lack = |to: u8| match to == receiver {
                    true => due(to).saturating_sub(fee_units),
                    false => due(to),
                };
                (7..=9).map(lack).fold(U256::ZERO, U256::saturating_add)
            });
            let least = lacks.min().unwrap_or_default();
            let expected = match least.is_zero() {
                true => Comparison::AsHandedOut,
                false => Comparison::FeeShortfall { missing: least },
            };
            prop_assert_eq!(compared, expected);
        }
    }
}
