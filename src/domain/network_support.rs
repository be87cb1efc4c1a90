//! What a network does not support, with the messages for callers. Source: interface §8; rules P.3.3; rules P.3.7.

use super::{
    network::{Family, Network},
    refusal::{Checks, Refusal},
};

/// Message for a source chain or token of a payment on an EVM network.
const NO_ROUTE: &str = "must be absent: no crosschain route is configured on this service";

/// Message for a source chain or token of a payment on Tron.
const SAME_CHAIN: &str = "must be absent: Tron payments are same-chain only";

/// Message for a report of a payment on Tron. The member `chain` of a report has EVM networks only.
const NOT_REPORTED: &str = "must be the chain of the link, and payments on Tron are not reported: broadcast the signed \
                            transaction with POST /v2/secure-payments/{token}/tron/broadcast; the service finds a \
                            transaction that the wallet broadcasts on its own";

/// Message for a recurrence on a network without recurring payments.
pub const NO_RECURRENCE: &str = "must be absent: recurring payments are supported on EVM networks only";

/// Whether a call may name the chain and the token to pay from.
pub fn has_source_parameters(network: Network) -> bool {
    network.family() == Family::Evm
}

/// Refuses the chain and the token of a payment that would come from another chain.
pub fn refuse_crosschain(network: Network, checks: &mut Checks) {
    match network.family() {
        Family::Evm => checks.fail("chain", NO_ROUTE),
        Family::Tron => {
            checks.fail("chain", SAME_CHAIN);
            checks.fail("token", SAME_CHAIN);
        }
    }
}

/// Whether smart accounts, among them Safes, exist on the network.
pub fn has_smart_accounts(network: Network) -> bool {
    network.family() == Family::Evm
}

/// Refuses an account that the network does not have: a Safe, or a smart account with the account behind it.
pub fn check_accounts(network: Network, names_eoa: bool, is_safe: bool, checks: &mut Checks) {
    if has_smart_accounts(network) {
        return;
    }
    if is_safe {
        let sentence = format!("must be absent or false: Safe accounts pay on EVM networks only, not on {network}");
        checks.fail("isSafe", sentence);
    }
    if names_eoa {
        let sentence = format!(
            "must be absent: smart accounts pay on EVM networks only, not on {network}; wallet is the account that pays"
        );
        checks.fail("eoaWallet", sentence);
    }
}

/// Checks the chain of a report about a link on `network`. Errors: the link is on Tron, and the report names another
/// chain (400).
pub fn check_report(network: Network, chain: Network) -> Result<(), Refusal> {
    if has_source_parameters(network) || chain == network {
        Ok(())
    } else {
        Err(Refusal::field("chain", NOT_REPORTED))
    }
}

/// Refuses recurring payments on a network that does not support them.
pub fn check_recurrence(network: Network, checks: &mut Checks) {
    if network.family() == Family::Tron {
        checks.fail("recurrence", NO_RECURRENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(check: impl Fn(&mut Checks)) -> Vec<String> {
        let mut checks = Checks::new();
        check(&mut checks);
        let refused = checks.finish().err();
        let fields = refused.map(|refusal| refusal.fields).unwrap_or_default();
        fields.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn tron_has_neither_routes_nor_smart_accounts_nor_recurrence() {
        for network in Network::ALL {
            let is_tron = network == Network::Tron;
            let on_tron = |names: &[&str]| -> Vec<String> {
                let names = names.iter().filter(|_| is_tron);
                names.map(|name| (*name).to_owned()).collect()
            };
            let routes = fields(|checks| refuse_crosschain(network, checks));
            assert_eq!(routes, if is_tron { vec!["chain", "token"] } else { vec!["chain"] });
            let accounts = fields(|checks| check_accounts(network, true, true, checks));
            assert_eq!(accounts, on_tron(&["isSafe", "eoaWallet"]), "{network}");
            assert!(fields(|checks| check_accounts(network, false, false, checks)).is_empty());
            assert_eq!(
                fields(|checks| check_recurrence(network, checks)),
                on_tron(&["recurrence"])
            );
            let reported = check_report(network, Network::Base).err();
            let reported = reported.map(|refusal| refusal.fields[0].field.clone());
            assert_eq!(reported.into_iter().collect::<Vec<_>>(), on_tron(&["chain"]));
            assert!(check_report(network, network).is_ok());
        }
    }
}
