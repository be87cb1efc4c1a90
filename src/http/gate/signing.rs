//! Calls that begin and end sessions, which no credential opens.

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

/// A call that begins a session: any program may make it, but of pages only our own, so that no foreign page signs
/// somebody in whom they do not expect to be. Holds where the call comes from.
#[derive(Debug)]
pub struct SigningIn(pub Visitor);

impl<'a> FromRequest<'a> for SigningIn {
    async fn from_request(request: &'a Request, _body: &mut RequestBody) -> poem::Result<Self> {
        if is_browser(request) {
            let foreign = "Only pages of this service may sign people in: the Origin header must be listed in \
                           http.session_origins";
            require_own_page(request, identify(request)?.as_ref(), foreign)?;
        }
        // A marker that cannot be read, or one of several, is a stranger's.
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

/// The token of the session that a call ends, whether or not there is such a session. The answer clears the cookie, so
/// of pages only our own may make such a call, with a cookie or without.
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
            // A page has to be allowed to send this header.
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
