//! Broadcasts of signed transactions: links that are not payable or on another network, and bodies of another form.

use crate::support::{
    Answer, TestApp,
    links::{link_of, token_of},
};
use serde_json::{Value, json};

/// An approval that tronweb encoded and signed.
fn approval() -> Value {
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
