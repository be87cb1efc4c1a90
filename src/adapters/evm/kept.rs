//! Blocks that were proven lately.

use crate::domain::payment::SettledBlock;
use alloy::primitives::B256;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Proven blocks that are kept for further attempts.
const KEPT_BLOCKS: usize = 64;

/// Blocks that were proven lately, so that an attempt that fails later does not ask for them again.
#[derive(Default)]
pub(super) struct Kept(Mutex<VecDeque<Arc<SettledBlock>>>);

impl Kept {
    pub(super) fn find(&self, hash: &B256) -> Option<SettledBlock> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|settled| settled.block.hash == *hash);
        found.map(|settled| settled.as_ref().clone())
    }

    pub(super) fn keep(&self, settled: &SettledBlock) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_BLOCKS {
            kept.pop_front();
        }
        kept.push_back(Arc::new(settled.clone()));
    }
}
