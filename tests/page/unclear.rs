//! Wallets that report a failure although they may have sent the payment. The page then offers nothing with which the
//! payer could pay twice.

use crate::{
    proxy::Proxy,
    scenarios::{Told, amounts, holds, replaced, with_blocks},
    stage::Stage,
    wallet::{CHAIN, Failure, Wallet},
};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

const SEND: &str = "eth_sendTransaction";
const BUNDLE: &str = "wallet_sendCalls";
const NETWORK: &str = "eth_chainId";

/// Waiting times in seconds. The page waits until the wallet's transaction count has stayed the same for some time;
/// [`STILL_S`] and [`STILL_AHEAD_S`] are longer than that. [`UNSEEN_S`] is longer than the page waits for a payment.
const STILL_S: u64 = 16;
const STILL_AHEAD_S: i64 = 16;
const UNSEEN_S: u64 = 601;

/// Time limit for a few polls of the page.
const PATIENCE: Duration = Duration::from_secs(20);

/// Wallet errors that report an unreachable node. The node may already have received the transaction.
const AWAY: &str = "RPC endpoint not found or unavailable.";
const RETRYING: &str =
    "RPC endpoint returned too many errors, retrying in 0.5 minutes. Consider using a different RPC endpoint.";

/// Thirteen wallet responses that do not prove a refusal.
fn unclear_answers() -> [(&'static str, Result<Value, Value>); 13] {
    let error = |code: i64, message: &str| Err(json!({ "code": code, "message": message }));
    let away = json!({ "code": -32002, "message": AWAY, "data": { "httpStatus": 504 } });
    let known = json!({ "code": -32603, "message": "Internal JSON-RPC error.", "data": { "code": -32000, "message": "already known" } });
    [
        ("-32603", error(-32603, "Internal JSON-RPC error.")),
        ("already known, nested", Err(known)),
        (
            "nonce too low",
            error(-32000, "nonce too low: next nonce 8, tx nonce 7"),
        ),
        (
            "replacement underpriced",
            error(-32000, "replacement transaction underpriced"),
        ),
        ("-32000", error(-32000, "unknown")),
        (
            "disconnected",
            error(4900, "The provider is disconnected from all chains."),
        ),
        ("timeout under -32002", error(-32002, "request timed out")),
        ("an unreachable node", Err(away.clone())),
        (
            "an unreachable node, nested",
            Err(json!({ "code": -32603, "message": "Internal JSON-RPC error.", "data": away })),
        ),
        ("a node with many errors", error(-32002, RETRYING)),
        (
            "a text alone",
            Err(json!({ "message": "insufficient funds for gas * price + value" })),
        ),
        ("a rejection without an error", Err(json!("nothing"))),
        ("no hash", Ok(Value::Null)),
    ]
}

/// The error of a wallet that is still showing an earlier prompt.
fn open_already() -> Value {
    let text =
        "Request of type 'wallet_requestPermissions' already pending for origin https://pay.example. Please wait.";
    json!({ "code": -32002, "message": text })
}

/// Errors that prove that nothing was sent, with their screens.
fn refusals_of_wallets() -> Vec<(Value, &'static str)> {
    let coded = |code: Value| json!({ "code": code, "message": "no" });
    let node = |text: &str| json!({ "code": -32000, "message": text });
    let inside = |error: Value| json!({ "code": -32603, "message": "Internal JSON-RPC error.", "data": error });
    let broke = node("insufficient funds for gas * price + value: balance 0, tx cost 1");
    vec![
        (coded(json!(4001)), "error-rejected"),
        (coded(json!("4001")), "error-rejected"),
        (coded(json!(5000)), "error-rejected"),
        (coded(json!("ACTION_REJECTED")), "error-rejected"),
        (
            json!({ "code": -32603, "data": { "originalError": coded(json!(4001)) } }),
            "error-rejected",
        ),
        (
            json!({ "info": { "error": { "cause": coded(json!(4001)) } } }),
            "error-rejected",
        ),
        (coded(json!(4100)), "error-other"),
        (coded(json!(4200)), "error-other"),
        (coded(json!(-32601)), "error-other"),
        (coded(json!(-32602)), "error-other"),
        (open_already(), "error-busy"),
        (inside(open_already()), "error-busy"),
        (broke.clone(), "error-funds"),
        (inside(broke), "error-funds"),
        (coded(json!("INSUFFICIENT_FUNDS")), "error-funds"),
        (
            inside(node("intrinsic gas too low: gas 0, minimum needed 21000")),
            "error-reverted",
        ),
        (
            json!({ "error": node("gas required exceeds allowance (0)") }),
            "error-reverted",
        ),
        (coded(json!("UNPREDICTABLE_GAS_LIMIT")), "error-reverted"),
        (coded(json!(3)), "error-reverted"),
    ]
}

/// Number of buttons on the screen with which the payer can reach a payment, directly or after another click.
async fn offers(stage: &Stage) -> u64 {
    let script = "return [...document.querySelectorAll('#action button, #action a.button')]\
                  .filter((one) => !one.textContent.startsWith('Connect wallet')).length;";
    stage.js(script).await.as_u64().unwrap_or(u64::MAX)
}

/// Like [`offers`], for a screen that the page may leave at any time. Repeats the count, because checking a screen
/// takes long.
async fn offers_on(stage: &mut Stage, screen: &str) -> Result<u64, String> {
    loop {
        stage.until(screen).await?;
        let offered = offers(stage).await;
        if stage.turn().await == screen {
            return Ok(offered);
        }
    }
}

/// Clicks as a payer who accepts the risk of paying twice; checks that the button is disabled before this consent.
async fn accept(stage: &mut Stage) -> Told {
    let before = stage.turn().await;
    stage.press("Continue anyway").await?;
    holds(
        stage.turn().await == before,
        "the page continues without the confirmation",
    )?;
    stage.js("document.querySelector('.accept input').click();").await;
    stage.press("Continue anyway").await
}

/// Lets the page poll for a while and checks that the screen stays the same.
async fn stays(stage: &mut Stage, screen: &str, time: Duration) -> Told {
    let begun = Instant::now();
    while begun.elapsed() < time {
        let shown = stage.turn().await;
        holds(shown == screen, format!("{shown} is shown: {}", stage.text().await))?;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}

/// A response of a wallet that does not prove a refusal.
fn internal_error() -> Result<Value, Value> {
    Err(json!({ "code": -32603, "message": "Internal error" }))
}

/// Gives up an attempt to which the wallet has not responded, and returns to the payment options.
async fn given_up(stage: &mut Stage) -> Told {
    stage.until("unknown").await?;
    stage.wait_for(STILL_S).await;
    stage.until("unknown-unseen").await?;
    accept(stage).await?;
    stage.until("options").await
}

/// Waits until the page has polled the wallet's network and transaction count more than this number of times.
async fn looked(stage: &mut Stage, times: usize) -> Told {
    let (begun, before) = (Instant::now(), stage.wallet.count(NETWORK));
    while stage.wallet.count(NETWORK) <= before + times {
        let screen = stage.turn().await;
        let text = || {
            format!(
                "the page does not poll the wallet and shows {screen}: {:?}",
                stage.wallet.asked
            )
        };
        holds(begun.elapsed() < PATIENCE, text())?;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}

/// Opens a link in a tab, and connects the wallet unless it is already connected.
async fn offered(stage: &mut Stage, token: &str) -> Told {
    stage.browser.open(&stage.at(&format!("/pay/{token}"))).await;
    if !stage.wallet.is_connected {
        stage.until("connect").await?;
        stage.press("Own Wallet").await?;
    }
    stage.until("options").await
}

/// A link that takes one transaction, with the wallet already connected.
async fn coin_link(stage: &mut Stage, amount: &str) -> String {
    let token = stage.payout("ETH-sepolia-sepolia", amount).await;
    let known = format!("localStorage['pay:{token}'] = JSON.stringify({{ wallet: 'test.own' }});");
    stage.browser.open(&stage.at("/pay/01ARZ3NDEKTSV4RRFFQ69G5FAV")).await;
    stage.js(&known).await;
    stage.wallet.is_connected = true;
    token
}

fn fails(stage: &mut Stage, method: &'static str, is_sent: bool, answer: Result<Value, Value>) {
    stage.wallet.failure = Some(Failure {
        method,
        is_sent,
        answer,
    });
}

/// Waits until the wallet has returned its faulty response and the page has reacted. If the wallet sent the
/// transaction, it is mined at once, so the page may already show success. Returns an error if the page shows a
/// failure.
async fn asked_for(stage: &mut Stage) -> Told {
    let begun = Instant::now();
    loop {
        let screen = stage.turn().await;
        if stage.wallet.failure.is_none() && !screen.starts_with("sign-") {
            let is_known = ["unknown", "checking", "options", "success"].contains(&screen.as_str());
            return holds(is_known, format!("{screen} is shown"));
        }
        holds(begun.elapsed() < PATIENCE, format!("the page stays on {screen}"))?;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Whether the service warns visitors of a link that a payment may be in flight.
async fn warns(stage: &Stage, token: &str) -> bool {
    let state: Value = serde_json::from_str(&stage.read(&format!("/pay/{token}/state")).await.1).expect("JSON");
    !state["inFlight"].is_null()
}

pub async fn refusals(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.011").await;
    offered(stage, &token).await?;
    let all = refusals_of_wallets();
    for (index, (error, screen)) in all.iter().enumerate() {
        fails(stage, SEND, false, Err(error.clone()));
        let label = if index == 0 { "Pay 0.011" } else { "Try again" };
        stage.press(label).await?;
        let begun = Instant::now();
        while stage.turn().await != *screen || stage.wallet.failure.is_some() {
            holds(begun.elapsed() < PATIENCE, format!("{error} does not lead to {screen}"))?;
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        holds(!warns(stage, &token).await, format!("{error} leaves a warning"))?;
    }
    println!("{} refusals: a retry at once, 0 warnings left", all.len());
    stage.press("Try again").await?;
    stage.until("success").await
}

/// The wallet sent the payment but responded unclearly. Until the service sees the payment, the page offers no second
/// payment: not in the same tab, not in another tab, and not after a reload.
pub async fn sent(stage: &mut Stage) -> Told {
    // Only the clock of the pages moves: moving the service's clock would also mine the payment.
    let ahead = Arc::new(AtomicI64::new(0));
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    let moved = ahead.clone();
    proxy.lets(move |_, text| later(text, moved.load(Ordering::Relaxed)));
    stage.origin = Some(proxy.address.clone());
    let (first, second) = stage.open_tab().await;
    stage.go_to(&first).await;
    let mut cells = 0;
    let mut second_payments = 0;
    let mut played = Ok(());
    for (index, (what, answer)) in unclear_answers().into_iter().enumerate() {
        let paid = sent_once(stage, index, answer, (&first, &second), &ahead).await;
        match paid {
            Ok(offers) => second_payments += offers,
            Err(error) => {
                played = Err(format!("{what}: {error}"));
                break;
            }
        }
        cells += 3;
    }
    stage.go_to(&second).await;
    stage.browser.close().await;
    stage.go_to(&first).await;
    stage.origin = None;
    println!("{cells} cases of sent payments: {second_payments} second payments offered");
    played?;
    holds(
        second_payments == 0,
        format!("{second_payments} second payments offered"),
    )
}

/// A response of the service with a later `serverTime`.
fn later(text: String, seconds: i64) -> String {
    const MEMBER: &str = "\"serverTime\":\"";
    let Some((before, (time, after))) = text
        .split_once(MEMBER)
        .and_then(|(before, rest)| Some((before, rest.split_once('"')?)))
    else {
        return text;
    };
    let time: DateTime<Utc> = time.parse().expect("a time");
    let time = (time + TimeDelta::seconds(seconds)).to_rfc3339_opts(SecondsFormat::Millis, true);
    format!("{before}{MEMBER}{time}\"{after}")
}

async fn sent_once(
    stage: &mut Stage,
    index: usize,
    answer: Result<Value, Value>,
    (first, second): (&Value, &Value),
    ahead: &AtomicI64,
) -> Result<u64, String> {
    let wait = || ahead.fetch_add(STILL_AHEAD_S, Ordering::Relaxed);
    stage.wallet = Wallet::new(&stage.accounts[2]);
    let amount = format!("0.{}", 2 * index + 21);
    let token = coin_link(stage, &amount).await;
    stage.go_to(second).await;
    offered(stage, &token).await?;
    stage.go_to(first).await;
    offered(stage, &token).await?;
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    fails(stage, SEND, true, answer);
    let waited = async {
        let mut found = 0;
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("unknown").await?;
        wait();
        looked(stage, 2).await?;
        found += offers(stage).await;
        stage.go_to(second).await;
        stage.until("unknown").await?;
        wait();
        looked(stage, 2).await?;
        found += offers(stage).await;
        stage.go_to(first).await;
        stage.browser.post("refresh", &json!({})).await;
        stage.until("unknown").await?;
        wait();
        looked(stage, 2).await?;
        Ok::<u64, String>(found + offers(stage).await)
    };
    let waited = waited.await;
    with_blocks(stage).await;
    let found = waited?;
    stage.until("success").await?;
    stage.go_to(second).await;
    stage.until("success").await?;
    stage.go_to(first).await;
    holds(stage.wallet.count(SEND) == 1, "the wallet was prompted twice")?;
    Ok(found)
}

/// The wallet sent nothing and responded unclearly. Once the wallet's transaction count has stayed unchanged for a
/// while, the page offers another attempt to a payer who accepts the risk of paying twice.
pub async fn not_sent(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.012").await;
    offered(stage, &token).await?;
    let (first, second) = stage.open_tab().await;
    offered(stage, &token).await?;
    stage.go_to(&first).await;
    let (mut cells, mut retries) = (0, 0);
    let played = async {
        for (what, answer) in unclear_answers() {
            let told = |error: String| format!("{what}: {error}");
            fails(stage, SEND, false, answer);
            stage.press("Pay 0.012").await.map_err(told)?;
            stage.until("unknown").await.map_err(told)?;
            holds(offers(stage).await == 0, format!("{what}: offered at once"))?;
            stage.wait_for(STILL_S).await;
            retries += offers_on(stage, "unknown-unseen").await.map_err(told)?;
            stage.go_to(&second).await;
            retries += offers_on(stage, "unknown-unseen").await.map_err(told)?;
            stage.go_to(&first).await;
            stage.browser.post("refresh", &json!({})).await;
            stage.until("unknown").await.map_err(told)?;
            holds(offers(stage).await == 0, format!("{what}: offered after a reload"))?;
            stage.wait_for(STILL_S).await;
            retries += offers_on(stage, "unknown-unseen").await.map_err(told)?;
            cells += 3;
            accept(stage).await.map_err(told)?;
            stage.until("options").await.map_err(told)?;
        }
        stage.press("Pay 0.012").await?;
        stage.until("success").await
    };
    let played = played.await;
    stage.go_to(&second).await;
    stage.browser.close().await;
    stage.go_to(&first).await;
    println!("{cells} cases of unsent payments: {retries} further attempts offered");
    played?;
    holds(
        retries == cells,
        "the page does not offer another attempt in every case",
    )
}

/// The page is reloaded while the wallet prompt is open, and the owner then approves.
pub async fn prompt_left_open(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.013").await;
    offered(stage, &token).await?;
    stage.wallet.silent = Some(SEND);
    stage.press("Pay 0.013").await?;
    stage.until("sign-pay").await?;
    while stage.wallet.count(SEND) == 0 {
        stage.turn().await;
    }
    stage.browser.post("refresh", &json!({})).await;
    stage.wallet.silent = None;
    stage.until("unknown").await?;
    holds(offers(stage).await == 0, "the page offers a second payment")?;
    stage.settle(&token).await;
    stage.until("success").await?;
    holds(stage.wallet.count(SEND) == 1, "the wallet was prompted twice")
}

/// The wallet's transaction count changed, but no payment is seen for a long time. The page warns the payer of the risk
/// of paying twice before it offers another attempt.
pub async fn moved(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.014").await;
    offered(stage, &token).await?;
    fails(
        stage,
        SEND,
        false,
        Err(json!({ "code": -32603, "message": "Internal error" })),
    );
    stage.press("Pay 0.014").await?;
    stage.until("unknown").await?;
    // The wallet has a different count on another network.
    stage.wallet.chain = "0x1".to_owned();
    looked(stage, 1).await?;
    stage.wait_for(STILL_S).await;
    looked(stage, 2).await?;
    holds(offers(stage).await == 0, "offered for the count of another network")?;
    CHAIN.clone_into(&mut stage.wallet.chain);
    let other = json!({ "to": stage.wallet.account, "data": "0x", "value": "0x0" });
    stage.send(&other).await;
    stage.wait_for(STILL_S).await;
    looked(stage, 2).await?;
    holds(offers(stage).await == 0, "offered although the count changed")?;
    stage.wait_for(UNSEEN_S).await;
    for (look, width, is_dark) in [("", 1100, false), ("-phone-dark", 360, true)] {
        stage.dress(width, 900, is_dark).await;
        stage.look = look;
        stage.until("unknown-risk").await?;
    }
    holds(
        stage.text().await.contains("you may pay twice"),
        "the page does not name the risk",
    )?;
    accept(stage).await?;
    stage.until("options").await?;
    stage.press("Pay 0.014").await?;
    stage.until("success").await
}

/// The page requests a token permission only once, because it remembers the hash of the permission across a reload.
pub async fn permission_kept(stage: &mut Stage) -> Told {
    // No other scenario leaves a permission this large.
    let token = stage.link(amounts(&["650.5"])).await;
    stage.connect(&token, "options").await?;
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    let waited = async {
        stage.press("Pay 650.5").await?;
        while stage.wallet.sent.is_none() {
            stage.turn().await;
        }
        let begun = Instant::now();
        while !stage.text().await.contains("Waiting for confirmation") {
            holds(begun.elapsed() < PATIENCE, "the page does not wait for the permission")?;
            stage.turn().await;
        }
        stage.browser.post("refresh", &json!({})).await;
        stage.until("sign-allow").await?;
        holds(offers(stage).await == 0, "the page offers a second permission")
    };
    let waited = waited.await;
    with_blocks(stage).await;
    waited?;
    stage.until("options").await?;
    stage.press("Pay 650.5").await?;
    stage.until("success").await?;
    holds(stage.wallet.count(SEND) == 2, "not two transactions")
}

/// The wallet reports no transaction hash for a token permission. The page requests the permission only once, and looks
/// up on the chain whether it was given.
pub async fn permissions(stage: &mut Stage) -> Told {
    stage.wallet = Wallet::new(&stage.accounts[2]);
    let token = stage.link(amounts(&["6.6"])).await;
    stage.connect(&token, "options").await?;
    fails(
        stage,
        SEND,
        true,
        Err(json!({ "code": -32603, "message": "Internal error" })),
    );
    stage.press("Pay 6.6").await?;
    asked_for(stage).await?;
    stage.until("options").await?;
    stage.press("Pay 6.6").await?;
    stage.until("success").await?;
    holds(stage.wallet.count(SEND) == 2, "the permission was given twice")
}

/// The payer confirms permission and payment in one prompt, and the wallet reports no outcome.
pub async fn together(stage: &mut Stage) -> Told {
    for (is_sent, amount) in [(true, "3.41"), (false, "3.42")] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        stage.wallet.atomic = Some("supported");
        let token = stage.link(amounts(&[amount])).await;
        stage.connect(&token, "options").await?;
        fails(
            stage,
            BUNDLE,
            is_sent,
            Err(json!({ "code": -32603, "message": "Internal error" })),
        );
        stage.press(&format!("Pay {amount}")).await?;
        asked_for(stage).await?;
        if is_sent {
            stage.until("success").await?;
            holds(stage.wallet.count(SEND) == 0, "the transactions were sent separately")?;
            continue;
        }
        // Another account may send the batch, so the transaction count of the connected account proves nothing.
        stage.wait_for(STILL_S).await;
        looked(stage, 2).await?;
        holds(offers(stage).await == 0, "offered although the count proves nothing")?;
        stage.wait_for(UNSEEN_S).await;
        stage.until("unknown-risk").await?;
    }
    Ok(())
}

/// Records an attempt of a wallet, as the page on another device does.
pub async fn attempted(stage: &Stage, token: &str, id: u32, wallet: &str) -> u16 {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let call = client.post(stage.at(&format!("/pay/{token}/attempt")));
    let call = call.header("sec-fetch-site", "same-origin");
    let answer = call
        .json(&json!({ "id": format!("{id:032x}"), "wallet": wallet }))
        .send()
        .await;
    answer.expect("an answer").status().as_u16()
}

/// Another device prompts its wallet. The page warns every visitor of the link before it prompts the visitor's wallet.
pub async fn elsewhere(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.015").await;
    offered(stage, &token).await?;
    let account = stage.wallet.account.clone();
    holds(
        attempted(stage, &token, 1, &account).await == 200,
        "the attempt is refused",
    )?;
    stage.press("Pay 0.015").await?;
    stage.until("inflight").await?;
    holds(
        stage.wallet.count(SEND) == 0,
        "the wallet was prompted without a warning",
    )?;
    let token = coin_link(stage, "0.016").await;
    offered(stage, &token).await?;
    // The page polls on its own. The payer consented only to the attempt that was shown, so the page shows the warning
    // again for a new attempt.
    for id in [1, 2] {
        attempted(stage, &token, id, &account).await;
        stage.until("inflight").await?;
        stage.press("Continue anyway").await?;
        stage.until("options").await?;
        stage.wait_for(60).await;
    }
    stage.press("Pay 0.016").await?;
    stage.until("success").await
}

/// A payment is in flight until a time that no timer can wait for, or that is no time. The page looks again after a
/// minute.
pub async fn far_hint(stage: &mut Stage) -> Told {
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    stage.origin = Some(proxy.address.clone());
    for (amount, until) in [("0.061", "2106-01-01T00:00:00.000Z"), ("0.062", "never")] {
        proxy.lets(move |path, text| {
            if !path.ends_with("/state") {
                return text;
            }
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            answer["inFlight"] = json!({ "until": until, "isSeen": true });
            answer.to_string()
        });
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let token = stage.payout("ETH-sepolia-sepolia", amount).await;
        stage.visit(&token, "").await;
        stage.until("connect").await?;
        let watched = "const own = window.setTimeout; window.delays = []; \
                       window.setTimeout = (run, ms) => { window.delays.push(ms); return own(run, ms); };";
        stage.js(watched).await;
        stage.press("Own Wallet").await?;
        stage.until("inflight").await?;
        let is_bounded = stage.js("return window.delays.includes(60000);").await;
        holds(is_bounded == json!(true), format!("{until}: not a minute"))?;
    }
    Ok(())
}

/// A link whose redirect leads to a page outside the domains of its public client ID.
pub async fn foreign_redirect(stage: &mut Stage) -> Told {
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    proxy.lets(|_, text| text.replace(r#""isForeign":false"#, r#""isForeign":true"#));
    let mut body = amounts(&["6.7"]);
    body["redirectUrl"] = json!("https://shop.example/thanks");
    let token = stage.link(body).await;
    stage.origin = Some(proxy.address.clone());
    stage.allow(&token).await;
    let played = async {
        stage.connect(&token, "options").await?;
        stage.press("Pay 6.7").await?;
        stage.look = "-foreign";
        stage.until("success").await?;
        let text = stage.text().await;
        holds(text.contains("https://shop.example is not a registered site"), text)
    };
    let played = played.await;
    stage.origin = None;
    played
}

/// The payer gave up an attempt whose outcome is unknown, and then the wallet refuses the next request. The page still
/// treats the first attempt as possibly sent.
pub async fn refused_later(stage: &mut Stage) -> Told {
    let declined = json!({ "code": 4001, "message": "no" });
    for (amount, no, screen) in [
        ("0.041", declined, "error-rejected"),
        ("0.042", open_already(), "error-busy"),
    ] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let token = coin_link(stage, amount).await;
        offered(stage, &token).await?;
        fails(stage, SEND, false, internal_error());
        stage.press(&format!("Pay {amount}")).await?;
        given_up(stage).await?;
        // The page does not claim that nothing was sent, and the payer must accept the risk again.
        fails(stage, SEND, false, Err(no.clone()));
        stage.press(&format!("Pay {amount}")).await?;
        stage.until(screen).await?;
        let text = stage.text().await;
        holds(!text.contains("Nothing was sent") && !text.contains("Try again"), text)?;
        holds(warns(stage, &token).await, "the warning of the earlier attempt is gone")?;
        let hidden = stage.js("return document.getElementById('elsewhere').hidden;").await;
        holds(hidden == json!(true), "the page offers to pay from another device")?;
        // The wallet now sends the earlier transaction while its prompt is open.
        accept(stage).await?;
        stage.dev.ask_node("evm_setAutomine", json!([false])).await;
        fails(stage, SEND, true, Err(no));
        let waited = async {
            stage.until("unknown").await?;
            holds(offers(stage).await == 0, "the page offers a second payment")?;
            holds(warns(stage, &token).await, "no warning")
        };
        let waited = waited.await;
        with_blocks(stage).await;
        waited?;
        stage.until("success").await?;
        holds(stage.wallet.count(SEND) == 3, "the wallet was prompted again")?;
    }
    Ok(())
}

/// A second tab took over and paid. When the wallet then refuses the request of the first tab, the page still shows the
/// payment.
pub async fn refused_in_the_first_tab(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.043").await;
    offered(stage, &token).await?;
    stage.wallet.silent = Some(SEND);
    stage.press("Pay 0.043").await?;
    while stage.wallet.count(SEND) == 0 {
        stage.turn().await;
    }
    let (first, second) = stage.open_tab().await;
    stage.browser.open(&stage.at(&format!("/pay/{token}"))).await;
    stage.wallet.silent = None;
    let played = async {
        given_up(stage).await?;
        stage.press("Pay 0.043").await?;
        stage.until("othertab").await?;
        stage.dev.ask_node("evm_setAutomine", json!([false])).await;
        stage.press("Continue here").await?;
        stage.until("sign-confirm").await?;
        stage.go_to(&first).await;
        stage.until("sign-confirm").await?;
        stage
            .js("for (const { reject } of wallet.waiting.values()) reject({ code: 4001 });")
            .await;
        stays(stage, "sign-confirm", Duration::from_millis(500)).await?;
        let kept = stage
            .js(&format!("return JSON.parse(localStorage['pay:{token}']).hash;"))
            .await;
        holds(kept.is_string(), "the payment of the other tab is forgotten")?;
        holds(warns(stage, &token).await, "its warning is gone")
    };
    let played = played.await;
    with_blocks(stage).await;
    stage.go_to(&second).await;
    let ended = if played.is_ok() {
        stage.until("success").await
    } else {
        Ok(())
    };
    stage.browser.close().await;
    stage.go_to(&first).await;
    played.and(ended)?;
    holds(stage.wallet.count(SEND) == 2, "the wallet was prompted again")
}

/// The wallet switches networks just before it gets a request, or while its payment is pending.
pub async fn another_network(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.044").await;
    offered(stage, &token).await?;
    stage.wallet.leaves_after = Some("eth_getCode");
    stage.press("Pay 0.044").await?;
    stage.until("error-network").await?;
    holds(
        stage.wallet.count(SEND) == 0,
        "the wallet was prompted on another network",
    )?;
    holds(!warns(stage, &token).await, "a warning is left")?;
    stage.wallet.leaves_after = None;
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    stage.press("Try again").await?;
    let waited = async {
        stage.until("sign-confirm").await?;
        "0x1".clone_into(&mut stage.wallet.chain);
        // Longer than the page waits for a replacement transaction.
        stays(stage, "sign-confirm", Duration::from_secs(9)).await
    };
    let waited = waited.await;
    with_blocks(stage).await;
    waited?;
    stage.until("success").await
}

/// The wallet returns a receipt without a status.
pub async fn odd_receipt(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.045").await;
    offered(stage, &token).await?;
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    fails(stage, "eth_getTransactionReceipt", false, Ok(json!({ "status": null })));
    stage.press("Pay 0.045").await?;
    let waited = async {
        stage.until("sign-confirm").await?;
        while stage.wallet.failure.is_some() {
            stage.turn().await;
        }
        stays(stage, "sign-confirm", Duration::from_secs(1)).await
    };
    let waited = waited.await;
    with_blocks(stage).await;
    waited?;
    stage.until("success").await?;
    holds(stage.wallet.count(SEND) == 1, "the wallet was prompted twice")
}

/// The wallet is locked when the page is reloaded. Once the wallet is connected, the page reads its transaction count.
pub async fn locked(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.046").await;
    offered(stage, &token).await?;
    fails(stage, SEND, false, internal_error());
    stage.press("Pay 0.046").await?;
    stage.until("unknown").await?;
    stage.wallet.is_connected = false;
    stage.browser.post("refresh", &json!({})).await;
    let begun = Instant::now();
    while stage.press("Connect wallet").await.is_err() {
        stage.turn().await;
        holds(begun.elapsed() < PATIENCE, stage.text().await)?;
    }
    looked(stage, 1).await?;
    given_up(stage).await?;
    stage.press("Pay 0.046").await?;
    stage.until("success").await
}

/// Waits for half of the time after which the page gives up on a payment, reloads the page, and waits for the other
/// half. The page then warns of the risk.
async fn forlorn(stage: &mut Stage) -> Told {
    stage.until("sign-confirm").await?;
    stage.wait_for(UNSEEN_S / 2).await;
    stage.browser.post("refresh", &json!({})).await;
    stage.until("sign-confirm").await?;
    stays(stage, "sign-confirm", Duration::from_secs(1)).await?;
    holds(offers(stage).await == 0, "the page offers a second payment at once")?;
    stage.wait_for(UNSEEN_S / 2 + 1).await;
    stage.until("unknown-risk").await
}

/// The wallet, locked or not, returns a hash that no node knows. The page warns a payer who continues of the risk. Once
/// a node knows the hash, the page waits for that transaction.
pub async fn hash_of_nothing(stage: &mut Stage) -> Told {
    let hash = format!("0x{}", "ab".repeat(32));
    for (amount, is_locked) in [("0.047", false), ("0.056", true)] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let token = coin_link(stage, amount).await;
        offered(stage, &token).await?;
        fails(stage, SEND, false, Ok(json!(hash)));
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("sign-confirm").await?;
        stage.wallet.is_connected = !is_locked;
        forlorn(stage).await?;
        accept(stage).await?;
        if is_locked {
            stage.until("connect").await?;
            stage.press("Own Wallet").await?;
        }
        stage.until("options").await?;
        stage.wallet.shown = Some(json!({ "hash": hash, "from": stage.wallet.account, "nonce": "0xfffff" }));
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("sign-confirm").await?;
        stays(stage, "sign-confirm", Duration::from_secs(2)).await?;
        holds(stage.wallet.count(SEND) == 1, "the wallet was prompted again")?;
        stage.settle(&token).await;
        stage.until("success").await?;
        let text = stage.text().await;
        holds(text.contains("was also sent") && text.contains("0xabab…abab"), text)?;
    }
    Ok(())
}

/// The wallet returns the ID of a call batch. Asked about the batch later, the wallet does not know it or reports
/// nothing.
pub async fn calls_of_nothing(stage: &mut Stage) -> Told {
    let answers = [Err(5730), Err(-32601), Ok(Value::Null), Ok(json!({ "status": 100 }))];
    for (amount, answer) in ["3.51", "3.52", "3.53", "3.54"].into_iter().zip(answers) {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        stage.wallet.atomic = Some("supported");
        let token = stage.link(amounts(&[amount])).await;
        stage.connect(&token, "options").await?;
        fails(stage, BUNDLE, false, Ok(json!({ "id": "0x1" })));
        let told = |error: String| format!("{answer:?}: {error}");
        stage.wallet.calls_status = Some(answer.clone());
        stage.press(&format!("Pay {amount}")).await?;
        if answer.is_ok() {
            forlorn(stage).await.map_err(told)?;
        } else {
            stage.until("unknown").await.map_err(told)?;
            holds(offers(stage).await == 0, "the page offers a second payment at once").map_err(told)?;
            stage.wait_for(UNSEEN_S).await;
            stage.until("unknown-risk").await.map_err(told)?;
        }
        accept(stage).await.map_err(told)?;
        stage.until("options").await.map_err(told)?;
        stage.wallet.calls_status = None;
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("success").await.map_err(told)?;
    }
    Ok(())
}

/// The wallet is locked when the page is reloaded, and its owner cancels the payment in the wallet.
pub async fn locked_after_sending(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.048").await;
    offered(stage, &token).await?;
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    stage.press("Pay 0.048").await?;
    let sent = stage.until("sign-confirm").await;
    stage.wallet.is_connected = false;
    stage.browser.post("refresh", &json!({})).await;
    if sent.is_ok() {
        let nothing = json!({ "to": stage.wallet.account, "data": "0x", "value": "0x0" });
        replaced(stage, nothing).await;
    }
    with_blocks(stage).await;
    sent?;
    stage.until("sign-confirm").await?;
    let begun = Instant::now();
    while stage.press("Connect wallet").await.is_err() {
        stage.turn().await;
        holds(begun.elapsed() < PATIENCE, stage.text().await)?;
    }
    stage.until("error-replaced").await
}

/// The wallet returns the hash of a mined transaction that does not pay the link, such as one on another network. A
/// link that was withdrawn meanwhile is not paid again.
pub async fn mined_for_something_else(stage: &mut Stage) -> Told {
    for (amount, is_withdrawn) in [("0.049", true), ("0.058", false)] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let token = coin_link(stage, amount).await;
        offered(stage, &token).await?;
        let other = json!({ "to": stage.wallet.account, "data": "0x", "value": "0x0" });
        let hash = stage.send(&other).await;
        fails(stage, SEND, false, Ok(hash));
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("sign-confirm").await?;
        stays(stage, "sign-confirm", Duration::from_secs(1)).await?;
        holds(offers(stage).await == 0, "the page offers a second payment at once")?;
        if is_withdrawn {
            let path = format!("/v2/secure-payments/{token}/withdraw");
            stage.dev.call(&path, Some(&json!({}))).await;
        }
        stage.wait_for(61).await;
        if is_withdrawn {
            let begun = Instant::now();
            while !stage.text().await.contains("A payment may still arrive") {
                let screen = stage.turn().await;
                holds(begun.elapsed() < PATIENCE, format!("{screen}: {}", stage.text().await))?;
            }
            continue;
        }
        stage.look = "-unmatched";
        stage.until("unknown-risk").await?;
        stage.look = "";
        let text = stage.text().await;
        holds(text.contains("no payment was found in it"), text)?;
        accept(stage).await?;
        stage.until("options").await?;
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("success").await?;
        holds(stage.wallet.count(SEND) == 2, "not two transactions")?;
    }
    Ok(())
}

/// Another account of the wallet, with a lower transaction count, sends the payment.
pub async fn another_account(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.051").await;
    offered(stage, &token).await?;
    let other = json!({ "to": stage.wallet.account, "data": "0x", "value": "0x0" });
    let carrier = stage.accounts[7].clone();
    let count = async |account: &str| {
        let count = stage
            .dev
            .ask_node("eth_getTransactionCount", json!([account, "latest"]));
        let count = count.await;
        u64::from_str_radix(count.as_str().unwrap_or_default().trim_start_matches("0x"), 16).expect("a count")
    };
    while count(&stage.wallet.account).await <= count(&carrier).await {
        stage.send(&other).await;
    }
    stage.wallet.carrier = Some(carrier);
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    stage.press("Pay 0.051").await?;
    let waited = async {
        stage.until("sign-confirm").await?;
        // Longer than the page waits for a replacement transaction.
        stays(stage, "sign-confirm", Duration::from_secs(9)).await
    };
    let waited = waited.await;
    with_blocks(stage).await;
    waited?;
    stage.until("success").await
}

/// A stranger records one attempt after another on a link. A payer who continues despite the warnings can pay, unless a
/// payment is on the chain.
pub async fn flood(stage: &mut Stage) -> Told {
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    stage.origin = Some(proxy.address.clone());
    for (amount, is_seen) in [("0.052", false), ("0.057", true)] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let account = stage.wallet.account.clone();
        let token = coin_link(stage, amount).await;
        offered(stage, &token).await?;
        attempted(stage, &token, 1, &account).await;
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("inflight").await?;
        attempted(stage, &token, 2, &account).await;
        stage.press("Continue anyway").await?;
        stage.until("options").await?;
        attempted(stage, &token, 3, &account).await;
        if is_seen {
            proxy.lets(|_, text| text.replace(r#""isSeen":false"#, r#""isSeen":true"#));
            stage.until("inflight").await?;
            continue;
        }
        stage.press(&format!("Pay {amount}")).await?;
        stage.until("success").await?;
        holds(stage.wallet.count(SEND) == 1, "the wallet was prompted more than once")?;
    }
    Ok(())
}

/// The link is paid elsewhere while the wallet prompt is open. The page says so, whether the payer then rejects or
/// approves.
pub async fn paid_meanwhile(stage: &mut Stage) -> Told {
    for (amount, approves) in [("0.053", false), ("0.054", true)] {
        stage.wallet = Wallet::new(&stage.accounts[2]);
        let token = coin_link(stage, amount).await;
        offered(stage, &token).await?;
        let step = stage.steps(&token).await[0].clone();
        stage.wallet.silent = Some(SEND);
        stage.press(&format!("Pay {amount}")).await?;
        while stage.wallet.count(SEND) == 0 {
            stage.turn().await;
        }
        let own = std::mem::replace(&mut stage.wallet.account, stage.accounts[7].clone());
        stage.settle(&token).await;
        stage.wallet.account = own;
        let begun = Instant::now();
        while !stage.text().await.contains("Already paid") {
            let screen = stage.turn().await;
            holds(
                begun.elapsed() < PATIENCE,
                format!("{screen}: it is not said that it is paid"),
            )?;
        }
        stage.judge("sign-pay-paid").await;
        let answer = if approves {
            format!("resolve({})", stage.send(&step).await)
        } else {
            "reject({ code: 4001 })".to_owned()
        };
        stage
            .js(&format!(
                "for (const {{ resolve, reject }} of wallet.waiting.values()) {answer};"
            ))
            .await;
        stage.look = if approves { "-twice" } else { "" };
        stage.until("success").await?;
        let text = stage.text().await;
        holds(text.contains("was also sent") == approves, text)?;
    }
    Ok(())
}

/// Two clicks at the same time count as one. The page stays with the account for which the wallet was prompted.
pub async fn two_clicks(stage: &mut Stage) -> Told {
    let token = coin_link(stage, "0.055").await;
    offered(stage, &token).await?;
    stage.wallet.silent = Some(SEND);
    stage
        .js("const pay = [...document.querySelectorAll('#action .button')].at(-1); pay.click(); pay.click();")
        .await;
    while stage.wallet.count(SEND) == 0 {
        stage.turn().await;
    }
    let others = stage
        .js("return performance.getEntriesByName('screen:othertab').length;")
        .await;
    holds(others == json!(0), "the page treats itself as another tab")?;
    let other = json!([stage.accounts[7]]);
    stage
        .js(&format!("for (const listener of wallet.listeners) listener({other});"))
        .await;
    stays(stage, "sign-pay", Duration::from_secs(1)).await?;
    stage.settle(&token).await;
    stage
        .js("for (const { reject } of wallet.waiting.values()) reject({ code: 4001 });")
        .await;
    stage.until("success").await
}
