//! Operations of orchestrators, except those on their webhook endpoints.

pub mod client_ids;
pub mod fee_configs;
