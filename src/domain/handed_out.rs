//! What calldata was handed out for a request, and whether a payment keeps to it.

use super::{
    address::Address,
    amount::Percent,
    calldata::PaymentPlan,
    conversion::RateBounds,
    conversion_call::ConversionCall,
    fee_legs::FeeLegs,
    fees::{Fee, FeeLeg, Fees},
    ledger::SettlementUnits,
    payment::Observation,
};
use alloy::primitives::{Address as EvmAddress, U256};

/// Different fees that a credential may have handed out for one request; each further one is refused, so that the
/// comparison of its payments stays small.
pub const NAMED_FEES_MAX: u64 = 100;

/// What a payer could choose and was told: the terms of one answer of `/pay`. Calldata has no end on chain, so an
/// answer counts as long as its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOut {
    /// Fee on top of the amount and its receiver.
    pub fee: Option<(Percent, Address)>,
    /// The service's own fee, which binds whoever asked.
    pub protocol: Option<Fee>,
    /// Path and rate age of a conversion.
    pub rates: Option<RateBounds>,
    /// Whether payments are held to the fee, also to none. What a public credential names binds nobody: whoever pays, or
    /// anybody else, could have named it.
    pub is_binding: bool,
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

impl HandedOut {
    /// The terms of an answer. A fee that does not bind is left out, so that public calls have one row together.
    pub fn of(plan: &PaymentPlan, fees: &Fees, is_binding: bool) -> Self {
        let fee = fees.platform.filter(|_| is_binding);
        Self {
            is_binding,
            fee: fee.map(|fee| (fee.percent, fee.receiver)),
            protocol: fees.protocol,
            rates: plan.conversion.as_ref().map(|conversion| RateBounds {
                path: conversion.path.clone(),
                max_age_s: conversion.max_rate_timespan_s,
            }),
        }
    }

    /// What counts as handed out for a request of which nothing is kept: the path of the catalogue with the bound of
    /// now, or with none, as it was handed out before answers were kept.
    pub fn unkept(rates: Option<RateBounds>) -> Vec<Self> {
        let unbounded = rates.clone().map(|rates| RateBounds { max_age_s: 0, ..rates });
        [rates, unbounded]
            .into_iter()
            .map(|rates| Self {
                fee: None,
                protocol: None,
                rates,
                is_binding: true,
            })
            .collect()
    }

    /// What each receiver of a fee gets when so much is paid.
    fn wanted(&self, paid: U256) -> impl Iterator<Item = FeeLeg> {
        let named = self.fee.map(|(percent, receiver)| (receiver, percent.of(paid)));
        let own = self.protocol.map(|fee| (fee.receiver, fee.of(paid)));
        let wanted = match (named, own) {
            (Some((one, units)), Some((other, more))) if one == other => {
                [Some((one, units.saturating_add(more))), None]
            }
            (named, own) => [named, own],
        };
        let legs = wanted.into_iter().flatten();
        legs.map(|(receiver, units)| FeeLeg { receiver, units })
    }
}

/// Compares a payment with what was handed out for its request; `call` is what its conversion asked for, `legs` what
/// its transaction paid to receivers of fees by itself, of which the fees of the payment are taken and returned.
///
/// The path decides first, then the age of its rates, then the fee: of several binding answers the one that the payment
/// comes nearest to, be it one of other rates when none of these rates binds. A public credential is no proof of who
/// asked. Source: decisions D38; decisions D32.
pub fn compare(
    observed: &Observation,
    call: Option<&ConversionCall>,
    legs: &mut FeeLegs,
    handed: &[HandedOut],
) -> (Comparison, Vec<FeeLeg>) {
    let departed = |departure| (Comparison::NotHandedOut(departure), Vec::new());
    let mut kept: Vec<&HandedOut> = handed.iter().collect();
    let (paid, fee_units) = match observed.conversion {
        None => (observed.units, observed.fee_units),
        Some(conversion) => {
            let Some(call) = call else {
                return departed(Departure::UnknownPath);
            };
            kept.retain(|one| one.rates.as_ref().is_some_and(|rates| rates.path == call.path));
            if kept.is_empty() {
                return departed(Departure::Path(call.path.clone()));
            }
            let age = conversion.max_rate_timespan_s;
            kept.retain(|one| {
                one.rates
                    .as_ref()
                    .is_some_and(|rates| U256::from(rates.max_age_s) == age)
            });
            if kept.is_empty() {
                return departed(Departure::RateAge(age));
            }
            (conversion.invoice_units, conversion.invoice_fee_units)
        }
    };
    let mut held: Vec<&HandedOut> = kept.iter().copied().filter(|one| one.is_binding).collect();
    if held.is_empty() {
        held = handed.iter().filter(|one| one.is_binding).collect();
    }
    if held.is_empty() {
        held = kept;
    }
    // What a receiver lacks after the fee that rides in the payment.
    let beside = |wanted: FeeLeg| {
        let rides = observed.fee_address == Some(wanted.receiver);
        let riding = if rides { fee_units } else { U256::ZERO };
        FeeLeg {
            units: wanted.units.saturating_sub(riding),
            ..wanted
        }
    };
    let missing = |one: &HandedOut| {
        let lacks = one.wanted(paid).map(beside).map(|lack| {
            let left = legs.left(observed, call, lack.receiver);
            lack.units.saturating_sub(left)
        });
        lacks.fold(U256::ZERO, U256::saturating_add)
    };
    let nearest = held.into_iter().map(|one| (missing(one), one));
    let Some((missing, nearest)) = nearest.min_by_key(|(missing, _)| *missing) else {
        return (Comparison::AsHandedOut, Vec::new());
    };
    let lacks = nearest.wanted(paid).map(beside);
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
        currency::ContractKind,
        network::Network,
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

    fn fee(points: u16, receiver: u8) -> Option<(Percent, Address)> {
        Some((Percent::from_basis_points(points).unwrap(), address(receiver)))
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

    fn compared(observed: &Observation, call: Option<&ConversionCall>, handed: &[HandedOut]) -> Comparison {
        compare(observed, call, &mut FeeLegs::default(), handed).0
    }

    #[test]
    fn a_fee_that_is_missing_smaller_or_somebody_elses_is_a_shortfall() {
        let handed = [HandedOut {
            fee: fee(250, 9),
            protocol: None,
            rates: None,
            is_binding: true,
        }];
        let short = |missing: u64| Comparison::FeeShortfall {
            missing: U256::from(missing),
        };
        for (fee_units, receiver, expected) in [
            (25, Some(9), Comparison::AsHandedOut),
            (30, Some(9), Comparison::AsHandedOut),
            (20, Some(9), short(5)),
            (0, None, short(25)),
            (25, Some(8), short(25)),
            (25, None, short(25)),
        ] {
            assert_eq!(
                compared(&paid(1_000, fee_units, receiver, None), None, &handed),
                expected
            );
        }
        assert_eq!(
            compared(&paid(400, 10, Some(9), None), None, &handed),
            Comparison::AsHandedOut,
            "a part with its part of the fee"
        );
        let both = [
            handed[0].clone(),
            HandedOut {
                fee: fee(100, 7),
                protocol: None,
                rates: None,
                is_binding: true,
            },
        ];
        assert_eq!(
            compared(&paid(1_000, 10, Some(7), None), None, &both),
            Comparison::AsHandedOut
        );
        assert_eq!(compared(&paid(1_000, 0, None, None), None, &both), short(10));
    }

    #[test]
    fn a_conversion_keeps_to_one_answer_in_path_age_and_fee() {
        let handed = [
            HandedOut {
                fee: None,
                protocol: None,
                rates: rates(&[1, 2], 90_000),
                is_binding: true,
            },
            HandedOut {
                fee: fee(100, 9),
                protocol: None,
                rates: rates(&[1, 3], 60),
                is_binding: true,
            },
        ];
        let of = |hashes: &[u8], age| compared(&paid(1_000, 0, None, Some(age)), Some(&call(hashes)), &handed);
        assert_eq!(of(&[1, 2], 90_000), Comparison::AsHandedOut);
        assert_eq!(
            of(&[1, 3], 60),
            Comparison::FeeShortfall {
                missing: U256::from(10)
            }
        );
        assert_eq!(
            of(&[1, 2], 60),
            Comparison::NotHandedOut(Departure::RateAge(U256::from(60)))
        );
        assert_eq!(of(&[1, 2], 0), Comparison::NotHandedOut(Departure::RateAge(U256::ZERO)));
        assert_eq!(
            of(&[1, 4, 2], 90_000),
            Comparison::NotHandedOut(Departure::Path(path(&[1, 4, 2])))
        );
        assert_eq!(
            compared(&paid(1_000, 0, None, Some(60)), None, &handed),
            Comparison::NotHandedOut(Departure::UnknownPath)
        );
    }

    #[test]
    fn an_answer_that_does_not_bind_counts_for_its_rates_alone() {
        let answer = |fee, max_age_s, is_binding| HandedOut {
            fee,
            protocol: None,
            rates: rates(&[1, 2], max_age_s),
            is_binding,
        };
        let of = |age, handed: &[HandedOut]| compared(&paid(1_000, 0, None, Some(age)), Some(&call(&[1, 2])), handed);
        let short = Comparison::FeeShortfall {
            missing: U256::from(25),
        };
        let bare = answer(None, 60, false);
        assert_eq!(of(60, std::slice::from_ref(&bare)), Comparison::AsHandedOut);
        let asked = answer(fee(250, 9), 60, true);
        assert_eq!(of(60, &[bare.clone(), asked]), short);
        let of_other_rates = answer(fee(250, 9), 30, true);
        assert_eq!(of(60, &[bare.clone(), of_other_rates]), short);
        assert_eq!(
            of(60, &[bare, answer(fee(10_000, 9), 60, false)]),
            Comparison::AsHandedOut
        );
    }

    #[test]
    fn a_request_of_which_nothing_is_kept_is_held_to_the_path_alone() {
        let unkept = HandedOut::unkept(rates(&[1, 2], 90_000));
        let of = |hashes: &[u8], age| compared(&paid(1_000, 0, None, Some(age)), Some(&call(hashes)), &unkept);
        assert_eq!(of(&[1, 2], 0), Comparison::AsHandedOut);
        assert_eq!(of(&[1, 2], 90_000), Comparison::AsHandedOut);
        assert_eq!(
            of(&[1, 2], 1),
            Comparison::NotHandedOut(Departure::RateAge(U256::from(1)))
        );
        assert_eq!(
            of(&[1, 4, 2], 0),
            Comparison::NotHandedOut(Departure::Path(path(&[1, 4, 2])))
        );
        let direct = HandedOut::unkept(None);
        assert_eq!(
            compared(&paid(1_000, 0, None, None), None, &direct),
            Comparison::AsHandedOut
        );
    }

    #[test]
    fn what_is_paid_by_itself_counts_once_and_for_payments_of_its_kind() {
        let own = Fee {
            percent: Percent::from_basis_points(100).unwrap(),
            receiver: address(7),
            cap: Some(U256::from(5)),
        };
        let handed = [HandedOut {
            fee: fee(250, 9),
            protocol: Some(own),
            rates: None,
            is_binding: true,
        }];
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
        let short = |missing: u64| Comparison::FeeShortfall {
            missing: U256::from(missing),
        };
        let mut compare = |payment: &Observation| compare(payment, None, &mut legs, &handed);
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
    fn the_fee_of_the_service_binds_whoever_asked_and_rides_with_that_of_the_same_receiver() {
        let own = Fee {
            percent: Percent::from_basis_points(50).unwrap(),
            receiver: address(9),
            cap: None,
        };
        let answer = |fee, is_binding| HandedOut {
            fee,
            protocol: Some(own),
            rates: None,
            is_binding,
        };
        let short = |missing: u64| Comparison::FeeShortfall {
            missing: U256::from(missing),
        };
        let public = [answer(None, false)];
        assert_eq!(compared(&paid(1_000, 0, None, None), None, &public), short(5));
        assert_eq!(
            compared(&paid(1_000, 5, Some(9), None), None, &public),
            Comparison::AsHandedOut
        );
        let both = [answer(fee(250, 9), true)];
        assert_eq!(compared(&paid(1_000, 25, Some(9), None), None, &both), short(5));
        assert_eq!(
            compared(&paid(1_000, 30, Some(9), None), None, &both),
            Comparison::AsHandedOut
        );
    }

    proptest! {
        #[test]
        fn no_number_of_a_payer_overflows_and_more_is_never_missing_than_was_asked(
            units in any::<[u64; 4]>(),
            fee_units in any::<[u64; 4]>(),
            age in any::<[u64; 4]>(),
            points in 0_u16..=10_000,
            is_converted in any::<bool>(),
            is_receiver in any::<bool>(),
        ) {
            let (units, fee_units) = (U256::from_limbs(units), U256::from_limbs(fee_units));
            let mut observed = paid(0, 0, Some(if is_receiver { 9 } else { 8 }), None);
            (observed.units, observed.fee_units) = (units, fee_units);
            observed.conversion = is_converted.then_some(ObservedConversion {
                invoice_units: units,
                invoice_fee_units: fee_units,
                currency: address(3),
                max_rate_timespan_s: U256::from_limbs(age),
            });
            let handed = [HandedOut { fee: fee(points, 9), protocol: None, rates: rates(&[1], 90_000), is_binding: true }];
            let asked = Percent::from_basis_points(points).unwrap().of(units);
            match compared(&observed, Some(&call(&[1])), &handed) {
                Comparison::AsHandedOut => prop_assert!(asked.is_zero() || (is_receiver && fee_units >= asked)),
                Comparison::FeeShortfall { missing } => {
                    let arrived = if is_receiver { fee_units } else { U256::ZERO };
                    prop_assert_eq!(missing + arrived, asked);
                }
                Comparison::NotHandedOut(departure) => {
                    prop_assert!(is_converted);
                    prop_assert_eq!(departure, Departure::RateAge(U256::from_limbs(age)));
                }
            }
        }
    }
}
