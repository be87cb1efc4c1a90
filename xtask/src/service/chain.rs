//! The chain node of a running `prs dev`. The node has unlocked its accounts, which pay requests.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::machine::command::{self, POLL};
use crate::service::client::{Call, Client};
use crate::service::ready::Ready;

/// How long a transaction may take to be included in a block of the local chain.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(30);

/// JSON-RPC client.
pub struct Chain(Client);

impl Chain {
    /// A client of the node at a URL.
    pub fn at(rpc_url: &str) -> Self {
        Self(Client::new(rpc_url, Vec::new()))
    }

    /// A client of the node of a running service.
    pub fn of(ready: &Ready) -> Result<Self> {
        Ok(Self::at(ready.member("/chain/rpcUrl")?))
    }

    /// Sends one JSON-RPC call.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut answer = self.0.call("", &Call::Post(&body))?.expect(200)?;
        match answer.get("error") {
            Some(error) => bail!("{method}: {error}"),
            None => Ok(answer["result"].take()),
        }
    }

    /// The chain id of the node.
    pub fn id(&self) -> Result<u64> {
        let id = self.call("eth_chainId", &json!([]))?;
        let digits = id.as_str().and_then(|text| text.strip_prefix("0x"));
        u64::from_str_radix(digits.context("the node returned no chain id")?, 16)
            .context("the chain id is not a number")
    }

    /// The signature of an unlocked account over a text. The text is signed as wallets sign messages.
    pub fn sign_text(&self, account: &str, text: &str) -> Result<String> {
        let bytes = format!("0x{}", hex::encode(text));
        self.signature("personal_sign", &json!([bytes, account]))
    }

    /// The signature of an unlocked account over typed data. The data must include the type of its domain.
    pub fn sign_data(&self, account: &str, data: &Value) -> Result<String> {
        self.signature("eth_signTypedData_v4", &json!([account, data]))
    }

    fn signature(&self, method: &str, params: &Value) -> Result<String> {
        let signature = self.call(method, params)?;
        let text = signature.as_str().context("the node returned no signature")?;
        Ok(text.to_owned())
    }

    /// Sends the transactions of a response from an unlocked account, in order; returns their hashes.
    pub fn send_all(&self, answer: &Value, payer: &str) -> Result<Vec<String>> {
        let transactions = transactions(answer);
        if transactions.is_empty() {
            bail!("the response has no transactions: {answer}");
        }
        let sent = transactions
            .into_iter()
            .map(|transaction| self.send(payer, transaction));
        sent.collect()
    }

    /// Sends one transaction of a response from an unlocked account; returns its hash after it succeeded.
    fn send(&self, from: &str, transaction: &Value) -> Result<String> {
        let value = quantity(&transaction["value"]).context("a transaction has no readable value")?;
        let call = json!({"from": from, "to": transaction["to"], "data": transaction["data"], "value": value});
        let hash = self.call("eth_sendTransaction", &json!([call]))?;
        let hash = hash
            .as_str()
            .context("the node returned no transaction hash")?
            .to_owned();
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
            "transaction {hash} was not included in a block within {} s",
            RECEIPT_TIMEOUT.as_secs()
        )
    }
}

/// Fetches the transactions that pay a request and sends them from an account; returns their hashes.
pub fn pay(service: &Client, ready: &Ready, request_id: &str, account: usize) -> Result<Vec<String>> {
    let payer = ready.account(account)?;
    let answer = service.get(&format!("/v2/request/{request_id}/pay?wallet={payer}"))?;
    send_all(ready, &answer, account)
}

/// Sends the transactions of a response from an account, in order; returns their hashes.
pub fn send_all(ready: &Ready, answer: &Value, account: usize) -> Result<Vec<String>> {
    Chain::of(ready)?.send_all(answer, ready.account(account)?)
}

/// The transactions in a response of `/pay`, of a payout or of a batch: approvals first, the payment last.
fn transactions(answer: &Value) -> Vec<&Value> {
    let lists = ["transactions", "ERC20ApprovalTransactions"].into_iter();
    let listed = lists.filter_map(|name| answer[name].as_array()).flatten();
    listed.chain(answer.get("batchPaymentTransaction")).collect()
}

/// A number as a JSON-RPC quantity, without leading zeros. The number may be an object (in requests and payouts), a
/// string (in links), or a plain number (in batch approvals).
fn quantity(value: &Value) -> Option<String> {
    if let Some(number) = value.as_u64() {
        return Some(format!("{number:#x}"));
    }
    let text = value.as_str().or(value["hex"].as_str())?;
    let digits = text.strip_prefix("0x")?.trim_start_matches('0');
    Some(format!("0x{}", if digits.is_empty() { "0" } else { digits }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_no_leading_zeros() {
        let big = |hex: &str| quantity(&json!({"type": "BigNumber", "hex": hex}));
        assert_eq!(big("0x00").unwrap(), "0x0");
        assert_eq!(big("0x0de0b6b3a7640000").unwrap(), "0xde0b6b3a7640000");
        assert_eq!(big("0x").unwrap(), "0x0");
        assert_eq!(quantity(&json!(0)).unwrap(), "0x0");
        assert_eq!(quantity(&json!("0x0")).unwrap(), "0x0");
        assert_eq!(quantity(&json!("0x16345785d8a0000")).unwrap(), "0x16345785d8a0000");
        assert_eq!(quantity(&json!("1")), None);
    }

    #[test]
    fn approvals_come_before_the_payment_of_a_batch() {
        let batch = json!({"batchPaymentTransaction": 3, "ERC20ApprovalTransactions": [1, 2], "requestIds": ["01"]});
        assert_eq!(transactions(&batch), [&json!(1), &json!(2), &json!(3)]);
        assert_eq!(
            transactions(&json!({"transactions": [1, 2], "metadata": {}})),
            [&json!(1), &json!(2)]
        );
        assert!(transactions(&json!({"message": "Not Found"})).is_empty());
    }
}
