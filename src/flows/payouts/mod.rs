//! Payouts: somebody is paid without a request that was created before.

pub mod batch;
pub mod create;
