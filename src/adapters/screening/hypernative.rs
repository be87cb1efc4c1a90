//! Hypernative: the reputation of addresses under a policy of its screener.

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
use std::time::Duration;
use url::Url;

/// Where addresses are asked about.
const PATH: &str = "screener/reputation";

/// Words of `recommendation`.
const APPROVE: &str = "Approve";
const DENY: &str = "Deny";

/// How Hypernative is reached.
#[derive(Debug, Clone)]
pub struct HypernativeOptions {
    /// Address of the interface.
    pub url: Url,
    /// How long one question may take.
    pub timeout: Duration,
    /// First half of the key.
    pub client_id: String,
    /// Second half of the key.
    pub client_secret: String,
    /// Policy; `None` for the default one of the account.
    pub policy_id: Option<String>,
}

/// Asks Hypernative.
pub struct Hypernative {
    asked: Asked,
    url: Url,
    client_id: HeaderValue,
    client_secret: HeaderValue,
    policy_id: Option<String>,
}

/// What is asked.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    addresses: [&'a str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    screener_policy_id: Option<&'a str>,
}

/// What is answered: a list under `data`, or the one entry itself.
#[derive(Deserialize)]
struct Answer {
    success: Option<bool>,
    data: Option<Vec<Entry>>,
    address: Option<String>,
    recommendation: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    address: String,
    recommendation: String,
}

impl Hypernative {
    /// Checks the options. Errors: half of the key is no header value, or the address cannot be extended.
    pub fn new(options: HypernativeOptions) -> anyhow::Result<Self> {
        Ok(Self {
            asked: Asked::new(ScreeningProvider::Hypernative, options.timeout)?,
            url: below(&options.url, PATH).context("screening.hypernative_url")?,
            client_id: secret(&options.client_id, "screening.hypernative_client_id")?,
            client_secret: secret(&options.client_secret, "screening.hypernative_client_secret")?,
            policy_id: options.policy_id,
        })
    }
}

#[async_trait]
impl Screener for Hypernative {
    fn provider(&self) -> ScreeningProvider {
        self.asked.provider()
    }

    async fn screen(&self, wallet: &Address, _: Network) -> Result<Finding, ScreeningError> {
        let address = wallet.canonical();
        let question = Question {
            addresses: [&address],
            screener_policy_id: self.policy_id.as_deref(),
        };
        let call = |client: &reqwest::Client| {
            let call = client.post(self.url.clone()).json(&question);
            let call = call.header("x-client-id", self.client_id.clone());
            call.header("x-client-secret", self.client_secret.clone())
        };
        self.asked.ask(call, |text| read(text, wallet)).await
    }
}

fn read(text: &str, wallet: &Address) -> Result<Finding, NoResult> {
    let answer: Answer =
        serde_json::from_str(text).map_err(|_| Broken("answers with something that is no reputation"))?;
    if answer.success == Some(false) {
        return Err(Broken("says that it failed"));
    }
    let sole = answer.address.zip(answer.recommendation);
    let sole = sole.map(|(address, recommendation)| Entry {
        address,
        recommendation,
    });
    let entries: Vec<Entry> = answer.data.into_iter().flatten().chain(sole).collect();
    let is_asked = |entry: &&Entry| Address::parse(&entry.address).is_ok_and(|address| address == *wallet);
    let mut own = entries
        .iter()
        .filter(is_asked)
        .map(|entry| entry.recommendation.as_str());
    let word = own.next().ok_or(Broken("answers about another wallet"))?;
    if own.any(|other| !other.eq_ignore_ascii_case(word)) {
        return Err(Unclear("contradicts itself"));
    }
    let status = match word {
        word if word.eq_ignore_ascii_case(APPROVE) => ScreeningStatus::Approved,
        word if word.eq_ignore_ascii_case(DENY) => ScreeningStatus::Rejected,
        _ => return Err(Unclear("neither approves nor denies")),
    };
    Ok(Finding {
        status,
        raw_status: word.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALLET: &str = "0x70884132cc85409674e4189b1f17a72f67d2d7ff";

    fn told(text: &str) -> Result<ScreeningStatus, NoResult> {
        read(text, &Address::parse(WALLET).unwrap()).map(|finding| finding.status)
    }

    fn entry(address: &str, recommendation: &str) -> String {
        format!(r#"{{"address":"{address}","recommendation":"{recommendation}","severity":"High","flags":[]}}"#)
    }

    #[test]
    fn the_recommendation_about_the_wallet_decides_in_any_case_and_place() {
        let upper = WALLET.to_uppercase().replace("0X", "0x");
        let other = entry("0x7ccaf3edda4ca3e1f61c81d19019c92dd250fa26", "Deny");
        let listed = format!(r#"{{"success":true,"data":[{other},{}]}}"#, entry(&upper, "approve"));
        assert_eq!(told(&listed), Ok(ScreeningStatus::Approved));
        assert_eq!(told(&entry(WALLET, "Deny")), Ok(ScreeningStatus::Rejected));
        assert_eq!(told(&other), Err(Broken("answers about another wallet")));
        let twice = format!(r#"{{"data":[{0},{0}]}}"#, entry(WALLET, "Deny"));
        assert_eq!(told(&twice), Ok(ScreeningStatus::Rejected), "said twice");
    }

    #[test]
    fn an_answer_that_contradicts_itself_is_none() {
        let [approves, denies] = ["Approve", "Deny"].map(|word| entry(WALLET, word));
        for both in [[&approves, &denies], [&denies, &approves]] {
            let text = format!(r#"{{"data":[{},{}]}}"#, both[0], both[1]);
            assert_eq!(told(&text), Err(Unclear("contradicts itself")));
            let beside = both[1].replacen('{', &format!(r#"{{"data":[{}],"#, both[0]), 1);
            assert_eq!(told(&beside), Err(Unclear("contradicts itself")));
        }
        let failed = format!(r#"{{"success":false,"error":"x","data":[{approves}]}}"#);
        assert_eq!(told(&failed), Err(Broken("says that it failed")));
        for word in ["Review", "", "Approved by nobody"] {
            assert_eq!(told(&entry(WALLET, word)), Err(Unclear("neither approves nor denies")));
        }
    }

    #[test]
    fn nothing_but_a_known_word_is_a_result() {
        for text in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"data":null}"#,
            r#"{"data":[]}"#,
            r#"{"data":[{"address":"0x70884132cc85409674e4189b1f17a72f67d2d7ff"}]}"#,
            r#"{"data":[{"recommendation":"Approve"}]}"#,
            r#"{"success":false,"error":"Unauthorized"}"#,
            &entry(WALLET, "Review"),
            &entry(WALLET, ""),
            &entry(WALLET, "Approved by nobody"),
        ] {
            assert!(told(text).is_err(), "{text}");
        }
    }
}
