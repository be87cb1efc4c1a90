//! A running `prs dev`.

use super::program;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

/// A `prs dev` process that ends when this value is dropped.
pub struct Dev {
    child: Child,
    /// Its ready message.
    pub ready: Value,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dev {
    /// Starts `prs dev` on a free port, with its database in this folder.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// Like [`Self::start`], with environment variables for the process.
    pub fn start_with(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = program::prs(folder);
        command.envs(variables.iter().copied());
        command.args(["dev", "--json", "--port", "0", "--data"]).arg(folder);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).expect("one line of JSON");
        Self { child, ready }
    }

    /// The text at a JSON pointer in the line that `prs dev` prints when it is ready.
    pub fn text(&self, pointer: &str) -> &str {
        self.ready.pointer(pointer).and_then(Value::as_str).expect(pointer)
    }

    /// Calls the service with the API key that `prs dev` printed. Sends a POST if there is a body, and otherwise a GET.
    /// Returns the response body.
    pub async fn call(&self, path: &str, body: Option<&Value>) -> Value {
        self.call_as(("x-api-key", self.text("/apiKey")), path, body).await
    }

    /// Calls the service with another credential, given as header and value.
    pub async fn call_as(&self, credential: (&str, &str), path: &str, body: Option<&Value>) -> Value {
        let url = format!("{}{path}", self.text("/baseUrl"));
        self.fetch(&url, credential, body).await
    }

    /// Sends a POST without a credential to another server, such as a node of the local chain of Tron.
    #[allow(dead_code, reason = "not every test binary controls this chain")]
    pub async fn call_url(&self, url: &str, body: &Value) -> Value {
        self.fetch(url, ("accept", "application/json"), Some(body)).await
    }

    /// Sends an RPC call to the node of the local chain.
    pub async fn ask_node(&self, method: &str, params: Value) -> Value {
        let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer = self
            .fetch(self.text("/chain/rpcUrl"), ("accept", "application/json"), Some(&body))
            .await;
        answer["result"].take()
    }

    /// The receipt of a transaction. The node returns the hash before the block is mined, so the receipt may be missing
    /// at first.
    #[allow(dead_code, reason = "not every test binary sends transactions")]
    pub async fn receipt_of(&self, hash: &Value) -> Value {
        for _ in 0..1_000 {
            let receipt = self
                .ask_node("eth_getTransactionReceipt", serde_json::json!([hash]))
                .await;
            if !receipt.is_null() {
                return receipt;
            }
        }
        panic!("the transaction {hash} was not mined");
    }

    /// Calls the service with these headers. Sends a POST if there is a body, and otherwise a GET. Returns the status
    /// and the response body. Errors: the process ended before it responded.
    #[allow(dead_code, reason = "not every test binary expects refusals")]
    pub async fn send(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> reqwest::Result<(u16, Value)> {
        let (status, text) = exchange(&format!("{}{path}", self.text("/baseUrl")), headers, body).await?;
        Ok((status, serde_json::from_str(&text).expect("JSON")))
    }

    async fn fetch(&self, url: &str, credential: (&str, &str), body: Option<&Value>) -> Value {
        let (status, text) = exchange(url, &[credential], body).await.expect("a response");
        assert!((200..300).contains(&status), "{url}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Calls a URL with these headers. Sends a POST if there is a body, and otherwise a GET. Returns the status and the
/// response body. Errors: no complete response arrived.
pub async fn exchange(url: &str, headers: &[(&str, &str)], body: Option<&Value>) -> reqwest::Result<(u16, String)> {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut call = match body {
        Some(body) => client
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string()),
        None => client.get(url),
    };
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    let response = call.send().await?;
    let status = response.status().as_u16();
    Ok((status, response.text().await?))
}
