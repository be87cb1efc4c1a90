//! Calls that begin and end sessions, which need no credential.

use crate::{
    domain::{guesses::Visitor, ids::Secret},
    http::gate::{
        address::CallerAddress,
        extractor::identify,
        page::{FOREIGN_COOKIE, is_browser, require_own_page},
        scheme::{DEVICE_COOKIE, Scheme, cookies},
    },
};
use poem::{FromRequest, Request, RequestBody};

/// A call that begins a session, with the origin of the call. Any program may send it. In a browser only pages of this
/// service may, so that another page cannot sign a visitor in to an unexpected account.
#[derive(Debug)]
pub struct SigningIn(pub Visitor);

impl<'a> FromRequest<'a> for SigningIn {
    async fn from_request(request: &'a Request, _body: &mut RequestBody) -> poem::Result<Self> {
        if is_browser(request) {
            let foreign = "Only pages of this service may sign people in: the Origin header must be listed in \
                           http.session_origins";
            require_own_page(request, identify(request)?.as_ref(), foreign)?;
        }
        // An unreadable or repeated device cookie counts as an unknown one.
        let mut markers = cookies(request, DEVICE_COOKIE);
        let marker = markers.next().filter(|_| markers.next().is_none());
        let marker = marker.and_then(|marker| std::str::from_utf8(marker.trim_ascii()).ok());
        Ok(Self(Visitor {
            is_page: is_browser(request),
            address: request.data::<CallerAddress>().and_then(|address| address.0),
            device: marker.map(Secret::new),
        }))
    }
}

/// The session token of a sign-out, whether or not the session exists. The response clears the cookie, so only pages of
/// this service may make such a call, with or without a cookie.
#[derive(Debug)]
pub struct SessionToken(pub Option<Secret>);

impl<'a> FromRequest<'a> for SessionToken {
    async fn from_request(request: &'a Request, _body: &mut RequestBody) -> poem::Result<Self> {
        let schemes = [Scheme::SessionBearer, Scheme::Session];
        let shown = schemes
            .into_iter()
            .find_map(|scheme| scheme.read(request).map(|token| (scheme, token)));
        let foreign = match shown {
            Some((Scheme::Session, _)) => Some(FOREIGN_COOKIE),
            // A page needs permission (CORS) to send the authorization header, so its origin is not checked here.
            Some(_) => None,
            None => is_browser(request).then_some(
                "Only pages of this service may sign people out: the Origin header must be listed in \
                 http.session_origins",
            ),
        };
        if let Some(foreign) = foreign {
            require_own_page(request, identify(request)?.as_ref(), foreign)?;
        }
        let token = shown.and_then(|(_, token)| token.ok());
        Ok(Self(token.map(Secret::new)))
    }
}
