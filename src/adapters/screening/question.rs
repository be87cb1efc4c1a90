//! Common parts of all checks, and the responses that count as a failure of the provider.

use crate::{
    adapters::partner::{Guarded, NoAnswer, PartnerHealth, PartnerResponse},
    domain::destination::ScreeningProvider,
    ports::screening::{ScreeningError, ScreeningFinding},
};
use reqwest::{Client, RequestBuilder, StatusCode};
use std::time::Duration;

/// Maximum number of checks of one provider that are in flight on this instance.
const QUESTIONS_MAX: usize = 16;

/// Maximum length of the provider's own status; a longer status is cut.
const RAW_STATUS_MAX: usize = 64;

/// HTTP statuses that refuse this check and do not count against the provider, which continues to respond to other
/// checks.
const ABOUT_THE_QUESTION: [StatusCode; 3] = [
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::UNPROCESSABLE_ENTITY,
];

/// Why a response has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoResult {
    /// The response is not in the published format, which counts as a failure of the provider.
    Broken(&'static str),
    /// The response has the published format, but states no valid result for this wallet.
    Unclear(&'static str),
}

/// Connection to a provider over HTTP.
pub(super) struct ScreeningApi {
    provider: ScreeningProvider,
    guarded: Guarded,
}

impl ScreeningApi {
    /// Connects to a provider whose checks time out after `timeout`.
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

    /// Makes one check; `read` returns the result of a response, or why the response has no result.
    pub(super) async fn ask(
        &self,
        question: impl FnOnce(&Client) -> RequestBuilder,
        read: impl FnOnce(&str) -> Result<ScreeningFinding, NoResult>,
    ) -> Result<ScreeningFinding, ScreeningError> {
        let judged = self.guarded.call(question, |told| self.judge(told, read)).await;
        judged.unwrap_or_else(|why| Err(self.error(why.to_string())))
    }

    fn judge(
        &self,
        told: Result<PartnerResponse, NoAnswer>,
        read: impl FnOnce(&str) -> Result<ScreeningFinding, NoResult>,
    ) -> (PartnerHealth, Result<ScreeningFinding, ScreeningError>) {
        let text = match told.and_then(PartnerResponse::success) {
            Ok(text) => text,
            Err(NoAnswer::Status(status)) if ABOUT_THE_QUESTION.contains(&status) => {
                let why = NoAnswer::Status(status).to_string();
                return (PartnerHealth::Works, Err(self.error(why)));
            }
            Err(why) => return (PartnerHealth::Fails, Err(self.error(why.to_string()))),
        };
        match read(&text) {
            Ok(mut finding) => {
                finding.raw_status = shown(&finding.raw_status);
                (PartnerHealth::Works, Ok(finding))
            }
            Err(NoResult::Broken(what)) => (PartnerHealth::Fails, Err(self.error(what))),
            // An unclear response about one wallet does not count against the provider, so that checks of other wallets
            // continue.
            Err(NoResult::Unclear(what)) => {
                let error = ScreeningError {
                    is_answered: true,
                    ..self.error(what)
                };
                (PartnerHealth::Works, Err(error))
            }
        }
    }
}

/// The text without invisible and non-ASCII characters, of limited length.
fn shown(text: &str) -> String {
    let visible = text.chars().filter(|one| one.is_ascii_graphic() || *one == ' ');
    visible.take(RAW_STATUS_MAX).collect()
}
