//! The dependencies of flows, such as database, clock, limits and caches. The struct has only fields and no logic, and
//! cloning it is cheap.

use crate::{
    domain::{
        address::Address,
        amount::{Amount, Percent},
        caps::{Caps, Headroom},
        client_id::{EndpointManagers, OwnPages},
        conversion::RateAges,
        currency::Catalogue,
        ids::{ClientRowId, OwnerId, PlatformId, SecurePaymentId},
        network::Network,
        orchestrator::DirectLinks,
        paying::{charge::ProtocolFee, prepared::FeeLimits},
        rates::RateGuards,
        recovery::RecoverySchedule,
        registration::Registration,
        relay::BidRules,
        schedule::RetryRules,
        screening::Screening,
        secure_payment::step::ReportCount,
        waits::Waits,
        webhook::UrlPolicy,
    },
    ports::{
        chain::Chains, clock::Clock, guesses::GuessCounter, ids::Ids, off_ramp::OffRamp, outbound::Outbound,
        passwords::Passwords, rates::RateFeed, relay::Relay, screening::Screener, sealer::Sealer,
    },
    store::Db,
};
use alloy::primitives::U256;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, Weak, atomic::AtomicU64},
    time::Duration,
};
use tokio::sync::{Notify, Semaphore};

/// Owners, and client IDs of owners, that have an endpoint test in progress.
type OwnersInTest = HashSet<(OwnerId, Option<ClientRowId>)>;

/// Calls with an idempotency key that are in progress on this instance. The map key is the owner and scope as one text,
/// and the idempotency key. The value is the number of these calls, and the lock that lets them run one at a time.
type CallsInFlight = HashMap<(String, String), (usize, Arc<tokio::sync::Mutex<()>>)>;

/// Number of requests that may be created before the open requests are counted again. Each public client ID has its own
/// number. All other callers of a platform share another number (key without client ID).
pub type Headrooms = Mutex<LruCache<(PlatformId, Option<ClientRowId>), Headroom>>;

/// A group of callers that share permits. One group is the keys, sessions and backend client IDs of a platform. The
/// other group is all public client IDs of the platform, which strangers can use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PermitHolder {
    /// The platform.
    pub platform: PlatformId,
    /// Whether this is the group of the public client IDs.
    pub is_public: bool,
    /// Set for a call with the token of a secure payment: all calls with this token together get only a few of the
    /// group's permits.
    pub link: Option<SecurePaymentId>,
}

/// Permits for work in progress on this instance.
#[derive(Debug)]
pub struct WorkPermits {
    /// Maximum number of permits that one holder may have at a time.
    pub each: usize,
    /// Permits that all holders together may have at a time.
    pub all: Arc<Semaphore>,
    /// Permits of each holder that has one or waits for one.
    pub own: Mutex<HashMap<PermitHolder, Weak<Semaphore>>>,
}

/// All dependencies of flows.
#[derive(Clone)]
pub struct Ctx {
    /// Database.
    pub db: Db,
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers and randomness.
    pub ids: Arc<dyn Ids>,
    /// Encryption at rest.
    pub sealer: Arc<dyn Sealer>,
    /// Currencies and contracts.
    pub catalogue: Arc<Catalogue>,
    /// External systems.
    pub partners: Partners,
    /// Sign-in of people.
    pub people: People,
    /// How long a caller waits, for example for a permit or a node, before the call fails.
    pub waits: Arc<Waits>,
    /// Settings of webhooks.
    pub webhooks: Arc<WebhookRules>,
    /// Maximum numbers of objects, such as endpoints and keys, that one owner may have.
    pub caps: Arc<Caps>,
    /// Settings of payments.
    pub payments: Arc<PaymentRules>,
    /// Settings of recurring payments.
    pub schedules: Arc<ScheduleRules>,
    /// Settings of rates.
    pub rates: Arc<RateRules>,
    /// Settings of secure payments.
    pub secure_payments: Arc<SecurePaymentRules>,
    /// Which client IDs an orchestrator may link itself.
    pub direct_links: DirectLinks,
    /// Settings of payers.
    pub payers: Arc<PayerRules>,
    /// Caches of this instance for payment pages.
    pub payment_pages: Arc<PaymentPageCaches>,
    /// Settings of screening.
    pub screening: Arc<ScreeningRules>,
    /// The service's own pages.
    pub own_pages: Arc<OwnPages>,
    /// Number of credential changes on this instance. A change invalidates cached lookups.
    pub credential_changes: Arc<AtomicU64>,
    /// Number of changes of allowed origins on this instance. A change invalidates the cached list.
    pub origin_changes: Arc<AtomicU64>,
    /// Credentials issued by this instance, by hash, with their expiry on the monotonic clock.
    pub issued: Arc<Mutex<LruCache<String, Duration>>>,
    /// Row ids of the credentials whose last use this instance is currently writing to the database.
    pub noting: Arc<Mutex<HashSet<String>>>,
    /// Owners and client IDs whose endpoint test is in progress on this instance.
    pub testing: Arc<Mutex<OwnersInTest>>,
    /// Calls with an idempotency key in progress on this instance.
    pub answering: Arc<Mutex<CallsInFlight>>,
    /// Permits for creating batches of payments.
    pub batches: Arc<WorkPermits>,
    /// Number of requests that may be created before the open requests are counted again.
    pub headrooms: Arc<Headrooms>,
    /// Permits for transactions that create links with public client IDs or count open requests.
    pub counted_requests: Arc<WorkPermits>,
    /// Permits for searches and counts in the delivery log, which may read every delivery of a platform.
    pub delivery_searches: Arc<WorkPermits>,
    /// Permits for chain lookups that a caller waits for, by enabled network.
    pub questions: Arc<BTreeMap<Network, Arc<WorkPermits>>>,
    /// Permits for wallet screenings.
    pub screenings: Arc<WorkPermits>,
    /// Permits for calls to the off-ramp partner that a caller waits for.
    pub off_ramp_calls: Arc<WorkPermits>,
    /// Permits for callbacks of the off-ramp partner.
    pub news: Arc<Semaphore>,
    /// Notified when deliveries may be due, so that the worker does not wait for its next tick.
    pub due: Arc<Notify>,
}

/// External systems.
#[derive(Clone)]
pub struct Partners {
    /// Enabled chains.
    pub chains: Arc<Chains>,
    /// The account of this service, by network.
    pub relays: Arc<BTreeMap<Network, Arc<dyn Relay>>>,
    /// Sender of webhooks.
    pub outbound: Arc<dyn Outbound>,
    /// Off-chain rate feeds in order of precedence; empty if none is used.
    pub rate_feeds: Arc<[Arc<dyn RateFeed>]>,
    /// Wallet screening providers; empty if none.
    pub screeners: Arc<[Arc<dyn Screener>]>,
    /// Partner that verifies payers and pays their bank accounts; `None` if no partner is configured.
    pub off_ramp: Option<Arc<dyn OffRamp>>,
}

/// Sign-in of people.
#[derive(Clone)]
pub struct People {
    /// Hashing of passwords.
    pub passwords: Arc<dyn Passwords>,
    /// Counters of password guesses.
    pub guesses: Arc<dyn GuessCounter>,
    /// Settings of sessions.
    pub sessions: Arc<SessionRules>,
    /// Who may register.
    pub registration: Registration,
}

/// Settings of webhooks.
#[derive(Debug)]
pub struct WebhookRules {
    /// Rules for endpoint URLs.
    pub url_policy: UrlPolicy,
    /// Header prefixes, without the dash.
    pub header_prefixes: Vec<String>,
    /// Whether the Standard Webhooks headers are also sent.
    pub standard_headers: bool,
    /// Whether confirmed and partial payments also send the `.client_id` and `.checkout` variants of their events.
    pub scoped_variants: bool,
    /// Whether an event is sent when a credited payment leaves the chain.
    pub reversals: bool,
    /// Times of recovery rounds for failed deliveries.
    pub recovery: RecoverySchedule,
    /// How long an endpoint may fail before it is switched off.
    pub disable_after: Option<TimeDelta>,
    /// Which client IDs may manage endpoints.
    pub client_id_management: EndpointManagers,
    /// Days for which events and finished deliveries are stored.
    pub retention_days: u32,
}

impl WebhookRules {
    /// Events and finished deliveries from before this time are old.
    pub fn old_before(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now - TimeDelta::days(i64::from(self.retention_days))
    }
}

/// Settings of payments.
#[derive(Debug)]
pub struct PaymentRules {
    /// `paymentProcessor` of crypto payments.
    pub processor_crypto: String,
    /// `paymentProcessor` of fiat payments.
    pub processor_fiat: String,
    /// How much more than the amount at the current rate the payer of an on-chain conversion may spend, in basis points
    /// of that amount.
    pub conversion_slippage_basis_points: u16,
    /// Share of the requested amount below which a quarantined payment counts as minor and needs no action.
    pub minor_share: Option<Percent>,
    /// Maximum age of rates of an on-chain conversion.
    pub rate_ages: RateAges,
    /// The service's own fee.
    pub protocol_fee: Option<ProtocolFee>,
    /// Maximum fees for energy in transactions that the service prepares.
    pub fee_limits: FeeLimits,
    /// Maximum gas of a batch transaction.
    pub batch_gas: u64,
    /// Validity of a quote.
    pub quotes_last: TimeDelta,
    /// Tolerance of a quoted request: the request counts as paid although up to this share of its amount is missing.
    pub tolerance: Percent,
}

/// Settings of rates from off-chain feeds.
#[derive(Debug)]
pub struct RateRules {
    /// Limits for rates.
    pub guards: RateGuards,
    /// Time between two reads.
    pub read_every: TimeDelta,
}

/// Settings of screening.
#[derive(Debug)]
pub struct ScreeningRules {
    /// Whether another provider is queried when the selected one does not respond.
    pub has_backup: bool,
}

/// Settings of recurring payments.
#[derive(Debug)]
pub struct ScheduleRules {
    /// Fee of the relayer for each payment, in the payment currency; `None` for no fee.
    pub fee: Option<Amount>,
    /// Whether public client IDs may create recurring payments.
    pub may_public_make: bool,
    /// How long a schedule waits for the signature of its payer before it is cancelled.
    pub lapse_after: TimeDelta,
    /// Policy for failed executions.
    pub retries: RetryRules,
    /// Gas price limits, by network.
    pub bids: BTreeMap<Network, BidRules>,
}

/// Settings of payers.
#[derive(Debug)]
pub struct PayerRules {
    /// Whether only the last four characters of account numbers and IBANs are shown.
    pub mask_bank_details: bool,
}

/// Settings of secure payments.
#[derive(Debug)]
pub struct SecurePaymentRules {
    /// URL of the payment page.
    pub pay_url: String,
    /// Default lifetime of a secure payment.
    pub lasts: TimeDelta,
    /// How long an expired secure payment that received nothing is stored after its expiry.
    pub kept: TimeDelta,
}

/// Key of a balance: network, token or `None` for the native coin, and wallet.
pub type BalanceOf = (Network, Option<Address>, Address);

/// Caches and counters of one instance for calls of payment pages. They limit the cost of these calls, because anyone
/// with a token can make them and pages poll.
#[derive(Debug)]
pub struct PaymentPageCaches {
    /// Permits for balance lookups.
    pub permits: Arc<WorkPermits>,
    /// Balances, with the time of reading on the monotonic clock.
    pub balances: Mutex<LruCache<BalanceOf, (Duration, U256)>>,
    /// Counters of the reports that payment pages send, by what is limited: a secure payment, an address or a client
    /// ID.
    pub reports: Mutex<LruCache<String, ReportCount>>,
    /// Number of recipients screened for public client IDs, by platform and client ID.
    pub recipients: Mutex<LruCache<String, ReportCount>>,
    /// Screening results of recipients that were rejected in calls of public client IDs. The key is platform, provider,
    /// network and wallet.
    pub rejected: Mutex<LruCache<String, Screening>>,
}

/// Settings of sessions.
#[derive(Debug)]
pub struct SessionRules {
    /// Host of the authentication service, as wallets display it.
    pub domain: String,
    /// URL of the authentication service, as wallets display it.
    pub uri: String,
    /// Origins of pages that may use sessions: the service's own and those from the settings.
    pub pages: BTreeSet<String>,
    /// Whether cookies are sent only over https.
    pub is_cookie_secure: bool,
    /// Maximum lifetime of a wallet session, however often it is used.
    pub wallet_absolute: TimeDelta,
    /// Networks on which contract wallets are checked; empty for all enabled networks.
    pub wallet_networks: BTreeSet<Network>,
}
