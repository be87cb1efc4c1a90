//! All configuration: compiled-in defaults, then a file, then the environment. It is checked before the service starts.

mod addresses;
mod bounds;
mod brand;
mod caps;
pub mod catalogue;
mod chains;
mod conversion;
mod fees;
mod off_ramp;
mod orchestrators;
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
    paying::prepared::FeeLimits,
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

pub use brand::{BrandSettings, Language, LogoImage};
pub use caps::CapSettings;
pub use chains::{ChainSettings, TronNodeUrls};
pub use conversion::{ConversionSettings, PartnerSettings, RateSource, USUAL_RATE_AGE};
pub use fees::FeeSettings;
pub use off_ramp::{OffRampAccess, OffRampSettings, OffRampSource};
pub use orchestrators::{DirectLinkSetting, OrchestratorSettings};
pub use payers::PayerSettings;
pub use payouts::PayoutSettings;
pub use reference::markdown;
pub use relayer::RelayerSettings;
pub use screening::{ScreeningSettings, ScreeningSource};
pub use secure_payments::SecurePaymentSettings;
pub use webhooks::{ClientIdManagement, HeaderPrefix, WebhookSettings};

/// Configuration file when `--config` is absent.
const DEFAULT_FILE: &str = "prs.toml";

/// All settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub struct Settings {
    /// Database.
    pub database: DatabaseSettings,
    /// HTTP addresses and limits.
    pub http: HttpSettings,
    /// One section for each enabled network, by network ID.
    pub chains: BTreeMap<String, ChainSettings>,
    /// Registration of accounts.
    pub accounts: AccountSettings,
    /// Delivery of events.
    pub webhooks: WebhookSettings,
    /// Names in events, and branding of the payment page.
    pub brand: BrandSettings,
    /// Conversion, on chain and by quotes.
    pub conversion: ConversionSettings,
    /// Payouts.
    pub payouts: PayoutSettings,
    /// Secure payments.
    pub secure_payments: SecurePaymentSettings,
    /// External services in addition to the chains.
    pub partners: PartnerSettings,
    /// Screening of wallets.
    pub screening: ScreeningSettings,
    /// The partner that verifies payers and pays their bank accounts.
    pub offramp: OffRampSettings,
    /// Payers and their bank accounts.
    pub payers: PayerSettings,
    /// Partners that build on several platforms.
    pub orchestrators: OrchestratorSettings,
    /// The service's own fee.
    pub fees: FeeSettings,
    /// Rate limits.
    pub rate_limits: RateLimitSettings,
    /// Caps for one platform or orchestrator.
    pub caps: CapSettings,
    /// The account that executes recurring payments.
    pub relayer: RelayerSettings,
    /// Sessions of wallets.
    pub wallet_session: WalletSessionSettings,
    /// Background workers.
    pub workers: WorkerSettings,
    /// Health checks.
    pub health: HealthSettings,
    /// Logging.
    pub log: LogSettings,
    /// Key material.
    pub secrets: SecretSettings,
}

/// Database.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseSettings {
    /// `sqlite:PATH` for the embedded database, or `postgres://USER:PASSWORD@HOST/NAME` for PostgreSQL.
    pub url: String,
    /// Timeout for one PostgreSQL response, in milliseconds. After it, the call returns 503.
    #[schemars(range(min = 50, max = 60_000))]
    pub answer_timeout_ms: u64,
    /// Durability of SQLite commits: with `full`, they survive a power cut; with `normal`, they survive the end of the
    /// process, but a power cut may lose the last commits. `prs dev` uses `normal`. PostgreSQL has its own
    /// `synchronous_commit`.
    pub synchronous: Synchronous,
}

/// When SQLite waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// Before it acknowledges a commit.
    #[default]
    Full,
    /// Only at checkpoints.
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

/// HTTP addresses and limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Address and port that the service listens on.
    pub listen: SocketAddr,
    /// Address and port of `/metrics` and of a `/health/ready` that shows the chains, for the operator only. If it
    /// equals `http.listen`, both are served there.
    pub metrics_listen: SocketAddr,
    /// Separate address and port for the authentication service. If absent, it shares `http.listen`.
    pub auth_listen: Option<SocketAddr>,
    /// Public URL of the service, without a path, because it also serves `/docs`. Default: `http://` and `http.listen`.
    /// Like `http.auth_url` and `http.pay_url`, it must have no user name, query or fragment.
    pub public_url: Option<String>,
    /// Public URL of the authentication service. Default: `http.public_url`.
    pub auth_url: Option<String>,
    /// Public URL of the hosted payment page, with no path or with the path `/pay`. Default: `/pay` under
    /// `http.public_url`. In production it must be https, except on this machine.
    pub pay_url: Option<String>,
    /// Origins of dashboard pages that may sign people in and use their sessions, for example
    /// `https://dashboard.example.com`. The service's own URLs need no entry. Cookies work only on pages of the same
    /// site as the service.
    pub session_origins: Vec<String>,
    /// Also sends session cookies over plain http: for development, when the service's URL is http on a loopback host.
    /// Not allowed in production.
    pub insecure_cookies: bool,
    /// Networks on which signatures of contract wallets are verified, by network ID. If the list is empty, every
    /// enabled EVM network is used. Verification succeeds if the wallet accepts the signature on at least one of these
    /// networks and rejects it on none. It fails if one of them is unreachable.
    pub wallet_networks: Vec<String>,
    /// Production rules: webhooks only over https, client IDs only from their listed domains. If false, the service
    /// listens only on loopback addresses.
    pub production: bool,
    /// Maximum request body size in bytes.
    #[schemars(range(min = 1_024, max = 16_777_216))]
    pub body_bytes_max: usize,
    /// Maximum number of open connections.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections_max: usize,
    /// Maximum number of open connections from one address; an IPv6 /64 network counts as one address. Connections from
    /// `rate_limits.trusted_proxies` count only towards `http.connections_max`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections_per_address_max: usize,
    /// Timeout for receiving request headers, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub header_timeout_ms: u64,
    /// Timeout for receiving a request body, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub body_timeout_ms: u64,
    /// Timeout for handling one call, in milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub answer_timeout_ms: u64,
    /// Time without progress after which a connection whose client does not read the response is closed, in
    /// milliseconds.
    #[schemars(range(min = 100, max = 600_000))]
    pub write_timeout_ms: u64,
    /// Time between SIGTERM and the end of serving, in milliseconds: the service reports not ready but continues to
    /// respond, so that a load balancer can react. A second signal, or Ctrl-C, ends this phase.
    #[schemars(range(min = 0, max = 600_000))]
    pub drain_ms: u64,
    /// Time for in-flight calls to finish when the service stops, in milliseconds.
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

/// Registration of accounts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccountSettings {
    /// Who may register with an e-mail address or sign in with a new wallet: `open` for everyone, `invited` for people
    /// with an invite (`prs admin invite create`), `off` for no one. Existing accounts and wallets can always sign in.
    /// `prs dev` uses `open`.
    pub registration: RegistrationSetting,
}

/// Registration of accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationSetting {
    /// Everyone.
    Open,
    /// People with an invite.
    #[default]
    Invited,
    /// No one.
    Off,
}

impl From<RegistrationSetting> for registration::Registration {
    fn from(setting: RegistrationSetting) -> Self {
        match setting {
            RegistrationSetting::Open => Self::Open,
            RegistrationSetting::Invited => Self::Invited,
            RegistrationSetting::Off => Self::Off,
        }
    }
}

/// Rate limits per credential and address; each instance counts separately.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitSettings {
    /// Whether calls are rate limited.
    pub enabled: bool,
    /// Calls per minute and address for a credential with the tier `basic`. In every tier, the burst is one sixth of
    /// the quota per minute.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub basic_per_minute: u32,
    /// Calls per minute and address for a credential with the tier `default`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub default_per_minute: u32,
    /// Calls per minute and address for a credential with the tier `premium`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub premium_per_minute: u32,
    /// Calls per minute and address for a credential with the tier `high-volume`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub high_volume_per_minute: u32,
    /// Items per minute, credential and address, for calls that take several items, such as links and batches. A call
    /// takes all of its items or is rejected as a whole.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub items_per_minute: u32,
    /// Burst of items: how many items may be used at once. One call has at most 200 items.
    #[schemars(range(min = 200, max = 100_000_000))]
    pub items_burst: u32,
    /// Quota of all API keys and sessions of a platform together, as a multiple of the quota of one credential. All
    /// client IDs of a platform together have the same quota for calls from one address.
    #[schemars(range(min = 1, max = 1_000))]
    pub platform_factor: u32,
    /// Challenges, logins and registrations per minute from one address.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub sign_in_per_minute: u32,
    /// Calls per minute from one address with unknown credentials. Visits to payment pages that do not exist have the
    /// same limit.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub unknown_per_minute: u32,
    /// Calls per minute from one address to the payment page of one link; a page that waits for a payment polls about
    /// once a second.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub page_per_minute: u32,
    /// Factor that multiplies every quota outside production.
    #[schemars(range(min = 1, max = 1_000))]
    pub factor_outside_production: u32,
    /// Seconds for which a caller is blocked once its rejected calls within one minute reach its quota per minute.
    #[schemars(range(min = 0, max = 86_400))]
    pub block_s: u64,
    /// Addresses or networks, such as `10.0.0.0/8`, whose `x-forwarded-for` header is trusted.
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
    /// The trusted networks. Errors: an entry that is neither an address nor a network.
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
    /// Seconds after which the session of a wallet ends, even if it is used.
    #[schemars(range(min = 60, max = 2_592_000))]
    pub absolute_s: u32,
}

impl Default for WalletSessionSettings {
    fn default() -> Self {
        Self { absolute_s: 86_400 }
    }
}

/// Background workers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerSettings {
    /// Seconds after which another instance takes over the networks of an instance that has crashed or is unreachable.
    /// A stopped instance hands them over immediately. If the value is short, a slow database can cause a change of the
    /// leader.
    #[schemars(range(min = 2, max = 60))]
    pub chain_lease_s: u64,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { chain_lease_s: 6 }
    }
}

/// Maximum of `health.chain_stale_s`, one week.
pub const CHAIN_STALE_S_MAX: u64 = 7 * 24 * 3_600;

/// Health checks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Seconds without a valid response from a chain after which a worker is not ready, and a process that also serves
    /// the API is degraded. Pauses between two polls do not count. A response whose newest block is older than this
    /// number of seconds is not valid: choose a larger value for a chain that produces blocks only for transactions.
    #[schemars(range(min = 30, max = CHAIN_STALE_S_MAX))]
    pub chain_stale_s: u64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { chain_stale_s: 120 }
    }
}

/// Logging to standard error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Format of log lines: `auto` writes text to a terminal and JSON elsewhere.
    pub format: LogFormat,
    /// Minimum level: `error`, `warn`, `info`, `debug` or `trace`; also by target, such as `info,prs::worker=debug`.
    /// The variable `RUST_LOG` takes precedence.
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

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object per line.
    Json,
    /// Text.
    Pretty,
}

/// Key material.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecretSettings {
    /// A single master key: 64 hexadecimal digits. With SQLite, the service creates one next to the database if none is
    /// set; PostgreSQL requires one. If `master_keys` is also set, this key only decrypts existing values.
    pub master_key: Option<String>,
    /// Master keys for customer details, e-mail addresses and webhook secrets. The first one encrypts, all of them
    /// decrypt; `prs admin keys rotate` re-encrypts everything with the first one. An entry is 64 hexadecimal digits,
    /// or `command:` and a shell command that prints the digits at startup.
    pub master_keys: Vec<String>,
}

impl Settings {
    /// Defaults of `prs dev`: everything on one loopback port, over plain http, with open registration.
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
                registration: RegistrationSetting::Open,
            },
            orchestrators: OrchestratorSettings {
                direct_links: DirectLinkSetting::Open,
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
    /// Errors: a setting that does not parse or is unknown, with its name and what is expected.
    pub fn load(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        figment = match file {
            Some(path) if !path.exists() => bail!("--config {}: no such file", path.display()),
            Some(path) => figment.merge(TomlText::file_exact(path)),
            None if Path::new(DEFAULT_FILE).exists() => figment.merge(TomlText::file_exact(DEFAULT_FILE)),
            None => figment,
        };
        // A key that consists only of digits is still a string.
        let mut figment = figment.merge(environment());
        for (variable, name) in [
            ("PRS_SECRETS__MASTER_KEY", "secrets.master_key"),
            ("PRS_CHAINS__TRON__API_KEY", "chains.tron.api_key"),
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

    /// These settings with some sections overridden by the environment; the caller validates them.
    ///
    /// Errors: a setting in these sections that does not parse or is unknown, with its name and what is expected.
    pub fn with_environment(&self, sections: &'static [&'static str]) -> anyhow::Result<Self> {
        let environment = environment().filter(|key| {
            let section = key.as_str().split('.').next();
            section.is_some_and(|section| sections.contains(&section))
        });
        let figment = Figment::from(Serialized::defaults(self)).merge(environment);
        figment.extract().map_err(|error| explain(&error))
    }

    /// The configured networks. Call it on validated settings; it skips unknown names.
    pub fn networks(&self) -> impl Iterator<Item = (Network, &ChainSettings)> {
        self.chains
            .iter()
            .filter_map(|(id, chain)| Network::from_id(id).map(|network| (network, chain)))
    }

    /// Maximum network fees that payers on Tron sign.
    pub fn tron_fee_limits(&self) -> FeeLimits {
        let default = ChainSettings::default();
        let tron = self.chains.get(Network::Tron.id()).unwrap_or(&default);
        FeeLimits {
            approval_sun: tron.approval_fee_limit_sun(),
            payment_sun: tron.payment_fee_limit_sun(),
        }
    }

    /// Checks what types cannot express.
    ///
    /// Errors: the first wrong setting with what is wrong and what is expected; numbers outside their bounds are all
    /// listed.
    pub fn validate(&self) -> anyhow::Result<()> {
        bounds::check(self)?;
        if !(self.database.url.starts_with("sqlite:") || self.database.url.starts_with("postgres")) {
            bail!("database.url: must start with sqlite: or postgres:");
        }
        for (id, chain) in &self.chains {
            let Some(network) = Network::from_id(id) else {
                bail!(
                    "chains.{id}: unknown network; supported networks are {}",
                    Network::ids_in_words()
                );
            };
            chain.validate(network)?;
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
                "http.production: false is only for one machine; set http.listen, http.auth_listen and \
                 http.metrics_listen to loopback addresses, or http.production to true"
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
                bail!("http.insecure_cookies: only for development, with an http URL on localhost, 127.0.0.1 or [::1]");
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

    /// Public URL of the service.
    pub fn public_url(&self) -> String {
        self.http
            .public_url
            .clone()
            .unwrap_or_else(|| format!("http://{}", self.http.listen))
    }

    /// Public URL of the authentication service.
    pub fn auth_url(&self) -> String {
        match (&self.http.auth_url, self.http.auth_listen) {
            (Some(url), _) => url.clone(),
            (None, Some(listen)) => format!("http://{listen}"),
            (None, None) => self.public_url(),
        }
    }

    /// Public URL of the payment page, without a trailing slash.
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

    /// Whether only the last four characters of account numbers and IBANs are shown. Source: decisions D42.
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
            // URLs of node providers contain the key in their path.
            let urls = [&mut chain.rpc_urls, &mut chain.api_urls, &mut chain.jsonrpc_urls];
            urls.into_iter().flatten().for_each(hide_path);
        }
        shown.conversion.feed_urls.iter_mut().for_each(hide_path);
        toml::to_string_pretty(&shown).context("settings as text")
    }
}

/// The format of the settings file, read with this program's own `toml` crate; `figment` has a different reader.
enum TomlText {}

impl Format for TomlText {
    type Error = toml::de::Error;

    const NAME: &'static str = "TOML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Self::Error> {
        toml::from_str(text)
    }
}

/// Settings from the environment. Only names with a section are settings; names such as `PRS_ANVIL` are for tools.
fn environment() -> Env {
    let settings = Env::prefixed("PRS_").filter(|key| key.as_str().contains("__"));
    settings.map(|key| {
        let key = key.as_str().to_lowercase().replace("__", ".");
        key.replace("chains.arbitrum_one.", "chains.arbitrum-one.").into()
    })
}

/// Keeps only the scheme and host of a URL.
fn hide_path(text: &mut String) {
    if let Ok(url) = url::Url::parse(text) {
        *text = format!("{}://{}/…", url.scheme(), url.host_str().unwrap_or_default());
    }
}

/// A database URL without its password, which can be in the authority or in the query.
pub fn without_password(address: &str) -> String {
    let Ok(mut url) = url::Url::parse(address) else {
        return address
            .split_once("://")
            .map_or("(unreadable)", |(scheme, _)| scheme)
            .to_owned();
    };
    if url.password().is_some() {
        // A URL with a password has a host, so setting the password cannot fail.
        let _ = url.set_password(Some("hidden"));
    }
    if url.query_pairs().any(|(name, _)| is_secret_name(&name)) {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let shown = pairs.iter().map(|(name, value)| {
            if is_secret_name(name) {
                (name.as_str(), "hidden")
            } else {
                (name.as_str(), value.as_str())
            }
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

/// An error text with the name of the setting and what is wrong with it, without the values of secrets.
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
            if name.is_empty() {
                format!("{what}{place}")
            } else {
                format!("{name}: {what}{place}")
            }
        })
        .collect();
    anyhow::anyhow!("settings: {}", lines.join("; "))
}
