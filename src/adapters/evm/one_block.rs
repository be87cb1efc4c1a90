//! Contract lookups whose results become amounts of money. All nodes are queried at the same block, and as many
//! distinct nodes as must agree have to return the result.

use super::{
    EvmChain,
    payer::{contract_call, returned},
};
use crate::{
    adapters::nodes::{
        LookupTimeout,
        locked::{locked, store},
        movement::is_far,
        node::{CONTRACT_CALL, NodeFailure, NodeLookup},
    },
    ports::chain::ChainError,
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U64, U256},
    sol_types::SolCall,
};
use futures_util::future::join;
use serde_json::json;
use std::{cmp::Reverse, time::Duration};
use tokio::time::Instant;

/// How long contract lookups use the same height, so that all data of one payment is read at one block.
const HEIGHT_LASTS: Duration = Duration::from_secs(1);

/// The block hash of a contract lookup, and its result or revert reason.
type LookupAtBlock<R> = (B256, Result<R, String>);

impl EvmChain {
    /// Queries the contract at `to` with `call`. `confirms` decides whether the first of two results may be used when
    /// another node returns the second result.
    ///
    /// A waiting caller can retry, so `agreement_fallback_s` does not apply: the number of nodes that must agree is
    /// never lowered.
    pub(super) async fn agreed_answer<C, R>(
        &self,
        to: EvmAddress,
        call: C,
        read: fn(C::Return) -> R,
        confirms: impl Fn(&R, &R) -> bool + Send + Sync,
    ) -> Result<R, ChainError>
    where
        C: SolCall + Send + Sync,
        R: Send + Sync,
    {
        let patience = self.nodes.lookup();
        let call = &call;
        if self.nodes.agreement == 1 {
            let question = |line: NodeLookup| async move {
                let answer: Bytes = line
                    .call(CONTRACT_CALL, contract_call(to, call, json!("latest")))
                    .await?;
                returned::<C>(to, &answer).map(read)
            };
            return self.nodes.ask(patience, question).await;
        }
        let number = self.common_height(patience).await?;
        let question = |line: NodeLookup| async move {
            let at = contract_call(to, call, json!(U64::from(number)));
            let (header, answer) = join(
                self.nodes.header_at(&line, number),
                line.call::<Bytes>(CONTRACT_CALL, at),
            )
            .await;
            let header = header?.ok_or_else(|| NodeFailure::Unknown(format!("block {number} is unknown")))?;
            let said = match answer {
                Err(NodeFailure::Reverted(reason)) => Err(reason),
                answer => Ok(read(returned::<C>(to, &answer?)?)),
            };
            Ok((header.hash, said))
        };
        let is_confirmed =
            |(block, said): &LookupAtBlock<R>, (other_block, other): &LookupAtBlock<R>| match (said, other) {
                _ if block != other_block => false,
                (Ok(said), Ok(other)) => confirms(said, other),
                (said, other) => said.is_err() && other.is_err(),
            };
        let what = format!("result of the call to {to} at block {number}");
        let wanted = self.nodes.agreement;
        let elected = self
            .nodes
            .elect_by(&what, wanted, is_confirmed, Vec::new(), patience, question);
        let ((_, said), _) = elected.await?;
        said.map_err(ChainError::Reverted)
    }

    /// The balance of an account in the native coin, on which enough distinct nodes agree.
    pub(super) async fn agreed_balance(&self, owner: EvmAddress) -> Result<U256, ChainError> {
        let patience = self.nodes.lookup();
        let number = self.common_height(patience).await?;
        let question =
            |line: NodeLookup| async move { line.call::<U256>("eth_getBalance", (owner, U64::from(number))).await };
        let what = format!("balance of {owner} at block {number}");
        let elected = self
            .nodes
            .elect_by(&what, self.nodes.agreement, U256::eq, Vec::new(), patience, question);
        Ok(elected.await?.0)
    }

    /// The lowest head among as many nodes as must agree, if these heads are close to each other. So a single node can
    /// select neither an old block with outdated rates nor a block that does not exist.
    async fn common_height(&self, patience: LookupTimeout) -> Result<u64, ChainError> {
        if let Some((number, since)) = locked(&self.common_height)
            && since.elapsed() < HEIGHT_LASTS
        {
            return Ok(number);
        }
        let question = |line: NodeLookup| async move { Ok(self.nodes.protocol().tip(&line, false).await?.head.number) };
        let (mut heads, mut failures) = (Vec::new(), Vec::new());
        for more in [self.nodes.agreement, self.nodes.nodes.len()] {
            let failed = failures.iter().map(|(index, _)| *index);
            let asked: Vec<usize> = heads.iter().map(|(index, _)| *index).chain(failed).collect();
            let answers = self.nodes.ask_distinct(more, patience, &asked, question).await;
            heads.extend(answers.given);
            failures.extend(answers.failures);
            if let Some(number) = self.lowest_in_step(&heads) {
                store(&self.common_height, Some((number, Instant::now())));
                return Ok(number);
            }
        }
        let (network, given, wanted) = (self.nodes.network, heads.len(), self.nodes.agreement);
        Err(match given {
            0 => self.nodes.sum_up(&failures),
            _ if given < wanted => ChainError::Unavailable {
                network,
                reason: format!("only {given} of the {wanted} required nodes returned their newest block"),
            },
            _ => ChainError::Disagreement {
                network,
                reason: "the newest blocks of the nodes are too far apart".to_owned(),
            },
        })
    }

    fn lowest_in_step(&self, heads: &[(usize, u64)]) -> Option<u64> {
        let mut heads: Vec<u64> = heads.iter().map(|(_, head)| *head).collect();
        heads.sort_by_key(|head| Reverse(*head));
        let spans = heads.windows(self.nodes.agreement);
        let mut spans = spans.filter_map(|span| span.last().zip(span.first()));
        let in_step = spans.find(|(lowest, highest)| !is_far(self.nodes.network, **lowest, **highest));
        in_step.map(|(lowest, _)| *lowest)
    }
}
