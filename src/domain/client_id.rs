//! Client IDs: states, allowed domains, and matching of `Origin`.

use super::{
    address::Address,
    amount::Percent,
    client_limits::{ClientLimits, LimitsChange},
    currency::Catalogue,
    ids::{ClientRowId, DestinationId, OrchestratorId, PlatformId},
    orchestrator::OrchestratorLink,
    refusal::{Checks, Refusal},
    webhook::is_host_name,
    wire_text::wire_text,
};
use chrono::{DateTime, Utc};

/// Maximum number of domains of a client ID. Source: rules P.1.6.
const DOMAINS_MAX: usize = 10;

/// Message for a change that removes all domains of a public client ID.
const STAYS_PUBLIC: &str =
    "must keep at least 1 entry: a public client ID stays public; create another client ID for servers";

/// Maximum length of an origin: no host name is longer.
const ORIGIN_LENGTH_MAX: usize = 255;

wire_text! {
    /// State of a client ID. Source: rules S.10.
    pub enum ClientStatus {
        /// Active.
        Active = "active",
        /// Switched off; can be reactivated.
        Inactive = "inactive",
        /// Permanently revoked.
        Revoked = "revoked",
    }
}

/// Which client IDs may manage endpoints. Keys and sessions always may. Source: decisions D32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointManagers {
    /// Every client ID. A public client ID may manage only its own unapproved endpoints.
    All,
    /// Client IDs without domains.
    Backend,
    /// None.
    Off,
}

impl EndpointManagers {
    /// Checks whether a client ID may manage endpoints. Errors: 403.
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

    /// Whether unapproved endpoints of public client IDs receive events.
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
    /// Client ID: `cli_` and 30 letters or digits.
    pub client_id: String,
    /// Display name.
    pub label: String,
    /// Origins of the pages that may use the client ID, normalised; empty for a backend client ID.
    pub allowed_domains: Vec<String>,
    /// State.
    pub status: ClientStatus,
    /// Fee on every payment created with the client ID.
    pub fee_percentage: Option<Percent>,
    /// Fee receiver.
    pub fee_address: Option<Address>,
    /// Payee destination of the client ID. Requests of the client ID can be paid only to the wallet of this
    /// destination.
    pub payee_destination: Option<DestinationId>,
    /// Limits.
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
    /// Orchestrator that may link the client ID. The platform consents to the link by naming the orchestrator here.
    pub orchestrator: Option<OrchestratorId>,
    /// The link of the client ID, active or ended.
    pub link: Option<OrchestratorLink>,
}

/// Input of a new client ID.
#[derive(Debug, Clone, Default)]
pub struct NewClientId {
    /// Display name.
    pub label: String,
    /// Pages that may use the client ID, as [`normalise_domain`] writes them.
    pub allowed_domains: Vec<String>,
    /// Whether the new client ID is a backend client ID, which needs no domains. Every other client ID needs at least
    /// one.
    pub is_backend: bool,
    /// Fee.
    pub fee_percentage: Option<Percent>,
    /// Fee receiver.
    pub fee_address: Option<Address>,
    /// Bound payee destination.
    pub payee_destination: Option<DestinationId>,
    /// Limits.
    pub limits: LimitsChange,
    /// Operator wallet.
    pub operator_wallet: Option<Address>,
    /// Stored only.
    pub default_pre_approval_expiry_s: Option<i64>,
    /// Stored only.
    pub default_authorization_expiry_s: Option<i64>,
}

/// Changes to a client ID. An outer `None` leaves a value unchanged, an inner `None` unsets it.
#[derive(Debug, Clone, Default)]
pub struct ClientIdChange {
    /// Display name.
    pub label: Option<String>,
    /// Pages that may use the client ID, as [`normalise_domain`] writes them.
    pub allowed_domains: Option<Vec<String>>,
    /// Whether the changed client ID is a backend client ID, which needs no domains.
    pub is_backend: bool,
    /// Fee.
    pub fee_percentage: Option<Option<Percent>>,
    /// Fee receiver.
    pub fee_address: Option<Option<Address>>,
    /// Payee destination that the client ID is bound to.
    pub payee_destination: Option<Option<DestinationId>>,
    /// Limits.
    pub limits: LimitsChange,
    /// Operator wallet.
    pub operator_wallet: Option<Option<Address>>,
    /// Stored only.
    pub default_pre_approval_expiry_s: Option<Option<i64>>,
    /// Stored only.
    pub default_authorization_expiry_s: Option<Option<i64>>,
    /// Orchestrator that may link the client ID.
    pub orchestrator: Option<Option<OrchestratorId>>,
    /// State.
    pub status: Option<ClientStatus>,
}

/// Generated values of a new client ID, provided by the caller of [`NewClientId::plan`].
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
    /// Checks whether the client ID can be created.
    ///
    /// Errors: every wrong field at once. Source: rules P.3.2; rules P.4.2.
    pub fn plan(&self, fresh: FreshClientId, catalogue: &Catalogue) -> Result<ClientId, Refusal> {
        let mut checks = Checks::new();
        self.check(&mut checks);
        check_receiver(self.fee_address, catalogue, &mut checks);
        let limits = ClientLimits::default().changed(&self.limits, catalogue, &mut checks);
        checks.finish()?;
        Ok(self.build(fresh, limits))
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

    fn build(&self, fresh: FreshClientId, limits: ClientLimits) -> ClientId {
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
            orchestrator: None,
            link: None,
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

/// Normalises an allowed domain to an origin: scheme, lowercase host, and the port if it is not the default.
///
/// Errors: the message for the caller. Source: rules P.1.4; rules P.3.2.
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

/// Origin of a call, as the browser states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOrigin<'a> {
    /// The `Origin` header.
    pub origin: Option<&'a str>,
    /// Whether the browser states that the call is from a page of the service itself. Browsers send no `Origin` with
    /// GET requests of such pages.
    pub is_same_origin: bool,
}

/// The service's own pages.
#[derive(Debug)]
pub struct OwnPages {
    /// Their origin.
    pub origin: String,
    /// Whether the service's own pages may use public client IDs whose allowed domains do not contain the service.
    pub are_trusted: bool,
}

impl ClientId {
    /// The client ID after a change. The result must follow the rules for a new client ID, with one exception: an
    /// unchanged fee receiver and unchanged limits are not looked up in the catalogue. So a client ID can be revoked
    /// even if the catalogue now lists its fee receiver as a contract.
    ///
    /// Errors: every wrong field at once. A public client ID must stay public, and a revoked client ID cannot be
    /// reactivated. The link to an orchestrator ends when the platform withdraws its consent or the client ID is
    /// revoked. Source: rules P.3.2; rules S.10.
    pub fn changed(&self, change: &ClientIdChange, catalogue: &Catalogue, now: DateTime<Utc>) -> Result<Self, Refusal> {
        let status = change.status.unwrap_or(self.status);
        if self.status == ClientStatus::Revoked && status != ClientStatus::Revoked {
            return Err(Refusal::invalid("Cannot reactivate a revoked client ID"));
        }
        let loses_pages = self.is_public() && change.allowed_domains.as_ref().is_some_and(Vec::is_empty);
        let merged = NewClientId {
            label: change.label.clone().unwrap_or_else(|| self.label.clone()),
            // A client ID without domains stays without them until some are added.
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
        let made = Self {
            status,
            created_at: self.created_at,
            last_used_at: self.last_used_at,
            orchestrator: self.orchestrator.clone(),
            link: self.link.clone(),
            ..merged.build(fresh, limits)
        };
        let made = match &change.orchestrator {
            Some(orchestrator) => made.consenting(orchestrator.clone()),
            None => made,
        };
        Ok(match status {
            ClientStatus::Revoked => made.unlinked(),
            ClientStatus::Active | ClientStatus::Inactive => made,
        })
    }

    /// Fee on every payment created with the client ID, and the receiver of the fee.
    pub fn fee(&self) -> Option<(Percent, Address)> {
        self.fee_percentage.zip(self.fee_address)
    }

    /// Whether the client ID is public: it has allowed domains, so anyone can copy it from a page. A client ID without
    /// domains is treated as a secret. Source: decisions D32.
    pub fn is_public(&self) -> bool {
        !self.allowed_domains.is_empty()
    }

    /// Whether a URL has the origin (scheme, host and port) of one of the allowed domains.
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

    /// Like [`Self::admit`], for a call that also carries the key of an orchestrator. This key is secret, so the call
    /// needs no `Origin`.
    pub fn admit_with_key(&self, call: CallOrigin<'_>, own: &OwnPages) -> Result<Option<String>, Refusal> {
        match call.origin {
            Some(_) => self.admit(call, own),
            None => self.require_active().map(|()| None),
        }
    }

    /// Decides whether the client ID may be used for this call. Returns the origin of the calling page, if there is
    /// one.
    ///
    /// Errors: 403 for a client ID that is not active. For a public client ID also 403 for an origin that is not among
    /// its domains, and 401 for a missing `Origin`. Scheme, host and port must be equal; a suffix of a host does not
    /// match. Source: rules P.1.4; decisions D7; decisions D27; rules H.7.
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
        // An unreadable origin matches nothing, even if the service's own origin is not a URL.
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

/// Normalises an `Origin` header to the stored form of domains; `None` for `null` and invalid origins.
pub fn normalise_origin(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let fits = is_bare(text, &url) && matches!(url.scheme(), "http" | "https") && text.len() <= ORIGIN_LENGTH_MAX;
    let origin = url.origin().ascii_serialization();
    let bare = text.strip_suffix('/').unwrap_or(text);
    let with_port = url.port_or_known_default().map(|port| format!("{origin}:{port}"));
    // Browsers send exactly this form; a host in another form does not come from a browser.
    let is_written_so =
        bare.eq_ignore_ascii_case(&origin) || with_port.is_some_and(|with_port| bare.eq_ignore_ascii_case(&with_port));
    (fits && is_written_so).then_some(origin)
}

/// Whether a URL consists literally of scheme, host and port. The parser is not enough: it also accepts
/// `https:shop.example` and `https://shop.example/a/..`, decodes `%2E`, and drops blanks and an empty user name.
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
    fn only_origins_are_accepted_as_domains() {
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
    fn the_origin_of_a_call_is_a_valid_origin_or_absent() {
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
    fn an_unparseable_origin_is_not_an_own_page() {
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
    fn client_ids_stay_revoked_and_backends_stay_without_domains() {
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
