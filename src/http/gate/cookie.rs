//! Cookies: one carries the session, the other marks a browser that has signed in before. Source: interface §5; rules
//! P.1.4.

use crate::{
    ctx::SessionRules,
    domain::{
        caller::SignedInPerson,
        guesses::DEVICE_LIFETIME,
        session::{ACCOUNT_LIFETIME, SignInSession},
    },
    flows::auth::SignedIn,
    http::gate::scheme::{DEVICE_COOKIE, SESSION_COOKIE},
};
use poem::{
    IntoResponse, Response,
    http::{HeaderValue, header},
};
use poem_openapi::{
    ApiResponse,
    registry::{MetaHeader, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
};

/// A response that sets or clears cookies.
#[derive(Debug)]
pub struct CookieResponse<R> {
    answer: R,
    cookies: Vec<String>,
}

impl<R> CookieResponse<R> {
    /// Sets the session cookie to the token of a new session, and sets the device cookie of a new browser.
    pub fn set(answer: R, signed_in: &SignedIn, rules: &SessionRules) -> Self {
        let token = signed_in.token.reveal();
        let session = cookie(SESSION_COOKIE, token, lifetime_s(&signed_in.session), rules);
        let device = signed_in.device.as_ref().map(|marker| {
            let lifetime_s = Some(DEVICE_LIFETIME.num_seconds());
            cookie(DEVICE_COOKIE, marker.reveal(), lifetime_s, rules)
        });
        Self {
            answer,
            cookies: std::iter::once(session).chain(device).collect(),
        }
    }

    /// Clears the session cookie. The browser keeps its device cookie, so that guesses from elsewhere do not delay its
    /// next sign-in.
    pub fn clear(answer: R, rules: &SessionRules) -> Self {
        Self {
            answer,
            cookies: vec![cookie(SESSION_COOKIE, "", Some(0), rules)],
        }
    }
}

/// Time in seconds for which a browser stores the cookie; `None` for a wallet session, which ends when the browser is
/// closed.
fn lifetime_s(session: &SignInSession) -> Option<i64> {
    match session.person {
        SignedInPerson::Wallet(_) => None,
        SignedInPerson::Account(_) => Some(ACCOUNT_LIFETIME.num_seconds()),
    }
}

/// A session token, for the documents.
const EXAMPLE: &str = "Zk3mV0sQy1xW8uT5rP2nL9jH6fD4bA7cE0gI3kM5oQ8";

fn cookie(name: &str, token: &str, lifetime_s: Option<i64>, rules: &SessionRules) -> String {
    let secure = if rules.is_cookie_secure { " Secure;" } else { "" };
    let lifetime = lifetime_s
        .map(|seconds| format!("; Max-Age={seconds}"))
        .unwrap_or_default();
    format!("{name}={token}; HttpOnly;{secure} SameSite=Lax; Path=/{lifetime}")
}

impl<R: IntoResponse> IntoResponse for CookieResponse<R> {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        for cookie in self.cookies {
            match HeaderValue::from_str(&cookie) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    response.headers_mut().append(header::SET_COOKIE, value);
                }
                // Tokens consist of characters that are valid in every header.
                Err(error) => tracing::error!(%error, "a cookie could not be set"),
            }
        }
        response
    }
}

impl<R: ApiResponse> ApiResponse for CookieResponse<R> {
    fn meta() -> MetaResponses {
        let mut meta = R::meta();
        for response in &mut meta.responses {
            let mut schema = MetaSchema::new("string");
            schema.max_length = Some(256);
            schema.pattern = Some(
                "^[a-z_]+=[0-9A-Za-z_-]*; HttpOnly;( Secure;)? SameSite=Lax; Path=/(; Max-Age=[0-9]+)?$".to_owned(),
            );
            schema.example = Some(format!("{SESSION_COOKIE}={EXAMPLE}; HttpOnly; Secure; SameSite=Lax; Path=/").into());
            response.headers.push(MetaHeader {
                name: "Set-Cookie".to_owned(),
                description: Some(
                    "Session cookie. Callers without cookies send its value as a Bearer token.".to_owned(),
                ),
                required: true,
                deprecated: false,
                schema: MetaSchemaRef::Inline(Box::new(schema)),
            });
        }
        meta
    }

    fn register(registry: &mut Registry) {
        R::register(registry);
    }
}
