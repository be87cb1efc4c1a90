//! Provisioning by the operator.

pub mod api_keys;
pub mod create;
pub mod rate_tier;
