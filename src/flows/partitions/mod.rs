//! Monthly partitions of growing tables: created before the month begins, dropped when they are old. Source: ADR-0019.

mod ahead;
mod retire;

pub use ahead::run as look_ahead;
pub use retire::run as retire;
