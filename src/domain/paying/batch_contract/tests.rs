//! Payments, receivers and costs of a batch.

use super::*;
use crate::domain::paying::{NetworkPrice, PayerBalance, approval_step};
use proptest::prelude::*;
use std::collections::HashMap;

const PLATFORM: u8 = 201;
const PROTOCOL: u8 = 202;

fn address(last: u8) -> Address {
    Address::Evm(EvmAddress::with_last_byte(last))
}

fn terms(fee_basis_points: u16) -> BatchTerms {
    let path = |token: u8| vec![EvmAddress::with_last_byte(token), EvmAddress::with_last_byte(100)];
    BatchTerms {
        contract: address(99),
        fee_basis_points,
        paths_to_usd: [(None, path(50)), (Some(address(1)), path(1))].into(),
    }
}

fn charge(kind: FeeKind, units: u64) -> ChargedUnits {
    let receiver = match kind {
        FeeKind::Platform => PLATFORM,
        _ => PROTOCOL,
    };
    ChargedUnits {
        kind,
        bearer: FeeBearer::Payer,
        receiver: address(receiver),
        units: U256::from(units),
    }
}

/// Charges of the platform and the service.
fn charges(platform: Option<u64>, protocol: Option<u64>) -> Vec<ChargedUnits> {
    let platform = platform.map(|units| charge(FeeKind::Platform, units));
    let protocol = protocol.map(|units| charge(FeeKind::Protocol, units));
    platform.into_iter().chain(protocol).collect()
}

/// One payment of a kind: 0 is a token, 1 the coin, 2 a converted token, 3 the converted coin.
fn leg(kind: u8, token: u8, units: u64, charges: Vec<ChargedUnits>, seed: u8) -> Leg {
    let token = kind.is_multiple_of(2).then(|| address(token));
    let path = vec![
        EvmAddress::with_last_byte(100),
        token.map_or(EvmAddress::with_last_byte(50), |token| token.bytes()),
    ];
    Leg {
        token,
        resets_allowance: token == Some(address(2)),
        payee: address(seed),
        units: U256::from(units),
        reference: PaymentReference([seed; 8]),
        charges,
        conversion: (kind >= 2).then(|| Conversion {
            path,
            max_to_spend: U256::from(units) * U256::from(3),
            max_rate_timespan_s: 90_000,
        }),
    }
}

fn call(batch: &BatchContract) -> BatchConversionPayments::batchPaymentsCall {
    BatchConversionPayments::batchPaymentsCall::abi_decode(&batch.payment_step().calldata).unwrap()
}

/// The amount that the payer spends in each currency.
fn spent_in(batch: &BatchContract) -> Vec<(Option<Address>, U256)> {
    let spendings = batch.spendings.iter();
    spendings.map(|one| (one.token, one.units)).collect()
}

#[test]
fn the_tron_error_precedes_the_several_networks_error() {
    let message = |networks: &[Network]| admit_networks(networks.iter().copied()).map_err(|refusal| refusal.message);
    assert_eq!(message(&[]), Ok(()));
    assert_eq!(message(&[Network::Base, Network::Base]), Ok(()));
    assert_eq!(message(&[Network::Base, Network::Sepolia]), Err(ONE_NETWORK.to_owned()));
    for networks in [&[Network::Base, Network::Sepolia, Network::Tron][..], &[Network::Tron]] {
        assert_eq!(message(networks), Err(TRON.to_owned()));
    }
}

#[test]
fn only_a_contract_with_a_fee_needs_the_payer() {
    let legs = [leg(0, 1, 1_000, Vec::new(), 3)];
    let free = BatchContract::admit(&terms(0), &legs, None).unwrap();
    assert_eq!(call(&free).feeAddress, NOBODY);
    let refused = BatchContract::admit(&terms(30), &legs, None).unwrap_err();
    assert_eq!(refused, BundleError::NoPayer);
    let batch = BatchContract::admit(&terms(30), &legs, Some(address(77))).unwrap();
    assert_eq!(call(&batch).feeAddress, address(77).bytes());
    assert_eq!(batch.spendings[0].units, U256::from(1_003), "0.3 % on top");
}

#[test]
fn a_second_fee_receiver_gets_one_unlinked_item_for_each_currency() {
    let legs = [
        leg(0, 1, 500, charges(Some(5), Some(2)), 3),
        leg(0, 1, 700, charges(Some(7), Some(3)), 4),
    ];
    let batch = BatchContract::admit(&terms(0), &legs, None).unwrap();
    let call = call(&batch);
    let [group] = &call.metaDetails[..] else {
        panic!("one kind");
    };
    let paid: Vec<_> = group
        .requestDetails
        .iter()
        .map(|one| (one.recipient, one.requestAmount, one.feeAmount))
        .collect();
    let expected = [(3, 500, 5), (4, 700, 7), (PROTOCOL, 5, 0)];
    let expected =
        expected.map(|(to, units, fee)| (EvmAddress::with_last_byte(to), U256::from(units), U256::from(fee)));
    assert_eq!(paid, expected);
    let references: BTreeSet<_> = group
        .requestDetails
        .iter()
        .map(|one| one.paymentReference.clone())
        .collect();
    assert_eq!(references.len(), 3);
    assert_eq!(batch.spendings[0].units, U256::from(1_217));
}

#[test]
fn conversion_fees_with_different_terms_are_separate_payments() {
    let first = leg(2, 1, 100, charges(Some(10), Some(5)), 1);
    let mut second = leg(2, 1, 100, charges(Some(10), Some(5)), 2);
    for (age_s, count) in [(90_000, 1), (86_400, 2)] {
        if let Some(conversion) = &mut second.conversion {
            conversion.max_rate_timespan_s = age_s;
        }
        let batch = BatchContract::admit(&terms(0), &[first.clone(), second.clone()], None).unwrap();
        let call = call(&batch);
        let details = call.metaDetails.iter().flat_map(|meta| &meta.requestDetails);
        let fees = details.filter(|detail| Address::Evm(detail.recipient) == address(PROTOCOL));
        assert_eq!(fees.count(), count, "{age_s}");
    }
}

#[test]
fn a_token_is_approved_once_and_usdt_like_ones_after_a_reset() {
    let legs = [
        leg(0, 2, 500, Vec::new(), 3),
        leg(2, 2, 700, Vec::new(), 4),
        leg(0, 1, 9, Vec::new(), 5),
        leg(1, 0, 8, Vec::new(), 6),
    ];
    let batch = BatchContract::admit(&terms(0), &legs, None).unwrap();
    let spent = [
        (Some(address(2)), U256::from(2_600)),
        (Some(address(1)), U256::from(9)),
        (None, U256::from(8)),
    ];
    assert_eq!(spent_in(&batch), spent);
    let reset = approval_step(address(2), address(99), U256::ZERO);
    let approvals = [address(2), address(1)].map(|token| approval_step(token, address(99), U256::MAX));
    let all = [reset, approvals[0].clone(), approvals[1].clone()];
    let approved = |allowance: Option<u64>| {
        let standing = |allowance: u64| PayerBalance {
            balance: U256::ZERO,
            native_balance: U256::ZERO,
            allowance: U256::from(allowance),
            price: NetworkPrice::Gas(U256::ONE),
        };
        let standings = allowance
            .into_iter()
            .flat_map(|allowance| [1, 2].map(|token| (Some(address(token)), standing(allowance))));
        let steps = batch.steps(ApprovalAmount::Everything, &standings.collect());
        assert_eq!(steps.payment, batch.payment_step());
        steps.approvals
    };
    assert_eq!(approved(None), all);
    assert_eq!(approved(Some(1)), all);
    assert_eq!(approved(Some(0)), approvals);
    assert_eq!(approved(Some(2_600)), []);
    assert_eq!(approved(Some(2_599)), all[..2]);
}

#[test]
fn the_contract_charges_its_fee_on_the_sum_of_a_currency() {
    let legs = [
        leg(0, 1, 150, Vec::new(), 3),
        leg(0, 1, 150, Vec::new(), 4),
        leg(0, 2, 99, Vec::new(), 5),
    ];
    let batch = BatchContract::admit(&terms(100), &legs, Some(address(77))).unwrap();
    let spent = [(Some(address(1)), U256::from(303)), (Some(address(2)), U256::from(99))];
    assert_eq!(spent_in(&batch), spent);
}

#[test]
fn the_contract_fee_limit_is_set_where_feeds_are_known() {
    let legs = [
        leg(0, 1, 500, Vec::new(), 3),
        leg(0, 7, 700, Vec::new(), 4),
        leg(1, 0, 8, Vec::new(), 6),
    ];
    let paths = |terms: &BatchTerms| call(&BatchContract::admit(terms, &legs, Some(address(77))).unwrap()).pathsToUSD;
    assert_eq!(paths(&terms(0)), Vec::<Vec<EvmAddress>>::new());
    assert_eq!(paths(&terms(30)).len(), 2);
    let mut without_coin = terms(30);
    without_coin.paths_to_usd.remove(&None);
    assert_eq!(
        paths(&without_coin),
        Vec::<Vec<EvmAddress>>::new(),
        "if the feed of the coin is unknown, no path may be set: the contract would look up the feed"
    );
}

#[test]
fn sums_over_256_bits_are_rejected() {
    let mut legs = [leg(0, 1, 500, Vec::new(), 3), leg(0, 1, 700, Vec::new(), 4)];
    legs[0].units = U256::MAX;
    let refused = |terms: &BatchTerms, legs: &[Leg]| BatchContract::admit(terms, legs, Some(address(77))).err();
    assert_eq!(refused(&terms(0), &legs[..1]), None);
    assert_eq!(refused(&terms(0), &legs), Some(BundleError::TooLarge));
    assert_eq!(
        fitting(&terms(0), &legs, None, u64::MAX),
        1,
        "only the first entry must fit: with the second, the sum exceeds 256 bits"
    );
    assert_eq!(refused(&terms(1), &legs[..1]), Some(BundleError::TooLarge));
}

#[test]
fn the_gas_limit_decides_how_many_payments_fit() {
    let legs: Vec<_> = (0..200)
        .map(|seed| leg(seed % 4, 1, 500, charges(Some(5), None), seed))
        .collect();
    let gas = |count: usize| BatchContract::admit(&terms(0), &legs[..count], None).unwrap().gas();
    for count in [1, 7, 99, 200] {
        assert_eq!(fitting(&terms(0), &legs, None, gas(count)), count);
        assert_eq!(fitting(&terms(0), &legs, None, gas(count) - 1), count - 1);
    }
}

#[derive(Debug, Clone)]
struct DrawnPayment {
    kind: u8,
    token: u8,
    units: u64,
    platform: Option<u64>,
    protocol: Option<u64>,
}

fn asked() -> impl Strategy<Value = DrawnPayment> {
    let fee = || proptest::option::of(0..1_000_000_u64);
    let strategy = (0..4_u8, 1..4_u8, 1..u64::MAX / 8, fee(), fee());
    strategy.prop_map(|(kind, token, units, platform, protocol)| DrawnPayment {
        kind,
        token,
        units,
        platform,
        protocol,
    })
}

proptest! {
    #[test]
    fn each_receiver_gets_its_amount_and_the_payer_spends_no_more(
        asked in proptest::collection::vec(asked(), 1..30),
        fee_basis_points in 0..200_u16,
    ) {
        let legs: Vec<_> = asked.iter().zip(0_u8..).map(|(one, seed)| {
            leg(one.kind, one.token, one.units, charges(one.platform, one.protocol), seed)
        }).collect();
        let batch = BatchContract::admit(&terms(fee_basis_points), &legs, Some(address(77))).unwrap();
        let call = call(&batch);

        // The units that each receiver must get, by kind, path and receiver.
        let mut expected: HashMap<(u8, Vec<EvmAddress>, EvmAddress), U256> = HashMap::new();
        let mut limits: HashMap<Option<Address>, U256> = HashMap::new();
        for (one, leg) in asked.iter().zip(&legs) {
            let path = BatchEntry::new(leg, leg.payee, leg.reference).detail.path;
            let mut owe = |to: u8, units: u64| {
                *expected.entry((BatchEntryKind::of(leg) as u8, path.clone(), EvmAddress::with_last_byte(to))).or_default() += U256::from(units);
            };
            owe(leg.payee.bytes().0[19], one.units);
            owe(PLATFORM, one.platform.unwrap_or_default());
            owe(PROTOCOL, one.protocol.unwrap_or_default());
            let fees = one.platform.unwrap_or_default() + one.protocol.unwrap_or_default();
            let spends = leg.conversion.as_ref().map_or(U256::from(one.units + fees), |conversion| conversion.max_to_spend);
            *limits.entry(leg.token).or_default() += spends;
        }
        expected.retain(|_, units| !units.is_zero());

        let mut paid: HashMap<(u8, Vec<EvmAddress>, EvmAddress), U256> = HashMap::new();
        let mut last = None;
        for group in &call.metaDetails {
            let kind: u8 = group.paymentNetworkId.to();
            prop_assert!(last < Some(kind), "each kind of payment must appear once, in ascending order");
            last = Some(kind);
            for detail in &group.requestDetails {
                *paid.entry((kind, detail.path.clone(), detail.recipient)).or_default() += detail.requestAmount;
                *paid.entry((kind, detail.path.clone(), call.feeAddress)).or_default() += detail.feeAmount;
            }
        }
        paid.retain(|_, units| !units.is_zero());
        prop_assert_eq!(paid, expected);

        // Limits are divided with at most one unit of rounding for each part.
        let parts = U256::from(legs.len() * 2);
        let fee = |units: U256| units * U256::from(fee_basis_points) / U256::from(10_000);
        for (currency, limit) in limits {
            let spends = batch.spendings.iter().find(|one| one.token == currency).unwrap().units;
            let of_contract = || batch.paid.iter().filter(|paid| paid.charged.kind == FeeKind::Contract);
            let own = of_contract().filter(|paid| legs[paid.leg].token == currency);
            let own: U256 = own.map(|paid| paid.charged.units).sum();
            let goes_back = of_contract().next().is_none();
            prop_assert!(spends >= limit + own && own <= fee(limit + parts), "{spends} {limit} {own}");
            prop_assert!(goes_back || spends <= limit + parts + own, "{spends} {limit} {own}");
            prop_assert!(spends <= limit + parts + fee(limit + parts), "{spends} {limit}");
        }
    }

    #[test]
    fn shares_of_a_limit_cover_their_converted_amounts(
        amount in 1..u64::MAX / 2,
        fee in 1..u64::MAX / 2,
        rate in 1..u64::MAX,
    ) {
        let one = U256::from(1_000_000_000_000_u64);
        let convert = |units: u64| U256::from(units) * U256::from(rate) / one;
        let limit = convert(amount + fee);
        let total = U256::from(amount + fee);
        for part in [amount, fee] {
            prop_assert!(share(limit, U256::from(part), total).unwrap() >= convert(part));
        }
    }
}
