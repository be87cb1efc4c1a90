//! A range of blocks.

/// Heights of consecutive blocks, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRange {
    /// First height.
    pub from: u64,
    /// Last height.
    pub to: u64,
}

impl BlockRange {
    /// The range of one block.
    pub const fn single(height: u64) -> Self {
        Self {
            from: height,
            to: height,
        }
    }
}
