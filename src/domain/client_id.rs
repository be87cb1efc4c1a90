//! Client IDs: their states, the domains they may be used from, and what matches an `Origin`.

use super::{
    address::Address,
    amount::Percent,
    client_limits::{ClientLimits, LimitsChange},
    currency::Catalogue,
    ids::{ClientRowId, DestinationId, PlatformId},
    refusal::{Checks, Refusal},
    webhook::is_host_name,
    wire_text::wire_text,
};
use chrono::{DateTime, Utc};

/// Most domains of a client ID. Source: rules P.1.6.
const DOMAINS_MAX: usize = 10;

/// What whoever takes all domains away reads: pages showed the client ID to everybody.
const STAYS_PUBLIC: &str =
    "must keep at least 1 entry: a client ID that was public stays public; make a new one for servers";

/// Longest origin: no host has a longer name.
const ORIGIN_LENGTH_MAX: usize = 255;

wire_text! {
    /// State of a client ID. Source: rules S.10.
    pub enum ClientStatus {
        /// In use.
        Active = "active",
        /// Switched off, can come back.
        Inactive = "inactive",
        /// Gone for good.
        Revoked = "revoked",
    }
}

/// Which client IDs may manage endpoints. Keys and sessions always may. Source: decisions D32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointManagers {
    /// Every client ID, a public one those that it registered and nobody approved.
    All,
    /// Client IDs without domains.
    Backend,
    /// None.
    Off,
}

impl EndpointManagers {
    /// Whether a client ID is one. Errors: 403.
    pub fn require(self, is_public: bool) -> Result<(), Refusal> {
        match self {
            Self::Backend if is_public => Err(Refusal::forbidden(
                "Only client IDs without allowed domains may manage endpoints on this service",
            )),
            Self::Off => Err(Refusal::forbidden(
                "Client IDs may not manage endpoints on this service",
            )),
            Self::All | Self::Backend => Ok(()),
        }
    }

    /// Whether what public client IDs registered, and nobody approved, is told anything.
    pub fn reach_public(self) -> bool {
        self.require(true).is_ok()
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
    /// Payee destination to whose wallet alone requests are paid.
    pub payee_destination: Option<DestinationId>,
    /// What may be asked for with it.
    pub limits: ClientLimits,
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

/// Input of a new client ID.
#[derive(Debug, Clone, Default)]
pub struct NewClientId {
    /// Name for people.
    pub label: String,
    /// Pages that may use it, as [`normalise_domain`] writes them.
    pub allowed_domains: Vec<String>,
    /// Whether it may have no domains: a backend client ID.
    pub is_backend: bool,
    /// Fee.
    pub fee_percentage: Option<Percent>,
    /// Receiver of the fee.
    pub fee_address: Option<Address>,
    /// Payee destination that it is bound to.
    pub payee_destination: Option<DestinationId>,
    /// What may be asked for with it.
    pub limits: LimitsChange,
    /// Operator wallet.
    pub operator_wallet: Option<Address>,
    /// Stored only.
    pub default_pre_approval_expiry_s: Option<i64>,
    /// Stored only.
    pub default_authorization_expiry_s: Option<i64>,
}

/// Changes of a client ID. The outer option is absent for what stays, the inner one for what is unset.
#[derive(Debug, Clone, Default)]
pub struct ClientIdChange {
    /// Name for people.
    pub label: Option<String>,
    /// Pages that may use it, as [`normalise_domain`] writes them.
    pub allowed_domains: Option<Vec<String>>,
    /// Whether it may be left without domains.
    pub is_backend: bool,
    /// Fee.
    pub fee_percentage: Option<Option<Percent>>,
    /// Receiver of the fee.
    pub fee_address: Option<Option<Address>>,
    /// Payee destination that it is bound to.
    pub payee_destination: Option<Option<DestinationId>>,
    /// What may be asked for with it.
    pub limits: LimitsChange,
    /// Operator wallet.
    pub operator_wallet: Option<Option<Address>>,
    /// Stored only.
    pub default_pre_approval_expiry_s: Option<Option<i64>>,
    /// Stored only.
    pub default_authorization_expiry_s: Option<Option<i64>>,
    /// State.
    pub status: Option<ClientStatus>,
}

/// What is fresh about a new client ID; the caller of [`NewClientId::plan`] draws it.
#[derive(Debug, Clone)]
pub struct FreshClientId {
    /// Row.
    pub row: ClientRowId,
    /// Tenant.
    pub platform: PlatformId,
    /// Public text.
    pub client_id: String,
    /// Now.
    pub now: DateTime<Utc>,
}

impl NewClientId {
    /// Decides whether the client ID can be made.
    ///
    /// Errors: every wrong field at once. Source: rules P.3.2; rules P.4.2.
    pub fn plan(&self, fresh: FreshClientId, catalogue: &Catalogue) -> Result<ClientId, Refusal> {
        let mut checks = Checks::new();
        self.check(&mut checks);
        check_receiver(self.fee_address, catalogue, &mut checks);
        let limits = ClientLimits::default().changed(&self.limits, catalogue, &mut checks);
        checks.finish()?;
        Ok(self.made(fresh, limits))
    }

    fn check(&self, checks: &mut Checks) {
        if self.label.trim().is_empty() || self.label.chars().count() > 100 {
            checks.fail("label", "must have 1 to 100 characters");
        }
        self.check_domains(checks);
        if self.fee_percentage.is_some() && self.fee_address.is_none() {
            checks.fail("feeAddress", "is required when feePercentage is set");
        }
        if self.fee_address.is_some() && self.fee_percentage.is_none() {
            checks.fail("feePercentage", "is required when feeAddress is set");
        }
    }

    fn made(&self, fresh: FreshClientId, limits: ClientLimits) -> ClientId {
        ClientId {
            row: fresh.row,
            platform: fresh.platform,
            client_id: fresh.client_id,
            label: self.label.clone(),
            allowed_domains: self.allowed_domains.clone(),
            status: ClientStatus::Active,
            fee_percentage: self.fee_percentage,
            fee_address: self.fee_address,
            payee_destination: self.payee_destination.clone(),
            limits,
            operator_wallet: self.operator_wallet,
            default_pre_approval_expiry_s: self.default_pre_approval_expiry_s,
            default_authorization_expiry_s: self.default_authorization_expiry_s,
            created_at: fresh.now,
            updated_at: fresh.now,
            last_used_at: None,
        }
    }

    fn check_domains(&self, checks: &mut Checks) {
        for (index, domain) in self.allowed_domains.iter().enumerate() {
            if self.allowed_domains[..index].contains(domain) {
                checks.fail(format!("allowedDomains[{index}]"), "must be listed only once");
            }
        }
        if self.allowed_domains.len() > DOMAINS_MAX {
            checks.fail("allowedDomains", format!("must have at most {DOMAINS_MAX} entries"));
        }
        if self.allowed_domains.is_empty() && !self.is_backend {
            checks.fail(
                "allowedDomains",
                "must have at least 1 entry, for example https://shop.example.com",
            );
        }
    }
}

fn check_receiver(address: Option<Address>, catalogue: &Catalogue, checks: &mut Checks) {
    if let Some(address) = address {
        checks.take("feeAddress", catalogue.receiver_anywhere(address));
    }
}

/// Reads an allowed domain and writes it as an origin: scheme, host in lower case, port when it is not the usual one.
///
/// Errors: the sentence for the caller. Source: rules P.1.4; rules P.3.2.
pub fn normalise_domain(text: &str) -> Result<String, String> {
    const RIGHT: &str = "must be an origin such as https://shop.example.com: https (http only for localhost, 127.0.0.1 or [::1]), no path, query, fragment or user name";
    let url = url::Url::parse(text).map_err(|_| RIGHT.to_owned())?;
    let loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let scheme_fits = url.scheme() == "https" || (url.scheme() == "http" && loopback);
    let host_fits = url.host_str().is_some_and(|host| {
        !host.ends_with('.') && !host.contains('*') && (host.starts_with('[') || is_host_name(host))
    });
    if scheme_fits && is_bare(text, &url) && host_fits && text.chars().count() <= ORIGIN_LENGTH_MAX {
        Ok(url.origin().ascii_serialization())
    } else {
        Err(RIGHT.to_owned())
    }
}

/// Where a call comes from, as the browser says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOrigin<'a> {
    /// The `Origin` header.
    pub origin: Option<&'a str>,
    /// Whether the browser said that the call is from a page of the service itself; it sends no `Origin` on such reads.
    pub is_same_origin: bool,
}

/// The service's own pages.
#[derive(Debug)]
pub struct OwnPages {
    /// Origin that they call from.
    pub origin: String,
    /// Whether they may use client IDs without being listed.
    pub are_trusted: bool,
}

impl ClientId {
    /// The client ID after a change. The rules hold for the merged result; only a new receiver of the fee and new limits
    /// are looked up in the catalogue, so that a wallet that became a contract does not keep a client ID from being
    /// revoked.
    ///
    /// Errors: every wrong field at once; a public client ID stays public, and a revoked one revoked.
    /// Source: rules P.3.2; rules S.10.
    pub fn changed(&self, change: &ClientIdChange, catalogue: &Catalogue, now: DateTime<Utc>) -> Result<Self, Refusal> {
        let status = change.status.unwrap_or(self.status);
        if self.status == ClientStatus::Revoked && status != ClientStatus::Revoked {
            return Err(Refusal::invalid("Cannot reactivate a revoked client ID"));
        }
        let loses_pages = self.is_public() && change.allowed_domains.as_ref().is_some_and(Vec::is_empty);
        let merged = NewClientId {
            label: change.label.clone().unwrap_or_else(|| self.label.clone()),
            // One that never had domains stays without them until some are given.
            is_backend: loses_pages
                || change.is_backend
                || (change.allowed_domains.is_none() && self.allowed_domains.is_empty()),
            allowed_domains: change
                .allowed_domains
                .clone()
                .unwrap_or_else(|| self.allowed_domains.clone()),
            fee_percentage: merge(&change.fee_percentage, || self.fee_percentage),
            fee_address: merge(&change.fee_address, || self.fee_address),
            payee_destination: merge(&change.payee_destination, || self.payee_destination.clone()),
            limits: LimitsChange::default(),
            operator_wallet: merge(&change.operator_wallet, || self.operator_wallet),
            default_pre_approval_expiry_s: merge(&change.default_pre_approval_expiry_s, || {
                self.default_pre_approval_expiry_s
            }),
            default_authorization_expiry_s: merge(&change.default_authorization_expiry_s, || {
                self.default_authorization_expiry_s
            }),
        };
        let mut checks = Checks::new();
        merged.check(&mut checks);
        if loses_pages {
            checks.fail("allowedDomains", STAYS_PUBLIC);
        }
        check_receiver(change.fee_address.flatten(), catalogue, &mut checks);
        let limits = self.limits.changed(&change.limits, catalogue, &mut checks);
        checks.finish()?;
        let fresh = FreshClientId {
            row: self.row.clone(),
            platform: self.platform.clone(),
            client_id: self.client_id.clone(),
            now,
        };
        let made = merged.made(fresh, limits);
        Ok(Self {
            status,
            created_at: self.created_at,
            last_used_at: self.last_used_at,
            ..made
        })
    }

    /// Fee on every payment of what is made with it, and its receiver.
    pub fn fee(&self) -> Option<(Percent, Address)> {
        self.fee_percentage.zip(self.fee_address)
    }

    /// Whether everybody can read it off a page; without pages it is held like a secret. Source: decisions D32.
    pub fn is_public(&self) -> bool {
        !self.allowed_domains.is_empty()
    }

    /// Whether an address is one of its allowed domains or below one of them, by scheme, host and port.
    pub fn lists(&self, address: &str) -> bool {
        let origin = url::Url::parse(address).map(|url| url.origin().ascii_serialization());
        origin.is_ok_and(|origin| self.allowed_domains.contains(&origin))
    }

    /// Errors: 403 for a client ID that is not active.
    pub fn require_active(&self) -> Result<(), Refusal> {
        match self.status {
            ClientStatus::Active => Ok(()),
            ClientStatus::Inactive => Err(Refusal::forbidden("Client ID is inactive")),
            ClientStatus::Revoked => Err(Refusal::forbidden("Client ID has been revoked")),
        }
    }

    /// Decides whether the client ID may be used for this call; returns the page it was used from.
    ///
    /// Errors: 403 for a client ID that is not active or a page that is not listed, 401 for a missing `Origin`.
    /// The comparison is exact: scheme, host and port, never a suffix.
    /// Source: rules P.1.4; decisions D7; decisions D27; rules H.7.
    pub fn admit(&self, call: CallOrigin<'_>, own: &OwnPages) -> Result<Option<String>, Refusal> {
        self.require_active()?;
        let Some(origin) = call
            .origin
            .or_else(|| call.is_same_origin.then_some(own.origin.as_str()))
        else {
            return if self.is_public() {
                Err(Refusal::unauthenticated("Origin header is required"))
            } else {
                Ok(None)
            };
        };
        let normal = normalise_origin(origin);
        if !self.is_public() {
            return Ok(normal);
        }
        // An origin that cannot be read is nobody's, also where the service's own is none.
        let may_call = normal.as_ref().is_some_and(|origin| {
            self.allowed_domains.contains(origin)
                || (own.are_trusted && normalise_origin(&own.origin).as_ref() == Some(origin))
        });
        if may_call {
            Ok(normal)
        } else {
            Err(Refusal::forbidden(
                "Origin is not among the allowed domains of this client ID",
            ))
        }
    }
}

fn merge<T: Clone>(change: &Option<Option<T>>, stays: impl FnOnce() -> Option<T>) -> Option<T> {
    change.clone().unwrap_or_else(stays)
}

/// An `Origin` header in the form in which domains are stored; `None` for `null` and anything that is no origin.
pub fn normalise_origin(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let fits = is_bare(text, &url) && matches!(url.scheme(), "http" | "https") && text.len() <= ORIGIN_LENGTH_MAX;
    let origin = url.origin().ascii_serialization();
    let bare = text.strip_suffix('/').unwrap_or(text);
    let with_port = url.port_or_known_default().map(|port| format!("{origin}:{port}"));
    // Browsers write it in this one form: a host in another form is none of theirs.
    let is_written_so =
        bare.eq_ignore_ascii_case(&origin) || with_port.is_some_and(|with_port| bare.eq_ignore_ascii_case(&with_port));
    (fits && is_written_so).then_some(origin)
}

/// Whether an address says scheme, host and port alone, in so many words: the parser also reads `https:shop.example` and
/// `https://shop.example/a/..`, decodes `%2E`, and leaves out blanks and an empty user name.
fn is_bare(text: &str, url: &url::Url) -> bool {
    let host = text
        .split_once("://")
        .map(|(_, host)| host.strip_suffix('/').unwrap_or(host));
    let is_left_out = |letter: char| letter.is_whitespace() || letter.is_control();
    host.is_some_and(|host| !host.contains(['\\', '@', '%', '/']) && !text.contains(is_left_out))
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
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
            ("https://a..example", None),
            ("https:shop.example.com", None),
            ("https:/shop.example.com", None),
            ("https:///shop.example.com", None),
            ("https:\\\\shop.example.com", None),
            (" https://shop.example.com", None),
            ("https://@shop.example.com", None),
            ("https://shop%2Eexample.com", None),
            ("https://shop.example.com/a/..", None),
            ("https://shop.example.com/.", None),
            ("https://shop.example.com//", None),
            (
                "https://пример.испытание",
                Some("https://xn--e1afmkfd.xn--80akhbyknj4f"),
            ),
            ("ftp://localhost", None),
            ("shop.example.com", None),
        ] {
            assert_eq!(normalise_domain(text).ok().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn the_origin_of_a_call_is_an_origin_or_nothing() {
        let long = format!("https://{}", "a".repeat(248));
        for (text, wanted) in [
            ("https://Shop.Example.com:443", Some("https://shop.example.com")),
            ("http://shop.example.com:8080", Some("http://shop.example.com:8080")),
            ("null", None),
            ("", None),
            ("https:shop.example.com", None),
            ("https:/shop.example.com", None),
            ("https:\\\\shop.example.com", None),
            ("https:// shop.example.com", None),
            ("https://shop%2Eexample.com", None),
            ("https://shop.example.com/a/..", None),
            ("http://0x7f.1:3333", None),
            ("http://127.1:3333", None),
            ("https://shop\t.example.com", None),
            ("<script>", None),
            ("file://", None),
            ("https://user@shop.example.com", None),
            ("https://:secret@shop.example.com", None),
            ("https://shop.example.com/path", None),
            (long.as_str(), None),
        ] {
            assert_eq!(normalise_origin(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn an_origin_that_cannot_be_read_is_no_own_page() {
        let listed = NewClientId {
            label: "Shop".into(),
            allowed_domains: vec!["https://example.com".into()],
            ..NewClientId::default()
        };
        let fresh = FreshClientId {
            row: ClientRowId("row".into()),
            platform: PlatformId("platform".into()),
            client_id: "cli_1".into(),
            now: DateTime::UNIX_EPOCH,
        };
        let client = listed.plan(fresh, &Catalogue::default()).unwrap();
        let call = CallOrigin {
            origin: Some("null"),
            is_same_origin: false,
        };
        let own = OwnPages {
            origin: "unix:/run/prs.sock".into(),
            are_trusted: true,
        };
        assert!(client.admit(call, &own).is_err());
    }

    #[test]
    fn a_revoked_client_id_keeps_its_state_and_a_backend_its_lack_of_domains() {
        let backend = NewClientId {
            label: "Backend".into(),
            is_backend: true,
            ..NewClientId::default()
        };
        let catalogue = Catalogue::default();
        let fresh = FreshClientId {
            row: ClientRowId("row".into()),
            platform: PlatformId("platform".into()),
            client_id: "cli_1".into(),
            now: DateTime::UNIX_EPOCH,
        };
        let planned = backend.plan(fresh, &catalogue);
        let change = |status| ClientIdChange {
            label: Some("Renamed".into()),
            status,
            ..ClientIdChange::default()
        };
        let now = DateTime::UNIX_EPOCH;
        let revoked = planned
            .unwrap()
            .changed(&change(Some(ClientStatus::Revoked)), &catalogue, now)
            .unwrap();
        assert_eq!(
            (revoked.status, revoked.label.as_str()),
            (ClientStatus::Revoked, "Renamed")
        );
        assert_eq!(revoked.changed(&change(None), &catalogue, now).unwrap(), revoked);
        for status in [ClientStatus::Active, ClientStatus::Inactive] {
            let refusal = revoked.changed(&change(Some(status)), &catalogue, now).unwrap_err();
            assert_eq!(refusal.message, "Cannot reactivate a revoked client ID");
        }
    }
}
