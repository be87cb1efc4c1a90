//! Orchestrators: partners that build on several platforms, provisioned by the operator.

pub mod create;
