//! The event stream: server-sent events that follow the event log.

use super::{
    bodies::{EventKindText, EventMessage},
    view::show_body,
};
use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::EventId},
    flows::{
        FlowResult,
        auth::identify,
        events::{EventRecord, follow::LogFollower},
    },
    http::{
        edge::server::{HangUp, ServerStopping},
        error::done,
        forms::wire::UlidText,
        gate::places::{PlatformSlot, PlatformSlots},
    },
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use poem::{IntoResponse, Request, Response};
use poem_openapi::{
    ApiResponse,
    payload::EventStream,
    registry::{MetaMediaType, MetaResponse, MetaResponses, Registry},
    types::Type,
};
use std::{collections::VecDeque, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Open streams of this process; each of them queries the database four times a second.
static STREAMS: PlatformSlots = PlatformSlots::new(256, "Too many streams are open; try again later");

/// Pause between two queries of a stream.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Interval of the heartbeat on a stream without events.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Interval at which the credential of a stream is checked. When it is no longer valid, the connection is closed and
/// its unsent messages are discarded.
const LOOKUP_PAUSE: Duration = Duration::from_secs(5);

/// A stream of messages. Its documented schema is that of one message, because OpenAPI 3.0 cannot describe an endless
/// list.
pub struct MessageStream(EventStream<BoxStream<'static, EventMessage>>);

impl IntoResponse for MessageStream {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl ApiResponse for MessageStream {
    fn meta() -> MetaResponses {
        MetaResponses {
            responses: vec![MetaResponse {
                description: "A sequence of messages; the schema describes one of them.",
                status: Some(done::OK),
                status_range: None,
                content: vec![MetaMediaType {
                    content_type: "text/event-stream",
                    schema: EventMessage::schema_ref(),
                }],
                headers: Vec::new(),
            }],
        }
    }

    fn register(registry: &mut Registry) {
        EventMessage::register(registry);
    }
}

/// The state of an open stream.
struct OpenStream {
    follower: LogFollower,
    waiting: VecDeque<EventRecord>,
    /// Cancelled when the service stops, and when the credential is no longer valid.
    stop: CancellationToken,
    _watched: DropGuard,
    _place: PlatformSlot,
}

impl OpenStream {
    /// Returns the next event. `None` ends the stream; the client then reconnects with the last id it received.
    async fn next(mut self) -> Option<(EventMessage, Self)> {
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            if let Some(event) = self.waiting.pop_front() {
                let message = EventMessage {
                    id: UlidText::written(event.id),
                    event: EventKindText::written(&event.kind),
                    data: show_body(event.kind, event.body),
                };
                return Some((message, self));
            }
            match self.follower.look().await {
                Ok(events) if events.is_empty() => {
                    tokio::select! {
                        () = tokio::time::sleep(LOOK_PAUSE) => {}
                        () = self.stop.cancelled() => return None,
                    }
                }
                Ok(events) => self.waiting.extend(events),
                Err(error) => {
                    tracing::warn!(%error, "an event stream ended early; the client has to reconnect");
                    return None;
                }
            }
        }
    }
}

/// Checks the credential of a stream until it is no longer valid.
async fn wait_for_revocation(ctx: Ctx, caller: PlatformCaller) {
    loop {
        tokio::time::sleep(LOOKUP_PAUSE).await;
        match identify::is_still_admitted(&ctx, &caller).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(%error, "the credential of an event stream could not be looked up; the stream ends");
                return;
            }
        }
    }
}

/// Opens a stream of a caller's events, of all kinds or some, starting after a given event or with the next one.
///
/// Errors: the platform, or all platforms together, have reached the maximum number of streams (429).
pub(super) async fn open(
    ctx: &Ctx,
    caller: &PlatformCaller,
    kinds: Vec<String>,
    after: Option<EventId>,
    request: &Request,
) -> FlowResult<MessageStream> {
    let place = STREAMS.take(&caller.platform, |own| ctx.caps.admit_event_streams(own))?;
    let follower = LogFollower::start(ctx, caller, kinds, after).await?;
    // A call without a server, as in tests, has no `ServerStopping`: nothing cancels its token.
    let stop = request
        .data::<ServerStopping>()
        .map(|stopping| stopping.0.child_token());
    let stop = stop.unwrap_or_default();
    let ended = CancellationToken::new();
    let revocation = wait_for_revocation(ctx.clone(), caller.clone());
    let (watched, stopped, connection) = (ended.clone(), stop.clone(), request.data::<HangUp>().cloned());
    tokio::spawn(async move {
        if watched.run_until_cancelled(revocation).await.is_some() {
            // The connection is cut before the stream ends: a regular end would send the messages that wait in the
            // connection.
            if let Some(connection) = connection {
                connection.cut();
            }
            stopped.cancel();
        }
    });
    let open = OpenStream {
        follower,
        waiting: VecDeque::new(),
        stop,
        _watched: ended.drop_guard(),
        _place: place,
    };
    let messages = stream::unfold(open, OpenStream::next).boxed();
    let messages = EventStream::new(messages)
        .keep_alive(HEARTBEAT)
        .to_event(|message: EventMessage| {
            poem::web::sse::Event::message(message.data)
                .id(message.id.to_string())
                .event_type(message.event.to_string())
        });
    Ok(MessageStream(messages))
}
