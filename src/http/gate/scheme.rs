//! Authentication schemes: one table row for each, used to read calls and to generate the documents.

use crate::domain::caller::Caller;
use poem::{
    Request,
    http::{HeaderValue, header},
};
use poem_openapi::registry::MetaSecurityScheme;

/// Name of the session cookie. Source: rules P.1.4.
pub const SESSION_COOKIE: &str = "session_token";

/// Name of the cookie that marks a browser that has signed in before.
pub(super) const DEVICE_COOKIE: &str = "device_token";

/// Maximum length of a credential that is looked up.
const CREDENTIAL_LENGTH_MAX: usize = 512;

const BEARER: &[u8] = b"bearer ";

/// Where a call carries a credential.
enum CredentialCarrier {
    Header(&'static str),
    Bearer,
    Cookie(&'static str),
}
use CredentialCarrier::{Bearer, Cookie, Header};

macro_rules! schemes {
    ($($scheme:ident $carrier:expr, $description:literal;)+) => {
        /// An authentication scheme, as the documents declare it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Scheme {
            $(#[doc = $description] $scheme,)+
        }

        impl Scheme {
            /// Every scheme, in order of precedence.
            pub const ALL: &[Self] = &[$(Self::$scheme),+];

            /// Name in the documents.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$scheme => stringify!($scheme),)+
                }
            }

            const fn facts(self) -> (CredentialCarrier, &'static str) {
                match self {
                    $(Self::$scheme => ($carrier, $description),)+
                }
            }
        }
    };
}

schemes! {
    OrchestratorKey Header("x-orchestrator-key"), "Key of an orchestrator; server side only.";
    ApiKey Header("x-api-key"),
        "Key of a platform; server side only. Created in the dashboard or with `prs admin`, and shown only once.";
    ClientId Header("x-client-id"),
        "Public client ID for browser pages. With allowed domains it works only from pages of those domains; the \
         browser sends the `Origin` of the page.";
    SessionBearer Bearer, "Session token for callers without cookies.";
    Session Cookie(SESSION_COOKIE), "Session of a person who signed in with a wallet or with e-mail and password.";
    Paired Header("x-orchestrator-key"), "Key of an orchestrator with the client ID of a platform that is linked to it.";
}

/// Hint for a caller whose credential is not accepted for an operation.
pub(in crate::http) fn needs(accepted: &[Scheme]) -> String {
    let carriers: Vec<String> = accepted.iter().map(|scheme| scheme.in_words("")).collect();
    format!("This operation requires {}", carriers.join(" or "))
}

impl Scheme {
    /// The schemes that a call has to satisfy together. Only the pair has two: orchestrator key and client ID.
    pub(in crate::http) const fn parts(self) -> &'static [Self] {
        match self {
            Self::OrchestratorKey => &[Self::OrchestratorKey],
            Self::ApiKey => &[Self::ApiKey],
            Self::ClientId => &[Self::ClientId],
            Self::SessionBearer => &[Self::SessionBearer],
            Self::Session => &[Self::Session],
            Self::Paired => &[Self::OrchestratorKey, Self::ClientId],
        }
    }

    /// The headers or the cookie that a call has to carry, each with `quote` around it.
    pub(in crate::http) fn in_words(self, quote: &str) -> String {
        let words = self.parts().iter().map(|part| match part.facts().0 {
            Header(name) => format!("{quote}{name}{quote}"),
            Bearer => format!("{quote}authorization: Bearer{quote}"),
            Cookie(name) => format!("{quote}cookie: {name}{quote}"),
        });
        words.collect::<Vec<_>>().join(" with ")
    }

    /// The header or cookie that carries the credential.
    const fn carrier(self) -> &'static str {
        match self.facts().0 {
            Header(name) | Cookie(name) => name,
            Bearer => "authorization",
        }
    }

    pub(super) fn declaration(self) -> MetaSecurityScheme {
        let (carrier, description) = self.facts();
        let (ty, key_in, scheme) = match carrier {
            Header(_) => ("apiKey", Some("header"), None),
            Bearer => ("http", None, Some("bearer")),
            Cookie(_) => ("apiKey", Some("cookie"), None),
        };
        MetaSecurityScheme {
            ty,
            description: Some(description),
            name: key_in.map(|_| self.carrier()),
            key_in,
            scheme,
            bearer_format: None,
            flows: None,
            openid_connect_url: None,
        }
    }

    /// The credential in a call; an absent or empty value is no credential. For the pair, the function returns the
    /// orchestrator key, and only if the call has a client ID too.
    pub(super) fn read(self, request: &Request) -> Option<Result<String, UnusableCredential>> {
        if self == Self::Paired && Self::ClientId.read(request).is_none() {
            return None;
        }
        let values = |name: &str| request.headers().get_all(name).iter().map(HeaderValue::as_bytes);
        let carrier = self.carrier();
        let shown: Vec<&[u8]> = match self.facts().0 {
            Header(_) => values(carrier).collect(),
            Bearer => values(carrier).filter_map(bearer).collect(),
            Cookie(name) => cookies(request, name).collect(),
        };
        let mut shown = shown
            .into_iter()
            .map(<[u8]>::trim_ascii)
            .filter(|value| !value.is_empty());
        let (first, further) = (shown.next()?, shown.next());
        let text = std::str::from_utf8(first)
            .ok()
            .filter(|text| further.is_none() && text.len() <= CREDENTIAL_LENGTH_MAX);
        Some(text.map(str::to_owned).ok_or(UnusableCredential))
    }
}

/// A credential that cannot be valid: it is not text, too long, or present several times. The call is rejected, so that
/// no other credential decides instead.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnusableCredential;

/// The values of all cookies with this name; a valid call has at most one.
pub(super) fn cookies<'a>(request: &'a Request, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let values = request
        .headers()
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes);
    let pairs = values.flat_map(|value| value.split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| cookie(pair, name))
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (kind, token) = value.split_at_checked(BEARER.len())?;
    kind.eq_ignore_ascii_case(BEARER).then_some(token)
}

fn cookie<'a>(pair: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let value = pair.trim_ascii().strip_prefix(wanted.as_bytes())?;
    value.strip_prefix(b"=")
}

/// Further rules for the operations of a policy, in addition to its accepted credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMark {
    /// Calls count as client ID management, which has a higher rate limit.
    Management,
    /// Closed to public client IDs.
    Secret,
    /// Closed to a client ID that is linked to an orchestrator, unless the call also has the key of the orchestrator.
    Unlinked,
    /// Browsers may call only from pages of this service.
    SameOrigin,
    /// Allowed for the client IDs that may manage endpoints by `webhooks.client_id_management`.
    Endpoints,
    /// Allowed for callers that sign the body with a secret from the settings.
    Signed,
}

/// The credentials that an operation accepts, in order of precedence.
pub trait Policy: Send + Sync + 'static {
    /// Type of the authenticated caller. Callers of another kind cannot be converted to this type.
    type Caller: TryFrom<Caller> + Send + Sync;

    /// The accepted schemes; any of them is sufficient. An orchestrator key decides every call that carries one,
    /// whatever its position in this list.
    const ANY_OF: &'static [Scheme];

    /// Further rules for the operations of the policy.
    const MARKS: &'static [PolicyMark] = &[];
}
