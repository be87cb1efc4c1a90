//! The chain node behind a running `prs dev`, whose accounts are unlocked: what pays a request.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xtask::machine::command::{self, POLL};
use xtask::service::client::{Call, Client};

use super::ready::Ready;

/// How long a transaction may take to be in a block of the local chain.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Speaks JSON-RPC.
struct Chain(Client);

impl Chain {
    fn call(&self, method: &str, params: &Value) -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut answer = self.0.call("", &Call::Post(&body))?.expect(200)?;
        match answer.get("error") {
            Some(error) => bail!("{method}: {error}"),
            None => Ok(answer["result"].take()),
        }
    }

    /// Sends one transaction of the pay answer from an unlocked account; returns its hash once it succeeded.
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

/// Asks the service for the transactions that pay a request and sends them in order from the first account; returns
/// their hashes.
pub(super) fn pay(service: &Client, ready: &Ready, request_id: &str) -> Result<Vec<String>> {
    let chain = Chain(Client::new(ready.member("/chain/rpcUrl")?, Vec::new()));
    let payer = ready.account(0)?;
    let pay = service.get(&format!("/v2/request/{request_id}/pay?wallet={payer}"))?;
    let transactions = pay["transactions"].as_array().filter(|list| !list.is_empty());
    let transactions = transactions.context("the pay answer has no transactions")?;
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
