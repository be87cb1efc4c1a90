//! Sends signed transactions to nodes.

use super::TronChain;
use crate::{
    adapters::nodes::node::{NodeFailure, NodeLookup},
    domain::secure_payment::broadcast::{BroadcastOutcome, BroadcastRefusal, SignedTransaction},
    ports::chain::TransactionBroadcast,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

/// Number of nodes that get a transaction at once.
const NODES_AT_ONCE: usize = 3;

/// Maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 16 * 1_024;

#[derive(Deserialize)]
struct StatedBroadcast {
    #[serde(default)]
    result: bool,
    code: Option<String>,
    txid: Option<String>,
}

/// What a node says about a transaction. Errors: it does not take it now. A payer may cause each of these responses, so
/// none of them counts against the node.
fn outcome(stated: &StatedBroadcast, tx_id: &str) -> Result<BroadcastOutcome, NodeFailure> {
    use BroadcastRefusal as Refusal;
    let refused = |refusal| Ok(BroadcastOutcome::Refused(refusal));
    match stated.code.as_deref() {
        None | Some("SUCCESS") if stated.result => match stated.txid.as_deref() {
            Some(other) if !other.eq_ignore_ascii_case(tx_id) => Err(NodeFailure::Untrue(
                "the node names another transaction than it got".to_owned(),
            )),
            _ => Ok(BroadcastOutcome::Accepted),
        },
        Some("DUP_TRANSACTION_ERROR") => Ok(BroadcastOutcome::AlreadyKnown),
        Some("SIGERROR") => refused(Refusal::Signature),
        Some("TAPOS_ERROR") => refused(Refusal::ReferenceBlock),
        Some("TRANSACTION_EXPIRATION_ERROR") => refused(Refusal::Expiration),
        Some("CONTRACT_VALIDATE_ERROR") => refused(Refusal::Validation),
        Some("CONTRACT_EXE_ERROR") => refused(Refusal::Execution),
        Some("BANDWITH_ERROR") => refused(Refusal::Bandwidth),
        Some("TOO_BIG_TRANSACTION_ERROR") => refused(Refusal::Size),
        // SERVER_BUSY, NO_CONNECTION, NOT_ENOUGH_EFFECTIVE_CONNECTION, BLOCK_UNSOLIDIFIED, OTHER_ERROR, and what this
        // version does not know.
        _ => Err(NodeFailure::Busy),
    }
}

#[async_trait]
impl TransactionBroadcast for TronChain {
    async fn broadcast(&self, signed: &SignedTransaction) -> BroadcastOutcome {
        let (body, tx_id) = (
            json!({ "transaction": hex::encode(signed.encoded()) }),
            hex::encode(signed.tx_id()),
        );
        let question = |line: NodeLookup| {
            let (body, tx_id) = (&body, &tx_id);
            async move {
                let stated: StatedBroadcast = line.call_api("wallet/broadcasthex", body, RESPONSE_BYTES_MAX).await?;
                outcome(&stated, tx_id)
            }
        };
        let answers = self
            .nodes
            .ask_distinct(NODES_AT_ONCE, self.nodes.lookup(), &[], question)
            .await;
        let is_unknown = answers.failures.iter().any(|(_, failure)| failure.may_have_acted());
        let outcome = BroadcastOutcome::of_nodes(answers.given.into_iter().map(|(_, outcome)| outcome));
        match outcome {
            // A node that got the transaction may have it, whatever another node says.
            BroadcastOutcome::Refused(_) if is_unknown => BroadcastOutcome::Unavailable,
            outcome => outcome,
        }
    }
}
