//! Which address a call comes from, through proxies that are trusted.

use crate::settings::RateLimitSettings;
use ipnet::IpNet;
use poem::{Addr, Endpoint, EndpointExt, Request, Response};
use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// The address of a call, as far as callers are told apart; it is in the request.
#[derive(Debug, Clone, Copy)]
pub struct CallerAddress(pub Option<IpAddr>);

/// Finds addresses.
pub struct Addresses {
    trusted: Vec<IpNet>,
}

impl Addresses {
    /// Takes the trusted proxies from the settings, which were validated when they were read.
    pub fn new(settings: &RateLimitSettings) -> Arc<Self> {
        Arc::new(Self {
            trusted: settings.trusted_networks().unwrap_or_default(),
        })
    }

    /// The address that a call comes from: that of the connection, or what a trusted proxy says in front of it.
    fn of(&self, request: &Request) -> Option<IpAddr> {
        let Addr::SocketAddr(peer) = &request.remote_addr().0 else {
            return None;
        };
        let mut address = peer.ip();
        let forwarded = request
            .headers()
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim);
        // The nearest proxy wrote the last entry; further ones count only as far as the chain is trusted.
        for said in forwarded.collect::<Vec<_>>().into_iter().rev() {
            if !self.trusts(address) {
                break;
            }
            let Ok(said) = said.parse() else { break };
            address = said;
        }
        Some(network_of(address))
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }
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
