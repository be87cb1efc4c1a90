//! How often a credential may call from one address: 429 with `Retry-After`, and the RateLimit headers on every
//! metered answer.
//!
//! Each instance counts for itself. A count shared through the database would cost a write for every call, more than
//! most calls cost; behind a balancer a caller gets at most the quota times the number of instances.
//! Source: rules P.1.5.

use crate::{
    domain::quota::{Breach, Tier},
    http::{
        contract::routes::RouteTable,
        edge::{call_id::CallId, cors},
        error::{Problem, too_many},
        gate::{access, address::CallerAddress},
    },
    ports::clock::Clock,
    settings::RateLimitSettings,
};
use governor::{
    Quota, RateLimiter,
    clock::Clock as Ticks,
    middleware::StateInformationMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};
use moka::sync::Cache;
use poem::{
    Endpoint, EndpointExt, Response,
    http::{HeaderMap, HeaderName, HeaderValue},
};
use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// Pairs of credential and address that are remembered at most; some 300 bytes each.
const PAIRS_MAX: u64 = 50_000;

/// A pair that has not called for this long has its whole quota again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// A sixth of a minute's quota may come at once.
const BURSTS_PER_MINUTE: u32 = 6;

/// Client IDs are managed in bursts, by people who click through a list.
const MANAGEMENT_FACTOR: u32 = 2;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// What a call is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A credential at work.
    Work(Tier),
    /// A credential that manages client IDs.
    Management(Tier),
    /// Signing in: challenges, logins, registrations.
    SignIn,
    /// A credential that nobody knows.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pair {
    purpose: Purpose,
    subject: String,
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

struct Count {
    limiter: RateLimiter<NotKeyed, InMemoryState, Steady, StateInformationMiddleware>,
    breach: Mutex<Breach>,
}

/// What a counted call reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    limit: u32,
    remaining: u32,
    reset_s: u64,
    retry_after_s: Option<u64>,
}

/// The counts of this instance.
pub struct RateLimits {
    settings: RateLimitSettings,
    factor: u32,
    clock: Arc<dyn Clock>,
    counts: Cache<Pair, Arc<Count>>,
}

impl RateLimits {
    /// Starts with nothing counted; `None` when limits are switched off.
    pub fn new(settings: &RateLimitSettings, is_production: bool, clock: Arc<dyn Clock>) -> Option<Arc<Self>> {
        let factor = if is_production {
            1
        } else {
            settings.factor_outside_production.max(1)
        };
        settings.enabled.then(|| {
            Arc::new(Self {
                settings: settings.clone(),
                factor,
                clock,
                counts: Cache::builder()
                    .max_capacity(PAIRS_MAX)
                    .time_to_idle(FORGOTTEN_AFTER)
                    .build(),
            })
        })
    }

    fn per_minute(&self, purpose: Purpose) -> NonZeroU32 {
        let settings = &self.settings;
        let of_tier = |tier| match tier {
            Tier::Basic => settings.basic_per_minute,
            Tier::Default => settings.default_per_minute,
            Tier::Premium => settings.premium_per_minute,
            Tier::HighVolume => settings.high_volume_per_minute,
        };
        let quota = match purpose {
            Purpose::Work(tier) => of_tier(tier),
            Purpose::Management(tier) => of_tier(tier).saturating_mul(MANAGEMENT_FACTOR),
            Purpose::SignIn => settings.sign_in_per_minute,
            Purpose::Unknown => settings.unknown_per_minute,
        };
        NonZeroU32::new(quota.saturating_mul(self.factor)).unwrap_or(NonZeroU32::MIN)
    }

    fn count(&self, pair: Pair) -> Reading {
        let per_minute = self.per_minute(pair.purpose);
        let count = self.counts.get_with(pair, || {
            let burst = NonZeroU32::new(per_minute.get() / BURSTS_PER_MINUTE).unwrap_or(NonZeroU32::MIN);
            let quota = Quota::per_minute(per_minute).allow_burst(burst);
            let limiter = RateLimiter::direct_with_clock(quota, Steady(self.clock.clone()));
            Arc::new(Count {
                limiter: limiter.with_middleware(),
                breach: Mutex::default(),
            })
        });
        let now = self.clock.steady();
        let limit = per_minute.get();
        let refused = |wait: Duration| Reading {
            limit,
            remaining: 0,
            reset_s: whole_seconds(wait),
            retry_after_s: Some(whole_seconds(wait)),
        };
        let mut breach = count.breach.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = breach.blocked_for(now) {
            return refused(left);
        }
        match count.limiter.check() {
            Ok(state) => {
                let spent = state.quota().burst_size().get() - state.remaining_burst_capacity();
                Reading {
                    limit,
                    remaining: state.remaining_burst_capacity(),
                    reset_s: whole_seconds(state.quota().replenish_interval() * spent),
                    retry_after_s: None,
                }
            }
            Err(until) => {
                let block = Duration::from_secs(self.settings.block_s);
                breach.refuse(now, limit, block);
                let wait = breach
                    .blocked_for(now)
                    .unwrap_or_else(|| until.wait_time_from(Nanos::from(now)));
                refused(wait)
            }
        }
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The counter of one call. The extractor of callers finds it in the request.
pub struct Meter {
    limits: Arc<RateLimits>,
    address: Option<IpAddr>,
    reading: OnceLock<Reading>,
}

impl Meter {
    /// Counts the call of a credential. Errors: 429.
    pub fn admit(&self, purpose: Purpose, subject: &str) -> Result<(), Problem> {
        let reading = self.limits.count(Pair {
            purpose,
            subject: subject.to_owned(),
            address: self.address,
        });
        // The first count of a call is the one that its answer shows.
        let _ = self.reading.set(reading);
        match reading.retry_after_s {
            None => Ok(()),
            Some(seconds) => Err(too_many(seconds)),
        }
    }

    fn show(&self, headers: &mut HeaderMap) {
        let Some(reading) = self.reading.get() else { return };
        headers.insert(LIMIT, HeaderValue::from(reading.limit));
        headers.insert(REMAINING, HeaderValue::from(reading.remaining));
        headers.insert(RESET, HeaderValue::from(reading.reset_s));
    }
}

/// Gives every call its counter, counts the operations that anybody may call, and shows what was counted.
pub(in crate::http) fn metered<E>(
    endpoint: E,
    limits: Option<Arc<RateLimits>>,
    routes: RouteTable,
) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(move |endpoint, mut request| {
        let (limits, routes) = (limits.clone(), routes.clone());
        async move {
            let Some(limits) = limits else {
                return Ok(endpoint.get_response(request).await);
            };
            let meter = Arc::new(Meter {
                address: request.data::<CallerAddress>().and_then(|address| address.0),
                limits,
                reading: OnceLock::new(),
            });
            let operation = routes.operation(request.method(), request.uri().path());
            let is_open = operation.and_then(access::row).is_some_and(|row| row.any_of.is_empty());
            let mut response = match is_open.then(|| meter.admit(Purpose::SignIn, "")) {
                Some(Err(problem)) => {
                    let id = request.data::<CallId>();
                    let mut response = problem.respond(id.map(CallId::as_str));
                    cors::harden(response.headers_mut());
                    response
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
