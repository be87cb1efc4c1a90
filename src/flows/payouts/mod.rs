//! Payouts: a caller pays a recipient without an existing request.

pub mod batch;
pub mod create;
