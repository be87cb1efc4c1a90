//! Sends what the partner of `prs dev` tells, signed, until it is taken.

use super::{
    Now,
    sandbox::{OffRampSandbox, Telling},
    signature::{callback_signature, header},
};
use crate::rpc;
use reqwest::{Client, header::CONTENT_TYPE};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Pause between two looks at what there is to tell.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// How long one try may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// First pause after a callback that was not taken; it doubles with every further try.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Tries of one callback; then it is lost, and whoever asks learns what it told.
const TRIES_MAX: u32 = 40;

/// Tells the service what happens at the partner.
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
    /// One that tells it at this address. Errors: no client can be built.
    pub fn new(url: String, secret: String, now: Now) -> anyhow::Result<Self> {
        Ok(Self {
            client: rpc::client(DEADLINE)?,
            url,
            secret,
            now,
        })
    }

    /// Tells for ever.
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
