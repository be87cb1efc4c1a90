//! How every provider is asked, and which answers count against it.

use crate::{
    adapters::partner::{Guarded, NoAnswer, Standing, Told},
    domain::destination::ScreeningProvider,
    ports::screening::{Finding, ScreeningError},
};
use reqwest::{Client, RequestBuilder, StatusCode};
use std::time::Duration;

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
    guarded: Guarded,
}

impl Asked {
    /// For questions that take so long at most.
    pub(super) fn new(provider: ScreeningProvider, timeout: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            provider,
            guarded: Guarded::new(timeout, QUESTIONS_MAX)?,
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

    /// Asks one question; `read` tells what an answer says, or why it says nothing.
    pub(super) async fn ask(
        &self,
        question: impl FnOnce(&Client) -> RequestBuilder,
        read: impl FnOnce(&str) -> Result<Finding, NoResult>,
    ) -> Result<Finding, ScreeningError> {
        let judged = self.guarded.call(question, |told| self.judge(told, read)).await;
        judged.unwrap_or_else(|why| Err(self.error(why.to_string())))
    }

    fn judge(
        &self,
        told: Result<Told, NoAnswer>,
        read: impl FnOnce(&str) -> Result<Finding, NoResult>,
    ) -> (Standing, Result<Finding, ScreeningError>) {
        let text = match told.and_then(Told::success) {
            Ok(text) => text,
            Err(NoAnswer::Status(status)) if ABOUT_THE_QUESTION.contains(&status) => {
                let why = NoAnswer::Status(status).to_string();
                return (Standing::Works, Err(self.error(why)));
            }
            Err(why) => return (Standing::Fails, Err(self.error(why.to_string()))),
        };
        match read(&text) {
            Ok(mut finding) => {
                finding.raw_status = shown(&finding.raw_status);
                (Standing::Works, Ok(finding))
            }
            Err(NoResult::Broken(what)) => (Standing::Fails, Err(self.error(what))),
            // Whoever has a wallet of which the provider says this must not keep it from being asked about others.
            Err(NoResult::Unclear(what)) => {
                let error = ScreeningError {
                    is_answered: true,
                    ..self.error(what)
                };
                (Standing::Works, Err(error))
            }
        }
    }
}

/// Without characters that change how a text looks.
fn shown(text: &str) -> String {
    let visible = text.chars().filter(|one| one.is_ascii_graphic() || *one == ' ');
    visible.take(RAW_STATUS_MAX).collect()
}
