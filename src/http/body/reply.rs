//! Successful answers: other statuses than 200, stored bodies, and the confirmation of what has nothing to show.

use crate::http::error::done;
use poem::{IntoResponse, Response, http::StatusCode};
use poem_openapi::{
    ApiResponse, Object,
    payload::Json,
    registry::{MetaMediaType, MetaResponse, MetaResponses, Registry},
    types::{ToJSON, Type},
};

/// Header that tells an answer that was stored from a new one; its value is `true`.
pub const REPLAYED_HEADER: &str = "idempotency-replayed";

/// A JSON answer with the status `STATUS`.
#[derive(Debug, Clone)]
pub struct Reply<const STATUS: u16, T> {
    body: Body<T>,
}

#[derive(Debug, Clone)]
enum Body<T> {
    New(T),
    Stored(String),
}

impl<const STATUS: u16, T> Reply<STATUS, T> {
    /// A new answer.
    pub fn new(body: T) -> Self {
        Self { body: Body::New(body) }
    }

    /// The stored body of an answer that was given before; a header says so.
    pub fn replayed(body: String) -> Self {
        Self {
            body: Body::Stored(body),
        }
    }
}

/// Confirmation.
#[derive(Debug, Clone, Object)]
pub struct Success {
    /// Always true. Example: `true`
    pub success: bool,
}

impl Success {
    /// The one confirmation there is.
    pub fn done() -> Json<Self> {
        Json(Self { success: true })
    }
}

/// A body that may be a stored one.
pub type Answered<T> = Reply<{ done::OK }, T>;

/// The body of what was made.
pub type Created<T> = Reply<{ done::CREATED }, T>;

/// The body of what is going to be done.
pub type Accepted<T> = Reply<{ done::ACCEPTED }, T>;

impl<const STATUS: u16, T: ToJSON> IntoResponse for Reply<STATUS, T> {
    fn into_response(self) -> Response {
        let response = Response::builder()
            .status(StatusCode::from_u16(STATUS).unwrap_or_default())
            .content_type("application/json; charset=utf-8");
        match self.body {
            Body::New(body) => response.body(body.to_json_string()),
            Body::Stored(body) => response.header(REPLAYED_HEADER, "true").body(body),
        }
    }
}

impl<const STATUS: u16, T: ToJSON> ApiResponse for Reply<STATUS, T> {
    fn meta() -> MetaResponses {
        MetaResponses {
            responses: vec![MetaResponse {
                description: "",
                status: Some(STATUS),
                status_range: None,
                content: vec![MetaMediaType {
                    content_type: "application/json",
                    schema: <T as Type>::schema_ref(),
                }],
                headers: Vec::new(),
            }],
        }
    }

    fn register(registry: &mut Registry) {
        <T as Type>::register(registry);
    }
}
