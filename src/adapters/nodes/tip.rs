//! State of a chain: its head, and the newest block that enough distinct nodes report as final.

use super::{
    LookupTimeout, NodeChain, block_ref, locked,
    movement::{BEHIND, NodeFront, is_far},
    node::{ChainNode, NodeFailure, NodeLookup},
    protocol::NodeTip,
    proven::ProvenHeader,
    store,
};
use crate::{
    domain::payment::{BlockRef, Finality},
    ports::chain::{ChainError, ChainTip},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// How long to wait for the remaining nodes after enough have responded.
const STRAGGLERS: Duration = Duration::from_millis(250);

/// Number of polls of only the first node before all nodes are queried again.
const GLANCES_MAX: u32 = 4;

/// Result of a poll of only the first node.
enum FirstNodePoll {
    /// No new block is final.
    Enough(ChainTip),
    /// All nodes have to be queried. This node was already queried, with this result.
    Asked(usize, Box<Result<NodeTip, NodeFailure>>),
    /// All nodes have to be queried.
    NobodyAsked,
}

/// The newest block that a node reports as final.
struct VouchedBlock {
    index: usize,
    number: u64,
    /// The header, if it is already known.
    header: Option<ProvenHeader>,
}

impl NodeChain {
    /// Reads head and final block from the first node, and from all other nodes if the first node reports a newer final
    /// block.
    ///
    /// The head is the newest block that enough nodes have reached, so that one node alone cannot set it. A block is
    /// final if enough distinct nodes report it. A node that reports blocks as final too early does no harm as long as
    /// another node must agree. A stopped node is detected because all nodes are queried every few polls, and whenever
    /// the head has not advanced for a while.
    pub(super) async fn find_tip(&self, known: Option<Finality>) -> Result<ChainTip, ChainError> {
        let first = match self.glance(known).await {
            FirstNodePoll::Enough(tip) => return Ok(tip),
            FirstNodePoll::Asked(index, answer) => Some((index, *answer)),
            FirstNodePoll::NobodyAsked => None,
        };
        let (ends, failures) = self.ends(first).await;
        let Some(heads) = self.heads(&ends) else {
            return Err(self.sum_up(&failures));
        };
        self.compare(&ends, &heads);
        let head = block_ref(heads.agreed).map_err(|failure| self.malformed(failure.to_string()))?;
        self.has_moved(head.number);
        let finality = match (self.confirmations, known) {
            (Some(_), _) => Finality::Setting,
            (None, Some(Finality::Tag)) => Finality::Tag,
            (None, _) if ends.iter().any(|(_, end)| end.tagged.is_some()) => Finality::Tag,
            (None, _) => Finality::Depth,
        };
        let mut vouched: Vec<VouchedBlock> = ends
            .into_iter()
            .filter_map(|(index, end)| self.vouched(index, end, finality))
            .collect();
        vouched.sort_by_key(|vouched| std::cmp::Reverse(vouched.number));
        let are_enough = vouched.len() >= self.agreement;
        let wanted = if are_enough {
            self.agreement
        } else {
            self.agreement_now()
        };
        let Some(number) = vouched.get(wanted - 1).map(|vouched| vouched.number) else {
            return Err(self.too_few(vouched.len(), &failures));
        };
        let finalized = match locked(&self.finalized) {
            Some(before) if before.number >= number => {
                if are_enough {
                    store(&self.agreed_at, Instant::now());
                }
                before
            }
            _ => self.agree_on_final(number, vouched).await?,
        };
        Ok(ChainTip {
            head,
            finalized,
            finality,
            is_current: self.is_current(),
        })
    }

    /// Polls only one node, which is sufficient while it reports no new final block.
    async fn glance(&self, known: Option<Finality>) -> FirstNodePoll {
        let nodes = self.order();
        let (Some(node), Some(before), Some(finality)) = (nodes.first(), locked(&self.finalized), known) else {
            return FirstNodePoll::NobodyAsked;
        };
        let is_due = self.glances.fetch_add(1, Ordering::Relaxed) >= GLANCES_MAX;
        // All nodes are queried if the settings allow the service to trust a single node: it must know how long the
        // other nodes have been missing.
        if is_due || nodes.len() == 1 || self.agreement_fallback.is_some() {
            self.glances.store(0, Ordering::Relaxed);
            return FirstNodePoll::NobodyAsked;
        }
        let deadline = self.deadline(LookupTimeout::Thorough, 1);
        let answer = node.ask(deadline, |line| async move { self.end_of(&line).await });
        let answer = answer.await;
        if let Ok(end) = &answer
            && let Ok(head) = block_ref(&end.head)
            && head.number >= before.number
            && let Some(vouched) = self.vouched(node.index, end.clone(), finality)
            && vouched.number <= before.number
            && !is_far(self.network, locked(&self.highest).0, head.number)
            && self.has_moved(head.number)
        {
            return FirstNodePoll::Enough(ChainTip {
                head,
                finalized: before,
                finality,
                is_current: self.is_current(),
            });
        }
        self.glances.store(0, Ordering::Relaxed);
        FirstNodePoll::Asked(node.index, Box::new(answer))
    }

    async fn agree_on_final(&self, number: u64, vouched: Vec<VouchedBlock>) -> Result<BlockRef, ChainError> {
        let known = vouched.into_iter().filter_map(|vouched| {
            let header = vouched.header.filter(|header| header.number == number)?;
            Some((vouched.index, header))
        });
        let header = self.agree(number, known.collect()).await?;
        let block = block_ref(&header).map_err(|failure| self.malformed(failure.to_string()))?;
        store(&self.finalized, Some(block));
        Ok(block)
    }

    /// The final block of a node. If the setting `confirmations` is present, it decides which block is final. Otherwise
    /// the `finalized` tag decides, or the depth of the network as long as no node has ever served the tag. `None` if
    /// the tag decides and this node does not serve the tag.
    fn vouched(&self, index: usize, end: NodeTip, finality: Finality) -> Option<VouchedBlock> {
        let at_depth = |depth: u64| VouchedBlock {
            index,
            number: end.head.number.saturating_sub(depth),
            header: (depth == 0).then(|| end.head.clone()),
        };
        match (finality, end.tagged) {
            (Finality::Setting, _) => Some(at_depth(self.confirmations.unwrap_or(1) - 1)),
            (Finality::Depth, _) => Some(at_depth(self.network.finality_depth())),
            (Finality::Tag, Some(header)) => Some(VouchedBlock {
                index,
                number: header.number,
                header: Some(header),
            }),
            (Finality::Tag, None) => None,
        }
    }

    fn too_few(&self, answered: usize, failures: &[(usize, NodeFailure)]) -> ChainError {
        let wanted = self.agreement_now();
        if answered == 0 && !failures.is_empty() {
            return self.sum_up(failures);
        }
        ChainError::Unavailable {
            network: self.network,
            reason: format!("only {answered} of the {wanted} required nodes returned a final block"),
        }
    }

    /// Head and final block of every responding node. Once enough nodes have responded without a conflict, the others
    /// are not awaited. `first` is a node that was already queried.
    async fn ends(
        &self,
        first: Option<(usize, Result<NodeTip, NodeFailure>)>,
    ) -> (Vec<(usize, NodeTip)>, Vec<(usize, NodeFailure)>) {
        use futures_util::{StreamExt, stream::FuturesUnordered};
        let ask = |node: Arc<ChainNode>| async move {
            let deadline = self.deadline(LookupTimeout::Thorough, 1);
            let end = node.ask(deadline, |line| async move { self.end_of(&line).await });
            (node.index, end.await)
        };
        let asked = first.as_ref().map(|(index, _)| *index);
        let others = self.order().into_iter().filter(|node| Some(node.index) != asked);
        let mut waiting: FuturesUnordered<_> = others.map(ask).collect();
        let (mut ends, mut failures) = (Vec::new(), Vec::new());
        match first {
            Some((index, Ok(end))) => ends.push((index, end)),
            Some((index, Err(failure))) => failures.push((index, failure)),
            None => {}
        }
        let mut give_up: Option<Instant> = None;
        loop {
            let next = match give_up {
                None => waiting.next().await,
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    timeout(left, waiting.next()).await.ok().flatten()
                }
            };
            match next {
                Some((index, Ok(end))) => ends.push((index, end)),
                Some((index, Err(failure))) => failures.push((index, failure)),
                None => break,
            }
            give_up = if ends.len() < self.agreement_now() || self.is_doubtful(&ends) {
                None
            } else {
                give_up.or_else(|| Some(Instant::now() + STRAGGLERS))
            };
        }
        (ends, failures)
    }

    async fn end_of(&self, line: &NodeLookup) -> Result<NodeTip, NodeFailure> {
        let NodeTip { head, tagged } = self.protocol.tip(line, self.confirmations.is_none()).await?;
        if let Some(tagged) = &tagged
            && tagged.number > 0
            && tagged.number >= head.number
        {
            return Err(NodeFailure::Untrue(format!(
                "block {} is reported as final although the head is {}",
                tagged.number, head.number
            )));
        }
        Ok(NodeTip { head, tagged })
    }

    /// Whether the other nodes must decide: one node is far ahead alone, or too few nodes report a final block newer
    /// than the known final block.
    fn is_doubtful(&self, ends: &[(usize, NodeTip)]) -> bool {
        let is_ahead_alone = self
            .heads(ends)
            .is_some_and(|heads| is_far(self.network, heads.agreed.number, heads.newest.number));
        let is_final_open = locked(&self.finalized).is_some_and(|before| {
            let tags = ends.iter().filter_map(|(_, end)| end.tagged.as_ref());
            let newer = tags.filter(|tag| tag.number > before.number).count();
            newer > 0 && newer < self.agreement_now()
        });
        is_ahead_alone || is_final_open
    }

    fn heads<'a>(&self, ends: &'a [(usize, NodeTip)]) -> Option<NodeFront<'a>> {
        NodeFront::of(ends.iter().map(|(_, end)| &end.head), self.agreement)
    }

    /// Compares the nodes that responded.
    fn compare(&self, ends: &[(usize, NodeTip)], heads: &NodeFront<'_>) {
        let tags = ends.iter().filter_map(|(_, end)| end.tagged.as_ref());
        let tags = NodeFront::of(tags, self.agreement);
        for (index, end) in ends {
            if let Some(node) = self.nodes.get(*index) {
                let tag = end.tagged.as_ref().map(|tag| tag.number);
                node.movement.compare(end.head.number, heads, tag.zip(tags.as_ref()));
            }
        }
    }

    /// Whether the head is higher than before, or became the highest only recently.
    fn has_moved(&self, head: u64) -> bool {
        let (highest, since) = locked(&self.highest);
        if head > highest {
            store(&self.highest, (head, Instant::now()));
        }
        head > highest || since.elapsed() < BEHIND
    }

    /// Whether as many nodes as must agree are advancing.
    fn is_current(&self) -> bool {
        let moving = self.nodes.iter().filter(|node| !node.movement.stands_still());
        moving.count() >= self.agreement
    }

    /// The header of a final height on which enough distinct nodes agree. `votes` are the headers that are already
    /// known.
    pub(in crate::adapters) async fn agree(
        &self,
        number: u64,
        votes: Vec<(usize, ProvenHeader)>,
    ) -> Result<ProvenHeader, ChainError> {
        let question = |line: NodeLookup| async move {
            let header = self.header_at(&line, number).await?;
            header.ok_or_else(|| NodeFailure::Unknown(format!("the node does not know block {number}")))
        };
        let what = format!("final block {number}");
        self.elect(&what, votes, LookupTimeout::Thorough, question).await
    }

    /// The value that enough distinct nodes return; further nodes are queried while too few agree. `votes` are the
    /// values that are already known, with the indexes of their nodes in the settings.
    pub(in crate::adapters) async fn elect<T, F>(
        &self,
        what: &str,
        votes: Vec<(usize, T)>,
        patience: LookupTimeout,
        question: impl Fn(NodeLookup) -> F,
    ) -> Result<T, ChainError>
    where
        T: PartialEq,
        F: Future<Output = Result<T, NodeFailure>>,
    {
        let wanted = self.agreement_now();
        let (winner, most) = self.elect_by(what, wanted, T::eq, votes, patience, question).await?;
        if most >= self.agreement {
            store(&self.agreed_at, Instant::now());
        }
        Ok(winner)
    }

    /// The value that `wanted` distinct nodes confirm, and how many nodes confirmed it. `confirms` compares
    /// the first vote with the second one and need not be symmetric.
    pub(in crate::adapters) async fn elect_by<T, F>(
        &self,
        what: &str,
        wanted: usize,
        confirms: impl Fn(&T, &T) -> bool,
        mut votes: Vec<(usize, T)>,
        patience: LookupTimeout,
        question: impl Fn(NodeLookup) -> F,
    ) -> Result<(T, usize), ChainError>
    where
        F: Future<Output = Result<T, NodeFailure>>,
    {
        let network = self.network;
        let mut failures = Vec::new();
        loop {
            let alike = |vote: &T| votes.iter().filter(|(_, other)| confirms(vote, other)).count();
            let counts: Vec<usize> = votes.iter().map(|(_, vote)| alike(vote)).collect();
            let most = counts.iter().copied().max().unwrap_or(0);
            let is_split = most < votes.len();
            if is_split {
                metrics::counter!("prs_chain_disagreements_total", "network" => network.id()).increment(1);
                tracing::warn!(%network, what, "nodes disagree");
            }
            if most >= wanted
                && let Some(winner) = counts.iter().position(|count| *count == most)
            {
                return Ok((votes.swap_remove(winner).1, most));
            }
            let mut asked: Vec<usize> = votes.iter().map(|(index, _)| *index).collect();
            asked.extend(failures.iter().map(|(index, _): &(usize, NodeFailure)| *index));
            let answers = self.ask_distinct(wanted - most, patience, &asked, &question).await;
            let is_over = answers.given.is_empty();
            failures.extend(answers.failures);
            votes.extend(answers.given);
            if is_over {
                return Err(match (votes.len(), is_split) {
                    (0, _) => self.sum_up(&failures),
                    (_, true) => ChainError::Disagreement {
                        network,
                        reason: format!("nodes return different data for {what}"),
                    },
                    (given, false) => ChainError::Unavailable {
                        network,
                        reason: format!("only {given} of the {wanted} required nodes returned the {what}"),
                    },
                });
            }
        }
    }
}
