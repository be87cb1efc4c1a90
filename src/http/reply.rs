//! Successful answers with another status than 200.

use poem::{IntoResponse, Response, http::StatusCode};
use poem_openapi::{
    ApiResponse,
    registry::{MetaMediaType, MetaResponse, MetaResponses, Registry},
    types::{ToJSON, Type},
};

/// A JSON answer with the status `STATUS`.
#[derive(Debug, Clone)]
pub struct Reply<const STATUS: u16, T>(pub T);

/// 201 with a body.
pub type Created<T> = Reply<201, T>;

/// 202 with a body.
pub type Accepted<T> = Reply<202, T>;

impl<const STATUS: u16, T: ToJSON> IntoResponse for Reply<STATUS, T> {
    fn into_response(self) -> Response {
        Response::builder()
            .status(StatusCode::from_u16(STATUS).unwrap_or_default())
            .content_type("application/json; charset=utf-8")
            .body(self.0.to_json_string())
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
