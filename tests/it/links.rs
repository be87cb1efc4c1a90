//! Secure payments from creation to the payment event, on the local chain.

use crate::support::{
    TestApp,
    app::settings,
    chain::PAYER,
    links::{link_of, link_transactions, payout_of, token_of},
    receiver::Receiver,
    requests::PAYEE,
    wallet::token,
};
use alloy::primitives::{Address, U256};
use futures_util::future::join_all;
use prs::domain::{network::Network, secure_payment::SecurePaymentStatus};
use serde_json::{Value, json};
use std::time::Duration;
use wiremock::{Mock, MockServer, ResponseTemplate};

const OTHER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
const RECEIVER_OF_FEES: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

async fn on_chain() -> TestApp {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

async fn fau_of(app: &TestApp, wallet: &str) -> U256 {
    let fau: Address = token(app, "FAU-sepolia").parse().expect("an address");
    let balance = app.devnet().balance_of(fau, wallet.parse().expect("an address")).await;
    balance.expect("a balance")
}

fn units(whole: u64) -> U256 {
    U256::from(whole) * U256::from(10).pow(U256::from(18))
}

#[tokio::test]
async fn a_link_is_created_opened_paid_and_reported() {
    let app = on_chain().await;
    let receiver = Receiver::start().await;
    let call = app.post("/v1/webhook").with_key();
    call.json(&json!({ "url": receiver.url() })).send().await.expect(201);
    let body = json!({
        "requests": [{ "amount": "10" }],
        "feePercentage": "2.5",
        "feeAddress": RECEIVER_OF_FEES,
        "reference": "order-7",
        "payerIdentifier": "customer-17",
        "redirectUrl": "https://shop.example.com/thanks",
    });
    let made = app.link(&body).await.expect(201);
    let link = token_of(&made);
    let url = made["securePaymentUrl"].as_str().expect("a url");
    assert_eq!(url, format!("http://127.0.0.1:8080/pay/?token={link}"));
    assert_eq!(made["feePlan"], Value::Null, "FAU is not a dollar token");
    let opened = app.open_link(&link, "").send().await;
    assert!(!opened.text.contains("customer-17"), "{}", opened.text);
    let opened = opened.expect(200);
    assert_eq!(
        (
            &opened["paymentType"],
            &opened["status"],
            &opened["amount"],
            &opened["payee"]
        ),
        (&json!("single"), &json!("pending"), &json!("10"), &json!(PAYEE))
    );
    assert_eq!(opened["requestIds"], made["requestIds"]);
    assert_eq!(
        (&opened["reference"], &opened["redirectUrl"], &opened["redirectLabel"]),
        (
            &json!("order-7"),
            &json!("https://shop.example.com/thanks"),
            &Value::Null
        )
    );
    assert_eq!(opened["destination"]["tokenAddress"], token(&app, "FAU-sepolia"));
    let (before, fees_before) = (fau_of(&app, PAYEE).await, fau_of(&app, RECEIVER_OF_FEES).await);
    let calldata = app.pay_link(&link).await;
    assert_eq!(calldata["metadata"]["platformFee"]["percentage"], "2.5");
    assert_eq!(calldata["metadata"]["requiredAmount"], "10.25");
    assert_eq!(calldata["feeBundle"]["fees"][0]["amount"], "0.25");
    assert_eq!(calldata["feeBundle"]["amountSummary"]["payerTotal"], "10.25");
    app.settle().await;
    assert_eq!(fau_of(&app, PAYEE).await - before, units(10));
    assert_eq!(
        fau_of(&app, RECEIVER_OF_FEES).await - fees_before,
        units(1) / U256::from(4)
    );
    let told = receiver.received().await;
    let confirmed = told
        .iter()
        .find(|told| told.json()["event"] == "payment.confirmed")
        .expect("delivered");
    assert_eq!(confirmed.json()["requestId"], made["requestIds"][0]);
    let paid = app.open_link(&link, "").send().await.expect(409);
    assert_eq!(paid["message"], "Secure payment has already been completed");
    assert_eq!((&paid["status"], paid.get("branding")), (&json!("completed"), None));
    assert_eq!(paid["requestStatuses"][0]["hasBeenPaid"], true);
    assert!(paid["requestStatuses"][0]["txHash"].is_string());
    let stored = app.stored_link(&link).await;
    assert_eq!(stored.status, SecurePaymentStatus::Completed);
    assert!(stored.completed_at.is_some());
}

#[tokio::test]
async fn an_approval_allows_exactly_the_needed_amount() {
    let app = on_chain().await;
    let link = token_of(&app.link(&link_of(&["3"])).await.expect(201));
    let payer = app.account(PAYER);
    let calldata = app.calldata_of(&link, Some(&payer)).await.expect(200);
    let steps = link_transactions(&calldata);
    assert_eq!(steps.len(), 2);
    let allowed = U256::from_be_slice(&steps[0].1[36..68]);
    assert_eq!(allowed, units(3));
    assert_eq!(
        (
            &calldata["metadata"]["needsApproval"],
            &calldata["metadata"]["hasEnoughAllowance"]
        ),
        (&json!(true), &json!(false))
    );
    let first = &steps[..1];
    app.devnet().pay(PAYER, first).await.expect("mined");
    let rest = app.calldata_of(&link, Some(&payer)).await.expect(200);
    assert_eq!(rest["metadata"]["stepsRequired"], 1);
    assert_eq!(rest["metadata"]["allowance"], "3");
}

#[tokio::test]
async fn a_partial_payment_leaves_the_rest_to_be_paid() {
    let app = on_chain().await;
    let made = app.link(&link_of(&["5"])).await.expect(201);
    let (link, id) = (
        token_of(&made),
        made["requestIds"][0].as_str().expect("an id").to_owned(),
    );
    app.pay_past_link(&made["requestIds"][0], "2").await;
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "partially_paid");
    let opened = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(opened["status"], "pending");
    let calldata = app.pay_link(&link).await;
    assert_eq!(calldata["metadata"]["requiredAmount"], "3");
    app.settle().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
    app.open_link(&link, "").send().await.expect(409);
}

#[tokio::test]
async fn a_batch_is_paid_in_one_transaction_and_completes_with_its_last_request() {
    let app = on_chain().await;
    let mut body = link_of(&["1", "2", "3"]);
    body["requests"][1]["reference"] = json!("item-2");
    let made = app.link(&body).await.expect(201);
    let link = token_of(&made);
    let opened = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(
        (&opened["paymentType"], &opened["amounts"]),
        (&json!("batch"), &json!(["1", "2", "3"]))
    );
    app.pay_past_link(&made["requestIds"][0], "1").await;
    app.settle().await;
    let page = app.get(&format!("/pay/{link}")).send().await.text;
    let short = format!("{}…{}", &PAYEE[..6], &PAYEE[38..]);
    assert!(
        page.contains(&format!(">{short}</bdi>")),
        "one address counts as one recipient: {page}"
    );
    assert!(!page.contains(" recipients<"), "{page}");
    assert!(page.contains("Reference: <bdi>item-2</bdi>"), "{page}");
    assert_eq!(
        page.matches(r#"<span class="line quiet">Paid</span>"#).count(),
        1,
        "{page}"
    );
    let before = fau_of(&app, PAYEE).await;
    let calldata = app.pay_link(&link).await;
    assert_eq!(
        calldata["requestIds"],
        json!([made["requestIds"][1], made["requestIds"][2]])
    );
    assert_eq!(calldata["metadata"]["canMakePayment"], true);
    app.settle().await;
    assert_eq!(fau_of(&app, PAYEE).await - before, units(5));
    app.open_link(&link, "").send().await.expect(409);
}

#[tokio::test]
async fn two_hundred_amounts_are_one_link() {
    let app = on_chain().await;
    let link = token_of(&app.link(&link_of(&["0.01"; 200])).await.expect(201));
    app.pay_link(&link).await;
    app.settle().await;
    assert_eq!(app.stored_link(&link).await.status, SecurePaymentStatus::Completed);
    let one_more = app.link(&link_of(&["0.01"; 201])).await;
    assert_eq!(one_more.expect(400)["errors"][0]["field"], "requests");
}

#[tokio::test]
async fn combined_payouts_keep_their_original_requests() {
    let app = on_chain().await;
    let mut tokens = Vec::new();
    for (recipient, amount) in [(OTHER, "1"), (RECEIVER_OF_FEES, "2"), (OTHER, "4")] {
        tokens.push(app.payout_link(&payout_of(recipient, amount)).await.expect(201));
    }
    let named: Vec<String> = tokens.iter().map(token_of).collect();
    let handed_out = app.calldata_of(&named[0], Some(&app.account(PAYER))).await.expect(200);
    let call = app.post("/v2/secure-payments/batch-payouts").with_key();
    let made = call.json(&json!({ "tokens": named })).send().await.expect(201);
    let link = token_of(&made);
    for original in &named {
        let refused = app.open_link(original, "").send().await.expect(403);
        assert_eq!(refused["message"], "Secure payment has been withdrawn");
    }
    app.send_calldata(&handed_out).await;
    app.settle().await;
    let state = app.get(&format!("/pay/{link}/state")).send().await.expect(200);
    let counted = ["count", "receivers", "receiversLeft"].map(|name| state["details"][name].as_u64());
    assert_eq!(counted, [Some(3), Some(2), Some(2)], "{state}");
    let original = app.get(&format!("/pay/{}", named[0])).send().await;
    assert_eq!(original.status, 410);
    assert!(original.text.contains("Payment received"), "{}", original.text);
    assert_eq!(
        app.stored_link(&named[0]).await.status,
        SecurePaymentStatus::Invalidated
    );
    let before = fau_of(&app, OTHER).await;
    let calldata = app.pay_link(&link).await;
    assert_eq!(
        calldata["requestIds"].as_array().expect("a list").len(),
        2,
        "paid requests are left out"
    );
    app.settle().await;
    assert_eq!(fau_of(&app, OTHER).await - before, units(4));
    app.open_link(&link, "").send().await.expect(409);
    let again = app.post("/v2/secure-payments/batch-payouts").with_key();
    let refused = again.json(&json!({ "tokens": named })).send().await;
    assert_eq!(refused.wrong_fields(), ["tokens[0]", "tokens[1]", "tokens[2]"]);
}

#[tokio::test]
async fn a_payout_in_the_coin_is_paid() {
    let app = TestApp::on_chain().await;
    let mut body = payout_of(OTHER, "0.5");
    body["currency"] = json!("ETH-sepolia-sepolia");
    let made = app.payout_link(&body).await.expect(201);
    let link = token_of(&made);
    let state = app.get(&format!("/pay/{link}/state")).send().await.expect(200);
    let symbols = ["/network/coin", "/details/currencies/0/symbol"].map(|at| state.pointer(at).cloned());
    assert_eq!(symbols, [Some(json!("ETH")), Some(json!("ETH"))]);
    let opened = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(
        (&opened["isNativeCurrency"], &opened["destination"], &opened["flow"]),
        (&json!(true), &Value::Null, &json!("pay"))
    );
    app.pay_link(&link).await;
    app.settle().await;
    app.open_link(&link, "").send().await.expect(409);
}

#[tokio::test]
async fn a_wallet_sees_its_balance_on_the_chain_of_the_payment() {
    let app = on_chain().await;
    let link = token_of(&app.link(&link_of(&["3"])).await.expect(201));
    let payer = app.account(PAYER);
    let opened = app
        .open_link(&link, &format!("?wallet={payer}"))
        .send()
        .await
        .expect(200);
    let option = &opened["paymentOptions"]["SEPOLIA"]["FAU"];
    assert_eq!(
        (&option["hasEnoughBalance"], &option["neededAmount"]),
        (&json!(true), &json!("3"))
    );
    let without = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(without.get("paymentOptions"), None);
}

/// A node that reports this same high balance for every token and wallet, after a delay.
async fn rich_node(network: Network, delay: Duration) -> MockServer {
    let server = MockServer::start().await;
    let answered = move |request: &wiremock::Request| {
        let asked: Value = serde_json::from_slice(&request.body).expect("JSON");
        let answer = |call: &Value| {
            let number = match call["method"].as_str() {
                Some("eth_chainId") => format!("0x{:x}", network.chain_id()),
                Some("eth_call") => format!("0x{:064x}", 10_u128.pow(30)),
                _ => "0xde0b6b3a7640000".to_owned(),
            };
            json!({ "jsonrpc": "2.0", "id": call["id"], "result": number })
        };
        let body = match asked.as_array() {
            Some(calls) => calls.iter().map(answer).collect(),
            None => answer(&asked),
        };
        ResponseTemplate::new(200).set_body_json(body).set_delay(delay)
    };
    Mock::given(wiremock::matchers::any())
        .respond_with(answered)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn balances_of_test_networks_are_offered_only_to_links_on_them() {
    let mut nodes = Vec::new();
    let mut settings = settings();
    for network in [Network::Sepolia, Network::Base, Network::Mainnet] {
        let node = rich_node(network, Duration::ZERO).await;
        let chain = prs::settings::ChainSettings {
            rpc_urls: vec![node.uri()],
            ..prs::settings::ChainSettings::default()
        };
        settings.chains.insert(network.id().to_owned(), chain);
        nodes.push(node);
    }
    let app = TestApp::with(settings, None).await;
    for (network, offered) in [("base", vec!["BASE", "ETHEREUM"]), ("sepolia", vec!["SEPOLIA"])] {
        let mut payout = payout_of(OTHER, "5");
        payout["network"] = json!(network);
        payout["currency"] = json!(format!("USDC-{network}"));
        let link = token_of(&app.payout_link(&payout).await.expect(201));
        let opened = app.open_link(&link, &format!("?wallet={PAYEE}")).send().await;
        let options = opened.expect(200)["paymentOptions"].clone();
        let mut chains: Vec<&String> = options.as_object().expect("chains").keys().collect();
        chains.sort();
        assert_eq!(chains, offered, "{network}");
        for chain in offered {
            assert_eq!(options[chain]["USDC"]["hasEnoughBalance"], true, "{options}");
        }
    }
}

#[tokio::test]
async fn many_lookups_for_one_link_do_not_block_those_of_another() {
    let node = rich_node(Network::Sepolia, Duration::from_millis(300)).await;
    let mut settings = settings();
    let chain = prs::settings::ChainSettings {
        rpc_urls: vec![node.uri()],
        ..prs::settings::ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let app = TestApp::with(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let links = [
        token_of(&app.link(&link_of(&["3"])).await.expect(201)),
        token_of(&app.link(&link_of(&["3"])).await.expect(201)),
    ];
    let look = async |link: usize, wallet: usize| {
        let query = format!("?wallet=0x{:040x}", wallet + (1 << 40));
        let opened = app.open_link(&links[link], &query).send().await.expect(200);
        opened["paymentOptions"]["SEPOLIA"]["FAU"].is_object()
    };
    let begun = std::time::Instant::now();
    let wave = join_all((0..120).map(|wallet| look(0, wallet))).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let answered = wave.iter().filter(|is_answered| **is_answered).count();
    assert!((8..120).contains(&answered), "{answered} got a slot in time");
    assert!(look(1, 1_000).await, "the lookup of another link got no slot");
}

#[tokio::test]
async fn an_unresponsive_chain_is_omitted_from_payment_options() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let link = token_of(&app.link(&link_of(&["3"])).await.expect(201));
    for _ in 0..4 {
        let opened = app
            .open_link(&link, &format!("?wallet={OTHER}"))
            .send()
            .await
            .expect(200);
        assert_eq!(opened["paymentOptions"], json!({}));
    }
    app.calldata_of(&link, Some(OTHER)).await.expect(502);
    let without = app.calldata_of(&link, None).await.expect(200);
    assert_eq!(without["metadata"]["needsApproval"], true);
}

#[tokio::test]
async fn scoped_payment_events_of_links_are_sent_if_enabled() {
    let mut settings = settings();
    settings.webhooks.scoped_variants = true;
    let app = TestApp::on_chain_as(settings, 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let call = app.post("/v1/webhook").with_key();
    call.json(&json!({ "url": receiver.url() })).send().await.expect(201);
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    app.pay_link(&link).await;
    app.settle().await;
    let told = receiver.received().await;
    let twin = told
        .iter()
        .find(|told| told.json()["event"] == "payment.confirmed.checkout");
    assert_eq!(twin.expect("delivered").json()["securePaymentToken"], json!(link));
}

#[tokio::test]
async fn a_repeated_idempotency_key_returns_the_stored_response() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let send = async |amount: &str| {
        let call = app
            .post("/v2/secure-payments")
            .with_key()
            .header("idempotency-key", "link-1");
        call.json(&link_of(&[amount])).send().await
    };
    let (first, again) = (send("1").await, send("1").await);
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    send("2").await.expect(409);
}

#[tokio::test]
async fn a_destination_change_does_not_affect_existing_links() {
    let app = on_chain().await;
    let link = token_of(&app.link(&link_of(&["3"])).await.expect(201));
    let before = app.open_link(&link, "").send().await.expect(200);
    app.is_paid_in("USDC-sepolia").await;
    let after = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(before["destination"], after["destination"]);
    let new = token_of(&app.link(&link_of(&["3"])).await.expect(201));
    let new = app.open_link(&new, "").send().await.expect(200);
    assert_eq!(new["paymentCurrency"], "USDC-sepolia");
    assert_eq!(new["feePlan"]["grossAmountUsd"], "3");
}

#[tokio::test]
async fn fee_previews_show_the_fees_and_validate_their_input() {
    let app = TestApp::start().await;
    let preview = async |body: Value| {
        let call = app.post("/v2/secure-payments/fees/preview").with_key();
        call.json(&body).send().await
    };
    let shown = preview(json!({ "amount": "100", "currency": "USDC", "flow": "get_paid" }))
        .await
        .expect(200);
    assert_eq!(
        (
            &shown["grossAmountUsd"],
            &shown["payerTotalAmountUsd"],
            &shown["defaultFeeBearer"]
        ),
        (&json!("100"), &json!("100"), &json!("payee"))
    );
    let chosen = json!({ "amount": "1", "currency": "USDC-sepolia", "flow": "get_paid", "defaultFeeBearer": "payer" });
    assert_eq!(preview(chosen).await.expect(200)["defaultFeeBearer"], "payer");
    for (body, field) in [
        (
            json!({ "amount": "1", "currency": "FAU-sepolia", "flow": "pay" }),
            "currency",
        ),
        (
            json!({ "amount": "1", "currency": "nothing", "flow": "pay" }),
            "currency",
        ),
        (
            json!({ "amount": "1.0000001", "currency": "USDC", "flow": "pay" }),
            "amount",
        ),
        (json!({ "amount": "1", "currency": "USDC", "flow": "sideways" }), "flow"),
    ] {
        assert_eq!(preview(body).await.wrong_fields(), [field]);
    }
}

#[tokio::test]
async fn link_addresses_redirect_to_the_page_and_truncated_ones_are_404() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    for (query, leads) in [("", ""), ("&lang=de", "?lang=de"), ("&lang=xx", "")] {
        for place in ["/", "/pay", "/pay/"] {
            let moved = app.get(&format!("{place}?token={link}{query}")).send().await;
            assert_eq!(moved.status, 302, "{place}{query}");
            assert_eq!(moved.header("location"), Some(format!("/pay/{link}{leads}").as_str()));
        }
    }
    for query in ["", "?lang=de&from=50", "?lang="] {
        let moved = app.get(&format!("/pay/{link}/{query}")).send().await;
        assert_eq!(moved.status, 308, "{query}");
        assert_eq!(moved.header("location"), Some(format!("/pay/{link}{query}").as_str()));
    }
    for cut in [
        "/?token=",
        "/pay/?token=",
        "/pay/",
        "/pay",
        "/pay/a-b/",
        "/pay/%2Fexample.com/",
    ] {
        let page = app.get(cut).send().await;
        assert_eq!(page.status, 404, "{cut}");
        assert!(page.text.contains("Payment link not found"), "{cut}: {}", page.text);
    }
    let receipt = app.get(&format!("/pay/{link}/receipt?lang=fr")).send().await;
    assert!(
        receipt.text.contains(&format!("/pay/{link}?lang=fr")),
        "{}",
        receipt.text
    );
}
