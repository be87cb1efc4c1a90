//! What contracts answer where it becomes an amount of money: as many distinct nodes as have to agree say it, as of one
//! block.

use super::{
    EvmChain, Patience, header, header_at, locked,
    movement::is_far,
    node::{CONTRACT_CALL, Failure, Line},
    payer::{contract_call, returned},
    store,
};
use crate::ports::chain::ChainError;
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U64},
    sol_types::SolCall,
};
use futures_util::future::join;
use serde_json::json;
use std::{cmp::Reverse, time::Duration};
use tokio::time::Instant;

/// How long contracts are asked at the same height, so that what one payment needs is read at one block.
const HEIGHT_LASTS: Duration = Duration::from_secs(1);

/// The hash of the block at which a contract was asked, and what it returned, or why it refused.
type Said<R> = (B256, Result<R, String>);

impl EvmChain {
    /// Asks a contract. `confirms` says whether the first of two answers may be used where another node gives the second.
    ///
    /// A caller who waits can ask again, so `agreement_fallback_s` does not count: nothing lowers how many nodes have to
    /// agree.
    pub(super) async fn agreed_answer<C, R>(
        &self,
        (to, call): (EvmAddress, C),
        read: fn(C::Return) -> R,
        confirms: impl Fn(&R, &R) -> bool + Send + Sync,
    ) -> Result<R, ChainError>
    where
        C: SolCall + Send + Sync,
        R: Send + Sync,
    {
        let patience = self.lookup();
        let call = &call;
        if self.agreement == 1 {
            let question = |line: Line| async move {
                let answer: Bytes = line
                    .call(CONTRACT_CALL, contract_call(to, call, json!("latest")))
                    .await?;
                returned::<C>(to, &answer).map(read)
            };
            return self.ask(patience, question).await;
        }
        let number = self.common_height(patience).await?;
        let question = |line: Line| async move {
            let at = contract_call(to, call, json!(U64::from(number)));
            let (header, answer) = join(header_at(&line, number), line.call::<Bytes>(CONTRACT_CALL, at)).await;
            let header = header?.ok_or_else(|| Failure::Unknown(format!("block {number} is not known")))?;
            let said = match answer {
                Err(Failure::Reverted(reason)) => Err(reason),
                answer => Ok(read(returned::<C>(to, &answer?)?)),
            };
            Ok((header.hash, said))
        };
        let is_confirmed = |(block, said): &Said<R>, (other_block, other): &Said<R>| match (said, other) {
            _ if block != other_block => false,
            (Ok(said), Ok(other)) => confirms(said, other),
            (said, other) => said.is_err() && other.is_err(),
        };
        let what = format!("answer of {to} at block {number}");
        let wanted = (self.agreement, is_confirmed);
        let ((_, said), _) = self.elect_by(&what, wanted, Vec::new(), patience, question).await?;
        said.map_err(ChainError::Reverted)
    }

    /// The lowest head of as many nodes as have to agree, none of which is far from another: a node alone can name neither
    /// an old block, whose rates are those of another day, nor one that is not there.
    async fn common_height(&self, patience: Patience) -> Result<u64, ChainError> {
        if let Some((number, since)) = locked(&self.common_height)
            && since.elapsed() < HEIGHT_LASTS
        {
            return Ok(number);
        }
        let question = |line: Line| async move {
            let head = header(&line, json!("latest")).await?;
            let head = head.ok_or_else(|| Failure::Untrue("a chain without a head".to_owned()))?;
            Ok(head.number)
        };
        let (mut heads, mut failures) = (Vec::new(), Vec::new());
        for more in [self.agreement, self.nodes.len()] {
            let failed = failures.iter().map(|(index, _)| *index);
            let asked: Vec<usize> = heads.iter().map(|(index, _)| *index).chain(failed).collect();
            let answers = self.ask_distinct(more, patience, &asked, question).await;
            heads.extend(answers.given);
            failures.extend(answers.failures);
            if let Some(number) = self.lowest_in_step(&heads) {
                store(&self.common_height, Some((number, Instant::now())));
                return Ok(number);
            }
        }
        let (network, given, wanted) = (self.network, heads.len(), self.agreement);
        Err(match given {
            0 => self.sum_up(&failures),
            _ if given < wanted => ChainError::Unavailable {
                network,
                reason: format!("{given} of {wanted} nodes that have to agree tell their head"),
            },
            _ => ChainError::Disagreement {
                network,
                reason: "the heads of nodes are far apart".to_owned(),
            },
        })
    }

    fn lowest_in_step(&self, heads: &[(usize, u64)]) -> Option<u64> {
        let mut heads: Vec<u64> = heads.iter().map(|(_, head)| *head).collect();
        heads.sort_by_key(|head| Reverse(*head));
        let spans = heads.windows(self.agreement);
        let mut spans = spans.filter_map(|span| span.last().zip(span.first()));
        let in_step = spans.find(|(lowest, highest)| !is_far(self.network, **lowest, **highest));
        in_step.map(|(lowest, _)| *lowest)
    }
}
