//! What is asked of partners over HTTP: no redirects, one deadline for a whole answer, a capped answer, at most a few calls
//! at a time, and none while the partner fails.
//!
//! Neither an address nor a header is repeated in what is said about a failure: both may hold a key.

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

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Who waited for a place no longer than this had the whole deadline for its call.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// Another status than one of success.
    #[error("answers {}", .0.as_u16())]
    Status(StatusCode),
    /// No connection, so that nothing was sent.
    #[error("cannot be reached")]
    Unreached,
    /// Nothing that can be read, or nothing in time.
    #[error("{0}")]
    Broken(&'static str),
}

/// A client whose calls end after `deadline`.
pub(super) fn client(deadline: Duration) -> anyhow::Result<Client> {
    let client = super::client()?
        .redirect(redirect::Policy::none())
        .timeout(deadline)
        .build()?;
    Ok(client)
}

/// An answer of any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its body.
    pub(super) text: String,
}

impl Told {
    /// The body of a success. Errors: another status.
    pub(super) fn success(self) -> Result<String, NoAnswer> {
        match self.status.is_success() {
            true => Ok(self.text),
            false => Err(NoAnswer::Status(self.status)),
        }
    }
}

/// Makes a call and reads its answer as text. Errors: another status, no text, more than a megabyte, or too late.
pub(super) async fn answer(call: RequestBuilder) -> Result<String, NoAnswer> {
    told(call).await?.success()
}

async fn told(call: RequestBuilder) -> Result<Told, NoAnswer> {
    let mut response = call.send().await.map_err(|error| reason(&error))?;
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(NoAnswer::Broken("answers with more than a megabyte"));
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| NoAnswer::Broken("answers with something that is no text"))?;
    Ok(Told { status, text })
}

/// What a call says about the partner, whatever it says about what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It works, so others go on asking it.
    Works,
    /// It fails.
    Fails,
}

/// Why no call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotCalled {
    /// Too many are in flight.
    #[error("is asked too much at the same time")]
    Busy,
    /// The partner failed.
    #[error("is left alone for a while because it failed again and again")]
    LeftAlone,
}

/// A partner that is called within a deadline, at most a few calls at a time, and not while it fails.
pub(super) struct Guarded {
    deadline: Duration,
    client: Client,
    places: Semaphore,
    breaker: Mutex<Breaker>,
}

impl Guarded {
    /// A partner whose calls end after `deadline`, at most `calls_max` of them in flight on this instance.
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

    /// Makes one call; `judge` tells what became of it, and what it says about the partner.
    ///
    /// It waits for a place for half of the deadline at most, and that is a part of the deadline. When it then ends too late
    /// that says nothing about the partner, who had less time than it is given. Errors: no call was made, with the reason.
    pub(super) async fn call<T>(
        &self,
        call: impl FnOnce(&Client) -> RequestBuilder,
        judge: impl FnOnce(Result<Told, NoAnswer>) -> (Standing, T),
    ) -> Result<T, NotCalled> {
        let asked = Instant::now();
        let waited = timeout_at(asked + self.deadline / 2, self.places.acquire()).await;
        let Ok(Ok(_place)) = waited else {
            return Err(NotCalled::Busy);
        };
        let begun = Instant::now();
        if !self.breaker().admit(begun) {
            return Err(NotCalled::LeftAlone);
        }
        let told = timeout_at(asked + self.deadline, told(call(&self.client))).await;
        let was_cut_short = told.is_err() && begun - asked > AT_ONCE;
        let told = told.unwrap_or(Err(NoAnswer::Broken("does not answer in time")));
        let (standing, judged) = judge(told);
        match standing {
            Standing::Works => self.breaker().succeed(),
            Standing::Fails if was_cut_short => {}
            Standing::Fails => self.breaker().fail(Instant::now()),
        }
        Ok(judged)
    }
}

/// A secret as the value of a header. Errors: it is none, with the name of its setting.
pub(super) fn secret(text: &str, setting: &'static str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).context(setting)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A path below the address of an interface, whether or not that ends with a slash. Errors: nothing is below it.
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
    NoAnswer::Broken(match error.is_timeout() {
        true => "does not answer in time",
        false => "breaks its answer off",
    })
}
