//! The providers that screen wallets.

use super::addresses::{is_loopback, protected};
use crate::domain::{destination::ScreeningProvider, network::Network};
use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use url::Url;

/// Which providers screen wallets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScreeningSource {
    /// None.
    #[default]
    Off,
    /// The sandbox of `prs dev`.
    Sandbox,
    /// Providers over HTTP.
    Http,
}

/// Screening of wallets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScreeningSettings {
    /// Whether the other configured provider is queried when the selected one does not respond. A result is final: a
    /// wallet rejected by one provider is not sent to the other.
    pub backup: bool,
    /// URL of Hypernative.
    pub hypernative_url: String,
    /// Client ID for Hypernative. The service uses Hypernative if client ID and client secret are set.
    pub hypernative_client_id: Option<String>,
    /// Client secret for Hypernative.
    pub hypernative_client_secret: Option<String>,
    /// Screener policy of Hypernative, a UUID. If absent, the default policy of the account applies.
    pub hypernative_policy_id: Option<String>,
    /// URL of Merkle Science.
    pub merklescience_url: String,
    /// API key of Merkle Science. The service uses Merkle Science if this key is set.
    pub merklescience_api_key: Option<String>,
    /// Minimum risk level at which a wallet is rejected, from 0 (no risk) to 5 (critical).
    #[schemars(range(min = 1, max = 5))]
    pub merklescience_reject_from: u8,
    /// Blockchain numbers of Merkle Science, by network ID. Merkle Science lists them for your key under
    /// `/api/v4.2/blockchains/`.
    pub merklescience_blockchains: BTreeMap<String, u32>,
}

impl Default for ScreeningSettings {
    fn default() -> Self {
        let blockchains = [
            ("mainnet", 1),
            ("bsc", 8),
            ("matic", 9),
            ("tron", 10),
            ("optimism", 16),
            ("arbitrum-one", 17),
            // A wallet of the test network is screened by its activity on mainnet.
            ("sepolia", 1),
        ];
        Self {
            backup: true,
            hypernative_url: "https://api.hypernative.xyz".to_owned(),
            hypernative_client_id: None,
            hypernative_client_secret: None,
            hypernative_policy_id: None,
            merklescience_url: "https://api.merklescience.com".to_owned(),
            merklescience_api_key: None,
            merklescience_reject_from: 3,
            merklescience_blockchains: blockchains.map(|(id, number)| (id.to_owned(), number)).into(),
        }
    }
}

impl ScreeningSettings {
    /// Checks that the configured providers can screen every enabled network.
    pub(super) fn validate(
        &self,
        source: ScreeningSource,
        is_production: bool,
        enabled: impl Iterator<Item = Network>,
    ) -> anyhow::Result<()> {
        let urls = [
            ("hypernative_url", self.hypernative_url()?),
            ("merklescience_url", self.merklescience_url()?),
        ];
        for (name, key) in [
            ("hypernative_client_id", &self.hypernative_client_id),
            ("hypernative_client_secret", &self.hypernative_client_secret),
            ("merklescience_api_key", &self.merklescience_api_key),
        ] {
            if key.as_ref().is_some_and(|key| key.trim().is_empty()) {
                bail!("screening.{name}: must not be blank; remove it if there is no value");
            }
        }
        if !self.hypernative_policy_id.iter().all(|id| is_uuid(id)) {
            bail!(
                "screening.hypernative_policy_id: must be a UUID such as e10bd3b9-89fc-4e78-8ffc-b5602adcfb34; remove it for \
                 the default policy of the account"
            );
        }
        if self.hypernative_client_id.is_some() != self.hypernative_client_secret.is_some() {
            bail!("screening.hypernative_client_secret: must be set together with screening.hypernative_client_id");
        }
        let blockchains = self.blockchains()?;
        match source {
            ScreeningSource::Off => return Ok(()),
            ScreeningSource::Sandbox if is_production => {
                bail!("partners.screening: sandbox is for development; choose http or off, or http.production false")
            }
            ScreeningSource::Sandbox => {
                if let Some((name, _)) = urls.iter().find(|(_, url)| !is_loopback(url)) {
                    bail!(
                        "screening.{name}: only `prs dev` runs the sandbox of partners.screening; choose http or off"
                    );
                }
            }
            ScreeningSource::Http if self.offered().is_empty() => bail!(
                "screening.hypernative_client_id: partners.screening = \"http\" requires a key of one provider: \
                 screening.hypernative_client_id and _client_secret, or screening.merklescience_api_key"
            ),
            ScreeningSource::Http => {}
        }
        if self.merklescience_api_key.is_some() {
            for network in enabled {
                if !blockchains.contains_key(&network) {
                    bail!(
                        "screening.merklescience_blockchains: must contain the blockchain number of {network}, \
                         because that network is enabled"
                    );
                }
            }
        }
        Ok(())
    }

    /// The providers with a configured key.
    pub fn offered(&self) -> Vec<ScreeningProvider> {
        let has_hypernative = self.hypernative_client_id.is_some() && self.hypernative_client_secret.is_some();
        let known = [
            (ScreeningProvider::Hypernative, has_hypernative),
            (ScreeningProvider::Merklescience, self.merklescience_api_key.is_some()),
        ];
        known
            .into_iter()
            .filter_map(|(provider, has_key)| has_key.then_some(provider))
            .collect()
    }

    /// URL of Hypernative. Errors: it is neither https nor on this machine, or it has a user name, query or fragment.
    pub fn hypernative_url(&self) -> anyhow::Result<Url> {
        protected("screening.hypernative_url", &self.hypernative_url)
    }

    /// URL of Merkle Science. Errors: as for [`Self::hypernative_url`].
    pub fn merklescience_url(&self) -> anyhow::Result<Url> {
        protected("screening.merklescience_url", &self.merklescience_url)
    }

    /// Blockchain numbers of Merkle Science. Errors: an unknown network.
    pub fn blockchains(&self) -> anyhow::Result<BTreeMap<Network, u32>> {
        let known = self.merklescience_blockchains.iter().map(|(id, number)| {
            let network = Network::from_id(id).with_context(|| {
                let ids = Network::ids_in_words();
                format!("screening.merklescience_blockchains.{id}: unknown network; supported networks are {ids}")
            })?;
            anyhow::Ok((network, *number))
        });
        known.collect()
    }
}

/// Whether a string is a UUID in its usual form.
fn is_uuid(text: &str) -> bool {
    let groups = text.split('-');
    groups.clone().map(str::len).eq([8, 4, 4, 4, 12])
        && groups.flat_map(str::bytes).all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(
        source: ScreeningSource,
        is_production: bool,
        change: impl FnOnce(&mut ScreeningSettings),
    ) -> Option<String> {
        let mut settings = ScreeningSettings::default();
        change(&mut settings);
        let enabled = [Network::Mainnet, Network::Base].into_iter();
        let checked = settings.validate(source, is_production, enabled);
        checked.err().map(|error| format!("{error:#}"))
    }

    fn local(settings: &mut ScreeningSettings) {
        settings.hypernative_url = "http://127.0.0.1:1".to_owned();
        settings.merklescience_url = "http://localhost:1".to_owned();
    }

    #[test]
    fn production_never_starts_with_a_sandbox() {
        assert_eq!(refusal(ScreeningSource::Sandbox, false, local), None);
        let in_production = refusal(ScreeningSource::Sandbox, true, local).expect("refused");
        assert!(in_production.starts_with("partners.screening: "), "{in_production}");
        let real = refusal(ScreeningSource::Sandbox, false, |_| {}).expect("refused");
        assert!(real.starts_with("screening.hypernative_url: "), "{real}");
    }

    #[test]
    fn a_provider_needs_its_key_and_an_id_for_every_network() {
        assert_eq!(refusal(ScreeningSource::Off, true, |_| {}), None);
        let key = |it: &mut ScreeningSettings| it.merklescience_api_key = Some("k".to_owned());
        let both = |it: &mut ScreeningSettings| {
            it.hypernative_client_id = Some("i".to_owned());
            it.hypernative_client_secret = Some("s".to_owned());
        };
        assert_eq!(refusal(ScreeningSource::Http, true, both), None);
        for (id, fits) in [
            ("e10bd3b9-89fc-4e78-8ffc-b5602adcfb34", true),
            ("E10BD3B9-89FC-4E78-8FFC-B5602ADCFB34", true),
            ("", false),
            ("default", false),
            ("e10bd3b989fc4e788ffcb5602adcfb34", false),
            ("g10bd3b9-89fc-4e78-8ffc-b5602adcfb34", false),
        ] {
            let refused = refusal(ScreeningSource::Http, true, |it| {
                both(it);
                it.hypernative_policy_id = Some(id.to_owned());
            });
            assert_eq!(refused.is_none(), fits, "{id}");
        }
        let named = |it: &mut ScreeningSettings| {
            key(it);
            it.merklescience_blockchains.insert("base".to_owned(), 7);
        };
        assert_eq!(refusal(ScreeningSource::Http, true, named), None);
        for (refusal, name) in [
            (
                refusal(ScreeningSource::Http, true, |_| {}),
                "screening.hypernative_client_id:",
            ),
            (
                refusal(ScreeningSource::Http, true, |it| {
                    it.hypernative_client_id = Some("i".to_owned())
                }),
                "screening.hypernative_client_secret:",
            ),
            (
                refusal(ScreeningSource::Http, true, key),
                "screening.merklescience_blockchains:",
            ),
            (
                refusal(ScreeningSource::Off, true, |it| {
                    it.merklescience_blockchains.insert("polygon".to_owned(), 1);
                }),
                "screening.merklescience_blockchains.polygon:",
            ),
            (
                refusal(ScreeningSource::Off, true, |it| {
                    it.hypernative_url = "http://a.example".to_owned()
                }),
                "screening.hypernative_url:",
            ),
            (
                refusal(ScreeningSource::Off, true, |it| {
                    it.merklescience_url = "a.example".to_owned()
                }),
                "screening.merklescience_url:",
            ),
            (
                refusal(ScreeningSource::Off, true, |it| {
                    it.hypernative_client_id = Some(String::new());
                    it.hypernative_client_secret = Some("s".to_owned());
                }),
                "screening.hypernative_client_id: must not be blank",
            ),
            (
                refusal(ScreeningSource::Off, true, |it| {
                    it.hypernative_client_id = Some("i".to_owned());
                    it.hypernative_client_secret = Some(" ".to_owned());
                }),
                "screening.hypernative_client_secret: must not be blank",
            ),
        ] {
            let refusal = refusal.expect("refused");
            assert!(refusal.starts_with(name), "{refusal}");
        }
    }
}
