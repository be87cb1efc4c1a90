//! Transactions that payers report, and the chain and token with which a payer wants to pay.

use super::SecurePayment;
use crate::domain::{
    address::Address,
    ids::IntentId,
    network::Network,
    network_support::{has_source_parameters, refuse_crosschain},
    refusal::{Checks, Refusal},
    wire_text::wire_text,
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// Maximum number of reports of one kind for a secure payment. Anyone with its token can report payments, so its owner
/// may report twice as many. Broadcasts count only for a few minutes.
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
        if source.network != self.network && !has_source_parameters(self.network) {
            refuse_crosschain(self.network, &mut checks);
        } else if source.network != self.network {
            let own = self.network.chain_name().unwrap_or("the chain of this payment");
            let sentence = format!("must be {own}: no crosschain route is configured on this service");
            checks.fail("chain", sentence);
        } else if !symbols.iter().any(|symbol| symbol.eq_ignore_ascii_case(&source.token)) {
            let sentence = format!(
                "must be {}: no other token can pay this secure payment",
                symbols.join(" or ")
            );
            checks.fail("token", sentence);
        }
        checks.finish()
    }
}

wire_text! {
    /// What the hash of a report identifies.
    pub enum IntentKind {
        /// A transaction.
        Transaction = "transaction",
        /// A transaction of a Safe, which its owners sign before one of them executes it.
        Safe = "safe",
        /// A user operation of a smart account.
        UserOperation = "user_operation",
        /// A signed transaction that this service checked before it broadcast the transaction.
        Broadcast = "broadcast",
    }
}

impl IntentKind {
    /// The kind in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::Safe => "transaction of a Safe",
            Self::UserOperation => "user operation",
            Self::Broadcast => "transaction that this service broadcast",
        }
    }

    /// The field of the API that contains a hash of this kind.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Transaction | Self::Broadcast => "txHash",
            Self::Safe => "safeTxHash",
            Self::UserOperation => "userOpHash",
        }
    }
}

wire_text! {
    /// State of a report.
    pub enum IntentState {
        /// Nothing more is known about it. A lock without a Safe keeps this state too.
        Reported = "reported",
        /// The execution of the Safe is searched on chain.
        AwaitingExecution = "awaiting_execution",
        /// The Safe has executed the transaction.
        Executed = "executed",
        /// The Safe used the nonce of the transaction, and its calls failed.
        Failed = "failed",
        /// The deadline passed before an execution was found. This proves nothing.
        DeadlinePassed = "deadline_passed",
        /// The owner of the link ended the wait.
        Released = "released",
    }
}

impl IntentState {
    /// Whether a repeated report of a Safe locks the link again: it does while no execution is known. After the owner
    /// ended the wait, only the owner can lock the link again.
    pub const fn may_lock(self, is_of_owner: bool) -> bool {
        match self {
            Self::Reported | Self::AwaitingExecution | Self::DeadlinePassed => true,
            Self::Released => is_of_owner,
            Self::Executed | Self::Failed => false,
        }
    }
}

/// Which call of a user operation pays which child of a multicall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionIndex {
    /// Position of the child.
    pub child_position: u32,
    /// Index of the call.
    pub transaction_index: u32,
}

/// A payment that a payer reports as sent or proposed. The report settles nothing. Source: interface §4.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentIntent {
    /// Row.
    pub id: IntentId,
    /// What the hash identifies.
    pub kind: IntentKind,
    /// The hash.
    pub hash: B256,
    /// Network and token with which the payer pays.
    pub source: Source,
    /// Amount that the payer reported.
    pub amount: Option<String>,
    /// Account that pays.
    pub payer: Option<Address>,
    /// Externally owned account behind it.
    pub payer_eoa: Option<Address>,
    /// State.
    pub state: IntentState,
    /// Until when a Safe may execute, or when a broadcast payment expires; `None` for others.
    pub deadline: Option<DateTime<Utc>>,
    /// Last block in which the execution was searched; `None` unless it is searched.
    pub searched_to: Option<u64>,
    /// The transaction in which the Safe executed.
    pub executed_by: Option<B256>,
    /// Calls of a user operation.
    pub transaction_indices: Vec<TransactionIndex>,
    /// When it was first reported.
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

    #[test]
    fn a_payment_on_tron_accepts_no_other_chain() {
        let payment = SecurePayment {
            network: Network::Tron,
            ..link(SecurePaymentStatus::Pending)
        };
        for (network, token, expected) in [
            (Network::Base, "USDT", &["chain", "token"][..]),
            (Network::Tron, "USDC", &["token"]),
            (Network::Tron, "USDT", &[]),
        ] {
            let token = token.to_owned();
            let refused = payment.check_source(&Source { network, token }, &["USDT"]).err();
            let fields = refused.map(|refusal| refusal.fields).unwrap_or_default();
            let fields: Vec<_> = fields.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(fields, expected);
        }
    }
}
