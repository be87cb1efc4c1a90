//! Places for connections: how many one address may take of all that there are.

use ipnet::IpNet;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// The places that are taken, by address. An IPv6 subscriber has a whole /64, so that counts as one.
#[derive(Debug)]
pub(super) struct Places {
    per_address_max: usize,
    /// Proxies, behind which many people are.
    exempt: Vec<IpNet>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A place of an address; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    subscriber: Option<IpAddr>,
    places: Arc<Places>,
}

impl Places {
    pub(super) fn new(per_address_max: usize, exempt: Vec<IpNet>) -> Self {
        Self {
            per_address_max,
            exempt,
            taken: Mutex::default(),
        }
    }

    /// A place for one more connection of the address, if it has not taken all of its own.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let place = |subscriber| Place {
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

impl Drop for Place {
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
