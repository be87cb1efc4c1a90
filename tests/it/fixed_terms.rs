//! The terms that are fixed when a request is created apply to every payment of the request, whether or not calldata
//! was issued.

use crate::support::{
    TestApp,
    app::{PAGE, settings},
    chain::{PAYER, transactions},
    feeds::deploy_feed,
    requests::{PAYEE, fau, request},
};
use alloy::{
    primitives::{Address, Bytes, U256},
    sol_types::SolCall,
};
use chrono::TimeDelta;
use devnet::batch::{MetaDetail, RequestDetail, batchPaymentsCall};
use prs::{
    domain::{
        oddity::OperatorDecision,
        paying::fee_proxy::{Erc20ConversionProxy, Erc20FeeProxy, EthConversionProxy},
    },
    flows::{
        payments::quarantine::{self, QuarantineQuery},
        requests::repeat,
    },
    settings::Settings,
};
use serde_json::{Value, json};

type Converted = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall;
type CoinConverted = EthConversionProxy::transferWithReferenceAndFeeCall;
type Direct = Erc20FeeProxy::transferFromWithReferenceAndFeeCall;
type Steps = Vec<(Address, Vec<u8>, U256)>;

alloy::sol! {
    function allAggregators(address input, address output) external view returns (address);
}

const DAY_AND_AN_HOUR_S: u64 = 90_000;
const FORTY_DAYS_S: u64 = 40 * 86_400;

/// Index of the account that receives the fee of the client ID; the next constant is for the fee of the service.
const CLIENT_FEE: usize = 6;
const SERVICE_FEE: usize = 7;

/// The payment reference of a request whose calldata was never requested.
async fn reference(app: &TestApp, id: &str) -> Bytes {
    let read = app.read_request(id).await;
    let text = read["paymentReference"].as_str().expect("a reference");
    hex::decode(text).expect("hexadecimal").into()
}

/// Calldata that a payer encodes without the service. Takes the calldata of a request with equal terms and applies
/// `change` to its payment call.
fn own<C: SolCall>(twin: &Steps, change: impl FnOnce(&mut C)) -> Steps {
    let mut steps = twin.clone();
    let payment = &mut steps.last_mut().expect("a payment").1;
    let mut call = C::abi_decode(payment).expect("the expected call");
    change(&mut call);
    *payment = call.abi_encode();
    steps
}

/// The calldata of a second request that is created with the same body.
async fn twin(app: &TestApp, body: &Value) -> Steps {
    let id = app.create_request(body).await;
    transactions(&app.calldata(&id, "").await)
}

async fn sent(app: &TestApp, steps: &Steps) {
    let receipts = app.devnet().pay(PAYER, steps).await.expect("mined");
    assert!(receipts.iter().all(|receipt| receipt.status), "the chain accepts it");
    app.settle().await;
}

fn shortfall(read: &Value) -> Value {
    read["payments"][0].get("feeShortfall").cloned().unwrap_or(Value::Null)
}

/// Makes the price feed of the coin return twice the price, with a time forty days ago.
async fn forget_feed(app: &TestApp, coin: Address, dollar: Address) {
    let feeds = app.devnet().contracts().chainlink_conversion_path;
    let known = allAggregatorsCall {
        input: coin,
        output: dollar,
    };
    let known = app.devnet().call(0, feeds, known.abi_encode(), U256::ZERO).await;
    let feed = allAggregatorsCall::abi_decode_returns(&known.expect("an answer")).expect("an address");
    let price = U256::from(5_000) * U256::from(10).pow(U256::from(8));
    deploy_feed(app, feed, 8, price, U256::from(block_time(app).await - FORTY_DAYS_S)).await;
}

/// The Unix time of the last block.
async fn block_time(app: &TestApp) -> u64 {
    let block = app
        .devnet()
        .rpc("eth_getBlockByNumber", json!(["latest", false]))
        .await
        .expect("a block");
    let time = block["timestamp"].as_str().expect("a time").trim_start_matches("0x");
    u64::from_str_radix(time, 16).expect("a number")
}

#[tokio::test]
async fn a_forty_day_old_price_sets_no_recurring_payout_amount() {
    let app = TestApp::on_chain().await;
    let now = i64::try_from(block_time(&app).await).expect("a time");
    app.clock
        .advance(TimeDelta::seconds(now - app.ctx.clock.now().timestamp()));
    let steps = twin(&app, &request("100", "USD", "FAU-sepolia")).await;
    let of_payment = steps.last().expect("a payment");
    let path = Converted::abi_decode(&of_payment.1).expect("a conversion").path;
    let mut body = request("100", "USD", "FAU-sepolia");
    body["recurrence"] = json!({
        "startDate": "2040-02-01", "frequency": "MONTHLY", "totalPayments": 3, "payer": app.account(PAYER),
    });
    let ask = async || app.post("/v2/payouts").with_key().json(&body).send().await;
    let fresh = ask().await.expect(201);
    assert_eq!(
        fresh["recurringPaymentPermit"]["values"]["amount"], "100000000000000000000",
        "{fresh}"
    );
    forget_feed(&app, path[1], path[0]).await;
    let refused = ask().await;
    assert_eq!(
        refused.expect(502)["message"],
        "The price feeds of sepolia currently have no recent price; retry later"
    );
}

#[tokio::test]
async fn a_forty_day_old_price_settles_no_request_without_calldata() {
    let app = TestApp::on_chain().await;
    let body = request("100", "USD", "ETH-sepolia-sepolia");
    let twin = twin(&app, &body).await;
    let path = CoinConverted::abi_decode(&twin[0].1).expect("a conversion").path;
    forget_feed(&app, path[1], path[0]).await;
    let id = app.create_request(&body).await;
    let reference = reference(&app, &id).await;
    let bounded = own::<CoinConverted>(&twin, |call| call.paymentReference = reference.clone());
    let refused = app.devnet().pay(PAYER, &bounded).await.expect("mined");
    assert!(!refused[0].status, "the fixed terms do not accept this rate");
    let stale = own::<CoinConverted>(&twin, |call| {
        call.paymentReference = reference;
        call.maxRateTimespan = U256::ZERO;
    });
    let payee = PAYEE.parse().expect("an address");
    let before = app.devnet().native_balance_of(payee).await.expect("a balance");
    sent(&app, &stale).await;
    let arrived = app.devnet().native_balance_of(payee).await.expect("a balance") - before;
    let fifty_dollars = U256::from(2) * U256::from(10).pow(U256::from(16));
    assert_eq!(arrived, fifty_dollars, "a coin costs 2,500 dollars");
    let read = app.read_request(&id).await;
    assert_eq!(
        (
            &read["status"],
            &read["paidAmount"],
            &read["quarantinedPayments"][0]["reason"]
        ),
        (&json!("pending"), &json!("0"), &json!("rate_age_not_handed_out")),
        "{read}"
    );
    let waiting = quarantine::list(&app.ctx, &QuarantineQuery::default(), false, None).await;
    let row = waiting.expect("a list")[0].id.clone();
    let accepted = quarantine::decide(&app.ctx, &row, OperatorDecision::Accept, None).await;
    accepted.expect("accepted");
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(read["status"], "paid", "the operator accepts it: {read}");
}

#[tokio::test]
async fn own_calldata_with_the_fixed_terms_is_credited_in_full_or_in_parts() {
    let app = TestApp::on_chain().await;
    for currency in ["USD", "EUR"] {
        let body = request("10", currency, "FAU-sepolia");
        let twin = twin(&app, &body).await;
        let id = app.create_request(&body).await;
        for expected in ["partially_paid", "paid"] {
            let reference = reference(&app, &id).await;
            let half = own::<Converted>(&twin, |call| {
                call.paymentReference = reference;
                call.requestAmount /= U256::from(2);
            });
            sent(&app, &half).await;
            let read = app.read_request(&id).await;
            assert_eq!(read["status"], expected, "{read}");
        }
    }
    let body = request("10", "USD", "ETH-sepolia-sepolia");
    let twin = twin(&app, &body).await;
    let id = app.create_request(&body).await;
    let reference = reference(&app, &id).await;
    sent(
        &app,
        &own::<CoinConverted>(&twin, |call| call.paymentReference = reference),
    )
    .await;
    let read = app.read_request(&id).await;
    assert_eq!(read["status"], "paid", "{read}");
}

#[tokio::test]
async fn own_batch_payments_must_meet_the_terms_of_each_request() {
    let app = TestApp::on_chain().await;
    let (chain, batch) = (app.devnet(), app.devnet().contracts().batch_conversion_payments);
    let body = request("10", "USD", "FAU-sepolia");
    let twin = twin(&app, &body).await;
    let call = Converted::abi_decode(&twin.last().expect("a payment").1).expect("a conversion");
    let (mut ids, mut details) = (Vec::new(), Vec::new());
    for age in [DAY_AND_AN_HOUR_S, 0, DAY_AND_AN_HOUR_S + 1] {
        let id = app.create_request(&body).await;
        details.push(RequestDetail {
            recipient: call.to,
            requestAmount: call.requestAmount,
            path: call.path.clone(),
            paymentReference: reference(&app, &id).await,
            feeAmount: U256::ZERO,
            maxToSpend: call.maxToSpend * U256::from(4),
            maxRateTimespan: U256::from(age),
        });
        ids.push(id);
    }
    let payments = batchPaymentsCall {
        metaDetails: vec![MetaDetail {
            paymentNetworkId: U256::ZERO,
            requestDetails: details,
        }],
        pathsToUSD: Vec::new(),
        feeAddress: chain.accounts()[CLIENT_FEE].address,
    };
    let approved = chain.approve(PAYER, chain.tokens().fau, batch, U256::MAX).await;
    approved.expect("approved");
    sent(&app, &vec![(batch, payments.abi_encode(), U256::ZERO)]).await;
    let mut paid = Vec::new();
    for id in &ids {
        paid.push(app.read_request(id).await["hasBeenPaid"] == true);
    }
    assert_eq!(paid, [true, false, false]);
}

fn charging(receiver: usize) -> Settings {
    let accounts = [
        "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
        "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
    ];
    let mut settings = settings();
    settings.fees.protocol_bps = 50;
    settings.fees.protocol_address = Some(accounts[receiver - CLIENT_FEE].to_owned());
    settings
}

/// Sets the fee of the backend client ID.
async fn set_client_fee(app: &TestApp, percentage: &str, receiver: usize) {
    let listed = app.get("/v2/client-ids").with_key().send().await.expect(200);
    let listed = listed
        .as_array()
        .or_else(|| listed["clientIds"].as_array())
        .expect("a list");
    let client = listed
        .iter()
        .find(|client| client["clientId"] == app.backend_client.as_str());
    let path = format!(
        "/v2/client-ids/{}",
        client.expect("the client ID")["id"].as_str().expect("text")
    );
    let fee = json!({ "feePercentage": percentage, "feeAddress": app.account(receiver) });
    let call = app.call(poem::http::Method::PUT, &path).with_key().json(&fee);
    call.send().await.expect(200);
}

/// Pays a request in the test token by a direct call of the fee proxy, without calldata of the service. `fee` is the
/// fee of the payment and the index of its receiver.
async fn pay_directly(app: &TestApp, id: &str, amount: &str, fee: Option<(&str, usize)>) -> Value {
    let units = |text: &str| {
        prs::domain::amount::Amount::parse(text)
            .expect("an amount")
            .to_units(18)
            .expect("units")
    };
    let proxy = app.devnet().contracts().erc20_fee_proxy;
    let token = app.devnet().tokens().fau;
    let approved = app.devnet().approve(PAYER, token, proxy, U256::MAX).await;
    approved.expect("approved");
    let call = Direct {
        token,
        to: PAYEE.parse().expect("an address"),
        amount: units(amount),
        paymentReference: reference(app, id).await,
        feeAmount: fee.map_or(U256::ZERO, |(fee, _)| units(fee)),
        feeAddress: fee.map_or(Address::ZERO, |(_, receiver)| app.devnet().accounts()[receiver].address),
    };
    sent(app, &vec![(proxy, call.abi_encode(), U256::ZERO)]).await;
    app.read_request(id).await
}

#[tokio::test]
async fn fees_missing_from_own_calldata_are_a_shortfall() {
    let app = TestApp::on_chain_as(charging(SERVICE_FEE), 1).await;
    set_client_fee(&app, "3", CLIENT_FEE).await;
    for (fee, missing) in [
        (None, json!("3.5")),
        (Some(("3", CLIENT_FEE)), json!("0.5")),
        (Some(("0.5", SERVICE_FEE)), json!("3")),
        (Some(("2.9", CLIENT_FEE)), json!("0.6")),
        (Some(("3", 8)), json!("3.5")),
    ] {
        let id = app.create_request(&fau("100")).await;
        let read = pay_directly(&app, &id, "100", fee).await;
        assert_eq!((&read["status"], shortfall(&read)), (&json!("paid"), missing), "{read}");
        assert_eq!(app.payments_of(&id).await[0]["feeShortfall"], shortfall(&read));
    }
    let id = app.create_request(&fau("100")).await;
    let read = pay_directly(&app, &id, "50", Some(("1.5", CLIENT_FEE))).await;
    assert_eq!(
        (&read["status"], shortfall(&read)),
        (&json!("partially_paid"), json!("0.25")),
        "a partial payment owes its share of the fees: {read}"
    );
    let id = app.create_request(&request("100", "USD", "FAU-sepolia")).await;
    let bare = bare_conversion(&app, &id).await;
    sent(&app, &bare).await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], shortfall(&read)),
        (&json!("paid"), json!("3.5")),
        "{read}"
    );
}

/// A conversion payment of a hundred dollars in the test token that a payer encodes: it follows the terms fixed at the
/// creation of the request, but pays no fee.
async fn bare_conversion(app: &TestApp, id: &str) -> Steps {
    let (fau, proxy) = (
        app.devnet().tokens().fau,
        app.devnet().contracts().erc20_conversion_proxy,
    );
    let approved = app.devnet().approve(PAYER, fau, proxy, U256::MAX).await;
    approved.expect("approved");
    let dollar = devnet::currency_hash("ISO4217", "USD");
    let call = Converted {
        to: PAYEE.parse().expect("an address"),
        requestAmount: U256::from(10_000_000_000_u64),
        path: vec![dollar, fau],
        paymentReference: reference(app, id).await,
        feeAmount: U256::ZERO,
        feeAddress: Address::ZERO,
        maxToSpend: U256::MAX,
        maxRateTimespan: U256::from(DAY_AND_AN_HOUR_S),
    };
    vec![(proxy, call.abi_encode(), U256::ZERO)]
}

#[tokio::test]
async fn every_way_to_create_a_request_fixes_its_fees() {
    let app = TestApp::on_chain_as(charging(CLIENT_FEE), 1).await;
    set_client_fee(&app, "3", CLIENT_FEE).await;
    let mut ids = vec![app.create_request(&fau("10")).await];
    let payout = app.post("/v2/payouts").with_client().json(&fau("10")).send().await;
    ids.push(payout.expect(201)["requestId"].as_str().expect("an id").to_owned());
    let batch = json!({ "requests": [fau("10"), fau("10")], "payer": app.account(PAYER) });
    let batch = app.post("/v2/payouts/batch").with_client().json(&batch).send().await;
    let batch = batch.expect(201);
    for id in batch["requestIds"].as_array().expect("a list") {
        ids.push(id.as_str().expect("an id").to_owned());
    }
    let mut repeated = fau("10");
    let today = app.ctx.clock.now().date_naive();
    repeated["recurrence"] = json!({ "startDate": today.to_string(), "frequency": "DAILY" });
    let first = app.create_request(&repeated).await;
    app.clock.advance(TimeDelta::days(1));
    assert!(repeat::run(&app.ctx).await.expect("repeats"));
    let newest = app.get("/v2/request?limit=1").with_key().send().await.expect(200);
    let second = newest["requests"][0]["requestId"].as_str().expect("an id").to_owned();
    assert_eq!(app.read_request(&second).await["originalRequestId"], first.as_str());
    ids.extend([first, second]);
    assert_eq!(ids.len(), 6);
    set_client_fee(&app, "0", CLIENT_FEE).await;
    for id in &ids {
        let read = pay_directly(&app, id, "10", None).await;
        assert_eq!(
            (&read["status"], shortfall(&read)),
            (&json!("paid"), json!("0.35")),
            "{read}"
        );
    }
}

#[tokio::test]
async fn changes_after_creation_do_not_affect_request_terms() {
    let mut app = TestApp::on_chain_as(charging(CLIENT_FEE), 1).await;
    set_client_fee(&app, "3", CLIENT_FEE).await;
    let (direct, converted) = (fau("100"), request("100", "USD", "FAU-sepolia"));
    let mut ids = Vec::new();
    for body in [&direct, &converted, &direct, &converted] {
        ids.push(app.create_request(body).await);
    }
    set_client_fee(&app, "7", SERVICE_FEE).await;
    app = app
        .restarted_with(|settings| {
            settings.fees.protocol_bps = 900;
            settings.fees.protocol_address = Some("0x14dC79964da2C08b23698B3D3cc7Ca32193d9955".to_owned());
            settings.conversion.max_rate_age_s.insert("default".to_owned(), 7_200);
        })
        .await;
    let old = |percentage: &str| json!({ "percentage": percentage, "address": app.account(CLIENT_FEE) });
    for id in &ids[..2] {
        let calldata = app.calldata(id, "").await;
        let metadata = &calldata["metadata"];
        assert_eq!(
            (&metadata["platformFee"], &metadata["protocolFee"]),
            (&old("3"), &old("0.5")),
            "{metadata}"
        );
        sent(&app, &transactions(&calldata)).await;
        let read = app.read_request(id).await;
        assert_eq!(
            (&read["status"], shortfall(&read)),
            (&json!("paid"), Value::Null),
            "{read}"
        );
    }
    let steps = transactions(&app.calldata(&ids[3], "").await);
    let call = Converted::abi_decode(&steps.last().expect("a payment").1).expect("a conversion");
    assert_eq!(call.maxRateTimespan, U256::from(DAY_AND_AN_HOUR_S));
    let read = pay_directly(&app, &ids[2], "100", Some(("3.5", CLIENT_FEE))).await;
    assert_eq!(
        (&read["status"], shortfall(&read)),
        (&json!("paid"), Value::Null),
        "{read}"
    );
    let fresh = app.create_request(&direct).await;
    let read = pay_directly(&app, &fresh, "100", None).await;
    assert_eq!(shortfall(&read), "16", "a new request has the new fees");
}

#[tokio::test]
async fn a_new_client_id_fee_does_not_apply_to_existing_requests() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("2")).await;
    set_client_fee(&app, "4", CLIENT_FEE).await;
    let calldata = app.calldata(&id, "").await;
    assert_eq!(calldata["metadata"].get("platformFee"), None, "{calldata}");
    let named = format!("&feePercentage=1&feeAddress={}", app.account(SERVICE_FEE));
    let calldata = app.calldata(&id, &named).await;
    assert_eq!(calldata["metadata"]["platformFee"]["percentage"], "1", "{calldata}");
}

#[tokio::test]
async fn a_fee_in_one_call_does_not_replace_the_fixed_fees() {
    let app = TestApp::on_chain_as(charging(SERVICE_FEE), 1).await;
    let named = format!("feePercentage=2.5&feeAddress={}", app.account(CLIENT_FEE));
    for (is_public, paid, missing) in [
        (true, None, json!("0.5")),
        (true, Some(("0.5", SERVICE_FEE)), Value::Null),
        (false, Some(("0.5", SERVICE_FEE)), json!("2.5")),
        (false, Some(("2.5", CLIENT_FEE)), json!("0.5")),
    ] {
        let id = app.create_request(&fau("100")).await;
        let call = app.get(&format!("/v2/request/{id}/pay?{named}"));
        let call = if is_public {
            call.header("x-client-id", &app.page_client).header("origin", PAGE)
        } else {
            call.with_key()
        };
        let calldata = call.send().await.expect(200);
        assert_eq!(calldata["metadata"]["platformFee"]["percentage"], "2.5", "{calldata}");
        let read = pay_directly(&app, &id, "100", paid).await;
        assert_eq!((&read["status"], shortfall(&read)), (&json!("paid"), missing), "{read}");
    }
}
