//! Payers of links on Tron, with a wallet that only signs.

use crate::{
    proxy::Proxy,
    scenarios::{Told, holds},
    stage::Stage,
    tron_wallet::InjectedTronWallet,
    unclear::attempted,
};
use prs::domain::{address::Address, tron::TronTransaction};
use serde_json::{Value, json};

/// How long a transaction is valid, with some reserve, in seconds.
const EXPIRED_S: u64 = 75;

/// Number of blocks after which the first of them is solid.
const SOLID_BLOCKS: u64 = 4;

/// The ready message of `prs dev` about the local chain of Tron.
fn tron(stage: &Stage) -> &Value {
    stage.dev.ready.get("tron").expect("prs dev starts a chain of Tron")
}

/// Creates a payout link and gives the browser a new wallet; returns the token.
async fn link(stage: &mut Stage, amount: &str) -> String {
    let accounts = tron(stage)["accounts"].clone();
    stage.tron = Some(InjectedTronWallet::new(&accounts[2]));
    stage.look = "-tron";
    let body = json!({
        "recipient": accounts[5]["address"], "creatorWalletAddress": accounts[2]["address"], "network": "tron",
        "currency": "USDT-tron", "amount": amount,
    });
    stage.made("/v2/secure-payments/payouts", body).await
}

fn wallet(stage: &mut Stage) -> &mut InjectedTronWallet {
    stage.tron.as_mut().expect("a wallet")
}

/// Changes a setting of the local chain.
async fn control(stage: &Stage, settings: Value) {
    let node = tron(stage)["apiUrl"].as_str().expect("a node").to_owned();
    stage.dev.call_url(&format!("{node}/_control"), &settings).await;
}

/// Moves the clocks, and the solid block, past the expiration of everything that was signed so far.
async fn pass_expiration(stage: &Stage) {
    stage.wait_for(EXPIRED_S).await;
    control(stage, json!({ "mine": SOLID_BLOCKS })).await;
}

/// Opens a link and connects the Tron wallet. Errors: `screen` does not appear.
async fn connect(stage: &mut Stage, token: &str, screen: &str) -> Told {
    connect_in(stage, token, "", screen).await
}

/// Like [`connect`], with a query that selects the language.
async fn connect_in(stage: &mut Stage, token: &str, query: &str, screen: &str) -> Told {
    stage.visit(token, query).await;
    stage.until("connect").await?;
    stage
        .until_true("document.body.innerText.includes('Own Tron Wallet')")
        .await?;
    stage.press("Own Tron Wallet").await?;
    let account = wallet(stage).account.clone();
    stage
        .js(&format!("sessionStorage.tronAccount = {};", json!(account)))
        .await;
    stage.until(screen).await
}

/// Waits until the wallet has a request to sign that it does not answer.
async fn until_held(stage: &mut Stage) -> Told {
    stage.until("sign-pay").await?;
    while wallet(stage).held.is_empty() {
        stage.turn().await;
    }
    Ok(())
}

/// Lets the wallet sign the request that waits.
async fn release(stage: &mut Stage) {
    let own = wallet(stage);
    own.holds = false;
    let ask = own.held.remove(0);
    let signed = own.sign(&ask["params"][0]);
    let script = format!("window.wallet.answer({}, {signed}, null);", ask["id"]);
    stage.js(&script).await;
}

pub async fn paid(stage: &mut Stage) -> Told {
    let token = link(stage, "25.25").await;
    connect(stage, &token, "options").await?;
    stage.press("Pay 25.25").await?;
    stage.until("sign-confirm").await?;
    stage.until("success").await?;
    holds(wallet(stage).signed.len() == 2, "not one permission and one payment")?;
    let text = stage.text().await;
    holds(
        !text.contains("0x"),
        format!("a hash or an address has the EVM form: {text}"),
    )?;
    let events = stage
        .dev
        .call("/v2/events?event=secure_payment.user_event&limit=20", None)
        .await
        .to_string();
    holds(events.contains("tron_tx_id"), "no event names the transaction")?;
    let account = wallet(stage).account.clone();
    holds(!events.contains(&account), "an event contains the wallet address")
}

/// Each look: the suffix of its screenshots, width, colour scheme and query.
const LOOKS: [(&str, u32, bool, &str); 2] = [
    ("-tron-phone-dark", 320, true, ""),
    ("-tron-ar-phone", 360, false, "?lang=ar"),
];

/// A payment in each look, and the page of another visitor while the payment is in flight.
pub async fn looks(stage: &mut Stage) -> Told {
    for (place, (look, width, is_dark, query)) in LOOKS.into_iter().enumerate() {
        let token = link(stage, &format!("1{place}.3")).await;
        stage.dress(width, 1_500, is_dark).await;
        stage.look = look;
        wallet(stage).holds = true;
        connect_in(stage, &token, query, "options").await?;
        stage.js("document.querySelector('.explained').open = true;").await;
        stage.judge("explained").await;
        fits(stage, width).await?;
        let press = "[...document.querySelectorAll('#action .button')].at(-1).click();";
        stage.js(press).await;
        until_held(stage).await?;
        fits(stage, width).await?;
        // The next block comes only after the pictures.
        control(stage, json!({ "hold": true, "mine": SOLID_BLOCKS })).await;
        release(stage).await;
        let seen = async {
            stage.until("sign-confirm").await?;
            fits(stage, width).await?;
            connect_in(stage, &token, query, "inflight").await?;
            fits(stage, width).await
        };
        let seen = seen.await;
        control(stage, json!({ "hold": false, "mine": 1 })).await;
        seen?;
        stage.until("success").await?;
        fits(stage, width).await?;
    }
    Ok(())
}

/// Errors: the page is wider than the window.
async fn fits(stage: &Stage, width: u32) -> Told {
    let wide = stage.js("return document.documentElement.scrollWidth;").await;
    let is_fit = wide.as_u64().is_some_and(|wide| wide <= width.into());
    holds(is_fit, format!("{wide} wide instead of {width}"))
}

pub async fn older_wallets(stage: &mut Stage) -> Told {
    for form in ["tron", "tronLink"] {
        let token = link(stage, "1.5").await;
        stage.visit(&token, "").await;
        stage.js(&format!("sessionStorage.tron = '{form}';")).await;
        stage.browser.post("refresh", &json!({})).await;
        stage.until("connect").await?;
        stage
            .until_true("document.body.innerText.includes('Browser wallet')")
            .await?;
        let account = wallet(stage).account.clone();
        stage
            .js(&format!("sessionStorage.tronAccount = {};", json!(account)))
            .await;
        stage.press("Browser wallet").await?;
        stage.until("options").await?;
    }
    Ok(())
}

pub async fn rejected_then_resumed(stage: &mut Stage) -> Told {
    let token = link(stage, "3.7").await;
    wallet(stage).refusal = Some(json!({ "code": 4001, "message": "no" }));
    connect(stage, &token, "options").await?;
    stage.press("Pay 3.7").await?;
    stage.until("error-rejected").await?;
    holds(
        stage.text().await.contains("Nothing was sent"),
        "the page does not say that nothing was sent",
    )?;
    stage.press("Try again").await?;
    stage.until("success").await
}

pub async fn expired_while_signing(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000001").await;
    wallet(stage).holds = true;
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000001").await?;
    until_held(stage).await?;
    stage.wait_for(EXPIRED_S).await;
    stage
        .until_true("document.body.innerText.includes('expired before you signed')")
        .await?;
    // The wallet signs too late: the page sends nothing, and asks again only when this cannot be sent any longer.
    release(stage).await;
    stage.until("unknown").await?;
    holds(wallet(stage).payments().len() == 1, "the page asked again too early")?;
    pass_expiration(stage).await;
    stage.until("success").await?;
    let payments = wallet(stage).payments();
    holds(
        payments.len() == 2 && payments[0]["txID"] != payments[1]["txID"],
        "not asked twice",
    )
}

pub async fn changed_by_the_wallet(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000002").await;
    wallet(stage).change = Some(|transaction| transaction["txID"] = json!("ab".repeat(32)));
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000002").await?;
    stage.until("error-changed").await?;
    wallet(stage).change = None;
    stage.press("Try again").await?;
    stage.until("unknown").await?;
    pass_expiration(stage).await;
    stage.until("options").await
}

type TronBend = fn(&mut Value);

/// The last step of calldata, which pays.
fn payment(answer: &mut Value) -> &mut Value {
    let steps = answer["steps"].as_array_mut().expect("steps");
    steps.last_mut().expect("a payment")
}

/// Replaces the last digits of a text.
fn put(text: &mut Value, at: usize, instead: &str) {
    let mut changed = text.as_str().expect("a text").to_owned();
    changed.replace_range(at..at + instead.len(), instead);
    *text = json!(changed);
}

/// Changes the transaction that pays, with its bytes, id and JSON and the step itself, so that they agree.
fn rewrite(answer: &mut Value, change: fn(&mut TronTransaction)) {
    let step = payment(answer);
    let bytes = hex::decode(step["transaction"]["raw_data_hex"].as_str().expect("hex")).expect("hex");
    let mut transaction = TronTransaction::decode(&bytes).expect("a transaction");
    change(&mut transaction);
    let call = &transaction.call;
    step["data"] = json!(format!("0x{}", hex::encode(&call.data)));
    step["to"] = json!(Address::Tron(call.contract).to_string());
    let unsigned = &mut step["transaction"];
    unsigned["raw_data_hex"] = json!(hex::encode(transaction.encode()));
    unsigned["txID"] = json!(hex::encode(transaction.tx_id()));
    let raw = &mut unsigned["raw_data"];
    raw["fee_limit"] = json!(transaction.fee_limit_sun);
    raw["expiration"] = json!(transaction.expiration_ms);
    let value = &mut raw["contract"][0]["parameter"]["value"];
    value["data"] = json!(hex::encode(&call.data));
    value["owner_address"] = json!(format!("41{}", hex::encode(call.owner)));
    value["contract_address"] = json!(format!("41{}", hex::encode(call.contract)));
}

/// Changes the last byte of a word of the calldata.
fn change_word(transaction: &mut TronTransaction, word: usize) {
    let mut data = transaction.call.data.to_vec();
    data[4 + 32 * word + 31] ^= 1;
    transaction.call.data = data.into();
}

/// Ways to falsify an unsigned transaction, each with its name.
const TRON_BENDS: [(&str, TronBend); 16] = [
    ("token everywhere", |answer| {
        rewrite(answer, |transaction| change_word(transaction, 0))
    }),
    ("recipient everywhere", |answer| {
        rewrite(answer, |transaction| change_word(transaction, 1))
    }),
    ("amount everywhere", |answer| {
        rewrite(answer, |transaction| change_word(transaction, 2))
    }),
    ("fee everywhere", |answer| {
        rewrite(answer, |transaction| change_word(transaction, 4))
    }),
    ("contract everywhere", |answer| {
        rewrite(answer, |transaction| transaction.call.contract.0[0] ^= 1)
    }),
    ("owner", |answer| {
        rewrite(answer, |transaction| transaction.call.owner.0[0] ^= 1)
    }),
    ("expiration", |answer| {
        rewrite(answer, |transaction| transaction.expiration_ms += 86_400_000)
    }),
    ("recipient in the calldata", |answer| {
        put(&mut payment(answer)["data"], 10 + 64 + 60, "1111")
    }),
    ("amount in the calldata", |answer| {
        put(&mut payment(answer)["data"], 10 + 128 + 60, "1111")
    }),
    ("contract", |answer| {
        payment(answer)["to"] = json!("TRZbXXuLd3HW5utzVysA3rpLgU7sVBrd1D")
    }),
    ("contract in its EVM form", |answer| {
        payment(answer)["to"] = json!("0x1b6ca35d39842cf8fbe49000653a1505412da659");
    }),
    ("coins", |answer| payment(answer)["value"] = json!("0x1")),
    ("JSON", |answer| {
        payment(answer)["transaction"]["raw_data"]["fee_limit"] = json!(1)
    }),
    ("memo", |answer| {
        let hex = &mut payment(answer)["transaction"]["raw_data_hex"];
        *hex = json!(format!("{}5201aa", hex.as_str().expect("hex")));
    }),
    ("id", |answer| {
        payment(answer)["transaction"]["txID"] = json!("ab".repeat(32))
    }),
    ("no transaction", |answer| payment(answer)["transaction"] = Value::Null),
];

pub async fn tampered(stage: &mut Stage) -> Told {
    let token = link(stage, "5.1").await;
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    stage.origin = Some(proxy.address.clone());
    for (what, bend) in TRON_BENDS {
        proxy.lets(move |path, text| {
            if !path.ends_with("/calldata") {
                return text;
            }
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            bend(&mut answer);
            answer.to_string()
        });
        let stopped = connect(stage, &token, "error-mismatch").await;
        stopped.map_err(|error| format!("{what}: {error}"))?;
        let text = stage.text().await;
        holds(!text.contains("Try again"), format!("{what}: the page offers a retry"))?;
        holds(wallet(stage).signed.is_empty(), format!("{what}: the wallet was asked"))?;
    }
    println!(
        "{} changes of transactions: all stopped without a retry",
        TRON_BENDS.len()
    );
    Ok(())
}

/// Bytes that an independent encoder wrote, and each of them with one changed bit.
pub async fn decoded(stage: &mut Stage) -> Told {
    let token = link(stage, "5.2").await;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    let cases: Value = serde_json::from_str(include_str!("../vectors/tron-transactions.json")).expect("JSON");
    for case in cases["cases"].as_array().expect("cases") {
        let script = format!("const given = {case}; {}", include_str!("tron_vectors.js"));
        let found = stage.browser.run(&script, &json!([])).await;
        holds(found == json!("ok"), format!("{}: {found}", case["name"]))?;
    }
    Ok(())
}

pub async fn two_tabs(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000003").await;
    connect(stage, &token, "options").await?;
    let (first, second) = stage.open_tab().await;
    stage.browser.open(&stage.at(&format!("/pay/{token}"))).await;
    let account = wallet(stage).account.clone();
    stage
        .js(&format!("sessionStorage.tronAccount = {};", json!(account)))
        .await;
    stage.browser.post("refresh", &json!({})).await;
    let played = async {
        stage.until("options").await?;
        stage.go_to(&first).await;
        wallet(stage).holds = true;
        stage.until("options").await?;
        stage.press("Pay 0.000003").await?;
        until_held(stage).await?;
        // This tab has followed the permission of the first one.
        stage.go_to(&second).await;
        stage.until("options").await?;
        stage.press("Pay 0.000003").await?;
        stage.until("othertab").await?;
        stage.press("Continue here").await?;
        stage.until("unknown").await?;
        // The first tab has lost its turn, so it does not send what the wallet signs for it.
        stage.go_to(&first).await;
        release(stage).await;
        stage.go_to(&second).await;
        pass_expiration(stage).await;
        // The page may still see the attempt of the first tab, and warns of it.
        if stage.until("options").await.is_err() {
            stage.until("inflight").await?;
            stage.press("Continue anyway").await?;
            stage.until("options").await?;
        }
        stage.press("Pay 0.000003").await?;
        stage.until("success").await
    };
    let played = played.await;
    stage.go_to(&second).await;
    stage.browser.close().await;
    stage.go_to(&first).await;
    played
}

/// Another payer starts to pay a link: gives the permission and reports an attempt. Returns the signed payment, which
/// is not sent yet.
async fn another_payment(stage: &mut Stage, token: &str) -> Value {
    let mut other = InjectedTronWallet::new(&tron(stage)["accounts"][3]);
    let account = other.account.clone();
    let (_, text) = stage.read(&format!("/pay/{token}/calldata?wallet={account}")).await;
    let calldata: Value = serde_json::from_str(&text).expect("JSON");
    let steps = calldata["steps"].as_array().expect("steps");
    let mut signed: Vec<Value> = steps.iter().map(|step| other.sign(&step["transaction"])).collect();
    let payment = signed.pop().expect("a payment");
    for permission in signed {
        relay(stage, &permission).await;
    }
    control(stage, json!({ "mine": 1 })).await;
    assert_eq!(attempted(stage, token, 1, &account).await, 200);
    payment
}

/// Calls a node of the local chain.
async fn ask_node(stage: &Stage, call: &str, body: &Value) -> Value {
    let node = tron(stage)["apiUrl"].as_str().expect("a node").to_owned();
    stage.dev.call_url(&format!("{node}/wallet/{call}"), body).await
}

/// Sends a signed transaction without the service.
async fn relay(stage: &Stage, signed: &Value) {
    let answer = ask_node(stage, "broadcasttransaction", signed).await;
    assert_eq!(answer["result"], true, "{answer}");
}

pub async fn warned_before_the_page_sends(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000004").await;
    wallet(stage).holds = true;
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000004").await?;
    until_held(stage).await?;
    another_payment(stage, &token).await;
    release(stage).await;
    stage.until("inflight-signed").await?;
    stage.press("Cancel").await?;
    stage.until("inflight").await?;
    control(stage, json!({ "mine": 1 })).await;
    let id = wallet(stage).payments()[0]["txID"].clone();
    let found = ask_node(stage, "gettransactionbyid", &json!({ "value": id })).await;
    holds(found["txID"].is_null(), format!("the page has sent it: {found}"))?;
    // The payer who continues after all gets the prompt again, without another warning.
    stage.press("Continue anyway").await?;
    stage.until("options").await?;
    stage.press("Pay 0.000004").await?;
    stage.until("success").await?;
    holds(wallet(stage).payments().len() == 2, "the kept signature was sent")?;
    let text = stage.text().await;
    holds(!text.contains("also sent"), text)
}

pub async fn told_that_the_own_payment_was_also_sent(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000005").await;
    wallet(stage).holds = true;
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000005").await?;
    until_held(stage).await?;
    let other = another_payment(stage, &token).await;
    control(stage, json!({ "hold": true })).await;
    relay(stage, &other).await;
    release(stage).await;
    let sent = async {
        stage.until("inflight-signed").await?;
        stage.press("Continue anyway").await?;
        stage.until("sign-confirm").await
    };
    let sent = sent.await;
    control(stage, json!({ "hold": false, "mine": 1 })).await;
    sent?;
    stage.until("success").await?;
    holds(wallet(stage).payments().len() == 1, "the wallet signed twice")?;
    let text = stage.text().await;
    holds(text.contains("Your own transaction was also sent"), text)
}

pub async fn a_wallet_that_never_answers(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000006").await;
    wallet(stage).holds = true;
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000006").await?;
    until_held(stage).await?;
    wallet(stage).holds = false;
    stage.wait_for(EXPIRED_S).await;
    stage
        .until_true("document.body.innerText.includes('expired before you signed')")
        .await?;
    control(stage, json!({ "mine": SOLID_BLOCKS })).await;
    stage
        .until_true("!document.body.innerText.includes('expired before you signed')")
        .await?;
    stage.until("success").await?;
    let own = wallet(stage);
    holds(
        own.held.len() == 1 && own.payments().len() == 1,
        "not asked again exactly once",
    )
}

pub async fn account_switched_while_asked(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000007").await;
    wallet(stage).holds = true;
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000007").await?;
    until_held(stage).await?;
    let next = InjectedTronWallet::new(&tron(stage)["accounts"][3]);
    let ask = wallet(stage).held.remove(0);
    let account = next.account.clone();
    stage.tron = Some(next);
    let script = format!(
        "window.wallet.select({}); window.wallet.answer({}, null, {{ code: 4001, message: 'no' }});",
        json!(account),
        ask["id"]
    );
    stage.js(&script).await;
    stage.until("error-rejected").await?;
    stage.press("Continue payment").await?;
    stage.until("options").await?;
    let text = stage.text().await;
    let end = &account[account.len() - 4..];
    holds(text.contains(&format!("{}…{end}", &account[..6])), text)?;
    stage.press("Pay 0.000007").await?;
    stage.until("success").await?;
    holds(wallet(stage).payments().len() == 1, "the new account did not pay")
}

/// The page sends nothing that is signed after the link has ended, so no payment may still arrive.
pub async fn link_ended_while_asked(stage: &mut Stage) -> Told {
    let token = link(stage, "0.00001").await;
    wallet(stage).holds = true;
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.00001").await?;
    until_held(stage).await?;
    let withdraw = format!("/v2/secure-payments/{token}/withdraw");
    stage.dev.call(&withdraw, Some(&json!({}))).await;
    release(stage).await;
    stage
        .until_true("document.body.innerText.includes('This link was withdrawn')")
        .await?;
    let text = stage.text().await;
    holds(!text.contains("may still arrive"), text)
}

/// The newest block is old, so that transactions which refer to it have expired when the page gets them.
pub async fn a_chain_that_stands_still(stage: &mut Stage) -> Told {
    let token = link(stage, "0.000008").await;
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    stage.origin = Some(proxy.address.clone());
    proxy.lets(|path, text| {
        if !path.ends_with("/calldata") {
            return text;
        }
        let mut answer: Value = serde_json::from_str(&text).expect("JSON");
        rewrite(&mut answer, |transaction| transaction.expiration_ms -= 200_000);
        answer.to_string()
    });
    connect(stage, &token, "options").await?;
    stage.press("Pay 0.000008").await?;
    stage.until("error-connection").await?;
    holds(wallet(stage).signed.is_empty(), "the wallet was asked")?;
    proxy.lets(|_, text| text);
    stage.press("Try again").await?;
    stage.until("success").await
}

pub async fn locked_wallets(stage: &mut Stage) -> Told {
    let locked = [
        ("announced", "Own Tron Wallet", Ok(json!([]))),
        ("announced", "Own Tron Wallet", Ok(Value::Null)),
        (
            "announced",
            "Own Tron Wallet",
            Err(json!({ "message": "Please unlock the wallet" })),
        ),
        ("tronLink", "Browser wallet", Ok(json!(""))),
    ];
    for (form, name, access) in locked {
        let token = link(stage, "0.000009").await;
        wallet(stage).access = Some(access);
        stage.visit(&token, "").await;
        stage.js(&format!("sessionStorage.tron = '{form}';")).await;
        stage.browser.post("refresh", &json!({})).await;
        stage.until("connect").await?;
        stage
            .until_true(&format!("document.body.innerText.includes('{name}')"))
            .await?;
        stage.press(name).await?;
        stage.until("error-locked").await?;
        let text = stage.text().await;
        holds(text.contains("Unlock your wallet") && !text.contains("()"), text)?;
        let own = wallet(stage);
        own.access = None;
        let account = own.account.clone();
        stage
            .js(&format!("sessionStorage.tronAccount = {};", json!(account)))
            .await;
        stage.press("Try again").await?;
        stage.until("options").await?;
    }
    wallet(stage).refusal = Some(json!({ "code": 4100, "message": "no" }));
    stage.press("Pay 0.000009").await?;
    stage.until("error-locked").await?;
    wallet(stage).refusal = Some(json!({ "message": "Transaction was cancelled" }));
    stage.press("Try again").await?;
    stage.until("error-rejected").await?;
    stage.press("Try again").await?;
    stage.until("success").await
}

pub async fn evm_wallet_only(stage: &mut Stage) -> Told {
    let token = link(stage, "7.1").await;
    stage.visit(&token, "").await;
    stage.js("sessionStorage.tron = 'none';").await;
    for (width, query, look) in [(1100, "", "-no-tron"), (360, "?lang=ar", "-no-tron-ar-phone")] {
        stage.dress(width, 900, false).await;
        stage.look = look;
        stage.browser.open(&stage.at(&format!("/pay/{token}{query}"))).await;
        stage.until_true("document.body.innerText.includes('MetaMask')").await?;
        stage.until("connect").await?;
    }
    let text = stage.text().await;
    holds(text.contains("TronLink") && !text.contains("Own"), text)
}

/// A wallet of Tron does not appear on a link of an EVM network.
pub async fn evm_link(stage: &mut Stage) -> Told {
    stage.look = "";
    let token = stage.payout("FAU-sepolia", "1").await;
    stage.connect(&token, "options").await?;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    let text = stage.text().await;
    holds(text.contains("Own Wallet") && !text.contains("Tron"), text)
}
