//! How often a credential may call from one address, and a platform with all of its credentials: 429 with `Retry-After`,
//! and the RateLimit headers on every metered answer.
//!
//! A platform has a few quotas of one credential, however many it makes: its keys and sessions one count wherever they
//! are used, its client IDs one count for each address, since strangers use those. An address that goes on to guess
//! credentials is blocked, but many callers may share it: what it shows is looked up all the same, a few at a time, so that
//! guesses of others refuse no good credential and cost the database little. One that was good before does not wait.
//!
//! The items of calls that take several have counts of their own, by the same credentials and addresses: a call takes as
//! many as it has items, or is refused whole.
//!
//! Each instance counts for itself. A count shared through the database would cost a write for every call, more than
//! most calls cost; behind a balancer a caller gets at most the quota times the number of instances.
//! Source: rules P.1.5.

use crate::{
    domain::{
        caller::{Caller, PlatformCaller},
        quota::{Breach, Tier},
        refusal::Refusal,
    },
    http::{
        call_id::CallId,
        error::{Problem, too_many, too_many_items},
        gate::{
            access::{self, Row},
            address::CallerAddress,
            scheme::Mark,
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

/// Counts that each memory holds at most; some 300 bytes each. Those that were not used for longest go first.
const COUNTS_MAX: NonZeroUsize = NonZeroUsize::new(50_000).unwrap();

/// A sixth of a minute's quota may come at once.
const BURSTS_PER_MINUTE: u32 = 6;

/// Credentials that are looked up at a time for addresses which are blocked for guessing.
const GUESSES_LOOKED_UP: usize = 4;

const WHOLE_MINUTE: Duration = Duration::from_mins(1);

/// Client IDs are managed in bursts, by people who click through a list.
const MANAGEMENT_FACTOR: u32 = 2;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The largest number that the headers of the document hold; larger quotas are shown as this one.
pub(in crate::http) const SHOWN_MAX: u32 = 1_000_000;

/// What a call is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A credential at work.
    Work(Tier),
    /// A credential that manages client IDs.
    Management(Tier),
    /// The keys and sessions of a platform together, as far as they have this tier.
    Platform(Tier),
    /// The client IDs of a platform together, as far as they have this tier.
    ClientIds(Tier),
    /// Items of the calls of a credential.
    Items,
    /// Items of all calls of a platform with its keys and sessions.
    ItemsOfPlatform,
    /// Items of all calls of a platform with its client IDs.
    ItemsOfClientIds,
    /// Signing in: challenges, logins, registrations.
    SignIn,
    /// A credential that nobody knows.
    Unknown,
    /// A visit to the payment page of one link.
    Page,
    /// A visit to a payment page that nobody made.
    UnknownPage,
}

/// Counts that are remembered together. What strangers can make many of pushes out nothing but its own kind.
#[derive(Debug, Clone, Copy)]
enum Memory {
    /// Of good credentials and their platforms.
    Credentials,
    /// Of addresses alone.
    Addresses,
    /// Of links: whoever has a public client ID makes thousands.
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

    /// Whether a caller who goes on after a refusal is blocked. One credential of a platform must not shut the others out for
    /// long, and the calls whose items are refused are counted themselves.
    fn blocks(self) -> bool {
        !matches!(
            self,
            Self::Platform(_) | Self::ClientIds(_) | Self::Items | Self::ItemsOfPlatform | Self::ItemsOfClientIds
        )
    }
}

/// Whose calls are counted as what, and from where; `None` counts those from everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Counted {
    purpose: Purpose,
    /// The subject under the hash of this process: two of them share a quota once in many billions of years.
    subject: u64,
    address: Option<IpAddr>,
}

/// The machine's monotonic clock, as the limiter wants it.
#[derive(Clone)]
struct Steady(Arc<dyn Clock>);

impl Ticks for Steady {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.steady().into()
    }
}

/// When the whole burst of a count is there again, from the start of its limiter; `None` before its first call.
///
/// Shared with the limiter, which gives nothing back itself.
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
    limiter: RateLimiter<NotKeyed, WholeAt, Steady, StateInformationMiddleware>,
    whole_at: WholeAt,
    started: Duration,
    /// In which one call or item is there again.
    interval: Duration,
    /// Whether anything was ever refused; most counts never look at their breach.
    was_refused: AtomicBool,
    breach: Mutex<Breach>,
}

impl Count {
    fn blocked_for(&self, now: Duration) -> Option<Duration> {
        let breach = self.breach.lock().unwrap_or_else(PoisonError::into_inner);
        breach.blocked_for(now)
    }

    /// In what time the whole burst is there again.
    fn whole_in(&self, now: Duration) -> Duration {
        let at = self.whole_at.lock().map_or(Duration::ZERO, Duration::from);
        (self.started + at).saturating_sub(now)
    }

    /// Takes back what was admitted.
    fn give_back(&self, cost: NonZeroU32) {
        if let Some(at) = self.whole_at.lock().as_mut() {
            *at = at.saturating_sub(self.interval.saturating_mul(cost.get()).into());
        }
    }
}

/// What a counted call reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    /// Calls or items a minute.
    limit: u32,
    remaining: u32,
    reset_s: u64,
    retry_after_s: Option<u64>,
}

/// Held for the time of one look, a part of a thousandth of a call.
type Counts = Mutex<LruCache<Counted, Arc<Count>>>;

/// The counts of this instance.
pub struct RateLimits {
    settings: RateLimitSettings,
    factor: u32,
    clock: Arc<dyn Clock>,
    guess_wait: Duration,
    credentials: Counts,
    addresses: Counts,
    pages: Counts,
    hashes: RandomState,
    /// Whether any address was ever blocked for guessing.
    has_guessers: AtomicBool,
    /// Turns of looking up what such addresses show.
    lookups: Semaphore,
}

impl RateLimits {
    /// Starts with nothing counted; `None` when limits are switched off.
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

    /// How many a minute, and how many at once.
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

    fn counted(&self, purpose: Purpose, subject: &str, address: Option<IpAddr>) -> Counted {
        Counted {
            purpose,
            subject: self.hashes.hash_one(subject),
            address,
        }
    }

    fn counts(&self, purpose: Purpose) -> MutexGuard<'_, LruCache<Counted, Arc<Count>>> {
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
            limiter: RateLimiter::new(quota, whole_at.clone(), Steady(self.clock.clone())),
            whole_at,
            started: self.clock.steady(),
            interval: quota.replenish_interval(),
            was_refused: AtomicBool::new(false),
            breach: Mutex::default(),
        })
    }

    fn find(&self, counted: Counted) -> Arc<Count> {
        let begin = || self.begin(self.quota(counted.purpose));
        self.counts(counted.purpose).get_or_insert(counted, begin).clone()
    }

    /// Takes so many calls or items at once, or none.
    fn count(&self, counted: Counted, cost: NonZeroU32) -> Reading {
        let count = self.find(counted);
        let limit = self.quota(counted.purpose).0.get();
        let refused = |wait: Duration| Reading {
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
            Ok(Ok(state)) => Reading {
                limit,
                remaining: state.remaining_burst_capacity(),
                reset_s: whole_seconds(count.whole_in(self.clock.steady())),
                retry_after_s: None,
            },
            // A burst is at least what the largest call has, so that waiting always helps.
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

    /// Whether an address is blocked because it went on to show what nobody knows: credentials, or tokens of pages.
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

/// The counter of one call. The extractor of callers finds it in the request.
pub struct Meter {
    limits: Arc<RateLimits>,
    address: Option<IpAddr>,
    reading: Mutex<Option<Reading>>,
}

impl Meter {
    /// Counts the call of a caller for its credential, then for its platform; what the platform may not, its credential
    /// has not spent. Errors: 429.
    pub(super) fn admit(&self, caller: &Caller, tier: Tier, is_management: bool) -> Result<(), Problem> {
        let purpose = match is_management {
            true => Purpose::Management(tier),
            false => Purpose::Work(tier),
        };
        let own = self.limits.counted(purpose, caller.credential_row(), self.address);
        self.count(own)?;
        let Caller::Platform(caller) = caller else {
            return Ok(());
        };
        let (purpose, address) = match caller.client() {
            Some(_) => (Purpose::ClientIds(tier), self.address),
            None => (Purpose::Platform(tier), None),
        };
        let shared = self.limits.counted(purpose, caller.platform.as_str(), address);
        self.count(shared)
            .inspect_err(|_| self.limits.find(own).give_back(NonZeroU32::MIN))
    }

    /// Counts the items of a call that takes several, for its credential and then for its platform; a single one is counted as
    /// a call already. Errors: 429, and then none of them is counted.
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
            Some(_) => (Purpose::ItemsOfClientIds, self.address),
            None => (Purpose::ItemsOfPlatform, None),
        };
        let shared = self.limits.counted(purpose, caller.platform.as_str(), address);
        self.count_items(shared, cost)
            .inspect_err(|_| self.limits.find(own).give_back(cost))
    }

    /// The headers of an answer tell about calls, and about items where these refused it.
    fn count_items(&self, counted: Counted, cost: NonZeroU32) -> Result<(), Refusal> {
        let reading = self.limits.count(counted, cost);
        let Some(seconds) = reading.retry_after_s else {
            return Ok(());
        };
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        let quota = self.limits.quota(counted.purpose);
        Err(too_many_items(cost, quota, seconds))
    }

    /// Counts the items of a call once it is let in; without a meter nothing is counted.
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

    /// Counts a call that only its address can be charged for. Errors: 429.
    pub(super) fn admit_address(&self, purpose: Purpose) -> Result<(), Problem> {
        self.count(self.limits.counted(purpose, "", self.address))
    }

    /// Counts a callback that nobody signed, like a credential that nobody knows. Errors: 429.
    pub(in crate::http) fn admit_forged(&self) -> Result<(), Problem> {
        self.admit_address(Purpose::Unknown)
    }

    /// The turn of a credential to be looked up for an address that is blocked for guessing. Errors: 429, when more is guessed
    /// than is looked up in time.
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

    /// Counts a visit to the payment page of a link that is there. Errors: 429. Whoever guesses tokens may visit those: an
    /// address can be that of many people.
    pub(in crate::http) fn admit_visit(&self, token: &str) -> Result<(), Problem> {
        self.count(self.limits.counted(Purpose::Page, token, self.address))
    }

    /// Counts a visit to a link that this address visited before, so that too many of them look nothing up; says whether it
    /// did. Errors: 429.
    pub(in crate::http) fn admit_further_visit(&self, token: &str) -> Result<bool, Problem> {
        let visited = self.limits.counted(Purpose::Page, token, self.address);
        if !self.limits.counts(Purpose::Page).contains(&visited) {
            return Ok(false);
        }
        self.count(visited).map(|()| true)
    }

    /// Counts a visit that led nowhere. Errors: 429.
    pub(in crate::http) fn admit_unknown_page(&self) -> Result<(), Problem> {
        self.admit_address(Purpose::UnknownPage)
    }

    fn count(&self, counted: Counted) -> Result<(), Problem> {
        let reading = self.limits.count(counted, NonZeroU32::MIN);
        let refused = reading.retry_after_s;
        let mut shown = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // The answer shows the count that leaves less, or the one that refused the call.
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

/// Gives every call its counter, counts the operations that anybody may call, and shows what was counted.
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

/// Whether strangers sign in with an operation. What is signed is no guess: its caller is a partner, with as many calls as
/// there is news.
fn is_open(row: &Row) -> bool {
    row.any_of.is_empty() && !row.marks.contains(&Mark::Signed)
}

/// Methods and paths of the operations that anybody may call. They have no parameters in their paths.
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

    /// A clock that stands still.
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
    fn however_many_links_are_visited_nothing_else_is_forgotten() {
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
        assert!(!limits.counts(Purpose::Page).contains(&first), "links have an end");
    }

    #[test]
    fn every_operation_that_anybody_may_call_is_found_by_its_path() {
        let documents = [document::v2(), document::auth()];
        let table = RouteTable::from_documents(documents.iter().map(String::as_str));
        let found: Vec<_> = open_operations(&table).collect();
        let open = access::TABLE.iter().filter(|row| is_open(row));
        assert_eq!(found.len(), open.count());
        assert!(found.iter().all(|(_, path)| !path.contains('{')), "{found:?}");
    }
}
