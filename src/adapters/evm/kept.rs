//! Blocks that were proven lately.

use crate::domain::payment::SettledBlock;
use alloy::primitives::B256;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Proven blocks that are kept for further attempts.
const KEPT_BLOCKS: usize = 64;

/// Failures in a row that are kept: more blocks than are proven in one step.
const KEPT_FAILURES: usize = 1_024;

/// Blocks that were proven lately, so that an attempt that fails later does not ask for them again, and those whose
/// content no node delivered.
#[derive(Default)]
pub(super) struct Kept {
    proven: Mutex<VecDeque<Arc<SettledBlock>>>,
    failed: Mutex<VecDeque<B256>>,
}

impl Kept {
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

    /// Notes that no node delivered the content of a block; tells whether that was noted before.
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
