//! Issued calldata: the service detects every change that the payer makes to it.

use crate::support::{
    TestApp,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::{PAYEE, fau, request},
};
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use devnet::{
    ReorgTransaction, TxReceiptLite,
    batch::{MetaDetail, RequestDetail, batchPaymentsCall},
};
use prs::{
    boot::dev,
    domain::{
        amount::Amount,
        paying::fee_proxy::{Erc20ConversionProxy, Erc20FeeProxy, EthConversionProxy, EthereumFeeProxy},
    },
    flows::payments::quarantine::{self, QuarantineQuery},
};
use serde_json::{Value, json};
use std::sync::Arc;

type Converted = Erc20ConversionProxy::transferFromWithReferenceAndFeeCall;
type Direct = Erc20FeeProxy::transferFromWithReferenceAndFeeCall;

alloy::sol! {
    function execute(address to, uint256 value, bytes data);
    function allAggregators(address input, address output) external view returns (address);
    function updateAggregator(address input, address output, address aggregator) external;
}

const DAY_AND_AN_HOUR_S: u64 = 90_000;
const LONG_WEEKEND_S: u64 = 266_400;

type Steps = Vec<(Address, Vec<u8>, U256)>;

async fn steps(app: &TestApp, id: &str, query: &str) -> Steps {
    transactions(&app.calldata(id, query).await)
}

fn conversion(steps: &Steps) -> Converted {
    Converted::abi_decode(&steps.last().expect("a payment").1).expect("a conversion")
}

/// Pays with the calldata of the service after the payer changed it.
async fn pay_changed<C: SolCall>(app: &TestApp, id: &str, query: &str, change: impl FnOnce(&mut C)) -> TxReceiptLite {
    let mut steps = steps(app, id, query).await;
    let payment = &mut steps.last_mut().expect("a payment").1;
    let mut call = C::abi_decode(payment).expect("the expected call");
    change(&mut call);
    *payment = call.abi_encode();
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    assert!(receipts.iter().all(|receipt| receipt.status), "the chain accepts it");
    app.settle().await;
    receipts.last().expect("a payment").clone()
}

/// Asserts that no payment was credited and no event was published, and that the request can still be paid with the
/// issued calldata.
#[track_caller]
fn assert_pending(read: &Value) {
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("pending"), &json!("0")),
        "{read}"
    );
}

async fn path_through_ether(app: &TestApp) -> Vec<Address> {
    let id = app.create_request(&request("1", "USD", "ETH-sepolia-sepolia")).await;
    let steps = steps(app, &id, "").await;
    let call = EthConversionProxy::transferWithReferenceAndFeeCall::abi_decode(&steps[0].1).expect("a conversion");
    let (usd, ether) = (call.path[0], call.path[1]);
    vec![usd, ether, usd, app.devnet().tokens().fau]
}

#[tokio::test]
async fn payments_with_a_changed_conversion_path_are_not_credited() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let path = path_through_ether(&app).await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    pay_changed::<Converted>(&app, &id, "", |call| {
        call.path = path;
        call.maxToSpend = U256::MAX;
    })
    .await;
    assert_pending(&app.read_request(&id).await);
    assert!(app.payments_of(&id).await.is_empty());
    assert!(receiver.received().await.is_empty());
    app.pay(&id, "").await;
    app.settle().await;
    assert_eq!(
        app.read_request(&id).await["status"],
        "paid",
        "the issued calldata settles it"
    );
}

#[tokio::test]
async fn dust_at_rates_chosen_by_the_payer_counts_as_the_received_amount() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let in_euros = app.create_request(&request("1", "EUR", "FAU-sepolia")).await;
    let path = conversion(&steps(&app, &in_euros, "").await).path;
    let [euro, dollar, token] = path[..] else {
        panic!("{path:?}");
    };
    let ether = path_through_ether(&app).await[1];
    // A feed that contradicts the others: the token costs as many euros as ether costs dollars.
    let feeds = app.devnet().contracts().chainlink_conversion_path;
    let known = allAggregatorsCall {
        input: ether,
        output: dollar,
    };
    let known = app.devnet().call(0, feeds, known.abi_encode(), U256::ZERO).await;
    let update = updateAggregatorCall {
        input: token,
        output: euro,
        aggregator: allAggregatorsCall::abi_decode_returns(&known.expect("an answer")).expect("an address"),
    };
    let updated = app.devnet().send(0, feeds, update.abi_encode(), U256::ZERO).await;
    assert!(updated.expect("mined").status, "the feed is set");
    for _ in 0..2 {
        pay_changed::<Converted>(&app, &id, "", |call| call.path = vec![dollar, euro, token]).await;
    }
    pay_changed::<Converted>(&app, &id, "&amount=9", |call| call.maxRateTimespan = U256::ZERO).await;
    let read = app.read_request(&id).await;
    let shown = read["quarantinedPayments"].as_array().expect("a list");
    let amounts: Vec<_> = shown.iter().map(|one| (&one["amount"], &one["state"])).collect();
    let dust = json!(shown[1]["amount"]);
    assert!(dust.as_str().expect("an amount").starts_with("0.0036"), "{dust}");
    assert_eq!(
        amounts,
        [
            (&json!("9"), &json!("open")),
            (&dust, &json!("minor")),
            (&dust, &json!("minor")),
        ]
    );
    let large = QuarantineQuery {
        request_id: Some(id),
        min_amount: Some(Amount::parse("1").expect("an amount")),
        ..QuarantineQuery::default()
    };
    let found = quarantine::list(&app.ctx, &large, true, None).await.expect("a list");
    assert_eq!(found.len(), 1, "a payment that claims ten dollars transferred nothing");
}

#[tokio::test]
async fn payments_with_a_changed_maximum_rate_age_are_not_credited() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let ages = [U256::ZERO, U256::from(DAY_AND_AN_HOUR_S + 1), U256::MAX];
    for age in ages {
        pay_changed::<Converted>(&app, &id, "", |call| call.maxRateTimespan = age).await;
        assert_pending(&app.read_request(&id).await);
    }
    assert!(app.payments_of(&id).await.is_empty());
    app.pay(&id, "").await;
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn payments_without_their_fee_are_credited_and_report_a_shortfall() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let query = format!("&feePercentage=2.5&feeAddress={}", app.account(6));
    let fee_receiver = app.devnet().accounts()[6].address;
    let token = app.devnet().tokens().fau;
    let before = app.devnet().balance_of(token, fee_receiver).await.expect("a balance");
    let whole = app.create_request(&fau("2")).await;
    pay_changed::<Direct>(&app, &whole, &query, |call| {
        call.feeAmount = U256::ZERO;
        call.feeAddress = Address::ZERO;
    })
    .await;
    let less = app.create_request(&fau("2")).await;
    pay_changed::<Direct>(&app, &less, &query, |call| {
        call.feeAmount -= U256::from(10).pow(U256::from(16))
    })
    .await;
    let elsewhere = app.create_request(&fau("2")).await;
    let thief = app.devnet().accounts()[7].address;
    pay_changed::<Direct>(&app, &elsewhere, &query, |call| call.feeAddress = thief).await;
    let converted = app.create_request(&request("2", "USD", "FAU-sepolia")).await;
    pay_changed::<Converted>(&app, &converted, &query, |call| call.feeAmount = U256::ZERO).await;
    let as_told = app.create_request(&fau("2")).await;
    app.pay(&as_told, &query).await;
    app.settle().await;
    let after = app.devnet().balance_of(token, fee_receiver).await.expect("a balance");
    assert_eq!(
        after - before,
        U256::from(9) * U256::from(10).pow(U256::from(16)),
        "0.04 and 0.05"
    );
    let events = receiver.received().await;
    for (id, missing) in [
        (&whole, json!("0.05")),
        (&less, json!("0.01")),
        (&elsewhere, json!("0.05")),
        (&converted, json!("0.05")),
        (&as_told, json!(null)),
    ] {
        let read = app.read_request(id).await;
        assert_eq!(read["status"], "paid", "the payee has the money");
        let payments = app.payments_of(id).await;
        let event = events
            .iter()
            .map(|one| one.json())
            .find(|event| event["requestId"] == id.as_str());
        let event = event.expect("an event");
        for (place, body) in [
            ("search", &payments[0]),
            ("request", &read["payments"][0]),
            ("event", &event),
        ] {
            assert_eq!(
                body.get("feeShortfall").unwrap_or(&Value::Null),
                &missing,
                "{place} of {body}"
            );
        }
        assert_eq!(
            event.get("feeShortfall").is_some(),
            !missing.is_null(),
            "absent without a shortfall"
        );
    }
}

#[tokio::test]
async fn a_shortfall_counts_once_when_a_reorg_reincludes_its_payment() {
    let confirmations = 3;
    let app = TestApp::on_chain_with(confirmations).await;
    app.follow().await;
    let mine = async |blocks: u64| {
        for _ in 0..blocks {
            app.devnet().mine(1).await.expect("mined");
            app.follow().await;
        }
    };
    mine(confirmations).await;
    let id = app.create_request(&fau("2")).await;
    let query = format!("&feePercentage=2.5&feeAddress={}", app.account(6));
    let paid = pay_changed::<Direct>(&app, &id, &query, |call| {
        call.feeAmount = U256::ZERO;
        call.feeAddress = Address::ZERO;
    })
    .await;
    let raw = app.devnet().raw_transaction(paid.tx_hash).await.expect("a transaction");
    let counted = async || -> Option<String> {
        let page = app.get("/metrics").send().await.text;
        let counter = "prs_payment_fee_shortfalls_total{network=\"sepolia\"} ";
        page.lines()
            .find_map(|line| line.strip_prefix(counter))
            .map(str::to_owned)
    };
    mine(confirmations).await;
    assert_eq!(counted().await.as_deref(), Some("1"));
    app.devnet().reorg(confirmations + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(paid.tx_hash).await;
    mine(2).await;
    assert_eq!(app.read_request(&id).await["paidAmount"], "0");
    let again = vec![(ReorgTransaction::Raw(raw), 0)];
    app.devnet().reorg_with(1, again).await.expect("included again");
    mine(confirmations + 1).await;
    assert_eq!(app.payments_of(&id).await[0]["feeShortfall"], "0.05");
    assert_eq!(app.read_request(&id).await["paidAmount"], "2");
    assert_eq!(counted().await.as_deref(), Some("1"));
}

#[tokio::test]
async fn the_fee_of_any_earlier_calldata_of_a_request_is_no_shortfall() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("2")).await;
    let with_fee = steps(&app, &id, &format!("&feePercentage=1&feeAddress={}", app.account(6))).await;
    app.calldata(&id, &format!("&feePercentage=10&feeAddress={}", app.account(7)))
        .await;
    app.devnet().pay(PAYER, &with_fee).await.expect("mined");
    app.settle().await;
    assert_eq!(app.payments_of(&id).await[0].get("feeShortfall"), None);
}

#[tokio::test]
async fn requests_without_issued_calldata_require_the_path_of_their_currencies() {
    let app = TestApp::on_chain().await;
    let path = path_through_ether(&app).await;
    let asked = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let mut calldata = steps(&app, &asked, "").await;
    let mut call = conversion(&calldata);
    let direct = call.path.clone();
    for (path, is_credited) in [(path, false), (direct, true)] {
        let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
        let reference = app.read_request(&id).await["paymentReference"]
            .as_str()
            .expect("text")
            .to_owned();
        call.paymentReference = hex::decode(reference).expect("hexadecimal").into();
        call.path = path;
        call.maxToSpend = U256::MAX;
        calldata.last_mut().expect("a payment").1 = call.abi_encode();
        let receipts = app.devnet().pay(PAYER, &calldata).await.expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status));
        app.settle().await;
        assert_eq!(app.read_request(&id).await["hasBeenPaid"], is_credited);
    }
}

/// The entry of a batch payment that pays a request with the terms of its issued calldata.
async fn detail(app: &TestApp, id: &str, ether: bool) -> RequestDetail {
    let steps = steps(app, id, "").await;
    if ether {
        let call = EthConversionProxy::transferWithReferenceAndFeeCall::abi_decode(&steps[0].1).expect("a conversion");
        return RequestDetail {
            recipient: call.to,
            requestAmount: call.requestAmount,
            path: call.path,
            paymentReference: call.paymentReference,
            feeAmount: call.feeAmount,
            maxToSpend: steps[0].2,
            maxRateTimespan: call.maxRateTimespan,
        };
    }
    let call = conversion(&steps);
    RequestDetail {
        recipient: call.to,
        requestAmount: call.requestAmount,
        path: call.path,
        paymentReference: call.paymentReference,
        feeAmount: call.feeAmount,
        maxToSpend: call.maxToSpend,
        maxRateTimespan: call.maxRateTimespan,
    }
}

#[tokio::test]
async fn each_batch_conversion_is_compared_with_its_own_request() {
    let app = TestApp::on_chain().await;
    let path = path_through_ether(&app).await;
    let (chain, batch) = (app.devnet(), app.devnet().contracts().batch_conversion_payments);
    let mut ids = Vec::new();
    for (amount, currency) in [
        ("10", "FAU-sepolia"),
        ("10", "FAU-sepolia"),
        ("3", "ETH-sepolia-sepolia"),
    ] {
        ids.push(app.create_request(&request(amount, "USD", currency)).await);
    }
    let mut tokens = Vec::new();
    for id in &ids[..2] {
        tokens.push(detail(&app, id, false).await);
    }
    tokens[1].path = path;
    let coin = detail(&app, &ids[2], true).await;
    let value = coin.maxToSpend;
    let spent = tokens[0].maxToSpend * U256::from(4);
    tokens.iter_mut().for_each(|detail| detail.maxToSpend = spent);
    let call = batchPaymentsCall {
        metaDetails: vec![
            MetaDetail {
                paymentNetworkId: U256::ZERO,
                requestDetails: tokens,
            },
            MetaDetail {
                paymentNetworkId: U256::from(4),
                requestDetails: vec![coin],
            },
        ],
        pathsToUSD: Vec::new(),
        feeAddress: chain.accounts()[6].address,
    };
    chain
        .approve(PAYER, chain.tokens().fau, batch, U256::MAX)
        .await
        .expect("approved");
    let receipt = chain.send(PAYER, batch, call.abi_encode(), value).await.expect("mined");
    assert!(receipt.status, "the batch succeeds");
    app.settle().await;
    let mut paid = Vec::new();
    for id in &ids {
        paid.push(app.read_request(id).await["hasBeenPaid"] == true);
    }
    assert_eq!(paid, [true, false, true]);
}

#[tokio::test]
async fn a_conversion_with_an_unreadable_path_is_not_credited() {
    let app = TestApp::on_chain().await;
    let wallet = app.devnet().contracts().smart_wallet;
    let id = app.create_request(&request("2", "USD", "FAU-sepolia")).await;
    let path = format!("/v2/request/{id}/pay?wallet={wallet}");
    let calldata = app.get(&path).with_client().send().await.expect(200);
    let plenty = U256::from(10).pow(U256::from(19));
    let fau = app.devnet().tokens().fau;
    app.devnet().transfer(PAYER, fau, wallet, plenty).await.expect("funded");
    for (to, data, value) in transactions(&calldata) {
        let call = executeCall {
            to,
            value,
            data: data.into(),
        };
        let owner = devnet::SMART_WALLET_OWNER_INDEX;
        let sent = app.devnet().send(owner, wallet, call.abi_encode(), U256::ZERO).await;
        assert!(sent.expect("mined").status);
    }
    app.settle().await;
    assert_pending(&app.read_request(&id).await);
}

async fn with_rate_ages(ages: &[(&str, u64)]) -> TestApp {
    let chain = Arc::new(
        devnet::Devnet::start(devnet::Options::default())
            .await
            .expect("the chain starts"),
    );
    let mut settings = crate::support::app::settings();
    let section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
    settings.chains.insert("sepolia".to_owned(), section);
    for (symbol, age) in ages {
        settings.conversion.max_rate_age_s.insert((*symbol).to_owned(), *age);
    }
    TestApp::with(settings, Some(chain)).await
}

#[tokio::test]
async fn the_maximum_rate_age_follows_the_slowest_feed_of_the_path() {
    let app = TestApp::on_chain().await;
    let token = app.devnet().tokens().fau;
    let payee: Address = PAYEE.parse().expect("an address");
    for (currency, age, price_cents) in [("USD", DAY_AND_AN_HOUR_S, 100_u64), ("EUR", LONG_WEEKEND_S, 110)] {
        let id = app.create_request(&request("10", currency, "FAU-sepolia")).await;
        let steps = steps(&app, &id, "").await;
        assert_eq!(conversion(&steps).maxRateTimespan, U256::from(age), "{currency}");
        let before = app.devnet().balance_of(token, payee).await.expect("a balance");
        app.devnet().pay(PAYER, &steps).await.expect("mined");
        app.settle().await;
        assert_eq!(app.read_request(&id).await["status"], "paid");
        let received = app.devnet().balance_of(token, payee).await.expect("a balance") - before;
        assert_eq!(received, U256::from(price_cents) * U256::from(10).pow(U256::from(17)));
    }
    let id = app.create_request(&request("10", "USD", "ETH-sepolia-sepolia")).await;
    let steps = steps(&app, &id, "").await;
    let call = EthConversionProxy::transferWithReferenceAndFeeCall::abi_decode(&steps[0].1).expect("a conversion");
    assert_eq!(call.maxRateTimespan, U256::from(DAY_AND_AN_HOUR_S));
}

#[tokio::test]
async fn the_chain_rejects_rates_older_than_the_configured_age() {
    // The local feeds are 60 seconds old.
    let app = with_rate_ages(&[("default", 30), ("eur", 0)]).await;
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let receipts = app
        .devnet()
        .pay(PAYER, &steps(&app, &id, "").await)
        .await
        .expect("mined");
    assert!(!receipts.last().expect("a payment").status);
    let id = app.create_request(&request("10", "EUR", "FAU-sepolia")).await;
    assert_eq!(
        conversion(&steps(&app, &id, "").await).maxRateTimespan,
        U256::ZERO,
        "the setting allows any age"
    );
    app.pay(&id, "").await;
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn a_zero_amount_payment_raises_no_event() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app
        .create_request(&request("1", "ETH-sepolia", "ETH-sepolia-sepolia"))
        .await;
    let mut steps = steps(&app, &id, "").await;
    EthereumFeeProxy::transferWithReferenceAndFeeCall::abi_decode(&steps[0].1).expect("a coin payment");
    steps[0].2 = U256::ZERO;
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    assert!(receipts[0].status, "the proxy accepts it");
    let token = app.create_request(&fau("1")).await;
    pay_changed::<Direct>(&app, &token, "", |call| call.amount = U256::ZERO).await;
    for id in [&id, &token] {
        assert_pending(&app.read_request(id).await);
        assert!(app.payments_of(id).await.is_empty());
    }
    assert!(receiver.received().await.is_empty());
}
