//! Ways to authenticate: how the documents declare each one, and where a call carries it.

use poem::{Request, http::header};
use poem_openapi::registry::MetaSecurityScheme;

/// Name of the session cookie. Source: rules P.1.4.
pub const SESSION_COOKIE: &str = "session_token";

/// A way to authenticate, as the documents declare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `x-orchestrator-key` together with the `x-client-id` of the platform that the orchestrator acts for.
    OrchestratorPair,
    /// `x-orchestrator-key`.
    OrchestratorKey,
    /// `x-api-key`.
    ApiKey,
    /// `x-client-id`.
    ClientId,
    /// `Authorization: Bearer`.
    SessionBearer,
    /// Cookie.
    Session,
}

impl Scheme {
    /// Every scheme with a carrier of its own, in the order of precedence.
    pub const ALL: [Self; 5] = [
        Self::OrchestratorKey,
        Self::ApiKey,
        Self::ClientId,
        Self::SessionBearer,
        Self::Session,
    ];

    /// Name in the documents.
    pub const fn id(self) -> &'static str {
        match self {
            Self::OrchestratorPair => "OrchestratorPair",
            Self::OrchestratorKey => "OrchestratorKey",
            Self::ApiKey => "ApiKey",
            Self::ClientId => "ClientId",
            Self::SessionBearer => "SessionBearer",
            Self::Session => "Session",
        }
    }

    /// The header that carries it, in words of the documents.
    pub(super) const fn carrier(self) -> &'static str {
        match self {
            Self::OrchestratorPair => "x-orchestrator-key with x-client-id",
            Self::OrchestratorKey => "x-orchestrator-key",
            Self::ApiKey => "x-api-key",
            Self::ClientId => "x-client-id",
            Self::SessionBearer => "authorization",
            Self::Session => SESSION_COOKIE,
        }
    }

    pub(super) fn declaration(self) -> MetaSecurityScheme {
        let (ty, place, scheme, description) = match self {
            Self::OrchestratorPair | Self::OrchestratorKey => (
                "apiKey",
                Some("header"),
                None,
                "Key of an orchestrator; server side only.",
            ),
            Self::ApiKey => (
                "apiKey",
                Some("header"),
                None,
                "Key of a platform; server side only. Created in the dashboard or with `prs admin`, shown once.",
            ),
            Self::ClientId => (
                "apiKey",
                Some("header"),
                None,
                "Public client ID for pages of browsers. With allowed domains it works only from those pages; the \
                 browser itself says where it is.",
            ),
            Self::SessionBearer => (
                "http",
                None,
                Some("bearer"),
                "Session token for callers without cookies.",
            ),
            Self::Session => (
                "apiKey",
                Some("cookie"),
                None,
                "Session of a person who signed in with a wallet.",
            ),
        };
        MetaSecurityScheme {
            ty,
            description: Some(description),
            name: place.map(|_| self.carrier()),
            key_in: place,
            scheme,
            bearer_format: None,
            flows: None,
            openid_connect_url: None,
        }
    }

    /// What the documents ask for: all of these together.
    pub fn parts(self) -> &'static [Self] {
        match self {
            Self::OrchestratorPair => &[Self::OrchestratorKey, Self::ClientId],
            Self::OrchestratorKey => &[Self::OrchestratorKey],
            Self::ApiKey => &[Self::ApiKey],
            Self::ClientId => &[Self::ClientId],
            Self::SessionBearer => &[Self::SessionBearer],
            Self::Session => &[Self::Session],
        }
    }

    pub(super) fn read(self, request: &Request) -> Option<String> {
        let found = match self {
            // The key says that a pair is meant, even when its other half is missing.
            Self::OrchestratorPair => return Self::OrchestratorKey.read(request),
            Self::Session => session_cookie(request),
            Self::SessionBearer => request
                .header(header::AUTHORIZATION)
                .and_then(bearer)
                .map(str::to_owned),
            _ => request.header(self.carrier()).map(|text| text.trim().to_owned()),
        };
        found.filter(|text| !text.is_empty())
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (kind, token) = value.split_once(' ')?;
    kind.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn session_cookie(request: &Request) -> Option<String> {
    let headers = request.headers().get_all(header::COOKIE).iter();
    let pairs = headers
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == SESSION_COOKIE)
        .map(|(_, token)| token.to_owned())
}

/// Which credentials an operation accepts, in the order of precedence.
pub trait Policy: Send + Sync + 'static {
    /// The accepted ones; any of them is enough.
    const ANY_OF: &'static [Scheme];

    /// Whether calls count as management of client IDs, which has a wider limit.
    const IS_MANAGEMENT: bool = false;
}
