//! Calldata as payer programs read it. Links return `value` as text and `chainId` as an integer. Requests, payouts and
//! batches return `value` as the object of the published interface, plus `chainId`.

use crate::support::{
    TestApp,
    chain::PAYER,
    dev::Dev,
    links::{link_of, payout_of, token_of},
    requests::fau,
};
use alloy::primitives::{U256, address};
use serde::Deserialize;
use serde_json::{Value, json};

const OTHER: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const SEPOLIA: u64 = 11_155_111;

/// The format of a transaction in the calldata of a link. Parsing fails on any other member or type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct LinkStep {
    data: String,
    to: String,
    value: String,
    chain_id: u64,
}

/// The format of a transaction in the calldata of a request, a payout or a batch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PayStep {
    data: String,
    to: String,
    value: Big,
    chain_id: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Big {
    r#type: String,
    hex: String,
}

/// Parses the transactions of a link in the strict format [`LinkStep`]; returns the `value` of each.
#[track_caller]
fn values(steps: &[&Value]) -> Vec<String> {
    let value = |step: &&Value| {
        let read: LinkStep =
            serde_json::from_value((*step).clone()).unwrap_or_else(|error| panic!("{error} in {step}"));
        assert_eq!(read.chain_id, SEPOLIA);
        assert!(read.data.starts_with("0x") && read.to.len() == 42, "{step}");
        let digits = read.value.strip_prefix("0x").expect("0x");
        U256::from_str_radix(digits, 16).expect("a number");
        assert!(digits == "0" || !digits.starts_with('0'), "{step}");
        read.value
    };
    steps.iter().map(value).collect()
}

/// Parses the transactions of a request or payout in the strict format [`PayStep`]; returns the `value` of each.
#[track_caller]
fn objects(steps: &[&Value]) -> Vec<String> {
    let value = |step: &&Value| {
        let read: PayStep = serde_json::from_value((*step).clone()).unwrap_or_else(|error| panic!("{error} in {step}"));
        assert_eq!((read.chain_id, read.value.r#type.as_str()), (SEPOLIA, "BigNumber"));
        assert!(read.data.starts_with("0x") && read.to.len() == 42, "{step}");
        read.value.hex
    };
    steps.iter().map(value).collect()
}

fn list<'a>(answer: &'a Value, member: &str) -> Vec<&'a Value> {
    answer[member].as_array().expect("a list").iter().collect()
}

/// The body of a payout link in the coin of the network.
fn coins(amount: &str) -> Value {
    let mut body = payout_of(OTHER, amount);
    body["currency"] = json!("ETH-sepolia-sepolia");
    body
}

#[tokio::test]
async fn values_of_links_are_hexadecimal_text_and_chains_are_integers() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let other = address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
    let before = app.devnet().native_balance_of(other).await.expect("a balance");

    let single = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let paid = app.pay_link(&single).await;
    assert_eq!(values(&list(&paid, "transactions")), ["0x0", "0x0"]);

    let coin = token_of(&app.payout_link(&coins("0.1")).await.expect(201));
    let paid = app.pay_link(&coin).await;
    assert_eq!(values(&list(&paid, "transactions")), ["0x16345785d8a0000"]);

    let batch = token_of(&app.link(&link_of(&["1", "2"])).await.expect(201));
    let paid = app.pay_link(&batch).await;
    assert_eq!(values(&list(&paid, "ERC20ApprovalTransactions")), ["0x0"]);
    assert_eq!(values(&[&paid["batchPaymentTransaction"]]), ["0x0"]);

    let mut tokens = Vec::new();
    for amount in ["0.1", "0.25"] {
        tokens.push(app.payout_link(&coins(amount)).await.expect(201)["token"].clone());
    }
    let combine = app.post("/v2/secure-payments/batch-payouts").with_key();
    let combined = combine.json(&json!({ "tokens": tokens })).send().await.expect(201);
    let paid = app.pay_link(&token_of(&combined)).await;
    assert_eq!(paid["ERC20ApprovalTransactions"], json!([]));
    assert_eq!(values(&[&paid["batchPaymentTransaction"]]), ["0x4db732547630000"]);

    app.settle().await;
    let received = app.devnet().native_balance_of(other).await.expect("a balance") - before;
    assert_eq!(received, U256::from(450_000_000_000_000_000_u64), "0.1 and 0.35 coins");
    for link in [single, coin, batch, token_of(&combined)] {
        app.open_link(&link, "").send().await.expect(409);
    }
}

#[tokio::test]
async fn values_of_requests_and_payouts_stay_objects_next_to_the_chain() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("1")).await;
    let path = format!("/v2/request/{id}/pay?wallet={}", app.account(PAYER));
    let paid = app.get(&path).with_client().send().await.expect(200);
    assert_eq!(objects(&list(&paid, "transactions")), ["0x00", "0x00"]);
    let mut coin = fau("0.1");
    for member in ["invoiceCurrency", "paymentCurrency"] {
        coin[member] = json!("ETH-sepolia-sepolia");
    }
    let post = async |path: &str, body: &Value| app.post(path).with_client().json(body).send().await.expect(201);
    let paid = post("/v2/payouts", &coin).await;
    assert_eq!(objects(&list(&paid, "transactions")), ["0x016345785d8a0000"]);
    let paid = post("/v2/payouts/batch", &json!({ "requests": [coin, fau("1")] })).await;
    assert_eq!(objects(&[&paid["batchPaymentTransaction"]]), ["0x016345785d8a0000"]);
    let approval = &paid["ERC20ApprovalTransactions"][0];
    assert_eq!(
        (approval["value"].to_string(), approval["chainId"].to_string()),
        ("0".to_owned(), SEPOLIA.to_string())
    );
}

#[tokio::test]
async fn the_printed_client_id_creates_a_payable_link_on_its_first_call() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let payer = dev.text("/chain/accounts/0/address");
    let client = ("x-client-id", dev.text("/backendClientId"));
    let made = dev
        .call_as(client, "/v2/secure-payments", Some(&link_of(&["0.5"])))
        .await;
    let path = format!("/v2/secure-payments/{}/pay?wallet={payer}", token_of(&made));
    let calldata = dev.call_as(client, &path, None).await;
    assert_eq!(values(&list(&calldata, "transactions")), ["0x0", "0x0"]);
    for step in list(&calldata, "transactions") {
        // Passed on unchanged, since wallets accept hexadecimal text as a quantity.
        let call = json!({ "from": payer, "to": step["to"], "data": step["data"], "value": step["value"] });
        let hash = dev.ask_node("eth_sendTransaction", json!([call])).await;
        let receipt = dev.receipt_of(&hash).await;
        assert_eq!(receipt["status"], "0x1", "{receipt}");
    }
    let payout = json!({
        "payee": OTHER, "amount": "1", "invoiceCurrency": "FAU-sepolia", "paymentCurrency": "FAU-sepolia",
    });
    let paid_out = dev.call_as(client, "/v2/payouts", Some(&payout)).await;
    assert_eq!(objects(&list(&paid_out, "transactions")), ["0x00", "0x00"]);
    dev.call_as(client, "/v2/secure-payments/payouts", Some(&payout_of(OTHER, "1")))
        .await;
}
