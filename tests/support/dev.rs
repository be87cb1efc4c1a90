//! A running `prs dev`, as a developer has it.

use super::program;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

/// `prs dev`, ended with this value.
pub struct Dev {
    child: Child,
    /// What it said when it was ready.
    pub ready: Value,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dev {
    /// Starts it on a free port, with its database in the folder.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same with variables of the environment.
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

    /// A text of what it said, by JSON pointer.
    pub fn text(&self, pointer: &str) -> &str {
        self.ready.pointer(pointer).and_then(Value::as_str).expect(pointer)
    }

    /// Calls the service with its API key: a POST with a body, a GET without.
    pub async fn call(&self, path: &str, body: Option<&Value>) -> Value {
        self.call_as(("x-api-key", self.text("/apiKey")), path, body).await
    }

    /// The same with another credential: a header and its value.
    pub async fn call_as(&self, credential: (&str, &str), path: &str, body: Option<&Value>) -> Value {
        let url = format!("{}{path}", self.text("/baseUrl"));
        self.fetch(&url, credential, body).await
    }

    /// Asks the node of the local chain.
    pub async fn ask_node(&self, method: &str, params: Value) -> Value {
        let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer = self
            .fetch(self.text("/chain/rpcUrl"), ("accept", "application/json"), Some(&body))
            .await;
        answer["result"].take()
    }

    async fn fetch(&self, url: &str, (name, value): (&str, &str), body: Option<&Value>) -> Value {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let call = match body {
            Some(body) => client
                .post(url)
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => client.get(url),
        };
        let answer = call.header(name, value).send().await;
        let answer = answer.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("text");
        assert!((200..300).contains(&status), "{url}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }
}
