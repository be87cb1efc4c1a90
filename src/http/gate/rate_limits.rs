//! Rate limits for a credential from one address, and for all credentials of a platform: 429 with `Retry-After`, and
//! the RateLimit headers on every metered response.
//!
//! A platform has a fixed multiple of one credential's quota, regardless of its number of credentials. Its keys and
//! sessions share one counter for all addresses. Its client IDs share one counter per address, because strangers use
//! them. A call with the key of an orchestrator and a linked client ID is counted for the client ID and for the
//! orchestrator; the counter of the orchestrator covers all addresses.
//!
//! An address that keeps guessing credentials is blocked, but many callers may share this address. Credentials from a
//! blocked address are therefore still looked up, a few at a time: guesses block no valid credential and cost the
//! database little. A credential that was valid recently does not wait.
//!
//! A call can have several items, for example a batch payout. Items have counters of their own, kept for the same
//! credentials and addresses as the counters of calls. Either all items of a call are admitted, or the call is
//! rejected.
//!
//! Each instance counts separately. A counter shared through the database would cost a write for every call, more than
//! most calls cost. Behind a load balancer a caller gets at most the quota times the number of instances.
//! Source: rules P.1.5.

use crate::{
    domain::{
        caller::{Caller, PlatformCaller},
        ids::OrchestratorId,
        quota::{QuotaBreach, Tier},
        refusal::Refusal,
    },
    http::{
        call_id::CallId,
        error::{Problem, too_many, too_many_items},
        gate::{
            access::{self, AccessRule},
            address::CallerAddress,
            scheme::PolicyMark,
        },
        routes::RouteTable,
    },
    ports::clock::Clock,
    settings::RateLimitSettings,
};
use governor::{
    Quota, RateLimiter,
    clock::Clock as Ticks,
    middleware::StateInformationMiddleware,
    nanos::Nanos,
    state::{NotKeyed, StateStore},
};
use lru::LruCache;
use poem::{
    Endpoint, EndpointExt, Response,
    http::{HeaderMap, HeaderName, HeaderValue, Method},
};
use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

/// Maximum number of counters in each group of counters ([`Memory`]), about 300 bytes each. The least recently used
/// counters are dropped first.
const COUNTS_MAX: NonZeroUsize = NonZeroUsize::new(50_000).unwrap();

/// The burst is one sixth of the quota per minute.
const BURSTS_PER_MINUTE: u32 = 6;

/// Concurrent credential lookups for addresses that are blocked for guessing.
const GUESSES_LOOKED_UP: usize = 4;

const WHOLE_MINUTE: Duration = Duration::from_mins(1);

/// Calls that manage client IDs have this multiple of the quota: people who click through a list send them in bursts.
const MANAGEMENT_FACTOR: u32 = 2;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The maximum value of the documented headers; larger quotas are shown as this value.
pub(in crate::http) const SHOWN_MAX: u32 = 1_000_000;

/// What a call counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A call with a credential.
    Work(Tier),
    /// A call that manages client IDs.
    Management(Tier),
    /// All calls with the keys and sessions of a platform with this tier.
    Platform(Tier),
    /// All calls with the client IDs of a platform with this tier.
    ClientIds(Tier),
    /// Items of the calls of a credential.
    Items,
    /// Items of all calls of a platform with its keys and sessions.
    ItemsOfPlatform,
    /// Items of all calls of a platform with its client IDs.
    ItemsOfClientIds,
    /// Sign-in: challenges, logins, registrations.
    SignIn,
    /// An unknown credential.
    Unknown,
    /// A visit to the payment page of one link.
    Page,
    /// A visit to a payment page that does not exist.
    UnknownPage,
}

/// Groups of counters, each with a memory of its own. Counters that strangers can create in large numbers evict only
/// counters of the same group.
#[derive(Debug, Clone, Copy)]
enum Memory {
    /// Counters of valid credentials and their platforms.
    Credentials,
    /// Counters of addresses only.
    Addresses,
    /// Counters of links: anyone with a public client ID can create thousands of links.
    Pages,
}

impl Purpose {
    fn memory(self) -> Memory {
        match self {
            Self::Work(_)
            | Self::Management(_)
            | Self::Platform(_)
            | Self::ClientIds(_)
            | Self::Items
            | Self::ItemsOfPlatform
            | Self::ItemsOfClientIds => Memory::Credentials,
            Self::SignIn | Self::Unknown | Self::UnknownPage => Memory::Addresses,
            Self::Page => Memory::Pages,
        }
    }

    /// Whether a caller that continues to call after a rejection is blocked for a while. Counters of a platform do not
    /// block: one credential must not block the others for long. Counters of items do not block either: the call itself
    /// is counted and can be blocked.
    fn blocks(self) -> bool {
        !matches!(
            self,
            Self::Platform(_) | Self::ClientIds(_) | Self::Items | Self::ItemsOfPlatform | Self::ItemsOfClientIds
        )
    }
}

/// Key of a counter: subject, purpose and address; `None` counts calls from everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RateLimitKey {
    purpose: Purpose,
    /// Hash of the subject with a key of this process. A collision is expected once in many billions of years.
    subject: u64,
    address: Option<IpAddr>,
}

/// The machine's monotonic clock, in the form that the limiter needs.
#[derive(Clone)]
struct LimiterClock(Arc<dyn Clock>);

impl Ticks for LimiterClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.steady().into()
    }
}

/// When the full burst of a counter is available again, relative to the start of its limiter; `None` before its first
/// call.
///
/// The limiter and the counter share this value: the limiter has no function to return admitted calls, so the counter
/// changes the value itself.
#[derive(Clone, Default)]
struct WholeAt(Arc<Mutex<Option<Nanos>>>);

impl WholeAt {
    fn lock(&self) -> MutexGuard<'_, Option<Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for WholeAt {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _key: &NotKeyed, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut at = self.lock();
        let (measured, next) = measure(*at)?;
        *at = Some(next);
        Ok(measured)
    }
}

struct Count {
    limiter: RateLimiter<NotKeyed, WholeAt, LimiterClock, StateInformationMiddleware>,
    whole_at: WholeAt,
    started: Duration,
    /// Time in which one call or item is replenished.
    interval: Duration,
    /// Whether a call was ever rejected. Most counters reject none; their breach state is never read.
    was_refused: AtomicBool,
    breach: Mutex<QuotaBreach>,
}

impl Count {
    fn blocked_for(&self, now: Duration) -> Option<Duration> {
        let breach = self.breach.lock().unwrap_or_else(PoisonError::into_inner);
        breach.blocked_for(now)
    }

    /// Time until the full burst is available again.
    fn whole_in(&self, now: Duration) -> Duration {
        let at = self.whole_at.lock().map_or(Duration::ZERO, Duration::from);
        (self.started + at).saturating_sub(now)
    }

    /// Undoes the admission of a number of calls or items.
    fn give_back(&self, cost: NonZeroU32) {
        if let Some(at) = self.whole_at.lock().as_mut() {
            *at = at.saturating_sub(self.interval.saturating_mul(cost.get()).into());
        }
    }
}

/// Values for the response headers of a counted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuotaReading {
    /// Calls or items per minute.
    limit: u32,
    remaining: u32,
    reset_s: u64,
    retry_after_s: Option<u64>,
}

/// Counters by key. The lock is held for one check, less than a thousandth of the time of a call.
type Counts = Mutex<LruCache<RateLimitKey, Arc<Count>>>;

/// The counters of this instance.
pub struct RateLimits {
    settings: RateLimitSettings,
    factor: u32,
    clock: Arc<dyn Clock>,
    guess_wait: Duration,
    credentials: Counts,
    addresses: Counts,
    pages: Counts,
    hashes: RandomState,
    /// Whether any address was ever blocked for guessing credentials or page tokens.
    has_guessers: AtomicBool,
    /// Slots for looking up credentials from blocked addresses.
    lookups: Semaphore,
}

impl RateLimits {
    /// Starts with empty counters; `None` when limits are off.
    pub fn new(
        settings: &RateLimitSettings,
        is_production: bool,
        clock: Arc<dyn Clock>,
        guess_wait: Duration,
    ) -> Option<Arc<Self>> {
        let factor = if is_production {
            1
        } else {
            settings.factor_outside_production.max(1)
        };
        let counts = || Mutex::new(LruCache::new(COUNTS_MAX));
        settings.enabled.then(|| {
            Arc::new(Self {
                settings: settings.clone(),
                factor,
                clock,
                guess_wait,
                credentials: counts(),
                addresses: counts(),
                pages: counts(),
                hashes: RandomState::new(),
                has_guessers: AtomicBool::new(false),
                lookups: Semaphore::new(GUESSES_LOOKED_UP),
            })
        })
    }

    /// Limit per minute and limit at once.
    fn quota(&self, purpose: Purpose) -> (NonZeroU32, NonZeroU32) {
        let settings = &self.settings;
        let of_tier = |tier| match tier {
            Tier::Basic => settings.basic_per_minute,
            Tier::Default => settings.default_per_minute,
            Tier::Premium => settings.premium_per_minute,
            Tier::HighVolume => settings.high_volume_per_minute,
        };
        let (per_minute, burst, factor) = match purpose {
            Purpose::Work(tier) => (of_tier(tier), None, 1),
            Purpose::Management(tier) => (of_tier(tier), None, MANAGEMENT_FACTOR),
            Purpose::Platform(tier) | Purpose::ClientIds(tier) => (of_tier(tier), None, settings.platform_factor),
            Purpose::Items => (settings.items_per_minute, Some(settings.items_burst), 1),
            Purpose::ItemsOfPlatform | Purpose::ItemsOfClientIds => {
                let burst = Some(settings.items_burst);
                (settings.items_per_minute, burst, settings.platform_factor)
            }
            Purpose::SignIn => (settings.sign_in_per_minute, None, 1),
            Purpose::Unknown | Purpose::UnknownPage => (settings.unknown_per_minute, None, 1),
            Purpose::Page => (settings.page_per_minute, None, 1),
        };
        let times = |quota: u32| quota.saturating_mul(factor).saturating_mul(self.factor);
        let at_least_one = |quota: u32| NonZeroU32::new(quota).unwrap_or(NonZeroU32::MIN);
        let per_minute = at_least_one(times(per_minute));
        let burst = burst.map_or(per_minute.get() / BURSTS_PER_MINUTE, times);
        (per_minute, at_least_one(burst))
    }

    fn counted(&self, purpose: Purpose, subject: &str, address: Option<IpAddr>) -> RateLimitKey {
        RateLimitKey {
            purpose,
            subject: self.hashes.hash_one(subject),
            address,
        }
    }

    fn counts(&self, purpose: Purpose) -> MutexGuard<'_, LruCache<RateLimitKey, Arc<Count>>> {
        let counts = match purpose.memory() {
            Memory::Credentials => &self.credentials,
            Memory::Addresses => &self.addresses,
            Memory::Pages => &self.pages,
        };
        counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, (per_minute, burst): (NonZeroU32, NonZeroU32)) -> Arc<Count> {
        let quota = Quota::per_minute(per_minute).allow_burst(burst);
        let whole_at = WholeAt::default();
        Arc::new(Count {
            limiter: RateLimiter::new(quota, whole_at.clone(), LimiterClock(self.clock.clone())),
            whole_at,
            started: self.clock.steady(),
            interval: quota.replenish_interval(),
            was_refused: AtomicBool::new(false),
            breach: Mutex::default(),
        })
    }

    fn find(&self, counted: RateLimitKey) -> Arc<Count> {
        let begin = || self.begin(self.quota(counted.purpose));
        self.counts(counted.purpose).get_or_insert(counted, begin).clone()
    }

    /// Takes a number of calls or items at once, or none.
    fn count(&self, counted: RateLimitKey, cost: NonZeroU32) -> QuotaReading {
        let count = self.find(counted);
        let limit = self.quota(counted.purpose).0.get();
        let refused = |wait: Duration| QuotaReading {
            limit,
            remaining: 0,
            reset_s: whole_seconds(count.whole_in(self.clock.steady()).max(wait)),
            retry_after_s: Some(whole_seconds(wait)),
        };
        if count.was_refused.load(Ordering::Acquire)
            && let Some(left) = count.blocked_for(self.clock.steady())
        {
            return refused(left);
        }
        let checked = count.limiter.check_n(cost);
        match checked {
            Ok(Ok(state)) => QuotaReading {
                limit,
                remaining: state.remaining_burst_capacity(),
                reset_s: whole_seconds(count.whole_in(self.clock.steady())),
                retry_after_s: None,
            },
            // A burst is at least as large as the largest call, so that waiting always helps.
            Err(_) => refused(WHOLE_MINUTE),
            Ok(Err(until)) => {
                let now = self.clock.steady();
                let wait = until.wait_time_from(Nanos::from(now));
                if !counted.purpose.blocks() {
                    return refused(wait);
                }
                let mut breach = count.breach.lock().unwrap_or_else(PoisonError::into_inner);
                breach.refuse(now, limit, Duration::from_secs(self.settings.block_s));
                let blocked = breach.blocked_for(now);
                drop(breach);
                count.was_refused.store(true, Ordering::Release);
                if blocked.is_some() && matches!(counted.purpose, Purpose::Unknown | Purpose::UnknownPage) {
                    self.has_guessers.store(true, Ordering::Release);
                }
                refused(blocked.unwrap_or(wait))
            }
        }
    }

    /// Whether an address is blocked because it kept sending unknown credentials or page tokens.
    fn is_guesser(&self, purpose: Purpose, address: Option<IpAddr>) -> bool {
        if !self.has_guessers.load(Ordering::Acquire) {
            return false;
        }
        let guesses = self.counted(purpose, "", address);
        let count = self.counts(purpose).get(&guesses).cloned();
        count.is_some_and(|count| count.blocked_for(self.clock.steady()).is_some())
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The counter of one call. The extractor of callers takes it from the request.
pub struct Meter {
    limits: Arc<RateLimits>,
    address: Option<IpAddr>,
    reading: Mutex<Option<QuotaReading>>,
}

impl Meter {
    /// Counts the call for its credential, then for its platform or its orchestrator. If the quota of the platform or
    /// orchestrator rejects the call, the credential is not charged. Errors: 429.
    pub(super) fn admit(&self, caller: &Caller, tier: Tier, is_management: bool) -> Result<(), Problem> {
        let purpose = if is_management {
            Purpose::Management(tier)
        } else {
            Purpose::Work(tier)
        };
        let own = self.limits.counted(purpose, caller.credential_row(), self.address);
        self.count(own)?;
        let shared = match caller {
            Caller::Platform(caller) => {
                let (purpose, address) = match caller.client() {
                    Some(_) if caller.orchestrator().is_none() => (Purpose::ClientIds(tier), self.address),
                    _ => (Purpose::Platform(tier), None),
                };
                self.limits.counted(purpose, sharer(caller), address)
            }
            Caller::Orchestrator(caller) => self.limits.counted(Purpose::Platform(tier), caller.id.as_str(), None),
        };
        self.count(shared)
            .inspect_err(|_| self.limits.find(own).give_back(NonZeroU32::MIN))
    }

    /// Counts the items of a call with several items, for its credential and then for its platform or its orchestrator;
    /// a single item is already counted as a call. Errors: 429, and then no item is counted.
    fn admit_items(&self, caller: &PlatformCaller, items: usize) -> Result<(), Refusal> {
        let Some(cost) = u32::try_from(items).ok().and_then(NonZeroU32::new) else {
            return Ok(());
        };
        if cost == NonZeroU32::MIN {
            return Ok(());
        }
        let own = self
            .limits
            .counted(Purpose::Items, caller.credential.row(), self.address);
        self.count_items(own, cost)?;
        let (purpose, address) = match caller.client() {
            Some(_) if caller.orchestrator().is_none() => (Purpose::ItemsOfClientIds, self.address),
            _ => (Purpose::ItemsOfPlatform, None),
        };
        let shared = self.limits.counted(purpose, sharer(caller), address);
        self.count_items(shared, cost)
            .inspect_err(|_| self.limits.find(own).give_back(cost))
    }

    /// Counts the items for one counter. If this counter rejects the items, the headers of the response show the quota
    /// of items; otherwise they show the quota of calls.
    fn count_items(&self, counted: RateLimitKey, cost: NonZeroU32) -> Result<(), Refusal> {
        let reading = self.limits.count(counted, cost);
        let Some(seconds) = reading.retry_after_s else {
            return Ok(());
        };
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        let quota = self.limits.quota(counted.purpose);
        Err(too_many_items(cost, quota, seconds))
    }

    /// Returns a function that counts the items of a call. It runs unless a response is stored for the idempotency key
    /// of the call. Without a meter it counts nothing.
    pub(in crate::http) fn of_items(
        meter: Option<&Arc<Self>>,
        caller: &PlatformCaller,
        items: usize,
    ) -> impl Fn() -> Result<(), Refusal> + Send + Sync + use<> {
        let counted = meter.map(|meter| (Arc::clone(meter), caller.clone()));
        move || match &counted {
            Some((meter, caller)) => meter.admit_items(caller, items),
            None => Ok(()),
        }
    }

    /// Counts a call that can be charged only to its address. Errors: 429.
    pub(super) fn admit_address(&self, purpose: Purpose) -> Result<(), Problem> {
        self.count(self.limits.counted(purpose, "", self.address))
    }

    /// Counts an unsigned callback, like an unknown credential. Errors: 429.
    pub(in crate::http) fn admit_forged(&self) -> Result<(), Problem> {
        self.admit_address(Purpose::Unknown)
    }

    /// A slot for looking up a credential for an address that is blocked for guessing. Errors: 429, when no slot is
    /// free in time.
    pub(super) async fn turn_of_guess(&self) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        match timeout(self.limits.guess_wait, self.limits.lookups.acquire()).await {
            Ok(turn) => Ok(turn.ok()),
            Err(_) => Err(too_many(1)),
        }
    }

    /// Whether the address of the call is blocked for guessing credentials.
    pub(super) fn is_guesser(&self) -> bool {
        self.limits.is_guesser(Purpose::Unknown, self.address)
    }

    /// Counts a visit to the payment page of an existing link. Errors: 429. Addresses that guess tokens may still visit
    /// existing links, because many people can share an address.
    pub(in crate::http) fn admit_visit(&self, token: &str) -> Result<(), Problem> {
        self.count(self.limits.counted(Purpose::Page, token, self.address))
    }

    /// Counts a visit to a link if this address visited the link before; returns whether it did. Too many visits are
    /// thus rejected without a lookup. Errors: 429.
    pub(in crate::http) fn admit_further_visit(&self, token: &str) -> Result<bool, Problem> {
        let visited = self.limits.counted(Purpose::Page, token, self.address);
        if !self.limits.counts(Purpose::Page).contains(&visited) {
            return Ok(false);
        }
        self.count(visited).map(|()| true)
    }

    /// Counts a visit to an unknown link. Errors: 429.
    pub(in crate::http) fn admit_unknown_page(&self) -> Result<(), Problem> {
        self.admit_address(Purpose::UnknownPage)
    }

    fn count(&self, counted: RateLimitKey) -> Result<(), Problem> {
        let reading = self.limits.count(counted, NonZeroU32::MIN);
        let refused = reading.retry_after_s;
        let mut shown = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // The headers of the response show the counter that rejected the call, otherwise the counter with the smallest
        // remaining quota.
        if refused.is_some() || shown.is_none_or(|shown| reading.remaining < shown.remaining) {
            *shown = Some(reading);
        }
        match refused {
            None => Ok(()),
            Some(seconds) => Err(too_many(seconds)),
        }
    }

    fn show(&self, headers: &mut HeaderMap) {
        let Some(reading) = *self.reading.lock().unwrap_or_else(PoisonError::into_inner) else {
            return;
        };
        headers.insert(LIMIT, HeaderValue::from(reading.limit.min(SHOWN_MAX)));
        headers.insert(REMAINING, HeaderValue::from(reading.remaining.min(SHOWN_MAX)));
        headers.insert(RESET, HeaderValue::from(reading.reset_s.min(SHOWN_MAX.into())));
    }
}

/// The owner of the quota that several credentials share: the orchestrator for a call with the key of an orchestrator
/// and a linked client ID, otherwise the platform.
fn sharer(caller: &PlatformCaller) -> &str {
    let orchestrator = caller.orchestrator().map(OrchestratorId::as_str);
    orchestrator.unwrap_or(caller.platform.as_str())
}

/// Gives every call its counter, counts the operations that need no credential, and adds the headers.
pub(in crate::http) fn metered<E>(
    endpoint: E,
    limits: Option<Arc<RateLimits>>,
    routes: &RouteTable,
) -> impl Endpoint<Output = Response> + use<E>
where
    E: Endpoint<Output = Response> + 'static,
{
    let open: Arc<[(Method, String)]> = open_operations(routes).collect();
    endpoint.around(move |endpoint, mut request| {
        let (limits, open) = (limits.clone(), open.clone());
        async move {
            let Some(limits) = limits else {
                return Ok(endpoint.get_response(request).await);
            };
            let meter = Arc::new(Meter {
                address: request.data::<CallerAddress>().and_then(|address| address.0),
                limits,
                reading: Mutex::default(),
            });
            let (method, path) = (request.method(), request.uri().path());
            let is_open = open.iter().any(|(open, at)| open == method && at == path);
            let mut response = match is_open.then(|| meter.admit_address(Purpose::SignIn)) {
                Some(Err(problem)) => {
                    let id = request.data::<CallId>();
                    problem.respond(id.map(CallId::as_str))
                }
                _ => {
                    request.set_data(meter.clone());
                    endpoint.get_response(request).await
                }
            };
            meter.show(response.headers_mut());
            Ok(response)
        }
    })
}

/// Whether an operation is a sign-in or sign-out, whose callers are unknown. Signed callbacks do not count as such: the
/// caller is a partner, and the number of its calls depends on the changes that it reports.
fn is_open(row: &AccessRule) -> bool {
    row.any_of.is_empty() && !row.marks.contains(&PolicyMark::Signed)
}

/// Methods and paths of the operations that need no credential. Their paths have no parameters.
fn open_operations(routes: &RouteTable) -> impl Iterator<Item = (Method, String)> {
    let open = access::TABLE.iter().filter(|row| is_open(row));
    open.filter_map(|row| routes.place(row.operation))
        .map(|(method, path)| (method.clone(), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::contract::document;
    use chrono::{DateTime, Utc};

    /// A clock that does not advance.
    struct StillClock;

    impl Clock for StillClock {
        fn now(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }

        fn steady(&self) -> Duration {
            Duration::from_secs(1_000)
        }
    }

    #[test]
    fn visits_to_many_links_evict_no_other_counters() {
        let settings = RateLimitSettings::default();
        let limits = RateLimits::new(&settings, true, Arc::new(StillClock), Duration::ZERO).unwrap();
        let others = [
            Purpose::Work(Tier::Basic),
            Purpose::SignIn,
            Purpose::Unknown,
            Purpose::UnknownPage,
        ]
        .map(|purpose| limits.counted(purpose, "one", None));
        for counted in others {
            while limits.count(counted, NonZeroU32::MIN).retry_after_s.is_none() {}
        }
        for token in 0..=COUNTS_MAX.get() {
            limits.count(limits.counted(Purpose::Page, &token.to_string(), None), NonZeroU32::MIN);
        }
        for counted in others {
            assert!(limits.counts(counted.purpose).contains(&counted), "{counted:?}");
        }
        let first = limits.counted(Purpose::Page, "0", None);
        assert!(
            !limits.counts(Purpose::Page).contains(&first),
            "counters of links are evicted"
        );
    }

    #[test]
    fn every_public_operation_is_found_by_its_path() {
        let documents = [document::v2(), document::auth()];
        let table = RouteTable::from_documents(documents.iter().map(String::as_str));
        let found: Vec<_> = open_operations(&table).collect();
        let open = access::TABLE.iter().filter(|row| is_open(row));
        assert_eq!(found.len(), open.count());
        assert!(found.iter().all(|(_, path)| !path.contains('{')), "{found:?}");
    }
}
