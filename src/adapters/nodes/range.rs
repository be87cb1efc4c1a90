//! Logs by block range. They show where to look for payments; nodes may leave out some logs.

use super::{
    LookupTimeout, NodeChain, block_ref,
    decode::{PlacedLog, Watched, in_order},
    node::{ChainNode, NodeFailure, NodeLookup},
    proven::ProvenHeader,
    window,
    wire::{RawLog, bloom_of},
};
use crate::{
    domain::payment::{BlockRef, Hint},
    ports::chain::{ChainError, NewBlock, ReportedEvents},
};
use alloy::primitives::{B256, Bloom, U64};
use futures_util::{StreamExt, TryStreamExt, future::join, stream};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of queries to one node in the search for an accepted number of blocks.
const NARROWINGS_MAX: usize = 14;

/// Headers per batch request.
const HEADERS_PER_BATCH: usize = 100;

/// Blocks whose logs are checked concurrently.
const BLOCKS_IN_FLIGHT: usize = 16;

/// Maximum number of blocks near the head that are read whole for one step, on nodes that list no events.
const WHOLE_BLOCKS_MAX: usize = 4;

/// One of this many blocks is read whole although its events were listed, on networks without bloom filters in headers.
const AUDIT_EVERY: u64 = 1_000;

/// The logs of a window from one node.
struct ListedEvents {
    logs: Vec<PlacedLog>,
    /// Header of the last block.
    last: ProvenHeader,
    /// Whether the node does not return the logs of the window, although it has the blocks.
    is_refused: bool,
}

impl NodeChain {
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

    /// Reads the events of a response. Errors: the response contains an event that was not requested.
    fn read_events(&self, logs: Vec<RawLog>, from: u64, to: u64) -> Result<Vec<PlacedLog>, NodeFailure> {
        if let Some(log) = logs.iter().find(|log| !self.watched.holds(log)) {
            return Err(NodeFailure::Untrue(format!(
                "the node returned an event of contract {}, which was not requested",
                log.address
            )));
        }
        let logs = in_order(logs).map_err(NodeFailure::Untrue)?;
        match logs.iter().find(|placed| !(from..=to).contains(&placed.block_number)) {
            Some(placed) => Err(NodeFailure::Untrue(format!(
                "the node returned an event of block {} for blocks {from} to {to}",
                placed.block_number
            ))),
            None => Ok(logs),
        }
    }

    /// Reads a range from as many nodes as must agree, concurrently, and joins their results.
    pub(super) async fn read_reported_events(
        &self,
        from: u64,
        to: u64,
        proves_absence: bool,
    ) -> Result<ReportedEvents, ChainError> {
        if self.watched.addresses.is_empty() || from > to {
            return Ok(ReportedEvents {
                hints: Vec::new(),
                unlisted: BTreeSet::new(),
                read_to: to,
                reached: None,
            });
        }
        let wanted = self.agreement_now();
        if wanted == 1 && proves_absence && !self.protocol.has_log_blooms() {
            return self.read_whole_blocks(from, to).await;
        }
        let nodes = self.order();
        let mut others = nodes.iter();
        let mut failures = Vec::new();
        let mut told: Vec<(usize, ListedEvents)> = Vec::new();
        let mut refused: Vec<(usize, ListedEvents)> = Vec::new();
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
                        reason: format!(
                            "only {given} of the {wanted} required nodes returned the events from block {from} on"
                        ),
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
            .flat_map(|(_, listed)| from..=listed.last.number.min(read_to))
            .collect();
        if let ([(index, listed)], true) = (&told[..], proves_absence)
            && !listed.is_refused
            && let Some(node) = self.nodes.get(*index)
        {
            let complete = self.prove_complete(node, from, listed).await;
            unlisted.extend(complete.map_err(|failure| self.sum_up(&[(node.index, failure)]))?);
        }
        if let Some(number) = unlisted.first() {
            tracing::warn!(
                network = %self.network, number, blocks = unlisted.len(),
                "no node returns the logs of these blocks, so the service reads the whole blocks"
            );
        }
        if !self.protocol.has_log_blooms() {
            unlisted.extend(told.first().and_then(|(_, listed)| audited_block(from, &listed.last)));
        }
        // Nodes that report different references for one event give different hints: the service reads only blocks with
        // known references, so a false reference must not replace the true one.
        let mut tellers: BTreeMap<_, (Hint, Vec<usize>)> = BTreeMap::new();
        for (index, listed) in &told {
            for hint in self
                .watched
                .hints(&listed.logs)
                .into_iter()
                .filter(|hint| hint.block_number <= read_to)
            {
                let event = (hint.block_number, hint.log_index, hint.tx_hash, hint.reference_topic);
                let (_, tellers) = tellers.entry(event).or_insert_with(|| (hint, Vec::new()));
                tellers.push(*index);
            }
        }
        let hints = tellers.into_values().collect();
        Ok(ReportedEvents {
            hints,
            unlisted,
            read_to,
            reached: reached(&told),
        })
    }

    /// The range as blocks to be read whole. Only whole blocks prove that one node omitted no event, when the headers of
    /// the network have no bloom filter.
    async fn read_whole_blocks(&self, from: u64, to: u64) -> Result<ReportedEvents, ChainError> {
        let question = |line: NodeLookup| async move {
            let header = self.header_at(&line, to).await?;
            block_ref(&header.ok_or_else(|| NodeFailure::Unknown(format!("block {to} is not available yet")))?)
        };
        Ok(ReportedEvents {
            hints: Vec::new(),
            unlisted: (from..=to).collect(),
            read_to: to,
            reached: Some(self.ask(LookupTimeout::Thorough, question).await?),
        })
    }

    /// The logs, and the header of the last block.
    async fn events_between(&self, line: &NodeLookup, from: u64, to: u64) -> Result<ListedEvents, NodeFailure> {
        // A lagging node returns nothing for unknown blocks, so the last block must exist.
        let (last, logs) = join(
            self.header_at(line, to),
            line.list_logs(self.filter_between(from, to), Some(to)),
        )
        .await;
        let unknown = || NodeFailure::Unknown(format!("block {to} is not available yet"));
        let last = last?.ok_or_else(unknown)?;
        let logs = self.read_events(logs?, from, to)?;
        let is_other = |placed: &PlacedLog| placed.block_number == to && placed.block_hash != last.hash;
        if logs.iter().any(is_other) {
            return Err(NodeFailure::Untrue(format!(
                "the node returned two different hashes for block {to}"
            )));
        }
        Ok(ListedEvents {
            logs,
            last,
            is_refused: false,
        })
    }

    /// Reads one window from a node, with as many blocks as the node allows. If the node returns not even the logs of a
    /// single block, it only has to return the header, and the caller reads the whole block.
    async fn window_of(&self, node: &Arc<ChainNode>, from: u64, to: u64) -> Result<ListedEvents, NodeFailure> {
        let mut last = NodeFailure::Resting;
        for _ in 0..NARROWINGS_MAX {
            let width = node.width().min(to - from + 1);
            let end = from + width - 1;
            let deadline = self.deadline(LookupTimeout::Thorough, 1);
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
                    let deadline = self.deadline(LookupTimeout::Thorough, 1);
                    let header = node.ask(deadline, |line| async move { self.header_at(&line, end).await });
                    return Ok(ListedEvents {
                        logs: Vec::new(),
                        last: header.await?.ok_or(too_wide)?,
                        is_refused: true,
                    });
                }
                Ok(Err(too_wide)) => last = too_wide,
                Err(failure) if !self.protocol.has_log_blooms() && failure.is_missing_interface() => {
                    let deadline = self.deadline(LookupTimeout::Thorough, 1);
                    let header = node.ask(deadline, |line| async move { self.header_at(&line, to).await });
                    return Ok(ListedEvents {
                        logs: Vec::new(),
                        last: header.await?.ok_or(failure)?,
                        is_refused: true,
                    });
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(last)
    }

    /// Proves, with the chained headers of a range, that a single trusted node has returned every payment event.
    /// Returns the blocks whose logs the node does not return.
    ///
    /// If the bloom filter of a header matches payments, the logs of the whole block must explain every bit of the
    /// filter, so an omitted payment reference would be detected.
    async fn prove_complete(
        &self,
        node: &Arc<ChainNode>,
        from: u64,
        listed: &ListedEvents,
    ) -> Result<Vec<u64>, NodeFailure> {
        let ListedEvents { logs, last, .. } = listed;
        let numbers: Vec<u64> = (from..=last.number).collect();
        let mut unlisted = Vec::new();
        let mut parent: Option<B256> = None;
        for numbers in numbers.chunks(HEADERS_PER_BATCH) {
            let deadline = self.deadline(LookupTimeout::Thorough, 1);
            let headers = node
                .ask(deadline, |line| async move { self.headers(&line, numbers).await })
                .await?;
            let mut spoken_of = Vec::new();
            for (number, header) in numbers.iter().zip(headers) {
                let header =
                    header.ok_or_else(|| NodeFailure::Unknown(format!("the node does not know block {number}")))?;
                if parent.is_some_and(|parent| parent != header.parent_hash) {
                    return Err(NodeFailure::Untrue(format!(
                        "block {number} is not the child of the previous block"
                    )));
                }
                parent = Some(header.hash);
                let begin = logs.partition_point(|placed| placed.block_number < *number);
                let end = logs.partition_point(|placed| placed.block_number <= *number);
                let own = &logs[begin..end];
                if own.iter().any(|placed| placed.block_hash != header.hash) {
                    return Err(NodeFailure::Untrue(format!(
                        "for block {number}, the node returned events with another block hash"
                    )));
                }
                match header.logs_bloom {
                    Some(bloom) if self.watched.is_spoken_of(&bloom) => {
                        spoken_of.push((header.number, header.hash, bloom, begin..end));
                    }
                    Some(_) => {}
                    None => unlisted.push(header.number),
                }
            }
            let accounts = stream::iter(spoken_of).map(|(number, hash, bloom, own)| async move {
                let deadline = self.deadline(LookupTimeout::Thorough, 1);
                let own = &logs[own];
                let question = |line: NodeLookup| async move { self.account_for(&line, hash, &bloom, own).await };
                let is_listed = node.ask(deadline, question).await?;
                Ok::<_, NodeFailure>((!is_listed).then_some(number))
            });
            let accounts: Vec<Option<u64>> = accounts.buffer_unordered(BLOCKS_IN_FLIGHT).try_collect().await?;
            unlisted.extend(accounts.into_iter().flatten());
        }
        if parent.is_some_and(|end| end != last.hash) {
            return Err(NodeFailure::Untrue(format!(
                "the node returned two different hashes for block {}",
                last.number
            )));
        }
        Ok(unlisted)
    }

    /// Checks a block whose bloom filter matches payments. The filter of a full block matches almost everything, so a
    /// match without payments is allowed. `false` if the node refuses to return the logs. Errors: the logs do not
    /// explain the whole filter, or they contain watched events other than `listed`.
    async fn account_for(
        &self,
        line: &NodeLookup,
        block: B256,
        bloom: &Bloom,
        listed: &[PlacedLog],
    ) -> Result<bool, NodeFailure> {
        let answer = line.call("eth_getLogs", [json!({ "blockHash": block })]).await;
        let logs: Vec<RawLog> = match answer {
            Err(failure) if failure.narrower().is_some() => return Ok(false),
            answer => answer?,
        };
        let is_own = |log: &RawLog| log.block_hash == Some(block);
        let is_complete = logs.iter().all(is_own) && bloom_of(&logs).contains(bloom);
        // Nodes may number events that the chain itself adds differently, so only the watched events must be in order.
        let watched = in_order(logs.into_iter().filter(|log| self.watched.holds(log)).collect());
        if !is_complete || watched.map_err(NodeFailure::Untrue)? != listed {
            return Err(NodeFailure::Untrue(format!(
                "the logs of block {block} are incomplete, or differ from the events that the node listed before"
            )));
        }
        Ok(true)
    }

    /// The watched events of blocks near the head, whose whole content is read, because the node lists no events.
    async fn events_of_whole(
        &self,
        line: &NodeLookup,
        headers: &[ProvenHeader],
    ) -> Result<Vec<PlacedLog>, NodeFailure> {
        let proof = self.protocol.proof();
        let mut events = Vec::new();
        for header in headers {
            let claimed = self.protocol.recent_block(line, &block_ref(header)?).await?;
            let prove = move |watched: &Watched| claimed.content.prove(proof, &|_, logs| watched.are_in(logs));
            let logs = self.compute(prove).await??.into_iter().flat_map(|proven| proven.logs);
            events.extend(logs.filter(|log| self.watched.holds(log)));
        }
        in_order(events).map_err(NodeFailure::Untrue)
    }

    /// Reads blocks near the head from one node, in one request.
    pub(super) async fn read_new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError> {
        let numbers: Vec<u64> = (from..=to).collect();
        let question = |line: NodeLookup| {
            let numbers = &numbers;
            async move {
                let mut found = Vec::new();
                for header in self.headers(&line, numbers).await? {
                    let Some(header) = header else { break };
                    found.push(header);
                }
                let Some(last) = found.last() else {
                    return Ok(Vec::new());
                };
                let is_silent = |header: &ProvenHeader| {
                    let bloom = header.logs_bloom.as_ref();
                    bloom.is_some_and(|bloom| !self.watched.is_spoken_of(bloom))
                };
                let logs = if self.watched.addresses.is_empty() || found.iter().all(is_silent) {
                    Vec::new()
                } else {
                    let filter = self.filter_between(from, last.number);
                    // Events that are missing near the head are found once their block is final.
                    match line.list_logs(filter, None).await {
                        Err(failure) if !self.protocol.has_log_blooms() && failure.is_missing_interface() => {
                            found.truncate(WHOLE_BLOCKS_MAX);
                            self.events_of_whole(&line, &found).await?
                        }
                        logs => self.read_events(logs?, from, last.number)?,
                    }
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
        self.ask(LookupTimeout::Thorough, question).await
    }
}

/// A block of a listed range that is read whole as a sample. Nodes that omit the same events are found in this way. The
/// hash of the last block selects it, so that no node knows before which block is read.
fn audited_block(from: u64, last: &ProvenHeader) -> Option<u64> {
    let [.., b0, b1, b2, b3, b4, b5, b6, b7] = last.hash.0;
    let draw = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]) % AUDIT_EVERY;
    // A range of this many blocks or more always has a sample.
    last.number.checked_sub(draw).filter(|number| *number >= from)
}

/// The last block, if all nodes that returned the logs returned the same last block.
fn reached(told: &[(usize, ListedEvents)]) -> Option<BlockRef> {
    let last = &told.first()?.1.last;
    let is_agreed = told.iter().all(|(_, other)| other.last.hash == last.hash);
    is_agreed.then(|| block_ref(last).ok()).flatten()
}

/// Learns from the rejection of a query over too many blocks. This rejection does not count as a failure of the node.
///
/// A timeout also reduces the number of blocks per query. It counts as a failure of the node while the query covers
/// more than one block, because the node may be gone.
fn limited<T>(
    line: &NodeLookup,
    width: u64,
    answer: Result<T, NodeFailure>,
) -> Result<Result<T, NodeFailure>, NodeFailure> {
    let failure = match answer {
        Ok(answer) => return Ok(Ok(answer)),
        Err(failure) => failure,
    };
    let Some(why) = failure.narrower() else {
        return Err(failure);
    };
    line.node.learn_refused(width, why);
    if width > 1 && why == window::NarrowingCause::Slow {
        return Err(failure);
    }
    Ok(Err(failure))
}
