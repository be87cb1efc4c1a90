//! The figures of conversions against published vectors: what the contracts compute, as the service reads it, and what a
//! quote asks for beside them.

use crate::support::TestApp;
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use devnet::{currency_hash, native_currency_hash};
use prs::domain::{network::Network, rate::Rate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

alloy::sol! {
    function updateAggregator(address input, address output, address aggregator) external;
    function decimals() external view returns (uint256);
    function latestAnswer() external view returns (uint256);
    function latestTimestamp() external view returns (uint256);
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn number(text: &str) -> U256 {
    U256::from_str_radix(text, 10).expect("digits")
}

/// A contract that answers each of these questions with a number, and no other.
fn answering(answers: &[([u8; 4], U256)]) -> Vec<u8> {
    const QUESTION_BYTES: usize = 10;
    const ANSWER_BYTES: usize = 42;
    // The selector of the call.
    let mut code = vec![0x60, 0x00, 0x35, 0x60, 0xe0, 0x1c];
    let first = code.len() + answers.len() * QUESTION_BYTES + 5;
    for (position, (selector, _)) in answers.iter().enumerate() {
        let to = u8::try_from(first + position * ANSWER_BYTES).expect("a short contract");
        code.extend([0x80, 0x63]);
        code.extend(selector);
        code.extend([0x14, 0x60, to, 0x57]);
    }
    code.extend([0x60, 0x00, 0x60, 0x00, 0xfd]);
    for (_, answer) in answers {
        code.extend([0x5b, 0x7f]);
        code.extend(answer.to_be_bytes::<32>());
        code.extend([0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3]);
    }
    code
}

/// The address of a currency of the vectors: tokens have one of their own.
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

async fn deploy(app: &TestApp, at: Address, answers: &[([u8; 4], U256)]) {
    let code = hex::encode_prefixed(answering(answers));
    app.devnet().rpc("anvil_setCode", json!([at, code])).await.expect("set");
}

#[tokio::test]
async fn conversions_are_figure_equal_to_the_vectors() {
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
        let answers = [
            (decimalsCall::SELECTOR, U256::from(decimals)),
            (latestAnswerCall::SELECTOR, number(text(feed, "answer"))),
            (latestTimestampCall::SELECTOR, U256::from(1)),
        ];
        deploy(&app, aggregator, &answers).await;
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
    let payers = &app.ctx.partners.chains.payers[&Network::Sepolia];
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
        let result = payers.convert(&path, amount).await.expect("a conversion");
        assert_eq!(result, number(text(case, "result")), "{case}");
        let rate = payers.convert(&path, one).await.expect("a rate");
        assert_eq!(rate, number(text(case, "rate")), "{case}");
        // What a quote by the same price asks for: as much, and what the contract cuts off its rate and its result more.
        if let [fiat, token] = names[..]
            && let Some(price) = prices.get(&(token.to_owned(), fiat.to_owned()))
            && fiat == "USD"
        {
            let decimals = file["currencyDecimals"][token].as_u64().expect("a number");
            let units = price.units_for(amount, u8::try_from(decimals).expect("few"));
            let more = units.expect("in bounds") - result;
            assert!(more <= amount / one + U256::from(2), "{more} more: {case}");
            quoted += 1;
        }
    }
    assert!(quoted >= 8, "{quoted}");
}
