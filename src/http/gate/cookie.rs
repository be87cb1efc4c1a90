//! The cookie that carries a session. Source: interface §5; rules P.1.4.

use crate::{
    ctx::SessionRules,
    domain::{
        caller::Person,
        session::{ACCOUNT_LIFETIME, Session},
    },
    flows::auth::SignedIn,
    http::gate::scheme::SESSION_COOKIE,
};
use poem::{
    IntoResponse, Response,
    http::{HeaderValue, header},
};
use poem_openapi::{
    ApiResponse,
    registry::{MetaHeader, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
};

/// An answer that sets or clears the cookie.
#[derive(Debug)]
pub struct WithCookie<R> {
    answer: R,
    cookie: String,
}

impl<R> WithCookie<R> {
    /// Sets the cookie to the token of a session that begins.
    pub fn set(answer: R, signed_in: &SignedIn, rules: &SessionRules) -> Self {
        let cookie = cookie(signed_in.token.reveal(), lifetime_s(&signed_in.session), rules);
        Self { answer, cookie }
    }

    /// Clears the cookie.
    pub fn clear(answer: R, rules: &SessionRules) -> Self {
        let cookie = cookie("", Some(0), rules);
        Self { answer, cookie }
    }
}

/// How long a browser keeps the cookie: a wallet session is over when the browser is closed.
fn lifetime_s(session: &Session) -> Option<i64> {
    match session.person {
        Person::Wallet(_) => None,
        Person::Account(_) => Some(ACCOUNT_LIFETIME.num_seconds()),
    }
}

fn cookie(token: &str, lifetime_s: Option<i64>, rules: &SessionRules) -> String {
    let secure = if rules.is_cookie_secure { " Secure;" } else { "" };
    let lifetime = lifetime_s
        .map(|seconds| format!("; Max-Age={seconds}"))
        .unwrap_or_default();
    format!("{SESSION_COOKIE}={token}; HttpOnly;{secure} SameSite=Lax; Path=/{lifetime}")
}

impl<R: IntoResponse> IntoResponse for WithCookie<R> {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        match HeaderValue::from_str(&self.cookie) {
            Ok(mut value) => {
                value.set_sensitive(true);
                response.headers_mut().append(header::SET_COOKIE, value);
            }
            // Tokens are made of letters that every header may hold.
            Err(error) => tracing::error!(%error, "a session cookie could not be written"),
        }
        response
    }
}

impl<R: ApiResponse> ApiResponse for WithCookie<R> {
    fn meta() -> MetaResponses {
        let mut meta = R::meta();
        for response in &mut meta.responses {
            let mut schema = MetaSchema::new("string");
            schema.example = Some(format!("{SESSION_COOKIE}=…; HttpOnly; Secure; SameSite=Lax; Path=/").into());
            response.headers.push(MetaHeader {
                name: "Set-Cookie".to_owned(),
                description: Some(
                    "Cookie of the session. Callers without cookies send its value as Bearer token.".to_owned(),
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
