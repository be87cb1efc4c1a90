//! Signs the permit of a recurring payout with an account of the local chain, as the payer's wallet would.

use std::io::Read;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::service::chain::Chain;
use xtask::service::permit::typed_data;
use xtask::service::ready::Ready;

/// Reads the response of POST /v2/payouts from a file or standard input; returns the payer's signature.
pub(super) fn sign(ready: &Ready, answer: Option<&Path>) -> Result<String> {
    let text = match answer {
        Some(path) => fs::read_to_string(path).with_context(|| path.display().to_string())?,
        None => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let answer: Value = serde_json::from_str(&text).context("the response of POST /v2/payouts is not JSON")?;
    let (payer, data) = typed_data(&answer)?;
    Chain::of(ready)?.sign_data(payer, &data)
}
