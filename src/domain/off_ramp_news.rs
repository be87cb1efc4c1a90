//! What becomes of news that the off-ramp partner told.

/// What came of one piece of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It changed what is known, and was told on.
    Changed,
    /// It was known already, or was overtaken by what is known.
    Nothing,
    /// It is of a record that is not known here, or not yet: the partner sends it again.
    Unknown,
}
