//! The page that a call comes from, and rules for session cookies that browsers add automatically.

use crate::{
    domain::{client_id::CallOrigin, refusal::Refusal},
    http::{body::is_json, error::Problem, gate::identify::Identify},
};
use poem::{
    Request,
    http::{header, uri::Authority},
};

/// Header in which a browser states the relation of page and service.
const FETCH_SITE: &str = "sec-fetch-site";

/// Whether a browser made the call for a page.
pub(super) fn is_browser(request: &Request) -> bool {
    let headers = request.headers();
    headers.contains_key(header::ORIGIN) || headers.contains_key(FETCH_SITE)
}

/// A header that may occur once. An unreadable or repeated header is returned as an empty string, which is no page.
fn only<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut values = request.headers().get_all(name).iter();
    match (values.next()?, values.next()) {
        (value, None) => Some(value.to_str().unwrap_or_default()),
        _ => Some(""),
    }
}

/// Reads the origin of a call.
pub fn call_origin(request: &Request) -> CallOrigin<'_> {
    CallOrigin {
        origin: only(request, header::ORIGIN.as_str()),
        is_same_origin: only(request, FETCH_SITE) == Some("same-origin"),
    }
}

/// Whether the browser states that the call comes from a page that may use sessions.
fn is_own_page(request: &Request, identify: &dyn Identify) -> bool {
    let call = call_origin(request);
    call.is_same_origin || call.origin.is_some_and(|origin| identify.is_session_page(origin))
}

/// Names and addresses that always mean this machine, because no name server can assign them to another one.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Rejects a call from a page of another origin than `own`, and a call whose `Host` header names another host. Clients
/// that are not browsers send no origin.
///
/// The browser's statement `same-origin` alone proves nothing: the owner of any domain can make its name resolve to
/// this machine.
pub(in crate::http) fn require_own_origin(request: &Request, own: &str) -> Result<(), Problem> {
    let call = call_origin(request);
    let is_own = match call.origin {
        Some(origin) => origin == own || is_own_loopback(request, origin),
        None => call.is_same_origin || !is_browser(request),
    };
    if is_own && is_own_host(request, own) {
        return Ok(());
    }
    Err(Refusal::forbidden("Only pages of this service may call this endpoint, at the address of the service").into())
}

/// Whether a page has a loopback origin over http whose host and port equal the `Host` header of the call.
fn is_own_loopback(request: &Request, origin: &str) -> bool {
    let Some(page) = origin.strip_prefix("http://") else {
        return false;
    };
    let host = page.parse::<Authority>();
    let is_loopback = host.is_ok_and(|host| LOOPBACK.iter().any(|name| host.host().eq_ignore_ascii_case(name)));
    is_loopback && only(request, header::HOST.as_str()).is_some_and(|host| host.eq_ignore_ascii_case(page))
}

/// Whether the call names the host of `own`, or this machine by a loopback name.
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

/// Rejects calls that a browser attributes to a page of another origin. Clients that are not browsers send no such
/// header.
pub(super) fn require_same_origin(request: &Request) -> Result<(), Problem> {
    match only(request, FETCH_SITE) {
        None | Some("same-origin") => Ok(()),
        Some(_) => Err(Refusal::forbidden("Only pages of this service may call this operation").into()),
    }
}

/// Message for a page of another origin whose call carries a session cookie.
pub(super) const FOREIGN_COOKIE: &str = "A session cookie is accepted only from pages of this service: send an Origin \
                                         header that is listed in http.session_origins, or use the Authorization \
                                         header";

/// Rejects a call from a page of another origin, with the message `foreign`. Also rejects a body of a type that any
/// page can send without a preflight.
pub(super) fn require_own_page(request: &Request, identify: &dyn Identify, foreign: &str) -> Result<(), Problem> {
    let message = if !is_own_page(request, identify) {
        foreign
    } else if has_body(request) && !request.content_type().is_some_and(is_json) {
        "A session cookie is accepted only with a JSON body: send the content-type application/json"
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
