//! A real browser, controlled through chromedriver. Tests fail if the browser or chromedriver is not installed; `cargo
//! xtask test` provides both.

use serde_json::{Value, json};
use std::{path::Path, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Rules for axe-core: WCAG 2.0 to 2.2, A and AA, and best practices.
const RULES: &str = r#"["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]"#;

/// A browser started for a test.
pub struct Browser {
    client: reqwest::Client,
    session: String,
    _driver: Child,
}

impl Browser {
    /// Starts a browser.
    pub async fn start() -> Self {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut driver =
            driver.unwrap_or_else(|error| panic!("chromedriver: {error}; `cargo xtask test` says how to install it"));
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = loop {
            let line = lines.next_line().await.expect("readable").expect("chromedriver starts");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        prs::adapters::install_tls();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "timeouts": { "script": 20_000, "pageLoad": 20_000 },
        } } });
        let base = format!("http://127.0.0.1:{port}/session");
        let begun = value(client.post(&base).json(&wanted)).await;
        let id = begun["sessionId"].as_str().unwrap_or_else(|| panic!("{begun}"));
        Self {
            client,
            session: format!("{base}/{id}"),
            _driver: driver,
        }
    }

    /// A WebDriver command with a body; returns the value of the response.
    pub async fn post(&self, command: &str, body: &Value) -> Value {
        value(self.client.post(format!("{}/{command}", self.session)).json(body)).await
    }

    /// A WebDriver command that reads.
    pub async fn get(&self, command: &str) -> Value {
        value(self.client.get(format!("{}/{command}", self.session))).await
    }

    /// Closes the tab.
    pub async fn close(&self) {
        value(self.client.delete(format!("{}/window", self.session))).await;
    }

    /// Opens a page.
    pub async fn open(&self, url: &str) {
        assert_eq!(self.post("url", &json!({ "url": url })).await, Value::Null);
    }

    /// Runs an asynchronous script, which passes its result to its last argument, a callback.
    pub async fn run(&self, script: &str, arguments: &Value) -> Value {
        self.post("execute/async", &json!({ "script": script, "args": arguments }))
            .await
    }

    /// A Chrome DevTools command.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("goog/cdp/execute", &body).await
    }

    /// Sets the window size and the colour scheme.
    ///
    /// The browser runs with reduced motion. Without a graphics card, each animation frame would be drawn by the
    /// processor and occupy a core.
    pub async fn dress(&self, width: u32, height: u32, is_dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = [("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")];
        let features = features.map(|(name, value)| json!({ "name": name, "value": value }));
        let media = json!({ "features": features });
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Accessibility violations that axe-core finds on the page; `judge` is the script of axe-core.
    pub async fn judged(&self, judge: &str) -> Vec<String> {
        let script = format!(
            "{judge}; const done = arguments[arguments.length - 1]; axe.run(document, {{ runOnly: {RULES} }}).then((judged) => \
             done(judged.violations.map((one) => one.id + ' ' + one.nodes.map((node) => node.target).join(' '))));"
        );
        let found = self.run(&script, &json!([])).await;
        let found = found.as_array().unwrap_or_else(|| panic!("{found}"));
        found.iter().map(ToString::to_string).collect()
    }

    /// Stores a screenshot of the window.
    pub async fn picture(&self, file: &Path) {
        let picture = self.get("screenshot").await;
        let picture = picture.as_str().expect("a picture");
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, picture).expect("base64");
        std::fs::write(file, bytes).expect("written");
    }

    /// Ends the browser. Its processes would outlive the driver otherwise.
    pub async fn end(&self) {
        value(self.client.delete(&self.session)).await;
    }
}

async fn value(call: reqwest::RequestBuilder) -> Value {
    let answer = call.send().await.expect("chromedriver responds");
    let body: Value = answer.json().await.expect("JSON");
    body["value"].clone()
}
