//! Scenarios of payers, grouped into a few tests; each test has its own chain.

use crate::{bent, brand, hostile, many, safe_and_multicall, screens, stage::Stage, tron, unclear, wallet::Wallet};
use serde_json::{Value, json};
use std::{collections::BTreeMap, panic::AssertUnwindSafe, time::Instant};

/// Result of a scenario. Errors: what went wrong.
pub type Told = Result<(), String>;

/// Maximum compressed document size, and maximum requests until the page is usable. Source: interface §4.7.
const DOCUMENT_BYTES_MAX: u64 = 8 * 1024;
const CALLS_MAX: u64 = 9;

pub fn amounts(amounts: &[&str]) -> Value {
    let items: Vec<Value> = amounts.iter().map(|amount| json!({ "amount": amount })).collect();
    json!({ "requests": items })
}

pub fn with(mut body: Value, members: Value) -> Value {
    let further = members.as_object().cloned().unwrap_or_default();
    body.as_object_mut().expect("an object").extend(further);
    body
}

pub fn holds(holds: bool, what: impl Into<String>) -> Told {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Results of the scenarios of a test: name, duration in milliseconds and result.
type Played = Vec<(&'static str, u128, Told)>;

/// Defines a test that runs the named scenarios in this order on its own stage. Tests run in parallel.
macro_rules! scenarios {
    ($test:ident: $($name:path),* $(,)?) => {
        #[tokio::test]
        async fn $test() {
            let folder = tempfile::tempdir().expect("a folder");
            let mut stage = Stage::set(folder.path()).await;
            stage.bring_wallet().await;
            let only = std::env::var("PRS_TEST_PAGE").ok();
            let playing = AssertUnwindSafe(async {
                let mut played = Played::new();
                $(
                    if only.as_deref().is_none_or(|only| stringify!($name).replace(' ', "").contains(only)) {
                        stage.wallet = Wallet::new(&stage.accounts[2]);
                        stage.tron = None;
                        stage.look = "";
                        stage.origin = None;
                        stage.dress(1100, 900, false).await;
                        let begun = Instant::now();
                        let end = $name(&mut stage).await;
                        note(&mut played, stringify!($name), begun, end);
                    }
                )*
                played
            });
            let played = futures_util::FutureExt::catch_unwind(playing).await;
            stage.browser.end().await;
            judge(&stage, &played.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    };
}

scenarios![
    payers_pay_and_follow_their_payment:
    one_by_one,
    together,
    upgrade_declined,
    declined_then_resumed,
    network_added,
    network_declined,
    too_little_token,
    too_little_gas,
    reloaded,
    sped_up,
    cancelled,
    not_on_the_list,
    bent::calldata,
    bent::check_off,
    batch,
    fee_of_the_contract,
    payout,
    ends,
    no_wallet,
    phone_at_night,
    languages,
    keyboard_alone,
    two_tabs,
    in_flight,
    count_down,
    without_scripts,
    policy,
    outage,
    coin,
    allowance_reset,
    partly_paid,
    hidden_until_approved,
    withdrawn,
];

scenarios![
    pages_show_every_state_brand_and_hostile_text:
    screens::held,
    screens::troubles,
    screens::looks,
    many::receivers,
    many::combined_payouts,
    brand::branded,
    brand::hostile_names,
    hostile::texts,
    hostile::wallets,
    hostile::escaping_off,
    unclear::refusals,
    unclear::prompt_left_open,
    unclear::moved,
    unclear::permission_kept,
    unclear::permissions,
];

scenarios![
    no_second_payment_is_offered_after_one_was_sent:
    unclear::sent,
    unclear::together,
    unclear::elsewhere,
    unclear::far_hint,
    unclear::foreign_redirect,
    unclear::locked_after_sending,
    unclear::mined_for_something_else,
    unclear::another_account,
];

scenarios![
    another_try_is_offered_where_none_was_sent:
    unclear::not_sent,
    unclear::refused_later,
    unclear::refused_in_the_first_tab,
    unclear::another_network,
    unclear::odd_receipt,
    unclear::locked,
    unclear::hash_of_nothing,
    unclear::calls_of_nothing,
    unclear::flood,
    unclear::paid_meanwhile,
    unclear::two_clicks,
];

scenarios![
    links_wait_for_a_safe_and_pay_other_links_together:
    safe_and_multicall::locked,
    safe_and_multicall::multicall_paid,
    safe_and_multicall::multicall_blocked,
];

scenarios![
    payers_pay_links_on_tron:
    tron::paid,
    tron::looks,
    tron::older_wallets,
    tron::rejected_then_resumed,
    tron::expired_while_signing,
    tron::changed_by_the_wallet,
    tron::tampered,
    tron::decoded,
    tron::two_tabs,
    tron::warned_before_the_page_sends,
    tron::told_that_the_own_payment_was_also_sent,
    tron::a_wallet_that_never_answers,
    tron::account_switched_while_asked,
    tron::link_ended_while_asked,
    tron::a_chain_that_stands_still,
    tron::locked_wallets,
    tron::evm_wallet_only,
    tron::evm_link,
];

/// Records and prints the result of a scenario.
fn note(played: &mut Played, name: &'static str, begun: Instant, end: Told) {
    let line = end
        .as_ref()
        .map_or_else(|error| format!("FAIL {error}"), |()| "pass".to_owned());
    let took_ms = begun.elapsed().as_millis();
    println!("{name:<28} {took_ms:>6} ms  {line}");
    played.push((name, took_ms, end));
}

/// Fails if a scenario failed or axe-core found a violation.
fn judge(stage: &Stage, played: &[(&str, u128, Told)]) {
    let failed: BTreeMap<_, _> = played
        .iter()
        .filter_map(|(name, _, end)| Some((*name, end.as_ref().err()?)))
        .collect();
    println!("{} of {} scenarios passed", played.len() - failed.len(), played.len());
    println!(
        "{} screens checked, {} violations",
        stage.judged.len(),
        stage.violations.len()
    );
    assert!(
        failed.is_empty() && stage.violations.is_empty(),
        "{failed:#?} {:#?}",
        stage.violations
    );
}

async fn one_by_one(stage: &mut Stage) -> Told {
    let redirect = json!({ "redirectUrl": "https://shop.example/thanks", "reference": "INV-7" });
    let token = stage.link(with(amounts(&["25.25"]), redirect)).await;
    let landed = format!("/pay/?token={token}");
    stage.wallet.chain = "0x1".to_owned();
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    let size = stage
        .js(
            "const [page] = performance.getEntriesByType('navigation'); const all = performance.getEntriesByType('resource'); \
             return [page.encodedBodySize, 1 + all.length, all.filter((one) => !one.name.startsWith(location.origin)).length];",
        )
        .await;
    println!("document bytes, requests, requests to other origins: {size}");
    let number = |index: usize| size[index].as_u64().unwrap_or(u64::MAX);
    holds(number(0) <= DOCUMENT_BYTES_MAX, "the document is too large")?;
    holds(number(1) <= CALLS_MAX && number(2) == 0, "too many requests")?;
    stage.press("Own Wallet").await?;
    stage.until("options").await?;
    stage.js("document.querySelector('.explained').open = true;").await;
    stage.judge("explained").await;
    let text = stage.text().await;
    let is_said = text.contains("Token contract") && text.contains("Spender");
    holds(
        is_said,
        format!("the contract and spender of the approval are not shown: {text}"),
    )?;
    let begun = Instant::now();
    stage.press("Pay 25.25").await?;
    stage.until("success").await?;
    println!("pay to success in two transactions: {} ms", begun.elapsed().as_millis());
    holds(stage.wallet.count("eth_sendTransaction") == 2, "not two transactions")?;
    let text = stage.text().await;
    holds(
        text.contains("Go Back and Close") && text.contains("shop.example"),
        text,
    )?;
    let events = stage
        .dev
        .call("/v2/events?event=secure_payment.user_event&limit=20", None)
        .await;
    holds(
        !events.to_string().contains(&stage.wallet.account),
        "an event contains the wallet address",
    )?;
    let (status, text) = stage.read(&format!("/pay/{token}/receipt")).await;
    holds(status == 200 && text.contains("25.25") && text.contains("INV-7"), text)?;
    stage.browser.open(&stage.at(&landed)).await;
    holds(
        stage.text().await.contains("The payment is complete"),
        "the old link format does not redirect to the page",
    )
}

async fn together(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["3.5"])).await;
    stage.wallet.atomic = Some("supported");
    stage.connect(&token, "options").await?;
    let begun = Instant::now();
    stage.press("Pay 3.5").await?;
    stage.until("success").await?;
    println!("pay to success in one confirmation: {} ms", begun.elapsed().as_millis());
    holds(
        stage.wallet.count("eth_sendTransaction") == 0,
        "the transactions were sent separately",
    )
}

async fn upgrade_declined(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["3.6"])).await;
    stage.wallet.atomic = Some("ready");
    stage.wallet.refusals.insert("wallet_sendCalls", 5750);
    stage.connect(&token, "options").await?;
    stage.press("Pay 3.6").await?;
    stage.until("success").await?;
    holds(
        stage.wallet.count("eth_sendTransaction") == 2,
        "the transactions were not sent separately",
    )
}

async fn declined_then_resumed(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["3.7"])).await;
    stage.connect(&token, "options").await?;
    stage.wallet.refusals.insert("eth_sendTransaction", 4001);
    stage.press("Pay 3.7").await?;
    stage.until("error-rejected").await?;
    holds(
        stage.text().await.contains("Nothing was sent"),
        "the page does not say that nothing was sent",
    )?;
    let step = stage.steps(&token).await[0].clone();
    stage.send(&step).await;
    stage.press("Try again").await?;
    stage.until("success").await?;
    holds(
        stage.wallet.count("eth_sendTransaction") == 2,
        "the permission was given twice",
    )
}

async fn network_added(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["3.8"])).await;
    stage.wallet.chain = "0x1".to_owned();
    stage.wallet.knows_chain = false;
    stage.connect(&token, "options").await?;
    stage.press("Pay 3.8").await?;
    stage.until("success").await?;
    holds(
        stage.wallet.count("wallet_addEthereumChain") == 1,
        "the network was not added",
    )
}

async fn network_declined(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["3.9"])).await;
    stage.wallet.chain = "0x1".to_owned();
    stage.wallet.refusals.insert("wallet_switchEthereumChain", 4001);
    stage.connect(&token, "options").await?;
    stage.press("Pay 3.9").await?;
    stage.until("error-network").await?;
    holds(stage.wallet.count("eth_sendTransaction") == 0, "a transaction was sent")
}

async fn too_little_token(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["999999999999"])).await;
    stage.connect(&token, "options").await?;
    let text = stage.text().await;
    holds(text.contains("You need") && text.contains("Check again"), text)
}

async fn too_little_gas(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["4"])).await;
    stage.wallet = Wallet::new(&stage.accounts[8]);
    let balance = stage
        .dev
        .ask_node("eth_getBalance", json!([stage.wallet.account, "latest"]))
        .await;
    stage
        .dev
        .ask_node("anvil_setBalance", json!([stage.wallet.account, "0x0"]))
        .await;
    stage.connect(&token, "options").await?;
    let text = stage.text().await;
    stage
        .dev
        .ask_node("anvil_setBalance", json!([stage.wallet.account, balance]))
        .await;
    holds(text.contains("network fee") && text.contains("Check again"), text)
}

async fn without_blocks(stage: &mut Stage, token: &str, label: &str) -> Told {
    stage.allow(token).await;
    stage.connect(token, "options").await?;
    stage.dev.ask_node("evm_setAutomine", json!([false])).await;
    stage.press(label).await?;
    stage.until("sign-confirm").await
}

pub async fn with_blocks(stage: &Stage) {
    stage.dev.ask_node("evm_mine", json!([])).await;
    stage.dev.ask_node("evm_setAutomine", json!([true])).await;
}

async fn reloaded(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["4.1"])).await;
    let sent = without_blocks(stage, &token, "Pay 4.1").await;
    stage.browser.post("refresh", &json!({})).await;
    let again = stage.until("sign-confirm").await;
    with_blocks(stage).await;
    sent.and(again)?;
    stage.until("success").await?;
    holds(stage.wallet.count("eth_sendTransaction") == 1, "paid twice")
}

/// Replaces the last transaction with another one that has the same nonce and a higher gas price.
pub async fn replaced(stage: &Stage, change: Value) {
    let hash = stage.wallet.sent.clone().expect("a transaction");
    let sent = stage.dev.ask_node("eth_getTransactionByHash", json!([hash])).await;
    let call = json!({
        "from": sent["from"], "to": sent["to"], "data": sent["input"], "value": sent["value"], "nonce": sent["nonce"],
        "gas": "0x4c4b40", "gasPrice": "0x174876e800",
    });
    let hash = stage
        .dev
        .ask_node("eth_sendTransaction", json!([with(call, change)]))
        .await;
    assert!(hash.is_string(), "the transaction was not replaced");
}

async fn sped_up(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["4.2"])).await;
    let sent = without_blocks(stage, &token, "Pay 4.2").await;
    if sent.is_ok() {
        replaced(stage, json!({})).await;
    }
    with_blocks(stage).await;
    sent?;
    stage.until("success").await?;
    let text = stage.text().await;
    holds(!text.contains("was also sent"), text)
}

async fn cancelled(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["4.3"])).await;
    let sent = without_blocks(stage, &token, "Pay 4.3").await;
    if sent.is_ok() {
        replaced(
            stage,
            json!({ "to": stage.wallet.account, "data": "0x", "value": "0x0" }),
        )
        .await;
    }
    with_blocks(stage).await;
    sent?;
    stage.until("error-replaced").await
}

async fn not_on_the_list(stage: &mut Stage) -> Told {
    let list = json!({ "accessPolicy": { "allowedPayerAddresses": [stage.accounts[7]] } });
    let token = stage.link(with(amounts(&["5"]), list)).await;
    stage.connect(&token, "blocked").await?;
    let text = stage.text().await;
    holds(
        !text.to_lowercase().contains(&stage.accounts[7]),
        "the page shows the list of allowed wallets",
    )
}

async fn batch(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["1.5", "2", "0.25", "10"])).await;
    stage.connect(&token, "options").await?;
    stage.press("Pay 13.75").await?;
    stage.until("success").await
}

async fn fee_of_the_contract(stage: &mut Stage) -> Told {
    let fee = json!({ "feePercentage": "1", "feeAddress": stage.accounts[6] });
    for (body, fee_after, shown, label) in [
        (
            with(amounts(&["10", "20"]), fee.clone()),
            100_u16,
            vec!["30\u{a0}FAU", "0.3\u{a0}FAU", "Payment contract fee"],
            "Pay 30.6\u{a0}FAU",
        ),
        (
            amounts(&["11", "21"]),
            100,
            vec!["32\u{a0}FAU", "Returned to you", "0.32\u{a0}FAU"],
            "Pay 32.32\u{a0}FAU",
        ),
        // The contract's fee changes while the page is open. The page shows the new total before it prompts the wallet.
        (
            with(amounts(&["12", "22"]), fee),
            200,
            vec!["Payment contract fee"],
            "Pay 34.68\u{a0}FAU",
        ),
    ] {
        let token = stage.link(body).await;
        takes(stage, &token, 100).await;
        stage.connect(&token, "options").await?;
        let text = stage.text().await;
        let is_shown = text.contains(label) && shown.iter().all(|part| text.contains(part));
        holds(is_shown, format!("{label} {shown:?}: {text}"))?;
        takes(stage, &token, fee_after).await;
        stage.press(label).await?;
        if fee_after != 100 {
            let begun = Instant::now();
            while !stage.text().await.contains("35.02\u{a0}FAU") {
                stage.turn().await;
                holds(begun.elapsed().as_secs() < 10, stage.text().await)?;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            let asked = ["eth_sendTransaction", "wallet_sendCalls"].map(|method| stage.wallet.count(method));
            holds(asked == [0, 0], "the wallet was prompted for another total")?;
            stage.press("Pay 35.02").await?;
        }
        stage.until("success").await?;
        takes(stage, &token, 0).await;
        stage.wallet = Wallet::new(&stage.accounts[2]);
    }
    Ok(())
}

/// Sets the batch contract's own fee in basis points.
async fn takes(stage: &Stage, token: &str, basis_points: u16) {
    alloy::sol! { function setBatchFee(uint16 fee) external; }
    let state: Value = serde_json::from_str(&stage.read(&format!("/pay/{token}/state")).await.1).expect("JSON");
    let contracts = state["details"]["contracts"].as_array().expect("contracts");
    let call = setBatchFeeCall { fee: basis_points };
    let data = hex::encode_prefixed(alloy::sol_types::SolCall::abi_encode(&call));
    let step = json!({ "from": stage.accounts[0], "to": contracts.last(), "data": data });
    stage.dev.ask_node("eth_sendTransaction", json!([step])).await;
}

async fn payout(stage: &mut Stage) -> Told {
    let token = stage.payout("FAU-sepolia", "6").await;
    stage.connect(&token, "options").await?;
    holds(
        stage.text().await.contains("Payout to"),
        "the page does not say that it is a payout",
    )?;
    stage.press("Pay 6").await?;
    stage.until("success").await
}

async fn ends(stage: &mut Stage) -> Told {
    let (status, text) = stage.read("/pay/01ARZ3NDEKTSV4RRFFQ69G5FAV").await;
    holds(status == 404 && text.contains("Payment link not found"), text)?;
    let token = stage.link(with(amounts(&["7"]), json!({ "expiresIn": 300 }))).await;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    stage.wait_for(301).await;
    let (status, text) = stage.read(&format!("/pay/{token}")).await;
    holds(status == 410 && text.contains("This link has expired"), text)?;
    stage.browser.open(&stage.at(&format!("/pay/{token}"))).await;
    stage.judge("expired").await;
    stage.browser.open(&stage.at("/pay/01ARZ3NDEKTSV4RRFFQ69G5FAV")).await;
    stage.judge("unknown").await;
    Ok(())
}

async fn no_wallet(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.1"])).await;
    stage.visit(&token, "").await;
    stage.js("sessionStorage.noWallet = 1;").await;
    stage.browser.post("refresh", &json!({})).await;
    let way = "document.body.innerText.includes('Open in MetaMask')";
    stage.until_true(way).await?;
    stage.look = "-without-wallet";
    stage.until("connect").await?;
    stage.until_true(way).await
}

async fn phone_at_night(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.2", "1.1"])).await;
    stage.dress(320, 1_700, true).await;
    stage.look = "-phone-dark";
    stage.connect(&token, "options").await?;
    let width = stage.js("return document.documentElement.scrollWidth;").await;
    holds(
        width.as_u64().is_some_and(|width| width <= 320),
        format!("{width} wide"),
    )?;
    stage.press("Pay 8.3").await?;
    stage.until("success").await
}

async fn languages(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["1234.5"])).await;
    for (code, look, words) in [
        ("ar", "-ar", "اختر محفظة"),
        ("de", "-de", "Wählen Sie eine Wallet"),
        ("es", "-es", "Elija una cartera"),
        ("fr", "-fr", "Choisissez un portefeuille"),
    ] {
        stage.look = look;
        stage.visit(&token, &format!("?lang={code}")).await;
        stage.until("connect").await?;
        holds(stage.text().await.contains(words), code)?;
    }
    holds(stage.text().await.contains("1\u{202f}234,5"), "numbers are not French")?;
    stage.look = "-ar";
    stage.visit(&token, "?lang=ar").await;
    stage.until("connect").await?;
    stage.press("Own Wallet").await?;
    stage.until("options").await
}

async fn keyboard_alone(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.3"])).await;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    reach(stage, "wallet").await?;
    stage.until("options").await?;
    reach(stage, "button").await?;
    stage.until("success").await
}

/// Presses Tab until an element of a class has the focus, then presses Enter.
async fn reach(stage: &Stage, class: &str) -> Told {
    let key = |key: &str| {
        let both = [
            json!({ "type": "keyDown", "value": key }),
            json!({ "type": "keyUp", "value": key }),
        ];
        json!({ "actions": [{ "type": "key", "id": "keys", "actions": both }] })
    };
    for _ in 0..40 {
        stage.browser.post("actions", &key("\u{e004}")).await;
        let script = format!("return document.activeElement.classList.contains({});", json!(class));
        if stage.js(&script).await == json!(true) {
            stage.browser.post("actions", &key("\u{e007}")).await;
            return Ok(());
        }
    }
    Err(format!("{class} cannot be reached by keyboard"))
}

async fn two_tabs(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.4"])).await;
    stage.connect(&token, "options").await?;
    stage.wallet.silent = Some("eth_sendTransaction");
    stage.press("Pay 7.4").await?;
    stage.until("sign-allow").await?;
    while stage.wallet.count("eth_sendTransaction") == 0 {
        stage.turn().await;
    }
    let (first, second) = stage.open_tab().await;
    stage.browser.open(&stage.at(&format!("/pay/{token}"))).await;
    let played = async {
        // The first tab has requested the permission, and the outcome is unknown.
        stage.wallet.silent = None;
        stage.until("unknown").await?;
        stage.wait_for(16).await;
        stage.until("unknown-unseen").await?;
        stage.press("Try again").await?;
        stage.until("options").await?;
        stage.press("Pay 7.4").await?;
        stage.until("othertab").await?;
        stage.press("Continue here").await?;
        stage.until("success").await
    };
    let played = played.await;
    stage.go_to(&first).await;
    let left = if played.is_ok() {
        stage.until("success").await
    } else {
        Ok(())
    };
    stage.go_to(&second).await;
    stage.browser.close().await;
    stage.go_to(&first).await;
    played.and(left)
}

async fn in_flight(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.5"])).await;
    let hash = format!("0x{}", "ab".repeat(32));
    let sent = json!({ "chain": "SEPOLIA", "token": "FAU", "txHash": hash });
    stage
        .dev
        .call(&format!("/v2/secure-payments/{token}/intent"), Some(&sent))
        .await;
    stage.connect(&token, "inflight").await?;
    stage.press("Continue anyway").await?;
    stage.until("options").await?;
    stage.wait_for(121).await;
    stage.connect(&token, "options").await
}

async fn count_down(stage: &mut Stage) -> Told {
    let token = stage.link(with(amounts(&["7.6"]), json!({ "expiresIn": 500 }))).await;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    stage
        .until_true("/Expires in[^]*\\b8:/.test(document.getElementById('expiry').innerText)")
        .await
}

async fn without_scripts(stage: &mut Stage) -> Told {
    let reference = json!({ "reference": "INV-8" });
    let token = stage.link(with(amounts(&["7.7"]), reference)).await;
    let (status, text) = stage.read(&format!("/pay/{token}")).await;
    let text_lower = text.to_lowercase();
    for part in ["7.7", "inv-8", &stage.accounts[1], "<noscript>", "qr code", "<time"] {
        holds(text_lower.contains(part), format!("the document lacks {part}"))?;
    }
    holds(
        status == 200 && !text.contains(" style=") && !text.contains("onclick"),
        "the page contains inline code or style",
    )
}

async fn policy(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.8"])).await;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    let script = "const done = arguments[arguments.length - 1]; const seen = []; \
        addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective)); \
        const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script); \
        const style = document.createElement('style'); style.textContent = 'body{color:red}'; document.body.append(style); \
        fetch('http://127.0.0.1:1/').catch(() => {}); new Image().src = 'http://127.0.0.1:1/x.png'; \
        setTimeout(() => done([window.ran ?? 0, new Set(seen).size]), 500);";
    let seen = stage.browser.run(script, &json!([])).await;
    holds(seen == json!([0, 4]), format!("{seen}"))
}

async fn outage(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["7.9"])).await;
    let sent = without_blocks(stage, &token, "Pay 7.9").await;
    stage.js("sessionStorage.isAway = 1;").await;
    with_blocks(stage).await;
    sent?;
    let missed = stage.until_true("window.missed >= 3").await;
    let waiting = stage.turn().await;
    stage.js("sessionStorage.removeItem('isAway');").await;
    missed?;
    stage.until("success").await?;
    holds(waiting == "sign-confirm", waiting)
}

async fn coin(stage: &mut Stage) -> Told {
    let token = stage.payout("ETH-sepolia-sepolia", "0.01").await;
    stage.connect(&token, "options").await?;
    stage.press("Pay 0.01").await?;
    stage.until("success").await?;
    holds(
        stage.wallet.count("eth_sendTransaction") == 1,
        "the page requested a permission for a coin",
    )
}

async fn allowance_reset(stage: &mut Stage) -> Told {
    let small = stage.payout("USDT-sepolia", "1").await;
    let allow = stage.steps(&small).await[0].clone();
    stage.send(&allow).await;
    let token = stage.payout("USDT-sepolia", "5").await;
    holds(
        stage.steps(&token).await.len() == 3,
        "the reset of the permission is missing",
    )?;
    stage.connect(&token, "options").await?;
    stage.press("Pay 5").await?;
    stage.until("success").await?;
    holds(stage.wallet.count("eth_sendTransaction") == 3, "not three transactions")
}

async fn partly_paid(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["8"])).await;
    let steps = stage.steps(&token).await;
    stage.send(&steps[0]).await;
    let mut part = steps[1].clone();
    // Pays a quarter of the amount, which is the third word.
    let data = part["data"].as_str().expect("data");
    let (eight, two) = (
        format!("{:064x}", 8 * 10_u128.pow(18)),
        format!("{:064x}", 2 * 10_u128.pow(18)),
    );
    part["data"] = json!(data.replacen(&eight, &two, 1));
    stage.send(&part).await;
    stage.until_told(&token, r#""paid":"2""#).await?;
    stage.connect(&token, "partial").await?;
    let text = stage.text().await;
    holds(text.contains("Already received") && text.contains("Pay 6"), text)?;
    stage.press("Pay 6").await?;
    stage.until("success").await
}

async fn hidden_until_approved(stage: &mut Stage) -> Told {
    let policy = json!({ "reference": "SECRET-9", "accessPolicy": {
        "mode": "kyt_all_wallets", "screeningProvider": "hypernative", "hideUntilApproved": true,
    } });
    let hidden = ["8765", "8,765", "secret-9", &stage.accounts[1].clone()[2..]].map(str::to_owned);
    let called = format!("{}…{}", &stage.accounts[1][..6], &stage.accounts[1][38..]).to_lowercase();
    let shown = |text: &str| {
        let text = text.to_lowercase();
        hidden.iter().find(|hidden| text.contains(*hidden)).cloned()
    };
    for (outcome, screen) in [
        ("error", "error-screening"),
        ("rejected", "blocked"),
        ("approved", "options"),
    ] {
        let told = json!({ "wallet": stage.wallet.account, "outcome": outcome });
        stage.dev.call("/_dev/screening", Some(&told)).await;
        let token = stage.link(with(amounts(&["8765.4321"]), policy.clone())).await;
        for page in ["", "/receipt", "/state"] {
            let (_, text) = stage.read(&format!("/pay/{token}{page}")).await;
            holds(shown(&text).is_none(), format!("{page} shows {:?}", shown(&text)))?;
        }
        stage.connect(&token, screen).await?;
        let text = stage.text().await;
        let is_shown = shown(&text).is_some();
        holds(is_shown == (outcome == "approved"), format!("{outcome}: {text}"))?;
        let title = stage.js("return document.title.toLowerCase();").await;
        let right = if is_shown {
            title == format!("8,765.4321\u{a0}fau to {called}")
        } else {
            title == "payment to the recipient"
        };
        let name = stage.js("return document.getElementById('name').textContent;").await;
        holds(
            right && (name == "the recipient") != is_shown,
            format!("{outcome}: {title}, {name}"),
        )?;
        holds(stage.wallet.count("eth_sendTransaction") == 0, "a transaction was sent")?;
    }
    Ok(())
}

async fn withdrawn(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["8.1"])).await;
    stage.connect(&token, "options").await?;
    stage
        .dev
        .call(&format!("/v2/secure-payments/{token}/withdraw"), Some(&json!({})))
        .await;
    for _ in 0..80 {
        if stage.text().await.contains("This link was withdrawn") {
            stage.judge("withdrawn").await;
            let (status, _) = stage.read(&format!("/pay/{token}")).await;
            return holds(status == 410, status.to_string());
        }
        stage.turn().await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Err("an open page does not detect the withdrawal".to_owned())
}
