//! The bare counterpart of delivery: a loop that signs and posts webhooks, without a queue, a record or a retry.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use prs::domain::webhook::sign;
use tokio::task::JoinSet;

use super::queue;

/// Number of posts in flight, the same as the service has for one endpoint.
const IN_FLIGHT: usize = 16;

/// A running bare sender: this program as a separate process, like the service.
pub(crate) struct Sender(Child);

impl Sender {
    /// Starts a sender.
    pub(crate) fn start(url: &str, count: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--bare-send", url, "--bare-count", &count.to_string()]);
        Ok(Self(command.stdin(Stdio::null()).spawn()?))
    }

    /// Waits until it exits.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let status = self.0.wait()?;
        ensure!(status.success(), "the bare sender ended with {status}");
        Ok(())
    }
}

/// Sends this number of webhooks and returns.
pub(crate) fn send(url: &str, count: usize) -> anyhow::Result<()> {
    prs::adapters::install_tls();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let body: Arc<str> = queue::body()?.into();
        let sent = Arc::new(AtomicUsize::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (client, url, body, sent) = (client.clone(), url.to_owned(), body.clone(), sent.clone());
            senders.spawn(async move {
                while sent.fetch_add(1, Ordering::Relaxed) < count {
                    let post = client
                        .post(&url)
                        .header("content-type", "application/json")
                        .header("x-service-signature", sign(queue::SECRET, body.as_bytes()))
                        .header("x-service-delivery", "01K9Z0T3G9R5M1N2P3Q4R5S6T7")
                        .body(body.to_string());
                    let answer = post.send().await?;
                    ensure!(answer.status().is_success(), "answered {}", answer.status());
                    answer.bytes().await?;
                }
                Ok(())
            });
        }
        while let Some(ended) = senders.join_next().await {
            ended??;
        }
        Ok(())
    })
}
