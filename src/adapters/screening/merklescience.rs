//! Merkle Science: the risk level of an address on a blockchain.

use super::question::{
    Asked,
    NoResult::{self, Broken, Unclear},
};
use crate::{
    adapters::partner::{below, secret},
    domain::{address::Address, destination::ScreeningProvider, network::Network, screening::ScreeningStatus},
    ports::screening::{Finding, Screener, ScreeningError},
};
use anyhow::Context;
use async_trait::async_trait;
use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use url::Url;

/// Where addresses are asked about.
const PATH: &str = "api/v4.2/addresses/";

/// The highest level; the lowest one is 0, no risk.
const LEVEL_MAX: u8 = 5;

/// How Merkle Science is reached.
#[derive(Debug, Clone)]
pub struct MerkleScienceOptions {
    /// Address of the interface.
    pub url: Url,
    /// How long one question may take.
    pub timeout: Duration,
    /// Key.
    pub api_key: String,
    /// What it calls the networks.
    pub blockchains: BTreeMap<Network, u32>,
    /// The lowest level at which a wallet is rejected.
    pub reject_from: u8,
}

/// Asks Merkle Science.
pub struct MerkleScience {
    asked: Asked,
    url: Url,
    api_key: HeaderValue,
    blockchains: BTreeMap<Network, u32>,
    reject_from: u8,
}

/// What is asked.
#[derive(Serialize)]
struct Question<'a> {
    identifier: &'a str,
    blockchain: &'a str,
}

/// What is answered.
#[derive(Deserialize)]
struct Answer {
    identifier: String,
    risk_level: u8,
    #[serde(default)]
    risk_level_verbose: Option<String>,
}

impl MerkleScience {
    /// Checks the options. Errors: the key is no header value, or the address cannot be extended.
    pub fn new(options: MerkleScienceOptions) -> anyhow::Result<Self> {
        Ok(Self {
            asked: Asked::new(ScreeningProvider::Merklescience, options.timeout)?,
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

    async fn screen(&self, wallet: &Address, network: Network) -> Result<Finding, ScreeningError> {
        let blockchain = self.blockchains.get(&network);
        let blockchain = blockchain.ok_or_else(|| self.asked.error(format!("has no blockchain for {network}")))?;
        let (identifier, blockchain) = (wallet.canonical(), blockchain.to_string());
        let question = Question {
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

fn read(text: &str, wallet: &Address, reject_from: u8) -> Result<Finding, NoResult> {
    let answer: Answer =
        serde_json::from_str(text).map_err(|_| Broken("answers with something that is no risk level"))?;
    if Address::parse(&answer.identifier) != Ok(*wallet) {
        return Err(Broken("answers about another wallet"));
    }
    let level = answer.risk_level;
    if level > LEVEL_MAX {
        return Err(Unclear("answers with a risk level that nobody knows"));
    }
    let status = match level >= reject_from {
        true => ScreeningStatus::Rejected,
        false => ScreeningStatus::Approved,
    };
    let name = answer.risk_level_verbose.unwrap_or_default();
    Ok(Finding {
        status,
        raw_status: format!("{level} {name}").trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALLET: &str = "0x70884132cc85409674e4189b1f17a72f67d2d7ff";

    fn told(text: &str) -> Result<Finding, NoResult> {
        read(text, &Address::parse(WALLET).unwrap(), 3)
    }

    #[test]
    fn a_wallet_is_rejected_from_the_chosen_level_on() {
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
    fn nothing_but_a_known_level_of_this_wallet_is_a_result() {
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
