//! References and calldata, byte for byte against published vectors.

use alloy::primitives::U256;
use prs::{
    domain::{
        address::Address,
        amount::Percent,
        calldata::{Conversion, PaymentPlan, PlatformFee, Step, approval_step},
        currency::{Catalogue, ContractKind},
        ids::RequestId,
        network::Network,
        reference::PaymentReference,
    },
    settings::{Settings, catalogue},
};
use serde_json::Value;

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
fn references_and_topics_are_those_of_the_vectors() {
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
    let mut counts = std::collections::BTreeMap::new();
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
        ("conversion_approve", 1),
        ("erc20_approve_exact", 2),
        ("erc20_approve_max", 2),
        ("erc20_fee_proxy", 7),
        ("eth_fee_proxy", 2),
    ];
    assert_eq!(counts, expected.map(|(kind, count)| (kind.to_owned(), count)));
}

/// Builds the step that a vector describes.
fn step(catalogue: &Catalogue, case: &Value) -> Step {
    let input = &case["input"];
    let network = Network::from_id(text(input, "network")).expect("a network");
    let contract = |kind| catalogue.default_contract(network, kind).expect("a contract");
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
        "erc20_fee_proxy" => plan(
            input,
            contract(ContractKind::Erc20FeeProxy),
            Some(token("currencyId")),
            None,
        )
        .payment_step(),
        "eth_fee_proxy" => plan(input, contract(ContractKind::EthereumFeeProxy), None, None).payment_step(),
        "any_to_erc20" => {
            let path = input["path"].as_array().expect("a path").iter();
            let path = path
                .map(|hash| hash.as_str().expect("text").parse().expect("a hash"))
                .collect();
            let plan = converted(
                input,
                contract(ContractKind::Erc20ConversionProxy),
                Some(token("paymentCurrencyId")),
                path,
            );
            plan.payment_step()
        }
        "any_to_eth" => {
            let invoice = catalogue.find("USD").expect("USD");
            let routes = catalogue_native(catalogue, network);
            let path = catalogue.conversion_path(invoice, &routes).expect("a path");
            let path = path.iter().map(|hash| hash.parse().expect("a hash")).collect();
            converted(input, contract(ContractKind::EthConversionProxy), None, path).payment_step()
        }
        other => panic!("unknown kind {other}"),
    }
}

fn catalogue_native(catalogue: &Catalogue, network: Network) -> prs::domain::currency::Currency {
    let id = match network {
        Network::Base => "ETH-base-base",
        Network::Sepolia => "ETH-sepolia-sepolia",
        other => panic!("no native vector on {other}"),
    };
    catalogue.find(id).expect("a native coin").clone()
}

/// Fiat amounts of the vectors are cents; the contracts take eight decimals.
fn converted(
    input: &Value,
    proxy: Address,
    token: Option<Address>,
    path: Vec<alloy::primitives::Address>,
) -> PaymentPlan {
    let conversion = Conversion {
        path,
        max_to_spend: units(text(input, "maxToSpend")),
        max_rate_timespan_s: 0,
    };
    let mut plan = plan(input, proxy, token, Some(conversion));
    let cents = U256::from(1_000_000);
    plan.units *= cents;
    if let Some(fee) = &mut plan.fee {
        fee.units *= cents;
    }
    plan
}

fn plan(input: &Value, proxy: Address, token: Option<Address>, conversion: Option<Conversion>) -> PaymentPlan {
    let payee = Address::parse(text(input, "payee")).expect("a payee");
    let reference = PaymentReference::derive(
        &RequestId(text(input, "requestId").to_owned()),
        text(input, "salt"),
        &payee,
    );
    assert_eq!(reference.to_string(), text(input, "paymentReference"));
    let fee = input["feeAmount"].as_str().map(|amount| PlatformFee {
        percent: Percent::parse("0").expect("a percentage"),
        address: Address::parse(text(input, "feeAddress")).expect("a fee address"),
        units: units(amount),
    });
    PaymentPlan {
        proxy,
        token,
        resets_allowance: false,
        payee,
        units: units(text(input, "amount")),
        reference,
        fee,
        conversion,
    }
}
