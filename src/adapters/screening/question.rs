//! How every provider is asked: within the deadline, at most a few questions at a time, and not while it fails.

use crate::{
    adapters::{
        breaker::Breaker,
        partner::{self, NoAnswer},
    },
    domain::{destination::ScreeningProvider, screening::DEADLINE},
    ports::screening::{Finding, ScreeningError},
};
use anyhow::Context;
use reqwest::{Client, RequestBuilder, StatusCode, header::HeaderValue};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use url::Url;

/// Questions to one provider that are in flight on this instance at the same time.
const QUESTIONS_MAX: usize = 16;

/// What a provider calls a result is cut after so many characters.
const RAW_STATUS_MAX: usize = 64;

/// What refuses this question and says nothing about the provider: it goes on answering others.
const ABOUT_THE_QUESTION: [StatusCode; 3] = [
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::UNPROCESSABLE_ENTITY,
];

/// Why an answer holds no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoResult {
    /// It is not what the provider publishes: the provider fails.
    Broken(&'static str),
    /// It is, and says of this wallet what cannot be taken for a result.
    Unclear(&'static str),
}

/// A provider that is asked over HTTP.
pub(super) struct Asked {
    provider: ScreeningProvider,
    deadline: Duration,
    client: Client,
    places: Semaphore,
    breaker: Mutex<Breaker>,
}

impl Asked {
    pub(super) fn new(provider: ScreeningProvider) -> anyhow::Result<Self> {
        let deadline = DEADLINE.to_std().context("the deadline of a screening")?;
        Ok(Self {
            provider,
            deadline,
            client: partner::client(deadline)?,
            places: Semaphore::new(QUESTIONS_MAX),
            breaker: Mutex::default(),
        })
    }

    pub(super) fn provider(&self) -> ScreeningProvider {
        self.provider
    }

    pub(super) fn error(&self, what: impl Into<String>) -> ScreeningError {
        ScreeningError {
            provider: self.provider.wire(),
            what: what.into(),
            is_answered: false,
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks one question; `read` tells what an answer says, or why it says nothing. Waiting for a place counts.
    pub(super) async fn ask(
        &self,
        question: impl FnOnce(&Client) -> RequestBuilder,
        read: impl FnOnce(&str) -> Result<Finding, NoResult>,
    ) -> Result<Finding, ScreeningError> {
        let until = Instant::now() + self.deadline;
        let Ok(Ok(_place)) = timeout_at(until, self.places.acquire()).await else {
            return Err(self.error("is asked too much at the same time"));
        };
        if !self.breaker().admit(Instant::now()) {
            return Err(self.error("is left alone for a while because it failed again and again"));
        }
        let answer = timeout_at(until, partner::answer(question(&self.client))).await;
        let answer = answer.unwrap_or(Err(NoAnswer::Broken("does not answer in time")));
        let found = match answer {
            Ok(text) => match read(&text) {
                Ok(finding) => Ok(finding),
                Err(NoResult::Broken(what)) => Err(NoAnswer::Broken(what)),
                // Whoever has a wallet of which the provider says this must not keep it from being asked about others.
                Err(NoResult::Unclear(what)) => {
                    self.breaker().succeed();
                    return Err(ScreeningError {
                        is_answered: true,
                        ..self.error(what)
                    });
                }
            },
            Err(NoAnswer::Status(status)) if ABOUT_THE_QUESTION.contains(&status) => {
                self.breaker().succeed();
                return Err(self.error(NoAnswer::Status(status).to_string()));
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(mut finding) => {
                self.breaker().succeed();
                finding.raw_status = shown(&finding.raw_status);
                Ok(finding)
            }
            Err(why) => {
                self.breaker().fail(Instant::now());
                Err(self.error(why.to_string()))
            }
        }
    }
}

/// Without characters that change how a text looks.
fn shown(text: &str) -> String {
    let visible = text.chars().filter(|one| one.is_ascii_graphic() || *one == ' ');
    visible.take(RAW_STATUS_MAX).collect()
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
