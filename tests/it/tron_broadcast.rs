//! Broadcasts of signed transactions, with nodes that the test plays.

use crate::{
    access::operations,
    support::{
        Answer, TestApp,
        app::forged,
        links::{link_of, token_of},
        screening::rows,
    },
    tron_pay::{PAYEE, PAYER, PROXY, PlayedChain, TOKEN, address, app_with, decoded, payout_link},
};
use alloy::{
    primitives::{B256, Bytes},
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use async_trait::async_trait;
use poem::http::Method;
use prs::{
    ctx::Partners,
    domain::{
        network::Network,
        payment::BlockRef,
        secure_payment::broadcast::{BroadcastOutcome, BroadcastRefusal, SignedTransaction},
        tron::{ReferenceBlock, TronTransaction},
    },
    ports::chain::{Chains, TransactionBroadcast},
    store::{
        self,
        cursors::{Cursor, ReachedBlock},
    },
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// Key of [`PAYER`].
const PAYER_KEY: &str = "a66277d4816467ded393c0ab34b57736d6178ded093bc0a1cee2c6a9ea48c927";

/// Nodes that respond with one outcome and keep what they get.
pub(crate) struct PlayedNodes(Mutex<(BroadcastOutcome, Vec<Vec<u8>>)>);

impl PlayedNodes {
    fn read<T>(&self, read: impl FnOnce(&mut (BroadcastOutcome, Vec<Vec<u8>>)) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn respond(&self, outcome: BroadcastOutcome) {
        self.read(|nodes| nodes.0 = outcome);
    }

    /// The transactions since the last look.
    pub(crate) fn received(&self) -> Vec<Vec<u8>> {
        self.read(|nodes| std::mem::take(&mut nodes.1))
    }
}

#[async_trait]
impl TransactionBroadcast for PlayedNodes {
    async fn broadcast(&self, signed: &SignedTransaction) -> BroadcastOutcome {
        self.read(|nodes| {
            nodes.1.push(signed.encoded().to_vec());
            nodes.0
        })
    }
}

/// A service with nodes that accept every transaction.
pub(crate) fn with_nodes(app: TestApp) -> (TestApp, Arc<PlayedNodes>) {
    let nodes = Arc::new(PlayedNodes(Mutex::new((BroadcastOutcome::Accepted, Vec::new()))));
    let played: Arc<dyn TransactionBroadcast> = nodes.clone();
    let app = app.with_ctx(|ctx| {
        let mut chains = Chains::clone(&ctx.partners.chains);
        chains.broadcasts.insert(Network::Tron, played);
        ctx.partners = Partners {
            chains: Arc::new(chains),
            ..ctx.partners.clone()
        };
    });
    (app, nodes)
}

/// A service whose nodes accept every transaction, and the token of a link that pays 10 USDT.
pub(crate) async fn service() -> (TestApp, Arc<PlayedChain>, Arc<PlayedNodes>, String) {
    let (app, chain) = app_with(|_| {}).await;
    let (app, nodes) = with_nodes(app);
    let token = token_of(&app.payout_link(&payout_link("10")).await.expect(201));
    (app, chain, nodes, token)
}

/// The transactions that a link returns to [`PAYER`] now, alive for a minute by the clock of the service.
pub(crate) async fn issued(app: &TestApp, token: &str) -> Vec<TronTransaction> {
    let answer = app.calldata_of(token, Some(PAYER)).await.expect(200);
    let items = answer["transactions"].as_array().expect("a list");
    let now_ms = u64::try_from(app.ctx.clock.now().timestamp_millis()).expect("after 1970");
    let alive = |transaction| TronTransaction {
        expiration_ms: now_ms + 60_000,
        ..transaction
    };
    items.iter().map(decoded).map(alive).collect()
}

/// The body with a transaction that [`PAYER`] signs.
pub(crate) fn signed(transaction: &TronTransaction) -> Value {
    signed_with(&PAYER_KEY.parse().expect("a key"), transaction)
}

/// The body with a transaction that is signed with a key.
fn signed_with(key: &PrivateKeySigner, transaction: &TronTransaction) -> Value {
    let signature = key.sign_hash_sync(&transaction.tx_id()).expect("a signature");
    let account = |bytes| format!("41{}", hex::encode::<alloy::primitives::Address>(bytes));
    let call = &transaction.call;
    json!({ "signedTransaction": {
        "raw_data_hex": hex::encode(transaction.encode()),
        "raw_data": {
            "contract": [{
                "parameter": {
                    "value": {
                        "data": hex::encode(&call.data),
                        "owner_address": account(call.owner),
                        "contract_address": account(call.contract),
                    },
                    "type_url": "type.googleapis.com/protocol.TriggerSmartContract",
                },
                "type": "TriggerSmartContract",
            }],
            "ref_block_bytes": hex::encode(transaction.reference_block.number_bytes),
            "ref_block_hash": hex::encode(transaction.reference_block.hash_bytes),
            "expiration": transaction.expiration_ms,
            "timestamp": transaction.timestamp_ms,
            "fee_limit": transaction.fee_limit_sun,
        },
        "signature": [hex::encode(signature.as_bytes())],
    } })
}

/// Number of stored hashes.
pub(crate) async fn stored(app: &TestApp) -> i64 {
    rows(app, "secure_payment_intents").await
}

#[tokio::test]
async fn each_step_of_a_payer_is_stored_once_and_sent_as_it_was_signed() {
    let (app, chain, nodes, token) = service().await;
    let steps = issued(&app, &token).await;
    assert_eq!(steps.len(), 2);
    for (place, step) in steps.iter().enumerate() {
        let body = signed(step);
        let answer = broadcast(&app, &token, &body).await.expect(200);
        assert_eq!(answer, json!({ "result": true, "txid": hex::encode(step.tx_id()) }));
        let sent = nodes.received();
        let sole = hex::encode(&sent[0]);
        let raw_data_hex = body["signedTransaction"]["raw_data_hex"].as_str().expect("text");
        let signature = body["signedTransaction"]["signature"][0].as_str().expect("text");
        assert!(sole.ends_with(&format!("{raw_data_hex}1241{signature}")), "{sole}");
        assert_eq!(sent.len(), 1);
        assert_eq!(stored(&app).await, i64::try_from(place + 1).expect("a few"));
    }
    let shown = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(
        (&shown["status"], &shown["inFlight"]),
        (&json!("pending"), &json!(true))
    );
    // The approval is no step any longer after it was executed, and a repetition is still a success.
    chain.read(|state| state.allowance = 10_000_000);
    nodes.respond(BroadcastOutcome::AlreadyKnown);
    app.advance_ms(120_000);
    for step in &steps {
        let answer = broadcast(&app, &token, &signed(step)).await.expect(200);
        assert_eq!(answer["txid"], hex::encode(step.tx_id()));
        assert_eq!(
            (&answer["result"], &answer["code"]),
            (&json!(true), &json!("DUP_TRANSACTION_ERROR"))
        );
    }
    assert_eq!((nodes.received().len(), stored(&app).await), (2, 2));
    // The wallet signed the payment a second time.
    let again = TronTransaction {
        timestamp_ms: steps[1].timestamp_ms + 1,
        expiration_ms: steps[1].expiration_ms + 120_000,
        ..steps[1].clone()
    };
    broadcast(&app, &token, &signed(&again)).await.expect(200);
    assert_eq!(stored(&app).await, 3);
}

#[tokio::test]
async fn a_visible_transaction_and_upper_case_digits_are_broadcast() {
    let (app, _, nodes, token) = service().await;
    let payment = issued(&app, &token).await.remove(1);
    let plain = signed(&payment);
    let mut body = plain.clone();
    let sent = &mut body["signedTransaction"];
    let upper = |value: &Value| json!(value.as_str().expect("text").to_uppercase());
    sent["visible"] = json!(true);
    sent["txID"] = json!(hex::encode_upper(payment.tx_id()));
    sent["raw_data_hex"] = upper(&sent["raw_data_hex"]);
    sent["signature"][0] = upper(&sent["signature"][0]);
    let raw_data = &mut sent["raw_data"];
    for name in ["ref_block_bytes", "ref_block_hash"] {
        raw_data[name] = upper(&raw_data[name]);
    }
    (raw_data["data"], raw_data["scripts"], raw_data["auths"]) = (json!(""), json!(""), json!([]));
    let contract = &mut raw_data["contract"][0];
    contract["Permission_id"] = json!(0);
    let call = &mut contract["parameter"]["value"];
    call["data"] = upper(&call["data"]);
    call["owner_address"] = json!(PAYER);
    call["contract_address"] = json!(PROXY);
    call["call_value"] = json!(0);
    let answer = broadcast(&app, &token, &body).await.expect(200);
    assert_eq!(answer["txid"], hex::encode(payment.tx_id()));
    broadcast(&app, &token, &plain).await.expect(200);
    let received = nodes.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0], received[1], "the signed bytes do not depend on the form");
    for (name, wrong) in [("owner_address", json!(PAYEE)), ("contract_address", json!("0x12"))] {
        let mut differing = body.clone();
        differing["signedTransaction"]["raw_data"]["contract"][0]["parameter"]["value"][name] = wrong;
        let refused = broadcast(&app, &token, &differing).await;
        refused.expect(400);
        let field = format!("signedTransaction.raw_data.contract[0].parameter.value.{name}");
        assert_eq!(refused.wrong_fields(), [field]);
    }
}

#[tokio::test]
async fn an_owner_that_cannot_pay_is_named_in_the_refusal_of_its_broadcast() {
    let (app, chain, nodes, token) = service().await;
    let payment = issued(&app, &token).await.remove(1);
    chain.read(|state| state.resources.is_activated = false);
    let refused = broadcast(&app, &token, &signed(&payment)).await;
    assert_eq!(refused.expect(400)["code"], "account_not_activated");
    assert_eq!(refused.wrong_fields(), ["signedTransaction.raw_data_hex"]);
    let sentence = format!("the owner {PAYER} is not activated: a Tron account exists only after");
    assert!(refused.text.contains(&sentence), "{}", refused.text);
    assert_eq!((nodes.received().len(), stored(&app).await), (0, 0));
}

#[tokio::test]
async fn a_transaction_that_is_no_step_is_neither_stored_nor_sent() {
    let (app, chain, nodes, token) = service().await;
    let steps = issued(&app, &token).await;
    let other = token_of(&app.payout_link(&payout_link("11")).await.expect(201));
    let of_other_link = issued(&app, &other).await.remove(1);
    let changed = |change: fn(&mut TronTransaction)| {
        let mut transaction = steps[1].clone();
        change(&mut transaction);
        transaction
    };
    let wrong = [
        (
            changed(|transaction| {
                let mut data = transaction.call.data.to_vec();
                data[4 + 3 * 32 - 1] ^= 1;
                transaction.call.data = Bytes::from(data);
            }),
            "the amount differs",
        ),
        (of_other_link, "the amount differs"),
        (
            changed(|transaction| transaction.fee_limit_sun += 1),
            "at most 300000000 sun",
        ),
        (
            changed(|transaction| transaction.expiration_ms -= 60_000),
            "must not have expired",
        ),
        (
            changed(|transaction| transaction.call.contract = address(PAYEE).bytes()),
            &format!("must call {TOKEN} or {PROXY}"),
        ),
    ];
    for (transaction, words) in wrong {
        let refused = broadcast(&app, &token, &signed(&transaction)).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["signedTransaction.raw_data_hex"], "{words}");
        assert!(refused.text.contains(words), "{words}: {}", refused.text);
    }
    chain.read(|state| state.allowance = 10_000_000);
    let approved = broadcast(&app, &token, &signed(&steps[0])).await;
    approved.expect(400);
    let mut foreign = signed(&steps[1]);
    foreign["signedTransaction"]["signature"] = signed(&steps[0])["signedTransaction"]["signature"].clone();
    let foreign = broadcast(&app, &token, &foreign).await;
    foreign.expect(400);
    assert_eq!(foreign.wrong_fields(), ["signedTransaction.signature[0]"]);
    let mut differing = signed(&steps[1]);
    differing["signedTransaction"]["raw_data"]["contract"][0]["parameter"]["value"]["call_value"] = json!(1);
    let differing = broadcast(&app, &token, &differing).await;
    differing.expect(400);
    let field = "signedTransaction.raw_data.contract[0].parameter.value.call_value";
    assert_eq!(differing.wrong_fields(), [field]);
    assert_eq!((nodes.received().len(), stored(&app).await), (0, 0));
}

#[tokio::test]
async fn the_hash_is_stored_before_the_nodes_respond() {
    let (app, _, nodes, token) = service().await;
    let payment = issued(&app, &token).await.remove(1);
    for (outcome, status, words) in [
        (
            BroadcastOutcome::Unavailable,
            502,
            "send the same signed transaction again",
        ),
        (
            BroadcastOutcome::Refused(BroadcastRefusal::ReferenceBlock),
            400,
            "does not have the block",
        ),
        (
            BroadcastOutcome::Refused(BroadcastRefusal::Bandwidth),
            400,
            "neither bandwidth nor TRX",
        ),
        (BroadcastOutcome::Accepted, 200, "true"),
    ] {
        nodes.respond(outcome);
        let answer = broadcast(&app, &token, &signed(&payment)).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(answer.text.contains(words), "{}", answer.text);
        assert_eq!(stored(&app).await, 1);
    }
}

#[tokio::test]
async fn an_expiration_far_ahead_is_refused_and_stores_nothing() {
    let (app, _, nodes, token) = service().await;
    let payment = issued(&app, &token).await.remove(1);
    let latest_ms = payment.expiration_ms + 240_000;
    let expiring_at = |expiration_ms| {
        signed(&TronTransaction {
            expiration_ms,
            ..payment.clone()
        })
    };
    // The second time is the last one that a clock of the service can show.
    for expiration_ms in [latest_ms + 1, 8_210_266_876_799_000] {
        let refused = broadcast(&app, &token, &expiring_at(expiration_ms)).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["signedTransaction.raw_data_hex"]);
        let message = &refused.text;
        assert!(message.contains("must expire within 5 minutes"), "{message}");
        let shown = app.open_link(&token, "").send().await.expect(200);
        assert_eq!(shown["inFlight"], false);
    }
    assert_eq!((nodes.received().len(), stored(&app).await), (0, 0));
    broadcast(&app, &token, &expiring_at(latest_ms)).await.expect(200);
}

#[tokio::test]
async fn refused_transactions_are_forgotten_and_use_up_nothing() {
    let (app, _, nodes, token) = service().await;
    let steps = issued(&app, &token).await;
    nodes.respond(BroadcastOutcome::Refused(BroadcastRefusal::Validation));
    for number in 0..u64::from(CAP) + 5 {
        let approval = TronTransaction {
            timestamp_ms: steps[0].timestamp_ms + number,
            ..steps[0].clone()
        };
        broadcast(&app, &token, &signed(&approval)).await.expect(400);
        assert_eq!(stored(&app).await, 0);
    }
    assert_eq!(nodes.received().len(), usize::from(CAP) + 5);
    nodes.respond(BroadcastOutcome::Accepted);
    for step in &steps {
        broadcast(&app, &token, &signed(step)).await.expect(200);
    }
    // A node that refuses a repetition may have accepted the transaction before.
    nodes.respond(BroadcastOutcome::Refused(BroadcastRefusal::Expiration));
    broadcast(&app, &token, &signed(&steps[1])).await.expect(400);
    assert_eq!(stored(&app).await, 2);
    let shown = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(shown["inFlight"], true);
}

#[tokio::test]
async fn an_account_can_broadcast_five_transactions_of_a_link_in_five_minutes() {
    let (app, _, nodes, token) = service().await;
    let numbered = |payment: &TronTransaction, number: u64| {
        signed(&TronTransaction {
            timestamp_ms: payment.timestamp_ms + number,
            ..payment.clone()
        })
    };
    let payment = issued(&app, &token).await.remove(1);
    for number in 0..5 {
        broadcast(&app, &token, &numbered(&payment, number)).await.expect(200);
        app.advance_ms(1_000);
    }
    let refused = broadcast(&app, &token, &numbered(&payment, 5)).await;
    refused.expect(429);
    assert_eq!(refused.header("retry-after"), Some("296"));
    let message = &refused.text;
    assert!(message.contains("5 transactions of this account"), "{message}");
    assert_eq!(nodes.received().len(), 5);
    app.advance_ms(295_000);
    let payment = issued(&app, &token).await.remove(1);
    broadcast(&app, &token, &numbered(&payment, 6)).await.expect(200);
    let refused = broadcast(&app, &token, &numbered(&payment, 7)).await;
    refused.expect(429);
    assert_eq!(refused.header("retry-after"), Some("2"), "the second of them ends");
}

#[tokio::test]
async fn hashes_are_deleted_after_a_day_if_nothing_can_arrive() {
    let (app, _, _, _) = service().await;
    let mut body = payout_link("12");
    body["expiresIn"] = json!(604_800);
    let token = token_of(&app.payout_link(&body).await.expect(201));
    for step in issued(&app, &token).await {
        broadcast(&app, &token, &signed(&step)).await.expect(200);
    }
    app.advance_ms(86_400_001);
    let approval = issued(&app, &token).await.remove(0);
    broadcast(&app, &token, &signed(&approval)).await.expect(200);
    assert_eq!(stored(&app).await, 2, "the payment may still be in a block");
    let block = BlockRef {
        number: 7,
        hash: B256::repeat_byte(7),
        parent_hash: B256::repeat_byte(6),
        time: app.ctx.clock.now(),
    };
    let reached = ReachedBlock {
        number: block.number,
        hash: block.hash,
    };
    let cursor = Cursor {
        network: Network::Tron,
        seen: reached,
        finalized: reached,
        halted_reason: None,
        finality: None,
        may_rewind: false,
        updated_at: block.time,
    };
    let writer = app.ctx.db.writer();
    assert!(store::cursors::begin(writer, &cursor).await.expect("begun"));
    let pushed = store::cursors::push_blocks(writer, Network::Tron, &[block]).await;
    pushed.expect("pushed");
    let again = TronTransaction {
        timestamp_ms: approval.timestamp_ms + 1,
        ..approval
    };
    broadcast(&app, &token, &signed(&again)).await.expect(200);
    assert_eq!(stored(&app).await, 2, "the payment is gone");
    let shown = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(shown["inFlight"], false);
}

/// Broadcasts of a link by anyone who has its token. The next constant is the number with a secret credential of its
/// owner.
const CAP: u8 = 20;
const CAP_OF_OWNER: u8 = 40;

/// The body with a transaction for one of several accounts, each of which signs four.
fn of_several(transaction: &TronTransaction, number: u8) -> Value {
    let key = PrivateKeySigner::from_bytes(&B256::repeat_byte(1 + number / 4)).expect("a key");
    let mut transaction = TronTransaction {
        reference_block: ReferenceBlock::of_block(&B256::repeat_byte(number)),
        ..transaction.clone()
    };
    transaction.call.owner = key.address();
    signed_with(&key, &transaction)
}

#[tokio::test]
async fn broadcasts_of_a_link_are_bounded_and_strangers_leave_some_for_the_owner() {
    let (app, _, nodes, token) = service().await;
    let (foreign_key, _) = app.other_tenant().await;
    let payment = issued(&app, &token).await.remove(1);
    let path = format!("/v2/secure-payments/{token}/tron/broadcast");
    let as_stranger = async |payment: &TronTransaction, number: u8| {
        let call = match number % 2 {
            0 => forged(&app, Method::POST, &path),
            _ => app.post(&path).header("x-api-key", &foreign_key),
        };
        call.json(&of_several(payment, number)).send().await
    };
    for number in 0..CAP {
        as_stranger(&payment, number).await.expect(200);
    }
    nodes.received();
    for number in CAP..CAP + 2 {
        let refused = as_stranger(&payment, number).await;
        assert_eq!(refused.header("retry-after"), Some("301"));
        let refused = refused.expect(429);
        let message = refused["message"].as_str().expect("text");
        assert!(message.contains("can still send its transactions itself"), "{message}");
    }
    // A transaction whose hash is stored can be broadcast again.
    nodes.respond(BroadcastOutcome::AlreadyKnown);
    as_stranger(&payment, 0).await.expect(200);
    assert_eq!(nodes.received().len(), 1, "a refused transaction reaches no node");
    for number in CAP..=CAP_OF_OWNER {
        let answer = broadcast(&app, &token, &of_several(&payment, number)).await;
        answer.expect(if number < CAP_OF_OWNER { 200 } else { 429 });
    }
    assert_eq!(stored(&app).await, i64::from(CAP_OF_OWNER));
    // A transaction that no node accepts any longer does not count.
    app.advance_ms(300_000);
    let payment = issued(&app, &token).await.remove(1);
    as_stranger(&payment, CAP_OF_OWNER).await.expect(200);
}

#[tokio::test]
async fn only_a_wallet_on_the_list_may_broadcast() {
    let (app, _, nodes, _) = service().await;
    app.is_paid_on(Network::Tron, address(PAYEE), "USDT-tron").await;
    for (allowed, status) in [(PAYER, 200), (PROXY, 403)] {
        let mut body = link_of(&["10"]);
        body["accessPolicy"] = json!({ "allowedPayerAddresses": [PAYER] });
        let token = token_of(&app.link(&body).await.expect(201));
        let approval = issued(&app, &token).await.remove(0);
        body["accessPolicy"] = json!({ "allowedPayerAddresses": [allowed] });
        let token = token_of(&app.link(&body).await.expect(201));
        let answer = broadcast(&app, &token, &signed(&approval)).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_eq!(nodes.received().len(), usize::from(status == 200));
    }
}

/// The documented example: an approval that tronweb encoded and signed.
pub(crate) fn approval() -> Value {
    let mut operations = operations().into_iter();
    let operation = operations.find(|operation| operation.row.operation == "broadcastTronTransaction");
    operation.expect("documented").example
}

async fn broadcast(app: &TestApp, token: &str, body: &Value) -> Answer {
    let path = format!("/v2/secure-payments/{token}/tron/broadcast");
    app.post(&path).with_client().json(body).send().await
}

#[tokio::test]
async fn only_payable_links_of_networks_with_a_broadcast_are_accepted() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let message = async |token: &str| {
        let refused = broadcast(&app, token, &approval()).await.expect(403);
        refused["message"].as_str().expect("a message").to_owned()
    };
    let token = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let expected = "This service broadcasts no transactions on the network of this secure payment: the wallet sends \
                    its transactions itself";
    assert_eq!(message(&token).await, expected);
    app.pay_link(&token).await;
    app.follow().await;
    assert_eq!(message(&token).await, "Secure payment has already been completed");
    let token = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let path = format!("/v2/secure-payments/{token}/withdraw");
    app.post(&path).with_key().send().await.expect(200);
    assert_eq!(message(&token).await, "Secure payment has been withdrawn");
    let mut short = link_of(&["1"]);
    short["expiresIn"] = json!(600);
    let token = token_of(&app.link(&short).await.expect(201));
    app.advance_ms(600_001);
    assert_eq!(message(&token).await, "Secure payment has expired");
    let unknown = broadcast(&app, "01JZX4T9QK3M7N8P2R5S6V0WYK", &approval()).await;
    assert_eq!(unknown.expect(404)["message"], "Secure payment not found");
}

#[tokio::test]
async fn signed_transactions_of_another_form_are_refused() {
    let app = TestApp::start().await;
    let token = "01JZX4T9QK3M7N8P2R5S6V0WYK";
    for (pointer, wrong) in [
        ("raw_data_hex", json!("0x00")),
        ("raw_data_hex", json!("")),
        ("signature", json!([])),
        ("signature", json!("00")),
        ("txID", json!("00")),
        ("raw_data", json!("{}")),
        ("raw_data", json!(null)),
    ] {
        let mut body = approval();
        body["signedTransaction"][pointer] = wrong;
        let refused = broadcast(&app, token, &body).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        let expected = format!("signedTransaction.{pointer}");
        assert_eq!(refused.wrong_fields(), [expected]);
    }
    for (member, wrong) in [
        ("contract", json!([])),
        ("fee_limit", json!(-1)),
        ("fee_limit", json!(0.5)),
    ] {
        let mut body = approval();
        body["signedTransaction"]["raw_data"][member] = wrong;
        let refused = broadcast(&app, token, &body).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert_eq!(refused.wrong_fields(), [format!("signedTransaction.raw_data.{member}")]);
    }
}
