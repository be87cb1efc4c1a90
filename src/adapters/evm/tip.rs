//! Where a chain stands: its head, and the newest block that enough distinct nodes call final.

use super::{
    EvmChain, Patience, block_ref,
    evidence::ProvenHeader,
    header_at, locked,
    movement::{BEHIND, Front, is_far},
    node::{Failure, Line, Node},
    read_header, store,
};
use crate::{
    domain::payment::{BlockRef, Finality},
    ports::chain::{ChainError, Tip},
};
use serde_json::{json, value::RawValue};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// How long the remaining nodes are waited for once enough have answered.
const STRAGGLERS: Duration = Duration::from_millis(250);

/// Texts by which nodes say that they know no `finalized` block.
const NO_TAG_TEXTS: [&str; 5] = ["finalized", "tag", "unknown block", "invalid block", "hex string"];

/// Looks through the first node alone before all are asked again.
const GLANCES_MAX: u32 = 4;

/// What one node says about the end of its chain.
#[derive(Clone)]
struct End {
    head: ProvenHeader,
    /// `None` when the node serves no such tag.
    tagged: Option<ProvenHeader>,
}

/// What a look through the first node alone told.
enum Glance {
    /// Nothing new is final.
    Enough(Tip),
    /// All have to be asked; this node was, already.
    Asked(usize, Box<Result<End, Failure>>),
    /// All have to be asked.
    NobodyAsked,
}

/// The newest block that a node vouches for as final.
struct Vouched {
    index: usize,
    number: u64,
    /// The header, when it is known already.
    header: Option<ProvenHeader>,
}

impl EvmChain {
    /// Asks the first node for the end of its chain, and every other one when it calls a newer block final.
    ///
    /// The head is the newest that enough nodes have reached, so that one node alone cannot name it. A block is final when
    /// enough distinct nodes say so: a node that calls blocks final too early does no harm as long as another one has to
    /// agree. One that stands still is found out because all are asked every few looks, and when the head has not moved
    /// for a while.
    pub(super) async fn find_tip(&self, known: Option<Finality>) -> Result<Tip, ChainError> {
        let first = match self.glance(known).await {
            Glance::Enough(tip) => return Ok(tip),
            Glance::Asked(index, answer) => Some((index, *answer)),
            Glance::NobodyAsked => None,
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
        let mut vouched: Vec<Vouched> = ends
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
        Ok(Tip {
            head,
            finalized,
            finality,
            is_current: self.is_current(),
        })
    }

    /// Looks through one node alone, which is enough as long as it calls nothing new final.
    async fn glance(&self, known: Option<Finality>) -> Glance {
        let nodes = self.order();
        let (Some(node), Some(before), Some(finality)) = (nodes.first(), locked(&self.finalized), known) else {
            return Glance::NobodyAsked;
        };
        let is_due = self.glances.fetch_add(1, Ordering::Relaxed) >= GLANCES_MAX;
        // Where one node may be believed alone, the time without the others has to be known.
        if is_due || nodes.len() == 1 || self.agreement_fallback.is_some() {
            self.glances.store(0, Ordering::Relaxed);
            return Glance::NobodyAsked;
        }
        let deadline = self.deadline(Patience::Thorough, 1);
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
            return Glance::Enough(Tip {
                head,
                finalized: before,
                finality,
                is_current: self.is_current(),
            });
        }
        self.glances.store(0, Ordering::Relaxed);
        Glance::Asked(node.index, Box::new(answer))
    }

    async fn agree_on_final(&self, number: u64, vouched: Vec<Vouched>) -> Result<BlockRef, ChainError> {
        let known = vouched.into_iter().filter_map(|vouched| {
            let header = vouched.header.filter(|header| header.number == number)?;
            Some((vouched.index, header))
        });
        let header = self.agree(number, known.collect()).await?;
        let block = block_ref(&header).map_err(|failure| self.malformed(failure.to_string()))?;
        store(&self.finalized, Some(block));
        Ok(block)
    }

    /// What a node vouches for. One that serves no tag vouches by depth, as long as the network has not served the tag.
    fn vouched(&self, index: usize, end: End, finality: Finality) -> Option<Vouched> {
        let at_depth = |depth: u64| Vouched {
            index,
            number: end.head.number.saturating_sub(depth),
            header: (depth == 0).then(|| end.head.clone()),
        };
        match (finality, end.tagged) {
            (Finality::Setting, _) => Some(at_depth(self.confirmations.unwrap_or(1) - 1)),
            (Finality::Depth, _) => Some(at_depth(self.network.finality_depth())),
            (Finality::Tag, Some(header)) => Some(Vouched {
                index,
                number: header.number,
                header: Some(header),
            }),
            (Finality::Tag, None) => None,
        }
    }

    fn too_few(&self, answered: usize, failures: &[(usize, Failure)]) -> ChainError {
        let wanted = self.agreement_now();
        if answered == 0 && !failures.is_empty() {
            return self.sum_up(failures);
        }
        ChainError::Unavailable {
            network: self.network,
            reason: format!("{answered} of {wanted} nodes that have to agree name a final block"),
        }
    }

    /// The end of the chain of every node that answers; once enough have and they leave no doubt, the others are not waited
    /// for.
    /// `first` was asked already.
    async fn ends(&self, first: Option<(usize, Result<End, Failure>)>) -> (Vec<(usize, End)>, Vec<(usize, Failure)>) {
        use futures_util::{StreamExt, stream::FuturesUnordered};
        let ask = |node: Arc<Node>| async move {
            let deadline = self.deadline(Patience::Thorough, 1);
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

    async fn end_of(&self, line: &Line) -> Result<End, Failure> {
        let wants_tag = self.confirmations.is_none();
        let mut calls = vec![("eth_getBlockByNumber", json!(["latest", false]))];
        if wants_tag {
            calls.push(("eth_getBlockByNumber", json!(["finalized", false])));
        }
        let mut answers = line.batch::<Option<Box<RawValue>>>(&calls).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(None));
        let head = read_header(next()?)?.ok_or_else(|| Failure::Untrue("a chain without a head".to_owned()))?;
        let tagged = if wants_tag { tagged(next())? } else { None };
        if let Some(tagged) = &tagged
            && tagged.number > 0
            && tagged.number >= head.number
        {
            return Err(Failure::Untrue(format!(
                "block {} is called final although the head is {}",
                tagged.number, head.number
            )));
        }
        Ok(End { head, tagged })
    }

    /// Whether the other nodes have to say who is right: one is far ahead alone, or some call a block final that is newer than
    /// the known one, and too few do.
    fn is_doubtful(&self, ends: &[(usize, End)]) -> bool {
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

    fn heads<'a>(&self, ends: &'a [(usize, End)]) -> Option<Front<'a>> {
        Front::of(ends.iter().map(|(_, end)| &end.head), self.agreement)
    }

    /// Compares the nodes that answered with each other.
    fn compare(&self, ends: &[(usize, End)], heads: &Front<'_>) {
        let tags = ends.iter().filter_map(|(_, end)| end.tagged.as_ref());
        let tags = Front::of(tags, self.agreement);
        for (index, end) in ends {
            if let Some(node) = self.nodes.get(*index) {
                let tag = end.tagged.as_ref().map(|tag| tag.number);
                node.movement.compare(end.head.number, heads, tag.zip(tags.as_ref()));
            }
        }
    }

    /// Whether the head is a higher one, or has not been the highest for long.
    fn has_moved(&self, head: u64) -> bool {
        let (highest, since) = locked(&self.highest);
        if head > highest {
            store(&self.highest, (head, Instant::now()));
        }
        head > highest || since.elapsed() < BEHIND
    }

    /// Whether as many nodes as have to agree do not stand still.
    fn is_current(&self) -> bool {
        let moving = self.nodes.iter().filter(|node| !node.movement.stands_still());
        moving.count() >= self.agreement
    }

    /// The header of a final height on which enough distinct nodes agree. `votes` are those that are known already.
    pub(super) async fn agree(
        &self,
        number: u64,
        votes: Vec<(usize, ProvenHeader)>,
    ) -> Result<ProvenHeader, ChainError> {
        let question = |line: Line| async move {
            let header = header_at(&line, number).await?;
            header.ok_or_else(|| Failure::Unknown(format!("block {number} is not known")))
        };
        let what = format!("final block {number}");
        self.elect(&what, votes, Patience::Thorough, question).await
    }

    /// What enough distinct nodes say alike; further ones are asked as long as too few do. `votes` are those that are
    /// known already, with the positions of the nodes in the settings.
    pub(super) async fn elect<T, F>(
        &self,
        what: &str,
        votes: Vec<(usize, T)>,
        patience: Patience,
        question: impl Fn(Line) -> F,
    ) -> Result<T, ChainError>
    where
        T: PartialEq,
        F: Future<Output = Result<T, Failure>>,
    {
        let wanted = (self.agreement_now(), T::eq);
        let (winner, most) = self.elect_by(what, wanted, votes, patience, question).await?;
        if most >= self.agreement {
            store(&self.agreed_at, Instant::now());
        }
        Ok(winner)
    }

    /// What so many distinct nodes confirm, and how many did. `confirms` compares the first vote with the second one, which
    /// may confirm it without being confirmed by it.
    pub(super) async fn elect_by<T, F>(
        &self,
        what: &str,
        (wanted, confirms): (usize, impl Fn(&T, &T) -> bool),
        mut votes: Vec<(usize, T)>,
        patience: Patience,
        question: impl Fn(Line) -> F,
    ) -> Result<(T, usize), ChainError>
    where
        F: Future<Output = Result<T, Failure>>,
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
            asked.extend(failures.iter().map(|(index, _): &(usize, Failure)| *index));
            let answers = self.ask_distinct(wanted - most, patience, &asked, &question).await;
            let is_over = answers.given.is_empty();
            failures.extend(answers.failures);
            votes.extend(answers.given);
            if is_over {
                return Err(match (votes.len(), is_split) {
                    (0, _) => self.sum_up(&failures),
                    (_, true) => ChainError::Disagreement {
                        network,
                        reason: format!("nodes show {what} differently"),
                    },
                    (given, false) => ChainError::Unavailable {
                        network,
                        reason: format!("{given} of {wanted} nodes that have to agree know the {what}"),
                    },
                });
            }
        }
    }
}

/// The `finalized` block; `None` when the node does not serve the tag.
fn tagged(answer: Result<Option<Box<RawValue>>, Failure>) -> Result<Option<ProvenHeader>, Failure> {
    match answer {
        Err(Failure::Refused { message, .. }) if tells_of_tag(&message) => Ok(None),
        answer => read_header(answer?),
    }
}

fn tells_of_tag(message: &str) -> bool {
    let message = message.to_lowercase();
    NO_TAG_TEXTS.iter().any(|text| message.contains(text))
}
