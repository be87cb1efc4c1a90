//! HTTP calls to partners: no redirects, one timeout for the whole response, a maximum response size, limited
//! concurrency, and a circuit breaker.
//!
//! Errors contain neither URLs nor headers, because both may contain a key.

use super::breaker::Breaker;
use anyhow::Context;
use reqwest::{Client, RequestBuilder, StatusCode, header::HeaderValue, redirect};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use url::Url;

/// Maximum response size.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Maximum wait for a slot after which a call still counts as having had the full timeout.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The status is not a success.
    #[error("returned status {}", .0.as_u16())]
    Status(StatusCode),
    /// No connection, so nothing was sent.
    #[error("is unreachable")]
    Unreached,
    /// The response could not be read, or the call timed out.
    #[error("{0}")]
    Broken(&'static str),
}

/// A client whose calls time out after `deadline`.
pub(super) fn client(deadline: Duration) -> anyhow::Result<Client> {
    let client = super::client()?
        .redirect(redirect::Policy::none())
        .timeout(deadline)
        .build()?;
    Ok(client)
}

/// A response with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartnerResponse {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its body.
    pub(super) text: String,
}

impl PartnerResponse {
    /// The body of a successful response. Errors: the status is not a success.
    pub(super) fn success(self) -> Result<String, NoAnswer> {
        if self.status.is_success() {
            Ok(self.text)
        } else {
            Err(NoAnswer::Status(self.status))
        }
    }
}

/// Makes a call and reads the response as text. Errors: the status is not a success, the response is not text or longer
/// than a megabyte, or the call timed out.
pub(super) async fn answer(call: RequestBuilder) -> Result<String, NoAnswer> {
    send(call).await?.success()
}

async fn send(call: RequestBuilder) -> Result<PartnerResponse, NoAnswer> {
    let mut response = call.send().await.map_err(|error| reason(&error))?;
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(NoAnswer::Broken("returned more than a megabyte"));
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| NoAnswer::Broken("returned a response that is not text"))?;
    Ok(PartnerResponse { status, text })
}

/// What a call shows about the health of the partner, separate from the result of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartnerHealth {
    /// It works, so calls continue.
    Works,
    /// It fails.
    Fails,
}

/// Why no call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotCalled {
    /// Too many calls are in flight.
    #[error("has too many calls in flight")]
    Busy,
    /// The circuit breaker is open.
    #[error("is not called for a while because it failed repeatedly")]
    LeftAlone,
}

/// A partner with a timeout, limited concurrency and a circuit breaker.
pub(super) struct Guarded {
    deadline: Duration,
    client: Client,
    places: Semaphore,
    breaker: Mutex<Breaker>,
}

impl Guarded {
    /// A partner whose calls time out after `deadline`, with at most `calls_max` calls in flight on this instance.
    pub(super) fn new(deadline: Duration, calls_max: usize) -> anyhow::Result<Self> {
        Ok(Self {
            deadline,
            client: client(deadline)?,
            places: Semaphore::new(calls_max),
            breaker: Mutex::default(),
        })
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one call; `judge` returns the result and the health of the partner.
    ///
    /// The call waits for a slot for at most half of the timeout, and this wait counts towards the timeout. If the call
    /// waited and then times out, the timeout does not count against the partner, which had less than the full time.
    /// Errors: no call was made, with the reason.
    pub(super) async fn call<T>(
        &self,
        call: impl FnOnce(&Client) -> RequestBuilder,
        judge: impl FnOnce(Result<PartnerResponse, NoAnswer>) -> (PartnerHealth, T),
    ) -> Result<T, NotCalled> {
        let asked = Instant::now();
        let waited = timeout_at(asked + self.deadline / 2, self.places.acquire()).await;
        let Ok(Ok(_place)) = waited else {
            return Err(NotCalled::Busy);
        };
        let begun = Instant::now();
        if !self.breaker().admit(begun).is_allowed() {
            return Err(NotCalled::LeftAlone);
        }
        let told = timeout_at(asked + self.deadline, send(call(&self.client))).await;
        let was_cut_short = told.is_err() && begun - asked > AT_ONCE;
        let told = told.unwrap_or(Err(NoAnswer::Broken("did not respond in time")));
        let (standing, judged) = judge(told);
        match standing {
            PartnerHealth::Works => self.breaker().succeed(),
            PartnerHealth::Fails if was_cut_short => {}
            PartnerHealth::Fails => self.breaker().fail(Instant::now()),
        }
        Ok(judged)
    }
}

/// A secret as a header value. Errors: it is not a valid value; the error names the setting.
pub(super) fn secret(text: &str, setting: &'static str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).context(setting)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A path below a base URL, with or without a trailing slash. Errors: the URL cannot be a base.
pub(super) fn below(base: &Url, path: &str) -> anyhow::Result<Url> {
    let mut base = base.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    Ok(base.join(path)?)
}

fn reason(error: &reqwest::Error) -> NoAnswer {
    if error.is_connect() {
        return NoAnswer::Unreached;
    }
    NoAnswer::Broken(if error.is_timeout() {
        "did not respond in time"
    } else {
        "did not complete its response"
    })
}
