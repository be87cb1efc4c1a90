//! The partner that verifies payers and pays their bank accounts.

use super::addresses::{is_loopback, protected};
use crate::domain::{address::Address, ids::Secret, network::Network};
use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// Minimum length of a signing secret.
const SECRET_LENGTH_MIN: usize = 32;

/// Which partner verifies payers and pays their bank accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffRampSource {
    /// None.
    #[default]
    Off,
    /// The sandbox of `prs dev`.
    Sandbox,
    /// A partner over HTTP.
    Http,
}

/// The partner that verifies payers and pays their bank accounts. `docs/partners/offramp.md` describes its API.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OffRampSettings {
    /// URL of the partner, for example `https://bridge.example.com/offramp`.
    pub url: Option<String>,
    /// Id of the key that signs calls to the partner; it is sent with each call.
    pub key_id: Option<String>,
    /// The signing key, at least 32 characters; it is never sent.
    pub key_secret: Option<String>,
    /// Secret with which the partner signs its callbacks, at least 32 characters.
    pub callback_secret: Option<String>,
    /// The previous callback secret, while the partner may still use it.
    pub former_callback_secret: Option<String>,
    /// The only accepted deposit addresses, by network ID. Without an entry for a network, every wallet is accepted.
    pub deposit_addresses: BTreeMap<String, Vec<String>>,
}

/// How to reach the partner.
#[derive(Debug, Clone)]
pub struct OffRampAccess {
    /// URL.
    pub url: Url,
    /// Id of the signing key.
    pub key_id: String,
    /// Signing key.
    pub key_secret: Secret,
    /// Secrets with which the partner signs its callbacks, the current one first.
    pub callback_secrets: Vec<Secret>,
}

impl OffRampSettings {
    /// Checks what types cannot express.
    pub(super) fn validate(&self, source: OffRampSource, is_production: bool) -> anyhow::Result<()> {
        let url = self.address()?;
        let secrets = [
            ("key_secret", &self.key_secret),
            ("callback_secret", &self.callback_secret),
            ("former_callback_secret", &self.former_callback_secret),
        ];
        for (index, (name, secret)) in secrets.iter().enumerate() {
            let Some(text) = secret else { continue };
            if text.trim().len() < SECRET_LENGTH_MIN {
                bail!("offramp.{name}: must have at least {SECRET_LENGTH_MIN} characters");
            }
            let mut before = secrets.iter().take(index);
            if let Some((other, _)) = before.find(|(_, other)| other == secret) {
                bail!("offramp.{name}: must differ from offramp.{other}");
            }
        }
        if self.former_callback_secret.is_some() && self.callback_secret.is_none() {
            bail!("offramp.former_callback_secret: requires offramp.callback_secret");
        }
        if self.key_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
            bail!("offramp.key_id: must not be empty");
        }
        if self
            .key_id
            .as_ref()
            .is_some_and(|id| !id.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            bail!(
                "offramp.key_id: must consist of printable ASCII characters without spaces, because it is sent in a \
                   header"
            );
        }
        self.deposits()?;
        match source {
            OffRampSource::Off => Ok(()),
            OffRampSource::Sandbox if is_production => {
                bail!("partners.offramp: sandbox is for development; choose http or off, or http.production false")
            }
            OffRampSource::Sandbox if url.as_ref().is_some_and(|url| !is_loopback(url)) => {
                bail!("offramp.url: only `prs dev` runs the sandbox of partners.offramp; choose http or off")
            }
            OffRampSource::Sandbox | OffRampSource::Http => self.access().map(drop),
        }
    }

    /// How to reach the partner. Errors: the first missing setting.
    pub fn access(&self) -> anyhow::Result<OffRampAccess> {
        let needed = |name: &str, value: &Option<String>| {
            value.clone().with_context(|| {
                format!(
                    "offramp.{name}: partners.offramp requires offramp.url, offramp.key_id, offramp.key_secret and \
                     offramp.callback_secret"
                )
            })
        };
        needed("url", &self.url)?;
        let url = self.address()?.context("offramp.url")?;
        let present = needed("callback_secret", &self.callback_secret)?;
        let secrets = [Some(present), self.former_callback_secret.clone()];
        Ok(OffRampAccess {
            url,
            key_id: needed("key_id", &self.key_id)?,
            key_secret: Secret::new(needed("key_secret", &self.key_secret)?),
            callback_secrets: secrets.into_iter().flatten().map(Secret::new).collect(),
        })
    }

    fn address(&self) -> anyhow::Result<Option<Url>> {
        self.url
            .as_deref()
            .map(|text| protected("offramp.url", text))
            .transpose()
    }

    /// The accepted deposit addresses; for a network without an entry, every wallet is accepted.
    ///
    /// Errors: an unknown network, or an invalid address.
    pub fn deposits(&self) -> anyhow::Result<BTreeMap<Network, BTreeSet<Address>>> {
        let known = self.deposit_addresses.iter().map(|(id, addresses)| {
            let network = Network::from_id(id).with_context(|| {
                let ids = Network::ids_in_words();
                format!("offramp.deposit_addresses.{id}: unknown network; supported networks are {ids}")
            })?;
            let addresses = addresses.iter().map(|text| {
                let address = Address::parse_on(text, network);
                address.with_context(|| format!("offramp.deposit_addresses.{id}: every entry must be an address"))
            });
            anyhow::Ok((network, addresses.collect::<anyhow::Result<_>>()?))
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> OffRampSettings {
        OffRampSettings {
            url: Some("https://bridge.example.com/offramp".to_owned()),
            key_id: Some("prs".to_owned()),
            key_secret: Some("k".repeat(32)),
            callback_secret: Some("c".repeat(32)),
            ..OffRampSettings::default()
        }
    }

    fn refusal(source: OffRampSource, is_production: bool, change: impl FnOnce(&mut OffRampSettings)) -> String {
        let mut settings = whole();
        change(&mut settings);
        let checked = settings.validate(source, is_production);
        checked.err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn off_ramp_settings_are_either_all_set_or_all_absent() {
        let none = OffRampSettings::default();
        assert!(none.validate(OffRampSource::Off, true).is_ok());
        assert_eq!(refusal(OffRampSource::Http, true, |_| {}), "");
        assert_eq!(whole().access().expect("set").callback_secrets.len(), 1);
        let former = |it: &mut OffRampSettings| it.former_callback_secret = Some("f".repeat(32));
        assert_eq!(refusal(OffRampSource::Http, true, former), "");
    }

    #[test]
    fn production_never_starts_with_a_sandbox() {
        let local = |it: &mut OffRampSettings| it.url = Some("http://127.0.0.1:1".to_owned());
        assert_eq!(refusal(OffRampSource::Sandbox, false, local), "");
        assert!(refusal(OffRampSource::Sandbox, true, local).starts_with("partners.offramp: "));
        assert!(refusal(OffRampSource::Sandbox, false, |_| {}).starts_with("offramp.url: "));
    }

    #[test]
    fn missing_and_invalid_settings_are_reported() {
        type Change = fn(&mut OffRampSettings);
        let cases: [(OffRampSource, Change, &str); 20] = [
            (
                OffRampSource::Http,
                |it| it.url = None,
                "offramp.url: partners.offramp requires",
            ),
            (
                OffRampSource::Http,
                |it| it.key_id = None,
                "offramp.key_id: partners.offramp requires",
            ),
            (
                OffRampSource::Http,
                |it| it.key_secret = None,
                "offramp.key_secret: partners.offramp requires",
            ),
            (
                OffRampSource::Http,
                |it| it.callback_secret = None,
                "offramp.callback_secret: partners.offramp requires",
            ),
            (
                OffRampSource::Off,
                |it| it.key_secret = Some("k".repeat(31)),
                "offramp.key_secret: must have",
            ),
            (
                OffRampSource::Off,
                |it| it.former_callback_secret = Some("f".to_owned()),
                "offramp.former_callback_secret: must have",
            ),
            (
                OffRampSource::Off,
                |it| {
                    it.callback_secret = None;
                    it.former_callback_secret = Some("f".repeat(32));
                },
                "offramp.former_callback_secret: requires offramp",
            ),
            (
                OffRampSource::Off,
                |it| it.callback_secret = it.key_secret.clone(),
                "offramp.callback_secret: must differ from",
            ),
            (
                OffRampSource::Off,
                |it| it.former_callback_secret = it.key_secret.clone(),
                "offramp.former_callback_secret: must differ from offramp.key_secret",
            ),
            (
                OffRampSource::Off,
                |it| it.former_callback_secret = it.callback_secret.clone(),
                "offramp.former_callback_secret: must differ from offramp.callback_secret",
            ),
            (
                OffRampSource::Off,
                |it| it.key_id = Some(String::new()),
                "offramp.key_id: must not be empty",
            ),
            (
                OffRampSource::Http,
                |it| it.key_id = Some(" ".to_owned()),
                "offramp.key_id: must not be empty",
            ),
            (
                OffRampSource::Off,
                |it| it.key_id = Some("nächt".to_owned()),
                "offramp.key_id: must consist of printable ASCII",
            ),
            (
                OffRampSource::Off,
                |it| it.callback_secret = Some(" ".repeat(40)),
                "offramp.callback_secret: must have at least",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("http://bridge.example.com".to_owned()),
                "offramp.url: must be an https URL",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("bridge".to_owned()),
                "offramp.url: must be an absolute",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("https://a:b@bridge.example.com".to_owned()),
                "offramp.url: must be a URL without",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("https://bridge.example.com/?a=b".to_owned()),
                "offramp.url: must be a URL without",
            ),
            (
                OffRampSource::Off,
                |it| drop(it.deposit_addresses.insert("polygon".to_owned(), Vec::new())),
                "offramp.deposit_addresses.polygon: unknown network",
            ),
            (
                OffRampSource::Off,
                |it| {
                    let zero = vec![format!("0x{}", "0".repeat(40))];
                    it.deposit_addresses.insert("mainnet".to_owned(), zero);
                },
                "offramp.deposit_addresses.mainnet: every entry must be an address",
            ),
        ];
        for (source, change, begin) in cases {
            let sentence = refusal(source, true, change);
            assert!(sentence.starts_with(begin), "{begin}: {sentence}");
        }
    }
}
