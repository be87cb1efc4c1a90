//! Compares conversions with published vectors: the results of the contracts as the service reads them, and the units
//! that a quote requests.

use crate::support::{
    TestApp,
    feeds::{decimalsCall, deploy, deploy_feed},
};
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use devnet::{currency_hash, native_currency_hash};
use prs::domain::{network::Network, rate::Rate};
use serde_json::Value;
use std::collections::BTreeMap;

alloy::sol! {
    function updateAggregator(address input, address output, address aggregator) external;
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn number(text: &str) -> U256 {
    U256::from_str_radix(text, 10).expect("digits")
}

/// The address of a currency in the vectors. Each token has an address of its own.
fn address(name: &str) -> Address {
    match name {
        "NAT" => native_currency_hash(Network::Sepolia.chain_id()),
        "T2" | "T6" | "T8" | "T18" => {
            let last = name.trim_start_matches('T').parse().expect("decimals");
            Address::with_last_byte(last).create(7)
        }
        fiat => currency_hash("ISO4217", fiat),
    }
}

#[tokio::test]
async fn conversions_match_the_published_vectors() {
    let file: Value = serde_json::from_str(include_str!("../vectors/conversion-math.json")).expect("vectors");
    let app = TestApp::on_chain().await;
    for (name, decimals) in file["currencyDecimals"].as_object().expect("a map") {
        if name.starts_with('T') {
            let decimals = U256::from(decimals.as_u64().expect("a number"));
            deploy(&app, address(name), &[(decimalsCall::SELECTOR, decimals)]).await;
        }
    }
    let feeds = app.devnet().contracts().chainlink_conversion_path;
    let mut prices: BTreeMap<(String, String), Rate> = BTreeMap::new();
    for (position, feed) in (1_u8..).zip(file["aggregators"].as_array().expect("a list")) {
        let decimals = feed["decimals"].as_u64().expect("a number");
        let (input, output) = (text(feed, "in"), text(feed, "out"));
        let aggregator = Address::with_last_byte(position).create(9);
        deploy_feed(&app, aggregator, decimals, number(text(feed, "answer")), U256::ONE).await;
        let update = updateAggregatorCall {
            input: address(input),
            output: address(output),
            aggregator,
        };
        let sent = app.devnet().send(0, feeds, update.abi_encode(), U256::ZERO).await;
        assert!(sent.expect("mined").status, "{input} in {output}");
        let price = Rate::parse(&format!("{}e-{decimals}", text(feed, "answer"))).expect("a price");
        prices.insert((input.to_owned(), output.to_owned()), price);
    }
    let feeds = &app.ctx.partners.chains.price_feeds[&Network::Sepolia];
    let one = number("1000000000000000000");
    let cases = file["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 40);
    let mut quoted = 0;
    for case in cases {
        let names: Vec<&str> = case["path"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let path: Vec<Address> = names.iter().map(|name| address(name)).collect();
        let amount = number(text(case, "amountIn"));
        let result = feeds.convert(&path, amount).await.expect("a conversion").units;
        assert_eq!(result, number(text(case, "result")), "{case}");
        let rate = feeds.convert(&path, one).await.expect("a rate").units;
        assert_eq!(rate, number(text(case, "rate")), "{case}");
        // A quote at the same price requests this result plus what the contract rounds off its rate and result.
        if let [fiat, token] = names[..]
            && let Some(price) = prices.get(&(token.to_owned(), fiat.to_owned()))
            && fiat == "USD"
        {
            let decimals = file["currencyDecimals"][token].as_u64().expect("a number");
            let units = price.units_for(amount, u8::try_from(decimals).expect("few"));
            let more = units.expect("in bounds") - result;
            assert!(more <= amount / one + U256::from(2), "{more} units more: {case}");
            quoted += 1;
        }
    }
    assert!(quoted >= 8, "{quoted}");
}
