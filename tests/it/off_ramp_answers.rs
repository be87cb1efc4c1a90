//! The off-ramp partner returns wrong responses. The service then issues no wrong deposit address, and publishes no
//! state that the partner did not report.

use crate::support::{
    fiat::{CLIENT_USER, Fiat},
    off_ramp::{Change, Scripted},
};
use prs::domain::off_ramp_sandbox::OffRampBehaviour;
use serde_json::{Value, json};

#[tokio::test]
async fn no_altered_quote_field_leads_to_a_wrong_address() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let id = fiat.request("10").await;
    let token = fiat.app.devnet().tokens().usdc.to_string();
    let foreign_payer = "pyr_ffffffffffffffffffffffff";
    let wrong = |member: &str| match member {
        "depositAddress" => vec![
            json!(token),
            json!("0x0000000000000000000000000000000000000000"),
            json!("TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"),
            json!("0x12"),
        ],
        "network" => vec![json!("mainnet"), json!("base")],
        "token" => vec![json!("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")],
        "amount" => vec![json!("9.99"), json!("-10"), json!("1e1")],
        "fee" => vec![json!("10"), json!("0.0000001"), json!("-1")],
        "paysOut" => vec![json!("much"), json!("-3")],
        "endsAt" => vec![
            json!("2001-01-01T00:00:00.000Z"),
            json!("2999-01-01T00:00:00.000Z"),
            json!("soon"),
        ],
        "payerId" => vec![json!(foreign_payer)],
        "accountId" => vec![json!("acc_ffffffffffffffffffffffff")],
        "currency" => vec![json!("eur")],
        "key" => vec![json!("0".repeat(64))],
        _ => vec![json!("")],
    };
    let members = [
        "id",
        "key",
        "payerId",
        "accountId",
        "network",
        "token",
        "amount",
        "currency",
        "depositAddress",
        "fee",
        "paysOut",
        "endsAt",
    ];
    let mut cells = 0;
    for member in members {
        let mut changes = vec![
            Change::Absent,
            Change::To(Value::Null),
            Change::To(json!(7)),
            Change::To(json!({})),
            Change::To(json!("x".repeat(5_000))),
        ];
        changes.extend(wrong(member).into_iter().map(Change::To));
        for change in changes {
            let shown = format!("{member} {change:?}");
            fiat.partner
                .answer("quote", Some(Scripted::Changed(vec![(member, change)])));
            let answer = fiat.ask(&id, CLIENT_USER, &account, "").await;
            assert_eq!(answer.status, 502, "{shown}: {}", answer.text);
            assert!(!answer.text.contains("transactions"), "{shown}");
            fiat.pass(61).await;
            cells += 1;
            assert_eq!(
                fiat.partner.count("quote").await,
                cells,
                "{shown}: the partner is queried anyway"
            );
        }
    }
    for scripted in [
        Scripted::Says(500, "{}".to_owned()),
        Scripted::Says(200, "[]".to_owned()),
        Scripted::Says(200, "x".repeat(200_000)),
        Scripted::Says(302, String::new()),
        Scripted::Hangs,
    ] {
        fiat.partner.answer("quote", Some(scripted));
        assert_eq!(fiat.ask(&id, CLIENT_USER, &account, "").await.status, 502);
        cells += 1;
    }
    println!("{cells} wrong answers, no address");
    fiat.partner.answer("quote", None);
    fiat.partner_is_tried_again().await;
    fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
}

#[tokio::test]
async fn another_payers_address_is_never_returned() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let of_another = fiat.compliant("somebody else", "7899").await;
    let theirs = fiat.request("10").await;
    let calldata = fiat.ask(&theirs, "somebody else", &of_another, "").await.expect(200);
    let data = calldata["transactions"]
        .as_array()
        .expect("a list")
        .last()
        .expect("a payment")["data"]
        .clone();
    let data = data.as_str().expect("a text");
    // The deposit address follows `0x`, the selector and the token.
    let address = format!("0x{}", &data[10 + 64 + 24..10 + 128]);
    let own = fiat.request("10").await;
    fiat.partner.answer(
        "quote",
        Some(Scripted::Changed(vec![("depositAddress", Change::To(json!(address)))])),
    );
    let answer = fiat.ask(&own, CLIENT_USER, &account, "").await;
    assert_eq!(answer.status, 502, "{}", answer.text);
    fiat.partner.answer("quote", None);
    fiat.partner.behave(OffRampBehaviour::WrongAddress);
    assert_eq!(fiat.ask(&own, CLIENT_USER, &account, "").await.status, 502);
}

#[tokio::test]
async fn no_altered_order_field_creates_an_unreported_state() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0005").await;
    let id = fiat.request("10").await;
    fiat.pay(&id, &account).await;
    let mut cells = 0;
    for operation in ["open_order", "order"] {
        for member in ["id", "key", "quoteId", "version", "status", "providerStatus"] {
            let wrong = match member {
                "version" => vec![json!(0), json!(-3), json!("2")],
                "status" => vec![json!("done"), json!("FIAT_SENT")],
                "quoteId" => vec![json!("qte_ffffffffffffffffffffffff")],
                "id" => vec![json!("ord_ffffffffffffffffffffffff\n"), json!("")],
                "key" => vec![json!("0".repeat(64))],
                _ => vec![json!("x".repeat(5_000))],
            };
            let mut changes = vec![Change::Absent, Change::To(Value::Null), Change::To(json!({}))];
            changes.extend(wrong.into_iter().map(Change::To));
            for change in changes {
                // The service queries a known order by the order's id and does not query its quote again, so this test
                // does not change `quoteId`.
                if operation == "order" && member == "quoteId" {
                    continue;
                }
                let shown = format!("{operation} {member} {change:?}");
                fiat.partner
                    .answer(operation, Some(Scripted::Changed(vec![(member, change)])));
                let before = fiat.told(&id).await;
                // The partner gets the order while its quote is valid.
                let pause = if cells == 0 { 1 } else { 3_600 };
                fiat.app.clock.advance(chrono::TimeDelta::seconds(pause));
                fiat.work().await;
                assert_eq!(fiat.told(&id).await, before, "{shown}");
                assert_eq!(fiat.status(&id).await, "processing", "{shown}");
                cells += 1;
            }
        }
        fiat.partner.answer(operation, None);
        fiat.app.clock.advance(chrono::TimeDelta::hours(1));
        fiat.work().await;
        fiat.app.clock.advance(chrono::TimeDelta::hours(1));
        fiat.work().await;
    }
    println!("{cells} wrong answers, no state");
    let told = fiat.told(&id).await;
    assert_eq!(
        told.last().map(String::as_str),
        Some("payment.processing ongoing_checks")
    );
    let calls = fiat.partner.calls().await;
    let opened = calls.iter().filter(|call| call.target.ends_with("/orders"));
    let keys: std::collections::BTreeSet<&str> = opened.map(|call| call.key.as_str()).collect();
    assert_eq!(keys.len(), 1, "every attempt asks for the same order");
}
