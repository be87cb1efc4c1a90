//! Hypernative: the reputation of addresses under a policy of the Hypernative screener.

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
use std::time::Duration;
use url::Url;

/// Path of the address check.
const PATH: &str = "screener/reputation";

/// Values of `recommendation`.
const APPROVE: &str = "Approve";
const DENY: &str = "Deny";

/// Connection to Hypernative.
#[derive(Debug, Clone)]
pub struct HypernativeOptions {
    /// URL of the API.
    pub url: Url,
    /// Timeout of a check.
    pub timeout: Duration,
    /// First half of the key.
    pub client_id: String,
    /// Second half of the key.
    pub client_secret: String,
    /// Screening policy; `None` for the default of the account.
    pub policy_id: Option<String>,
}

/// Checks wallets with Hypernative.
pub struct Hypernative {
    asked: ScreeningApi,
    url: Url,
    client_id: HeaderValue,
    client_secret: HeaderValue,
    policy_id: Option<String>,
}

/// Request body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HypernativeQuery<'a> {
    addresses: [&'a str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    screener_policy_id: Option<&'a str>,
}

/// Response body: a list under `data`, or the single entry itself.
#[derive(Deserialize)]
struct HypernativeResponse {
    success: Option<bool>,
    data: Option<Vec<HypernativeEntry>>,
    address: Option<String>,
    recommendation: Option<String>,
}

#[derive(Deserialize)]
struct HypernativeEntry {
    address: String,
    recommendation: String,
}

impl Hypernative {
    /// Checks the options. Errors: a part of the key is not a header value, or the URL cannot be extended.
    pub fn new(options: HypernativeOptions) -> anyhow::Result<Self> {
        Ok(Self {
            asked: ScreeningApi::new(ScreeningProvider::Hypernative, options.timeout)?,
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

    async fn screen(&self, wallet: &Address, _: Network) -> Result<ScreeningFinding, ScreeningError> {
        let address = wallet.canonical();
        let question = HypernativeQuery {
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

fn read(text: &str, wallet: &Address) -> Result<ScreeningFinding, NoResult> {
    let answer: HypernativeResponse =
        serde_json::from_str(text).map_err(|_| Broken("returned something that is not a reputation"))?;
    if answer.success == Some(false) {
        return Err(Broken("reports that it failed"));
    }
    let sole = answer.address.zip(answer.recommendation);
    let sole = sole.map(|(address, recommendation)| HypernativeEntry {
        address,
        recommendation,
    });
    let entries: Vec<HypernativeEntry> = answer.data.into_iter().flatten().chain(sole).collect();
    let is_asked = |entry: &&HypernativeEntry| Address::parse(&entry.address).is_ok_and(|address| address == *wallet);
    let mut own = entries
        .iter()
        .filter(is_asked)
        .map(|entry| entry.recommendation.as_str());
    let word = own.next().ok_or(Broken("returned another wallet"))?;
    if own.any(|other| !other.eq_ignore_ascii_case(word)) {
        return Err(Unclear("contradicts itself"));
    }
    let status = match word {
        word if word.eq_ignore_ascii_case(APPROVE) => ScreeningStatus::Approved,
        word if word.eq_ignore_ascii_case(DENY) => ScreeningStatus::Rejected,
        _ => return Err(Unclear("neither approves nor denies")),
    };
    Ok(ScreeningFinding {
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
    fn the_wallets_recommendation_decides_in_any_letter_case_or_position() {
        let upper = WALLET.to_uppercase().replace("0X", "0x");
        let other = entry("0x7ccaf3edda4ca3e1f61c81d19019c92dd250fa26", "Deny");
        let listed = format!(r#"{{"success":true,"data":[{other},{}]}}"#, entry(&upper, "approve"));
        assert_eq!(told(&listed), Ok(ScreeningStatus::Approved));
        assert_eq!(told(&entry(WALLET, "Deny")), Ok(ScreeningStatus::Rejected));
        assert_eq!(told(&other), Err(Broken("returned another wallet")));
        let twice = format!(r#"{{"data":[{0},{0}]}}"#, entry(WALLET, "Deny"));
        assert_eq!(told(&twice), Ok(ScreeningStatus::Rejected), "a repeated entry");
    }

    #[test]
    fn a_self_contradictory_response_is_no_result() {
        let [approves, denies] = ["Approve", "Deny"].map(|word| entry(WALLET, word));
        for both in [[&approves, &denies], [&denies, &approves]] {
            let text = format!(r#"{{"data":[{},{}]}}"#, both[0], both[1]);
            assert_eq!(told(&text), Err(Unclear("contradicts itself")));
            let beside = both[1].replacen('{', &format!(r#"{{"data":[{}],"#, both[0]), 1);
            assert_eq!(told(&beside), Err(Unclear("contradicts itself")));
        }
        let failed = format!(r#"{{"success":false,"error":"x","data":[{approves}]}}"#);
        assert_eq!(told(&failed), Err(Broken("reports that it failed")));
        for word in ["Review", "", "Approved by someone"] {
            assert_eq!(told(&entry(WALLET, word)), Err(Unclear("neither approves nor denies")));
        }
    }

    #[test]
    fn only_known_words_are_results() {
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
            &entry(WALLET, "Approved by someone"),
        ] {
            assert!(told(text).is_err(), "{text}");
        }
    }
}
