//! Who proves payers and pays their bank accounts, and how that partner is reached.

use super::addresses::{is_loopback, protected};
use crate::domain::{address::Address, ids::Secret, network::Network};
use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// Shortest secret that signs.
const SECRET_LENGTH_MIN: usize = 32;

/// Who proves payers and pays their bank accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffRampSource {
    /// Nobody.
    #[default]
    Off,
    /// The sandbox of `prs dev`.
    Sandbox,
    /// A partner over HTTP.
    Http,
}

/// The partner that proves payers and pays their bank accounts. What is sent to it and what it answers is written in
/// `docs/partners/offramp.md`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OffRampSettings {
    /// Address of the partner, for example `https://bridge.example.com/offramp`.
    pub url: Option<String>,
    /// Name of the key with which calls to the partner are signed; it is sent with each of them.
    pub key_id: Option<String>,
    /// The key itself, which is never sent; at least 32 characters.
    pub key_secret: Option<String>,
    /// Secret with which the partner signs its callbacks; at least 32 characters.
    pub callback_secret: Option<String>,
    /// The one of before, while the partner may still sign with it.
    pub former_callback_secret: Option<String>,
    /// The only deposit addresses that are believed, by network ID; without an entry for a network, all of its wallets.
    pub deposit_addresses: BTreeMap<String, Vec<String>>,
}

/// What is needed to reach the partner.
#[derive(Debug, Clone)]
pub struct OffRampAccess {
    /// Its address.
    pub url: Url,
    /// Name of the key.
    pub key_id: String,
    /// The key.
    pub key_secret: Secret,
    /// Secrets of its callbacks, the present one first.
    pub callback_secrets: Vec<Secret>,
}

impl OffRampSettings {
    /// Checks what types cannot say.
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
                bail!("offramp.{name}: must be another one than offramp.{other}");
            }
        }
        if self.former_callback_secret.is_some() && self.callback_secret.is_none() {
            bail!("offramp.former_callback_secret: must come together with offramp.callback_secret");
        }
        if self.key_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
            bail!("offramp.key_id: must not be empty");
        }
        if self
            .key_id
            .as_ref()
            .is_some_and(|id| !id.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            bail!("offramp.key_id: must have printable ASCII characters alone, without spaces: it is sent in a header");
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

    /// What is needed to reach the partner. Errors: the first setting that is missing.
    pub fn access(&self) -> anyhow::Result<OffRampAccess> {
        let needed = |name: &str, value: &Option<String>| {
            value.clone().with_context(|| {
                format!(
                    "offramp.{name}: partners.offramp needs offramp.url, offramp.key_id, offramp.key_secret and \
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

    /// The deposit addresses that are believed; a network without an entry believes all of its wallets.
    ///
    /// Errors: an unknown network, or what is no address of it.
    pub fn deposits(&self) -> anyhow::Result<BTreeMap<Network, BTreeSet<Address>>> {
        let known = self.deposit_addresses.iter().map(|(id, addresses)| {
            let network = Network::from_id(id).with_context(|| {
                let ids = Network::ids_in_words();
                format!("offramp.deposit_addresses.{id}: unknown network; accepted are {ids}")
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
    fn none_set_is_no_partner_and_all_set_is_one() {
        let none = OffRampSettings::default();
        assert!(none.validate(OffRampSource::Off, true).is_ok());
        assert_eq!(refusal(OffRampSource::Http, true, |_| {}), "");
        assert_eq!(whole().access().expect("set").callback_secrets.len(), 1);
        let former = |it: &mut OffRampSettings| it.former_callback_secret = Some("f".repeat(32));
        assert_eq!(refusal(OffRampSource::Http, true, former), "");
    }

    #[test]
    fn production_never_begins_with_a_sandbox() {
        let local = |it: &mut OffRampSettings| it.url = Some("http://127.0.0.1:1".to_owned());
        assert_eq!(refusal(OffRampSource::Sandbox, false, local), "");
        assert!(refusal(OffRampSource::Sandbox, true, local).starts_with("partners.offramp: "));
        assert!(refusal(OffRampSource::Sandbox, false, |_| {}).starts_with("offramp.url: "));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        type Change = fn(&mut OffRampSettings);
        let cases: [(OffRampSource, Change, &str); 20] = [
            (
                OffRampSource::Http,
                |it| it.url = None,
                "offramp.url: partners.offramp needs",
            ),
            (
                OffRampSource::Http,
                |it| it.key_id = None,
                "offramp.key_id: partners.offramp needs",
            ),
            (
                OffRampSource::Http,
                |it| it.key_secret = None,
                "offramp.key_secret: partners.offramp needs",
            ),
            (
                OffRampSource::Http,
                |it| it.callback_secret = None,
                "offramp.callback_secret: partners.offramp needs",
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
                "offramp.former_callback_secret: must come together",
            ),
            (
                OffRampSource::Off,
                |it| it.callback_secret = it.key_secret.clone(),
                "offramp.callback_secret: must be another one",
            ),
            (
                OffRampSource::Off,
                |it| it.former_callback_secret = it.key_secret.clone(),
                "offramp.former_callback_secret: must be another one than offramp.key_secret",
            ),
            (
                OffRampSource::Off,
                |it| it.former_callback_secret = it.callback_secret.clone(),
                "offramp.former_callback_secret: must be another one than offramp.callback_secret",
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
                "offramp.key_id: must have printable ASCII",
            ),
            (
                OffRampSource::Off,
                |it| it.callback_secret = Some(" ".repeat(40)),
                "offramp.callback_secret: must have at least",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("http://bridge.example.com".to_owned()),
                "offramp.url: must be an https address",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("bridge".to_owned()),
                "offramp.url: must be an absolute",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("https://a:b@bridge.example.com".to_owned()),
                "offramp.url: must be an address without",
            ),
            (
                OffRampSource::Off,
                |it| it.url = Some("https://bridge.example.com/?a=b".to_owned()),
                "offramp.url: must be an address without",
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
