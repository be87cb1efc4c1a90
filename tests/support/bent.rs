//! A chain adapter that withholds a part of what its nodes return.

use async_trait::async_trait;
use prs::{
    domain::{
        network::Network,
        payment::{BlockRef, Finality, SettledBlock},
    },
    ports::chain::{Chain, ChainError, ChainTip, NewBlock, ReportedEvents},
};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// An action that a test runs at a given moment.
pub type Happening = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is withheld.
#[derive(Debug, Clone, Copy, Default)]
pub struct Withheld {
    /// Withholds blocks near the head.
    pub head: bool,
    /// Withholds every event in lists of final blocks.
    pub events: bool,
    /// Withholds the proof of each block.
    pub proofs: bool,
    /// Withholds the report that enough nodes are at the head of the chain.
    pub pace: bool,
}

/// A chain adapter that withholds data.
pub struct Bent {
    /// The unmodified chain.
    pub chain: Arc<dyn Chain>,
    /// What is withheld.
    pub withheld: Withheld,
    /// Runs before the first list of events is requested.
    pub before_list: Mutex<Option<Happening>>,
    /// Runs before blocks near the head are first requested.
    pub before_blocks: Mutex<Option<Happening>>,
    /// Number of further event lists that the chain returns; after them, all nodes are unreachable.
    pub lists_left: AtomicUsize,
}

impl Bent {
    /// The chain adapter `chain` with nothing withheld.
    pub fn of(chain: &Arc<dyn Chain>) -> Self {
        Self {
            chain: chain.clone(),
            withheld: Withheld::default(),
            before_list: Mutex::default(),
            before_blocks: Mutex::default(),
            lists_left: AtomicUsize::new(usize::MAX),
        }
    }
}

#[async_trait]
impl Chain for Bent {
    fn network(&self) -> Network {
        self.chain.network()
    }

    fn start_block(&self) -> Option<u64> {
        self.chain.start_block()
    }

    async fn tip(&self, known: Option<Finality>) -> Result<ChainTip, ChainError> {
        let tip = self.chain.tip(known).await?;
        Ok(ChainTip {
            is_current: tip.is_current && !self.withheld.pace,
            ..tip
        })
    }

    fn forget_final(&self) {
        self.chain.forget_final();
    }

    async fn block(&self, number: u64) -> Result<Option<BlockRef>, ChainError> {
        self.chain.block(number).await
    }

    async fn agreed(&self, number: u64) -> Result<BlockRef, ChainError> {
        self.chain.agreed(number).await
    }

    async fn new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError> {
        let happening = self.before_blocks.lock().expect("unpoisoned").take();
        if let Some(happening) = happening {
            happening.await;
        }
        if self.withheld.head {
            return Err(ChainError::Unavailable {
                network: self.network(),
                reason: "withheld".to_owned(),
            });
        }
        self.chain.new_blocks(from, to).await
    }

    async fn list_events(&self, from: u64, to: u64, proves_absence: bool) -> Result<ReportedEvents, ChainError> {
        let happening = self.before_list.lock().expect("unpoisoned").take();
        if let Some(happening) = happening {
            happening.await;
        }
        let left = self
            .lists_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            return Err(ChainError::Unavailable {
                network: self.network(),
                reason: "gone".to_owned(),
            });
        }
        let mut told = self.chain.list_events(from, to, proves_absence).await?;
        if self.withheld.events {
            told.hints.clear();
        }
        Ok(told)
    }

    async fn settled(&self, number: u64) -> Result<SettledBlock, ChainError> {
        if self.withheld.proofs {
            return Err(ChainError::Malformed {
                network: self.network(),
                reason: "withheld".to_owned(),
            });
        }
        self.chain.settled(number).await
    }

    async fn settled_all(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)> {
        if !self.withheld.proofs {
            return self.chain.settled_all(numbers).await;
        }
        let mut answers = Vec::new();
        for number in numbers {
            answers.push((*number, self.settled(*number).await));
        }
        answers
    }

    async fn noted(&self, block: &BlockRef) -> Result<SettledBlock, ChainError> {
        self.chain.noted(block).await
    }
}
