//! Unmodified tronweb as the wallet of the accounts, in a process of its own.

use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    time::timeout,
};

use super::{CONTROL_TIMEOUT, TronAccount};
use crate::node::dir;

/// A running tronweb. It executes one call at a time.
pub struct Tronweb {
    pipes: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    _process: Child,
}

impl Tronweb {
    /// Starts tronweb with a node.
    pub fn start(api_url: &str) -> anyhow::Result<Self> {
        let mut process = Command::new("node")
            .arg(dir().join("tron/tronweb.mjs"))
            .arg(api_url)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("tronweb needs Node.js: put `node` on the PATH")?;
        let input = process.stdin.take().context("no standard input")?;
        let output = process.stdout.take().context("no standard output")?;
        Ok(Self {
            pipes: Mutex::new((input, BufReader::new(output).lines())),
            _process: process,
        })
    }

    /// Signs an unsigned transaction; returns it with its signature. Errors: the account does not own it, or its
    /// members disagree.
    pub async fn sign(&self, account: &TronAccount, transaction: &Value) -> anyhow::Result<Value> {
        self.call(json!({ "call": "sign", "transaction": transaction, "key": digits(account) }))
            .await
    }

    /// Signs a text as `signMessageV2` does; returns the signature with `0x`.
    pub async fn sign_message(&self, account: &TronAccount, message: &str) -> anyhow::Result<String> {
        let call = json!({ "call": "signMessage", "message": message, "key": digits(account) });
        text(self.call(call).await?)
    }

    /// Sends a signed transaction to the node; returns the response of the node.
    pub async fn send(&self, signed: &Value) -> anyhow::Result<Value> {
        self.call(json!({ "call": "send", "transaction": signed })).await
    }

    /// Balance in base units of a token.
    pub async fn balance(&self, token: &str, holder: &str) -> anyhow::Result<u128> {
        let call = json!({ "call": "balance", "token": token, "holder": holder });
        Ok(text(self.call(call).await?)?.parse()?)
    }

    async fn call(&self, call: Value) -> anyhow::Result<Value> {
        let mut pipes = self.pipes.lock().await;
        let (input, lines) = &mut *pipes;
        let answered = async {
            input.write_all(format!("{call}\n").as_bytes()).await?;
            lines.next_line().await?.context("tronweb ended")
        };
        let line = timeout(CONTROL_TIMEOUT, answered)
            .await
            .context("tronweb does not respond")??;
        let mut answer: Value = serde_json::from_str(&line)?;
        match answer["error"].as_str() {
            Some(error) => bail!("tronweb refuses: {error}"),
            None => Ok(answer["value"].take()),
        }
    }
}

/// The private key as tronweb takes it.
fn digits(account: &TronAccount) -> &str {
    account.private_key.trim_start_matches("0x")
}

fn text(value: Value) -> anyhow::Result<String> {
    let text = value.as_str().map(str::to_owned);
    text.with_context(|| format!("tronweb returned {value}"))
}
