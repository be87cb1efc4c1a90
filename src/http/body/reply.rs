//! Successful responses: statuses other than 200, stored bodies, and the confirmation for operations without a result.

use crate::http::error::done;
use poem::{IntoResponse, Response, http::StatusCode};
use poem_openapi::{
    ApiResponse, Object,
    payload::Json,
    registry::{MetaMediaType, MetaResponse, MetaResponses, Registry},
    types::{ToJSON, Type},
};

/// Header that marks a stored response; its value is `true`.
pub const REPLAYED_HEADER: &str = "idempotency-replayed";

/// A JSON response with the status `STATUS`.
#[derive(Debug, Clone)]
pub struct Reply<const STATUS: u16, T> {
    body: ReplyBody<T>,
}

#[derive(Debug, Clone)]
enum ReplyBody<T> {
    New(T),
    Stored(String),
}

impl<const STATUS: u16, T> Reply<STATUS, T> {
    /// A new response.
    pub fn new(body: T) -> Self {
        Self {
            body: ReplyBody::New(body),
        }
    }

    /// The stored body of a previous response, marked by a header.
    pub fn replayed(body: String) -> Self {
        Self {
            body: ReplyBody::Stored(body),
        }
    }
}

/// Confirmation of success.
#[derive(Debug, Clone, Object)]
pub struct Success {
    /// Always true. Example: `true`
    pub success: bool,
}

impl Success {
    /// The only confirmation.
    pub fn done() -> Json<Self> {
        Json(Self { success: true })
    }
}

/// A response whose body may be the stored body of an earlier call.
pub type Answered<T> = Reply<{ done::OK }, T>;

/// A response with the created object.
pub type Created<T> = Reply<{ done::CREATED }, T>;

/// A response to a call that is accepted now and processed later.
pub type Accepted<T> = Reply<{ done::ACCEPTED }, T>;

impl<const STATUS: u16, T: ToJSON> IntoResponse for Reply<STATUS, T> {
    fn into_response(self) -> Response {
        let response = Response::builder()
            .status(StatusCode::from_u16(STATUS).unwrap_or_default())
            .content_type("application/json; charset=utf-8");
        match self.body {
            ReplyBody::New(body) => response.body(body.to_json_string()),
            ReplyBody::Stored(body) => response.header(REPLAYED_HEADER, "true").body(body),
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
