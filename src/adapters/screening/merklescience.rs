//! Merkle Science: the risk level of an address on a blockchain.

use super::question::{
    NoResult::{self, Broken, Unclear},
    ScreeningApi,
};
use crate::{
    adapters::partner::{below, secret},
    domain::{address::Address, destination::ScreeningProvider, network::Network, screening::ScreeningStatus},
    ports::screening::{Screener, ScreeningError, ScreeningFinding},
};
use anyhow::Context;
use async_trait::async_trait;
use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use url::Url;

/// Path of the address check.
const PATH: &str = "api/v4.2/addresses/";

/// The highest risk level; 0, the lowest, means no risk.
const LEVEL_MAX: u8 = 5;

/// Connection to Merkle Science.
#[derive(Debug, Clone)]
pub struct MerkleScienceOptions {
    /// URL of the API.
    pub url: Url,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Key.
    pub api_key: String,
    /// Merkle Science's own ids of the networks.
    pub blockchains: BTreeMap<Network, u32>,
    /// The lowest level at which a wallet is rejected.
    pub reject_from: u8,
}

/// Checks wallets with Merkle Science.
pub struct MerkleScience {
    asked: ScreeningApi,
    url: Url,
    api_key: HeaderValue,
    blockchains: BTreeMap<Network, u32>,
    reject_from: u8,
}

/// Request body.
#[derive(Serialize)]
struct MerkleQuery<'a> {
    identifier: &'a str,
    blockchain: &'a str,
}

/// Response body.
#[derive(Deserialize)]
struct MerkleResponse {
    identifier: String,
    risk_level: u8,
    #[serde(default)]
    risk_level_verbose: Option<String>,
}

impl MerkleScience {
    /// Checks the options. Errors: the key is not a header value, or the URL cannot be extended.
    pub fn new(options: MerkleScienceOptions) -> anyhow::Result<Self> {
        Ok(Self {
            asked: ScreeningApi::new(ScreeningProvider::Merklescience, options.timeout)?,
            url: below(&options.url, PATH).context("screening.merklescience_url")?,
            api_key: secret(&options.api_key, "screening.merklescience_api_key")?,
            blockchains: options.blockchains,
            reject_from: options.reject_from,
        })
    }
}

#[async_trait]
impl Screener for MerkleScience {
    fn provider(&self) -> ScreeningProvider {
        self.asked.provider()
    }

    async fn screen(&self, wallet: &Address, network: Network) -> Result<ScreeningFinding, ScreeningError> {
        let blockchain = self.blockchains.get(&network);
        let blockchain =
            blockchain.ok_or_else(|| self.asked.error(format!("has no blockchain number for {network}")))?;
        let (identifier, blockchain) = (wallet.canonical(), blockchain.to_string());
        let question = MerkleQuery {
            identifier: &identifier,
            blockchain: &blockchain,
        };
        let call = |client: &reqwest::Client| {
            let call = client.post(self.url.clone()).json(&question);
            call.header("x-api-key", self.api_key.clone())
        };
        let read = |text: &str| read(text, wallet, self.reject_from);
        self.asked.ask(call, read).await
    }
}

fn read(text: &str, wallet: &Address, reject_from: u8) -> Result<ScreeningFinding, NoResult> {
    let answer: MerkleResponse =
        serde_json::from_str(text).map_err(|_| Broken("returned something that is not a risk level"))?;
    if Address::parse(&answer.identifier) != Ok(*wallet) {
        return Err(Broken("returned another wallet"));
    }
    let level = answer.risk_level;
    if level > LEVEL_MAX {
        return Err(Unclear("returned an unknown risk level"));
    }
    let status = if level >= reject_from {
        ScreeningStatus::Rejected
    } else {
        ScreeningStatus::Approved
    };
    let name = answer.risk_level_verbose.unwrap_or_default();
    Ok(ScreeningFinding {
        status,
        raw_status: format!("{level} {name}").trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALLET: &str = "0x70884132cc85409674e4189b1f17a72f67d2d7ff";

    fn told(text: &str) -> Result<ScreeningFinding, NoResult> {
        read(text, &Address::parse(WALLET).unwrap(), 3)
    }

    #[test]
    fn wallets_at_or_above_the_chosen_level_are_rejected() {
        for (level, status) in [
            (0, ScreeningStatus::Approved),
            (2, ScreeningStatus::Approved),
            (3, ScreeningStatus::Rejected),
            (5, ScreeningStatus::Rejected),
        ] {
            let text = format!(r#"{{"identifier":"{WALLET}","risk_level":{level},"risk_level_verbose":"Info"}}"#);
            let finding = told(&text).unwrap();
            assert_eq!((finding.status, finding.raw_status), (status, format!("{level} Info")));
        }
    }

    #[test]
    fn only_a_known_level_of_this_wallet_is_a_result() {
        for text in [
            "",
            "null",
            "{}",
            r#"{"risk_level":0}"#,
            r#"{"identifier":"0x70884132cc85409674e4189b1f17a72f67d2d7ff"}"#,
            r#"{"identifier":"0x70884132cc85409674e4189b1f17a72f67d2d7ff","risk_level":null}"#,
            r#"{"identifier":"0x70884132cc85409674e4189b1f17a72f67d2d7ff","risk_level":"0"}"#,
            r#"{"identifier":"0x70884132cc85409674e4189b1f17a72f67d2d7ff","risk_level":-1}"#,
            r#"{"identifier":"0x70884132cc85409674e4189b1f17a72f67d2d7ff","risk_level":6}"#,
            r#"{"identifier":"0x7ccaf3edda4ca3e1f61c81d19019c92dd250fa26","risk_level":0}"#,
        ] {
            assert!(told(text).is_err(), "{text}");
        }
    }
}
