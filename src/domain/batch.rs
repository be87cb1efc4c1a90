//! What may be paid together in one call.

use super::{
    network::{Family, Network},
    refusal::Refusal,
};

/// Most payments of one batch. Source: rules P.1.6.
pub const ITEMS_MAX: usize = 200;

/// What is said of a batch with a payment on Tron. Source: interface §7.
const TRON: &str = "Batch payments are not supported for TRON networks. Please submit individual payment requests.";

/// What is said of a batch on several networks. Source: rules P.3.6.
const ONE_NETWORK: &str = "All requests must be on the same network";

/// Refuses payments on Tron, and then those on different networks.
pub fn check_networks(networks: impl IntoIterator<Item = Network> + Clone) -> Result<(), Refusal> {
    if networks
        .clone()
        .into_iter()
        .any(|network| network.family() == Family::Tron)
    {
        return Err(tron());
    }
    let mut networks = networks.into_iter();
    let first = networks.next();
    match networks.all(|network| Some(network) == first) {
        true => Ok(()),
        false => Err(Refusal::invalid(ONE_NETWORK)),
    }
}

/// A batch with a payment on Tron.
pub fn tron() -> Refusal {
    Refusal::invalid(TRON)
}

/// What is said when the payments need more gas than one transaction may: how many of the first ones fit.
pub fn too_much_gas(list: &str, (count, fitting): (usize, usize), (gas, gas_max): (u64, u64)) -> Refusal {
    Refusal::field(
        list,
        format!(
            "must be fewer: these {count} payments may need {gas} gas, and one transaction may have {gas_max}; the first \
             {fitting} fit"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tron_is_said_before_several_networks() {
        let message =
            |networks: &[Network]| check_networks(networks.iter().copied()).map_err(|refusal| refusal.message);
        assert_eq!(message(&[]), Ok(()));
        assert_eq!(message(&[Network::Base, Network::Base]), Ok(()));
        assert_eq!(message(&[Network::Base, Network::Sepolia]), Err(ONE_NETWORK.to_owned()));
        assert_eq!(
            message(&[Network::Base, Network::Sepolia, Network::Tron]),
            Err(TRON.to_owned())
        );
        assert_eq!(message(&[Network::Tron]), Err(TRON.to_owned()));
    }
}
