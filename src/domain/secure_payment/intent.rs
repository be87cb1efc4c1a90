//! Transactions that payers report, and the chain and token with which a payer wants to pay.

use super::SecurePayment;
use crate::domain::{
    address::Address,
    ids::IntentId,
    network::Network,
    refusal::{Checks, Refusal},
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Maximum number of transactions reported for one secure payment. Anyone with its token can report them.
pub const INTENTS_MAX: u64 = 20;

/// Chain and token with which a payer wants to pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Network.
    pub network: Network,
    /// Symbol of the token.
    pub token: String,
}

impl SecurePayment {
    /// Checks that a payer wants to pay on the network and in a currency of the payment. There is no route from another
    /// network or currency. Errors: 400. Source: decisions D3.
    pub fn check_source(&self, source: &Source, symbols: &[&str]) -> Result<(), Refusal> {
        let mut checks = Checks::new();
        if source.network != self.network {
            let own = self.network.chain_name();
            let own = own.map_or_else(String::new, |own| format!(", or {own}"));
            let sentence = format!("must be absent{own}: no crosschain route is configured on this service");
            checks.fail("chain", sentence);
        } else if !symbols.iter().any(|symbol| symbol.eq_ignore_ascii_case(&source.token)) {
            let sentence = format!(
                "must be absent, or {}: no other token can pay this secure payment",
                symbols.join(" or ")
            );
            checks.fail("token", sentence);
        }
        checks.finish()
    }
}

/// A transaction that a payer reports as sent. The report settles nothing. Source: interface §4.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentIntent {
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
    fn only_the_chain_and_currency_of_the_link_are_accepted() {
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
