//! Provisioning by the operator.

pub mod create;
pub mod rate_tier;
