//! Compares payment references and calldata with published vectors, byte for byte.

use alloy::primitives::U256;
use prs::{
    domain::{
        address::Address,
        currency::{Catalogue, ContractKind},
        ids::RequestId,
        network::Network,
        paying::{
            ApprovalAmount, Conversion, Executor, Leg, PayerBalances, PaymentTransaction, approval_step,
            batch_contract::{BatchContract, BatchTerms},
            charge::{ChargedUnits, FeeBearer, FeeKind},
            fee_proxy::payment_step,
            tron_proxy::admit_on_tron,
        },
        permit::{Permit, PermitSignature},
        reference::PaymentReference,
    },
    settings::{Settings, catalogue},
};
use serde_json::Value;
use std::collections::BTreeMap;

fn vectors(text: &str, list: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).expect("a vector file");
    file[list].as_array().expect("a list").clone()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn units(text: &str) -> U256 {
    U256::from_str_radix(text, 10).expect("digits")
}

#[test]
fn references_and_topics_match_the_vectors() {
    let all = vectors(include_str!("../vectors/payment-reference.json"), "vectors");
    assert_eq!(all.len(), 15);
    for case in all {
        let payee = Address::parse(text(&case, "address")).expect("an address");
        let reference = PaymentReference::derive(
            &RequestId(text(&case, "requestId").to_owned()),
            text(&case, "salt"),
            &payee,
        );
        assert_eq!(reference.to_string(), text(&case, "paymentReference"));
        assert_eq!(reference.topic().to_string(), text(&case, "topic"));
    }
}

#[test]
fn calldata_is_byte_equal_to_the_vectors() {
    let catalogue = catalogue::load(&Settings::default()).expect("the catalogue loads");
    let mut counts = BTreeMap::new();
    for case in vectors(include_str!("../vectors/calldata.json"), "cases") {
        let step = step(&catalogue, &case);
        let output = &case["output"];
        assert_eq!(
            step.to.to_string().to_lowercase(),
            text(output, "to").to_lowercase(),
            "{case}"
        );
        assert_eq!(hex::encode_prefixed(&step.calldata), text(output, "data"), "{case}");
        assert_eq!(step.value, units(text(output, "valueDec")), "{case}");
        *counts.entry(text(&case, "kind").to_owned()).or_insert(0) += 1;
    }
    let counts: Vec<(String, i32)> = counts.into_iter().collect();
    let expected = [
        ("any_to_erc20", 4),
        ("any_to_eth", 2),
        ("batch_approve", 1),
        ("batch_conversion_payments", 4),
        ("conversion_approve", 1),
        ("erc20_approve_exact", 2),
        ("erc20_approve_max", 2),
        ("erc20_fee_proxy", 7),
        ("eth_fee_proxy", 2),
        ("tron_trc20_fee_proxy", 1),
    ];
    assert_eq!(counts, expected.map(|(kind, count)| (kind.to_owned(), count)));
}

#[test]
fn permits_and_their_calldata_are_byte_equal_to_the_vectors() {
    let catalogue = catalogue::load(&Settings::default()).expect("the catalogue loads");
    let cases = vectors(include_str!("../vectors/recurring.json"), "cases");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (input, output) = (&case["input"], &case["output"]);
        let network = Network::from_id(text(input, "network")).expect("a network");
        let contract = catalogue.default_contract(network, ContractKind::Erc20RecurringPaymentProxy);
        let contract = contract.expect("a contract");
        let step = match text(&case, "kind") {
            "recurring_allowance" => {
                let token = Address::parse(text(input, "token")).expect("a token");
                approval_step(token, contract, units(text(input, "amount")))
            }
            _ => trigger(input, contract),
        };
        let to = step.to.to_string();
        assert_eq!(to.to_lowercase(), text(output, "to").to_lowercase(), "{case}");
        assert_eq!(hex::encode_prefixed(&step.calldata), text(output, "data"), "{case}");
        assert_eq!(step.value, U256::ZERO, "{case}");
    }
}

/// The transaction that executes a permit. Checks the digest and the signature of the permit first.
fn trigger(input: &Value, contract: Address) -> PaymentTransaction {
    let permit = &input["permit"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let narrow = |name: &str| u128::try_from(units(text(permit, name))).expect("128 bits");
    let address = |name: &str| Address::parse(text(permit, name)).expect("an address");
    let permit = Permit {
        chain_id: number(&input["domain"]["chainId"]),
        contract,
        subscriber: address("subscriber"),
        token: address("token"),
        recipient: address("recipient"),
        fee_address: Some(address("feeAddress")),
        amount: narrow("amount"),
        fee: narrow("feeAmount"),
        relayer_fee: narrow("relayerFee"),
        period_s: number(&permit["periodSeconds"]).try_into().expect("32 bits"),
        first_payment_s: number(&permit["firstPayment"]).try_into().expect("32 bits"),
        total_payments: number(&permit["totalPayments"]).try_into().expect("8 bits"),
        nonce: units(text(permit, "nonce")),
        deadline_s: text(permit, "deadline").parse().expect("64 bits"),
    };
    assert_eq!(permit.digest().to_string(), text(input, "eip712Digest"));
    let signature = hex::decode(text(input, "signature")).expect("hexadecimal");
    let signature = PermitSignature::parse(&signature).expect("a signature");
    permit.check(&signature).expect("the subscriber's");
    let index = number(&input["paymentIndex"]).try_into().expect("8 bits");
    let reference = PaymentReference::parse(text(input, "paymentReference")).expect("a reference");
    permit.trigger_step(&signature, index, reference)
}

/// Builds the step that a vector describes.
fn step(catalogue: &Catalogue, case: &Value) -> PaymentTransaction {
    let input = &case["input"];
    let network = Network::from_id(text(input, "network")).expect("a network");
    let contract = |kind| catalogue.default_contract(network, kind).expect("a contract");
    let paid = |kind, leg: &Leg| payment_step(contract(kind), leg).expect("one receiver of a fee");
    let token = |name: &str| {
        catalogue
            .find(text(input, name))
            .expect("a currency")
            .token()
            .expect("a token")
    };
    match text(case, "kind") {
        "erc20_approve_max" => approval_step(token("currencyId"), contract(ContractKind::Erc20FeeProxy), U256::MAX),
        "erc20_approve_exact" => {
            let amount = units(text(input, "approveAmount"));
            approval_step(token("currencyId"), contract(ContractKind::Erc20FeeProxy), amount)
        }
        "conversion_approve" => approval_step(
            token("paymentCurrencyId"),
            contract(ContractKind::Erc20ConversionProxy),
            U256::MAX,
        ),
        "erc20_fee_proxy" => paid(
            ContractKind::Erc20FeeProxy,
            &leg(input, Some(token("currencyId")), None),
        ),
        "tron_trc20_fee_proxy" => {
            let token = Address::parse(text(input, "token")).expect("a token");
            let executor = admit_on_tron(contract(ContractKind::Erc20FeeProxy), &leg(input, Some(token), None));
            let executor = executor.expect("one receiver of a fee");
            executor
                .steps(ApprovalAmount::WhatIsNeeded, &PayerBalances::new())
                .payment
        }
        "eth_fee_proxy" => paid(ContractKind::EthereumFeeProxy, &leg(input, None, None)),
        "any_to_erc20" => {
            let path = input["path"].as_array().expect("a path").iter();
            let path = path
                .map(|hash| hash.as_str().expect("text").parse().expect("a hash"))
                .collect();
            let leg = converted(input, Some(token("paymentCurrencyId")), path);
            paid(ContractKind::Erc20ConversionProxy, &leg)
        }
        "any_to_eth" => {
            let invoice = catalogue.find("USD").expect("USD");
            let routes = catalogue_native(catalogue, network);
            let path = catalogue.conversion_path(invoice, &routes).expect("a path");
            let path = path.iter().map(|hash| hash.parse().expect("a hash")).collect();
            paid(ContractKind::EthConversionProxy, &converted(input, None, path))
        }
        "batch_approve" => {
            let token = text(&input["currency"], "value");
            approval_step(
                Address::parse(token).expect("a token"),
                contract(ContractKind::BatchConversionPayments),
                U256::MAX,
            )
        }
        "batch_conversion_payments" => {
            let items = input["items"].as_array().expect("a list").iter();
            let legs: Vec<Leg> = items.map(|item| batched(catalogue, item)).collect();
            let terms = BatchTerms {
                contract: contract(ContractKind::BatchConversionPayments),
                fee_basis_points: 0,
                paths_to_usd: BTreeMap::new(),
            };
            BatchContract::admit(&terms, &legs, None)
                .expect("a batch")
                .payment_step()
        }
        other => panic!("unknown kind {other}"),
    }
}

/// One payment of a batch.
fn batched(catalogue: &Catalogue, item: &Value) -> Leg {
    if text(item, "paymentNetwork") == "pn-erc20-fee-proxy-contract" {
        let token = Address::parse(text(&item["currency"], "value")).expect("a token");
        return leg(item, Some(token), None);
    }
    let network = Network::from_id(text(item, "network")).expect("a network");
    let token = Address::parse(text(&item["paymentCurrency"], "value")).expect("a token");
    let payment = catalogue.by_token(network, &token).expect("a currency");
    let invoice = catalogue.find(text(&item["currency"], "value")).expect("a currency");
    let path = catalogue.conversion_path(invoice, payment).expect("a path");
    let path = path.iter().map(|hash| hash.parse().expect("a hash")).collect();
    converted(item, Some(token), path)
}

fn catalogue_native(catalogue: &Catalogue, network: Network) -> prs::domain::currency::Currency {
    let id = match network {
        Network::Base => "ETH-base-base",
        Network::Sepolia => "ETH-sepolia-sepolia",
        other => panic!("no native vector on {other}"),
    };
    catalogue.find(id).expect("a native coin").clone()
}

/// A converted payment of a vector. Fiat amounts of the vectors are in cents; the contracts take eight decimals.
fn converted(input: &Value, token: Option<Address>, path: Vec<alloy::primitives::Address>) -> Leg {
    let conversion = Conversion {
        path,
        max_to_spend: units(text(input, "maxToSpend")),
        max_rate_timespan_s: 0,
    };
    let mut leg = leg(input, token, Some(conversion));
    let cents = U256::from(1_000_000);
    leg.units *= cents;
    for charged in &mut leg.charges {
        charged.units *= cents;
    }
    leg
}

fn leg(input: &Value, token: Option<Address>, conversion: Option<Conversion>) -> Leg {
    let payee = Address::parse(text(input, "payee")).expect("a payee");
    let reference = PaymentReference::derive(
        &RequestId(text(input, "requestId").to_owned()),
        text(input, "salt"),
        &payee,
    );
    assert_eq!(reference.to_string(), text(input, "paymentReference"));
    let charged = input["feeAmount"].as_str().map(|amount| ChargedUnits {
        kind: FeeKind::Platform,
        bearer: FeeBearer::Payer,
        receiver: Address::parse(text(input, "feeAddress")).expect("a fee address"),
        units: units(amount),
    });
    Leg {
        token,
        resets_allowance: false,
        payee,
        units: units(text(input, "amount")),
        reference,
        charges: charged.into_iter().collect(),
        conversion,
    }
}
