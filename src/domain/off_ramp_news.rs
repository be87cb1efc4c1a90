//! Results of news from the off-ramp partner.

/// Result of one piece of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsResult {
    /// The news changed the state, and the change was reported.
    Changed,
    /// The news was already known, or is outdated.
    Nothing,
    /// The service does not know the record, or does not know it yet. The partner sends the news again.
    Unknown,
}
