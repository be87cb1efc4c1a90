//! Commands that use the API of a running service: `prs listen`, `prs events`, `prs deliveries`.

use crate::{
    adapters::{
        api_client::{ApiClient, Message},
        clock::SystemClock,
        ids::SystemIds,
    },
    boot::output::say,
    domain::{ids::Secret, webhook::SignatureInput},
    ports::{clock::Clock, ids::random},
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

/// Pause before a broken stream is reopened.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// An id before every other id.
const SMALLEST_ID: &str = "00000000000000000000000000";

/// Number of remembered events. A broken stream resumes this number of events earlier.
const REMEMBERED: usize = 64;

/// Access to the service.
#[derive(Debug, Args)]
pub struct Service {
    /// API key of the platform.
    #[arg(long, env = "PRS_API_KEY", hide_env_values = true)]
    api_key: String,
    /// URL of the service.
    #[arg(long, env = "PRS_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
}

/// Arguments of `prs listen`.
#[derive(Debug, Args)]
pub struct ListenArguments {
    /// URL to which events are posted.
    #[arg(long)]
    forward_to: String,
    /// Event names, separated by commas. Default: all.
    #[arg(long)]
    events: Option<String>,
    /// Prefixes of the webhook headers, separated by commas; each header is sent with every prefix.
    #[arg(long, default_value = "x-service,x-request-network", value_delimiter = ',')]
    header_prefix: Vec<String>,
    /// The service.
    #[command(flatten)]
    service: Service,
}

/// Verbs of `prs events`.
#[derive(Debug, Subcommand)]
pub enum EventsVerb {
    /// Lists events, newest first.
    List {
        /// Only events with this name.
        #[arg(long)]
        event: Option<String>,
        /// Only events about this request.
        #[arg(long)]
        request: Option<String>,
        /// Only events from this time on, for example 2030-01-31T12:00:00Z.
        #[arg(long)]
        since: Option<String>,
        /// Maximum number, up to 100.
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// The service.
        #[command(flatten)]
        service: Service,
    },
    /// Replays events.
    Replay {
        /// Events from this time on, for example 2030-01-31T12:00:00Z.
        #[arg(long, required_unless_present = "id", conflicts_with = "id")]
        since: Option<String>,
        /// Events up to this time.
        #[arg(long, requires = "since")]
        until: Option<String>,
        /// One event.
        #[arg(long)]
        id: Option<String>,
        /// Only to this endpoint. Events that occurred while the endpoint was disabled are included.
        #[arg(long)]
        endpoint: Option<String>,
        /// Skip events that were delivered.
        #[arg(long, requires = "since")]
        failed_only: bool,
        /// The service.
        #[command(flatten)]
        service: Service,
    },
}

/// Verbs of `prs deliveries`.
#[derive(Debug, Subcommand)]
pub enum DeliveriesVerb {
    /// Lists deliveries, newest first.
    List {
        /// queued, delivered, failed or cancelled.
        #[arg(long)]
        state: Option<String>,
        /// Only deliveries of this event.
        #[arg(long)]
        event: Option<String>,
        /// Maximum number, up to 100.
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// The service.
        #[command(flatten)]
        service: Service,
    },
    /// Queues a finished delivery again.
    Retry {
        /// Id of the delivery.
        id: String,
        /// The service.
        #[command(flatten)]
        service: Service,
    },
}

impl Service {
    fn client(&self) -> anyhow::Result<ApiClient> {
        ApiClient::new(&self.url, &self.api_key)
    }
}

/// Recently forwarded events, and the position from which a broken stream resumes.
///
/// The service generates ids before it commits, so an event may appear a moment after another event with a larger id. A
/// resumed stream therefore starts some events earlier and skips events that were already forwarded.
#[derive(Debug)]
struct ForwardedEvents {
    order: VecDeque<String>,
    known: HashSet<String>,
    before: String,
}

impl ForwardedEvents {
    fn after(id: &str) -> Self {
        Self {
            order: VecDeque::new(),
            known: HashSet::new(),
            before: id.to_owned(),
        }
    }

    /// Records an event; returns whether it is new.
    fn note(&mut self, id: &str) -> bool {
        if !self.known.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(old) = self.order.pop_front()
        {
            self.known.remove(&old);
            self.before = old;
        }
        true
    }

    /// The id after which the stream resumes. Every event after this id is either remembered or new.
    fn resume_after(&self) -> &str {
        &self.before
    }
}

/// Forwards events to a local URL until the command is interrupted.
pub async fn listen(arguments: &ListenArguments) -> anyhow::Result<()> {
    let client = arguments.service.client()?;
    let clock = Arc::new(SystemClock);
    let secret = Secret::new(hex::encode(random::<32>(&SystemIds::new(clock.clone()))));
    say!("signing secret of this run: {}", secret.reveal());
    say!("forwarding to {}", arguments.forward_to);
    // The stream starts at the newest event. Without this id, a connection that breaks before the first message would
    // lose events.
    let newest = client.get("/v2/events", &[("limit", "1".to_owned())]).await?;
    let mut progress = ForwardedEvents::after(newest["events"][0]["id"].as_str().unwrap_or(SMALLEST_ID));
    loop {
        let mut query = vec![("after", progress.resume_after().to_owned())];
        if let Some(events) = &arguments.events {
            query.push(("events", events.clone()));
        }
        let opened = client.follow("/v2/events/stream", &query).await;
        let broken = match opened {
            Ok(mut messages) => loop {
                match messages.next().await {
                    Ok(Some(message)) => {
                        if progress.note(&message.id) {
                            forward(&client, arguments, &secret, clock.as_ref(), &message).await;
                        }
                    }
                    Ok(None) => break anyhow::anyhow!("the service ended the stream"),
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        eprintln!("{broken:#}; reconnecting");
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn forward(
    client: &ApiClient,
    arguments: &ListenArguments,
    secret: &Secret,
    clock: &dyn Clock,
    message: &Message,
) {
    let prefixes: Vec<&str> = arguments.header_prefix.iter().map(String::as_str).collect();
    let signing = SignatureInput {
        prefixes: &prefixes,
        is_standard: true,
        secrets: std::slice::from_ref(secret),
        id: &message.id,
        now: clock.now(),
        body: message.data.as_bytes(),
    };
    let mut headers = signing.headers();
    for prefix in prefixes {
        headers.push((format!("{prefix}-delivery"), message.id.clone()));
        headers.push((format!("{prefix}-retry-count"), "0".to_owned()));
    }
    let started = Instant::now();
    let result = client
        .forward(&arguments.forward_to, &headers, message.data.clone())
        .await;
    let result = match result {
        Ok(status) => format!("{status} in {} ms", started.elapsed().as_millis()),
        Err(error) => format!("{error:#}"),
    };
    let body: Value = serde_json::from_str(&message.data).unwrap_or(Value::Null);
    let request = body["requestId"].as_str().unwrap_or("-");
    say!(
        "{} {} {request} {result}",
        clock.now().format("%H:%M:%S"),
        message.event
    );
}

/// Runs a verb of `prs events`.
pub async fn events(verb: &EventsVerb) -> anyhow::Result<()> {
    match verb {
        EventsVerb::List {
            event,
            request,
            since,
            limit,
            json,
            service,
        } => {
            let mut query = vec![("limit", limit.to_string())];
            query.extend(event.clone().map(|event| ("event", event)));
            query.extend(request.clone().map(|request| ("requestId", request)));
            query.extend(since.clone().map(|since| ("since", since)));
            let page = service.client()?.get("/v2/events", &query).await?;
            print_rows(&page, "events", *json, &["id", "createdAt", "event", "requestId"]);
        }
        EventsVerb::Replay {
            since,
            until,
            id,
            endpoint,
            failed_only,
            service,
        } => {
            let client = service.client()?;
            let mut body = json!({});
            if let Some(endpoint) = endpoint {
                body["endpointId"] = json!(endpoint);
            }
            if let Some(id) = id {
                let result = client.post(&format!("/v2/events/{id}/replay"), &body).await?;
                say!("replayed {}, skipped {}", result["replayed"], result["skipped"]);
                return Ok(());
            }
            body["since"] = json!(since);
            body["failedOnly"] = json!(failed_only);
            if let Some(until) = until {
                body["until"] = json!(until);
            }
            loop {
                let result = client.post("/v2/events/replay", &body).await?;
                say!("replayed {}, skipped {}", result["replayed"], result["skipped"]);
                if result["nextCursor"].is_null() {
                    break;
                }
                body["cursor"] = result["nextCursor"].clone();
            }
        }
    }
    Ok(())
}

/// Runs a verb of `prs deliveries`.
pub async fn deliveries(verb: &DeliveriesVerb) -> anyhow::Result<()> {
    match verb {
        DeliveriesVerb::List {
            state,
            event,
            limit,
            json,
            service,
        } => {
            let mut query = vec![("limit", limit.to_string())];
            query.extend(state.clone().map(|state| ("state", state)));
            query.extend(event.clone().map(|event| ("eventId", event)));
            let page = service.client()?.get("/v2/deliveries", &query).await?;
            print_rows(
                &page,
                "deliveries",
                *json,
                &["id", "createdAt", "event", "state", "url"],
            );
        }
        DeliveriesVerb::Retry { id, service } => {
            let path = format!("/v2/deliveries/{id}/retry");
            let result = service.client()?.post(&path, &json!({})).await?;
            say!("{id} {}", result["delivery"]["state"].as_str().unwrap_or("-"));
        }
    }
    Ok(())
}

fn print_rows(page: &Value, list: &str, json: bool, members: &[&str]) {
    if json {
        say!("{page}");
        return;
    }
    for row in page[list].as_array().into_iter().flatten() {
        let cells: Vec<&str> = members
            .iter()
            .map(|member| row[*member].as_str().unwrap_or("-"))
            .collect();
        say!("{}", cells.join("  "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_stream_begins_earlier_and_repeats_nothing() {
        let mut progress = ForwardedEvents::after(SMALLEST_ID);
        assert_eq!(progress.resume_after(), SMALLEST_ID);
        let ids: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
        assert!(ids.iter().all(|id| progress.note(id)));
        let after = progress.resume_after().to_owned();
        assert_eq!(after, "035");
        assert!(ids.iter().filter(|id| **id > after).all(|id| !progress.note(id)));
    }
}
