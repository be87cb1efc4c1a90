//! Links that a Safe is about to pay, and links that pay several other links in one transaction.

use crate::{
    scenarios::{Told, amounts, holds},
    stage::Stage,
};
use alloy::primitives::U256;
use serde_json::{Value, json};

/// The method that prompts the wallet for a transaction.
const SEND: &str = "eth_sendTransaction";

/// Counts the buttons that pay.
const BUTTONS: &str = "return document.querySelectorAll('#action .button').length;";

/// Reports a transaction of a Safe with the API key, which locks the link.
async fn lock(stage: &Stage, token: &str, digit: &str) {
    let sent = json!({
        "chain": "SEPOLIA", "token": "FAU", "safeTxHash": format!("0x{}", digit.repeat(64)),
        "payerAddress": stage.accounts[8],
    });
    stage
        .dev
        .call(&format!("/v2/secure-payments/{token}/intent"), Some(&sent))
        .await;
}

async fn release(stage: &Stage, token: &str) {
    let path = format!("/v2/secure-payments/{token}/release");
    stage.dev.call(&path, Some(&json!({}))).await;
}

pub async fn locked(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["9.1"])).await;
    let steps = stage.steps(&token).await;
    lock(stage, &token, "a").await;
    let (status, text) = stage.read(&format!("/pay/{token}")).await;
    let is_said = text.contains("The owners of a Safe are signing this payment") && !text.contains("<noscript>");
    holds(status == 200 && is_said, text)?;
    stage.visit(&token, "").await;
    stage.until("locked").await?;
    let text = stage.text().await;
    let parts = [
        "sign and execute it in your Safe",
        "Do not pay in any other way",
        "Reserved until",
    ];
    let names_safe = text.to_lowercase().contains(&stage.accounts[8]);
    holds(names_safe && parts.iter().all(|part| text.contains(part)), text.clone())?;
    holds(!text.contains("Pay from another device"), text)?;
    holds(stage.js(BUTTONS).await == json!(0), "the page offers a button")?;
    let script = "const [wallet, done] = arguments; const body = JSON.stringify({ id: '5'.repeat(32), wallet }); \
        const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body }; \
        const calls = [fetch(`${location.pathname}/calldata?wallet=${wallet}`), fetch(`${location.pathname}/attempt`, post)]; \
        Promise.all(calls).then((all) => done(all.map((one) => one.status)));";
    let told = stage.browser.run(script, &json!([stage.wallet.account])).await;
    holds(told == json!([423, 423]), format!("calldata and attempt: {told}"))?;
    // The report of the Safe no longer counts as a payment in flight, but the link stays locked.
    stage.wait_for(121).await;
    release(stage, &token).await;
    stage.until("connect").await?;
    stage.press("Own Wallet").await?;
    stage.until("options").await?;
    // The page learns of the lock from the refusal of its calldata, and then waits for the payment.
    lock(stage, &token, "b").await;
    stage
        .js("[...document.querySelectorAll('#action .button')].at(-1)?.click();")
        .await;
    stage.until("locked").await?;
    holds(
        stage.wallet.count("eth_sendTransaction") == 0,
        "the wallet was prompted",
    )?;
    for step in steps {
        stage.send(&step).await;
    }
    stage.until("success").await
}

/// Creates payout links, and a multicall of them; returns the tokens of the links and of the multicall.
async fn multicall(stage: &Stage, parts: &[(usize, &str, &str)]) -> (Vec<String>, String) {
    let mut tokens = Vec::new();
    for (recipient, currency, amount) in parts {
        let body = json!({
            "recipient": stage.accounts[*recipient], "creatorWalletAddress": stage.wallet.account,
            "network": "sepolia", "currency": currency, "amount": amount,
        });
        tokens.push(stage.made("/v2/secure-payments/payouts", body).await);
    }
    let body = json!({ "childTokens": tokens });
    let token = stage.made("/v2/secure-payments/multicall-payouts", body).await;
    (tokens, token)
}

async fn state(stage: &Stage, token: &str) -> Value {
    let (_, text) = stage.read(&format!("/pay/{token}/state")).await;
    serde_json::from_str(&text).expect("JSON")
}

/// What the recipients hold, each in the currency of its payment.
async fn balances(stage: &Stage, details: &Value) -> Vec<U256> {
    let mut balances = Vec::new();
    for item in details["items"].as_array().expect("items") {
        let currency = item["currency"].as_u64().expect("an index");
        let token = details.pointer(&format!("/currencies/{currency}/address"));
        let payee = item["payee"].as_str().expect("an address");
        let call = json!({ "to": token, "data": format!("0x70a08231{:0>64}", &payee[2..]) });
        let held = stage.dev.ask_node("eth_call", json!([call, "latest"])).await;
        balances.push(held.as_str().and_then(|held| held.parse().ok()).expect("a balance"));
    }
    balances
}

/// Passes shown details that differ from the calldata to the check of the page; returns why the check refuses each.
async fn refusals(stage: &Stage) -> Value {
    let script = "const [wallet, done] = arguments; \
        const read = async (path) => (await fetch(location.pathname + path)).json(); \
        const changes = [() => {}, ({ items }) => ([items[0].payee, items[1].payee] = [items[1].payee, items[0].payee]), \
            ({ items }) => (items[1].due = '2'), ({ items }) => (items[2].state = 'paid'), ({ items }) => items.pop()]; \
        (async () => { \
            const main = document.querySelector('script[src$=\"/main.js\"]').src; \
            const { verify } = await import(main.replace('main.js', 'verify.js')); \
            const { details } = await read('/state'); \
            const plan = await read(`/calldata?wallet=${wallet}`); \
            done(changes.map((change) => { \
                const shown = structuredClone(details); \
                change(shown); \
                try { verify(shown, plan, wallet); return ''; } catch (error) { return error.why; } \
            })); \
        })();";
    stage.browser.run(script, &json!([stage.wallet.account])).await
}

pub async fn multicall_paid(stage: &mut Stage) -> Told {
    let parts = [
        (4, "FAU-sepolia", "2"),
        (5, "FAU-sepolia", "3"),
        (6, "USDT-sepolia", "1"),
    ];
    let (tokens, token) = multicall(stage, &parts).await;
    let details = state(stage, &token).await["details"].take();
    let before = balances(stage, &details).await;
    stage.wallet.atomic = Some("supported");
    stage.look = "-multicall";
    stage.connect(&token, "options").await?;
    let text = stage.text().await;
    let parts = [
        "State",
        "Ready",
        "Total",
        "5\u{a0}FAU",
        "1\u{a0}USDT",
        "Pay 3 recipients",
    ];
    holds(parts.iter().all(|part| text.contains(part)), text)?;
    let why = refusals(stage).await;
    let expected = json!(["", "recipient", "amount", "missing", "missing"]);
    holds(why == expected, format!("the check of the page says {why}"))?;
    stage.press("Pay 3 recipients").await?;
    stage.until("success").await?;
    let asked = ["wallet_sendCalls", "eth_sendTransaction"].map(|method| stage.wallet.count(method));
    holds(asked == [1, 0], format!("the wallet was prompted {asked:?} times"))?;
    let after = balances(stage, &details).await;
    let got: Vec<U256> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after - before)
        .collect();
    let units = |amount: u64, decimals: u64| U256::from(amount) * U256::from(10_u64).pow(U256::from(decimals));
    let owed = [units(2, 18), units(3, 18), units(1, 6)];
    println!("recipients of a multicall got {got:?}");
    holds(got == owed, format!("the recipients got {got:?} instead of {owed:?}"))?;
    stage.until_paid(&tokens).await?;
    let states = "return [...document.querySelectorAll('#entries .state')].map((one) => one.textContent);";
    holds(
        stage.js(states).await == json!(["Paid", "Paid", "Paid"]),
        stage.text().await,
    )?;
    for page in ["", "/receipt"] {
        let (_, text) = stage.read(&format!("/pay/{token}{page}")).await;
        let count = text.matches("<td class=\"state\">Paid</td>").count();
        holds(count == 3, format!("{page} shows {count} paid recipients"))?;
    }
    Ok(())
}

pub async fn multicall_blocked(stage: &mut Stage) -> Told {
    let parts = [
        (4, "FAU-sepolia", "4"),
        (5, "FAU-sepolia", "5"),
        (6, "FAU-sepolia", "6"),
    ];
    let (tokens, token) = multicall(stage, &parts).await;
    stage.wallet.silent = Some(SEND);
    stage.connect(&token, "options").await?;
    stage.press("Pay 3 recipients").await?;
    while stage.wallet.count(SEND) == 0 {
        stage.turn().await;
    }
    let paid = tokens[1].clone();
    stage.settle(&paid).await;
    stage.until_paid(std::slice::from_ref(&paid)).await?;
    // The prompt of the wallet is still open.
    stage
        .until_true("document.body.innerText.includes('Reject the request in your wallet')")
        .await?;
    stage
        .js("for (const { reject } of wallet.waiting.values()) reject({ code: 4001 });")
        .await;
    stage.until("blocked-items").await?;
    let told = state(stage, &token).await;
    let states = [0_usize, 1, 2].map(|item| told["details"]["items"][item]["state"].clone());
    let is_told = states == ["ready", "paid", "ready"] && told["details"]["blocked"] == 1;
    holds(is_told, told.to_string())?;
    let (_, text) = stage
        .read(&format!("/pay/{token}/calldata?wallet={}", stage.wallet.account))
        .await;
    holds(text.contains("multicall_validation_failed"), text)?;
    let (_, text) = stage.read(&format!("/pay/{token}")).await;
    holds(text.contains("This link cannot pay all of its recipients"), text)?;
    for (look, width, query, title) in [
        ("", 1100, "", "This link cannot pay all of its recipients"),
        ("-ar-phone", 320, "?lang=ar", "لا يستطيع هذا الرابط الدفع لجميع مستلميه"),
    ] {
        stage.look = look;
        stage.dress(width, 1_500, false).await;
        stage.visit(&token, query).await;
        stage.until("blocked-items").await?;
        let named = stage
            .js("return document.querySelector('#action .blocked').textContent.toLowerCase();")
            .await;
        let named = named.as_str().unwrap_or_default();
        let names_only_paid =
            [4_usize, 5, 6].map(|index| named.contains(&stage.accounts[index])) == [false, true, false];
        let text = stage.text().await;
        let is_other_hidden = !text.contains("Pay from another device");
        holds(names_only_paid && text.contains(title) && is_other_hidden, text)?;
        holds(stage.js(BUTTONS).await == json!(0), "the page offers a button")?;
        let wide = stage.js("return document.documentElement.scrollWidth;").await;
        holds(
            wide.as_u64().is_some_and(|wide| wide <= width.into()),
            format!("{wide} wide"),
        )?;
    }
    // A child is paid while a Safe locks another multicall.
    let (tokens, token) = multicall(stage, &parts).await;
    lock(stage, &token, "c").await;
    stage.settle(&tokens[1]).await;
    stage.until_paid(&tokens[1..2]).await?;
    let warning = "Do not execute it: these recipients are already paid";
    let (_, text) = stage.read(&format!("/pay/{token}?lang=en")).await;
    let shown = text.split("<script id=\"boot\"").next().unwrap_or_default();
    holds(shown.contains(warning), text.clone())?;
    stage.look = "-multicall";
    stage.visit(&token, "").await;
    stage.until("locked").await?;
    let text = stage.text().await;
    let is_warned = text.contains(warning) && !text.contains("sign and execute it in your Safe");
    holds(is_warned, text)
}
