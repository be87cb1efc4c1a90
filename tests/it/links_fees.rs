//! Fees of links: who may set them, whom they bind, and what the payer pays.

use crate::support::{
    TestApp,
    app::{forged, settings},
    chain::PAYER,
    links::{link_of, link_transactions, payout_of, token_of},
    requests::PAYEE,
    wallet::token,
};
use alloy::{
    primitives::{Address, U256, utils::parse_units},
    sol_types::SolCall,
};
use poem::http::Method;
use serde_json::{Value, json};

alloy::sol! {
    function setBatchFee(uint16 fee) external;
    function allowance(address owner, address spender) external view returns (uint256);
    struct Detail {
        address recipient;
        uint256 requestAmount;
        address[] path;
        bytes paymentReference;
        uint256 feeAmount;
        uint256 maxToSpend;
        uint256 maxRateTimespan;
    }
    struct Group {
        uint256 paymentNetworkId;
        Detail[] requestDetails;
    }
    function batchPayments(Group[] groups, address[][] pathsToUSD, address feeAddress) external;
}

const STRANGER: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const PARTNER: &str = "0x976EA74026E726554dB657fA54763abd0C3a0aa9";

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const RECIPIENT: &str = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";

/// The largest amount of a token with 18 decimals.
const MOST: &str = "115792089237316195423570985008687907853269984665640564039457.584007913129639935";

fn with_fee(mut body: Value, receiver: &str) -> Value {
    body["feePercentage"] = json!("100");
    body["feeAddress"] = json!(receiver);
    body
}

fn units(text: &str) -> U256 {
    parse_units(text, 18).expect("an amount").get_absolute()
}

#[tokio::test]
async fn a_public_client_id_cannot_send_fees_to_a_stranger() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let (links, payouts) = ("/v2/secure-payments", "/v2/secure-payments/payouts");
    let mut of_item = link_of(&["1", "2"]);
    of_item["requests"][1] = with_fee(of_item["requests"][1].clone(), STRANGER);
    for (path, body, field) in [
        (links, with_fee(link_of(&["10"]), STRANGER), "feeAddress"),
        (links, of_item, "requests[1].feeAddress"),
        (payouts, with_fee(payout_of(STRANGER, "10"), STRANGER), "feeAddress"),
    ] {
        let refused = forged(&app, Method::POST, path).json(&body).send().await;
        assert_eq!(refused.wrong_fields(), [field], "{}", refused.text);
        assert!(
            !refused.expect(400).to_string().contains(STRANGER),
            "the error must not repeat the value"
        );
        app.post(path).with_key().json(&body).send().await.expect(201);
    }
    // Fee receivers that are accepted: the platform's wallet, and an allowed payee of the client ID.
    let to_platform = with_fee(link_of(&["10"]), PAYEE);
    forged(&app, Method::POST, links)
        .json(&to_platform)
        .send()
        .await
        .expect(201);
    let listed = app.get("/v2/client-ids").with_key().send().await.expect(200);
    let own = listed.as_array().expect("a list").iter();
    let mut own = own.filter(|one| one["clientId"] == app.page_client.as_str());
    let id = own.next().expect("the client ID of pages")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let change = app.call(Method::PUT, &format!("/v2/client-ids/{id}")).with_key();
    let limits = json!({ "allowedPayees": [PAYEE, PARTNER] });
    change.json(&limits).send().await.expect(200);
    for (path, body) in [(links, link_of(&["10"])), (payouts, payout_of(PAYEE, "10"))] {
        let named = with_fee(body.clone(), PARTNER);
        forged(&app, Method::POST, path).json(&named).send().await.expect(201);
        let refused = forged(&app, Method::POST, path)
            .json(&with_fee(body, STRANGER))
            .send()
            .await;
        assert_eq!(refused.wrong_fields(), ["feeAddress"], "{}", refused.text);
    }
}

#[tokio::test]
async fn the_fee_of_a_link_is_fixed_at_creation() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let mut link = link_of(&["10"]);
    link["feePercentage"] = json!("2.5");
    link["feeAddress"] = json!(PARTNER);
    let mut payout = payout_of(STRANGER, "4");
    payout["feePercentage"] = json!("10");
    payout["feeAddress"] = json!(PARTNER);
    for (made, amount, missing) in [
        (app.link(&link).await.expect(201), "10", "0.25"),
        (app.payout_link(&payout).await.expect(201), "4", "0.4"),
    ] {
        // No calldata of the link has been requested.
        app.pay_past_link(&made["requestIds"][0], amount).await;
        app.settle().await;
        let id = made["requestIds"][0].as_str().expect("an id");
        let read = app.read_request(id).await;
        assert_eq!(read["status"], "paid");
        let shortfall = read["payments"][0]["feeShortfall"].as_str();
        assert_eq!(shortfall, Some(missing), "{}", read["payments"][0]);
    }
}

#[tokio::test]
async fn the_batch_contract_fee_is_shown_and_no_allowance_remains() {
    let mut settings = settings();
    settings.fees.protocol_bps = 50;
    settings.fees.protocol_address = Some(PARTNER.to_owned());
    let app = TestApp::on_chain_as(settings, 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let chain = app.devnet();
    let contract = chain.contracts().batch_conversion_payments;
    let set = setBatchFeeCall { fee: 100 }.abi_encode();
    assert!(chain.send(0, contract, set, U256::ZERO).await.expect("mined").status);
    let fau: Address = token(&app, "FAU-sepolia").parse().expect("an address");
    let payer: Address = app.account(PAYER).parse().expect("an address");
    let mut two_receivers = link_of(&["100"]);
    two_receivers["feePercentage"] = json!("2");
    two_receivers["feeAddress"] = json!(STRANGER);
    // One percent of the sum is more than the sum of one percent of each part, rounded down.
    let mut several = link_of(&["100", "33.000000000000000051", "0.000000000000000077"]);
    several["feePercentage"] = json!("3");
    several["feeAddress"] = json!(STRANGER);
    for body in [two_receivers, several, link_of(&["1", "2"])] {
        let link = token_of(&app.link(&body).await.expect(201));
        let state = app.get(&format!("/pay/{link}/state")).send().await.expect(200);
        let page = app.get(&format!("/pay/{link}/calldata?wallet={payer}")).send().await;
        let sum = page.expect(200)["asked"][0].clone();
        let before = chain.balance_of(fau, payer).await.expect("a balance");
        let calldata = app.pay_link(&link).await;
        let spent = before - chain.balance_of(fau, payer).await.expect("a balance");
        let bundle = &calldata["feeBundle"];
        let shown = bundle["amountSummary"]["payerTotal"].as_str().expect("a total");
        assert_eq!(units(shown), spent, "{bundle}");
        let fees = bundle["fees"].as_array().expect("a list").iter();
        let fees = fees.map(|fee| units(fee["amount"].as_str().expect("an amount")));
        let gross = units(bundle["amountSummary"]["grossAmount"].as_str().expect("an amount"));
        assert_eq!(fees.fold(gross, |sum, fee| sum + fee), spent, "{bundle}");
        if let Some(required) = calldata["metadata"]["requiredAmount"].as_str() {
            assert_eq!(units(required), spent);
        }
        let approved = U256::from_be_slice(&link_transactions(&calldata)[0].1[36..68]);
        assert_eq!(approved, spent, "the approval is not exact");
        let asked = allowanceCall {
            owner: payer,
            spender: contract,
        };
        let left = chain
            .call(PAYER, fau, asked.abi_encode(), U256::ZERO)
            .await
            .expect("answers");
        assert_eq!(U256::from_be_slice(&left), U256::ZERO);
        // The page reads no chain until a wallet connects, and then shows exactly this amount.
        let most = state["details"]["currencies"][0]["most"].as_str().expect("an amount");
        assert!(units(most) >= spent, "{state}");
        assert_eq!(units(sum["amount"].as_str().expect("an amount")), approved, "{sum}");
        let part = |value: &Value| value.as_str().map_or(U256::ZERO, units);
        let parts = part(&sum["contractFee"]["amount"]) + part(&sum["returned"]);
        assert_eq!(
            part(&state["details"]["currencies"][0]["due"]) + parts,
            approved,
            "{sum}"
        );
        assert_eq!(approved - part(&sum["returned"]), spent, "{sum}");
    }
}

#[tokio::test]
async fn an_amount_that_overflows_with_its_fee_is_refused() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let (links, payouts) = ("/v2/secure-payments", "/v2/secure-payments/payouts");
    for (path, body, field) in [
        (links, with_fee(link_of(&[MOST]), STRANGER), "requests[0].amount"),
        (payouts, with_fee(payout_of(STRANGER, MOST), STRANGER), "amount"),
    ] {
        let refused = app.post(path).with_key().json(&body).send().await;
        assert_eq!(refused.wrong_fields(), [field], "{}", refused.text);
        assert!(
            !refused.expect(400).to_string().contains(MOST),
            "the error must not repeat the value"
        );
    }
    // Without a fee, the amount is payable.
    app.link(&link_of(&[MOST])).await.expect(201);
}

/// Adds up fees that follow each other and have the same receiver and currency.
fn joined(fees: impl IntoIterator<Item = (Address, bool, U256)>) -> Vec<(Address, bool, U256)> {
    let mut joined: Vec<(Address, bool, U256)> = Vec::new();
    for (receiver, is_coin, units) in fees {
        match joined.last_mut() {
            Some(last) if (last.0, last.1) == (receiver, is_coin) => last.2 += units,
            _ => joined.push((receiver, is_coin, units)),
        }
    }
    joined
}

#[tokio::test]
async fn fees_of_coins_and_tokens_are_listed_as_the_calldata_pays_them() {
    let mut settings = settings();
    settings.fees.protocol_bps = 50;
    settings.fees.protocol_address = Some(PARTNER.to_owned());
    let app = TestApp::on_chain_as(settings, 1).await;
    let chain = app.devnet();
    let contract = chain.contracts().batch_conversion_payments;
    let set = setBatchFeeCall { fee: 100 }.abi_encode();
    assert!(chain.send(0, contract, set, U256::ZERO).await.expect("mined").status);
    let mut tokens = Vec::new();
    for (currency, amount, receiver) in [
        ("ETH-sepolia-sepolia", "0.5", STRANGER),
        ("FAU-sepolia", "10", OTHER),
        ("ETH-sepolia-sepolia", "0.25", OTHER),
        ("FAU-sepolia", "20", STRANGER),
        ("FAU-sepolia", "30", OTHER),
    ] {
        let mut payout = payout_of(RECIPIENT, amount);
        payout["currency"] = json!(currency);
        payout["feePercentage"] = json!("10");
        payout["feeAddress"] = json!(receiver);
        tokens.push(token_of(&app.payout_link(&payout).await.expect(201)));
    }
    let call = app.post("/v2/secure-payments/batch-payouts").with_key();
    let made = call.json(&json!({ "tokens": tokens })).send().await.expect(201);
    let calldata = app.pay_link(&token_of(&made)).await;

    let steps = link_transactions(&calldata);
    let call = batchPaymentsCall::abi_decode(&steps.last().expect("a payment").1).expect("the call");
    let recipient: Address = RECIPIENT.parse().expect("an address");
    let paid = call.groups.iter().flat_map(|group| {
        let is_coin = group.paymentNetworkId == U256::from(3);
        let details = group.requestDetails.iter();
        let riding = details.clone().filter(|detail| !detail.feeAmount.is_zero());
        let riding = riding.map(move |detail| (call.feeAddress, is_coin, detail.feeAmount));
        let alone = details.filter(|detail| detail.recipient != recipient);
        riding.chain(alone.map(move |detail| (detail.recipient, is_coin, detail.requestAmount)))
    });
    let paid = joined(paid);
    let fees = calldata["feeBundle"]["fees"].as_array().expect("a list").iter();
    let listed: Vec<(bool, (Address, bool, U256))> = fees
        .map(|fee| {
            let text = |name: &str| fee[name].as_str().expect("text").to_owned();
            let receiver: Address = text("recipient").parse().expect("an address");
            let is_coin = text("paymentCurrencyId").starts_with("ETH");
            let is_of_contract = text("feeType") == "batch_contract";
            (is_of_contract, (receiver, is_coin, units(&text("amount"))))
        })
        .collect();
    let of_calls = listed.iter().filter(|(is_of_contract, _)| !is_of_contract);
    assert_eq!(joined(of_calls.map(|(_, fee)| *fee)), paid, "{}", calldata["feeBundle"]);
    assert_eq!(paid.len(), 6, "three receivers in each of two currencies: {paid:?}");
    // The contract charges its own fee at the end of each group.
    let ends = listed
        .chunk_by(|one, next| one.1.1 == next.1.1)
        .map(|group| (group.last().map(|fee| fee.0), group.iter().filter(|fee| fee.0).count()));
    assert_eq!(
        ends.collect::<Vec<_>>(),
        [(Some(true), 1); 2],
        "{}",
        calldata["feeBundle"]
    );
}

#[tokio::test]
async fn the_page_names_every_fee_receiver_and_masks_a_payee_among_them() {
    let mut settings = settings();
    settings.fees.protocol_bps = 50;
    settings.fees.protocol_address = Some(PARTNER.to_owned());
    let app = TestApp::on_chain_as(settings, 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let mut link = link_of(&["100", "50"]);
    link["requests"][0]["feePercentage"] = json!("2");
    link["requests"][0]["feeAddress"] = json!(STRANGER);
    for (policy, receiver, is_shown) in [
        (json!({}), STRANGER, true),
        (json!({ "hidePayeeAddress": true }), STRANGER, true),
        (json!({}), PAYEE, true),
        (json!({ "hidePayeeAddress": true }), PAYEE, false),
    ] {
        link["accessPolicy"] = policy;
        link["requests"][0]["feeAddress"] = json!(receiver);
        let token = token_of(&app.link(&link).await.expect(201));
        let state = app.get(&format!("/pay/{token}/state")).send().await;
        let fees = state.expect(200)["details"]["currencies"][0]["fees"].clone();
        let fees = fees.as_array().expect("a list").iter();
        let fees: Vec<(String, String)> = fees
            .map(|fee| {
                let text = |name: &str| fee[name].as_str().expect("text").to_owned();
                assert_eq!(fee["due"], fee["amount"], "nothing is paid");
                (text("receiver"), text("amount"))
            })
            .collect();
        let shown = if is_shown {
            receiver.to_owned()
        } else {
            format!("{}…{}", &receiver[..6], &receiver[38..])
        };
        assert!(fees.contains(&(shown, "2".to_owned())), "{fees:?}");
        assert!(fees.contains(&(PARTNER.to_owned(), "0.75".to_owned())), "{fees:?}");
        for path in ["", "/receipt"] {
            let page = app.get(&format!("/pay/{token}{path}")).send().await;
            assert_eq!(page.status, 200);
            for (receiver, amount) in &fees {
                assert!(page.text.contains(&format!(">{receiver}<")), "{path}: {}", page.text);
                assert!(
                    page.text.contains(&format!(">{amount}\u{a0}FAU<")),
                    "{path}: {}",
                    page.text
                );
            }
            assert_eq!(page.text.contains(receiver), is_shown, "{path}: {}", page.text);
        }
        assert_eq!(state.text.contains(receiver), is_shown, "{}", state.text);
    }
}
