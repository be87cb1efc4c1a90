//! What a payer says to have sent, and from which chain and token a secure payment is paid.

use super::SecurePayment;
use crate::domain::{
    address::Address,
    ids::IntentId,
    network::Network,
    refusal::{Checks, Refusal},
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Transactions that may be named for one secure payment: whoever has its token names them.
pub const INTENTS_MAX: u64 = 20;

/// From where a payer wants to pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Network.
    pub network: Network,
    /// Symbol of the token.
    pub token: String,
}

impl SecurePayment {
    /// Checks that a payer wants to pay on the network and in a currency of the payment itself: there is no route from
    /// another one. Errors: 400. Source: decisions D3.
    pub fn check_source(&self, source: &Source, symbols: &[&str]) -> Result<(), Refusal> {
        let mut checks = Checks::new();
        if source.network != self.network {
            let own = self.network.chain_name();
            let own = own.map_or_else(String::new, |own| format!(", or {own}"));
            let sentence = format!("must be absent{own}: no crosschain route is configured on this service");
            checks.fail("chain", sentence);
        } else if !symbols.iter().any(|symbol| symbol.eq_ignore_ascii_case(&source.token)) {
            let sentence = format!("must be absent, or {}: nothing else pays this", symbols.join(" or "));
            checks.fail("token", sentence);
        }
        checks.finish()
    }
}

/// A transaction that a payer says to have sent. It settles nothing. Source: interface §4.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Row.
    pub id: IntentId,
    /// Hash of the transaction.
    pub tx_hash: B256,
    /// Account that pays.
    pub payer: Option<Address>,
    /// Externally owned account behind it.
    pub payer_eoa: Option<Address>,
    /// When it was said.
    pub created_at: DateTime<Utc>,
}

#[cfg(test)]
mod tests {
    use super::{
        super::{SecurePaymentStatus, tests::link},
        *,
    };

    #[test]
    fn only_the_own_chain_and_currency_pay() {
        let payment = link(SecurePaymentStatus::Pending);
        for (network, token, field) in [
            (Network::Sepolia, "FAU", None),
            (Network::Sepolia, "fau", None),
            (Network::Sepolia, "USDC", Some("token")),
            (Network::Base, "FAU", Some("chain")),
        ] {
            let token = token.to_owned();
            let refused = payment.check_source(&Source { network, token }, &["FAU"]).err();
            assert_eq!(refused.map(|refusal| refusal.fields[0].field.clone()).as_deref(), field);
        }
    }
}
