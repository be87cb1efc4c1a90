//! Connection slots, with a limit for each address.

use ipnet::IpNet;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// The slots in use, by address. All addresses of an IPv6 /64 count as one address, because one subscriber has a whole
/// /64.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    per_address_max: usize,
    /// Networks of proxies, which have no limit per address because many people share a proxy.
    exempt: Vec<IpNet>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A slot of an address; it is freed when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    subscriber: Option<IpAddr>,
    places: Arc<ConnectionSlots>,
}

impl ConnectionSlots {
    pub(super) fn new(per_address_max: usize, exempt: Vec<IpNet>) -> Self {
        Self {
            per_address_max,
            exempt,
            taken: Mutex::default(),
        }
    }

    /// Takes a slot for one more connection of the address; `None` if the address has reached its limit.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let address = address.to_canonical();
        let place = |subscriber| ConnectionSlot {
            subscriber,
            places: self.clone(),
        };
        if self.exempt.iter().any(|network| network.contains(&address)) {
            return Some(place(None));
        }
        let subscriber = subscriber(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(subscriber).or_default();
        if *count >= self.per_address_max {
            return None;
        }
        *count += 1;
        Some(place(Some(subscriber)))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some(subscriber) = self.subscriber else {
            return;
        };
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&subscriber) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&subscriber);
            }
        }
    }
}

fn subscriber(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(network).into()
        }
    }
}
