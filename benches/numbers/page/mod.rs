//! Measures the payment page in a browser: how soon it is painted, and how long a payment takes when the payer does not
//! hesitate.

mod links;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::time::sleep;

pub(crate) use links::measure as measure_links;

use crate::report::{Goal, Row, median, scaled};
use crate::support::browser::Browser;
use crate::support::dev::Dev;

/// How often each page is opened and each payment method is used; the median counts.
const RUNS: usize = 10;

/// Maximum delay of the page's first paint compared with an empty page, in milliseconds.
const LATER_MS_MAX: f64 = 300.0;

/// Maximum durations of a payment in milliseconds: with two transactions, and with a single confirmation in the wallet.
const TWO_MS_MAX: f64 = 2_000.0;
const ONE_MS_MAX: f64 = 1_200.0;

/// The baseline: a page of the same server without style, modules or pictures, which has only a few words.
const EMPTY: &str = "/health/live";

/// An account of the local chain with enough funds.
const PAYER: &str = "/chain/accounts/2/address";

/// Time limit for the page to show a screen, and interval between two checks of the page.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// A script that clicks the pay button, and returns the milliseconds until the page shows the success screen.
const PAY: &str = "
const done = arguments[arguments.length - 1];
const action = document.getElementById('action');
const begun = performance.now();
new MutationObserver(() => {
  const { screen } = action.dataset;
  if (screen === 'success' || screen.startsWith('error')) done([screen, performance.now() - begun]);
}).observe(action, { attributeFilter: ['data-screen'] });
[...action.querySelectorAll('.button')].at(-1).click();";

/// Measures the first paint and the payments, each alternately with its baseline.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(scaled(RUNS, scale)))
}

async fn run(runs: usize) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let visit = Visit {
        dev: Dev::start(folder.path()),
        browser: Browser::start().await,
    };
    let measured = visit.measure(runs).await;
    visit.browser.end().await;
    measured
}

struct Visit {
    dev: Dev,
    browser: Browser,
}

impl Visit {
    async fn measure(&self, runs: usize) -> anyhow::Result<Vec<Row>> {
        self.devtools("Network.enable", json!({})).await;
        let token = self.link().await?;
        let page = format!("/pay/{token}");
        // The first visit starts processes of the browser.
        for path in [EMPTY, &page] {
            self.painted(path).await?;
        }
        let (mut empty, mut pages) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            empty.push(self.painted(EMPTY).await?);
            pages.push(self.painted(&page).await?);
        }
        let later: Vec<f64> = pages.iter().map(|page| page - median(&empty)).collect();
        self.bring_wallet().await;
        let (mut two, mut one) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            two.push(self.paid(false).await?);
            one.push(self.paid(true).await?);
        }
        let row = |name, ours, goal| Row {
            name,
            unit: "ms",
            ours,
            baseline_name: "an empty page of the same server",
            baseline: Vec::new(),
            goal,
        };
        Ok(vec![
            Row {
                baseline: empty,
                ..row("page, first paint", pages, Goal::None)
            },
            row("page, later than an empty one", later, Goal::AtMost(LATER_MS_MAX)),
            row("pay to success, two transactions", two, Goal::AtMost(TWO_MS_MAX)),
            row("pay to success, one confirmation", one, Goal::AtMost(ONE_MS_MAX)),
        ])
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.browser.post("goog/cdp/execute", &body).await;
    }

    /// Adds a wallet to the page. The page's content security policy is bypassed, because it would forbid the wallet to
    /// connect to its node; a real wallet is not subject to it.
    async fn bring_wallet(&self) {
        let wallet = include_str!("wallet.js")
            .replace("{node}", self.dev.text("/chain/rpcUrl"))
            .replace("{payer}", self.dev.text(PAYER));
        self.devtools("Page.setBypassCSP", json!({ "enabled": true })).await;
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": wallet }))
            .await;
    }

    async fn link(&self) -> anyhow::Result<String> {
        let body = json!({ "requests": [{ "amount": "1.5" }] });
        let made = self.dev.call("/v2/secure-payments", Some(&body)).await;
        Ok(made["token"].as_str().context("no token")?.to_owned())
    }

    async fn js(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.browser.post("execute/sync", &body).await
    }

    /// Waits for a result of a script.
    async fn until(&self, script: &str, is_there: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let begun = Instant::now();
        loop {
            let told = self.js(script).await;
            if is_there(&told) {
                return Ok(told);
            }
            if begun.elapsed() > PATIENCE {
                bail!("{script} returned {told}");
            }
            sleep(LOOK).await;
        }
    }

    async fn open(&self, path: &str) {
        let address = format!("{}{path}", self.dev.text("/baseUrl"));
        self.browser.open(&address).await;
    }

    /// Opens a page that is not in the browser's cache; returns the milliseconds until its first paint.
    async fn painted(&self, path: &str) -> anyhow::Result<f64> {
        self.devtools("Network.clearBrowserCache", json!({})).await;
        self.open("/favicon.ico").await;
        self.open(path).await;
        let paint = "return performance.getEntriesByName('first-paint')[0]?.startTime ?? null;";
        let paint = self.until(paint, Value::is_number).await?;
        paint.as_f64().context("no time")
    }

    /// Creates a link and pays it in the page; returns the duration of the payment in milliseconds.
    async fn paid(&self, is_one: bool) -> anyhow::Result<f64> {
        let page = format!("/pay/{}", self.link().await?);
        self.open(&page).await;
        let atomic = if is_one {
            "sessionStorage.atomic = 1;"
        } else {
            "sessionStorage.clear();"
        };
        self.js(atomic).await;
        let screen = "return document.getElementById('action').dataset.screen ?? '';";
        let choose = "const one = document.querySelector('.wallet'); one?.click(); return Boolean(one);";
        self.until(choose, |is_there| *is_there == json!(true)).await?;
        self.until(screen, |screen| screen == "options").await?;
        let told = self.browser.run(PAY, &json!([])).await;
        match (told[0].as_str(), told[1].as_f64()) {
            (Some("success"), Some(ms)) => Ok(ms),
            _ => bail!("a payment ended with {told}"),
        }
    }
}
