//! Ways to authenticate: one row for each, from which a call is read and the documents are written.

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

/// Longest credential that is looked up at all.
const CREDENTIAL_LENGTH_MAX: usize = 512;

const BEARER: &[u8] = b"bearer ";

/// Where a call carries a credential.
enum Carrier {
    Header(&'static str),
    Bearer,
    Cookie(&'static str),
}
use Carrier::{Bearer, Cookie, Header};

macro_rules! schemes {
    ($($scheme:ident $carrier:expr, $description:literal;)+) => {
        /// A way to authenticate, as the documents declare it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Scheme {
            $(#[doc = $description] $scheme,)+
        }

        impl Scheme {
            /// Every scheme, in the order of precedence.
            pub const ALL: &[Self] = &[$(Self::$scheme),+];

            /// Name in the documents.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$scheme => stringify!($scheme),)+
                }
            }

            const fn facts(self) -> (Carrier, &'static str) {
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
        "Key of a platform; server side only. Created in the dashboard or with `prs admin`, shown once.";
    ClientId Header("x-client-id"),
        "Public client ID for pages of browsers. With allowed domains it works only from those pages; the browser itself \
         says where it is.";
    SessionBearer Bearer, "Session token for callers without cookies.";
    Session Cookie(SESSION_COOKIE), "Session of a person who signed in with a wallet.";
}

/// What a caller reads whose credential does not open an operation.
pub(in crate::http) fn needs(accepted: &[Scheme]) -> String {
    let carriers: Vec<String> = accepted.iter().map(|scheme| scheme.in_words()).collect();
    format!("This operation needs {}", carriers.join(" or "))
}

impl Scheme {
    /// What a call has to carry, for people.
    pub(in crate::http) fn in_words(self) -> String {
        match self.facts().0 {
            Header(name) => name.to_owned(),
            Bearer => "authorization: Bearer".to_owned(),
            Cookie(name) => format!("cookie: {name}"),
        }
    }

    /// The header or cookie that carries it.
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

    /// What a call shows; nothing and an empty text are no credential.
    pub(super) fn read(self, request: &Request) -> Option<Result<String, Unusable>> {
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
        Some(text.map(str::to_owned).ok_or(Unusable))
    }
}

/// A credential that was shown and that nobody can know: it is no text, too long, or one of several. To pass it over
/// would let another credential decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unusable;

/// The values of a cookie, of which a good call shows one.
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

/// What holds for the operations of a policy beside the credentials that it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Calls count as management of client IDs, which has a wider limit.
    Management,
    /// Closed to public client IDs.
    Secret,
    /// No orchestrator key may stand beside the credential: orchestrators have no part in these yet.
    Alone,
    /// A browser calls from pages of this service alone.
    SameOrigin,
    /// Open to the client IDs that `webhooks.client_id_management` lets manage endpoints.
    Endpoints,
    /// Open to whoever signs the body with a secret of the settings.
    Signed,
}

/// Which credentials an operation accepts, in the order of precedence.
pub trait Policy: Send + Sync + 'static {
    /// Who calls, once a credential is accepted: a type that other kinds of callers do not fit into.
    type Caller: TryFrom<Caller> + Send + Sync;

    /// The accepted ones; any of them is enough.
    const ANY_OF: &'static [Scheme];

    /// What else holds for its operations.
    const MARKS: &'static [Mark] = &[];
}
