//! Which page a call comes from, and what a page may do with a session that the browser adds by itself.

use crate::{
    domain::{client_id::CallOrigin, refusal::Refusal},
    http::{error::Problem, forms::body::is_json, gate::identify::Identify},
};
use poem::{Request, http::header};

/// Reads where a call comes from.
pub fn call_origin(request: &Request) -> CallOrigin<'_> {
    CallOrigin {
        origin: request.header(header::ORIGIN),
        is_same_origin: request.header("sec-fetch-site") == Some("same-origin"),
    }
}

/// Whether the browser says that the call comes from a page that may use sessions.
fn is_own_page(request: &Request, identify: &dyn Identify) -> bool {
    let call = call_origin(request);
    call.is_same_origin || call.origin.is_some_and(|origin| identify.is_session_page(origin))
}

/// What a foreign page reads whose call carries the cookie of a session.
pub(super) const FOREIGN_COOKIE: &str = "A session cookie counts only in calls of pages of this service: send an Origin header that is listed in \
     http.session_origins, or use the Authorization header";

/// Refuses a call of a foreign page with the sentence `foreign`, and a body that a page could send without being asked
/// for permission.
pub(super) fn require_own_page(request: &Request, identify: &dyn Identify, foreign: &str) -> Result<(), Problem> {
    let message = if !is_own_page(request, identify) {
        foreign
    } else if has_body(request) && !request.content_type().is_some_and(is_json) {
        "A session cookie counts only in calls whose body is JSON: send the content-type application/json"
    } else {
        return Ok(());
    };
    Err(Refusal::forbidden(message).into())
}

fn has_body(request: &Request) -> bool {
    let is_long = request
        .header(header::CONTENT_LENGTH)
        .is_some_and(|length| length.trim() != "0");
    is_long || request.headers().contains_key(header::TRANSFER_ENCODING)
}
