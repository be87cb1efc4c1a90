//! Fees in calldata: every receiver gets exactly its stated amount, and nothing stays in a contract.

use crate::support::{
    TestApp,
    app::settings,
    chain::{PAYER, transactions},
    requests::{PAYEE, fau, request},
    schedules::{FIRST_DAY, recurring, schedule, units},
};
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use devnet::Devnet;
use prs::{domain::paying::fee_proxy::Erc20FeeProxy, settings::Settings};
use serde_json::{Value, json};

/// Index of the account that receives the platform's fee; the next constant is for the fee of the service.
const PLATFORM: usize = 6;
const PROTOCOL: usize = 7;

/// A kind of payment: its amount, its currencies, and what three receivers get, in thousandths of `unit`. The receivers
/// are the payee, the receiver of a fee of 2.5 %, and the receiver of a fee of 0.5 %.
struct Kind {
    amount: &'static str,
    invoice: &'static str,
    payment: &'static str,
    unit: fn(&Devnet) -> (Option<Address>, u64),
    gets: [u64; 3],
}

const KINDS: [Kind; 6] = [
    Kind {
        amount: "100",
        invoice: "FAU-sepolia",
        payment: "FAU-sepolia",
        unit: fau_unit,
        gets: [100_000, 2_500, 500],
    },
    Kind {
        amount: "100",
        invoice: "USDT-sepolia",
        payment: "USDT-sepolia",
        unit: usdt_unit,
        gets: [100_000, 2_500, 500],
    },
    Kind {
        amount: "1",
        invoice: "ETH-sepolia-sepolia",
        payment: "ETH-sepolia-sepolia",
        unit: coin_unit,
        gets: [1_000_000_000, 25_000_000, 5_000_000],
    },
    Kind {
        amount: "100",
        invoice: "USD",
        payment: "FAU-sepolia",
        unit: fau_unit,
        gets: [100_000, 2_500, 500],
    },
    Kind {
        amount: "100",
        invoice: "USD",
        payment: "USDT-sepolia",
        unit: usdt_unit,
        gets: [100_000, 2_500, 500],
    },
    // 25 euros are 27.50 dollars, and a coin costs 2,500 of them.
    Kind {
        amount: "25",
        invoice: "EUR",
        payment: "ETH-sepolia-sepolia",
        unit: coin_unit,
        gets: [11_000_000, 275_000, 55_000],
    },
];

fn fau_unit(chain: &Devnet) -> (Option<Address>, u64) {
    (Some(chain.tokens().fau), 1_000_000_000_000_000)
}

fn usdt_unit(chain: &Devnet) -> (Option<Address>, u64) {
    (Some(chain.tokens().usdt), 1_000)
}

fn coin_unit(_: &Devnet) -> (Option<Address>, u64) {
    (None, 1_000_000_000)
}

fn charging(protocol_bps: u16, receiver: usize) -> Settings {
    let accounts = [
        "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
        "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
    ];
    let mut settings = settings();
    settings.fees.protocol_bps = protocol_bps;
    settings.fees.protocol_address = Some(accounts[receiver - PLATFORM].to_owned());
    settings
}

async fn balance(chain: &Devnet, token: Option<Address>, holder: Address) -> U256 {
    let balance = match token {
        Some(token) => chain.balance_of(token, holder).await,
        None => chain.native_balance_of(holder).await,
    };
    balance.expect("a balance")
}

/// Pays with issued calldata and checks that no balance stays in a contract. Returns what the payee and both fee
/// receivers gained, and what the payer lost apart from gas.
async fn paid(app: &TestApp, calldata: &Value, token: Option<Address>) -> [U256; 4] {
    let chain = app.devnet();
    let account = |index: usize| chain.accounts()[index].address;
    let payee: Address = PAYEE.parse().expect("an address");
    let people = [payee, account(PLATFORM), account(PROTOCOL), account(PAYER)];
    let contracts = chain.contracts().all().map(|(_, contract)| contract);
    let mut before = Vec::new();
    for holder in people.iter().chain(&contracts) {
        before.push(balance(chain, token, *holder).await);
    }
    let receipts = chain.pay(PAYER, &transactions(calldata)).await.expect("mined");
    assert!(
        receipts.iter().all(|receipt| receipt.status),
        "a step failed: {calldata}"
    );
    let mut gas = U256::ZERO;
    for receipt in &receipts {
        let receipt = chain
            .receipt(receipt.tx_hash)
            .await
            .expect("an answer")
            .expect("a receipt");
        gas += U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
    }
    for (contract, before) in contracts.iter().zip(&before[people.len()..]) {
        assert_eq!(
            balance(chain, token, *contract).await,
            *before,
            "something is left in {contract}"
        );
    }
    let mut moved = [U256::ZERO; 4];
    for (index, holder) in people.iter().enumerate() {
        let after = balance(chain, token, *holder).await;
        moved[index] = match index {
            3 if token.is_none() => before[index] - after - gas,
            3 => before[index] - after,
            _ => after - before[index],
        };
    }
    moved
}

/// Requests calldata for a kind of payment, either by creating a payout or for an existing request.
async fn handed_out(app: &TestApp, kind: &Kind, is_payout: bool, fee: &Value) -> (String, Value) {
    let mut body = request(kind.amount, kind.invoice, kind.payment);
    if is_payout {
        body["payerWallet"] = json!(app.account(PAYER));
        for (name, value) in fee.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let made = app
            .post("/v2/payouts")
            .with_client()
            .json(&body)
            .send()
            .await
            .expect(201);
        return (made["requestId"].as_str().expect("an id").to_owned(), made);
    }
    let id = app.create_request(&body).await;
    let fields = fee.as_object().expect("an object").iter();
    let query: String = fields
        .map(|(name, value)| format!("&{name}={}", value.as_str().expect("text")))
        .collect();
    let calldata = app.calldata(&id, &query).await;
    (id, calldata)
}

/// Pays every kind of payment, with and without a platform fee in the call, and compares every balance with the
/// expected one.
async fn every_kind_pays_its_receivers(app: &TestApp, protocol: Option<usize>) {
    for (index, kind) in KINDS.iter().enumerate() {
        let (token, scale) = (kind.unit)(app.devnet());
        for has_platform in [false, true] {
            let fee = if has_platform {
                json!({ "feePercentage": "2.5", "feeAddress": app.account(PLATFORM) })
            } else {
                json!({})
            };
            let (id, calldata) =
                handed_out(app, kind, (index + usize::from(has_platform)).is_multiple_of(2), &fee).await;
            let shown = |receiver: usize, percentage: &str| json!({ "percentage": percentage, "address": app.account(receiver) });
            let metadata = &calldata["metadata"];
            let platform_fee = has_platform.then(|| shown(PLATFORM, "2.5"));
            let protocol_fee = protocol.map(|receiver| shown(receiver, "0.5"));
            assert_eq!(metadata.get("platformFee"), platform_fee.as_ref());
            assert_eq!(metadata.get("protocolFee"), protocol_fee.as_ref());
            assert_eq!(
                (&metadata["hasEnoughBalance"], &metadata["hasEnoughGas"]),
                (&json!(true), &json!(true))
            );
            let [payee, platform, own] = kind.gets.map(|units| U256::from(units) * U256::from(scale));
            let mut wanted = [payee, U256::ZERO, U256::ZERO, payee];
            if has_platform {
                wanted[1] += platform;
                wanted[3] += platform;
            }
            if let Some(receiver) = protocol {
                wanted[1 + receiver - PLATFORM] += own;
                wanted[3] += own;
            }
            let name = format!("{} {} with fee {has_platform}", kind.invoice, kind.payment);
            assert_eq!(paid(app, &calldata, token).await, wanted, "{name}");
            app.settle().await;
            let read = app.read_request(&id).await;
            assert_eq!(read["status"], "paid", "{name}: {read}");
            let payments = read["payments"].as_array().expect("a list");
            assert_eq!(payments.len(), 1, "{name}");
            assert_eq!(payments[0].get("feeShortfall"), None, "{name}: {read}");
            let fees = payments[0]["fees"].as_array().expect("a list");
            let receivers: Vec<&str> = fees
                .iter()
                .map(|fee| fee["receiverAddress"].as_str().expect("an address"))
                .collect();
            let mut expected: Vec<String> = Vec::new();
            expected.extend(has_platform.then(|| app.account(PLATFORM)));
            expected.extend(protocol.map(|receiver| app.account(receiver)));
            expected.dedup();
            assert_eq!(receivers, expected, "{name}");
            assert_eq!(read["fees"].as_array().expect("a list").len(), expected.len(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_fee_of_the_call_reaches_its_receiver() {
    every_kind_pays_its_receivers(&TestApp::on_chain().await, None).await;
}

#[tokio::test]
async fn service_and_call_fees_both_reach_their_receivers_or_nothing_is_paid() {
    let app = TestApp::on_chain_as(charging(50, PROTOCOL), 1).await;
    every_kind_pays_its_receivers(&app, Some(PROTOCOL)).await;
}

#[tokio::test]
async fn one_receiver_gets_both_fees_together() {
    let app = TestApp::on_chain_as(charging(50, PLATFORM), 1).await;
    every_kind_pays_its_receivers(&app, Some(PLATFORM)).await;
}

#[tokio::test]
async fn the_service_fee_on_dollar_amounts_is_capped() {
    let mut settings = charging(50, PROTOCOL);
    settings.fees.protocol_cap_usd = Some(3);
    let app = TestApp::on_chain_as(settings, 1).await;
    for (amount, currency, capped, whole) in [
        ("10000", "USDC-sepolia", true, 50_000_000_u64),
        ("600", "USDC-sepolia", false, 3_000_000),
        ("10000", "FAU-sepolia", false, 50),
    ] {
        let id = app.create_request(&request(amount, currency, currency)).await;
        let steps = transactions(&app.calldata(&id, "").await);
        let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&steps.last().expect("a payment").1);
        let call = call.expect("a payment");
        let wanted = match (capped, currency) {
            (true, _) => U256::from(3_000_000),
            (false, "FAU-sepolia") => U256::from(whole) * U256::from(10).pow(U256::from(18)),
            (false, _) => U256::from(whole),
        };
        assert_eq!(call.feeAmount, wanted, "{amount} {currency}");
        assert_eq!(call.feeAddress.to_string(), app.account(PROTOCOL));
    }
}

#[tokio::test]
async fn a_payer_who_omits_the_service_fee_is_credited_with_a_shortfall() {
    let app = TestApp::on_chain_as(charging(50, PROTOCOL), 1).await;
    for fee in [
        "",
        "&feePercentage=2.5&feeAddress=0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    ] {
        let id = app.create_request(&fau("100")).await;
        app.calldata(&id, fee).await;
        let read = app.read_request(&id).await;
        let proxy = app.devnet().contracts().erc20_fee_proxy;
        let token = app.devnet().tokens().fau;
        app.devnet()
            .approve(PAYER, token, proxy, U256::MAX)
            .await
            .expect("approved");
        let reference = read["paymentReference"].as_str().expect("a reference");
        let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall {
            token,
            to: PAYEE.parse().expect("an address"),
            amount: U256::from(100) * U256::from(10).pow(U256::from(18)),
            paymentReference: hex::decode(reference).expect("hexadecimal").into(),
            feeAmount: U256::ZERO,
            feeAddress: Address::ZERO,
        };
        let sent = app.devnet().send(PAYER, proxy, call.abi_encode(), U256::ZERO).await;
        assert!(sent.expect("mined").status);
        app.settle().await;
        let read = app.read_request(&id).await;
        let missing = if fee.is_empty() { "0.5" } else { "3" };
        assert_eq!(
            (&read["status"], &read["payments"][0]["feeShortfall"]),
            (&json!("paid"), &json!(missing))
        );
    }
}

#[tokio::test]
async fn a_recurring_payout_allows_one_fee_receiver_and_rejects_two() {
    let mut settings = charging(50, PROTOCOL);
    settings.relayer.public_client_ids = true;
    let app = TestApp::on_chain_as(settings, 1).await;
    let with_fee = |receiver: usize| {
        let mut body = recurring(&app, 2);
        body["feePercentage"] = json!("2");
        body["feeAddress"] = json!(app.account(receiver));
        body
    };
    let refused = app.new_schedule(&with_fee(PLATFORM)).await;
    let answer = refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["feeAddress"]);
    let sentence = answer["errors"][0]["message"].as_str().expect("text");
    assert!(sentence.contains(&app.account(PROTOCOL)), "{sentence}");
    let fee = json!({ "feePercentage": "1", "feeAddress": app.account(PLATFORM) });
    let client = app.shop_client(&fee).await;
    let client = client["clientId"].as_str().expect("text");
    let call = app.post("/v2/payouts").header("x-client-id", client);
    let call = call.header("origin", "https://shop.example.com");
    let refused = call.json(&recurring(&app, 2)).send().await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["recurrence"]);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["pagination"]["total"], 0, "nothing is stored");

    let (token, receiver) = (app.devnet().tokens().fau, app.devnet().accounts()[PROTOCOL].address);
    for (body, each) in [(recurring(&app, 2), "0.0075"), (with_fee(PROTOCOL), "0.0375")] {
        let made = schedule(&app, &body).await;
        let values = &made["recurringPaymentPermit"]["values"];
        assert_eq!(
            (&values["feeAddress"], &values["feeAmount"]),
            (&json!(app.account(PROTOCOL)), &json!(units(each).to_string()))
        );
        let before = balance(app.devnet(), Some(token), receiver).await;
        app.both_to(FIRST_DAY).await;
        app.execute().await;
        assert_eq!(balance(app.devnet(), Some(token), receiver).await - before, units(each));
        let read = app.read_request(made["requestId"].as_str().expect("an id")).await;
        assert_eq!(read["status"], "paid");
        assert_eq!(read["payments"][0].get("feeShortfall"), None, "{read}");
    }
}

#[tokio::test]
async fn the_service_fee_cap_applies_to_recurring_dollar_payouts() {
    let mut settings = charging(50, PROTOCOL);
    settings.fees.protocol_cap_usd = Some(3);
    let app = TestApp::on_chain_as(settings, 1).await;
    for invoice in ["USD", "USDT-sepolia"] {
        let mut body = request("10000", invoice, "USDT-sepolia");
        body["recurrence"] = recurring(&app, 2)["recurrence"].clone();
        let made = app.new_schedule(&body).await.expect(201);
        let fee = &made["recurringPaymentPermit"]["values"]["feeAmount"];
        assert_eq!(fee, "3000000", "{invoice}");
    }
}

#[tokio::test]
async fn fee_settings_are_checked_at_startup() {
    let wrong = |change: fn(&mut Settings)| {
        let mut settings = charging(50, PROTOCOL);
        change(&mut settings);
        settings.validate().map_err(|error| error.to_string())
    };
    assert_eq!(wrong(|_| {}), Ok(()));
    for (change, name) in [
        (
            (|settings| settings.fees.protocol_bps = 1_001) as fn(&mut Settings),
            "fees.protocol_bps",
        ),
        (
            |settings| settings.fees.protocol_address = None,
            "fees.protocol_address",
        ),
        (
            |settings| settings.fees.protocol_address = Some("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8".to_owned()),
            "fees.protocol_address",
        ),
        (
            |settings| settings.fees.protocol_cap_usd = Some(0),
            "fees.protocol_cap_usd",
        ),
    ] {
        let sentence = wrong(change).expect_err(name);
        assert!(sentence.contains(name), "{sentence}");
    }
}
