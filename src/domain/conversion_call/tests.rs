//! Decoding the calls of a transaction.

use super::*;
use crate::domain::{
    network::Network,
    paying::{
        Conversion, Leg,
        batch_contract::{Detail, MetaDetail},
        fee_proxy::payment_step,
    },
    payment::ObservedConversion,
    reference::PaymentReference,
};
use proptest::prelude::*;

const TOKEN_PROXY: u8 = 1;
const COIN_PROXY: u8 = 2;
const BATCH: u8 = 3;
const OTHER_TOKEN_PROXY: u8 = 4;

fn kind_of(address: &Address) -> Option<ContractKind> {
    match address.bytes().0[19] {
        TOKEN_PROXY | OTHER_TOKEN_PROXY => Some(ContractKind::Erc20ConversionProxy),
        COIN_PROXY => Some(ContractKind::EthConversionProxy),
        BATCH => Some(ContractKind::BatchConversionPayments),
        _ => None,
    }
}

fn address(last: u8) -> Address {
    Address::Evm(EvmAddress::with_last_byte(last))
}

fn detail(path: Vec<EvmAddress>, units: u64, reference: [u8; 8]) -> Detail {
    Detail {
        recipient: EvmAddress::with_last_byte(9),
        requestAmount: U256::from(units),
        path,
        paymentReference: reference.to_vec().into(),
        feeAmount: U256::from(units / 10),
        maxToSpend: U256::MAX,
        maxRateTimespan: U256::from(90_000),
    }
}

fn batch(groups: Vec<(u64, Vec<Detail>)>) -> Vec<u8> {
    let groups = groups.into_iter().map(|(id, details)| MetaDetail {
        paymentNetworkId: U256::from(id),
        requestDetails: details,
    });
    BatchConversionPayments::batchPaymentsCall {
        metaDetails: groups.collect(),
        pathsToUSD: vec![vec![EvmAddress::with_last_byte(7)]; 2],
        feeAddress: EvmAddress::with_last_byte(8),
    }
    .abi_encode()
}

fn observed(proxy: u8, position: u32, units: u64, reference: [u8; 8]) -> Observation {
    Observation {
        network: Network::Sepolia,
        tx_hash: B256::repeat_byte(1),
        position,
        block_number: 1,
        block_hash: B256::repeat_byte(2),
        log_index: u64::from(position),
        proxy: address(proxy),
        reference_topic: PaymentReference(reference).topic(),
        token: Some(address(5)),
        payee: address(9),
        units: U256::from(1),
        fee_units: U256::ZERO,
        fee_address: None,
        conversion: Some(ObservedConversion {
            invoice_units: U256::from(units),
            invoice_fee_units: U256::from(units / 10),
            currency: address(6),
            max_rate_timespan_s: U256::from(90_000),
        }),
    }
}

fn proof(to: u8, input: Vec<u8>, observations: Vec<Observation>) -> TxProof {
    TxProof {
        tx_hash: B256::repeat_byte(1),
        block_number: 1,
        block_hash: B256::repeat_byte(2),
        succeeded: true,
        from: address(10),
        to: Some(address(to)),
        input,
        observations,
        transfers: Vec::new(),
        unreadable: Vec::new(),
    }
}

fn path_of(observed: &Observation, proof: &TxProof) -> Option<Vec<EvmAddress>> {
    let calls = ConversionCalls::read(proof, kind_of);
    calls.of(observed, proof, kind_of).map(|call| call.path.clone())
}

#[test]
fn conversions_with_one_reference_are_paired_in_order() {
    let paths: Vec<_> = (1..4).map(|last| vec![EvmAddress::with_last_byte(last)]).collect();
    let details = |from: usize| {
        vec![
            detail(paths[from].clone(), 100, [1; 8]),
            detail(paths[2].clone(), 100, [2; 8]),
        ]
    };
    let input = batch(vec![
        (0, details(0)),
        (3, vec![detail(Vec::new(), 5, [1; 8])]),
        (0, details(1)),
    ]);
    let events = vec![
        observed(TOKEN_PROXY, 3, 100, [1; 8]),
        observed(TOKEN_PROXY, 6, 100, [2; 8]),
        observed(TOKEN_PROXY, 9, 100, [1; 8]),
        observed(TOKEN_PROXY, 12, 100, [2; 8]),
    ];
    let whole = proof(BATCH, input.clone(), events.clone());
    assert_eq!(path_of(&events[0], &whole), Some(paths[0].clone()));
    assert_eq!(path_of(&events[2], &whole), Some(paths[1].clone()));
    assert_eq!(path_of(&events[3], &whole), Some(paths[2].clone()));
    let one_more = [events.clone(), vec![observed(OTHER_TOKEN_PROXY, 20, 100, [1; 8])]].concat();
    assert_eq!(
        path_of(&events[0], &proof(BATCH, input.clone(), one_more)),
        None,
        "one event too many"
    );
    assert_eq!(
        path_of(&events[0], &proof(BATCH, input.clone(), events[..3].to_vec())),
        Some(paths[0].clone())
    );
    assert_eq!(
        path_of(&events[0], &proof(BATCH, input, events[..2].to_vec())),
        None,
        "one event too few"
    );
}

#[test]
fn an_event_that_differs_from_the_call_does_not_match_it() {
    let input = batch(vec![(0, vec![detail(vec![EvmAddress::ZERO], 100, [1; 8])])]);
    let event = observed(TOKEN_PROXY, 1, 100, [1; 8]);
    assert!(path_of(&event, &proof(BATCH, input.clone(), vec![event.clone()])).is_some());
    let mut other = event.clone();
    other.payee = address(99);
    assert_eq!(path_of(&other, &proof(BATCH, input.clone(), vec![other.clone()])), None);
    let mut other = event.clone();
    if let Some(conversion) = &mut other.conversion {
        conversion.max_rate_timespan_s = U256::ZERO;
    }
    assert_eq!(path_of(&other, &proof(BATCH, input.clone(), vec![other.clone()])), None);
    let coin = observed(COIN_PROXY, 1, 100, [1; 8]);
    assert_eq!(path_of(&coin, &proof(BATCH, input.clone(), vec![coin.clone()])), None);
    assert_eq!(
        path_of(&event, &proof(77, input, vec![event.clone()])),
        None,
        "the path in a call of another contract must not be decoded"
    );
}

#[test]
fn a_proxy_that_was_not_called_matches_no_call_of_another_proxy() {
    let leg = Leg {
        token: Some(address(5)),
        resets_allowance: false,
        payee: address(9),
        units: U256::from(100),
        reference: PaymentReference([1; 8]),
        charges: Vec::new(),
        conversion: Some(Conversion {
            path: vec![EvmAddress::ZERO],
            max_to_spend: U256::MAX,
            max_rate_timespan_s: 90_000,
        }),
    };
    let input = payment_step(address(TOKEN_PROXY), &leg).unwrap().calldata;
    let mut event = observed(TOKEN_PROXY, 1, 100, [1; 8]);
    if let Some(conversion) = &mut event.conversion {
        conversion.invoice_fee_units = U256::ZERO;
    }
    assert_eq!(
        path_of(&event, &proof(TOKEN_PROXY, input.clone(), vec![event.clone()])),
        Some(vec![EvmAddress::ZERO])
    );
    event.proxy = address(OTHER_TOKEN_PROXY);
    assert_eq!(path_of(&event, &proof(TOKEN_PROXY, input, vec![event.clone()])), None);
}

#[test]
fn overlapping_abi_offsets_are_rejected() {
    let detail = detail(vec![EvmAddress::ZERO; 20], 100, [1; 8]);
    let honest = batch(vec![(0, vec![detail; 2])]);
    assert_eq!(decode(ContractKind::BatchConversionPayments, &honest).unwrap().len(), 2);
    // Both elements of the inner array point at the first one, and the unreferenced rest is cut off.
    let mut shared = honest;
    let offsets = 4 + 32 * (3 + 2 + 2 + 1);
    shared.copy_within(offsets..offsets + 32, offsets + 32);
    shared.truncate(offsets + 64 + 32 * 45);
    assert_eq!(decode(ContractKind::BatchConversionPayments, &shared), None);
}

proptest! {
    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), selector in 0_usize..5) {
        let selectors = [
            Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::SELECTOR,
            EthConversionProxy::transferWithReferenceAndFeeCall::SELECTOR,
            BatchConversionPayments::batchPaymentsCall::SELECTOR,
            BatchConversionPayments::batchMultiERC20ConversionPaymentsCall::SELECTOR,
            BatchConversionPayments::batchNativeConversionPaymentsCall::SELECTOR,
        ];
        let input = [selectors[selector].as_slice(), &bytes].concat();
        for kind in ContractKind::ALL {
            let words = decode(kind, &input).unwrap_or_default().iter().map(|call| call.path.len()).sum::<usize>();
            prop_assert!(words <= bytes.len() / 32);
        }
    }

    #[test]
    fn encoded_calls_are_decoded_unchanged(
        paths in prop::collection::vec(prop::collection::vec(any::<[u8; 20]>(), 0..4), 0..6),
        units in any::<[u64; 4]>(),
        reference in any::<[u8; 8]>(),
        group in 0_u64..6,
    ) {
        let details: Vec<Detail> = paths.iter().map(|path| Detail {
            requestAmount: U256::from_limbs(units),
            ..detail(path.iter().map(|bytes| EvmAddress::new(*bytes)).collect(), 50, reference)
        }).collect();
        let read = decode(ContractKind::BatchConversionPayments, &batch(vec![(group, details.clone())])).unwrap();
        let is_converted = matches!(group, 0 | 4);
        prop_assert_eq!(read.len(), if is_converted { paths.len() } else { 0 });
        for (call, detail) in read.iter().zip(&details) {
            prop_assert_eq!(&call.path, &detail.path);
            prop_assert_eq!(call.payee, detail.recipient);
            prop_assert_eq!(call.invoice_units, detail.requestAmount);
            prop_assert_eq!(call.invoice_fee_units, detail.feeAmount);
            prop_assert_eq!(call.max_rate_timespan_s, detail.maxRateTimespan);
            prop_assert_eq!(call.reference_topic, PaymentReference(reference).topic());
        }
        let tokens = BatchConversionPayments::batchMultiERC20ConversionPaymentsCall {
            requestDetails: details.clone(),
            pathsToUSD: Vec::new(),
            feeAddress: EvmAddress::ZERO,
        };
        let coins = BatchConversionPayments::batchNativeConversionPaymentsCall {
            requestDetails: details,
            skipFeeUSDLimit: true,
            feeAddress: EvmAddress::ZERO,
        };
        for (input, kind) in [
            (tokens.abi_encode(), ContractKind::Erc20ConversionProxy),
            (coins.abi_encode(), ContractKind::EthConversionProxy),
        ] {
            let read = decode(ContractKind::BatchConversionPayments, &input).unwrap();
            prop_assert_eq!(read.len(), paths.len());
            prop_assert!(read.iter().all(|call| call.kind == kind));
        }
    }
}

#[test]
fn contract_lookups_grow_linearly_with_events() {
    const EVENTS: u32 = 3_000;
    let events: Vec<_> = (0..EVENTS)
        .map(|position| observed(TOKEN_PROXY, position, 100, [1; 8]))
        .collect();
    let whole = proof(BATCH, Vec::new(), events);
    let lookups = std::cell::Cell::new(0);
    let counted = |address: &Address| {
        lookups.set(lookups.get() + 1);
        kind_of(address)
    };
    let calls = ConversionCalls::read(&whole, counted);
    for event in &whole.observations {
        assert_eq!(calls.of(event, &whole, counted), None);
    }
    assert!(lookups.get() <= 2 * EVENTS + 1, "{} lookups", lookups.get());
}
