//! The client address of a call, behind trusted proxies.

use crate::settings::RateLimitSettings;
use ipnet::IpNet;
use poem::{Addr, Endpoint, EndpointExt, Request, Response};
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The client address used to distinguish callers; it is stored in the request.
#[derive(Debug, Clone, Copy)]
pub struct CallerAddress(pub Option<IpAddr>);

/// Determines client addresses.
pub struct Addresses {
    trusted: Vec<IpNet>,
    /// Whether the warning about an ignored `x-forwarded-for` header has already been logged.
    has_told: AtomicBool,
}

impl Addresses {
    /// Takes the trusted proxies from the validated settings.
    pub fn new(settings: &RateLimitSettings) -> Arc<Self> {
        Arc::new(Self {
            trusted: settings.trusted_networks().unwrap_or_default(),
            has_told: AtomicBool::new(false),
        })
    }

    /// The address of the connection, or the address reported by a trusted proxy.
    fn of(&self, request: &Request) -> Option<IpAddr> {
        let Addr::SocketAddr(peer) = &request.remote_addr().0 else {
            return None;
        };
        let mut address = peer.ip();
        if request.headers().contains_key(FORWARDED_FOR) && !self.trusts(address) {
            self.tell_passed_over(address);
        }
        let forwarded = request
            .headers()
            .get_all(FORWARDED_FOR)
            .iter()
            // A header line that is not text counts as an unreadable entry. The reading goes from the last entry to the
            // first and stops there.
            .flat_map(|value| value.to_str().unwrap_or_default().split(','));
        // The nearest proxy wrote the last entry; earlier entries count only while the chain is trusted.
        for said in forwarded.collect::<Vec<_>>().into_iter().rev() {
            if !self.trusts(address) {
                break;
            }
            let Some(said) = address_in(said) else { break };
            address = said;
        }
        Some(network_of(address))
    }

    /// Logs once that the header was ignored: all callers behind a proxy that is not in the settings share the address
    /// of this proxy.
    fn tell_passed_over(&self, peer: IpAddr) {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %peer,
                "x-forwarded-for was ignored, because the sender is not in rate_limits.trusted_proxies; if it is a \
                 proxy, all its callers share one quota until it is listed there"
            );
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// The address of an entry, in the forms that proxies write: in quotes, an IPv6 address in brackets, with a port.
fn address_in(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let unquoted = entry.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let entry = unquoted.unwrap_or(entry).trim();
    let bare = || entry.parse().ok();
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || entry.parse().ok().map(|address: SocketAddr| address.ip());
    bare().or_else(bracketed).or_else(with_port)
}

/// The address by which callers are counted. All addresses of an IPv6 /64 count as one, because one customer owns a
/// whole /64.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let kept = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(kept))
        }
        short => short,
    }
}

/// Stores the client address in every call.
pub(in crate::http) fn addressed<E>(endpoint: E, addresses: Arc<Addresses>) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.before(move |mut request: Request| {
        let address = CallerAddress(addresses.of(&request));
        request.set_data(address);
        std::future::ready(Ok(request))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_entry_is_read_in_every_common_notation() {
        for (entry, wanted) in [
            ("203.0.113.7", Some("203.0.113.7")),
            (" 203.0.113.7:5678 ", Some("203.0.113.7")),
            ("\"203.0.113.7\"", Some("203.0.113.7")),
            ("\"203.0.113.7:5678\"", Some("203.0.113.7")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("\"[2001:db8::1]:443\"", Some("2001:db8::1")),
            ("unknown", None),
            ("_hidden", None),
            ("", None),
            ("\"", None),
            ("[203.0.113.7]", None),
            ("203.0.113.7:", None),
            ("203.0.113.7:65536", None),
            ("[2001:db8::1", None),
        ] {
            let wanted = wanted.map(|address| address.parse().unwrap());
            assert_eq!(address_in(entry), wanted, "{entry}");
        }
    }
}
