//! Which address a call comes from, through proxies that are trusted.

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

/// The address of a call, as far as callers are told apart; it is in the request.
#[derive(Debug, Clone, Copy)]
pub struct CallerAddress(pub Option<IpAddr>);

/// Finds addresses.
pub struct Addresses {
    trusted: Vec<IpNet>,
    /// Whether the log already names the header of an unnamed proxy that was ignored.
    has_told: AtomicBool,
}

impl Addresses {
    /// Takes the trusted proxies from the settings, which were validated when they were read.
    pub fn new(settings: &RateLimitSettings) -> Arc<Self> {
        Arc::new(Self {
            trusted: settings.trusted_networks().unwrap_or_default(),
            has_told: AtomicBool::new(false),
        })
    }

    /// The address that a call comes from: that of the connection, or what a trusted proxy says in front of it.
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
            // A line that cannot be read is an entry that cannot: what stands before it does not count.
            .flat_map(|value| value.to_str().unwrap_or_default().split(','));
        // The nearest proxy wrote the last entry; further ones count only as far as the chain is trusted.
        for said in forwarded.collect::<Vec<_>>().into_iter().rev() {
            if !self.trusts(address) {
                break;
            }
            let Some(said) = address_in(said) else { break };
            address = said;
        }
        Some(network_of(address))
    }

    /// Says once that a header was passed over: behind a proxy that the settings do not name, all callers are one.
    fn tell_passed_over(&self, peer: IpAddr) {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %peer,
                "x-forwarded-for was passed over, because rate_limits.trusted_proxies does not name the sender; if it is a \
                 proxy, all of its callers share one quota until it is named there"
            );
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// The address of an entry, in the forms that proxies write: in quotes, an IPv6 address in brackets, a port behind it.
fn address_in(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let unquoted = entry.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let entry = unquoted.unwrap_or(entry).trim();
    let bare = || entry.parse().ok();
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || entry.parse().ok().map(|address: SocketAddr| address.ip());
    bare().or_else(bracketed).or_else(with_port)
}

/// One customer owns a whole /64 of IPv6, so its addresses count as one.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let kept = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(kept))
        }
        short => short,
    }
}

/// Notes in every call where it comes from.
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
    fn an_entry_is_read_in_every_form_that_proxies_write() {
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
