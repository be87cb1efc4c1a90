//! Which page a call comes from, and what a page may do with a session that the browser adds by itself.

use crate::{
    domain::{client_id::CallOrigin, refusal::Refusal},
    http::{body::is_json, error::Problem, gate::identify::Identify},
};
use poem::{
    Request,
    http::{header, uri::Authority},
};

/// Header in which a browser says how the page and the service are related.
const FETCH_SITE: &str = "sec-fetch-site";

/// Whether a browser made the call for a page.
pub(super) fn is_browser(request: &Request) -> bool {
    let headers = request.headers();
    headers.contains_key(header::ORIGIN) || headers.contains_key(FETCH_SITE)
}

/// A header that may be given once. What cannot be read, or is given twice, is an empty text: present, and no page.
fn only<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut values = request.headers().get_all(name).iter();
    match (values.next()?, values.next()) {
        (value, None) => Some(value.to_str().unwrap_or_default()),
        _ => Some(""),
    }
}

/// Reads where a call comes from.
pub fn call_origin(request: &Request) -> CallOrigin<'_> {
    CallOrigin {
        origin: only(request, header::ORIGIN.as_str()),
        is_same_origin: only(request, FETCH_SITE) == Some("same-origin"),
    }
}

/// Whether the browser says that the call comes from a page that may use sessions.
fn is_own_page(request: &Request, identify: &dyn Identify) -> bool {
    let call = call_origin(request);
    call.is_same_origin || call.origin.is_some_and(|origin| identify.is_session_page(origin))
}

/// Names by which this machine calls itself; no name server can give them to somebody else.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Refuses a call of a page of another origin than `own`, and one under the name of another host; who is no browser
/// names no origin.
///
/// That a browser calls page and service the same origin proves nothing: whoever owns a name can have it resolve to this
/// machine.
pub(in crate::http) fn require_own_origin(request: &Request, own: &str) -> Result<(), Problem> {
    let call = call_origin(request);
    let is_own = match call.origin {
        Some(origin) => origin == own || is_own_loopback(request, origin),
        None => call.is_same_origin || !is_browser(request),
    };
    if is_own && is_own_host(request, own) {
        return Ok(());
    }
    Err(Refusal::forbidden("Only pages of this service may call this, by its own address").into())
}

/// Whether a page is one of this machine, and was loaded under the name by which it calls.
fn is_own_loopback(request: &Request, origin: &str) -> bool {
    let Some(page) = origin.strip_prefix("http://") else {
        return false;
    };
    let host = page.parse::<Authority>();
    let is_loopback = host.is_ok_and(|host| LOOPBACK.iter().any(|name| host.host().eq_ignore_ascii_case(name)));
    is_loopback && only(request, header::HOST.as_str()).is_some_and(|host| host.eq_ignore_ascii_case(page))
}

/// Whether the call names the host of `own`, or this machine by a name of its own.
fn is_own_host(request: &Request, own: &str) -> bool {
    let named = only(request, header::HOST.as_str()).or_else(|| request.uri().authority().map(Authority::as_str));
    let Some(host) = named.and_then(|named| named.parse::<Authority>().ok()) else {
        return false;
    };
    let is_loopback = LOOPBACK.iter().any(|name| host.host().eq_ignore_ascii_case(name));
    is_loopback
        || own
            .split_once("://")
            .is_some_and(|(_, own)| host.as_str().eq_ignore_ascii_case(own))
}

/// Refuses what a browser says a page of another origin calls; who is no browser says nothing.
pub(super) fn require_same_origin(request: &Request) -> Result<(), Problem> {
    match only(request, FETCH_SITE) {
        None | Some("same-origin") => Ok(()),
        Some(_) => Err(Refusal::forbidden("Only pages of this service may call this").into()),
    }
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
