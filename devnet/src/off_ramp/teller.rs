//! Sends the signed callbacks of the partner of `prs dev`, and repeats each until it is accepted.

use super::{
    Now,
    sandbox::{OffRampSandbox, Telling},
    signature::{callback_signature, header},
};
use crate::rpc;
use reqwest::{Client, header::CONTENT_TYPE};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Interval between two checks for due callbacks.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Timeout of an attempt.
const DEADLINE: Duration = Duration::from_secs(5);

/// First pause after a callback that was not accepted; it doubles with every further attempt.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Maximum number of attempts of a callback. After the last attempt the callback is lost, and the service learns of the
/// change only when it queries the partner.
const TRIES_MAX: u32 = 40;

/// Sends callbacks about changes at the partner to the service.
pub struct Teller {
    client: Client,
    url: String,
    secret: String,
    now: Now,
}

struct Waiting {
    telling: Telling,
    tries: u32,
    due: Instant,
}

impl Teller {
    /// Creates a sender for this URL. Errors: the HTTP client cannot be built.
    pub fn new(url: String, secret: String, now: Now) -> anyhow::Result<Self> {
        Ok(Self {
            client: rpc::client(DEADLINE)?,
            url,
            secret,
            now,
        })
    }

    /// Runs until the process ends.
    pub(super) async fn run(self, sandbox: Arc<OffRampSandbox>) {
        let mut waiting: Vec<Waiting> = Vec::new();
        loop {
            waiting.extend(sandbox.tell((self.now)()).into_iter().map(|telling| Waiting {
                telling,
                tries: 0,
                due: Instant::now(),
            }));
            let mut left = Vec::new();
            for mut one in waiting {
                if one.due > Instant::now() {
                    left.push(one);
                } else if !self.is_taken(&one.telling).await {
                    one.due = Instant::now() + PAUSE_MIN.saturating_mul(1 << one.tries.min(10)).min(PAUSE_MAX);
                    one.tries += 1;
                    left.push(one);
                }
            }
            left.retain(|one| one.tries < TRIES_MAX);
            waiting = left;
            sleep(LOOKS_EVERY).await;
        }
    }

    async fn is_taken(&self, telling: &Telling) -> bool {
        let time = (self.now)().timestamp().to_string();
        let signature = callback_signature(&self.secret, &time, &telling.id, &telling.body);
        let call = self
            .client
            .post(&self.url)
            .header(header::TIME, &time)
            .header(header::ID, &telling.id)
            .header(header::SIGNATURE, signature)
            .header(CONTENT_TYPE, "application/json")
            .body(telling.body.clone());
        call.send().await.is_ok_and(|answer| answer.status().is_success())
    }
}
