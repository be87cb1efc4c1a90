//! A browser in front of the running service, with the actions of a payer.

use crate::{
    support::{browser::Browser, dev::Dev, published},
    tron_wallet::InjectedTronWallet,
    wallet::Wallet,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Pause between two polls of the page.
const LOOK: Duration = Duration::from_millis(50);

/// Time limit for a screen to appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time limit for the service to detect a payment that no page reported. It reads blocks in order, so the last of many
/// payments waits for all previous ones.
const SETTLING: Duration = Duration::from_secs(180);

pub struct Stage {
    pub dev: Dev,
    pub browser: Browser,
    pub wallet: Wallet,
    /// The Tron wallet; `None` if it does not respond.
    pub tron: Option<InjectedTronWallet>,
    /// Accounts of the local chain.
    pub accounts: Vec<String>,
    /// The screens that axe-core has checked, each with the look (window size, colour scheme, language) in which it was
    /// checked.
    pub judged: BTreeSet<String>,
    /// Violations found by axe-core.
    pub violations: Vec<String>,
    /// Suffix that names the look of the current scenario, such as `-dark`.
    pub look: &'static str,
    /// The origin that the browser opens in place of the service's own, such as that of a proxy.
    pub origin: Option<String>,
    judge: String,
    pictures: PathBuf,
    client: reqwest::Client,
    script: Option<String>,
}

impl Stage {
    pub async fn set(folder: &Path) -> Self {
        let dev = Dev::start(folder);
        let accounts = dev.ready.pointer("/chain/accounts").and_then(Value::as_array);
        let accounts: Vec<String> = accounts
            .expect("accounts")
            .iter()
            .map(|account| account["address"].as_str().expect("an address").to_lowercase())
            .collect();
        let judge = published::installed("page", &["package.json", "package-lock.json"], |_| ());
        let judge = std::fs::read_to_string(judge.join("node_modules/axe-core/axe.min.js")).expect("axe-core");
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-pictures");
        std::fs::create_dir_all(&pictures).expect("a folder");
        Self {
            wallet: Wallet::new(&accounts[2]),
            tron: None,
            browser: Browser::start().await,
            accounts,
            judged: BTreeSet::new(),
            violations: Vec::new(),
            look: "",
            origin: None,
            judge,
            pictures,
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            script: None,
            dev,
        }
    }

    /// The full URL of a path of the service.
    pub fn at(&self, path: &str) -> String {
        let origin = self.origin.as_deref();
        format!("{}{path}", origin.unwrap_or_else(|| self.dev.text("/baseUrl")))
    }

    /// Creates a link; returns its token.
    pub async fn link(&self, body: Value) -> String {
        self.made("/v2/secure-payments", body).await
    }

    /// Creates a payout link; returns its token.
    pub async fn payout(&self, currency: &str, amount: &str) -> String {
        let body = json!({
            "recipient": self.accounts[5], "creatorWalletAddress": self.wallet.account, "network": "sepolia",
            "currency": currency, "amount": amount,
        });
        self.made("/v2/secure-payments/payouts", body).await
    }

    pub async fn made(&self, path: &str, body: Value) -> String {
        let made = self.dev.call(path, Some(&body)).await;
        made["token"].as_str().expect("a token").to_owned()
    }

    /// Requests a link; returns status and body, including errors.
    pub async fn ask(&self, path: &str, body: &Value) -> (u16, Value) {
        let call = self.client.post(format!("{}{path}", self.dev.text("/baseUrl")));
        let call = call.header("x-api-key", self.dev.text("/apiKey")).json(body);
        let answer = call.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// The structure of the page and the events on it, as `seen` in `wallet.js` reports them.
    pub async fn seen(&self) -> Value {
        self.js("return window.seen();").await
    }

    /// Pays a link from the wallet's account without opening the page.
    pub async fn settle(&self, token: &str) {
        for step in self.steps(token).await {
            let hash = self.send(&step).await;
            assert!(hash.is_string(), "{step}");
            // The steps of the next link depend on the allowance that this transaction leaves.
            let receipt = self.dev.receipt_of(&hash).await;
            assert_eq!(receipt["status"], "0x1", "{step}");
        }
    }

    /// Sends the token approval that a link needs, without opening the page.
    pub async fn allow(&self, token: &str) {
        let steps = self.steps(token).await;
        for step in &steps[..steps.len() - 1] {
            self.send(step).await;
        }
    }

    /// Waits until links are paid.
    pub async fn until_paid(&self, tokens: &[String]) -> Result<(), String> {
        for token in tokens {
            self.until_told(token, r#""status":"completed""#).await?;
        }
        Ok(())
    }

    /// Waits until the state of a link contains this text.
    pub async fn until_told(&self, token: &str, part: &str) -> Result<(), String> {
        let begun = Instant::now();
        while !self.read(&format!("/pay/{token}/state")).await.1.contains(part) {
            if begun.elapsed() > SETTLING {
                return Err(format!("the state of {token} lacks {part}"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Reads a page without a browser: status and text.
    pub async fn read(&self, path: &str) -> (u16, String) {
        let answer = self.client.get(self.at(path)).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    /// The transactions with which the wallet pays a link.
    pub async fn steps(&self, token: &str) -> Vec<Value> {
        let (_, text) = self
            .read(&format!("/pay/{token}/calldata?wallet={}", self.wallet.account))
            .await;
        let calldata: Value = serde_json::from_str(&text).expect("JSON");
        calldata["steps"].as_array().unwrap_or_else(|| panic!("{text}")).clone()
    }

    /// Sends one transaction from the wallet's account directly to the node; returns what the node returned.
    pub async fn send(&self, step: &Value) -> Value {
        let call =
            json!({ "from": self.wallet.account, "to": step["to"], "data": step["data"], "value": step["value"] });
        self.dev.ask_node("eth_sendTransaction", json!([call])).await
    }

    /// Moves the clock of the service.
    pub async fn wait_for(&self, seconds: u64) {
        self.dev.call("/_dev/clock", Some(&json!({ "seconds": seconds }))).await;
    }

    /// Sets the window size and the colour scheme.
    pub async fn dress(&self, width: u32, height: u32, is_dark: bool) {
        self.browser.dress(width, height, is_dark).await;
    }

    /// Injects the wallets into every page that this window opens.
    pub async fn bring_wallet(&mut self) {
        if let Some(script) = self.script.take() {
            let old = json!({ "identifier": script });
            self.browser
                .devtools("Page.removeScriptToEvaluateOnNewDocument", old)
                .await;
        }
        let wallets = [include_str!("wallet.js"), include_str!("tron_wallet.js")].concat();
        let source = json!({ "source": wallets });
        let added = self
            .browser
            .devtools("Page.addScriptToEvaluateOnNewDocument", source)
            .await;
        self.script = added["identifier"].as_str().map(str::to_owned);
    }

    /// Opens a second tab with the wallet and switches to it; returns the handles of both tabs.
    pub async fn open_tab(&mut self) -> (Value, Value) {
        let first = self.browser.get("window").await;
        let opened = self.browser.post("window/new", &json!({ "type": "tab" })).await;
        let other = opened["handle"].clone();
        self.go_to(&other).await;
        self.script = None;
        self.bring_wallet().await;
        (first, other)
    }

    /// Switches to a tab and brings it to the front, since browsers slow down background tabs.
    pub async fn go_to(&self, tab: &Value) {
        self.browser.post("window", &json!({ "handle": tab })).await;
        self.browser.devtools("Page.bringToFront", json!({})).await;
    }

    /// Opens the page of a link as a first-time visitor.
    pub async fn visit(&mut self, token: &str, query: &str) {
        let address = self.at(&format!("/pay/{token}{query}"));
        self.browser.open(&address).await;
        self.js("sessionStorage.clear(); localStorage.clear();").await;
        self.browser.open(&address).await;
    }

    /// Runs a script; returns its result.
    pub async fn js(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.browser.post("execute/sync", &body).await
    }

    /// Waits until an expression is true on the page. Errors: it stays false.
    pub async fn until_true(&self, what: &str) -> Result<(), String> {
        let begun = Instant::now();
        while self.js(&format!("return {what};")).await != json!(true) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{what} stays false: {}", self.text().await));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Lets the wallet answer the page's pending requests; returns the name of the screen that the page then shows.
    pub async fn turn(&mut self) -> String {
        let look =
            "return [document.getElementById('action')?.dataset.screen ?? '', window.wallet?.asks.splice(0) ?? []];";
        let seen = self.js(look).await;
        for ask in seen[1].as_array().into_iter().flatten() {
            let method = ask["method"].as_str().unwrap_or_default();
            let answer = match &mut self.tron {
                Some(tron) if method.starts_with("tron:") => tron.answer(ask),
                _ => self.wallet.answer(&self.dev, method, &ask["params"]).await,
            };
            let Some(answer) = answer else {
                continue;
            };
            let (result, error) = match answer {
                Ok(result) => (result, Value::Null),
                Err(error) => (Value::Null, error),
            };
            let script = format!("window.wallet.answer({}, {result}, {error});", ask["id"]);
            self.js(&script).await;
        }
        seen[0].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for a screen, checks it and takes a screenshot. Errors: the page stays on another screen.
    pub async fn until(&mut self, screen: &str) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let seen = self.turn().await;
            if seen == screen {
                self.judge(screen).await;
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let text = self.js("return document.body.innerText;").await;
                return Err(format!(
                    "{screen} did not come, but {seen}: {text} {:?}",
                    self.wallet.asked
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Checks a screen with axe-core, unless it was already checked in this look, and takes a screenshot.
    pub async fn judge(&mut self, screen: &str) {
        let name = format!("{screen}{}", self.look);
        if !self.judged.insert(name.clone()) {
            return;
        }
        let found = self.browser.judged(&self.judge).await;
        self.violations.extend(found.iter().map(|one| format!("{name}: {one}")));
        self.browser.picture(&self.pictures.join(format!("{name}.png"))).await;
    }

    /// Presses the element with this label. Errors: there is none.
    pub async fn press(&self, label: &str) -> Result<(), String> {
        let script = format!(
            "const found = [...document.querySelectorAll('#action button, #action a.button')]\
             .find((one) => one.textContent.includes({})); found?.click(); return Boolean(found);",
            json!(label)
        );
        match self.js(&script).await {
            Value::Bool(true) => Ok(()),
            _ => Err(format!("no element has the label {label}")),
        }
    }

    /// Opens a link and connects the wallet. Errors: `screen` does not appear.
    pub async fn connect(&mut self, token: &str, screen: &str) -> Result<(), String> {
        self.visit(token, "").await;
        self.until("connect").await?;
        self.press("Own Wallet").await?;
        self.until(screen).await
    }

    /// The text of the page.
    pub async fn text(&self) -> String {
        let text = self.js("return document.body.innerText;").await;
        text.as_str().unwrap_or_default().to_owned()
    }
}
