//! Client IDs: their states, the domains they may be used from, and what matches an `Origin`.

use super::{
    address::Address,
    amount::Percent,
    ids::{ClientRowId, PlatformId},
    refusal::Refusal,
};
use chrono::{DateTime, Utc};

/// State of a client ID. Source: contract states §10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientStatus {
    /// In use.
    Active,
    /// Switched off, can come back.
    Inactive,
    /// Gone for good.
    Revoked,
}

impl ClientStatus {
    /// Text on the wire.
    pub const fn wire(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::Revoked => "revoked",
        }
    }

    /// Reads the text of [`Self::wire`].
    pub fn from_wire(text: &str) -> Option<Self> {
        [Self::Active, Self::Inactive, Self::Revoked]
            .into_iter()
            .find(|status| status.wire() == text)
    }
}

/// A client ID of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientId {
    /// Row.
    pub row: ClientRowId,
    /// Tenant.
    pub platform: PlatformId,
    /// Public text, `cli_` and 30 letters or digits.
    pub client_id: String,
    /// Name for people.
    pub label: String,
    /// Pages that may use it, as normalised origins; empty for a backend client ID.
    pub allowed_domains: Vec<String>,
    /// State.
    pub status: ClientStatus,
    /// Fee on every payment that is made with it.
    pub fee_percentage: Option<Percent>,
    /// Receiver of that fee.
    pub fee_address: Option<Address>,
    /// Operator wallet, stored only.
    pub operator_wallet: Option<Address>,
    /// Stored only.
    pub default_pre_approval_expiry_s: Option<i64>,
    /// Stored only.
    pub default_authorization_expiry_s: Option<i64>,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
    /// Last authenticated use.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Reads an allowed domain and writes it as an origin: scheme, host in lower case, port when it is not the usual one.
///
/// Errors: the sentence for the caller. Source: contract operations §1.4, §3.2.
pub fn normalise_domain(text: &str) -> Result<String, String> {
    const RIGHT: &str = "must be an origin such as https://shop.example.com: https (http only for localhost, 127.0.0.1 or [::1]), no path, query, fragment or user name";
    let url = url::Url::parse(text).map_err(|_| RIGHT.to_owned())?;
    let loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let scheme_fits = url.scheme() == "https" || (url.scheme() == "http" && loopback);
    let bare = matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    let host_fits = url
        .host_str()
        .is_some_and(|host| !host.is_empty() && !host.ends_with('.') && !host.contains('*'));
    if scheme_fits && bare && host_fits && text.chars().count() <= 255 {
        Ok(url.origin().ascii_serialization())
    } else {
        Err(RIGHT.to_owned())
    }
}

/// Where a call comes from, as the browser says.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOrigin<'a> {
    /// The `Origin` header.
    pub origin: Option<&'a str>,
    /// Whether the browser said that the call is from a page of the service itself.
    pub is_same_origin: bool,
    /// The service's own origin.
    pub own: &'a str,
    /// Whether the own origin is allowed without being listed: outside production.
    pub trusts_own: bool,
}

impl ClientId {
    /// Decides whether the client ID may be used for this call; answers the page it was used from.
    ///
    /// Errors: 403 for a client ID that is not active or a page that is not listed, 401 for a missing `Origin`.
    /// The comparison is exact: scheme, host and port, never a suffix.
    /// Source: contract operations §1.4; decisions D7, D27; compatibility 7.
    pub fn admit(&self, call: &CallOrigin<'_>) -> Result<Option<String>, Refusal> {
        match self.status {
            ClientStatus::Active => {}
            ClientStatus::Inactive => return Err(Refusal::forbidden("Client ID is inactive")),
            ClientStatus::Revoked => return Err(Refusal::forbidden("Client ID has been revoked")),
        }
        let Some(origin) = call.origin.or_else(|| call.is_same_origin.then_some(call.own)) else {
            return if self.allowed_domains.is_empty() {
                Ok(None)
            } else {
                Err(Refusal::unauthenticated("Origin header is required"))
            };
        };
        if self.allowed_domains.is_empty() {
            return Ok(Some(origin.to_owned()));
        }
        let normal = normalise_origin(origin);
        let listed = normal
            .as_ref()
            .is_some_and(|origin| self.allowed_domains.contains(origin));
        let own = call.trusts_own && normal.as_deref() == normalise_origin(call.own).as_deref();
        if listed || own {
            Ok(normal)
        } else {
            Err(Refusal::forbidden(
                "Origin is not among the allowed domains of this client ID",
            ))
        }
    }
}

/// An `Origin` header in the form in which domains are stored; `None` for `null` and anything that is no origin.
pub fn normalise_origin(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    (bare && url.username().is_empty() && matches!(url.scheme(), "http" | "https"))
        .then(|| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_origins_and_nothing_else() {
        for (text, wanted) in [
            ("https://Shop.Example.com", Some("https://shop.example.com")),
            ("https://shop.example.com:443/", Some("https://shop.example.com")),
            ("https://shop.example.com:8443", Some("https://shop.example.com:8443")),
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("http://[::1]:3000", Some("http://[::1]:3000")),
            ("https://münchen.example", Some("https://xn--mnchen-3ya.example")),
            ("http://shop.example.com", None),
            ("https://shop.example.com/path", None),
            ("https://shop.example.com?q", None),
            ("https://shop.example.com#f", None),
            ("https://user@shop.example.com", None),
            ("https://*.example.com", None),
            ("https://example.com.", None),
            ("ftp://localhost", None),
            ("shop.example.com", None),
        ] {
            assert_eq!(normalise_domain(text).ok().as_deref(), wanted, "{text}");
        }
    }
}
