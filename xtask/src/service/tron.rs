//! The signatures of wallets on Tron, which tronweb makes in `devnet/`.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::machine::workspace;

/// Signs the unsigned transactions in a response of `/pay` with a private key; returns them in the same order.
pub fn sign(answer: &Value, private_key: &str) -> Result<Vec<Value>> {
    let transactions = unsigned(answer);
    if transactions.is_empty() {
        bail!("the response has nothing to sign on Tron; it needs the paying wallet in `wallet`: {answer}");
    }
    let mut node = Command::new("node")
        .arg(workspace::root().join("devnet/tron/sign.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("tronweb needs Node.js: put `node` on the PATH")?;
    let input = json!({ "privateKey": private_key, "transactions": transactions }).to_string();
    // The input ends here, when the pipe is dropped.
    let mut pipe = node.stdin.take().context("node has no standard input")?;
    pipe.write_all(input.as_bytes())?;
    drop(pipe);
    let output = node.wait_with_output()?;
    if !output.status.success() {
        bail!("tronweb did not sign");
    }
    let signed = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    signed
        .collect::<Result<Vec<Value>, _>>()
        .context("tronweb printed no JSON")
}

fn unsigned(answer: &Value) -> Vec<&Value> {
    let transactions = answer["transactions"].as_array().into_iter().flatten();
    transactions
        .filter(|transaction| transaction["raw_data_hex"].is_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_unsigned_transactions_is_an_error() {
        for answer in [
            json!({}),
            json!({ "transactions": [{ "to": "TCUDPYnS9dH3WvFEaE7wN7vnDa51J4R4fd", "data": "0x" }] }),
        ] {
            let error = sign(&answer, "0x01").unwrap_err();
            assert!(error.to_string().contains("nothing to sign"), "{error}");
        }
    }
}
