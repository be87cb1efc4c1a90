//! Calldata that differs from the payment that the page shows: a proxy in front of the service tampers with the
//! calldata.

use crate::{
    proxy::Proxy,
    scenarios::{Told, amounts, holds, with},
    stage::Stage,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Time limit for the page to check calldata.
const PATIENCE: Duration = Duration::from_secs(15);

/// Offsets of parameters in the input of a payment call, in words of 32 bytes after the selector.
mod word {
    pub const TOKEN: usize = 0;
    pub const TO: usize = 1;
    pub const AMOUNT: usize = 2;
    pub const FEE: usize = 4;
    pub const FEE_TO: usize = 5;
    pub const REFERENCE: usize = 7;
}

fn data(step: &Value) -> String {
    step["data"].as_str().expect("calldata").to_owned()
}

/// Replaces one word of a call.
fn put(step: &mut Value, word: usize, value: &str) {
    let mut text = data(step);
    let at = 10 + word * 64;
    text.replace_range(at..at + 64, &format!("{value:0>64}"));
    step["data"] = json!(text);
}

type Bend = fn(&mut Vec<Value>, &str);

/// Ways to falsify the calldata, each with its name. The text argument is an address that has no part in the payment.
const BENDS: [(&str, Bend); 19] = [
    ("recipient", |steps, other| put(&mut steps[1], word::TO, other)),
    ("token", |steps, other| put(&mut steps[1], word::TOKEN, other)),
    ("amount", |steps, _| {
        put(&mut steps[1], word::AMOUNT, "470de4df82000001")
    }),
    ("reference", |steps, _| {
        let other = format!("{:0<64}", "0102030405060708");
        put(&mut steps[1], word::REFERENCE, &other);
    }),
    ("fee", |steps, _| put(&mut steps[1], word::FEE, "ffffffffffffffff")),
    ("lower fee", |steps, _| put(&mut steps[1], word::FEE, "1")),
    ("fee receiver", |steps, other| put(&mut steps[1], word::FEE_TO, other)),
    ("contract", |steps, other| steps[1]["to"] = json!(format!("0x{other}"))),
    ("coins with the payment", |steps, _| steps[1]["value"] = json!("0x1")),
    ("coins with the permission", |steps, _| steps[0]["value"] = json!("0x1")),
    ("spender", |steps, other| put(&mut steps[0], 0, other)),
    ("unlimited permission", |steps, _| {
        put(&mut steps[0], 1, &"f".repeat(64))
    }),
    ("permission for another token", |steps, other| {
        steps[0]["to"] = json!(format!("0x{other}"));
    }),
    ("unknown call", |steps, _| {
        let text = data(&steps[1]).replacen("0xc219a14d", "0xa9059cbb", 1);
        steps[1]["data"] = json!(text);
    }),
    ("extra call", |steps, other| {
        let call = format!("0xa9059cbb{other:0>64}{:064x}", 1);
        steps.insert(1, json!({ "to": steps[0]["to"], "data": call, "value": "0x0" }));
    }),
    ("payment twice", |steps, _| steps.push(steps[1].clone())),
    ("no payment", |steps, _| {
        steps.pop();
    }),
    ("nothing", |steps, _| steps.clear()),
    ("cut off", |steps, _| {
        let text = data(&steps[1]);
        steps[1]["data"] = json!(text[..text.len() - 128]);
    }),
];

/// Connects the wallet; returns the name of the screen on which the page then stays.
async fn fate(stage: &mut Stage, token: &str) -> Result<String, String> {
    stage.visit(token, "").await;
    stage.until("connect").await?;
    stage.press("Own Wallet").await?;
    let begun = Instant::now();
    loop {
        let screen = stage.turn().await;
        if !["", "connect", "connecting", "checking"].contains(&screen.as_str()) {
            return Ok(screen);
        }
        holds(begun.elapsed() < PATIENCE, format!("the page stays on {screen}"))?;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Checks that the page stops permanently: no retry button and no wallet request.
async fn stops(stage: &mut Stage, token: &str) -> Told {
    let screen = fate(stage, token).await?;
    holds(screen == "error-mismatch", format!("{screen} is shown"))?;
    let text = stage.text().await;
    holds(text.contains("Payment stopped for your safety"), text.clone())?;
    holds(!text.contains("Try again"), "the page offers a retry")?;
    let asked = ["eth_sendTransaction", "wallet_sendCalls"].map(|method| stage.wallet.count(method));
    holds(asked == [0, 0], "something was sent")
}

struct Bent {
    proxy: Proxy,
    token: String,
    other: String,
}

impl Bent {
    async fn new(stage: &mut Stage) -> Self {
        let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
        stage.origin = Some(proxy.address.clone());
        let fee = json!({ "feePercentage": "1", "feeAddress": stage.accounts[6] });
        Self {
            proxy,
            token: stage.link(with(amounts(&["5.1"]), fee)).await,
            other: stage.accounts[9][2..].to_owned(),
        }
    }

    /// From now on, changes calldata responses with `bend`, and the source of `verify.js` with `module`.
    fn lets(&self, bend: Bend, module: fn(String) -> String) {
        let other = self.other.clone();
        self.proxy.lets(move |path, text| {
            if path.ends_with("/verify.js") {
                return module(text);
            }
            if !path.ends_with("/calldata") {
                return text;
            }
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            let steps = answer["steps"].as_array_mut().unwrap_or_else(|| panic!("{text}"));
            bend(steps, &other);
            answer.to_string()
        });
    }
}

pub async fn calldata(stage: &mut Stage) -> Told {
    let bent = Bent::new(stage).await;
    bent.lets(|_, _| {}, |text| text);
    let screen = fate(stage, &bent.token).await?;
    holds(screen == "options", format!("unchanged calldata leads to {screen}"))?;
    let text = stage.text().await.to_lowercase();
    let shown = [&stage.accounts[6], "0.051\u{a0}fau", "5.1\u{a0}fau", "5.151\u{a0}fau"];
    holds(
        shown.iter().all(|shown| text.contains(*shown)),
        format!("the fee receiver is not shown: {text}"),
    )?;
    for (what, bend) in BENDS {
        bent.lets(bend, |text| text);
        stops(stage, &bent.token)
            .await
            .map_err(|error| format!("{what}: {error}"))?;
    }
    stage.judge("error-mismatch").await;
    // The page shows values that differ from the calldata.
    let other = format!("0x{}", bent.other);
    let shown = [
        ("/details/items/0/payee", other.clone()),
        ("/details/currencies/0/fees/0/receiver", other),
        ("/details/currencies/0/fees/0/due", "0.052".to_owned()),
    ];
    for (pointer, instead) in shown.clone() {
        bent.proxy.lets(move |path, text| {
            if !path.ends_with("/state") {
                return text;
            }
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            if let Some(shown) = answer.pointer_mut(pointer) {
                *shown = json!(instead);
            }
            answer.to_string()
        });
        stops(stage, &bent.token)
            .await
            .map_err(|error| format!("{pointer} as shown: {error}"))?;
    }
    println!(
        "{} changes of calldata and {} of shown values: all stopped without a retry",
        BENDS.len(),
        shown.len()
    );
    Ok(())
}

/// Checks that the tests of this file can fail: they must detect a page that accepts any calldata.
pub async fn check_off(stage: &mut Stage) -> Told {
    let bent = Bent::new(stage).await;
    let mut noticed = 0;
    // Undecodable calldata is no payment, so these changes are left out.
    let tried = BENDS
        .iter()
        .filter(|(what, _)| !["nothing", "cut off", "unknown call"].contains(what));
    let mut count = 0;
    for (_, bend) in tried.step_by(3) {
        bent.lets(*bend, |text| {
            let open = text.replace("if (!holds) throw new Mismatch(why);", "");
            assert_ne!(open, text, "verify.js no longer contains this check");
            open
        });
        count += 1;
        noticed += usize::from(stops(stage, &bent.token).await.is_err());
    }
    println!("calldata check off: detected {noticed} of {count} times");
    holds(noticed == count, "a page without checks was not detected")
}
