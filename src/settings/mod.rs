//! All configuration: compiled-in defaults, then a file, then the environment; checked before anything starts.

mod bounds;
mod caps;
pub mod catalogue;
mod reference;

use crate::domain::{
    amount::Percent,
    client_id::{EndpointManagers, normalise_domain},
    conversion::RateAges,
    network::{Family, Network},
    recovery::RecoverySchedule,
    registration,
};
use anyhow::{Context, anyhow, bail};
use chrono::TimeDelta;
use figment::{
    Figment,
    error::Kind,
    providers::{Env, Format, Serialized, Toml},
};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::Path,
};

pub use caps::CapSettings;
pub use reference::markdown;

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
    /// Names that appear in events.
    pub brand: BrandSettings,
    /// On-chain conversion.
    pub conversion: ConversionSettings,
    /// How often credentials may call.
    pub rate_limits: RateLimitSettings,
    /// What one platform or orchestrator may have.
    pub caps: CapSettings,
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
    /// Address that clients reach the service at; absent, `http://` and `http.listen`.
    pub public_url: Option<String>,
    /// Address that clients reach the authentication service at; absent, `http.public_url`.
    pub auth_url: Option<String>,
    /// Address of the hosted payment page; absent, `/pay` under `http.public_url`.
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

/// One network. A network is enabled by its node addresses.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChainSettings {
    /// JSON-RPC addresses of an EVM network, tried in order; two or more let the service check one against another.
    pub rpc_urls: Vec<String>,
    /// Blocks after which a payment counts as final, the block itself included; absent, the node's `finalized` tag.
    #[schemars(range(min = 1, max = 100_000))]
    pub confirmations: Option<u64>,
    /// Distinct nodes that have to agree on a final block before its payments count; absent, two where two or more
    /// addresses are set. A node that is missing delays payments and never lowers it.
    #[schemars(range(min = 1, max = 16))]
    pub agreement: Option<usize>,
    /// Seconds without agreement after which one node is believed alone; absent, never.
    #[schemars(range(min = 10, max = 604_800))]
    pub agreement_fallback_s: Option<u64>,
    /// First block that is read, when it is older than the final block of the first start; it is filled in beside new
    /// blocks.
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub start_block: Option<u64>,
    /// Shortest pause between two looks at the chain while a payment is awaited, in milliseconds; a slower chain is
    /// looked at when its next block is due, and one on which nothing is awaited after thirty
    /// pauses, or a minute where that is shorter.
    #[schemars(range(min = 20, max = 600_000))]
    pub poll_ms: u64,
    /// Time that one call to a node may take, in milliseconds.
    #[schemars(range(min = 50, max = 60_000))]
    pub call_timeout_ms: u64,
    /// Payment contracts by name, instead of the published ones.
    pub contracts: BTreeMap<String, String>,
    /// Token contracts by symbol, instead of the published ones.
    pub tokens: BTreeMap<String, String>,
    /// Address of the HTTP interface of Tron.
    pub api_url: Option<String>,
    /// Key of the HTTP interface of Tron.
    pub api_key: Option<String>,
}

impl Default for ChainSettings {
    fn default() -> Self {
        Self {
            rpc_urls: Vec::new(),
            confirmations: None,
            agreement: None,
            agreement_fallback_s: None,
            start_block: None,
            poll_ms: 2_000,
            call_timeout_ms: 2_000,
            contracts: BTreeMap::new(),
            tokens: BTreeMap::new(),
            api_url: None,
            api_key: None,
        }
    }
}

impl ChainSettings {
    /// Whether the settings are enough to serve the network.
    pub fn is_enabled(&self, network: Network) -> bool {
        match network.family() {
            Family::Evm => !self.rpc_urls.is_empty(),
            Family::Tron => self.api_url.is_some(),
        }
    }

    /// The name of a setting that is there although a network of this kind has none of it.
    fn misplaced(&self, network: Network) -> Option<&'static str> {
        let of_nodes = [
            ("rpc_urls", !self.rpc_urls.is_empty()),
            ("agreement", self.agreement.is_some()),
            ("agreement_fallback_s", self.agreement_fallback_s.is_some()),
        ];
        let of_interface = [("api_url", self.api_url.is_some()), ("api_key", self.api_key.is_some())];
        let others: &[(&str, bool)] = match network.family() {
            Family::Evm => &of_interface,
            Family::Tron => &of_nodes,
        };
        others.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
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

/// Delivery of events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Prefix of the webhook headers, or a list of at most four: each header is sent under every one of them, unless an
    /// endpoint chose one.
    pub header_prefix: HeaderPrefix,
    /// Whether deliveries carry the headers of Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`)
    /// beside the others.
    pub standard_headers: bool,
    /// Whether http endpoints on localhost, 127.0.0.1 and [::1] are accepted; absent, outside production.
    pub allow_loopback: Option<bool>,
    /// Deliveries that are sent at the same time.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: usize,
    /// Deliveries that one endpoint receives at the same time.
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency_per_endpoint: usize,
    /// Whether a confirmed or partial payment raises further events besides the plain one: `….client_id` when a client
    /// ID created the request, `….checkout` when a secure payment did.
    pub scoped_variants: bool,
    /// Whether `payment.reversed` is sent when a credited payment left the chain. The request is counted again either
    /// way. Without it nothing that was told is taken back, so nothing is told twice: a payment that returns raises an
    /// event only when it completes a request that was never told as confirmed.
    pub reversals: bool,
    /// When a delivery is tried in further rounds after its four tries failed: seconds after the fourth one, ascending, at
    /// most 20; `[]` for none. Each round is four tries of the same delivery, marked as a replay. An endpoint that answers
    /// again gets what waits for it at once.
    pub recovery_rounds_s: Vec<u32>,
    /// Days for which every try to an endpoint may fail before it is switched off; 0 for ever. Its owner
    /// learns of it from `webhook.disabled` and switches it on again.
    #[schemars(range(min = 0, max = 365))]
    pub disable_after_days: u32,
    /// Which client IDs may register, list, switch, delete and test endpoints: `all`, `backend` for those without allowed
    /// domains, or `off`. API keys and sessions always may. Under `all` a public client ID, one with allowed domains, sees
    /// only the endpoints that it registered and nobody approved.
    pub client_id_management: ClientIdManagement,
    /// Days that events and finished deliveries are kept.
    #[schemars(range(min = 1, max = 3_650))]
    pub retention_days: u32,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            header_prefix: HeaderPrefix::One("x-service".to_owned()),
            standard_headers: true,
            allow_loopback: None,
            concurrency: 256,
            concurrency_per_endpoint: 16,
            scoped_variants: false,
            reversals: true,
            recovery_rounds_s: vec![60, 300, 1_800, 7_200, 21_600, 86_400, 172_800],
            disable_after_days: 5,
            client_id_management: ClientIdManagement::default(),
            retention_days: 30,
        }
    }
}

/// Beginnings of headers that HTTP, its proxies and browsers read.
const HTTP_FAMILIES: [&str; 18] = [
    "accept",
    "access-control",
    "authorization",
    "cache-control",
    "connection",
    "content",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if",
    "proxy",
    "range",
    "sec",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-forwarded",
];

/// One prefix, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "must be letters, digits and single dashes, for example x-service, or a list of up to four different ones"
)]
pub enum HeaderPrefix {
    /// The only one.
    One(String),
    /// All of them.
    Several(Vec<String>),
}

impl HeaderPrefix {
    /// All of them.
    pub fn list(&self) -> Vec<String> {
        match self {
            Self::One(prefix) => vec![prefix.clone()],
            Self::Several(prefixes) => prefixes.clone(),
        }
    }

    fn validate(&self, has_standard: bool) -> anyhow::Result<()> {
        let prefixes: Vec<String> = self.list().iter().map(|prefix| prefix.to_lowercase()).collect();
        let is_name = |prefix: &String| {
            let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
            prefix.len() <= 32 && prefix.split('-').all(is_word)
        };
        let mut different = prefixes.clone();
        different.sort_unstable();
        different.dedup();
        if !(1..=4).contains(&prefixes.len()) || !prefixes.iter().all(is_name) || different.len() < prefixes.len() {
            bail!(
                "webhooks.header_prefix: must be letters, digits and single dashes, for example x-service, or a list of up \
                 to four different ones"
            );
        }
        let is_of_http = |prefix: &&String| {
            let mut rests = HTTP_FAMILIES.iter().filter_map(|family| prefix.strip_prefix(family));
            rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if let Some(prefix) = prefixes.iter().find(is_of_http) {
            bail!("webhooks.header_prefix: {prefix} begins names of headers of HTTP; choose another one");
        }
        let is_signature = |prefix: &&String| prefix.split('-').any(|word| word == "signature");
        if let Some(prefix) = prefixes.iter().find(is_signature) {
            bail!("webhooks.header_prefix: {prefix} would be taken for the header of a signature; choose another one");
        }
        if has_standard && prefixes.iter().any(|prefix| prefix == "webhook") {
            bail!("webhooks.header_prefix: webhook is the prefix of Standard Webhooks; choose another one");
        }
        Ok(())
    }
}

impl WebhookSettings {
    /// When further rounds come. Errors: a list that is no schedule.
    pub fn recovery(&self) -> anyhow::Result<RecoverySchedule> {
        RecoverySchedule::new(&self.recovery_rounds_s)
            .map_err(|sentence| anyhow!("webhooks.recovery_rounds_s: {sentence}"))
    }

    /// For how long an endpoint may take nothing; none for ever.
    pub fn disable_after(&self) -> Option<TimeDelta> {
        let days = i64::from(self.disable_after_days);
        (days > 0).then(|| TimeDelta::days(days))
    }
}

/// Which client IDs may manage endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientIdManagement {
    /// Every client ID.
    #[default]
    All,
    /// Client IDs without allowed domains.
    Backend,
    /// None.
    Off,
}

impl From<ClientIdManagement> for EndpointManagers {
    fn from(setting: ClientIdManagement) -> Self {
        match setting {
            ClientIdManagement::All => Self::All,
            ClientIdManagement::Backend => Self::Backend,
            ClientIdManagement::Off => Self::Off,
        }
    }
}

/// Names that appear in events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BrandSettings {
    /// `paymentProcessor` of crypto payments.
    pub processor_crypto: String,
    /// `paymentProcessor` of fiat payments.
    pub processor_fiat: String,
}

impl Default for BrandSettings {
    fn default() -> Self {
        Self {
            processor_crypto: "service-network".to_owned(),
            processor_fiat: "service-tech".to_owned(),
        }
    }
}

/// On-chain conversion.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConversionSettings {
    /// How far above the current rate the payer may be charged, in basis points.
    #[schemars(range(min = 0, max = 5_000))]
    pub slippage_basis_points: u16,
    /// Oldest rate that a conversion accepts, in seconds, by the symbol of a currency in lower case: how often its price
    /// feed is renewed at the latest, and a margin. `default` is for every currency without an entry; markets that close
    /// need more than a weekend. Of a path over several feeds the largest counts; 0 accepts any age.
    pub max_rate_age_s: BTreeMap<String, u64>,
    /// Part of what a request asks for, in basis points: a conversion on other terms than were handed out that is worth
    /// less is kept as `minor` and waits for nobody, so that dust neither hides a payment nor raises an alert. 0 has
    /// everything wait.
    #[schemars(range(min = 0, max = 1_000))]
    pub minor_basis_points: u16,
}

/// Key of the age that counts for currencies without one of their own.
pub const USUAL_RATE_AGE: &str = "default";

/// Most feeds are renewed within a day: 25 hours.
const USUAL_RATE_AGE_S: u64 = 25 * 3_600;

/// Feeds of currencies whose market closes over the weekend: 74 hours.
const MARKET_RATE_AGE_S: u64 = 74 * 3_600;

/// A year; nobody means a larger one.
const RATE_AGE_MAX_S: u64 = 366 * 24 * 3_600;

impl ConversionSettings {
    /// Part of what a request asks for below which a payment that is set aside waits for nobody.
    pub fn minor_share(&self) -> Option<Percent> {
        Percent::from_basis_points(self.minor_basis_points)
    }

    /// How old the rates of price feeds may be.
    pub fn rate_ages(&self) -> RateAges {
        let mut by_symbol = self.max_rate_age_s.clone();
        RateAges {
            usual_s: by_symbol.remove(USUAL_RATE_AGE).unwrap_or(USUAL_RATE_AGE_S),
            by_symbol,
        }
    }
}

impl Default for ConversionSettings {
    fn default() -> Self {
        let markets = ["cny", "eur", "gbp", "jpy"].map(|symbol| (symbol.to_owned(), MARKET_RATE_AGE_S));
        let mut max_rate_age_s = BTreeMap::from(markets);
        max_rate_age_s.insert(USUAL_RATE_AGE.to_owned(), USUAL_RATE_AGE_S);
        Self {
            slippage_basis_points: 100,
            max_rate_age_s,
            minor_basis_points: 100,
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
    /// What all API keys and sessions of a platform may call together, and all of its client IDs from one address, in
    /// quotas of one credential.
    #[schemars(range(min = 1, max = 1_000))]
    pub platform_factor: u32,
    /// Challenges, logins and registrations of one address.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub sign_in_per_minute: u32,
    /// Calls of one address with credentials that nobody knows.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub unknown_per_minute: u32,
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
            platform_factor: 4,
            sign_in_per_minute: 30,
            unknown_per_minute: 60,
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
            Some(path) => figment.merge(Toml::file_exact(path)),
            None if Path::new(DEFAULT_FILE).exists() => figment.merge(Toml::file_exact(DEFAULT_FILE)),
            None => figment,
        };
        // Only names with a section are settings; PRS_ANVIL and its like are for tools.
        let environment = Env::prefixed("PRS_")
            .filter(|key| key.as_str().contains("__"))
            .map(|key| {
                let key = key.as_str().to_lowercase().replace("__", ".");
                key.replace("chains.arbitrum_one.", "chains.arbitrum-one.").into()
            });
        // A key of digits alone is a text too.
        let digits = std::env::var("PRS_SECRETS__MASTER_KEY").ok();
        let figment = figment.merge(environment);
        let figment = match &digits {
            Some(key) => figment.merge(("secrets.master_key", key)),
            None => figment,
        };
        let settings: Self = figment.extract().map_err(|error| explain(&error))?;
        settings.validate()?;
        Ok(settings)
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
            for url in &chain.rpc_urls {
                let fits = url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
                if !fits {
                    bail!("chains.{id}.rpc_urls: every entry must be an http or https address");
                }
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
        for (name, url) in [
            ("public_url", &self.http.public_url),
            ("auth_url", &self.http.auth_url),
            ("pay_url", &self.http.pay_url),
        ] {
            if let Some(url) = url {
                url::Url::parse(url).with_context(|| format!("http.{name}: must be an absolute address"))?;
            }
        }
        self.validate_sessions()?;
        self.validate_listeners()?;
        for (symbol, age_s) in &self.conversion.max_rate_age_s {
            if symbol.to_lowercase() != *symbol {
                bail!("conversion.max_rate_age_s.{symbol}: must be written in lower case");
            }
            if *age_s > RATE_AGE_MAX_S {
                bail!("conversion.max_rate_age_s.{symbol}: must be at most {RATE_AGE_MAX_S}; 0 accepts any age");
            }
        }
        self.webhooks.header_prefix.validate(self.webhooks.standard_headers)?;
        let processors = [
            ("processor_crypto", &self.brand.processor_crypto),
            ("processor_fiat", &self.brand.processor_fiat),
        ];
        for (name, processor) in processors {
            if processor.trim().is_empty() {
                bail!("brand.{name}: must be a name, for example service-network");
            }
        }
        if let Err(entry) = self.rate_limits.trusted_networks() {
            bail!("rate_limits.trusted_proxies: {entry} is neither an address nor a network such as 10.0.0.0/8");
        }
        self.webhooks.recovery()?;
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

    /// Where payers find the payment page.
    pub fn pay_url(&self) -> String {
        self.http
            .pay_url
            .clone()
            .unwrap_or_else(|| format!("{}/pay", self.public_url()))
    }

    /// Whether loopback endpoints are accepted.
    pub fn allow_loopback(&self) -> bool {
        self.webhooks.allow_loopback.unwrap_or(!self.http.production)
    }

    /// The settings as text, with secrets hidden.
    pub fn shown(&self) -> anyhow::Result<String> {
        let mut shown = self.clone();
        shown.secrets.master_key = shown.secrets.master_key.map(|_| "(hidden)".to_owned());
        shown.database.url = without_password(&shown.database.url);
        for entry in &mut shown.secrets.master_keys {
            "(hidden)".clone_into(entry);
        }
        for chain in shown.chains.values_mut() {
            chain.api_key = chain.api_key.take().map(|_| "(hidden)".to_owned());
            // Addresses of node providers carry the key in their path.
            for text in chain.rpc_urls.iter_mut() {
                if let Ok(url) = url::Url::parse(text) {
                    *text = format!("{}://{}/…", url.scheme(), url.host_str().unwrap_or_default());
                }
            }
        }
        toml::to_string_pretty(&shown).context("settings as text")
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
