//! A real browser, driven through chromedriver; where neither is installed a test fails. `cargo xtask test` brings both.

use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A browser that was started for a test.
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

    /// A command of WebDriver with a body; returns the value of the answer.
    pub async fn post(&self, command: &str, body: &Value) -> Value {
        value(self.client.post(format!("{}/{command}", self.session)).json(body)).await
    }

    /// A command of WebDriver that reads.
    pub async fn get(&self, command: &str) -> Value {
        value(self.client.get(format!("{}/{command}", self.session))).await
    }

    /// Opens a page.
    pub async fn open(&self, url: &str) {
        assert_eq!(self.post("url", &json!({ "url": url })).await, Value::Null);
    }

    /// Runs a script that tells its last argument, a function, what came of it.
    pub async fn run(&self, script: &str, arguments: &Value) -> Value {
        self.post("execute/async", &json!({ "script": script, "args": arguments }))
            .await
    }

    /// Ends the browser, whose own processes outlive the driver.
    pub async fn end(&self) {
        value(self.client.delete(&self.session)).await;
    }
}

async fn value(call: reqwest::RequestBuilder) -> Value {
    let answer = call.send().await.expect("chromedriver answers");
    let body: Value = answer.json().await.expect("JSON");
    body["value"].clone()
}
