//! A browser before the running service, and what a payer does there.

use crate::{
    support::{browser::Browser, dev::Dev, published},
    wallet::Wallet,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Pause between two looks at the page.
const LOOK: Duration = Duration::from_millis(50);

/// Time in which a screen has to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time in which the service has to see a payment that no page told of: it reads blocks in order, so the last of many
/// payments waits for all before it.
const SETTLING: Duration = Duration::from_secs(180);

pub struct Stage {
    pub dev: Dev,
    pub browser: Browser,
    pub wallet: Wallet,
    /// Accounts of the local chain.
    pub accounts: Vec<String>,
    /// Screens that were judged, with what makes them look different.
    pub judged: BTreeSet<String>,
    /// What the judge found.
    pub violations: Vec<String>,
    /// What makes the screens of this scenario look different.
    pub look: &'static str,
    /// Where the browser finds the service, when something stands between them.
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
        let judge = std::fs::read_to_string(judge.join("node_modules/axe-core/axe.min.js")).expect("the judge");
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-pictures");
        std::fs::create_dir_all(&pictures).expect("a folder");
        Self {
            wallet: Wallet::new(&accounts[2]),
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

    /// The address of a path of the service.
    pub fn at(&self, path: &str) -> String {
        let origin = self.origin.as_deref();
        format!("{}{path}", origin.unwrap_or_else(|| self.dev.text("/baseUrl")))
    }

    /// Makes a link; returns its token.
    pub async fn link(&self, body: Value) -> String {
        self.made("/v2/secure-payments", body).await
    }

    /// Makes a link that pays somebody; returns its token.
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

    /// Asks for a link; returns what is answered, whatever it is.
    pub async fn ask(&self, path: &str, body: &Value) -> (u16, Value) {
        let call = self.client.post(format!("{}{path}", self.dev.text("/baseUrl")));
        let call = call.header("x-api-key", self.dev.text("/apiKey")).json(body);
        let answer = call.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// What the page is made of, and what happened to it. See `wallet.js`.
    pub async fn seen(&self) -> Value {
        self.js("return window.seen();").await
    }

    /// Pays a link from the wallet, without a page.
    pub async fn settle(&self, token: &str) {
        for step in self.steps(token).await {
            assert!(self.send(&step).await.is_string(), "{step}");
        }
    }

    /// Allows what a link needs, without a page.
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

    /// Waits until this is a part of the state of a link.
    pub async fn until_told(&self, token: &str, part: &str) -> Result<(), String> {
        let begun = Instant::now();
        while !self.read(&format!("/pay/{token}/state")).await.1.contains(part) {
            if begun.elapsed() > SETTLING {
                return Err(format!("the state of {token} is without {part}"));
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

    /// The transactions that pay a link from the wallet.
    pub async fn steps(&self, token: &str) -> Vec<Value> {
        let (_, text) = self
            .read(&format!("/pay/{token}/calldata?wallet={}", self.wallet.account))
            .await;
        let calldata: Value = serde_json::from_str(&text).expect("JSON");
        calldata["steps"].as_array().unwrap_or_else(|| panic!("{text}")).clone()
    }

    /// Sends a step from the wallet without asking anybody.
    pub async fn send(&self, step: &Value) -> Value {
        let call =
            json!({ "from": self.wallet.account, "to": step["to"], "data": step["data"], "value": step["value"] });
        self.dev.ask_node("eth_sendTransaction", json!([call])).await
    }

    /// Moves the clock of the service.
    pub async fn wait_for(&self, seconds: u64) {
        self.dev.call("/_dev/clock", Some(&json!({ "seconds": seconds }))).await;
    }

    /// A window of this size with these preferences.
    pub async fn dress(&self, width: u32, height: u32, is_dark: bool) {
        self.browser.dress(width, height, is_dark).await;
    }

    /// Puts the wallet into every page that this window opens.
    pub async fn bring_wallet(&mut self) {
        if let Some(script) = self.script.take() {
            let old = json!({ "identifier": script });
            self.browser
                .devtools("Page.removeScriptToEvaluateOnNewDocument", old)
                .await;
        }
        let source = json!({ "source": include_str!("wallet.js") });
        let added = self
            .browser
            .devtools("Page.addScriptToEvaluateOnNewDocument", source)
            .await;
        self.script = added["identifier"].as_str().map(str::to_owned);
    }

    /// Opens another tab with the wallet; returns the handles of the first and the other one, in which the test goes on.
    pub async fn open_tab(&mut self) -> (Value, Value) {
        let first = self.browser.get("window").await;
        let opened = self.browser.post("window/new", &json!({ "type": "tab" })).await;
        let other = opened["handle"].clone();
        self.go_to(&other).await;
        self.script = None;
        self.bring_wallet().await;
        (first, other)
    }

    /// Goes on in a tab, and brings it to the front: browsers slow down what is behind.
    pub async fn go_to(&self, tab: &Value) {
        self.browser.post("window", &json!({ "handle": tab })).await;
        self.browser.devtools("Page.bringToFront", json!({})).await;
    }

    /// Opens the page of a link as somebody who was never here.
    pub async fn visit(&mut self, token: &str, query: &str) {
        let address = self.at(&format!("/pay/{token}{query}"));
        self.browser.open(&address).await;
        self.js("sessionStorage.clear(); localStorage.clear();").await;
        self.browser.open(&address).await;
    }

    /// Runs a script; returns what it returns.
    pub async fn js(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.browser.post("execute/sync", &body).await
    }

    /// Waits until something is true of the page. Errors: it does not become so.
    pub async fn until_true(&self, what: &str) -> Result<(), String> {
        let begun = Instant::now();
        while self.js(&format!("return {what};")).await != json!(true) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("it does not become true that {what}: {}", self.text().await));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Lets the wallet answer what the page asks; returns the screen that is shown.
    pub async fn turn(&mut self) -> String {
        let look =
            "return [document.getElementById('action')?.dataset.screen ?? '', window.wallet?.asks.splice(0) ?? []];";
        let seen = self.js(look).await;
        for ask in seen[1].as_array().into_iter().flatten() {
            let method = ask["method"].as_str().unwrap_or_default();
            let Some(answer) = self.wallet.answer(&self.dev, method, &ask["params"]).await else {
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

    /// Waits for a screen, has it judged and takes its picture. Errors: another one stays.
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

    /// Has a screen judged that was not judged in this look, and takes its picture.
    pub async fn judge(&mut self, screen: &str) {
        let name = format!("{screen}{}", self.look);
        if !self.judged.insert(name.clone()) {
            return;
        }
        let found = self.browser.judged(&self.judge).await;
        self.violations.extend(found.iter().map(|one| format!("{name}: {one}")));
        self.browser.picture(&self.pictures.join(format!("{name}.png"))).await;
    }

    /// Presses what is labelled so. Errors: nothing is.
    pub async fn press(&self, label: &str) -> Result<(), String> {
        let script = format!(
            "const found = [...document.querySelectorAll('#action button, #action a.button')]\
             .find((one) => one.textContent.includes({})); found?.click(); return Boolean(found);",
            json!(label)
        );
        match self.js(&script).await {
            Value::Bool(true) => Ok(()),
            _ => Err(format!("nothing is labelled {label}")),
        }
    }

    /// Opens a link and connects the wallet. Errors: what comes is not `screen`.
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
