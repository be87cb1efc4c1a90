//! A client of a running `prs dev`: its HTTP interface and the chain node behind it, over loopback.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use xtask::machine::command;

/// One call on loopback; the service answers or is stuck.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How often something that happens by itself is asked for.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// How long a transaction may take to be in a block of the local chain.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Speaks JSON to the service with one credential.
pub(crate) struct Api {
    agent: Agent,
    /// Name and value of the credential header.
    credential: (&'static str, String),
}

impl Api {
    /// A client that sends this credential with every call.
    pub(crate) fn new(credential: &'static str, value: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(CALL_TIMEOUT))
            .build();
        Self {
            agent: config.into(),
            credential: (credential, value.to_owned()),
        }
    }

    /// Reads a resource.
    pub(crate) fn get(&self, url: &str) -> Result<Value> {
        let (name, value) = &self.credential;
        let response = self
            .agent
            .get(url)
            .header(*name, value)
            .call()
            .with_context(|| format!("GET {url}"))?;
        answer("GET", url, 200, response)
    }

    /// Creates something and expects 201.
    pub(crate) fn create(&self, url: &str, body: &Value) -> Result<Value> {
        let (name, value) = &self.credential;
        let request = Request::post(url)
            .header(*name, value)
            .header("content-type", "application/json");
        let response = self
            .agent
            .run(request.body(body.to_string())?)
            .with_context(|| format!("POST {url}"))?;
        answer("POST", url, 201, response)
    }
}

fn answer(method: &str, url: &str, expected: u16, mut response: ureq::http::Response<ureq::Body>) -> Result<Value> {
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string()?;
    if status != expected {
        bail!("{method} {url} answered {status} instead of {expected}: {text}");
    }
    serde_json::from_str(&text).with_context(|| format!("{method} {url} did not answer with JSON: {text}"))
}

/// The JSON-RPC interface of the local chain node, whose accounts are unlocked.
pub(crate) struct Chain {
    agent: Agent,
    url: String,
}

impl Chain {
    /// The node at this address.
    pub(crate) fn new(url: &str) -> Self {
        let config = Agent::config_builder().timeout_global(Some(CALL_TIMEOUT)).build();
        Self {
            agent: config.into(),
            url: url.to_owned(),
        }
    }

    fn call(&self, method: &str, params: &Value) -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = Request::post(&self.url).header("content-type", "application/json");
        let mut response = self
            .agent
            .run(request.body(body.to_string())?)
            .with_context(|| method.to_owned())?;
        let mut answer: Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
        match answer.get("error") {
            Some(error) => Err(anyhow!("{method}: {error}")),
            None => Ok(answer["result"].take()),
        }
    }

    /// Sends one transaction of the pay answer from an unlocked account; gives back its hash once it succeeded.
    fn send(&self, from: &str, transaction: &Value) -> Result<String> {
        let value = transaction["value"]["hex"]
            .as_str()
            .context("a transaction has no value in hexadecimal form")?;
        let call =
            json!({"from": from, "to": transaction["to"], "data": transaction["data"], "value": quantity(value)});
        let hash = self.call("eth_sendTransaction", &json!([call]))?;
        let hash = hash.as_str().context("the node gave no transaction hash")?.to_owned();
        let deadline = Instant::now() + RECEIPT_TIMEOUT;
        while Instant::now() < deadline && !command::interrupted() {
            let receipt = self.call("eth_getTransactionReceipt", &json!([hash]))?;
            match receipt["status"].as_str() {
                Some("0x1") => return Ok(hash),
                Some(status) => bail!("transaction {hash} failed on the chain with status {status}"),
                None => std::thread::sleep(POLL),
            }
        }
        bail!(
            "transaction {hash} is in no block after {} s",
            RECEIPT_TIMEOUT.as_secs()
        )
    }
}

/// Asks the service for the transactions that pay a request and sends them in order; gives back their hashes.
pub(crate) fn pay(api: &Api, base_url: &str, chain: &Chain, request_id: &str, payer: &str) -> Result<Vec<String>> {
    let pay = api.get(&format!("{base_url}/v2/request/{request_id}/pay?wallet={payer}"))?;
    let transactions = pay["transactions"]
        .as_array()
        .context("the pay answer has no transactions")?;
    if transactions.is_empty() {
        bail!("the pay answer has no transactions");
    }
    transactions
        .iter()
        .map(|transaction| chain.send(payer, transaction))
        .collect()
}

/// A number as JSON-RPC writes quantities: no leading zeros.
fn quantity(hex: &str) -> String {
    let digits = hex.trim_start_matches("0x").trim_start_matches('0');
    format!("0x{}", if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_no_leading_zeros() {
        assert_eq!(quantity("0x00"), "0x0");
        assert_eq!(quantity("0x0de0b6b3a7640000"), "0xde0b6b3a7640000");
        assert_eq!(quantity("0x"), "0x0");
    }
}
