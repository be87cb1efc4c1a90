//! Cache of recently proven blocks.

use crate::domain::payment::SettledBlock;
use alloy::primitives::B256;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Maximum number of proven blocks cached for further attempts.
const KEPT_BLOCKS: usize = 64;

/// Maximum number of remembered failures, larger than the number of blocks that are proven in one step.
const KEPT_FAILURES: usize = 1_024;

/// Recently proven blocks, so that a retry does not read such a block again. Also remembers the hashes of blocks whose
/// content no node returned.
#[derive(Default)]
pub(super) struct ProvenBlocks {
    proven: Mutex<VecDeque<Arc<SettledBlock>>>,
    failed: Mutex<VecDeque<B256>>,
}

impl ProvenBlocks {
    pub(super) fn find(&self, hash: &B256) -> Option<SettledBlock> {
        let kept = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|settled| settled.block.hash == *hash);
        found.map(|settled| settled.as_ref().clone())
    }

    pub(super) fn keep(&self, settled: &SettledBlock) {
        let mut kept = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_BLOCKS {
            kept.pop_front();
        }
        kept.push_back(Arc::new(settled.clone()));
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|hash| *hash != settled.block.hash);
    }

    /// Records that no node returned the content of a block; returns whether the same failure was already recorded.
    pub(super) fn has_failed_again(&self, hash: B256) -> bool {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.contains(&hash) {
            return true;
        }
        if failed.len() == KEPT_FAILURES {
            failed.pop_front();
        }
        failed.push_back(hash);
        false
    }
}
