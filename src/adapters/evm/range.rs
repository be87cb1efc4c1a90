//! Events by range: where to look, as the nodes tell it.

use super::{
    EvmChain, Patience, block_ref,
    decode::{PlacedLog, in_order},
    evidence::ProvenHeader,
    header_at,
    node::{Failure, Line, Node},
    read_header, window,
    wire::{RawLog, bloom_of},
};
use crate::{
    domain::payment::{BlockRef, Hint},
    ports::chain::{ChainError, NewBlock, Told},
};
use alloy::primitives::{B256, U64};
use futures_util::{StreamExt, TryStreamExt, future::join, stream};
use serde_json::{Map, Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Questions that one node is asked while it looks for a width that works.
const NARROWINGS_MAX: usize = 14;

/// Headers that are asked for in one request.
const HEADERS_PER_BATCH: usize = 100;

/// Blocks whose events are accounted for at the same time.
const BLOCKS_IN_FLIGHT: usize = 16;

/// The events of a window as one node lists them.
struct Listed {
    logs: Vec<PlacedLog>,
    /// Header of the last block.
    last: ProvenHeader,
    /// Whether the node lists no events of it, which is the only block, although it has it.
    is_refused: bool,
}

impl EvmChain {
    fn filter(&self) -> Map<String, Value> {
        let mut filter = Map::new();
        filter.insert("address".to_owned(), json!(self.watched.addresses));
        filter.insert("topics".to_owned(), json!([self.watched.topics]));
        filter
    }

    fn filter_between(&self, from: u64, to: u64) -> Map<String, Value> {
        let mut filter = self.filter();
        filter.insert("fromBlock".to_owned(), json!(U64::from(from)));
        filter.insert("toBlock".to_owned(), json!(U64::from(to)));
        filter
    }

    /// Refuses an answer that holds anything that was not asked for, and reads the rest.
    fn read_events(&self, logs: Vec<RawLog>, from: u64, to: u64) -> Result<Vec<PlacedLog>, Failure> {
        if let Some(log) = logs.iter().find(|log| !self.watched.holds(log)) {
            return Err(Failure::Untrue(format!(
                "an event of {}, which was not asked for",
                log.address
            )));
        }
        let logs = in_order(logs).map_err(Failure::Untrue)?;
        match logs.iter().find(|placed| !(from..=to).contains(&placed.block_number)) {
            Some(placed) => Err(Failure::Untrue(format!(
                "an event of block {} for blocks {from} to {to}",
                placed.block_number
            ))),
            None => Ok(logs),
        }
    }

    /// Reads a range as the nodes that have to agree tell it, all at the same time, and joins what they say.
    pub(super) async fn read_told(&self, from: u64, to: u64, proves_absence: bool) -> Result<Told, ChainError> {
        if self.watched.addresses.is_empty() || from > to {
            return Ok(Told {
                hints: Vec::new(),
                unlisted: BTreeSet::new(),
                read_to: to,
                reached: None,
            });
        }
        let wanted = self.agreement_now();
        let nodes = self.order();
        let mut others = nodes.iter();
        let mut failures = Vec::new();
        let mut told: Vec<(usize, Listed)> = Vec::new();
        let mut refused: Vec<(usize, Listed)> = Vec::new();
        while told.len() < wanted {
            let asked: Vec<_> = others.by_ref().take(wanted - told.len()).collect();
            if asked.is_empty() && told.len() + refused.len() >= wanted {
                told.append(&mut refused);
                break;
            }
            if asked.is_empty() {
                return Err(match told.len() {
                    0 => self.sum_up(&failures),
                    given => ChainError::Unavailable {
                        network: self.network,
                        reason: format!("{given} of {wanted} nodes that have to agree list the events of block {from}"),
                    },
                });
            }
            let reading = asked.iter().map(|node| self.window_of(node, from, to));
            let answers = futures_util::future::join_all(reading).await;
            for (node, answer) in asked.into_iter().zip(answers) {
                match answer {
                    Ok(listed) if listed.is_refused => refused.push((node.index, listed)),
                    Ok(listed) => told.push((node.index, listed)),
                    Err(failure) => failures.push((node.index, failure)),
                }
            }
        }
        let read_to = told.iter().map(|(_, listed)| listed.last.number).min().unwrap_or(to);
        let mut unlisted: BTreeSet<u64> = told
            .iter()
            .filter(|(_, listed)| listed.is_refused)
            .map(|(_, listed)| listed.last.number)
            .collect();
        if let ([(index, listed)], true) = (&told[..], proves_absence)
            && !listed.is_refused
            && let Some(node) = self.nodes.get(*index)
        {
            let complete = self.prove_complete(node, from, listed).await;
            unlisted.extend(complete.map_err(|failure| self.sum_up(&[(node.index, failure)]))?);
        }
        for number in &unlisted {
            tracing::warn!(network = %self.network, number, "no node lists the events of this block, so that all of it is read");
        }
        let mut tellers: BTreeMap<(u64, u64, B256), (Hint, Vec<usize>)> = BTreeMap::new();
        for (index, listed) in &told {
            for hint in self
                .watched
                .hints(&listed.logs)
                .into_iter()
                .filter(|hint| hint.block_number <= read_to)
            {
                let place = (hint.block_number, hint.log_index, hint.tx_hash);
                let (_, tellers) = tellers.entry(place).or_insert_with(|| (hint, Vec::new()));
                tellers.push(*index);
            }
        }
        let hints = tellers.into_values().collect();
        Ok(Told {
            hints,
            unlisted,
            read_to,
            reached: reached(&told),
        })
    }

    /// The events and the header of the last block.
    async fn events_between(&self, line: &Line, from: u64, to: u64) -> Result<Listed, Failure> {
        // A node that lags answers with nothing for blocks that it does not know; the last block has to be there.
        let (last, logs) = join(
            header_at(line, to),
            line.call::<Vec<RawLog>>("eth_getLogs", [self.filter_between(from, to)]),
        )
        .await;
        let unknown = || Failure::Unknown(format!("block {to} is not known yet"));
        let last = last?.ok_or_else(unknown)?;
        let logs = self.read_events(logs?, from, to)?;
        let is_other = |placed: &PlacedLog| placed.block_number == to && placed.block_hash != last.hash;
        if logs.iter().any(is_other) {
            return Err(Failure::Untrue(format!("block {to} under two hashes")));
        }
        Ok(Listed {
            logs,
            last,
            is_refused: false,
        })
    }

    /// Reads one window from a node, as wide as the node allows. A block may hold more events than a node lists at all;
    /// that it has the block is enough to read it as a whole.
    async fn window_of(&self, node: &Arc<Node>, from: u64, to: u64) -> Result<Listed, Failure> {
        let mut last = Failure::Resting;
        for _ in 0..NARROWINGS_MAX {
            let width = node.width().min(to - from + 1);
            let end = from + width - 1;
            let deadline = self.deadline(Patience::Thorough, 1);
            let answer = node
                .ask(deadline, |line| async move {
                    limited(&line, width, self.events_between(&line, from, end).await)
                })
                .await;
            match answer {
                Ok(Ok(found)) => {
                    node.learn_answered(width);
                    return Ok(found);
                }
                Ok(Err(too_wide)) if width == 1 => {
                    let deadline = self.deadline(Patience::Thorough, 1);
                    let header = node.ask(deadline, |line| async move { header_at(&line, end).await });
                    return Ok(Listed {
                        logs: Vec::new(),
                        last: header.await?.ok_or(too_wide)?,
                        is_refused: true,
                    });
                }
                Ok(Err(too_wide)) => last = too_wide,
                Err(failure) => return Err(failure),
            }
        }
        Err(last)
    }

    /// Proves by the headers of a range, each the child of the one before, that a node which is believed alone has listed
    /// every payment event. Returns the blocks of which it lists no events.
    ///
    /// Where the filter of a header speaks of payments, the events of the whole block have to account for every bit of
    /// it; the reference of a payment that is left out would show.
    async fn prove_complete(&self, node: &Arc<Node>, from: u64, listed: &Listed) -> Result<Vec<u64>, Failure> {
        let Listed { logs, last, .. } = listed;
        let numbers: Vec<u64> = (from..=last.number).collect();
        let mut unlisted = Vec::new();
        let mut parent: Option<B256> = None;
        for numbers in numbers.chunks(HEADERS_PER_BATCH) {
            let deadline = self.deadline(Patience::Thorough, 1);
            let headers = node
                .ask(deadline, |line| async move { headers(&line, numbers).await })
                .await?;
            let mut spoken_of = Vec::new();
            for (number, header) in numbers.iter().zip(headers) {
                let header = header.ok_or_else(|| Failure::Unknown(format!("block {number} is not known")))?;
                if parent.is_some_and(|parent| parent != header.parent_hash) {
                    return Err(Failure::Untrue(format!(
                        "block {number} is no child of the block before"
                    )));
                }
                parent = Some(header.hash);
                let begin = logs.partition_point(|placed| placed.block_number < *number);
                let end = logs.partition_point(|placed| placed.block_number <= *number);
                let own = &logs[begin..end];
                if own.iter().any(|placed| placed.block_hash != header.hash) {
                    return Err(Failure::Untrue(format!("events of another block for block {number}")));
                }
                if self.watched.is_spoken_of(&header.logs_bloom) {
                    spoken_of.push((header, begin..end));
                }
            }
            let accounts = stream::iter(spoken_of).map(|(header, own)| async move {
                let deadline = self.deadline(Patience::Thorough, 1);
                let (header, own) = (&header, &logs[own]);
                let question = |line: Line| async move { self.account_for(&line, header, own).await };
                let is_listed = node.ask(deadline, question).await?;
                Ok((!is_listed).then_some(header.number))
            });
            let accounts: Vec<Option<u64>> = accounts.buffer_unordered(BLOCKS_IN_FLIGHT).try_collect().await?;
            unlisted.extend(accounts.into_iter().flatten());
        }
        if parent.is_some_and(|end| end != last.hash) {
            return Err(Failure::Untrue(format!("block {} under two hashes", last.number)));
        }
        Ok(unlisted)
    }

    /// The filter of a full block speaks of nearly everything, so suspicion alone must not condemn a node. `false` when
    /// the node does not list the events of the block.
    async fn account_for(&self, line: &Line, header: &ProvenHeader, listed: &[PlacedLog]) -> Result<bool, Failure> {
        let answer = line.call("eth_getLogs", [json!({ "blockHash": header.hash })]).await;
        let logs: Vec<RawLog> = match answer {
            Err(failure) if failure.narrower().is_some() => return Ok(false),
            answer => answer?,
        };
        let is_own = |log: &RawLog| log.block_hash == Some(header.hash);
        let is_complete = logs.iter().all(is_own) && bloom_of(&logs).contains(&header.logs_bloom);
        // Nodes number the events that a chain adds on its own as they like, so only the watched ones must be in order.
        let watched = in_order(logs.into_iter().filter(|log| self.watched.holds(log)).collect());
        if !is_complete || watched.map_err(Failure::Untrue)? != listed {
            return Err(Failure::Untrue(format!(
                "events of block {} are missing",
                header.number
            )));
        }
        Ok(true)
    }

    /// Reads blocks near the head from one node, in one request.
    pub(super) async fn read_new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError> {
        let numbers: Vec<u64> = (from..=to).collect();
        let question = |line: Line| {
            let numbers = &numbers;
            async move {
                let mut found = Vec::new();
                for header in headers(&line, numbers).await? {
                    let Some(header) = header else { break };
                    found.push(header);
                }
                let Some(last) = found.last() else {
                    return Ok(Vec::new());
                };
                let is_silent = |header: &ProvenHeader| !self.watched.is_spoken_of(&header.logs_bloom);
                let logs = if self.watched.addresses.is_empty() || found.iter().all(is_silent) {
                    Vec::new()
                } else {
                    let filter = self.filter_between(from, last.number);
                    self.read_events(line.call("eth_getLogs", [filter]).await?, from, last.number)?
                };
                let hints = self.watched.hints(&logs);
                let block = |header: &ProvenHeader| {
                    let own = hints.iter().filter(|hint| hint.block_hash == header.hash);
                    Ok(NewBlock {
                        block: block_ref(header)?,
                        hints: own.cloned().collect(),
                    })
                };
                found.iter().map(block).collect()
            }
        };
        self.ask(Patience::Thorough, question).await
    }
}

/// The last block, when all who told of the events before it showed the same.
fn reached(told: &[(usize, Listed)]) -> Option<BlockRef> {
    let last = &told.first()?.1.last;
    let is_agreed = told.iter().all(|(_, other)| other.last.hash == last.hash);
    is_agreed.then(|| block_ref(last).ok()).flatten()
}

/// The headers of heights; `None` for those that the node does not have.
pub(super) async fn headers(line: &Line, numbers: &[u64]) -> Result<Vec<Option<ProvenHeader>>, Failure> {
    let calls: Vec<_> = numbers
        .iter()
        .map(|number| ("eth_getBlockByNumber", json!([U64::from(*number), false])))
        .collect();
    let answers = line.batch::<Option<Box<RawValue>>>(&calls).await?;
    let read = numbers.iter().zip(answers).map(|(number, answer)| {
        let header = read_header(answer?)?;
        match header {
            Some(header) if header.number != *number => {
                Err(Failure::Untrue(format!("block {} for block {number}", header.number)))
            }
            header => Ok(header),
        }
    });
    read.collect()
}

/// Takes a refusal of too wide a question out of the failures that speak against a node, and learns from it.
///
/// Slowness teaches too, but stays a failure down to one block: the node may as well be gone.
fn limited<T>(line: &Line, width: u64, answer: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
    let failure = match answer {
        Ok(answer) => return Ok(Ok(answer)),
        Err(failure) => failure,
    };
    let Some(why) = failure.narrower() else {
        return Err(failure);
    };
    line.node.learn_refused(width, why);
    if width > 1 && why == window::Narrower::Slow {
        return Err(failure);
    }
    Ok(Err(failure))
}
