//! A chain that withholds a part of what its nodes say.

use async_trait::async_trait;
use prs::{
    domain::{
        network::Network,
        payment::{BlockRef, Finality, SettledBlock},
    },
    ports::chain::{Chain, ChainError, NewBlock, Tip, Told},
};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What happens at some moment.
pub type Happening = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is withheld.
#[derive(Debug, Clone, Copy, Default)]
pub struct Withheld {
    /// Blocks near the head.
    pub head: bool,
    /// Every event of a list of final blocks.
    pub events: bool,
    /// The proof of each block.
    pub proofs: bool,
    /// That enough nodes move with the chain.
    pub pace: bool,
}

/// A chain that withholds something.
pub struct Bent {
    /// The chain as it is.
    pub chain: Arc<dyn Chain>,
    /// What is withheld.
    pub withheld: Withheld,
    /// What happens before the first list of events is asked for.
    pub before_list: Mutex<Option<Happening>>,
    /// What happens before blocks near the head are first asked for.
    pub before_blocks: Mutex<Option<Happening>>,
    /// Lists of events that are left before the nodes are gone.
    pub lists_left: AtomicUsize,
}

impl Bent {
    /// The chain as it is, with nothing withheld.
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

    async fn tip(&self, known: Option<Finality>) -> Result<Tip, ChainError> {
        let tip = self.chain.tip(known).await?;
        Ok(Tip {
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

    async fn told(&self, from: u64, to: u64, proves_absence: bool) -> Result<Told, ChainError> {
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
        let mut told = self.chain.told(from, to, proves_absence).await?;
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
