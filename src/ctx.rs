//! Handles that a flow may use. Fields only, no logic, cheap to clone.

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
        paying::charge::ProtocolFee,
        rates::RateGuards,
        recovery::RecoverySchedule,
        registration::Registration,
        relay::BidRules,
        schedule::RetryRules,
        screening::Screening,
        secure_payment::step::Counted,
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

/// An owner, or a client ID of it.
type Testing = HashSet<(OwnerId, Option<ClientRowId>)>;

/// Calls that are answered once, by owner, scope and key: how many there are of each on this instance, and whose turn it is.
type Answering = HashMap<(String, String), (usize, Arc<tokio::sync::Mutex<()>>)>;

/// What may be made before it is counted again, for each public client ID and for all else of a platform.
pub type Headrooms = Mutex<LruCache<(PlatformId, Option<ClientRowId>), Headroom>>;

/// Who takes places: the keys, sessions and backend client IDs of a platform together, or its public client IDs, which
/// strangers use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PermitHolder {
    /// The platform.
    pub platform: PlatformId,
    /// Whether anybody may be calling.
    pub is_public: bool,
    /// The secure payment that its token was shown for: it has a few of the places of who it belongs to.
    pub link: Option<SecurePaymentId>,
}

/// Permits for work that is in flight on this instance.
#[derive(Debug)]
pub struct Permits {
    /// How many one holder may take.
    pub each: usize,
    /// All that there are.
    pub all: Arc<Semaphore>,
    /// Those of each holder who has one or waits for one.
    pub own: Mutex<HashMap<PermitHolder, Weak<Semaphore>>>,
}

/// Everything that flows work with.
#[derive(Clone)]
pub struct Ctx {
    /// Database.
    pub db: Db,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers and randomness.
    pub ids: Arc<dyn Ids>,
    /// Encryption at rest.
    pub sealer: Arc<dyn Sealer>,
    /// Currencies and contracts.
    pub catalogue: Arc<Catalogue>,
    /// Whom the service talks to.
    pub partners: Partners,
    /// How people sign in.
    pub people: People,
    /// How long callers wait.
    pub waits: Arc<Waits>,
    /// Settings of webhooks.
    pub webhooks: Arc<WebhookRules>,
    /// How much one owner may have.
    pub caps: Arc<Caps>,
    /// Settings of payments.
    pub payments: Arc<PaymentRules>,
    /// Settings of recurring payments.
    pub schedules: Arc<ScheduleRules>,
    /// Settings of rates.
    pub rates: Arc<RateRules>,
    /// Settings of secure payments.
    pub secure_payments: Arc<SecurePaymentRules>,
    /// Settings of payers.
    pub payers: Arc<PayerRules>,
    /// What this instance remembers for the pages of secure payments.
    pub payment_pages: Arc<PaymentPages>,
    /// Settings of screening.
    pub screening: Arc<ScreeningRules>,
    /// The service's own pages.
    pub own_pages: Arc<OwnPages>,
    /// Counts the changes of credentials on this instance, so that none is believed longer than it is good.
    pub credential_changes: Arc<AtomicU64>,
    /// Counts the changes of what pages may call from, so that none is let in longer than it is listed.
    pub origin_changes: Arc<AtomicU64>,
    /// Credentials that this instance issued, by their hash, and until which reading of the steady clock that counts.
    pub issued: Arc<Mutex<LruCache<String, Duration>>>,
    /// Rows of the credentials whose use this instance is noting.
    pub noting: Arc<Mutex<HashSet<String>>>,
    /// Who waits for a test of endpoints on this instance.
    pub testing: Arc<Mutex<Testing>>,
    /// Calls with an idempotency key that this instance is answering.
    pub answering: Arc<Mutex<Answering>>,
    /// Permits for batches of payments that are made.
    pub batches: Arc<Permits>,
    /// Requests that may be made before those that await payment are counted again.
    pub headrooms: Arc<Headrooms>,
    /// Permits for secure payments that are made with public client IDs, and for all requests that are counted.
    pub counted_requests: Arc<Permits>,
    /// Permits for questions to each enabled network that callers wait for.
    pub questions: Arc<BTreeMap<Network, Arc<Permits>>>,
    /// Permits for wallets that are screened.
    pub screenings: Arc<Permits>,
    /// Permits for calls of the off-ramp partner that callers wait for.
    pub off_ramp_calls: Arc<Permits>,
    /// Permits for news that the off-ramp partner tells by callbacks.
    pub news: Arc<Semaphore>,
    /// Told when deliveries may be due, so that the worker does not wait for its next tick.
    pub due: Arc<Notify>,
}

/// Whom the service talks to.
#[derive(Clone)]
pub struct Partners {
    /// Enabled chains.
    pub chains: Arc<Chains>,
    /// The account of this service on each network on which it has one.
    pub relays: Arc<BTreeMap<Network, Arc<dyn Relay>>>,
    /// Sender of webhooks.
    pub outbound: Arc<dyn Outbound>,
    /// Feeds of rates beside the chains, the one that counts first; none where no such rate is used.
    pub rate_feeds: Arc<[Arc<dyn RateFeed>]>,
    /// Who screens wallets; none where nobody does.
    pub screeners: Arc<[Arc<dyn Screener>]>,
    /// Who proves payers and pays their bank accounts; `None` where nobody does.
    pub off_ramp: Option<Arc<dyn OffRamp>>,
}

/// How people sign in.
#[derive(Clone)]
pub struct People {
    /// Hashing of passwords.
    pub passwords: Arc<dyn Passwords>,
    /// Memory of guesses at passwords.
    pub guesses: Arc<dyn GuessCounter>,
    /// Settings of sessions.
    pub sessions: Arc<SessionRules>,
    /// Who may open an account.
    pub registration: Registration,
}

/// Settings of webhooks.
#[derive(Debug)]
pub struct WebhookRules {
    /// Which URLs may be registered and connected to.
    pub url_policy: UrlPolicy,
    /// Prefixes of the headers, without the dash.
    pub header_prefixes: Vec<String>,
    /// Whether the headers of Standard Webhooks are sent beside those of the contract.
    pub standard_headers: bool,
    /// Whether confirmed and partial payments are told to their client ID and secure payment a second time.
    pub scoped_variants: bool,
    /// Whether owners are told when a credited payment left the chain.
    pub reversals: bool,
    /// When rounds of deliveries come whose tries failed.
    pub recovery: RecoverySchedule,
    /// For how long an endpoint may take nothing before it is switched off.
    pub disable_after: Option<TimeDelta>,
    /// Which client IDs may manage endpoints.
    pub client_id_management: EndpointManagers,
    /// Days that events and finished deliveries are kept.
    pub retention_days: u32,
}

impl WebhookRules {
    /// Before when events and finished deliveries are old.
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
    /// Spending limit of a conversion above the current rate, in basis points.
    pub conversion_slippage_basis_points: u16,
    /// Part of what a request asks for below which a payment that is set aside waits for nobody.
    pub minor_share: Option<Percent>,
    /// How old the rates of a conversion on chain may be.
    pub rate_ages: RateAges,
    /// The service's own fee.
    pub protocol_fee: Option<ProtocolFee>,
    /// Most gas of one transaction that pays a batch.
    pub batch_gas: u64,
    /// For how long a quote holds.
    pub quotes_last: TimeDelta,
    /// Part of what a quoted request asks for that may be missing when it counts as paid.
    pub tolerance: Percent,
}

/// Settings of rates of feeds beside the chains.
#[derive(Debug)]
pub struct RateRules {
    /// What a rate has to keep to.
    pub guards: RateGuards,
    /// Time between two readings.
    pub read_every: TimeDelta,
}

/// Settings of screening.
#[derive(Debug)]
pub struct ScreeningRules {
    /// Whether another provider is asked when the chosen one does not answer.
    pub has_backup: bool,
}

/// Settings of recurring payments.
#[derive(Debug)]
pub struct ScheduleRules {
    /// What the relayer gets for each payment, in the payment currency; `None` for nothing.
    pub fee: Option<Amount>,
    /// Whether public client IDs may make them.
    pub may_public_make: bool,
    /// How long one waits for the signature of its payer.
    pub lapse_after: TimeDelta,
    /// What follows when an execution fails.
    pub retries: RetryRules,
    /// What transactions may cost, by network.
    pub bids: BTreeMap<Network, BidRules>,
}

/// Settings of payers.
#[derive(Debug)]
pub struct PayerRules {
    /// Whether account numbers and IBANs are shown by their last four characters alone.
    pub mask_bank_details: bool,
}

/// Settings of secure payments.
#[derive(Debug)]
pub struct SecurePaymentRules {
    /// Address of the payment page.
    pub pay_url: String,
    /// How long one can be paid that names no time of its own.
    pub lasts: TimeDelta,
    /// How long one that nobody paid is kept after its end.
    pub kept: TimeDelta,
}

/// A balance that is asked for: network, token or `None` for the coin, and wallet.
pub type BalanceOf = (Network, Option<Address>, Address);

/// What one instance remembers for the pages of secure payments: whoever has a token may ask, and asks again and again.
#[derive(Debug)]
pub struct PaymentPages {
    /// Permits for questions about balances.
    pub permits: Arc<Permits>,
    /// Balances, with the reading of the steady clock at which they were read.
    pub balances: Mutex<LruCache<BalanceOf, (Duration, U256)>>,
    /// Reports, by what they are counted for.
    pub reports: Mutex<LruCache<String, Counted>>,
    /// Recipients that public client IDs had screened, by platform and client ID.
    pub recipients: Mutex<LruCache<String, Counted>>,
    /// Those of them that did not pass, by what they were asked about.
    pub rejected: Mutex<LruCache<String, Screening>>,
}

/// Settings of sessions.
#[derive(Debug)]
pub struct SessionRules {
    /// Host of the authentication service, as wallets show it to people.
    pub domain: String,
    /// Address of the authentication service, as wallets show it to people.
    pub uri: String,
    /// Origins of the pages that may use sessions: the own ones and those of the settings.
    pub pages: BTreeSet<String>,
    /// Whether cookies are sent over https alone.
    pub is_cookie_secure: bool,
    /// How long the session of a wallet lasts at most, however often it is used.
    pub wallet_absolute: TimeDelta,
    /// Networks on which contract wallets are asked; empty for all that are enabled.
    pub wallet_networks: BTreeSet<Network>,
}
