//! The stream of events: server-sent events that follow the log.

use super::{
    bodies::{EventKindText, EventMessage},
    view::told,
};
use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::EventId},
    flows::{
        FlowResult,
        auth::identify,
        events::{EventRecord, follow::Follower},
    },
    http::{
        edge::server::{HangUp, Stopping},
        error::done,
        forms::wire::UlidText,
        gate::places::{Place, Places},
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

/// Who has streams open in this process: each of them asks the database four times a second.
static STREAMS: Places = Places::new(256, "Too many streams are open; try again later");

/// Pause between two looks of a stream.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Pause after which a stream without events says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Pause after which the credential of a stream is looked up again. Once it is not good, the connection is closed, and what
/// waits in it is discarded.
const LOOKUP_PAUSE: Duration = Duration::from_secs(5);

/// A stream of messages. Its documented schema is that of one message, since 3.0 has no word for a list without an end.
pub struct Messages(EventStream<BoxStream<'static, EventMessage>>);

impl IntoResponse for Messages {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl ApiResponse for Messages {
    fn meta() -> MetaResponses {
        MetaResponses {
            responses: vec![MetaResponse {
                description: "Messages, one after the other; the schema shows one of them.",
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

/// What an open stream holds.
struct Open {
    follower: Follower,
    waiting: VecDeque<EventRecord>,
    /// Cancelled when the service stops, and when the credential is not good any more.
    stop: CancellationToken,
    _watched: DropGuard,
    _place: Place,
}

impl Open {
    /// The next event; `None` ends the stream, after which a client comes again with the last id it has seen.
    async fn next(mut self) -> Option<(EventMessage, Self)> {
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            if let Some(event) = self.waiting.pop_front() {
                let message = EventMessage {
                    id: UlidText::written(event.id),
                    event: EventKindText::written(&event.kind),
                    data: told(event.kind, event.body),
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
                    tracing::warn!(%error, "a stream of events ends early");
                    return None;
                }
            }
        }
    }
}

/// Looks the credential of a stream up until it is no longer good.
async fn wait_for_revocation(ctx: Ctx, caller: PlatformCaller) {
    loop {
        tokio::time::sleep(LOOKUP_PAUSE).await;
        match identify::is_still_admitted(&ctx, &caller).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(%error, "the credential of a stream could not be looked up");
                return;
            }
        }
    }
}

/// Opens a stream of the events of a caller, of some kinds or of all, after one event or from now on.
///
/// Errors: the platform, or all together, have as many streams open as they may (429).
pub(super) async fn open(
    ctx: &Ctx,
    caller: &PlatformCaller,
    kinds: Vec<String>,
    after: Option<EventId>,
    request: &Request,
) -> FlowResult<Messages> {
    let place = STREAMS.take(&caller.platform, |own| ctx.caps.admit_event_streams(own))?;
    let follower = Follower::start(ctx, caller, kinds, after).await?;
    // Without a server around it, in a test, nothing stops.
    let stop = request.data::<Stopping>().map(|stopping| stopping.0.child_token());
    let stop = stop.unwrap_or_default();
    let ended = CancellationToken::new();
    let revocation = wait_for_revocation(ctx.clone(), caller.clone());
    let (watched, stopped, connection) = (ended.clone(), stop.clone(), request.data::<HangUp>().cloned());
    tokio::spawn(async move {
        if watched.run_until_cancelled(revocation).await.is_some() {
            // Before the stream ends: an end in good order would send what waits in the connection.
            if let Some(connection) = connection {
                connection.cut();
            }
            stopped.cancel();
        }
    });
    let open = Open {
        follower,
        waiting: VecDeque::new(),
        stop,
        _watched: ended.drop_guard(),
        _place: place,
    };
    let messages = stream::unfold(open, Open::next).boxed();
    let messages = EventStream::new(messages)
        .keep_alive(HEARTBEAT)
        .to_event(|message: EventMessage| {
            poem::web::sse::Event::message(message.data)
                .id(message.id.to_string())
                .event_type(message.event.to_string())
        });
    Ok(Messages(messages))
}
