//! What is asked of partners over HTTP: no redirects, one deadline for a whole answer, a capped answer.
//!
//! Neither an address nor a header is repeated in what is said about a failure: both may hold a key.

use super::install_tls;
use reqwest::{Client, RequestBuilder, StatusCode, redirect};
use std::time::Duration;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// Another status than one of success.
    #[error("answers {}", .0.as_u16())]
    Status(StatusCode),
    /// Nothing that can be read, or nothing in time.
    #[error("{0}")]
    Broken(&'static str),
}

/// A client whose calls end after `deadline`.
pub(super) fn client(deadline: Duration) -> anyhow::Result<Client> {
    install_tls();
    let client = Client::builder()
        .redirect(redirect::Policy::none())
        .timeout(deadline)
        .build()?;
    Ok(client)
}

/// Makes a call and reads its answer as text. Errors: another status, no text, more than a megabyte, or too late.
pub(super) async fn answer(call: RequestBuilder) -> Result<String, NoAnswer> {
    let mut response = call.send().await.map_err(|error| reason(&error))?;
    if !response.status().is_success() {
        return Err(NoAnswer::Status(response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(NoAnswer::Broken("answers with more than a megabyte"));
        }
    }
    String::from_utf8(bytes).map_err(|_| NoAnswer::Broken("answers with something that is no text"))
}

fn reason(error: &reqwest::Error) -> NoAnswer {
    NoAnswer::Broken(if error.is_timeout() {
        "does not answer in time"
    } else if error.is_connect() {
        "cannot be reached"
    } else {
        "breaks its answer off"
    })
}
