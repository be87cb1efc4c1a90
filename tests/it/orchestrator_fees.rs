//! Fees of orchestrators: their configs, what payments capture from them, and what arrives on the chain.

use crate::{
    orchestrator_links::{by, partner, unlink},
    pairs::Linked,
    reconcile::{compare, run_sql},
    reversal::{CONFIRMATIONS, mine, reversible_app},
    support::{
        Answer, TestApp,
        app::{Call, settings},
        chain::PAYER,
        dice::Dice,
        links::{link_of, payout_of, token_of},
        receiver::Receiver,
        wallet::token,
    },
};
use alloy::primitives::{Address, B256, U256, utils::parse_units};
use devnet::ReorgTransaction;
use poem::http::Method;
use serde_json::{Value, json};
use std::{collections::BTreeMap, ops::Deref};

const CONFIGS: &str = "/v2/orchestrators/fee-configs";
const USDC: &str = "USDC-sepolia";

const PAYER_FEES: &str = "0x976EA74026E726554dB657fA54763abd0C3a0aa9";
const PAYEE_FEES: &str = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";
const PLATFORM_FEES: &str = "0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f";
const PROTOCOL_FEES: &str = "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720";
/// The account of a further payer.
const SECOND_PAYER: usize = 4;

const RECIPIENT: &str = "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc";

/// Number of random plans that the test executes on the local chain by default.
const PLANS: usize = 20;

/// An environment variable that overrides the number of random plans.
const PLANS_VARIABLE: &str = "PRS_TEST_PLANS";

/// A platform that is paid in USDC, and an orchestrator that is linked to one of its client IDs.
struct Partnership {
    shop: Linked,
    client_id: String,
}

impl Deref for Partnership {
    type Target = Linked;

    fn deref(&self) -> &Linked {
        &self.shop
    }
}

impl Partnership {
    async fn with(app: TestApp) -> Self {
        Self::with_client_fee(app, "0").await
    }

    async fn with_client_fee(app: TestApp, client_fee: &str) -> Self {
        let shop = Linked::paid_in(app, USDC).await;
        let fee = json!({ "label": "Bound", "feePercentage": client_fee, "feeAddress": PLATFORM_FEES });
        let client_id = shop.linked_with(fee).await;
        Self { shop, client_id }
    }

    async fn on_chain() -> Self {
        Self::with(TestApp::on_chain().await).await
    }

    fn call<'a>(&'a self, method: Method, path: &str) -> Call<'a> {
        by(self.app.call(method, path), &self.orchestrator)
    }

    async fn config(&self, body: Value) -> Answer {
        self.call(Method::POST, CONFIGS).json(&body).send().await
    }

    /// Takes a fee of each bearer from the payments of a direction.
    async fn take_fees(&self, flow: &str, payer_bps: u32, payee_bps: u32) {
        let payer_borne = config_of("payer", flow, payer_bps, PAYER_FEES);
        self.config(payer_borne).await.expect(201);
        let payee_borne = config_of("recipient", flow, payee_bps, PAYEE_FEES);
        self.config(payee_borne).await.expect(201);
    }

    async fn change(&self, id: &Value, body: Value) -> Answer {
        let path = format!("{CONFIGS}/{}", id.as_str().expect("an id"));
        self.call(Method::PATCH, &path).json(&body).send().await
    }

    async fn link(&self, amounts: &[&str]) -> Value {
        self.create("/v2/secure-payments", &link_of(amounts)).await.expect(201)
    }

    /// Posts with the pair.
    async fn create(&self, path: &str, body: &Value) -> Answer {
        self.post(path, &self.client_id, body).await
    }

    async fn balances(&self) -> BTreeMap<String, U256> {
        let usdc = self.app.devnet().tokens().usdc;
        let mut balances = BTreeMap::new();
        let payer = self.app.account(PAYER);
        let payee = prs_payee();
        for holder in [
            &payer,
            &payee,
            PAYER_FEES,
            PAYEE_FEES,
            PLATFORM_FEES,
            PROTOCOL_FEES,
            RECIPIENT,
        ] {
            let address: Address = holder.parse().expect("an address");
            let balance = self.app.devnet().balance_of(usdc, address).await;
            balances.insert((*holder).to_owned(), balance.expect("a balance"));
        }
        balances
    }
}

fn prs_payee() -> String {
    crate::support::requests::PAYEE.to_owned()
}

fn config_of(bearer: &str, flow: &str, bps: u32, receiver: &str) -> Value {
    json!({ "bps": bps, "feeBearer": bearer, "flow": flow, "evmRecipientAddress": receiver })
}

fn usdc(text: &str) -> U256 {
    parse_units(text, 6).expect("an amount").get_absolute()
}

#[tokio::test]
async fn a_fee_config_is_created_listed_changed_and_disabled() {
    let partnership = Partnership::with(TestApp::start().await).await;
    let default = partnership
        .config(config_of("payer", "incoming", 50, PAYER_FEES))
        .await
        .expect(201);
    assert_eq!(
        default,
        json!({
            "id": default["id"], "feeType": "orchestrator_fee", "bps": 50, "feeBearer": "payer", "flow": "incoming",
            "usdCap": null, "evmRecipientAddress": PAYER_FEES, "tronRecipientAddress": null, "status": "active",
            "clientId": null,
        })
    );
    let mut own = config_of("payer", "incoming", 0, PAYER_FEES);
    own["clientId"] = json!(partnership.client_id);
    own["usdCap"] = json!("2.5");
    let own = partnership.config(own).await.expect(201);
    assert_eq!(
        (&own["clientId"], &own["usdCap"]),
        (&json!(partnership.client_id), &json!("2.5"))
    );
    let list = async |query: &str| {
        let path = format!("{CONFIGS}{query}");
        partnership.call(Method::GET, &path).send().await.expect(200)["feeConfigs"].clone()
    };
    let of_client = format!("?clientId={}", partnership.client_id);
    assert_eq!(list("").await, json!([default]));
    assert_eq!(list(&of_client).await, json!([own]));
    let changed = partnership
        .change(&default["id"], json!({ "bps": 75, "usdCap": "1" }))
        .await
        .expect(200);
    assert_eq!((&changed["bps"], &changed["usdCap"]), (&json!(75), &json!("1")));
    let uncapped = partnership
        .change(&default["id"], json!({ "usdCap": null, "flow": "incoming" }))
        .await;
    assert_eq!(uncapped.expect(200)["usdCap"], Value::Null);
    let path = format!("{CONFIGS}/{}", default["id"].as_str().expect("an id"));
    for _ in 0..2 {
        let disabled = partnership.call(Method::DELETE, &path).send().await.expect(200);
        assert_eq!(
            (&disabled["status"], &disabled["bps"]),
            (&json!("disabled"), &json!(75))
        );
    }
    let again = partnership.config(config_of("payer", "incoming", 10, PAYER_FEES)).await;
    again.expect(409);
    let scoped = format!("{path}{of_client}");
    assert_eq!(
        partnership.call(Method::DELETE, &scoped).send().await.expect(404)["message"],
        "Fee config not found"
    );
    unlink(&partnership.app, &partnership.orchestrator, &partnership.client_id)
        .await
        .expect(200);
    partnership.change(&own["id"], json!({ "bps": 1 })).await.expect(404);
    partnership
        .change(&default["id"], json!({ "bps": 1 }))
        .await
        .expect(200);
}

#[tokio::test]
async fn wrong_fee_configs_name_their_fields() {
    let partnership = Partnership::with(TestApp::start().await).await;
    let usdc = token(&partnership.app, USDC);
    let valid = config_of("recipient", "outgoing", 50, PAYEE_FEES);
    for (member, value, field) in [
        ("bps", json!(-1), "bps"),
        ("bps", json!(10_001), "bps"),
        ("bps", json!(2.5), "bps"),
        ("usdCap", json!("0"), "usdCap"),
        ("usdCap", json!("-1"), "usdCap"),
        ("usdCap", json!("1.0000001"), "usdCap"),
        ("usdCap", json!("1.0000000"), "usdCap"),
        ("usdCap", json!("0.0000001"), "usdCap"),
        (
            "evmRecipientAddress",
            json!("0x0000000000000000000000000000000000000000"),
            "evmRecipientAddress",
        ),
        (
            "evmRecipientAddress",
            json!("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"),
            "evmRecipientAddress",
        ),
        ("evmRecipientAddress", json!(usdc), "evmRecipientAddress"),
        ("tronRecipientAddress", json!(PAYEE_FEES), "tronRecipientAddress"),
        ("feeBearer", json!("payee"), "feeBearer"),
        ("flow", json!("get_paid"), "flow"),
        ("status", json!("deleted"), "status"),
    ] {
        let mut body = valid.clone();
        body[member] = value.clone();
        let refused = partnership.config(body).await;
        assert_eq!(refused.wrong_fields(), [field], "{member} {value}: {}", refused.text);
        refused.expect(400);
    }
    let mut without = valid.clone();
    without
        .as_object_mut()
        .expect("an object")
        .remove("evmRecipientAddress");
    let refused = partnership.config(without).await;
    assert_eq!(refused.wrong_fields(), ["evmRecipientAddress"]);
    let mut foreign = valid.clone();
    foreign["clientId"] = json!(partnership.app.backend_client);
    partnership.config(foreign).await.expect(404);
    let made = partnership.config(valid).await.expect(201);
    for (body, field) in [
        (json!({ "flow": "incoming" }), "flow"),
        (json!({ "feeBearer": "payer" }), "feeBearer"),
        (json!({ "feeType": "platform_fee" }), "feeType"),
        (json!({ "evmRecipientAddress": null }), "evmRecipientAddress"),
        (json!({ "bps": 10_001 }), "bps"),
    ] {
        let refused = partnership.change(&made["id"], body).await;
        assert_eq!(refused.wrong_fields(), [field], "{}", refused.text);
        refused.expect(400);
    }
    let other = partner(&partnership.app).await;
    let path = format!("{CONFIGS}/{}", made["id"].as_str().expect("an id"));
    let foreign = by(partnership.app.call(Method::PATCH, &path), &other)
        .json(&json!({ "bps": 1 }))
        .send()
        .await;
    foreign.expect(404);
}

#[tokio::test]
async fn fifty_equal_fee_configs_at_once_leave_one() {
    let partnership = Partnership::with(TestApp::start().await).await;
    let calls = (0..50).map(|_| partnership.config(config_of("payer", "incoming", 50, PAYER_FEES)));
    let statuses: Vec<u16> = futures_util::future::join_all(calls)
        .await
        .into_iter()
        .map(|answer| answer.status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        1,
        "{statuses:?}"
    );
    assert!(
        statuses.iter().all(|status| [201, 409].contains(status)),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn a_link_with_fees_of_both_bearers_is_paid_in_full() {
    let partnership = Partnership::on_chain().await;
    partnership
        .config(config_of("payer", "incoming", 100, PAYER_FEES))
        .await
        .expect(201);
    let payee_borne = partnership
        .config(config_of("recipient", "incoming", 250, PAYEE_FEES))
        .await
        .expect(201);
    let made = partnership.link(&["100"]).await;
    let plan = &made["feePlan"];
    let figures = [
        ("grossAmountUsd", "100"),
        ("netRecipientAmountUsd", "97.5"),
        ("payerTotalAmountUsd", "101"),
        ("totalFeesUsd", "3.5"),
        ("payeeBorneFeesUsd", "2.5"),
        ("payerBorneFeesUsd", "1"),
    ];
    for (member, expected) in figures {
        assert_eq!(plan[member], expected, "{member}");
    }
    let lines: Vec<_> = plan["fees"].as_array().expect("fees").iter().collect();
    assert_eq!(lines.len(), 2);
    for (line, (bearer, receiver)) in lines.iter().zip([("payer", PAYER_FEES), ("payee", PAYEE_FEES)]) {
        assert_eq!(line["type"], "orchestrator");
        assert_eq!(line["feeBearer"], bearer);
        assert_eq!(line["feeBearerSource"], "fee_config");
        assert_eq!(line["configSource"], "orchestrator_default");
        assert_eq!(line["destinationRef"]["evmAddress"], receiver);
    }
    // A later change of the fee config does not change the fees of an existing link.
    let swapped = json!({ "bps": 9_000, "evmRecipientAddress": PLATFORM_FEES });
    partnership.change(&payee_borne["id"], swapped).await.expect(200);
    let opened = partnership.app.open_link(&token_of(&made), "").send().await.expect(200);
    let analytics = &opened["analytics"];
    assert_eq!(
        (
            &analytics["orchestratorPayerFeeAmountUsd"],
            &analytics["orchestratorRecipientFeeAmountUsd"]
        ),
        (&json!("1"), &json!("2.5")),
        "{analytics}"
    );
    let before = partnership.balances().await;
    let token = token_of(&made);
    let calldata = partnership.app.pay_link(&token).await;
    let summary = &calldata["feeBundle"]["amountSummary"];
    assert_eq!(
        (&summary["grossAmount"], &summary["netRecipientAmount"]),
        (&json!("100"), &json!("97.5"))
    );
    assert_eq!(
        (&summary["payerTotal"], &summary["payeeBorneFees"]),
        (&json!("101"), &json!("2.5"))
    );
    partnership.app.settle().await;
    let after = partnership.balances().await;
    let gained = |holder: &str| after[holder] - before[holder];
    assert_eq!(gained(&prs_payee()), usdc("97.5"));
    assert_eq!((gained(PAYER_FEES), gained(PAYEE_FEES)), (usdc("1"), usdc("2.5")));
    assert_eq!(gained(PLATFORM_FEES), U256::ZERO);
    let payer = partnership.app.account(PAYER);
    assert_eq!(before[&payer] - after[&payer], usdc("101"));
    let id = made["requestIds"][0].as_str().expect("an id");
    let read = partnership.app.read_request(id).await;
    assert_eq!(read["status"], "paid", "{read}");
    assert_eq!(read["requestAmount"], "100");
    assert_eq!(read["payments"][0]["feeShortfall"], Value::Null);
    assert_eq!(fees_of(&read["payments"][0]), ["1", "2.5"], "{read}");
    let found = partnership.payments_of(&made).await;
    assert_eq!(fees_of(&found[0]), ["1", "2.5"], "{found:?}");
    let path = format!("/v2/payments/export?requestId={id}&format=jsonl");
    let exported = partnership.app.get(&path).with_key().send().await;
    let line: Value = serde_json::from_str(exported.text.trim()).expect("one line of JSON");
    assert_eq!(fees_of(&line), ["1", "2.5"], "{line}");
}

#[tokio::test]
async fn the_preview_agrees_with_the_plan_of_the_link() {
    let partnership = Partnership::with(TestApp::start().await).await;
    partnership
        .config(config_of("payer", "incoming", 33, PAYER_FEES))
        .await
        .expect(201);
    let mut capped = config_of("recipient", "incoming", 777, PAYEE_FEES);
    capped["usdCap"] = json!("0.123456");
    partnership.config(capped).await.expect(201);
    partnership
        .config(config_of("payer", "outgoing", 1, PAYER_FEES))
        .await
        .expect(201);
    for amount in ["0.000003", "1.234567", "99999.999999"] {
        let made = partnership.link(&[amount]).await;
        let asked = json!({ "amount": amount, "currency": USDC, "flow": "get_paid" });
        let preview = partnership
            .create("/v2/secure-payments/fees/preview", &asked)
            .await
            .expect(200);
        assert_eq!(preview, made["feePlan"], "{amount}");
    }
}

#[tokio::test]
async fn a_payee_borne_fee_of_everything_is_refused() {
    let partnership = Partnership::with(TestApp::start().await).await;
    partnership
        .config(config_of("recipient", "incoming", 10_000, PAYEE_FEES))
        .await
        .expect(201);
    let refused = partnership.create("/v2/secure-payments", &link_of(&["1"])).await;
    assert_eq!(refused.wrong_fields(), ["requests[0].amount"], "{}", refused.text);
    refused.expect(400);
}

#[tokio::test]
async fn partial_payments_pay_a_captured_fee_once() {
    let partnership = Partnership::on_chain().await;
    partnership.take_fees("incoming", 100, 1_000).await;
    let made = partnership.link(&["50"]).await;
    let id = made["requestIds"][0].as_str().expect("an id");
    let before = partnership.balances().await;
    // The payer pays a part without any fee; the link then asks for the rest of the net amount and both whole fees.
    partnership.app.pay_past_link_in(&made["requestIds"][0], "10", 6).await;
    partnership.app.settle().await;
    let read = partnership.app.read_request(id).await;
    assert_eq!(read["status"], "partially_paid", "{read}");
    assert_eq!(read["payments"][0]["feeShortfall"], "5.5", "{read}");
    let calldata = partnership.app.pay_link(&token_of(&made)).await;
    let summary = &calldata["feeBundle"]["amountSummary"];
    assert_eq!(
        (&summary["netRecipientAmount"], &summary["totalFees"]),
        (&json!("35"), &json!("5.5"))
    );
    partnership.app.settle().await;
    let read = partnership.app.read_request(id).await;
    assert_eq!(read["status"], "paid", "{read}");
    assert_eq!(read["payments"][1]["feeShortfall"], Value::Null, "{read}");
    let after = partnership.balances().await;
    let gained = |holder: &str| after[holder] - before[holder];
    assert_eq!(gained(&prs_payee()), usdc("45"));
    assert_eq!((gained(PAYER_FEES), gained(PAYEE_FEES)), (usdc("0.5"), usdc("5")));
    let payer = partnership.app.account(PAYER);
    assert_eq!(before[&payer] - after[&payer], usdc("50.5"));
}

#[tokio::test]
async fn a_missing_fee_leg_is_a_shortfall_of_a_paid_request() {
    let partnership = Partnership::on_chain().await;
    partnership
        .config(config_of("recipient", "incoming", 1_000, PAYEE_FEES))
        .await
        .expect(201);
    let made = partnership.link(&["50"]).await;
    partnership.app.pay_past_link_in(&made["requestIds"][0], "45", 6).await;
    partnership.app.settle().await;
    let read = partnership
        .app
        .read_request(made["requestIds"][0].as_str().expect("an id"))
        .await;
    assert_eq!(
        (&read["status"], &read["payments"][0]["feeShortfall"]),
        (&json!("paid"), &json!("5")),
        "{read}"
    );
}

#[tokio::test]
async fn a_reversed_payment_gives_back_its_captured_fees() {
    let (partnership, made) = reversible_link().await;
    let app = &partnership.app;
    let receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url() });
    app.post("/v1/webhook").with_key().json(&hook).send().await.expect(201);
    let id = made["requestIds"][0].as_str().expect("an id");
    app.pay_link(&token_of(&made)).await;
    mine(app, CONFIRMATIONS).await;
    let paid = app.read_request(id).await;
    assert_eq!((&paid["status"], &paid["paidAmount"]), (&json!("paid"), &json!("45")));
    let tx_hash: B256 = paid["txHash"].as_str().expect("a hash").parse().expect("a hash");
    let raw = app.devnet().raw_transaction(tx_hash).await.expect("a transaction");

    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(tx_hash).await;
    mine(app, 2).await;
    let read = app.read_request(id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("pending"), &json!("0")),
        "{read}"
    );
    app.deliver().await;
    let reversed = receiver.received().await.last().expect("an event").json();
    assert_eq!(
        (&reversed["event"], &reversed["amount"], &reversed["expectedAmount"]),
        (&json!("payment.reversed"), &json!("45"), &json!("45"))
    );
    let calldata = app.calldata_of(&token_of(&made), Some(&app.account(PAYER))).await;
    let summary = calldata.expect(200)["feeBundle"]["amountSummary"].clone();
    assert_eq!(
        (&summary["payerTotal"], &summary["payeeBorneFees"]),
        (&json!("50.5"), &json!("5")),
        "the whole payment is due again"
    );

    let again = vec![(ReorgTransaction::Raw(raw), 0)];
    app.devnet().reorg_with(1, again).await.expect("included again");
    mine(app, CONFIRMATIONS + 1).await;
    let read = app.read_request(id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("45")));
    assert_eq!(read["payments"][0]["feeShortfall"], Value::Null, "{read}");
}

/// A partnership on a chain whose final payments can leave it, with a link of 50 that carries fees of both bearers: 0.5
/// on top of the amount, and 5 deducted from it.
async fn reversible_link() -> (Partnership, Value) {
    let partnership = Partnership::with(reversible_app(true).await).await;
    partnership.take_fees("incoming", 100, 1_000).await;
    let made = partnership.link(&["50"]).await;
    mine(&partnership.app, CONFIRMATIONS).await;
    (partnership, made)
}

impl Partnership {
    /// The payments of the only request of a link that are not reversed.
    async fn payments_of(&self, made: &Value) -> Vec<Value> {
        let id = made["requestIds"][0].as_str().expect("an id");
        let mut payments = self.app.payments_of(id).await;
        payments.retain(|payment| payment.get("reversal").is_none());
        payments
    }

    /// The total fees and the payer's total that `/pay` asks for, and the amount that the link says is needed.
    async fn asked(&self, made: &Value) -> [Value; 3] {
        let (token, payer) = (token_of(made), self.app.account(PAYER));
        let calldata = self.app.calldata_of(&token, Some(&payer)).await.expect(200);
        let summary = &calldata["feeBundle"]["amountSummary"];
        let opened = self.app.open_link(&token, &format!("?wallet={payer}")).send().await;
        let needed = opened.expect(200)["paymentOptions"]["SEPOLIA"]["USDC"]["neededAmount"].clone();
        [summary["totalFees"].clone(), summary["payerTotal"].clone(), needed]
    }
}

fn fees_of(payment: &Value) -> Vec<String> {
    let fees = payment["fees"].as_array().into_iter().flatten();
    let mut amounts: Vec<String> = fees
        .map(|fee| fee["amount"].as_str().expect("text").to_owned())
        .collect();
    amounts.sort_unstable();
    amounts
}

#[tokio::test]
async fn a_moved_payment_keeps_its_captured_fees() {
    let (partnership, made) = reversible_link().await;
    let app = &partnership.app;
    app.pay_part_of_link(PAYER, &token_of(&made), ("20", 6)).await;
    mine(app, CONFIRMATIONS).await;
    let before = partnership.payments_of(&made).await;
    assert_eq!(fees_of(&before[0]), ["0.5", "5"], "{before:?}");
    assert_eq!(partnership.asked(&made).await, ["0", "25", "25"]);
    let tx_hash: B256 = before[0]["sourceTxHash"]
        .as_str()
        .expect("a hash")
        .parse()
        .expect("a hash");
    let raw = app.devnet().raw_transaction(tx_hash).await.expect("a transaction");
    let block = async || {
        let receipt = app.devnet().rpc("eth_getTransactionReceipt", json!([tx_hash])).await;
        receipt.expect("a receipt")["blockNumber"].clone()
    };
    let first = block().await;
    let later = vec![(ReorgTransaction::Raw(raw), 1)];
    app.devnet()
        .reorg_with(CONFIRMATIONS + 1, later)
        .await
        .expect("reorganised");
    mine(app, CONFIRMATIONS + 2).await;
    let after = partnership.payments_of(&made).await;
    assert_eq!(after.len(), 1, "{after:?}");
    assert_ne!(block().await, first, "the payment moved");
    assert_eq!(fees_of(&after[0]), ["0.5", "5"], "{after:?}");
    assert_eq!(partnership.asked(&made).await, ["0", "25", "25"]);
}

#[tokio::test]
async fn a_second_payment_of_a_fee_counts_once_the_first_is_reversed() {
    let (partnership, made) = reversible_link().await;
    let app = &partnership.app;
    // Both payments carry the whole fees, because the calldata of the second was issued before the first was seen.
    let first = app.pay_part_of_link(PAYER, &token_of(&made), ("20", 6)).await;
    let second = app.pay_part_of_link(SECOND_PAYER, &token_of(&made), ("10", 6)).await;
    mine(app, CONFIRMATIONS).await;
    let both = partnership.payments_of(&made).await;
    for payment in &both {
        assert_eq!(
            fees_of(payment),
            ["0.5", "5"],
            "the record shows what was paid: {both:?}"
        );
    }
    assert_eq!(partnership.asked(&made).await, ["0", "15", "15"]);
    let mut kept = Vec::new();
    for hash in &second {
        let raw = app.devnet().raw_transaction(*hash).await.expect("a transaction");
        kept.push((ReorgTransaction::Raw(raw), 0));
    }
    let depth = CONFIRMATIONS + u64::try_from(first.len() + second.len()).expect("few");
    app.devnet().reorg_with(depth, kept).await.expect("reorganised");
    for hash in first.iter().rev() {
        let _ = app.devnet().drop_transaction(*hash).await;
    }
    mine(app, CONFIRMATIONS + 2).await;
    let left = partnership.payments_of(&made).await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(
        partnership.asked(&made).await,
        ["0", "35", "35"],
        "the fees are paid: {left:?}"
    );
}

#[tokio::test]
async fn a_repaired_payment_keeps_its_captured_fees() {
    let (partnership, made) = reversible_link().await;
    let app = &partnership.app;
    app.pay_part_of_link(PAYER, &token_of(&made), ("20", 6)).await;
    mine(app, CONFIRMATIONS).await;
    run_sql(app, "UPDATE payments SET units = '1', credited = '1'".to_owned()).await;
    assert_eq!(compare(app, true).await.differences.len(), 1, "one difference is fixed");
    assert_eq!(fees_of(&partnership.payments_of(&made).await[0]), ["0.5", "5"]);
    assert_eq!(partnership.asked(&made).await, ["0", "25", "25"]);
    run_sql(app, "UPDATE requests SET orchestrator_fees = NULL".to_owned()).await;
    assert_eq!(
        compare(app, true).await.differences.len(),
        1,
        "the ledger forgot the fees"
    );
    assert_eq!(partnership.asked(&made).await, ["0", "25", "25"]);
}

#[tokio::test]
async fn an_overpayment_owes_no_share_of_a_captured_fee() {
    let partnership = Partnership::on_chain().await;
    let app = &partnership.app;
    partnership
        .config(config_of("recipient", "incoming", 9_000, PAYEE_FEES))
        .await
        .expect(201);
    let made = partnership.link(&["100"]).await;
    app.pay_past_link_in(&made["requestIds"][0], "100", 6).await;
    app.settle().await;
    let paid = partnership.payments_of(&made).await;
    assert_eq!(paid[0]["feeShortfall"], "90", "{paid:?}");
}

#[tokio::test]
async fn the_payment_page_shows_the_amount_and_what_the_payee_gets_of_it() {
    let partnership = Partnership::with(TestApp::start().await).await;
    let plain = partnership.link(&["50"]).await;
    partnership
        .config(config_of("recipient", "incoming", 1_000, PAYEE_FEES))
        .await
        .expect(201);
    let made = partnership.link(&["50"]).await;
    let state = async |made: &Value| {
        let path = format!("/pay/{}/state", token_of(made));
        let state = partnership.app.get(&path).send().await.expect(200);
        let currency = &state["details"]["currencies"][0];
        ["gross", "amount", "fee", "total"].map(|member| currency[member].clone())
    };
    assert_eq!(state(&plain).await, [json!(null), json!("50"), json!("0"), json!("50")]);
    assert_eq!(state(&made).await, [json!("50"), json!("45"), json!("5"), json!("50")]);
    let page = partnership
        .app
        .get(&format!("/pay/{}", token_of(&made)))
        .send()
        .await
        .text;
    assert!(page.contains("Goes to the recipient"), "{page}");
}

#[tokio::test]
async fn a_fee_plan_hides_a_receiver_that_is_the_hidden_payee() {
    let partnership = Partnership::with(TestApp::start().await).await;
    let config = config_of("payer", "incoming", 100, &prs_payee());
    partnership.config(config).await.expect(201);
    let mut body = link_of(&["50"]);
    body["accessPolicy"] = json!({ "hidePayeeAddress": true });
    let made = partnership.create("/v2/secure-payments", &body).await.expect(201);
    let opened = partnership.app.open_link(&token_of(&made), "").send().await.expect(200);
    assert_eq!(opened["feePlan"]["fees"][0]["destinationRef"], json!({}), "{opened}");
    assert!(!opened.to_string().contains(&prs_payee()), "{opened}");
}

#[tokio::test]
async fn combining_currencies_keeps_captured_fees() {
    let partnership = Partnership::on_chain().await;
    let app = &partnership.app;
    partnership.take_fees("outgoing", 100, 200).await;
    let mut tokens = Vec::new();
    for (currency, has_plan) in [(USDC, true), ("FAU-sepolia", false)] {
        let mut body = payout_of(RECIPIENT, "10");
        body["currency"] = json!(currency);
        let made = partnership
            .create("/v2/secure-payments/payouts", &body)
            .await
            .expect(201);
        assert_eq!(made["feePlan"].is_object(), has_plan, "{made}");
        tokens.push(token_of(&made));
    }
    let call = app.post("/v2/secure-payments/batch-payouts").with_key();
    let combined = call.json(&json!({ "tokens": tokens })).send().await.expect(201);
    assert_eq!(
        combined["feePlan"],
        Value::Null,
        "several currencies have no sum in dollars"
    );
    let before = partnership.balances().await;
    app.pay_link(&token_of(&combined)).await;
    app.settle().await;
    let after = partnership.balances().await;
    let gained = |holder: &str| after[holder] - before[holder];
    assert_eq!((gained(PAYER_FEES), gained(PAYEE_FEES)), (usdc("0.1"), usdc("0.2")));
    assert_eq!(gained(RECIPIENT), usdc("9.8"));
    for id in combined["requestIds"].as_array().expect("ids") {
        let read = app.read_request(id.as_str().expect("an id")).await;
        assert_eq!(read["status"], "paid", "{read}");
        assert_eq!(read["payments"][0]["feeShortfall"], Value::Null, "{read}");
    }
}

/// Executes random fee plans and checks that every balance is exact to the smallest unit. The plans vary the bearer of
/// the fee, caps, scopes and directions, and include the fees of the platform and of the service.
#[tokio::test]
async fn every_balance_of_random_plans_is_exact() {
    let mut settings = settings();
    settings.fees.protocol_bps = 25;
    settings.fees.protocol_address = Some(PROTOCOL_FEES.to_owned());
    let partnership = Partnership::with_client_fee(TestApp::on_chain_as(settings, 1).await, "1.25").await;
    let mut dice = Dice::new(20_261_130);
    let mut ids: BTreeMap<(&str, &str, bool), Value> = BTreeMap::new();
    let payer = partnership.app.account(PAYER);
    let asked = std::env::var(PLANS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let plans = asked.unwrap_or(PLANS);
    for plan in 0..plans {
        for bearer in ["payer", "recipient"] {
            for flow in ["incoming", "outgoing"] {
                let is_scoped = dice.below(2) == 1;
                let receiver = if bearer == "payer" { PAYER_FEES } else { PAYEE_FEES };
                let mut body = config_of(bearer, flow, u32::try_from(dice.below(3_000)).expect("small"), receiver);
                let cap = format!("{}.{:06}", dice.below(3), 1 + dice.below(999_999));
                body["usdCap"] = if dice.below(2) == 1 { json!(cap) } else { Value::Null };
                match ids.get(&(bearer, flow, is_scoped)) {
                    Some(id) => {
                        body["status"] = json!(if dice.below(4) == 0 { "disabled" } else { "active" });
                        partnership.change(id, body).await.expect(200);
                    }
                    None => {
                        if is_scoped {
                            body["clientId"] = json!(partnership.client_id);
                        }
                        if body["usdCap"].is_null() {
                            body.as_object_mut().expect("an object").remove("usdCap");
                        }
                        let made = partnership.config(body).await.expect(201);
                        ids.insert((bearer, flow, is_scoped), made["id"].clone());
                    }
                }
            }
        }
        let amount = format!("{}.{:06}", dice.below(2_000), 1 + dice.below(999_999));
        let is_payout = dice.below(2) == 1;
        let (path, body) = if is_payout {
            let mut body = payout_of(RECIPIENT, &amount);
            body["currency"] = json!(USDC);
            ("/v2/secure-payments/payouts", body)
        } else {
            ("/v2/secure-payments", link_of(&[&amount]))
        };
        let made = partnership.create(path, &body).await.expect(201);
        let before = partnership.balances().await;
        partnership.app.pay_link(&token_of(&made)).await;
        partnership.app.settle().await;
        let after = partnership.balances().await;
        let figure = |member: &str| usdc(made["feePlan"][member].as_str().expect("a figure"));
        let payee = if is_payout { RECIPIENT.to_owned() } else { prs_payee() };
        let gained = |holder: &str| after[holder] - before[holder];
        assert_eq!(gained(&payee), figure("netRecipientAmountUsd"), "plan {plan}: {made}");
        assert_eq!(
            before[&payer] - after[&payer],
            figure("payerTotalAmountUsd"),
            "plan {plan}: {made}"
        );
        let mut due: BTreeMap<&str, U256> = BTreeMap::new();
        for line in made["feePlan"]["fees"].as_array().expect("fees") {
            let receiver = line["destinationRef"]["evmAddress"].as_str().expect("a receiver");
            *due.entry(receiver).or_default() += usdc(line["calculatedAmountUsd"].as_str().expect("an amount"));
        }
        for receiver in [PAYER_FEES, PAYEE_FEES, PLATFORM_FEES, PROTOCOL_FEES] {
            assert_eq!(
                gained(receiver),
                due.get(receiver).copied().unwrap_or_default(),
                "plan {plan}: {receiver} {made}"
            );
        }
        let read = partnership
            .app
            .read_request(made["requestIds"][0].as_str().expect("an id"))
            .await;
        assert_eq!(read["status"], "paid", "plan {plan}: {read}");
        assert_eq!(read["payments"][0]["feeShortfall"], Value::Null, "plan {plan}: {read}");
    }
    println!("{plans} random plans were executed, every balance was exact");
}
