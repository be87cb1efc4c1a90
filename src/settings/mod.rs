//! All configuration: compiled-in defaults, then a file, then the environment; checked before anything starts.

mod addresses;
mod bounds;
mod brand;
mod caps;
pub mod catalogue;
mod chains;
mod conversion;
mod fees;
mod off_ramp;
mod payers;
mod payouts;
mod reference;
mod relayer;
mod screening;
mod secure_payments;
mod webhooks;

use crate::domain::{
    client_id::normalise_domain,
    network::{Family, Network},
    registration,
};
use anyhow::{Context, bail};
use figment::{
    Figment,
    error::Kind,
    providers::{Env, Format, Serialized},
};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::Path,
};

pub use brand::{BrandSettings, Language, Picture};
pub use caps::CapSettings;
pub use chains::ChainSettings;
pub use conversion::{ConversionSettings, PartnerSettings, RateSource, USUAL_RATE_AGE};
pub use fees::FeeSettings;
pub use off_ramp::{OffRampAccess, OffRampSettings, OffRampSource};
pub use payers::PayerSettings;
pub use payouts::PayoutSettings;
pub use reference::markdown;
pub use relayer::RelayerSettings;
pub use screening::{ScreeningSettings, ScreeningSource};
pub use secure_payments::SecurePaymentSettings;
pub use webhooks::{ClientIdManagement, HeaderPrefix, WebhookSettings};

/// File that is read when `--config` names none.
const DEFAULT_FILE: &str = "prs.toml";

/// All settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub struct Settings {
    /// Where state is kept.
    pub database: DatabaseSettings,
    /// Addresses and limits of the HTTP side.
    pub http: HttpSettings,
    /// One section for each enabled network, by network ID.
    pub chains: BTreeMap<String, ChainSettings>,
    /// Who may open an account.
    pub accounts: AccountSettings,
    /// Delivery of events.
    pub webhooks: WebhookSettings,
    /// Names that appear in events, and the looks of the payment page.
    pub brand: BrandSettings,
    /// Conversion, on chain and by quotes.
    pub conversion: ConversionSettings,
    /// Payouts.
    pub payouts: PayoutSettings,
    /// Secure payments.
    pub secure_payments: SecurePaymentSettings,
    /// Whom the service asks beside the chains.
    pub partners: PartnerSettings,
    /// Screening of wallets.
    pub screening: ScreeningSettings,
    /// The partner that proves payers and pays their bank accounts.
    pub offramp: OffRampSettings,
    /// Payers and their bank accounts.
    pub payers: PayerSettings,
    /// The service's own fee.
    pub fees: FeeSettings,
    /// How often credentials may call.
    pub rate_limits: RateLimitSettings,
    /// What one platform or orchestrator may have.
    pub caps: CapSettings,
    /// The account with which recurring payments are executed.
    pub relayer: RelayerSettings,
    /// Sessions of wallets.
    pub wallet_session: WalletSessionSettings,
    /// What runs beside the API.
    pub workers: WorkerSettings,
    /// What counts as healthy.
    pub health: HealthSettings,
    /// What is logged, and how.
    pub log: LogSettings,
    /// Key material.
    pub secrets: SecretSettings,
}

/// Where state is kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseSettings {
    /// `sqlite:PATH` for the embedded database, `postgres://USER:PASSWORD@HOST/NAME` for one that grows.
    pub url: String,
    /// Time that a call waits for one answer of PostgreSQL before it is told to come back later, in milliseconds.
    #[schemars(range(min = 50, max = 60_000))]
    pub answer_timeout_ms: u64,
    /// What a commit of SQLite survives: `full`, a power cut; `normal`, the end of the process, but a power cut may take
    /// the last commits back. `prs dev` uses `normal`. PostgreSQL has its own `synchronous_commit`.
    pub synchronous: Synchronous,
}

/// When SQLite waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// Before every commit is acknowledged.
    #[default]
    Full,
    /// Now and then.
    Normal,
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            url: "sqlite:./data/prs.db".to_owned(),
            answer_timeout_ms: 1_200,
            synchronous: Synchronous::Full,
        }
    }
}

/// Addresses and limits of the HTTP side.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Address and port that the service listens on.
    pub listen: SocketAddr,
    /// Address and port of `/metrics` and of a `/health/ready` that shows the chains, for the operator alone; the same as
    /// `http.listen`, they are served there.
    pub metrics_listen: SocketAddr,
    /// Second address for the authentication service; absent, both share `http.listen`.
    pub auth_listen: Option<SocketAddr>,
    /// Address that clients reach the service at, a host without a path, because the pages of `/docs` stand there; absent,
    /// `http://` and `http.listen`. Like the two below it has no user name, no query and no fragment.
    pub public_url: Option<String>,
    /// Address that clients reach the authentication service at; absent, `http.public_url`.
    pub auth_url: Option<String>,
    /// Address of the hosted payment page: a host, or `/pay` on it, and no other path, since the pages stand there. Absent,
    /// `/pay` under `http.public_url`. In production https, but on this machine.
    pub pay_url: Option<String>,
    /// Origins of dashboard pages that may sign people in and call with their sessions, for example
    /// `https://dashboard.example.com`. The service's own addresses need no entry. For cookies a page must be of the
    /// same site as the service.
    pub session_origins: Vec<String>,
    /// Sends session cookies over plain http too: for development, when the service's address is http on a loopback
    /// host. Refused in production.
    pub insecure_cookies: bool,
    /// Networks on which contract wallets are asked for their signatures, by network ID; empty, every enabled EVM
    /// network. A wallet must accept on one of them, and none may be unreachable or refuse.
    pub wallet_networks: Vec<String>,
    /// Production rules: webhooks only over https, client IDs only from their listed domains. Without them the service
    /// listens on loopback addresses alone.
    pub production: bool,
    /// Largest request body in bytes.
    #[schemars(range(min = 1_024, max = 16_777_216))]
    pub body_bytes_max: usize,
    /// Most connections at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections_max: usize,
    /// Most connections of one address at a time; an IPv6 network of 64 bits counts as one address. Those of
    /// `rate_limits.trusted_proxies` are counted among all connections alone.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections_per_address_max: usize,
    /// Time that a client has for its request headers, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub header_timeout_ms: u64,
    /// Time that a client has for its request body, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub body_timeout_ms: u64,
    /// Time that one answer may take, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub answer_timeout_ms: u64,
    /// Time in which a client has to take something of its answer, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub write_timeout_ms: u64,
    /// Time between SIGTERM and the end of serving, in milliseconds: the service says that it is not ready and goes on
    /// answering, so that a load balancer can notice. A second signal, or Ctrl-C, ends it.
    #[schemars(range(min = 0, max = 600_000))]
    pub drain_ms: u64,
    /// Time that in-flight answers have when the service stops, in milliseconds.
    #[schemars(range(min = 0, max = 600_000))]
    pub stop_timeout_ms: u64,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            metrics_listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            auth_listen: None,
            public_url: None,
            auth_url: None,
            pay_url: None,
            session_origins: Vec::new(),
            insecure_cookies: false,
            wallet_networks: Vec::new(),
            production: true,
            body_bytes_max: 64 * 1024,
            connections_max: 4_096,
            connections_per_address_max: 256,
            header_timeout_ms: 10_000,
            body_timeout_ms: 10_000,
            answer_timeout_ms: 30_000,
            write_timeout_ms: 20_000,
            drain_ms: 5_000,
            stop_timeout_ms: 10_000,
        }
    }
}

/// Who may open an account.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccountSettings {
    /// Who may register with an e-mail address, and sign in with a wallet that never did: `open` for anybody, `invited`
    /// for those who were sent an invite (`prs admin invite create`), `off` for nobody. Accounts and wallets that are
    /// there sign in either way. `prs dev` begins with `open`.
    pub registration: Registration,
}

/// Who may open an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// Anybody.
    Open,
    /// Who has an invite.
    #[default]
    Invited,
    /// Nobody.
    Off,
}

impl From<Registration> for registration::Registration {
    fn from(setting: Registration) -> Self {
        match setting {
            Registration::Open => Self::Open,
            Registration::Invited => Self::Invited,
            Registration::Off => Self::Off,
        }
    }
}

/// How often a credential may call from one address; each instance counts for itself.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitSettings {
    /// Whether calls are limited.
    pub enabled: bool,
    /// Calls of a credential with the tier `basic`, per minute and address. A sixth of a quota may come at once.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub basic_per_minute: u32,
    /// Calls of a credential with the tier `default`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub default_per_minute: u32,
    /// Calls of a credential with the tier `premium`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub premium_per_minute: u32,
    /// Calls of a credential with the tier `high-volume`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub high_volume_per_minute: u32,
    /// Items of calls that take several, such as links and batches: per minute, credential and address. A call takes as
    /// many as it has, all of them or none.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub items_per_minute: u32,
    /// Items that may come at once; 200 are the most of one call.
    #[schemars(range(min = 200, max = 100_000_000))]
    pub items_burst: u32,
    /// What all API keys and sessions of a platform may call together, and all of its client IDs from one address, in
    /// quotas of one credential.
    #[schemars(range(min = 1, max = 1_000))]
    pub platform_factor: u32,
    /// Challenges, logins and registrations of one address.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub sign_in_per_minute: u32,
    /// Calls of one address with credentials that nobody knows, and as many visits to payment pages that nobody made.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub unknown_per_minute: u32,
    /// Calls of one address to the payment page of one link; a page that waits for a payment asks about once a second.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub page_per_minute: u32,
    /// What every quota is multiplied with outside production.
    #[schemars(range(min = 1, max = 1_000))]
    pub factor_outside_production: u32,
    /// Seconds for which a caller is blocked after it was refused a whole minute's quota within one minute.
    #[schemars(range(min = 0, max = 86_400))]
    pub block_s: u64,
    /// Addresses or networks, such as `10.0.0.0/8`, whose `x-forwarded-for` is believed.
    pub trusted_proxies: Vec<String>,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            basic_per_minute: 120,
            default_per_minute: 300,
            premium_per_minute: 600,
            high_volume_per_minute: 1_200,
            items_per_minute: 600,
            items_burst: 200,
            platform_factor: 4,
            sign_in_per_minute: 30,
            unknown_per_minute: 60,
            page_per_minute: 300,
            factor_outside_production: 4,
            block_s: 300,
            trusted_proxies: Vec::new(),
        }
    }
}

impl RateLimitSettings {
    /// The trusted networks. Errors: the entry that is no address and no network.
    pub fn trusted_networks(&self) -> Result<Vec<IpNet>, String> {
        let networks = self.trusted_proxies.iter().map(|text| {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            address.or_else(|_| text.parse()).map_err(|_| text.clone())
        });
        networks.collect()
    }
}

/// Sessions of wallets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WalletSessionSettings {
    /// Seconds after which the session of a wallet ends however often it is used.
    #[schemars(range(min = 60, max = 2_592_000))]
    pub absolute_s: u32,
}

impl Default for WalletSessionSettings {
    fn default() -> Self {
        Self { absolute_s: 86_400 }
    }
}

/// What runs beside the API.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerSettings {
    /// Seconds after which another instance follows the networks of one that is gone or out of reach; one that
    /// is stopped hands them over at once. Short ones change the leader when the database is slow.
    #[schemars(range(min = 2, max = 60))]
    pub chain_lease_s: u64,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { chain_lease_s: 6 }
    }
}

/// Longest `health.chain_stale_s`, a week.
pub const CHAIN_STALE_S_MAX: u64 = 7 * 24 * 3_600;

/// What counts as healthy.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Seconds without a good answer of a chain after which a worker is not ready, and a process that also serves the
    /// API degraded. Pauses between two looks do not count. A newest block that is older than this is no good answer:
    /// choose more for a chain that makes blocks only when somebody pays.
    #[schemars(range(min = 30, max = CHAIN_STALE_S_MAX))]
    pub chain_stale_s: u64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { chain_stale_s: 120 }
    }
}

/// What is logged to standard error, and how.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Form of a line: `auto` writes for people on a terminal and JSON elsewhere.
    pub format: LogFormat,
    /// Lowest level, `error`, `warn`, `info`, `debug` or `trace`; also by target, such as `info,prs::worker=debug`. The
    /// variable `RUST_LOG` goes before it.
    pub level: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            level: "info".to_owned(),
        }
    }
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object for each line.
    Json,
    /// For people.
    Pretty,
}

/// Key material.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecretSettings {
    /// The master key, where there is one: 64 hexadecimal digits. With SQLite, one is made beside the database when no
    /// other is set; PostgreSQL needs one. Beside `master_keys` it opens what it sealed before.
    pub master_key: Option<String>,
    /// Master keys of customer details, e-mail addresses and webhook secrets. The first one seals, all of them open;
    /// `prs admin keys rotate` brings everything under the first one. An entry is 64 hexadecimal digits, or `command:`
    /// and what a shell runs at the start to print them.
    pub master_keys: Vec<String>,
}

impl Settings {
    /// What `prs dev` begins with: everything on one loopback port, over plain http, and open to everybody.
    pub fn development(listen: SocketAddr) -> Self {
        Self {
            http: HttpSettings {
                listen,
                metrics_listen: listen,
                production: false,
                drain_ms: 0,
                ..HttpSettings::default()
            },
            accounts: AccountSettings {
                registration: Registration::Open,
            },
            relayer: RelayerSettings {
                public_client_ids: true,
                ..RelayerSettings::default()
            },
            ..Self::default()
        }
    }

    /// Reads defaults, file and environment.
    ///
    /// Errors: a setting that does not parse or is unknown, with its name and what would be right.
    pub fn load(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        figment = match file {
            Some(path) if !path.exists() => bail!("--config {}: no such file", path.display()),
            Some(path) => figment.merge(TomlText::file_exact(path)),
            None if Path::new(DEFAULT_FILE).exists() => figment.merge(TomlText::file_exact(DEFAULT_FILE)),
            None => figment,
        };
        // A key of digits alone is a text too.
        let mut figment = figment.merge(environment());
        for (variable, name) in [
            ("PRS_SECRETS__MASTER_KEY", "secrets.master_key"),
            ("PRS_RELAYER__PRIVATE_KEY", "relayer.private_key"),
            ("PRS_RELAYER__FEE", "relayer.fee"),
            (
                "PRS_SCREENING__HYPERNATIVE_CLIENT_ID",
                "screening.hypernative_client_id",
            ),
            (
                "PRS_SCREENING__HYPERNATIVE_CLIENT_SECRET",
                "screening.hypernative_client_secret",
            ),
            (
                "PRS_SCREENING__MERKLESCIENCE_API_KEY",
                "screening.merklescience_api_key",
            ),
            ("PRS_OFFRAMP__KEY_ID", "offramp.key_id"),
            ("PRS_OFFRAMP__KEY_SECRET", "offramp.key_secret"),
            ("PRS_OFFRAMP__CALLBACK_SECRET", "offramp.callback_secret"),
            ("PRS_OFFRAMP__FORMER_CALLBACK_SECRET", "offramp.former_callback_secret"),
        ] {
            if let Ok(text) = std::env::var(variable) {
                figment = figment.merge((name, text));
            }
        }
        let settings: Self = figment.extract().map_err(|error| explain(&error))?;
        settings.validate()?;
        Ok(settings)
    }

    /// These settings with what the environment says in some sections, which the caller checks.
    ///
    /// Errors: a setting of them that does not parse or is unknown, with its name and what would be right.
    pub fn with_environment(&self, sections: &'static [&'static str]) -> anyhow::Result<Self> {
        let environment = environment().filter(|key| {
            let section = key.as_str().split('.').next();
            section.is_some_and(|section| sections.contains(&section))
        });
        let figment = Figment::from(Serialized::defaults(self)).merge(environment);
        figment.extract().map_err(|error| explain(&error))
    }

    /// The configured networks. Call it on validated settings; unknown names are skipped.
    pub fn networks(&self) -> impl Iterator<Item = (Network, &ChainSettings)> {
        self.chains
            .iter()
            .filter_map(|(id, chain)| Network::from_id(id).map(|network| (network, chain)))
    }

    /// Checks what types cannot say.
    ///
    /// Errors: a setting with what is wrong and what would be right; of numbers out of their bounds, all of them.
    pub fn validate(&self) -> anyhow::Result<()> {
        bounds::check(self)?;
        if !(self.database.url.starts_with("sqlite:") || self.database.url.starts_with("postgres")) {
            bail!("database.url: must start with sqlite: or postgres:");
        }
        for (id, chain) in &self.chains {
            let Some(network) = Network::from_id(id) else {
                bail!("chains.{id}: unknown network; accepted are {}", Network::ids_in_words());
            };
            let fits = |url: &String| url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !chain.rpc_urls.iter().all(fits) {
                bail!("chains.{id}.rpc_urls: every entry must be an http or https address");
            }
            if !chain.wallet_rpc_url.iter().all(fits) {
                bail!("chains.{id}.wallet_rpc_url: must be an http or https address");
            }
            if let Some(name) = chain.misplaced(network) {
                bail!("chains.{id}.{name}: {id} has no such setting; remove it");
            }
            if chain
                .agreement
                .is_some_and(|agreement| agreement > chain.rpc_urls.len())
            {
                bail!(
                    "chains.{id}.agreement: must be at most the number of addresses in chains.{id}.rpc_urls, {}",
                    chain.rpc_urls.len()
                );
            }
        }
        if let Some(url) = &self.http.public_url {
            addresses::of_host("http.public_url", url)?;
        }
        if let Some(url) = &self.http.auth_url {
            addresses::plain("http.auth_url", url)?;
        }
        addresses::of_pages("http.pay_url", &self.pay_url())?;
        if let Some(url) = self.http.pay_url.as_ref().filter(|_| self.http.production) {
            addresses::protected("http.pay_url", url)?;
        }
        self.validate_sessions()?;
        self.validate_listeners()?;
        self.conversion.validate()?;
        self.conversion
            .validate_source(self.partners.rates, self.http.production)?;
        let enabled = self.networks().filter(|(network, chain)| chain.is_enabled(*network));
        self.screening.validate(
            self.partners.screening,
            self.http.production,
            enabled.map(|(network, _)| network),
        )?;
        self.offramp.validate(self.partners.offramp, self.http.production)?;
        self.fees.protocol()?;
        self.webhooks.header_prefix.validate(self.webhooks.standard_headers)?;
        self.brand.validate()?;
        if let Err(entry) = self.rate_limits.trusted_networks() {
            bail!("rate_limits.trusted_proxies: {entry} is neither an address nor a network such as 10.0.0.0/8");
        }
        self.webhooks.recovery()?;
        self.relayer.fee()?;
        Ok(())
    }

    fn validate_listeners(&self) -> anyhow::Result<()> {
        let listeners = [
            Some(self.http.listen),
            self.http.auth_listen,
            Some(self.http.metrics_listen),
        ];
        let is_open = listeners.iter().flatten().any(|address| !address.ip().is_loopback());
        if !self.http.production && is_open {
            bail!(
                "http.production: false is for one machine; set http.listen, http.auth_listen and http.metrics_listen \
                 to loopback addresses, or http.production to true"
            );
        }
        Ok(())
    }

    fn validate_sessions(&self) -> anyhow::Result<()> {
        for origin in &self.http.session_origins {
            if let Err(sentence) = normalise_domain(origin) {
                bail!("http.session_origins: every entry {sentence}");
            }
        }
        if self.http.insecure_cookies {
            let url = url::Url::parse(&self.auth_url()).context("http.auth_url")?;
            let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
            if self.http.production || url.scheme() != "http" || !is_loopback {
                bail!(
                    "http.insecure_cookies: only for development, with an http address on localhost, 127.0.0.1 or [::1]"
                );
            }
        }
        for id in &self.http.wallet_networks {
            let fits = Network::from_id(id).is_some_and(|network| {
                network.family() == Family::Evm && self.chains.get(id).is_some_and(|chain| chain.is_enabled(network))
            });
            if !fits {
                bail!("http.wallet_networks: {id} is not an enabled EVM network");
            }
        }
        Ok(())
    }

    /// Where clients reach the service.
    pub fn public_url(&self) -> String {
        self.http
            .public_url
            .clone()
            .unwrap_or_else(|| format!("http://{}", self.http.listen))
    }

    /// Where clients reach the authentication service.
    pub fn auth_url(&self) -> String {
        match (&self.http.auth_url, self.http.auth_listen) {
            (Some(url), _) => url.clone(),
            (None, Some(listen)) => format!("http://{listen}"),
            (None, None) => self.public_url(),
        }
    }

    /// Where payers find the payment page; without a slash at its end.
    pub fn pay_url(&self) -> String {
        match &self.http.pay_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{}/pay", self.public_url().trim_end_matches('/')),
        }
    }

    /// Whether loopback endpoints are accepted.
    pub fn allow_loopback(&self) -> bool {
        self.webhooks.allow_loopback.unwrap_or(!self.http.production)
    }

    /// Whether account numbers and IBANs are shown by their last four characters alone. Source: decisions D42.
    pub fn mask_bank_details(&self) -> bool {
        self.payers.mask_bank_details.unwrap_or(self.http.production)
    }

    /// The settings as text, with secrets hidden.
    pub fn shown(&self) -> anyhow::Result<String> {
        let mut shown = self.clone();
        shown.secrets.master_key = shown.secrets.master_key.map(|_| "(hidden)".to_owned());
        shown.relayer.private_key = shown.relayer.private_key.map(|_| "(hidden)".to_owned());
        shown.database.url = without_password(&shown.database.url);
        shown.conversion.feed_api_key = shown.conversion.feed_api_key.map(|_| "(hidden)".to_owned());
        for secret in [
            &mut shown.screening.hypernative_client_id,
            &mut shown.screening.hypernative_client_secret,
            &mut shown.screening.merklescience_api_key,
            &mut shown.offramp.key_secret,
            &mut shown.offramp.callback_secret,
            &mut shown.offramp.former_callback_secret,
        ] {
            *secret = secret.take().map(|_| "(hidden)".to_owned());
        }
        for entry in &mut shown.secrets.master_keys {
            "(hidden)".clone_into(entry);
        }
        for chain in shown.chains.values_mut() {
            chain.api_key = chain.api_key.take().map(|_| "(hidden)".to_owned());
            // Addresses of node providers carry the key in their path.
            chain.rpc_urls.iter_mut().for_each(hide_path);
        }
        shown.conversion.feed_urls.iter_mut().for_each(hide_path);
        toml::to_string_pretty(&shown).context("settings as text")
    }
}

/// The format of the settings file, read by the one `toml` that this program has; the reader of `figment` is another.
enum TomlText {}

impl Format for TomlText {
    type Error = toml::de::Error;

    const NAME: &'static str = "TOML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Self::Error> {
        toml::from_str(text)
    }
}

/// What the environment sets. Only names with a section are settings; PRS_ANVIL and its like are for tools.
fn environment() -> Env {
    let settings = Env::prefixed("PRS_").filter(|key| key.as_str().contains("__"));
    settings.map(|key| {
        let key = key.as_str().to_lowercase().replace("__", ".");
        key.replace("chains.arbitrum_one.", "chains.arbitrum-one.").into()
    })
}

/// Leaves scheme and host of an address.
fn hide_path(text: &mut String) {
    if let Ok(url) = url::Url::parse(text) {
        *text = format!("{}://{}/…", url.scheme(), url.host_str().unwrap_or_default());
    }
}

/// The address of a database without its password, wherever in it that stands.
pub fn without_password(address: &str) -> String {
    let Ok(mut url) = url::Url::parse(address) else {
        return address
            .split_once("://")
            .map_or("(unreadable)", |(scheme, _)| scheme)
            .to_owned();
    };
    if url.password().is_some() {
        // A URL that has a password has a host, so setting one cannot fail.
        let _ = url.set_password(Some("hidden"));
    }
    if url.query_pairs().any(|(name, _)| is_secret_name(&name)) {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let shown = pairs.iter().map(|(name, value)| match is_secret_name(name) {
            true => (name.as_str(), "hidden"),
            false => (name.as_str(), value.as_str()),
        });
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    url.to_string()
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "key", "secret", "token"]
        .iter()
        .any(|part| name.contains(part))
}

/// What is wrong with which setting. The value of a secret one is not repeated.
fn explain(error: &figment::Error) -> anyhow::Error {
    let lines: Vec<String> = error
        .clone()
        .into_iter()
        .map(|one| {
            let name = one.path.join(".");
            let place = one
                .metadata
                .as_ref()
                .map(|metadata| format!(" ({})", metadata.name))
                .unwrap_or_default();
            let what = match &one.kind {
                Kind::InvalidType(_, expected) if is_secret_name(&name) => format!("must be {expected}"),
                Kind::InvalidValue(_, expected) if is_secret_name(&name) => format!("must be {expected}"),
                kind => kind.to_string(),
            };
            match name.is_empty() {
                true => format!("{what}{place}"),
                false => format!("{name}: {what}{place}"),
            }
        })
        .collect();
    anyhow::anyhow!("settings: {}", lines.join("; "))
}
