//! Multicalls: one transaction pays the requests of several payout links, which stay payable on their own.

use crate::{
    access::{KINDS, Kind, Tenant, tenant},
    support::{
        Answer, TestApp,
        app::{Call, PAGE, settings},
        chain::PAYER,
        links::{link_of, link_transactions, payout_of, token_of},
        multicalls::{ChildLink, block_reasons, multicall_of},
        receiver::Receiver,
        screening::{Providers, rows},
    },
};
use alloy::{
    primitives::{Address, U256, keccak256},
    sol_types::SolCall,
};
use chrono::SecondsFormat;
use devnet::Devnet;
use prs::{flows::secure_payments::expire, http::gate::scheme::Scheme, settings::ChainSettings};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

alloy::sol! {
    function approve(address spender, uint256 amount) external;
}

const COIN: &str = "ETH-sepolia-sepolia";
const OTHER: &str = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";
const BANNED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const UNKNOWN: &str = "01K9Z0T3G9R5M1N2P3Q4R5S6T7";
const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

/// Maximum number of children on one network.
const CHILDREN: usize = 150;

/// Number of blocks until a payment is final in the tests of unconfirmed payments.
const CONFIRMATIONS: u64 = 6;

/// Gas limit of one transaction.
const GAS_LIMIT: u64 = 16_777_216;

const REFUSED: &str = "Multicall validation failed";
const REMOVE: &str = "remove_child";

/// A new wallet.
fn wallet(seed: usize) -> Address {
    Address::from_word(keccak256(format!("payee {seed}")))
}

/// A number of tenths as a decimal text.
fn decimal(tenths: usize) -> String {
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

/// A number of tenths in the smallest units of a currency.
fn units(tenths: usize, decimals: u8) -> U256 {
    U256::from(tenths) * U256::from(10).pow(U256::from(decimals - 1))
}

/// The currencies of the local chain: id, contract and decimals.
fn currencies(chain: &Devnet) -> [(&'static str, Option<Address>, u8); 4] {
    let tokens = chain.tokens();
    [
        ("FAU-sepolia", Some(tokens.fau), 18),
        ("USDC-sepolia", Some(tokens.usdc), 6),
        ("USDT-sepolia", Some(tokens.usdt), 6),
        (COIN, None, 18),
    ]
}

/// The balance of a holder; without a token, in the coin of the network.
async fn held(app: &TestApp, token: Option<Address>, holder: Address) -> U256 {
    let balance = match token {
        Some(token) => app.devnet().balance_of(token, holder).await,
        None => app.devnet().native_balance_of(holder).await,
    };
    balance.expect("a balance")
}

async fn fau_of(app: &TestApp, holder: Address) -> U256 {
    held(app, Some(app.devnet().tokens().fau), holder).await
}

/// A payout link in the test token to a wallet.
async fn payout(app: &TestApp, payee: Address, amount: &str) -> ChildLink {
    app.child_link(&payout_of(&payee.to_string(), amount)).await
}

/// Registers a receiver for the events of the platform.
async fn register(app: &TestApp, receiver: &Receiver) {
    let call = app.post("/v1/webhook").with_key();
    call.json(&json!({ "url": receiver.url() })).send().await.expect(201);
}

/// The requests whose confirmation the receiver got, sorted. Fails on any other event.
async fn confirmed(receiver: &Receiver) -> Vec<String> {
    let events = receiver.received().await;
    let requests = events.iter().map(|event| {
        let body = event.json();
        assert_eq!(body["event"], "payment.confirmed", "{body}");
        body["requestId"].as_str().expect("text").to_owned()
    });
    let mut requests: Vec<String> = requests.collect();
    requests.sort();
    requests
}

/// The requests of links, sorted.
fn requests_of(children: &[ChildLink]) -> Vec<String> {
    let mut requests: Vec<String> = children.iter().map(|child| child.request.clone()).collect();
    requests.sort();
    requests
}

/// The approvals in the transactions of a payer, by token: spender and amount.
fn approvals(steps: &[(Address, Vec<u8>, U256)]) -> BTreeMap<Address, (Address, U256)> {
    let approvals = steps.iter().map(|(token, data, value)| {
        let call = approveCall::abi_decode(data).expect("an approval");
        assert_eq!(*value, U256::ZERO);
        (*token, (call.spender, call.amount))
    });
    approvals.collect()
}

#[tokio::test]
async fn one_transaction_pays_150_children_with_one_approval_per_token() {
    let app = TestApp::on_chain().await;
    let chain = app.devnet();
    let receiver = Receiver::start().await;
    register(&app, &receiver).await;
    let currencies = currencies(chain);
    let (mut children, mut due, mut sums) = (Vec::new(), Vec::new(), [0_usize; 4]);
    for index in 0..CHILDREN {
        let (currency, token, decimals) = currencies[index % 4];
        let (payee, tenths) = (wallet(index), 11 + index % 7);
        let mut body = payout_of(&payee.to_string(), &decimal(tenths));
        body["currency"] = json!(currency);
        children.push(app.child_link(&body).await);
        due.push((payee, token, tenths, decimals));
        sums[index % 4] += tenths;
    }
    let named: Vec<&ChildLink> = children.iter().collect();
    let made = app.post_multicall(&multicall_of(&named)).await.expect(201);
    let parent = token_of(&made);
    assert_eq!(
        (&made["type"], &made["status"]),
        (&json!("multicall"), &json!("pending"))
    );
    let items = children.iter().enumerate().map(|(position, child)| {
        json!({
            "securePaymentToken": child.token, "requestId": child.request, "position": position,
            "eligibility": "eligible",
        })
    });
    assert_eq!(made["items"], json!(items.collect::<Vec<_>>()));

    let opened = app.open_link(&parent, "").send().await.expect(200);
    assert_eq!(
        (&opened["paymentType"], &opened["status"], &opened["canExecute"]),
        (&json!("multicall"), &json!("pending"), &json!(true))
    );
    let sum_of = |currency: &str, sum: usize| {
        let sum = decimal(sum);
        json!({ "network": "sepolia", "currency": currency, "totalAmount": sum })
    };
    let totals = currencies
        .iter()
        .zip(sums)
        .map(|((currency, ..), sum)| sum_of(currency, sum));
    let totals = json!({
        "childCount": CHILDREN, "blockedChildCount": 0, "byDestinationCurrency": totals.collect::<Vec<_>>(),
    });
    assert_eq!(opened["totals"], totals, "four currencies have no common sum");
    assert_eq!(block_reasons(&opened), ["-"; CHILDREN]);
    for (child, (payee, _, tenths, _)) in opened["children"].as_array().expect("children").iter().zip(&due) {
        assert_eq!(
            (&child["payee"], &child["amount"]),
            (&json!(payee.to_string()), &json!(decimal(*tenths)))
        );
    }

    let payer: Address = app.account(PAYER).parse().expect("an address");
    let calldata = app.calldata_of(&parent, Some(&payer.to_string())).await.expect(200);
    assert_eq!(calldata["executionKind"], "evm_same_chain");
    assert_eq!(calldata["childTokens"], multicall_of(&named)["childTokens"]);
    let requests: Vec<&String> = children.iter().map(|child| &child.request).collect();
    assert_eq!(calldata["requestIds"], json!(requests));
    let steps = link_transactions(&calldata);
    let (payment, allowing) = steps.split_last().expect("a payment");
    let contract = chain.contracts().batch_conversion_payments;
    let spent = currencies.iter().zip(sums);
    let spent = spent.map(|((_, token, decimals), sum)| (*token, units(sum, *decimals)));
    let spent: Vec<(Option<Address>, U256)> = spent.collect();
    let allowed = spent
        .iter()
        .filter_map(|(token, sum)| Some(((*token)?, (contract, *sum))));
    assert_eq!(allowing.len(), 3, "an approval for each token");
    assert_eq!(approvals(allowing), allowed.collect());
    assert_eq!((payment.0, payment.2), (contract, spent[3].1));

    let mut before = Vec::new();
    for (token, _) in &spent {
        before.push(held(&app, *token, payer).await);
    }
    let receipts = chain.pay(PAYER, &steps).await.expect("mined");
    let (mut gas, mut cost) = (0, U256::ZERO);
    for receipt in &receipts {
        assert!(receipt.status, "a transaction failed");
        let receipt = chain
            .receipt(receipt.tx_hash)
            .await
            .expect("an answer")
            .expect("a receipt");
        gas = receipt.gas_used;
        cost += U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
    }
    println!("{CHILDREN} children in three tokens and the coin: {gas} gas in one transaction");
    assert!(gas <= GAS_LIMIT, "{gas}");
    for ((token, sum), before) in spent.iter().zip(before) {
        let cost = if token.is_none() { cost } else { U256::ZERO };
        assert_eq!(before - held(&app, *token, payer).await, *sum + cost, "{token:?}");
    }
    for (payee, token, tenths, decimals) in &due {
        assert_eq!(held(&app, *token, *payee).await, units(*tenths, *decimals), "{payee}");
    }

    app.settle().await;
    for child in &children {
        let read = app.read_request(&child.request).await;
        assert_eq!(
            (&read["status"], read.get("excessAmount"), &read["payerAddress"]),
            (&json!("paid"), None, &json!(payer.to_string()))
        );
        app.open_link(&child.token, "").send().await.expect(409);
    }
    assert_eq!(confirmed(&receiver).await, requests_of(&children), "one event each");
    let hash = receipts.last().expect("a payment").tx_hash.to_string();
    for answer in [
        app.open_link(&parent, "").send().await,
        app.calldata_of(&parent, None).await,
    ] {
        let paid = answer.expect(409);
        assert_eq!(
            (&paid["message"], &paid["status"]),
            (&json!("Secure payment has already been completed"), &json!("completed"))
        );
        let shown = children
            .iter()
            .map(|child| json!({ "requestId": child.request, "hasBeenPaid": true, "txHash": hash }));
        assert_eq!(paid["requestStatuses"], json!(shown.collect::<Vec<_>>()));
    }
    let found = app.read_multicall(&app.owner().await, &parent).await.expect(200);
    assert_eq!(
        (&found["status"], &found["canExecute"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(block_reasons(&found), ["already_paid"; CHILDREN]);
}

/// The failure of a child in the envelope. `states` are the states of its link and of its request, if the caller may see
/// them.
async fn failure(
    app: &TestApp,
    position: usize,
    child: &ChildLink,
    (reason, recovery): (&str, &str),
    states: Option<[&str; 2]>,
) -> Value {
    let mut context = json!({ "securePaymentToken": child.token, "position": position });
    if let Some([link, request]) = states {
        let expires_at = app.stored_link(&child.token).await.expires_at;
        context["requestId"] = json!(child.request);
        context["hasBeenPaid"] = json!(request == "paid");
        context["securePaymentStatus"] = json!(link);
        context["requestStatus"] = json!(request);
        context["expiresAt"] = json!(expires_at.to_rfc3339_opts(SecondsFormat::Millis, true));
        context["network"] = json!("sepolia");
        context["currency"] = json!("FAU-sepolia");
    }
    json!({
        "securePaymentToken": child.token,
        "reason": reason,
        "messageKey": format!("multicall.child.{reason}"),
        "context": context,
        "recoveryAction": recovery,
    })
}

/// The exceeded limit in the envelope.
fn cap(maximum: usize, actual: usize) -> Value {
    let reduce_by = actual - maximum;
    json!({ "type": "child_count", "maximum": maximum, "actual": actual, "reduceBy": reduce_by })
}

/// Checks that a response is the envelope with these failures and this exceeded limit.
#[track_caller]
fn assert_envelope(answer: &Answer, failures: &[Value], cap: Option<&Value>) {
    let refused = answer.expect(400);
    assert_eq!(refused["failures"], json!(failures));
    assert_eq!(
        (&refused["statusCode"], &refused["error"], &refused["message"]),
        (&json!(400), &json!("Bad Request"), &json!(REFUSED))
    );
    assert_eq!(refused["code"], "multicall_validation_failed");
    assert_eq!((refused.get("errors"), refused.get("cap")), (None, cap));
}

#[tokio::test]
async fn a_child_paid_elsewhere_blocks_its_multicall_but_not_the_others() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    register(&app, &receiver).await;
    let mut children = Vec::new();
    for (seed, amount) in ["2", "3", "4"].into_iter().enumerate() {
        children.push(payout(&app, wallet(seed), amount).await);
    }
    let parent = app.multicall(&children.iter().collect::<Vec<_>>()).await;
    app.pay_link(&children[1].token).await;
    app.settle().await;
    let opened = app.open_link(&parent, "").send().await.expect(200);
    assert_eq!(
        (&opened["status"], &opened["canExecute"]),
        (&json!("partially_settled"), &json!(false))
    );
    assert_eq!(block_reasons(&opened), ["-", "already_paid", "-"]);
    assert_eq!(opened["totals"]["blockedChildCount"], 1);
    let expected = failure(
        &app,
        1,
        &children[1],
        ("already_paid", REMOVE),
        Some(["completed", "paid"]),
    )
    .await;
    for member in ["securePaymentToken", "messageKey", "context", "recoveryAction"] {
        assert_eq!(opened["children"][1][member], expected[member], "{member}");
    }
    let payer = app.account(PAYER);
    let offered = app.open_link(&parent, &format!("?wallet={payer}")).send().await;
    assert_eq!(
        offered.expect(200).get("paymentOptions"),
        None,
        "nothing can be paid with this link"
    );
    for wallet in [None, Some(payer.as_str())] {
        let refused = app.calldata_of(&parent, wallet).await;
        assert_envelope(&refused, std::slice::from_ref(&expected), None);
    }
    let lock = json!({ "safeTxHash": HASH, "chain": "SEPOLIA", "token": "FAU" });
    let refused = app.report_payment(&parent, &lock).await;
    assert_envelope(&refused, &[expected], None);
    for child in [&children[0], &children[2]] {
        app.pay_link(&child.token).await;
    }
    app.settle().await;
    for (seed, tenths) in [20, 30, 40].into_iter().enumerate() {
        assert_eq!(fau_of(&app, wallet(seed)).await, units(tenths, 18));
    }
    assert_eq!(confirmed(&receiver).await, requests_of(&children));
    app.open_link(&parent, "").send().await.expect(409);
    let found = app.read_multicall(&app.owner().await, &parent).await.expect(200);
    assert_eq!(found["status"], "completed");
    // Each child has its own transaction, so the receipt of the multicall has no row for one.
    for (link, count) in [(&parent, 0), (&children[0].token, 1)] {
        let receipt = app.get(&format!("/pay/{link}/receipt?lang=en")).send().await;
        for name in ["Paid by", "Transaction"] {
            let shown = receipt.text.matches(&format!("<dt>{name}</dt>")).count();
            assert_eq!((receipt.status, shown), (200, count), "{name}: {}", receipt.text);
        }
    }
}

#[tokio::test]
async fn a_locked_multicall_shows_which_children_are_paid() {
    let app = TestApp::on_chain().await;
    let (one, two) = (payout(&app, wallet(1), "2").await, payout(&app, wallet(2), "3").await);
    let parent = app.multicall(&[&one, &two]).await;
    let lock = json!({ "safeTxHash": HASH, "chain": "SEPOLIA", "token": "FAU" });
    app.report_payment(&parent, &lock).await.expect(200);
    app.pay_link(&one.token).await;
    app.settle().await;
    let hash = app.read_request(&one.request).await["txHash"].clone();
    assert!(hash.is_string(), "{hash}");
    for call in [
        app.open_link(&parent, "").send().await,
        app.calldata_of(&parent, None).await,
    ] {
        let locked = call.expect(423);
        let shown = locked["requestStatuses"].as_array().expect("requests").iter();
        let shown: Vec<_> = shown
            .map(|request| (&request["requestId"], &request["hasBeenPaid"], &request["txHash"]))
            .collect();
        assert_eq!(
            shown,
            [
                (&json!(one.request), &json!(true), &hash),
                (&json!(two.request), &json!(false), &Value::Null)
            ]
        );
    }
}

#[tokio::test]
async fn a_child_paid_twice_is_overpaid_and_confirmed_once() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    register(&app, &receiver).await;
    let mut children = Vec::new();
    for (seed, amount) in ["2", "3", "4"].into_iter().enumerate() {
        children.push(payout(&app, wallet(seed), amount).await);
    }
    let parent = app.multicall(&children.iter().collect::<Vec<_>>()).await;
    let payer = app.account(PAYER);
    let together = app.calldata_of(&parent, Some(&payer)).await.expect(200);
    let late = app.calldata_of(&children[0].token, Some(&payer)).await.expect(200);
    // The second child is paid before the multicall, and the first one after it.
    app.pay_link(&children[1].token).await;
    app.settle().await;
    app.send_calldata(&together).await;
    app.settle().await;
    app.send_calldata(&late).await;
    app.settle().await;
    for (seed, (child, paid, excess)) in [
        (&children[0], 40, Some("2")),
        (&children[1], 60, Some("3")),
        (&children[2], 40, None),
    ]
    .into_iter()
    .enumerate()
    {
        let read = app.read_request(&child.request).await;
        assert_eq!(
            (&read["status"], read.get("excessAmount"), &read["paidAmount"]),
            (
                &json!("paid"),
                excess.map(|excess| json!(excess)).as_ref(),
                &json!(decimal(paid))
            )
        );
        let payments = if excess.is_some() { 2 } else { 1 };
        assert_eq!(app.payments_of(&child.request).await.len(), payments);
        assert_eq!(fau_of(&app, wallet(seed)).await, units(paid, 18));
    }
    assert_eq!(
        confirmed(&receiver).await,
        requests_of(&children),
        "no second confirmation"
    );
    let found = app.read_multicall(&app.owner().await, &parent).await.expect(200);
    assert_eq!(found["status"], "completed");
}

#[tokio::test]
async fn an_unconfirmed_payment_blocks_its_child_until_it_is_final() {
    let app = TestApp::on_chain_with(CONFIRMATIONS).await;
    let (one, two) = (payout(&app, wallet(1), "2").await, payout(&app, wallet(2), "3").await);
    let parent = app.multicall(&[&one, &two]).await;
    app.pay_link(&two.token).await;
    app.follow().await;
    let opened = app.open_link(&parent, "").send().await.expect(200);
    assert_eq!(
        (&opened["status"], &opened["canExecute"]),
        (&json!("pending"), &json!(false))
    );
    assert_eq!(block_reasons(&opened), ["-", "request_processing"]);
    let reason = ("request_processing", "recreate_after_cooldown");
    let expected = [failure(&app, 1, &two, reason, Some(["pending", "pending"])).await];
    assert_envelope(&app.calldata_of(&parent, None).await, &expected, None);
    assert_envelope(&app.post_multicall(&multicall_of(&[&one, &two])).await, &expected, None);
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    let opened = app.open_link(&parent, "").send().await.expect(200);
    assert_eq!(opened["status"], "partially_settled");
    assert_eq!(block_reasons(&opened), ["-", "already_paid"]);
}

/// Links that cannot be children, each with its failure: reason, recovery, and the states of link and request.
type BlockedLink = (ChildLink, (&'static str, &'static str), Option<[&'static str; 2]>);

/// Creates a link for each reason. `spare` can be paid, and so can the first child of the later call. The payment of one
/// of the links is on the chain and not final.
async fn blocked_links(app: &TestApp, providers: &Providers, spare: &ChildLink) -> Vec<BlockedLink> {
    const LINKAGE: (&str, &str) = ("invalid_child_linkage", REMOVE);
    const NOT_SINGLE: (&str, &str) = ("not_single_payment", REMOVE);
    const NOT_PENDING: (&str, &str) = ("secure_payment_not_pending", REMOVE);
    const PROCESSING: (&str, &str) = ("request_processing", "recreate_after_cooldown");
    let open = Some(["pending", "pending"]);
    let mut body = payout_of(OTHER, "1");
    body["expiresIn"] = json!(300);
    let expired = app.child_link(&body).await;
    app.advance_ms(300_001);

    let by_client = app.post("/v2/secure-payments/payouts").with_client();
    let by_client = by_client.json(&payout_of(OTHER, "1")).send().await.expect(201);
    let unknown = ChildLink {
        token: UNKNOWN.to_owned(),
        request: String::new(),
    };
    let (key, _) = app.other_tenant().await;
    let foreign = app.post("/v2/secure-payments/payouts").header("x-api-key", &key);
    let foreign = foreign.json(&payout_of(OTHER, "1")).send().await.expect(201);
    let incoming = app.link(&link_of(&["1"])).await.expect(201);
    let one = payout(app, wallet(1), "1").await;
    let two = payout(app, wallet(2), "1").await;
    let batch = app.combine_links(&[&one, &two]).await.expect(201);
    let third = payout(app, wallet(3), "1").await;
    let multicall = ChildLink {
        token: app.multicall(&[spare, &third]).await,
        request: spare.request.clone(),
    };
    let paid = payout(app, wallet(4), "1").await;
    app.pay_link(&paid.token).await;
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    let withdrawn = payout(app, wallet(5), "1").await;
    app.withdraw_link(&withdrawn.token).await.expect(200);
    let refused = app.refused_link(providers, BANNED, None).await;
    let failed = payout(app, wallet(6), "1").await;
    let statement = format!(
        "UPDATE requests SET status = 'failed' WHERE request_id = '{}'",
        failed.request
    );
    app.change_rows(&statement).await;
    let (unconfirmed, locked) = (payout(app, wallet(7), "1").await, payout(app, wallet(8), "1").await);
    app.pay_link(&unconfirmed.token).await;
    app.follow().await;
    let report = json!({ "safeTxHash": HASH, "chain": "SEPOLIA", "token": "FAU" });
    app.report_payment(&locked.token, &report).await.expect(200);
    vec![
        (ChildLink::read(&by_client), LINKAGE, open),
        (unknown, ("not_found", REMOVE), None),
        (ChildLink::read(&foreign), ("not_found", REMOVE), None),
        (ChildLink::read(&incoming), ("not_outgoing", REMOVE), open),
        (ChildLink::read(&batch), NOT_SINGLE, open),
        (multicall, NOT_SINGLE, open),
        (paid, ("already_paid", REMOVE), Some(["completed", "paid"])),
        (
            expired,
            ("secure_payment_expired", REMOVE),
            Some(["expired", "pending"]),
        ),
        (withdrawn, NOT_PENDING, Some(["invalidated", "pending"])),
        (one, NOT_PENDING, Some(["invalidated", "pending"])),
        (unconfirmed, PROCESSING, open),
        (locked, PROCESSING, open),
        (
            refused,
            ("compliance_failed", "support_required"),
            Some(["compliance_failed", "cancelled"]),
        ),
        (
            failed,
            ("not_payable_child", "switch_route"),
            Some(["pending", "failed"]),
        ),
    ]
}

#[tokio::test]
async fn one_refusal_lists_every_child_that_cannot_be_paid_in_order() {
    let providers = Providers::start().await;
    let app = TestApp::on_chain_as(providers.settings(), CONFIRMATIONS).await;
    app.is_paid_in("FAU-sepolia").await;
    let (good, spare) = (payout(&app, wallet(10), "1").await, payout(&app, wallet(11), "1").await);
    let blocked = blocked_links(&app, &providers, &spare).await;
    // The second link that can be paid is among the blocked ones, and the last one repeats the first.
    let (start, end) = blocked.split_at(5);
    let links_of = |links: &[BlockedLink]| -> Vec<ChildLink> { links.iter().map(|(link, ..)| link.clone()).collect() };
    let links = [
        vec![good.clone()],
        links_of(start),
        vec![spare.clone()],
        links_of(end),
        vec![good.clone()],
    ]
    .concat();
    let mut expected = Vec::new();
    for (index, (link, reason, states)) in blocked.iter().enumerate() {
        let position = if index < start.len() { index + 1 } else { index + 2 };
        expected.push(failure(&app, position, link, *reason, *states).await);
    }
    let repeated = ("invalid_child_linkage", REMOVE);
    let last = links.len() - 1;
    expected.push(failure(&app, last, &good, repeated, Some(["pending", "pending"])).await);
    let reasons: BTreeSet<&str> = blocked.iter().map(|(_, (reason, _), _)| *reason).collect();
    assert_eq!(reasons.len(), 10, "each reason of this version: {reasons:?}");
    let before = rows(&app, "secure_payments").await;
    let refused = app
        .post_multicall(&multicall_of(&links.iter().collect::<Vec<_>>()))
        .await;
    assert_envelope(&refused, &expected, None);
    println!("{} children, {} failures in one response", links.len(), expected.len());
    assert_eq!(rows(&app, "secure_payments").await, before, "nothing is created");
    app.multicall(&[&good, &spare]).await;
}

#[tokio::test]
async fn too_many_children_and_children_on_tron_are_refused_as_a_whole() {
    let app = TestApp::start().await;
    let unknown = |count: usize| json!({ "childTokens": vec![UNKNOWN; count] });
    let all = json!({
        "securePaymentToken": "*",
        "reason": "cap_exceeded",
        "messageKey": "multicall.child.cap_exceeded",
        "context": {},
        "recoveryAction": "recreate_reduced",
    });
    let of_kind = |mut body: Value, kind: &str| {
        body["requestedExecutionKind"] = json!(kind);
        body
    };
    for (body, maximum, actual) in [
        (unknown(151), 150, 151),
        (unknown(1_000), 150, 1_000),
        (of_kind(unknown(151), "evm_same_chain"), 150, 151),
        (of_kind(unknown(21), "evm_cross_chain"), 20, 21),
    ] {
        let refused = app.post_multicall(&body).await;
        assert_envelope(&refused, std::slice::from_ref(&all), Some(&cap(maximum, actual)));
    }
    for (body, count) in [(unknown(150), 150), (of_kind(unknown(20), "evm_cross_chain"), 20)] {
        let refused = app.post_multicall(&body).await.expect(400);
        let failures = refused["failures"].as_array().expect("failures");
        assert_eq!((failures.len(), refused.get("cap")), (count, None));
        assert!(failures.iter().all(|failure| failure["reason"] == "not_found"));
    }
    let good = payout(&app, wallet(1), "1").await;
    let on_tron = payout(&app, wallet(2), "1").await;
    let statement = format!(
        "UPDATE secure_payments SET network = 'tron' WHERE token = '{}'",
        on_tron.token
    );
    app.change_rows(&statement).await;
    let tron = "Batch payments are not supported for TRON networks. Please submit individual payment requests.";
    for body in [
        of_kind(unknown(2), "tron_batch"),
        multicall_of(&[&good, &on_tron]),
        multicall_of(&[&on_tron, &good]),
    ] {
        let refused = app.post_multicall(&body).await.expect(400);
        assert_eq!((&refused["message"], refused.get("failures")), (&json!(tron), None));
    }
    let mut foreign_member = multicall_of(&[&good, &good]);
    foreign_member["expiresIn"] = json!(300);
    for (body, field) in [
        (json!({}), "childTokens"),
        (unknown(0), "childTokens"),
        (unknown(1), "childTokens"),
        (unknown(1_001), "childTokens"),
        (json!({ "childTokens": [UNKNOWN, "nothing"] }), "childTokens[1]"),
        (of_kind(unknown(2), "solana"), "requestedExecutionKind"),
        (foreign_member, "expiresIn"),
    ] {
        let refused = app.post_multicall(&body).await;
        assert_eq!(refused.status, 400, "{field}: {}", refused.text);
        assert_eq!(refused.wrong_fields(), [field], "{}", refused.text);
    }
}

/// The service on two networks whose nodes are down.
async fn on_two_networks() -> TestApp {
    let mut settings = settings();
    for network in ["sepolia", "base"] {
        let chain = ChainSettings {
            rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
            ..ChainSettings::default()
        };
        settings.chains.insert(network.to_owned(), chain);
    }
    TestApp::with(settings, None).await
}

#[tokio::test]
async fn children_on_several_networks_cannot_be_paid_together() {
    let app = on_two_networks().await;
    let mut body = payout_of(OTHER, "7");
    body["network"] = json!("base");
    body["currency"] = json!("USDC-base");
    let on_base = app.child_link(&body).await;
    let mut links = vec![on_base.clone()];
    for seed in 0..20 {
        links.push(payout(&app, wallet(seed), "2").await);
    }
    let body_of = |count: usize| multicall_of(&links[..count].iter().collect::<Vec<_>>());
    let refused = app.post_multicall(&body_of(21)).await.expect(400);
    assert_eq!(refused["cap"], cap(20, 21));
    app.post_multicall(&body_of(20)).await.expect(201);
    let mut same_chain = body_of(2);
    same_chain["requestedExecutionKind"] = json!("evm_same_chain");
    let refused = app.post_multicall(&same_chain).await.expect(400);
    let failures = refused["failures"].as_array().expect("failures").iter();
    let failures: Vec<_> = failures
        .map(|failure| (&failure["context"]["position"], &failure["reason"]))
        .collect();
    assert_eq!(failures, [(&json!(1), &json!("not_payable_child"))]);

    let parent = app.multicall(&[&on_base, &links[1]]).await;
    let opened = app.open_link(&parent, "").send().await.expect(200);
    let found = app.read_multicall(&app.owner().await, &parent).await.expect(200);
    for shown in [&opened, &found] {
        assert_eq!(
            (&shown["status"], &shown["canExecute"]),
            (&json!("pending"), &json!(false))
        );
        assert_eq!(block_reasons(shown), ["not_payable_child"; 2]);
        let sums = json!([
            { "network": "base", "currency": "USDC-base", "totalAmount": "7" },
            { "network": "sepolia", "currency": "FAU-sepolia", "totalAmount": "2" },
        ]);
        assert_eq!(shown["totals"]["byDestinationCurrency"], sums);
        for child in shown["children"].as_array().expect("children") {
            assert_eq!(child["recoveryAction"], "switch_route");
        }
    }
    let refused = app.calldata_of(&parent, None).await.expect(400);
    let failures = refused["failures"].as_array().expect("failures");
    assert_eq!((failures.len(), &refused["message"]), (2, &json!(REFUSED)));
    assert!(failures.iter().all(|failure| failure["reason"] == "not_payable_child"));
    for child in [&on_base, &links[1]] {
        app.calldata_of(&child.token, None).await.expect(200);
    }
}

/// Lifetimes, in milliseconds, of the two children in the table; the multicall expires with the first one.
const FIRST_LASTS_MS: i64 = 600_000;
const SECOND_LASTS_MS: i64 = 1_200_000;

/// How many milliseconds before the expiry of a multicall its history is created.
const LEAD_MS: i64 = 60_000;

/// What happened to a multicall before the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MulticallPast {
    /// Nothing.
    Untouched,
    /// The second child was paid with its own link.
    OnePaid,
    /// The transaction of the multicall paid both children.
    BothPaid,
    /// The transaction of the multicall paid both children after the expiry.
    BothPaidLate,
    /// The multicall was withdrawn.
    ParentWithdrawn,
    /// The second child was withdrawn.
    ChildWithdrawn,
    /// The second child was combined with another link.
    ChildCombined,
    /// The second child was combined with another link, which was paid.
    CombinationPaid,
    /// A payer reported a payment of the first child.
    ChildReported,
    /// A Safe is about to pay the first child.
    ChildLocked,
    /// A Safe is about to pay the multicall.
    ParentLocked,
}

/// Time of the calls, relative to the expiry of the multicall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MulticallTime {
    /// A minute before the expiry.
    Early,
    /// The last millisecond before the expiry.
    AtExpiry,
    /// The first millisecond after the expiry.
    Expired,
    /// After the expiry and a run of the sweeper.
    AfterSweep,
}

const PASTS: [MulticallPast; 11] = {
    use MulticallPast::{
        BothPaid, BothPaidLate, ChildCombined, ChildLocked, ChildReported, ChildWithdrawn, CombinationPaid, OnePaid,
        ParentLocked, ParentWithdrawn, Untouched,
    };
    [
        Untouched,
        OnePaid,
        BothPaid,
        BothPaidLate,
        ParentWithdrawn,
        ChildWithdrawn,
        ChildCombined,
        CombinationPaid,
        ChildReported,
        ChildLocked,
        ParentLocked,
    ]
};

const TIMES: [MulticallTime; 4] = [
    MulticallTime::Early,
    MulticallTime::AtExpiry,
    MulticallTime::Expired,
    MulticallTime::AfterSweep,
];

const READS: [&str; 5] = ["get", "pay", "owner", "first child", "second child"];

const PAID: &str = "409 Secure payment has already been completed";
const OVER: &str = "403 Secure payment has expired";
const GONE: &str = "403 Secure payment has been withdrawn";
const LOCKED: &str = "423 Secure payment is in progress";

/// The responses, in the order of [`READS`].
fn expected_reads(past: MulticallPast, is_over: bool) -> [&'static str; 5] {
    use MulticallPast::{
        BothPaid, BothPaidLate, ChildCombined, ChildLocked, ChildReported, ChildWithdrawn, CombinationPaid, OnePaid,
        ParentLocked, ParentWithdrawn, Untouched,
    };
    let (first, second) = ("200 due 2", "200 due 3");
    let no_first = "200 expired [secure_payment_expired -]";
    match (past, is_over) {
        // Anyone can report a payment, so a report blocks nothing.
        (Untouched | ChildReported, false) => {
            let open = "200 pending, executable [- -]";
            [open, "200 due 2 3", open, first, second]
        }
        (Untouched | ChildReported | ChildLocked | ParentLocked, true) => [OVER, OVER, no_first, OVER, second],
        (OnePaid, false) => {
            let part = "200 partially_settled [- already_paid]";
            let refused = "400 Multicall validation failed [1 already_paid]";
            [part, refused, part, first, PAID]
        }
        (OnePaid, true) => {
            let part = "200 partially_settled [secure_payment_expired already_paid]";
            [part, OVER, part, OVER, PAID]
        }
        (BothPaid | BothPaidLate, _) => {
            let done = "200 completed [already_paid already_paid]";
            [PAID, PAID, done, PAID, PAID]
        }
        (ParentWithdrawn, false) => [GONE, GONE, "200 pending [- -]", first, second],
        (ParentWithdrawn, true) => [GONE, GONE, no_first, OVER, second],
        (ChildWithdrawn | ChildCombined, false) => {
            let blocked = "200 pending [- secure_payment_not_pending]";
            let refused = "400 Multicall validation failed [1 secure_payment_not_pending]";
            [blocked, refused, blocked, first, GONE]
        }
        (ChildWithdrawn | ChildCombined, true) => {
            let blocked = "200 expired [secure_payment_expired secure_payment_not_pending]";
            [OVER, OVER, blocked, OVER, GONE]
        }
        (CombinationPaid, false) => {
            let part = "200 partially_settled [- secure_payment_not_pending]";
            let refused = "400 Multicall validation failed [1 secure_payment_not_pending]";
            [part, refused, part, first, GONE]
        }
        (CombinationPaid, true) => {
            let part = "200 partially_settled [secure_payment_expired secure_payment_not_pending]";
            [part, OVER, part, OVER, GONE]
        }
        (ChildLocked, false) => {
            let blocked = "200 pending [request_processing -]";
            let refused = "400 Multicall validation failed [0 request_processing]";
            [blocked, refused, blocked, LOCKED, second]
        }
        (ParentLocked, false) => [LOCKED, LOCKED, "200 pending [- -]", first, second],
    }
}

/// The text of a table cell: the status of a response, followed by its message or by the value that `facts` selects.
fn cell(answer: &Answer, facts: impl FnOnce(&Value) -> String) -> String {
    let body = answer.json();
    if (200..300).contains(&answer.status) {
        return format!("{}{}", answer.status, facts(&body));
    }
    let message = body["message"].as_str().expect("a message");
    let failures = body["failures"].as_array().into_iter().flatten();
    let failures: Vec<String> = failures
        .map(|failure| {
            let reason = failure["reason"].as_str().expect("a reason");
            format!("{} {reason}", failure["context"]["position"])
        })
        .collect();
    match failures.as_slice() {
        [] => format!("{} {message}", answer.status),
        failures => format!("{} {message} [{}]", answer.status, failures.join(", ")),
    }
}

fn state(body: &Value) -> String {
    let status = body["status"].as_str().expect("a status");
    let can = if body["canExecute"] == true { ", executable" } else { "" };
    format!(" {status}{can} [{}]", block_reasons(body).join(" "))
}

/// The amounts in a `/pay` response.
fn amounts(body: &Value) -> String {
    let several = body["amounts"].as_array().into_iter().flatten();
    let several: Vec<&str> = several.filter_map(Value::as_str).collect();
    match several.as_slice() {
        [] => format!(
            " due {}",
            body["metadata"]["requiredAmount"].as_str().expect("an amount")
        ),
        several => format!(" due {}", several.join(" ")),
    }
}

struct ParentCase {
    parent: String,
    first: ChildLink,
    second: ChildLink,
}

impl ParentCase {
    /// Creates a multicall with this history, a minute before its expiry.
    async fn create(app: &TestApp, past: MulticallPast) -> Self {
        let child = async |amount: &str, lasts_ms: i64| {
            let mut body = payout_of(OTHER, amount);
            body["expiresIn"] = json!(lasts_ms / 1_000);
            app.child_link(&body).await
        };
        let (first, second) = (child("2", FIRST_LASTS_MS).await, child("3", SECOND_LASTS_MS).await);
        let made = app.post_multicall(&multicall_of(&[&first, &second])).await.expect(201);
        let ends = app.stored_link(&first.token).await.expires_at;
        let ends = ends.to_rfc3339_opts(SecondsFormat::Millis, true);
        assert_eq!(made["expiresAt"], json!(ends), "when the first child expires");
        app.advance_ms(FIRST_LASTS_MS - LEAD_MS);
        let case = Self {
            parent: token_of(&made),
            first,
            second,
        };
        case.experience(app, past).await;
        case
    }

    async fn experience(&self, app: &TestApp, past: MulticallPast) {
        let report = |member: &str| json!({ member: HASH, "chain": "SEPOLIA", "token": "FAU" });
        match past {
            MulticallPast::Untouched => {}
            MulticallPast::OnePaid => {
                app.pay_link(&self.second.token).await;
                app.settle().await;
            }
            MulticallPast::BothPaid => {
                app.pay_link(&self.parent).await;
                app.settle().await;
            }
            MulticallPast::BothPaidLate => {
                let calldata = app
                    .calldata_of(&self.parent, Some(&app.account(PAYER)))
                    .await
                    .expect(200);
                app.advance_ms(LEAD_MS + 1);
                app.send_calldata(&calldata).await;
                app.settle().await;
            }
            MulticallPast::ParentWithdrawn => drop(app.withdraw_link(&self.parent).await.expect(200)),
            MulticallPast::ChildWithdrawn => drop(app.withdraw_link(&self.second.token).await.expect(200)),
            MulticallPast::ChildCombined | MulticallPast::CombinationPaid => {
                let partner = payout(app, wallet(1), "1").await;
                let combined = app.combine_links(&[&self.second, &partner]).await.expect(201);
                if past == MulticallPast::CombinationPaid {
                    app.pay_link(&token_of(&combined)).await;
                    app.settle().await;
                }
            }
            MulticallPast::ChildReported => {
                app.report_payment(&self.first.token, &report("txHash"))
                    .await
                    .expect(200);
            }
            MulticallPast::ChildLocked => {
                let report = report("safeTxHash");
                app.report_payment(&self.first.token, &report).await.expect(200);
            }
            MulticallPast::ParentLocked => {
                app.report_payment(&self.parent, &report("safeTxHash"))
                    .await
                    .expect(200);
            }
        }
    }

    async fn reads(&self, app: &TestApp) -> [String; 5] {
        // A session expires while the clock moves, so each row has its own.
        let owner = app.owner().await;
        [
            cell(&app.open_link(&self.parent, "").send().await, state),
            cell(&app.calldata_of(&self.parent, None).await, amounts),
            cell(&app.read_multicall(&owner, &self.parent).await, state),
            cell(&app.calldata_of(&self.first.token, None).await, amounts),
            cell(&app.calldata_of(&self.second.token, None).await, amounts),
        ]
    }
}

#[tokio::test]
async fn every_state_and_time_of_a_multicall_has_its_responses() {
    let app = TestApp::on_chain().await;
    let (mut cells, mut wrong) = (0, Vec::new());
    println!("| past | time | {} |", READS.join(" | "));
    println!("|{}", "---|".repeat(2 + READS.len()));
    for past in PASTS {
        for time in TIMES {
            let is_over = matches!(time, MulticallTime::Expired | MulticallTime::AfterSweep);
            let is_late = past == MulticallPast::BothPaidLate;
            if is_late && !is_over {
                continue;
            }
            let case = ParentCase::create(&app, past).await;
            let left = if is_late { -1 } else { LEAD_MS };
            match time {
                MulticallTime::Early => {}
                MulticallTime::AtExpiry => app.advance_ms(left),
                MulticallTime::Expired | MulticallTime::AfterSweep => app.advance_ms(left + 1),
            }
            if time == MulticallTime::AfterSweep {
                assert!(!expire::run(&app.ctx).await.expect("a sweep"));
            }
            let reads = case.reads(&app).await;
            println!("| {past:?} | {time:?} | {} |", reads.join(" | "));
            for ((name, read), expected) in READS.iter().zip(&reads).zip(expected_reads(past, is_over)) {
                cells += 1;
                if read != expected {
                    wrong.push(format!("{past:?} {time:?} {name}: {read:?} instead of {expected:?}"));
                }
            }
        }
    }
    println!("multicalls: {cells} cells, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Adds a credential of a tenant to a call, with the origin that a browser would send.
fn with_credential<'a>(app: &TestApp, call: Call<'a>, kind: Kind, owner: &Tenant) -> Call<'a> {
    let value = owner.good[kind.id()].as_str();
    match kind.scheme() {
        Scheme::OrchestratorKey => call.header("x-orchestrator-key", value),
        Scheme::Paired => {
            let (key, client_id) = value.split_once(' ').expect("a pair");
            call.header("x-orchestrator-key", key).header("x-client-id", client_id)
        }
        Scheme::ApiKey => call.header("x-api-key", value),
        Scheme::ClientId => call.header("x-client-id", value).header("origin", PAGE),
        Scheme::SessionBearer => call.header("authorization", &format!("Bearer {value}")),
        Scheme::Session => call
            .header("cookie", &format!("session_token={value}"))
            .header("origin", &app.ctx.own_pages.origin),
    }
}

/// Two payout links that a credential creates. The credentials that cannot create links get links of the API key.
async fn two_links(app: &TestApp, kind: Kind, owner: &Tenant) -> [ChildLink; 2] {
    let can_create = !matches!(kind, Kind::Of(Scheme::OrchestratorKey) | Kind::LinkedClientId);
    let kind = if can_create { kind } else { Kind::Of(Scheme::ApiKey) };
    let make = async || {
        let call = with_credential(app, app.post("/v2/secure-payments/payouts"), kind, owner);
        ChildLink::read(&call.json(&payout_of(OTHER, "1")).send().await.expect(201))
    };
    [make().await, make().await]
}

async fn create_as(app: &TestApp, kind: Kind, owner: &Tenant, children: &[&ChildLink]) -> Answer {
    let call = app.post("/v2/secure-payments/multicall-payouts");
    let call = with_credential(app, call, kind, owner);
    call.json(&multicall_of(children)).send().await
}

#[tokio::test]
async fn only_secret_credentials_create_multicalls_of_their_own_links() {
    let app = TestApp::start().await;
    let (own, foreign) = (tenant(&app, 7).await, tenant(&app, 8).await);
    let mut wrong = Vec::new();
    for (kind, expected) in KINDS.into_iter().zip([403, 201, 201, 403, 201, 201, 201, 403]) {
        let [one, two] = two_links(&app, kind, &own).await;
        let answer = create_as(&app, kind, &own, &[&one, &two]).await;
        if answer.status != expected {
            wrong.push(format!("{kind:?}: {} {}", answer.status, answer.text));
        }
        let is_of_pair = kind == Kind::Of(Scheme::Paired);
        if is_of_pair {
            let read = app.open_link(&token_of(&answer.json()), "").send().await.expect(200);
            assert!(read["orchestratorId"].is_string(), "{read}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let key = Kind::Of(Scheme::ApiKey);
    let [one, two] = two_links(&app, key, &own).await;
    let stolen = [&one, &two];
    let unseen = [
        failure(&app, 0, &one, ("not_found", REMOVE), None).await,
        failure(&app, 1, &two, ("not_found", REMOVE), None).await,
    ];
    // A client ID reaches only its own links, and another tenant none of them.
    let client = Kind::Of(Scheme::ClientId);
    assert_envelope(&create_as(&app, client, &own, &stolen).await, &unseen, None);
    for kind in [
        key,
        client,
        Kind::Of(Scheme::SessionBearer),
        Kind::Of(Scheme::Session),
        Kind::Of(Scheme::Paired),
    ] {
        assert_envelope(&create_as(&app, kind, &foreign, &stolen).await, &unseen, None);
    }
    // A link of an orchestrator and a link of the platform have different creators.
    let [of_pair, _] = two_links(&app, Kind::Of(Scheme::Paired), &own).await;
    let linkage = ("invalid_child_linkage", REMOVE);
    let expected = [failure(&app, 1, &of_pair, linkage, Some(["pending", "pending"])).await];
    assert_envelope(&create_as(&app, key, &own, &[&one, &of_pair]).await, &expected, None);
}

#[tokio::test]
async fn owners_read_multicalls_and_anyone_with_the_token_opens_them() {
    let app = TestApp::start().await;
    let (own, foreign) = (tenant(&app, 7).await, tenant(&app, 8).await);
    let key = Kind::Of(Scheme::ApiKey);
    let [one, two] = two_links(&app, key, &own).await;
    let parent = token_of(&create_as(&app, key, &own, &[&one, &two]).await.expect(201));
    let single = one.token.as_str();
    let read = async |kind: Kind, owner: &Tenant, token: &str| {
        let call = app.get(&format!("/v2/secure-payments/multicall-payouts/{token}"));
        with_credential(&app, call, kind, owner).send().await
    };
    let open = async |kind: Kind, owner: &Tenant| {
        let call = app.get(&format!("/v2/secure-payments/{parent}"));
        with_credential(&app, call, kind, owner).send().await.status
    };
    for kind in KINDS {
        let is_session = matches!(kind, Kind::Of(Scheme::SessionBearer | Scheme::Session));
        if !is_session {
            assert_eq!(read(kind, &own, &parent).await.status, 403, "{kind:?}");
            continue;
        }
        let found = read(kind, &own, &parent).await.expect(200);
        assert_eq!(
            (&found["token"], &found["status"], &found["canExecute"]),
            (&json!(parent), &json!("pending"), &json!(true))
        );
        let page = format!("http://127.0.0.1:8080/pay/?token={parent}");
        assert_eq!(found["securePaymentUrl"], json!(page));
        let unknown = read(kind, &own, UNKNOWN).await.expect(404);
        for answer in [
            read(kind, &foreign, &parent).await,
            read(kind, &foreign, UNKNOWN).await,
            read(kind, &own, single).await,
        ] {
            let refused = answer.expect(404);
            for member in ["statusCode", "message", "error"] {
                assert_eq!(refused[member], unknown[member], "{kind:?} {member}");
            }
        }
    }
    for (kind, expected) in KINDS.into_iter().zip([403, 200, 200, 200, 403, 403, 403, 200]) {
        for owner in [&own, &foreign] {
            assert_eq!(open(kind, owner).await, expected, "{kind:?}");
        }
    }
    app.get(&format!("/v2/secure-payments/{parent}"))
        .send()
        .await
        .expect(401);
    let opened = app.open_link(&parent, "").send().await.expect(200);
    assert_eq!(opened.get("securePaymentUrl"), None, "only the owner gets the page");
}

#[tokio::test]
async fn a_repeated_idempotency_key_returns_the_stored_multicall() {
    let app = TestApp::start().await;
    let (one, two) = (payout(&app, wallet(1), "2").await, payout(&app, wallet(2), "3").await);
    let send = async |children: &[&ChildLink]| {
        let call = app.post("/v2/secure-payments/multicall-payouts").with_key();
        let call = call.header("idempotency-key", "multicall-1");
        call.json(&multicall_of(children)).send().await
    };
    let (first, again) = (send(&[&one, &two]).await, send(&[&one, &two]).await);
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    send(&[&two, &one]).await.expect(409);
}

#[tokio::test]
async fn a_hidden_multicall_shows_no_payments_before_a_wallet_is_given() {
    let app = TestApp::on_chain().await;
    let hidden = async |amount: &str| {
        let mut body = payout_of(OTHER, amount);
        body["accessPolicy"] = json!({ "hideUntilApproved": true });
        app.child_link(&body).await
    };
    let (one, two) = (hidden("2").await, hidden("3").await);
    let parent = app.multicall(&[&one, &two]).await;
    let masked = app.open_link(&parent, "").send().await.expect(200);
    for child in masked["children"].as_array().expect("children") {
        for member in ["amount", "payee", "reference", "feePlan"] {
            assert_eq!(child[member], Value::Null, "{member}");
        }
        let context = &child["context"];
        assert_eq!((context.get("network"), context.get("currency")), (None, None));
    }
    assert_eq!(masked["totals"]["byDestinationCurrency"], json!([]));
    assert_eq!(masked["totals"].get("amountSummary"), None);
    let payer = app.account(PAYER);
    let shown = app
        .open_link(&parent, &format!("?wallet={payer}"))
        .send()
        .await
        .expect(200);
    assert_eq!(
        (&shown["children"][0]["amount"], &shown["children"][1]["amount"]),
        (&json!("2"), &json!("3"))
    );
    let on_chain = app.open_link(&parent, &format!("?wallet={payer}&chain=SEPOLIA&token=FAU"));
    on_chain.send().await.expect(200);
    for (source, field) in [("chain=BASE&token=FAU", "chain"), ("chain=SEPOLIA&token=USDC", "token")] {
        // Without a wallet, the network and the token stay hidden.
        let masked = app.open_link(&parent, &format!("?{source}")).send().await.expect(200);
        assert_eq!(masked["children"][0]["amount"], Value::Null, "{source}");
        for path in ["", "/pay"] {
            let refused = app
                .open_link(&parent, &format!("{path}?wallet={payer}&{source}"))
                .send()
                .await;
            assert_eq!(
                (refused.status, refused.wrong_fields()),
                (400, vec![field.to_owned()]),
                "{path} {source}"
            );
        }
    }
    // A visitor without a wallet does not learn which children are blocked either.
    app.withdraw_link(&two.token).await.expect(200);
    let refused = app.calldata_of(&parent, None).await;
    assert_eq!(refused.wrong_fields(), ["wallet"], "{}", refused.text);
    assert_eq!(refused.expect(400).get("failures"), None);
    let reason = ("secure_payment_not_pending", REMOVE);
    let expected = [failure(&app, 1, &two, reason, Some(["invalidated", "pending"])).await];
    assert_envelope(&app.calldata_of(&parent, Some(&payer)).await, &expected, None);
}

#[tokio::test]
async fn links_that_hide_different_things_cannot_share_a_multicall() {
    let app = TestApp::start().await;
    let with_policy = async |policy: Value| {
        let mut body = payout_of(OTHER, "2");
        body["accessPolicy"] = policy;
        app.child_link(&body).await
    };
    let open = payout(&app, wallet(1), "3").await;
    let until_approved = with_policy(json!({ "hideUntilApproved": true })).await;
    let payee = with_policy(json!({ "hidePayeeAddress": true })).await;
    let links = [&open, &until_approved, &payee];
    for first in links {
        let others = links.into_iter().filter(|other| other.token != first.token);
        let named: Vec<&ChildLink> = [first].into_iter().chain(others).collect();
        let mut expected = Vec::new();
        for (position, other) in named.iter().enumerate().skip(1) {
            let linkage = ("invalid_child_linkage", REMOVE);
            expected.push(failure(&app, position, other, linkage, Some(["pending", "pending"])).await);
        }
        let refused = app.post_multicall(&multicall_of(&named)).await;
        assert_envelope(&refused, &expected, None);
    }
    let like = with_policy(json!({ "hidePayeeAddress": true })).await;
    app.multicall(&[&payee, &like]).await;
}

/// The report of a user operation; `members` replace members of a valid body, and null counts as absent.
fn user_operation(members: &Value) -> Value {
    let mut body = json!({
        "chain": "SEPOLIA",
        "smartAccountAddress": OTHER,
        "userOpHash": HASH,
        "transactionIndices": [
            { "childPosition": 0, "transactionIndex": 1 },
            { "childPosition": 1, "transactionIndex": 2 },
        ],
    });
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}

/// A hash that repeats this byte.
fn hash_of(byte: u8) -> String {
    format!("0x{}", hex::encode([byte; 32]))
}

#[tokio::test]
async fn a_user_operation_is_recorded_once_and_changes_nothing() {
    let app = TestApp::start().await;
    let (one, two) = (payout(&app, wallet(1), "2").await, payout(&app, wallet(2), "3").await);
    let parent = app.multicall(&[&one, &two]).await;
    let look = async || {
        let mut shown = Vec::new();
        for token in [&parent, &one.token, &two.token] {
            shown.push(app.open_link(token, "").send().await.expect(200));
        }
        for child in [&one, &two] {
            shown.push(app.read_request(&child.request).await);
        }
        // Only the mark of a payment in flight follows the report.
        let in_flight = shown[0].as_object_mut().expect("an object").remove("inFlight");
        (in_flight, shown)
    };
    let (in_flight, before) = look().await;
    assert_eq!(in_flight, Some(json!(false)));
    let events = rows(&app, "events").await;
    let send = async |body: &Value| app.report_payment(&parent, body).await;
    let body = user_operation(&json!({ "txHash": hash_of(1) }));
    let first = send(&body).await.expect(200);
    let receipt = json!({
        "receiptId": first["receiptId"],
        "multicallId": parent,
        "parentToken": parent,
        "txHash": hash_of(1),
        "sourceChain": "SEPOLIA",
        "smartAccountAddress": OTHER,
        "userOpHash": HASH,
        "transactionIndices": body["transactionIndices"],
        "isListening": false,
    });
    assert_eq!(first, receipt);
    assert!(first["receiptId"].is_string());
    assert_eq!(first, send(&body).await.expect(200), "the same operation again");
    let by_page = app.post(&format!("/v2/secure-payments/{parent}/intent"));
    let by_page = by_page.header("x-client-id", &app.page_client).header("origin", PAGE);
    let by_page = by_page.json(&body).send().await.expect(200);
    assert_eq!(by_page["receiptId"], first["receiptId"]);
    let most = vec![json!({ "childPosition": 1, "transactionIndex": 0 }); 250];
    let another = json!({ "userOpHash": hash_of(2), "transactionIndices": most });
    let another = send(&user_operation(&another)).await.expect(200);
    assert_ne!(another["receiptId"], first["receiptId"]);
    assert_eq!(another["transactionIndices"], json!(most));

    let (in_flight, after) = look().await;
    assert_eq!((in_flight, &after), (Some(json!(true)), &before));
    assert_eq!(
        (after[0]["status"].as_str(), &after[0]["canExecute"]),
        (Some("pending"), &json!(true))
    );
    assert_eq!(rows(&app, "events").await, events, "no event");
    assert_eq!(rows(&app, "secure_payment_intents").await, 2);
}

#[tokio::test]
async fn user_operations_in_a_wrong_form_are_400_and_named() {
    let app = TestApp::start().await;
    let (one, two) = (payout(&app, wallet(1), "2").await, payout(&app, wallet(2), "3").await);
    let parent = app.multicall(&[&one, &two]).await;
    let index = json!({ "childPosition": 0, "transactionIndex": 0 });
    let at = |position: u32| json!([index, { "childPosition": position, "transactionIndex": 0 }]);
    let mut wrong = Vec::new();
    let mut judge = |body: &Value, answer: &Answer, field: &str| {
        if answer.status != 400 || answer.wrong_fields() != [field] {
            wrong.push(format!("{body}: {} {} instead of {field}", answer.status, answer.text));
        }
    };
    for (members, field) in [
        (json!({ "transactionIndices": [] }), "transactionIndices"),
        (json!({ "transactionIndices": null }), "transactionIndices"),
        (
            json!({ "transactionIndices": vec![index.clone(); 251] }),
            "transactionIndices",
        ),
        (
            json!({ "transactionIndices": at(2) }),
            "transactionIndices[1].childPosition",
        ),
        (
            json!({ "transactionIndices": at(1_001) }),
            "transactionIndices[1].childPosition",
        ),
        (json!({ "smartAccountAddress": null }), "smartAccountAddress"),
        (json!({ "userOpHash": null }), "userOpHash"),
        (json!({ "userOpHash": &HASH[..65] }), "userOpHash"),
        (json!({ "payerAddress": OTHER }), "payerAddress"),
        (json!({ "chain": "BASE" }), "chain"),
        (json!({ "token": "USDC" }), "token"),
    ] {
        let body = user_operation(&members);
        judge(&body, &app.report_payment(&parent, &body).await, field);
    }
    let body = user_operation(&json!({ "token": "FAU" }));
    judge(&body, &app.report_payment(&one.token, &body).await, "userOpHash");
    assert_eq!(rows(&app, "secure_payment_intents").await, 0, "nothing is recorded");
    // The single form of a hash keeps that hash from being reported as a user operation.
    let report = json!({ "txHash": HASH, "chain": "SEPOLIA", "token": "FAU" });
    app.report_payment(&parent, &report).await.expect(200);
    judge(&body, &app.report_payment(&parent, &body).await, "userOpHash");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    app.report_payment(UNKNOWN, &body).await.expect(404);
    app.withdraw_link(&parent).await.expect(200);
    app.report_payment(&parent, &body).await.expect(403);
}

#[tokio::test]
async fn a_multicall_asks_only_for_the_rest_of_partly_paid_children() {
    let app = TestApp::on_chain().await;
    let chain = app.devnet();
    let (payees, fees) = ([wallet(1), wallet(2)], wallet(9));
    let mut children = Vec::new();
    for (payee, amount) in payees.iter().zip(["5", "7"]) {
        let mut body = payout_of(&payee.to_string(), amount);
        body["feePercentage"] = json!("1");
        body["feeAddress"] = json!(fees.to_string());
        children.push(app.child_link(&body).await);
    }
    let parent = app.multicall(&children.iter().collect::<Vec<_>>()).await;
    let payer = app.account(PAYER);
    let asked = async || {
        let calldata = app.calldata_of(&parent, Some(&payer)).await.expect(200);
        let steps = link_transactions(&calldata);
        let (_, allowing) = steps.split_last().expect("a payment");
        let (spender, allowed) = approvals(allowing)[&chain.tokens().fau];
        assert_eq!(spender, chain.contracts().batch_conversion_payments);
        (calldata, allowed)
    };
    // 1 % on top of 12 units.
    let cent = U256::from(10).pow(U256::from(16));
    let (whole, allowed) = asked().await;
    assert_eq!(
        (&whole["metadata"]["requiredAmount"], allowed),
        (&json!("12.12"), cent * U256::from(1_212))
    );

    app.pay_part_of_link(PAYER, &children[0].token, ("2", 18)).await;
    app.settle().await;
    let opened = app.open_link(&parent, "").send().await.expect(200);
    assert_eq!(
        (&opened["status"], &opened["canExecute"]),
        (&json!("pending"), &json!(true)),
        "a partly paid child can be paid"
    );
    let child = &opened["children"][0];
    assert_eq!(
        (&child["context"]["requestStatus"], &child["context"]["hasBeenPaid"]),
        (&json!("partially_paid"), &json!(false))
    );
    let (rest, allowed) = asked().await;
    assert_eq!(
        (&rest["metadata"]["requiredAmount"], allowed),
        (&json!("10.1"), cent * U256::from(1_010))
    );
    assert_eq!(rest["amounts"], json!(["3", "7"]));
    assert_eq!(
        (&rest["children"][0]["amount"], &rest["children"][1]["amount"]),
        (&json!("3"), &json!("7"))
    );
    assert_eq!(rest["feeBundle"]["amountSummary"]["payerTotal"], "10.1");

    let payer: Address = payer.parse().expect("an address");
    let before = fau_of(&app, payer).await;
    app.send_calldata(&rest).await;
    app.settle().await;
    assert_eq!(
        before - fau_of(&app, payer).await,
        allowed,
        "the payer spends what was asked"
    );
    for (payee, tenths) in payees.into_iter().zip([50, 70]) {
        assert_eq!(fau_of(&app, payee).await, units(tenths, 18));
    }
    assert_eq!(fau_of(&app, fees).await, cent * U256::from(12), "1 % of 12 units");
    for child in &children {
        let read = app.read_request(&child.request).await;
        assert_eq!((&read["status"], read.get("excessAmount")), (&json!("paid"), None));
        for payment in read["payments"].as_array().expect("payments") {
            assert_eq!(payment.get("feeShortfall"), None, "{payment}");
        }
    }
    app.open_link(&parent, "").send().await.expect(409);
}
