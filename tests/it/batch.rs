//! Many payments in one transaction: each receiver gets its amount, and each request is found separately.

use crate::support::{
    Answer, TestApp,
    app::settings,
    chain::PAYER,
    receiver::Receiver,
    requests::{PAYEE, fau, request},
};
use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol_types::SolCall,
};
use devnet::{Devnet, NATIVE_PRICE_E8_USD, TxReceiptLite};
use prs::domain::paying::batch_contract::BatchConversionPayments;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

alloy::sol! {
    function setBatchFee(uint16 fee) external;
    function setBatchFeeAmountUSDLimit(uint64 limit) external;
}

const COIN: &str = "ETH-sepolia-sepolia";

/// A new wallet.
fn wallet(seed: usize) -> Address {
    Address::from_word(keccak256(format!("wallet {seed}")))
}

fn item(payee: Address, amount: &str, invoice: &str, payment: &str) -> Value {
    let mut item = request(amount, invoice, payment);
    item["payee"] = json!(payee.to_string());
    item
}

impl TestApp {
    async fn batch(&self, body: &Value) -> Answer {
        self.post("/v2/payouts/batch").with_client().json(body).send().await
    }

    /// Sends the transactions of a batch response, approvals first. The last receipt is the receipt of the payment
    /// transaction.
    async fn pay_batch(&self, answer: &Value) -> Vec<TxReceiptLite> {
        let (chain, mut receipts) = (self.devnet(), Vec::new());
        for approval in answer["ERC20ApprovalTransactions"].as_array().expect("a list") {
            assert_eq!(approval["value"].to_string(), "0", "an integer");
            let (to, data) = call_of(approval);
            receipts.push(chain.send(PAYER, to, data, U256::ZERO).await.expect("mined"));
        }
        let payment = &answer["batchPaymentTransaction"];
        let (to, data) = call_of(payment);
        assert_eq!(payment["value"]["type"], "BigNumber");
        let value = payment["value"]["hex"].as_str().expect("text").trim_start_matches("0x");
        let value = U256::from_str_radix(value, 16).expect("a number");
        receipts.push(chain.send(PAYER, to, data, value).await.expect("mined"));
        assert!(receipts.iter().all(|receipt| receipt.status), "every step succeeds");
        receipts
    }

    /// Payments in a transaction, page by page.
    async fn all_payments_in(&self, tx_hash: B256) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!("/v2/payments?txHash={tx_hash}&limit=100&offset={}", all.len());
            let page = self.get(&path).with_key().send().await.expect(200);
            all.extend(page["payments"].as_array().expect("a list").iter().cloned());
            if page["pagination"]["hasMore"] == false {
                return all;
            }
        }
    }

    async fn found_by(&self, filter: &str) -> Vec<Value> {
        let path = format!("/v2/payments?{filter}");
        let found = self.get(&path).with_key().send().await.expect(200);
        found["payments"].as_array().expect("a list").clone()
    }
}

fn call_of(transaction: &Value) -> (Address, Vec<u8>) {
    let text = |name: &str| transaction[name].as_str().expect("text");
    (
        text("to").parse().expect("an address"),
        hex::decode(text("data")).expect("hexadecimal"),
    )
}

fn ids(answer: &Value) -> Vec<String> {
    let ids = answer["requestIds"].as_array().expect("a list").iter();
    ids.map(|id| id.as_str().expect("text").to_owned()).collect()
}

/// The gas that a mined transaction used, and its cost.
async fn spent(chain: &Devnet, receipt: &TxReceiptLite) -> (u64, U256) {
    let receipt = chain.receipt(receipt.tx_hash).await.expect("an answer").expect("mined");
    let cost = U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
    (receipt.gas_used, cost)
}

/// The balances of all holders in every currency.
struct Holdings(BTreeMap<(Address, Option<Address>), U256>);

impl Holdings {
    async fn of(chain: &Devnet, holders: &BTreeSet<Address>) -> Self {
        let tokens = chain.tokens();
        let mut held = BTreeMap::new();
        for holder in holders {
            for token in [tokens.fau, tokens.usdc, tokens.usdt] {
                let units = chain.balance_of(token, *holder).await.expect("a balance");
                held.insert((*holder, Some(token)), units);
            }
            let units = chain.native_balance_of(*holder).await.expect("a balance");
            held.insert((*holder, None), units);
        }
        Self(held)
    }

    /// The balances that differ from the earlier state `before`, each with its old and its new value.
    fn since(&self, before: &Self) -> BTreeMap<(Address, Option<Address>), (U256, U256)> {
        let changes = self.0.iter().map(|(key, after)| (*key, (before.0[key], *after)));
        changes.filter(|(_, (before, after))| before != after).collect()
    }
}

/// 100 units of the invoice currency, converted to the payment currency on the local chain. The result is in the
/// smallest units of the payment currency.
fn hundred(chain: &Devnet, invoice: &str, payment: &str) -> (Option<Address>, U256) {
    let ten = |digits: u64| U256::from(10).pow(U256::from(digits));
    let tokens = chain.tokens();
    let (token, digits) = match payment {
        "FAU-sepolia" => (Some(tokens.fau), 18),
        "USDC-sepolia" => (Some(tokens.usdc), 6),
        "USDT-sepolia" => (Some(tokens.usdt), 6),
        _ => (None, 18),
    };
    let units = U256::from(100) * ten(digits);
    let in_dollars = match invoice {
        "EUR" => units * U256::from(11) / U256::from(10),
        "GBP" => units * U256::from(13) / U256::from(10),
        _ => units,
    };
    let is_converted = invoice.len() == 3;
    let units = match (is_converted, token) {
        (true, None) => in_dollars * ten(8) / U256::from(NATIVE_PRICE_E8_USD),
        (true, Some(_)) => in_dollars,
        (false, _) => units,
    };
    (token, units)
}

/// Pairs of an invoice currency and a payment currency. Every currency of the local chain is in at least one pair; some
/// pairs need a conversion.
const PAIRS: [(&str, &str); 10] = [
    ("FAU-sepolia", "FAU-sepolia"),
    ("USDC-sepolia", "USDC-sepolia"),
    ("USDT-sepolia", "USDT-sepolia"),
    (COIN, COIN),
    ("USD", "FAU-sepolia"),
    ("EUR", "FAU-sepolia"),
    ("USD", "USDT-sepolia"),
    ("GBP", "USDT-sepolia"),
    ("USD", COIN),
    ("EUR", COIN),
];

/// Pays one request for each pair of currencies, all in one batch. Then compares the balance of every holder with the
/// expected balance.
async fn everybody_gets_what_is_theirs(app: &TestApp, pairs: &[(&str, &str)], fees: &[(u64, Address)], seed: usize) {
    let chain = app.devnet();
    let payer = chain.accounts()[PAYER].address;
    let mut body = json!({ "requests": [], "payer": payer.to_string() });
    if let Some((basis_points, receiver)) = fees.first() {
        body["feePercentage"] = json!(format!("{}.{:02}", basis_points / 100, basis_points % 100));
        body["feeAddress"] = json!(receiver.to_string());
    }
    let mut expected: BTreeMap<(Address, Option<Address>), U256> = BTreeMap::new();
    let mut holders: BTreeSet<Address> = chain.contracts().all().map(|(_, address)| address).into();
    holders.extend(fees.iter().map(|(_, receiver)| *receiver));
    for (index, (invoice, payment)) in pairs.iter().enumerate() {
        let payee = wallet(seed + index);
        let entry = item(payee, "100", invoice, payment);
        body["requests"].as_array_mut().expect("a list").push(entry);
        let (token, units) = hundred(chain, invoice, payment);
        *expected.entry((payee, token)).or_default() += units;
        for (basis_points, receiver) in fees {
            *expected.entry((*receiver, token)).or_default() += units * U256::from(*basis_points) / U256::from(10_000);
        }
        holders.insert(payee);
    }
    let before = Holdings::of(chain, &holders).await;
    let answer = app.batch(&body).await.expect(201);
    let from_payer = Holdings::of(chain, &[payer].into()).await;
    let mut cost = U256::ZERO;
    for receipt in app.pay_batch(&answer).await {
        cost += spent(chain, &receipt).await.1;
    }
    let after = Holdings::of(chain, &holders).await;
    let arrived = after.since(&before).into_iter();
    let arrived: BTreeMap<_, _> = arrived.map(|(key, (before, after))| (key, after - before)).collect();
    let named = format!("{pairs:?} {fees:?}");
    assert_eq!(arrived, expected, "{named}: the contracts keep nothing");
    let left = Holdings::of(chain, &[payer].into()).await;
    let mut spends: BTreeMap<Option<Address>, U256> = [(None, cost)].into();
    for ((_, token), units) in &expected {
        *spends.entry(*token).or_default() += units;
    }
    let left = left.since(&from_payer).into_iter();
    let left: BTreeMap<_, _> = left
        .map(|((_, token), (before, after))| (token, before - after))
        .collect();
    assert_eq!(left, spends, "{named}: the payer spends what the others receive");
    app.settle().await;
    for id in ids(&answer) {
        let read = app.read_request(&id).await;
        assert_eq!(read["status"], "paid", "{named}");
        let payment = &read["payments"][0];
        assert_eq!(payment.get("feeShortfall"), None, "{named}: {payment}");
        assert_eq!(
            read.get("excessAmount"),
            None,
            "{named}: a fee does not count as payment"
        );
    }
}

#[tokio::test]
async fn each_payment_kind_arrives_with_its_fee_and_contracts_keep_nothing() {
    let app = TestApp::on_chain().await;
    let receiver = wallet(9_000);
    for (round, fees) in [vec![], vec![(250, receiver)]].iter().enumerate() {
        for (index, pair) in PAIRS.iter().enumerate() {
            everybody_gets_what_is_theirs(&app, &[*pair], fees, 10_000 + round * 1_000 + index * 10).await;
        }
        everybody_gets_what_is_theirs(&app, &PAIRS, fees, 20_000 + round * 1_000).await;
        let mut twice = [PAIRS, PAIRS].concat();
        twice.reverse();
        everybody_gets_what_is_theirs(&app, &twice, fees, 30_000 + round * 1_000).await;
    }
}

/// Starts a service that charges a fee of its own: this number of basis points, paid to this receiver.
async fn with_own_fee(basis_points: u16, receiver: Address) -> TestApp {
    let mut settings = settings();
    settings.fees.protocol_bps = basis_points;
    settings.fees.protocol_address = Some(receiver.to_string());
    TestApp::on_chain_as(settings, 1).await
}

#[tokio::test]
async fn both_fee_receivers_are_paid_for_every_payment_kind() {
    let (platform, service) = (wallet(9_000), wallet(9_001));
    let app = with_own_fee(50, service).await;
    let fees = [(250, platform), (50, service)];
    for (index, pair) in PAIRS.iter().enumerate() {
        everybody_gets_what_is_theirs(&app, &[*pair], &fees, 10_000 + index * 10).await;
    }
    everybody_gets_what_is_theirs(&app, &PAIRS, &fees, 20_000).await;
    let mut twice = [PAIRS, PAIRS].concat();
    twice.reverse();
    everybody_gets_what_is_theirs(&app, &twice, &fees, 30_000).await;
}

#[tokio::test]
async fn the_contract_fee_is_refunded_when_no_other_fee_receiver_exists() {
    let app = TestApp::on_chain().await;
    let chain = app.devnet();
    let contract = chain.contracts().batch_conversion_payments;
    let set = async |call: Vec<u8>| {
        let sent = chain.send(0, contract, call, U256::ZERO).await;
        assert!(sent.expect("mined").status);
    };
    set(setBatchFeeCall { fee: 30 }.abi_encode()).await;
    let receiver = wallet(9_000);
    let refused = app.batch(&json!({ "requests": [fau("1")] })).await;
    assert_eq!(refused.wrong_fields(), ["payer"], "{}", refused.text);
    // Without a fee limit, with a limit that is reached, and with a limit of zero.
    for (round, limit) in [u64::MAX, 500_000_000, 0].into_iter().enumerate() {
        set(setBatchFeeAmountUSDLimitCall { limit }.abi_encode()).await;
        everybody_gets_what_is_theirs(&app, &PAIRS, &[], 1_000 * (round + 1)).await;
        let payer = app.account(PAYER);
        let body = json!({ "requests": PAIRS.map(|(invoice, payment)| item(wallet(70 + round), "100", invoice, payment)),
                           "payer": payer, "feePercentage": "1", "feeAddress": receiver.to_string() });
        let answer = app.batch(&body).await.expect(201);
        let contracts: BTreeSet<Address> = chain.contracts().all().map(|(_, address)| address).into();
        let before = Holdings::of(chain, &contracts).await;
        let fees = chain
            .balance_of(chain.tokens().usdc, receiver)
            .await
            .expect("a balance");
        app.pay_batch(&answer).await;
        assert!(Holdings::of(chain, &contracts).await.since(&before).is_empty());
        let fees = chain
            .balance_of(chain.tokens().usdc, receiver)
            .await
            .expect("a balance")
            - fees;
        // 1 % of 100 USDC, and 0.3 % for the contract up to its limit.
        let expected = [1_300_000, 1_000_000, 1_000_000][round];
        match round {
            0 => assert_eq!(fees, U256::from(expected)),
            _ => assert!(fees >= U256::from(expected) && fees <= U256::from(1_300_000), "{fees}"),
        }
    }
}

/// Pays a batch in which each payment goes to its own wallet, within the gas limit of one transaction; returns the gas.
/// Checks that each request is paid, reported once, and found by its transaction, payee and reference.
async fn each_is_found_by_itself(app: &TestApp, receiver: &Receiver, answer: &Value) -> u64 {
    let ids = ids(answer);
    let receipt = app.pay_batch(answer).await.pop().expect("a payment");
    let (gas, _) = spent(app.devnet(), &receipt).await;
    assert!(gas <= 16_777_216, "{gas}");
    app.settle().await;
    let found = app.all_payments_in(receipt.tx_hash).await;
    let found: Vec<&str> = found
        .iter()
        .filter_map(|payment| payment["request"]["requestId"].as_str())
        .collect();
    assert_eq!(found.len(), ids.len(), "one payment for each request");
    let found: BTreeSet<&str> = found.into_iter().collect();
    assert_eq!(
        found,
        ids.iter().map(String::as_str).collect(),
        "found by the transaction"
    );
    for (index, id) in ids.iter().enumerate() {
        let read = app.read_request(id).await;
        assert_eq!(
            (&read["status"], &read["payerAddress"]),
            (&json!("paid"), &json!(app.account(PAYER)))
        );
        assert_eq!(read["payments"][0].get("feeShortfall"), None, "{read}");
        let reference = read["paymentReference"].as_str().expect("text");
        for filter in [
            format!("walletAddress={}", wallet(index)),
            format!("paymentReference={reference}"),
        ] {
            let found = app.found_by(&filter).await;
            assert_eq!(found.len(), 1, "{filter}");
            assert_eq!(found[0]["request"]["requestId"], json!(id), "{filter}");
        }
    }
    let events = receiver.received().await;
    let told = events.iter().map(|event| {
        let body = event.json();
        assert_eq!(body["event"], "payment.confirmed");
        body["requestId"].as_str().expect("text").to_owned()
    });
    let told: BTreeSet<String> = told.collect();
    assert_eq!((events.len(), told.len()), (ids.len(), ids.len()), "one event each");
    gas
}

#[tokio::test]
async fn two_hundred_payments_fit_one_transaction_and_are_found_separately() {
    let (fee, own_fee) = (wallet(9_000), wallet(9_001));
    let app = with_own_fee(50, own_fee).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let payments: Vec<Value> = (0..200)
        .map(|index| {
            let currency = ["FAU-sepolia", "USDC-sepolia", COIN, "USDT-sepolia"][index % 4];
            item(wallet(index), "1.5", currency, currency)
        })
        .collect();
    let body = json!({ "requests": payments, "payer": app.account(PAYER), "feePercentage": "1", "feeAddress": fee.to_string() });
    let answer = app.batch(&body).await.expect(201);
    assert_eq!(ids(&answer).len(), 200);
    let gas = each_is_found_by_itself(&app, &receiver, &answer).await;
    println!("200 payments in three tokens and the coin, fees to two receivers: {gas} gas");
    let usdc = app.devnet().tokens().usdc;
    for (receiver, units) in [(fee, 15_000), (own_fee, 7_500)] {
        let fees = app.devnet().balance_of(usdc, receiver).await.expect("a balance");
        assert_eq!(fees, U256::from(50 * units));
    }
}

#[tokio::test]
async fn a_too_large_batch_error_states_the_largest_batch_that_fits() {
    let app = with_own_fee(50, wallet(9_001)).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let mix = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|index| {
                let (invoice, payment) = PAIRS[(index * 3 + 5) % PAIRS.len()];
                item(wallet(index), "1.5", invoice, payment)
            })
            .collect()
    };
    let body = |count: usize| json!({ "requests": mix(count), "payer": app.account(PAYER), "feePercentage": "1", "feeAddress": wallet(9_000).to_string() });
    let refused = app.batch(&body(200)).await;
    assert_eq!(refused.wrong_fields(), ["requests"], "{}", refused.text);
    let errors = refused.json()["errors"].clone();
    let sentence = errors[0]["message"].as_str().expect("text");
    let fitting = sentence
        .rsplit("the first ")
        .next()
        .and_then(|rest| rest.split(' ').next());
    let fitting: usize = fitting.and_then(|count| count.parse().ok()).expect("a number");
    assert_eq!(app.batch(&body(fitting + 1)).await.wrong_fields(), ["requests"]);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["pagination"]["total"], 0, "a rejected batch stores nothing");
    let answer = app.batch(&body(fitting)).await.expect(201);
    let gas = each_is_found_by_itself(&app, &receiver, &answer).await;
    println!("the largest mix of all kinds, fees to two receivers: {fitting} payments, {gas} gas");
}

#[tokio::test]
async fn unpayable_requests_are_rejected_alone_and_in_a_batch() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("5")).await;
    for (status, alone, in_batch) in [
        (
            "paid",
            "Request has already been paid",
            "this one has already been paid",
        ),
        ("cancelled", "Request has been cancelled", "this one has been cancelled"),
        (
            "processing",
            "A payment of this request is in progress",
            "must be a request without a payment in progress",
        ),
        (
            "failed",
            "The payment of this request failed or was refunded",
            "failed or was refunded",
        ),
        (
            "refunded",
            "The payment of this request failed or was refunded",
            "failed or was refunded",
        ),
    ] {
        let writer = app.ctx.db.writer();
        let changed = format!("UPDATE requests SET status = '{status}'");
        writer.execute_unprepared(&changed).await.expect("written");
        let refused = app.get(&format!("/v2/request/{id}/pay")).with_key().send().await;
        assert_eq!(refused.expect(400)["message"], alone);
        let refused = app.batch(&json!({ "requestIds": [id] })).await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["requestIds[0]".to_owned()])
        );
        assert!(refused.text.contains(in_batch), "{}", refused.text);
    }
}

#[tokio::test]
async fn existing_requests_in_a_batch_are_paid_their_remaining_amount() {
    let app = TestApp::on_chain().await;
    let (part, whole) = (app.create_request(&fau("5")).await, app.create_request(&fau("7")).await);
    app.pay(&part, "&amount=2").await;
    app.settle().await;
    let done = app.paid_request("1").await;
    app.settle().await;
    let payee: Address = PAYEE.parse().expect("an address");
    let token = app.devnet().tokens().fau;
    let before = app.devnet().balance_of(token, payee).await.expect("a balance");
    let answer = app.batch(&json!({ "requestIds": [part, whole] })).await.expect(201);
    assert_eq!(ids(&answer), [part.clone(), whole.clone()]);
    assert_eq!(answer["ERC20ApprovalTransactions"].as_array().map(Vec::len), Some(1));
    assert_eq!(app.read_request(&whole).await["isListening"], true);
    app.pay_batch(&answer).await;
    app.settle().await;
    let after = app.devnet().balance_of(token, payee).await.expect("a balance");
    assert_eq!(after - before, U256::from(10) * U256::from(10).pow(U256::from(18)));
    for id in [&part, &whole] {
        let read = app.read_request(id).await;
        assert_eq!((&read["status"], read.get("excessAmount")), (&json!("paid"), None));
    }
    for (list, status, field) in [
        (json!([whole]), 400, "requestIds[0]"),
        (json!([done]), 400, "requestIds[0]"),
        (json!([part, part]), 400, "requestIds[1]"),
        (json!([part, "0".repeat(66)]), 404, "requestIds[1]"),
    ] {
        let refused = app.batch(&json!({ "requestIds": list })).await;
        assert_eq!(refused.status, status, "{list}: {}", refused.text);
        assert!(
            refused.wrong_fields().contains(&field.to_owned()),
            "{list}: {}",
            refused.text
        );
    }
    let cancelled = app.create_request(&fau("1")).await;
    let cancel = app.post(&format!("/v2/request/{cancelled}/cancel")).with_key();
    cancel.send().await.expect(200);
    let refused = app.batch(&json!({ "requestIds": [cancelled] })).await;
    assert_eq!(refused.wrong_fields(), ["requestIds[0]"]);
    assert!(refused.text.contains("has been cancelled"), "{}", refused.text);
    let (foreign, _) = app.other_tenant().await;
    let theirs = app.create_request_as(("x-api-key", &foreign), &fau("1")).await;
    let refused = app.batch(&json!({ "requestIds": [theirs] })).await;
    assert_eq!(
        (refused.status, &refused.json()["message"]),
        (404, &json!("Request not found"))
    );
}

#[tokio::test]
async fn payer_changes_to_a_batch_are_detected_for_each_payment() {
    let app = TestApp::on_chain().await;
    let receiver = wallet(9_000);
    let pairs = [
        ("FAU-sepolia", "FAU-sepolia"),
        ("FAU-sepolia", "FAU-sepolia"),
        ("USD", "FAU-sepolia"),
        ("USD", "FAU-sepolia"),
    ];
    let items = pairs.map(|(invoice, payment)| item(wallet(1), "100", invoice, payment));
    let body = json!({ "requests": items, "payer": app.account(PAYER), "feePercentage": "1", "feeAddress": receiver.to_string() });
    let mut answer = app.batch(&body).await.expect(201);
    let (_, data) = call_of(&answer["batchPaymentTransaction"]);
    let mut call = BatchConversionPayments::batchPaymentsCall::abi_decode(&data).expect("a batch");
    let [converted, direct] = &mut call.metaDetails[..] else {
        panic!("two kinds");
    };
    converted.requestDetails[1].maxRateTimespan = U256::ZERO;
    direct.requestDetails[1].feeAmount = U256::ZERO;
    answer["batchPaymentTransaction"]["data"] = json!(hex::encode_prefixed(call.abi_encode()));
    app.pay_batch(&answer).await;
    app.settle().await;
    let mut states = Vec::new();
    for id in ids(&answer) {
        let read = app.read_request(&id).await;
        let shortfall = read["payments"][0].get("feeShortfall").cloned();
        states.push((
            read["status"].clone(),
            shortfall,
            read.get("quarantinedPayments").is_some(),
        ));
    }
    let paid = json!("paid");
    let expected = [
        (paid.clone(), None, false),
        (paid.clone(), Some(json!("1")), false),
        (paid, None, false),
        (json!("pending"), None, true),
    ];
    assert_eq!(states, expected);
}

#[tokio::test]
async fn invalid_batch_combinations_are_rejected_in_a_fixed_order() {
    let app = TestApp::on_chain().await;
    let good = fau("1");
    let with = |index: usize, change: Value| {
        let mut items = vec![good.clone(); 20];
        for (name, value) in change.as_object().expect("an object") {
            items[index][name] = value.clone();
        }
        json!({ "requests": items })
    };
    let tron = "Batch payments are not supported for TRON networks. Please submit individual payment requests.";
    let several = "All requests must be on the same network";
    let wrong = "Validation failed";
    let on_tron = json!({ "payee": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "amount": "0.0000000000000000000000001" });
    let mut with_fee = json!({ "requests": [good], "feePercentage": "1" });
    let mut with_receiver = json!({ "requests": [good], "feeAddress": PAYEE });
    let mut to_contract = with_receiver.clone();
    to_contract["feePercentage"] = json!("1");
    to_contract["feeAddress"] = json!(app.devnet().tokens().fau.to_string());
    for body in [&mut with_fee, &mut with_receiver] {
        body["payer"] = json!(app.account(PAYER));
    }
    for (body, message, field) in [
        (json!({}), wrong, "requests"),
        (json!({ "requests": [good], "requestIds": ["01"] }), wrong, "requestIds"),
        (json!({ "requests": [] }), wrong, "requests"),
        (json!({ "requestIds": [] }), wrong, "requestIds"),
        (json!({ "requests": vec![good.clone(); 201] }), wrong, "requests"),
        (json!({ "requests": [{ "payee": PAYEE }] }), wrong, "requests[0].amount"),
        (with(17, json!({ "payee": "nobody" })), wrong, "requests[17].payee"),
        (with(17, on_tron), tron, ""),
        (with(3, json!({ "paymentCurrency": "USDT-tron" })), tron, ""),
        (with(3, json!({ "paymentCurrency": "TRX-tron" })), tron, ""),
        (with(3, json!({ "invoiceCurrency": "USDC-tron" })), tron, ""),
        (
            with(
                3,
                json!({ "paymentCurrency": "USDC-base", "amount": "1.0000000000000000001" }),
            ),
            several,
            "",
        ),
        (
            with(17, json!({ "payee": app.devnet().tokens().fau.to_string() })),
            wrong,
            "requests[17].payee",
        ),
        (with(17, json!({ "amount": "0" })), wrong, "requests[17].amount"),
        (
            with(17, json!({ "amount": "1.0000000000000000001" })),
            wrong,
            "requests[17].amount",
        ),
        (
            with(5, json!({ "invoiceCurrency": "NOPE-sepolia" })),
            wrong,
            "requests[5].invoiceCurrency",
        ),
        (
            with(5, json!({ "paymentCurrency": "NOPE-sepolia" })),
            wrong,
            "requests[5].paymentCurrency",
        ),
        (
            with(5, json!({ "paymentCurrency": "USD" })),
            wrong,
            "requests[5].paymentCurrency",
        ),
        (
            with(5, json!({ "paymentCurrency": "USDC-sepolia" })),
            wrong,
            "requests[5].paymentCurrency",
        ),
        (
            json!({ "requests": [good], "payer": PAYEE }),
            wrong,
            "requests[0].payee",
        ),
        (
            json!({ "requests": [good], "payer": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8" }),
            wrong,
            "payer",
        ),
        (with_fee, wrong, "feeAddress"),
        (with_receiver, wrong, "feePercentage"),
        (to_contract, wrong, "feeAddress"),
    ] {
        let refused = app.batch(&body).await;
        let json = refused.expect(400);
        assert_eq!(json["message"], message, "{json}");
        assert!(
            field.is_empty() || refused.wrong_fields().contains(&field.to_owned()),
            "{field}: {json}"
        );
    }
    let all_off = with(3, json!({ "paymentCurrency": "USDC-base" }))["requests"][3].clone();
    let refused = app.batch(&json!({ "requests": [all_off] })).await;
    assert_eq!(refused.wrong_fields(), ["requests[0].paymentCurrency"]);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["pagination"]["total"], 0, "a rejected batch stores nothing");
}

#[tokio::test]
async fn a_sum_over_256_bits_names_the_entry_that_exceeds_it() {
    let app = TestApp::on_chain().await;
    let most = "115792089237316195423570985008687907853269984665640564039457";
    let refused = app
        .batch(&json!({ "requests": [fau(most), fau(most), fau("1")] }))
        .await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(refused.wrong_fields(), ["requests[1].amount"]);
    assert!(
        refused
            .text
            .contains("does not fit into one transaction with the previous payments")
            && !refused.text.contains("fee"),
        "{}",
        refused.text
    );
    let (one, other) = (
        app.create_request(&fau("1")).await,
        app.create_request(&fau(most)).await,
    );
    let mut body = json!({ "requestIds": [one, other], "payer": app.account(PAYER) });
    let refused = app.batch(&body).await;
    assert_eq!(refused.wrong_fields(), ["requestIds[1]"], "{}", refused.text);
    body["feePercentage"] = json!("100");
    body["feeAddress"] = json!(wallet(1).to_string());
    body["requestIds"] = json!([other]);
    let refused = app.batch(&body).await;
    assert_eq!(refused.wrong_fields(), ["requestIds[0]"], "{}", refused.text);
}

#[tokio::test]
async fn client_id_limits_apply_to_every_payment_of_a_batch() {
    let app = TestApp::on_chain().await;
    let members = json!({ "allowedPayees": [PAYEE], "maxAmount": { "amount": "10", "currency": "FAU-sepolia" } });
    let client = app.shop_client(&members).await;
    let client = client["clientId"].as_str().expect("text").to_owned();
    let call = async |requests: Value| {
        let call = app.post("/v2/payouts/batch").header("x-client-id", &client);
        let call = call.header("origin", "https://shop.example.com");
        call.json(&json!({ "requests": requests })).send().await
    };
    let other = item(wallet(1), "1", "FAU-sepolia", "FAU-sepolia");
    let refused = call(json!([fau("1"), other, fau("10.5")])).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(refused.wrong_fields(), ["requests[1].payee", "requests[2].amount"]);
    call(json!([fau("1"), fau("9")])).await.expect(201);
}

#[tokio::test]
async fn a_batch_stores_response_and_requests_or_neither_without_a_node() {
    let app = TestApp::on_chain().await;
    let call = async |key: &str, body: &Value| {
        let call = app.post("/v2/payouts/batch").with_client();
        call.header("idempotency-key", key).json(body).send().await
    };
    let body = json!({ "requests": [fau("1"), fau("2")] });
    let first = call("one", &body).await;
    first.expect(201);
    let again = call("one", &body).await;
    assert_eq!((again.status, &again.text), (201, &first.text), "byte for byte");
    assert_eq!(call("one", &json!({ "requests": [fau("1")] })).await.status, 409);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["pagination"]["total"], 2);

    let app = TestApp::start().await;
    let refused = app.batch(&body).await;
    assert_eq!(refused.status, 502, "{}", refused.text);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["pagination"]["total"], 0);
}

#[tokio::test]
async fn sufficient_allowances_need_no_approval() {
    let app = TestApp::on_chain().await;
    let chain = app.devnet();
    let usdt = request("100", "USDT-sepolia", "USDT-sepolia");
    let body = json!({ "requests": [fau("1"), usdt], "payer": app.account(PAYER) });
    let approvals = async |body: &Value| {
        let answer = app.batch(body).await.expect(201);
        let list = answer["ERC20ApprovalTransactions"].as_array().expect("a list").clone();
        list.iter().map(|one| call_of(one).0).collect::<Vec<_>>()
    };
    let tokens = chain.tokens();
    assert_eq!(approvals(&body).await, [tokens.fau, tokens.usdt]);
    let unknown = json!({ "requests": body["requests"] });
    assert_eq!(
        approvals(&unknown).await,
        [tokens.fau, tokens.usdt, tokens.usdt],
        "the payer is unknown, so a reset is included"
    );
    let contract = chain.contracts().batch_conversion_payments;
    for (token, units) in [(tokens.fau, U256::MAX), (tokens.usdt, U256::from(99_999_999))] {
        chain.approve(PAYER, token, contract, units).await.expect("approved");
    }
    assert_eq!(
        approvals(&body).await,
        [tokens.usdt, tokens.usdt],
        "one unit is missing"
    );
    let answer = app.batch(&body).await.expect(201);
    app.pay_batch(&answer).await;
}

#[tokio::test]
async fn the_gas_limit_of_a_transaction_is_configurable() {
    let mut settings = settings();
    settings.payouts.batch_gas = 500_000;
    let app = TestApp::on_chain_as(settings, 1).await;
    let refused = app.batch(&json!({ "requests": vec![fau("1"); 9] })).await;
    assert_eq!(refused.wrong_fields(), ["requests"]);
    assert!(
        refused.text.contains("one transaction may use 500000; the first 6 fit"),
        "{}",
        refused.text
    );
    app.batch(&json!({ "requests": vec![fau("1"); 6] })).await.expect(201);
}

#[tokio::test]
async fn a_wrong_batch_contract_is_reported_as_a_configuration_error() {
    let (mut settings, chain) = TestApp::local_chain(settings(), 1).await;
    let section = settings.chains.get_mut("sepolia").expect("the network");
    let contracts = &mut section.contracts;
    contracts.insert("BatchConversionPayments".to_owned(), chain.tokens().usdc.to_string());
    let app = TestApp::with(settings, Some(chain)).await;
    let items = [fau("1"), fau("2")];
    let refused = app.batch(&json!({ "requests": items })).await.expect(502);
    let message = refused["message"].as_str().expect("a sentence");
    assert!(
        message.contains("sepolia") && message.contains("the operator"),
        "{message}"
    );
    assert!(!message.contains("check the wallet"), "{message}");
}
