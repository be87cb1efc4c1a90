//! Broadcasts of signed transactions, with nodes that the test plays.

use crate::{
    support::{
        Answer, TestApp,
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
use prs::{
    ctx::Partners,
    domain::{
        network::Network,
        secure_payment::broadcast::{BroadcastOutcome, BroadcastRefusal, SignedTransaction},
        tron::{ReferenceBlock, TronTransaction},
    },
    ports::chain::{Chains, TransactionBroadcast},
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

    fn respond(&self, outcome: BroadcastOutcome) {
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
    let key: PrivateKeySigner = PAYER_KEY.parse().expect("a key");
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

/// Broadcasts of a link with a secret credential of its owner.
const CAP_OF_OWNER: u8 = 40;

#[tokio::test]
async fn broadcasts_of_a_link_are_bounded() {
    let (app, _, _, token) = service().await;
    let payment = issued(&app, &token).await.remove(1);
    for number in 0..=CAP_OF_OWNER {
        let another = TronTransaction {
            reference_block: ReferenceBlock::of_block(&B256::repeat_byte(number)),
            ..payment.clone()
        };
        let answer = broadcast(&app, &token, &signed(&another)).await;
        assert_eq!(
            answer.status,
            if number < CAP_OF_OWNER { 200 } else { 429 },
            "{}",
            answer.text
        );
    }
    assert_eq!(stored(&app).await, i64::from(CAP_OF_OWNER));
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

/// An approval that tronweb encoded and signed.
pub(crate) fn approval() -> Value {
    let data = format!(
        "095ea7b3{:0>64}{:0>64}",
        "1b6ca35d39842cf8fbe49000653a1505412da659", "0fa3e8"
    );
    let raw_data_hex = format!(
        "0a02c7a122088a1fd7b4ac0b7e3140e0acc5a28c345aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2f7072\
         6f746f636f6c2e54726967676572536d617274436f6e747261637412740a1541a3c311eb2df8e1387e3942c997723daab9138e811215\
         41a614f803b6fd780986a42c78ec9c7f77e6ded13c2244{data}7080d8c1a28c34900180c2d72f"
    );
    json!({ "signedTransaction": {
        "visible": false,
        "txID": "07407dcd637c679dbfbcee9ca4b9b03ddf771770f4176137df857d6aa5ebf5bd",
        "raw_data_hex": raw_data_hex,
        "raw_data": {
            "contract": [{
                "parameter": {
                    "value": {
                        "data": data,
                        "owner_address": "41a3c311eb2df8e1387e3942c997723daab9138e81",
                        "contract_address": "41a614f803b6fd780986a42c78ec9c7f77e6ded13c",
                    },
                    "type_url": "type.googleapis.com/protocol.TriggerSmartContract",
                },
                "type": "TriggerSmartContract",
            }],
            "ref_block_bytes": "c7a1",
            "ref_block_hash": "8a1fd7b4ac0b7e31",
            "expiration": 1_790_000_060_000_u64,
            "timestamp": 1_790_000_000_000_u64,
            "fee_limit": 100_000_000,
        },
        "signature": [concat!(
            "45962196c337b5bc63d44a5a6cd1d1afb2cdb1d159662f810c5bb8018517a6bc",
            "774a669007d7234ab79a66035bd18286213cb6d04101d50e33a491ca640da1141C",
        )],
    } })
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
