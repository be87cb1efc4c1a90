//! Screens that normally disappear too fast to check. A wallet or service that does not respond keeps them visible.
//! Also tests error screens that no other scenario shows.

use crate::{
    scenarios::{Told, amounts, holds},
    stage::Stage,
    wallet::{CHAIN, Failure, Wallet},
};
use serde_json::json;

/// Variants of the page: name suffix, width, dark mode and query.
const LOOKS: [(&str, u32, bool, &str); 3] = [
    ("-phone", 360, false, ""),
    ("-dark", 1100, true, ""),
    ("-ar-phone", 360, false, "?lang=ar"),
];

pub async fn held(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["6.1"])).await;
    let hold = |stage: &mut Stage, method| {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        stage.wallet.silent = Some(method);
    };
    hold(stage, "eth_requestAccounts");
    stage.connect(&token, "connecting").await?;
    hold(stage, "wallet_switchEthereumChain");
    stage.wallet.chain = "0x1".to_owned();
    stage.connect(&token, "options").await?;
    stage.press("Pay 6.1").await?;
    stage.until("sign-network").await?;
    hold(stage, "wallet_sendCalls");
    stage.wallet.atomic = Some("supported");
    stage.connect(&token, "options").await?;
    stage.press("Pay 6.1").await?;
    stage.until("sign-both").await?;
    stage.allow(&token).await;
    hold(stage, "eth_sendTransaction");
    stage.connect(&token, "options").await?;
    stage.press("Pay 6.1").await?;
    stage.until("sign-pay").await?;
    stage.wallet = Wallet::new(&stage.accounts[2]);
    for (flag, screen) in [("isSlow", "checking"), ("isAway", "error-connection")] {
        stage.visit(&token, "").await;
        stage.until("connect").await?;
        stage.js(&format!("sessionStorage.{flag} = 1;")).await;
        stage.press("Own Wallet").await?;
        stage.until(screen).await?;
    }
    holds(stage.wallet.chain == CHAIN, "the wallet is on another network")
}

pub async fn troubles(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["6.2"])).await;
    for (code, screen) in [(-32002, "error-busy"), (3, "error-reverted"), (4200, "error-other")] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        stage.connect(&token, "options").await?;
        stage.wallet.failure = Some(Failure {
            method: "eth_sendTransaction",
            is_sent: false,
            answer: Err(json!({ "code": code, "message": "Another request is already pending." })),
        });
        stage.press("Pay 6.2").await?;
        stage.until(screen).await?;
        holds(stage.text().await.contains("Try again"), "the page offers no retry")?;
    }
    // An error code that does not prove a refusal.
    stage.wallet = Wallet::new(&stage.accounts[2]);
    stage.connect(&token, "options").await?;
    stage.wallet.refusals.insert("eth_sendTransaction", -32000);
    stage.press("Pay 6.2").await?;
    stage.until("unknown").await?;
    let text = stage.text().await;
    holds(
        !text.contains("Try again") && !text.contains("Nothing was sent"),
        format!("the page offers a second payment: {text}"),
    )
}

/// Takes screenshots of the payment flow on a phone, in dark mode and in a right-to-left language.
pub async fn looks(stage: &mut Stage) -> Told {
    for (look, width, is_dark, query) in LOOKS {
        stage.dress(width, 1_500, is_dark).await;
        stage.look = look;
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let token = stage.link(amounts(&["6.3", "6.4"])).await;
        stage.visit(&token, query).await;
        stage.until("connect").await?;
        stage.press("Own Wallet").await?;
        stage.until("options").await?;
        stage.js("document.querySelector('.explained').open = true;").await;
        stage.judge("explained").await;
        let wide = stage.js("return document.documentElement.scrollWidth;").await;
        holds(
            wide.as_u64().is_some_and(|wide| wide <= width.into()),
            format!("{wide} wide"),
        )?;
        stage.js("document.querySelector('.explained').open = false;").await;
        stage.wallet.silent = Some("eth_sendTransaction");
        stage
            .js("[...document.querySelectorAll('#action .button')].at(-1).click();")
            .await;
        stage.until("sign-allow").await?;
        stage.settle(&token).await;
        stage.until_paid(std::slice::from_ref(&token)).await?;
        stage.browser.open(&stage.at(&format!("/pay/{token}{query}"))).await;
        stage.judge("paid").await;
        stage
            .browser
            .open(&stage.at(&format!("/pay/{token}/receipt{query}")))
            .await;
        stage.judge("receipt").await;
    }
    Ok(())
}
