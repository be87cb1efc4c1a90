//! Host names of webhooks: an asynchronous lookup that ends when its future is dropped.
//!
//! `getaddrinfo` holds a thread until its own time limit, long after the attempt has failed. Receivers choose their
//! name servers, so unresponsive name servers could occupy every thread of the pool, which password hashing needs too.

use hickory_resolver::{
    Hosts, TokioResolver,
    config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::Query,
        rr::{Name, RecordType},
    },
    system_conf::read_system_conf,
};
use reqwest::dns::{self, Addrs, Resolve, Resolving};
use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

/// Name servers, and how to query them.
pub(super) type NameServers = (ResolverConfig, ResolverOpts);

/// Resolves names by the hosts file, then by the name servers that the function returns.
///
/// Each lookup reads both files and has its own sockets, as in the C library. Changed files take effect immediately,
/// and the lookups of one receiver do not use up the sockets of another.
pub(super) struct HostNames<F>(pub(super) F);

impl<F> Resolve for HostNames<F>
where
    F: Fn() -> Result<NameServers, NetError> + Send + Sync,
{
    fn resolve(&self, name: dns::Name) -> Resolving {
        let name_servers = (self.0)();
        Box::pin(async move {
            let addresses = look_up(name.as_str(), name_servers?).await?;
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Returns the name servers of the machine. Without a readable configuration this is the local name server, as in the C
/// library.
pub(super) fn system_name_servers() -> Result<NameServers, NetError> {
    Ok(read_system_conf().unwrap_or_else(|error| {
        tracing::debug!(%error, "the name servers of this machine cannot be read; the local name server is used");
        let local = NameServerConfig::udp_and_tcp(IpAddr::V4(Ipv4Addr::LOCALHOST));
        (
            ResolverConfig::from_parts(None, Vec::new(), vec![local]),
            ResolverOpts::default(),
        )
    }))
}

async fn look_up(name: &str, (servers, mut options): NameServers) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
    // The URL parser has converted the name to ASCII already.
    let name = Name::from_ascii(name)?;
    let listed = listed_addresses(&name);
    if !listed.is_empty() {
        return Ok(listed);
    }
    // Both address families, so that the address check sees every address of a name.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = 0;
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    let resolver: TokioResolver = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default())
        .with_options(options)
        .build()?;
    Ok(resolver.lookup_ip(name).await?.into_iter().collect())
}

/// Returns the addresses of a name in the hosts file. The name servers are not queried for a name that is listed there.
fn listed_addresses(name: &Name) -> Vec<IpAddr> {
    let Ok(hosts) = Hosts::from_system() else {
        return Vec::new();
    };
    let mut addresses = Vec::new();
    for family in [RecordType::A, RecordType::AAAA] {
        let found = hosts.lookup_static_host(&Query::query(name.clone(), family));
        let records = found.iter().flat_map(|found| found.answers());
        addresses.extend(records.filter_map(|record| record.data.ip_addr()));
    }
    addresses
}
