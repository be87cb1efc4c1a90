//! Links with the maximum number of recipients.

use crate::{
    hostile::Dice,
    scenarios::{Told, amounts, holds},
    stage::Stage,
};
use serde_json::json;

/// Maximum number of items of a link.
const MOST: usize = 200;

/// Maximum document size, compressed. Source: interface §4.7.
const DOCUMENT_BYTES_MAX: u64 = 8 * 1024;

/// Opens the page, reads the list of recipients, pays, and reads the receipt.
async fn paid(stage: &mut Stage, token: &str, (what, alike): (&str, usize)) -> Told {
    stage.visit(token, "").await;
    let size = stage
        .js("return performance.getEntriesByType('navigation')[0].encodedBodySize;")
        .await;
    println!("document for {what}: {size} bytes");
    holds(
        size.as_u64().is_some_and(|size| size <= DOCUMENT_BYTES_MAX),
        "the document is too large",
    )?;
    stage.until("connect").await?;
    let rows = "return document.querySelectorAll('#entries tr').length;";
    holds(stage.js(rows).await == json!(50), "the document lists the wrong part")?;
    let (_, last) = stage.read(&format!("/pay/{token}?from=150")).await;
    holds(
        last.matches("<tr>").count() == 51,
        "the last part is missing without scripts",
    )?;
    stage.js("document.getElementById('receivers').open = true;").await;
    let whole = format!("document.querySelectorAll('#entries tr').length === {MOST}");
    stage.until_true(&whole).await?;
    stage.judge(&format!("connect-{MOST}")).await;
    let narrow = "const field = document.getElementById('search'); field.value = document.querySelector('#entries tr:last-child bdi')\
        .textContent; field.dispatchEvent(new Event('input')); \
        return [...document.querySelectorAll('#entries tr')].filter((one) => !one.hidden).length;";
    let found = stage.js(narrow).await;
    holds(found == json!(alike), format!("{found} found"))?;
    stage.press("Own Wallet").await?;
    stage.until("options").await?;
    let text = stage.text().await;
    holds(text.contains("Network fee (estimate)"), "the network fee is not shown")?;
    let label = match alike {
        MOST => "Pay 20.1".to_owned(),
        _ => format!("Pay {MOST} recipients"),
    };
    stage.press(&label).await?;
    stage.until("success").await?;
    let (_, receipt) = stage.read(&format!("/pay/{token}/receipt")).await;
    let payer = stage.wallet.account.clone();
    holds(
        receipt.to_lowercase().contains(&payer),
        "the receipt does not name the payer",
    )?;
    holds(
        receipt.matches("Request ID: ").count() == MOST,
        "the receipt does not name the requests",
    )?;
    println!("receipt for {what}: {} bytes uncompressed", receipt.len());
    Ok(())
}

pub async fn receivers(stage: &mut Stage) -> Told {
    let each: Vec<String> = (1..=MOST).map(|index| format!("0.{index:03}")).collect();
    let each: Vec<&str> = each.iter().map(String::as_str).collect();
    let token = stage.link(amounts(&each)).await;
    paid(stage, &token, ("200 amounts for one recipient", MOST)).await
}

pub async fn combined_payouts(stage: &mut Stage) -> Told {
    let mut tokens = Vec::new();
    let mut dice = Dice::new(17);
    for index in 0..MOST {
        let body = json!({
            "recipient": dice.wallet(), "creatorWalletAddress": stage.wallet.account, "network": "sepolia",
            "currency": "FAU-sepolia", "amount": format!("0.{:03}", index + 1),
        });
        tokens.push(stage.made("/v2/secure-payments/payouts", body).await);
    }
    let token = stage
        .made("/v2/secure-payments/batch-payouts", json!({ "tokens": tokens }))
        .await;
    let (status, _) = stage.read(&format!("/pay/{}", tokens[0])).await;
    holds(status == 410, "a combined payout can still be paid separately")?;
    paid(stage, &token, ("200 recipients", 1)).await
}
