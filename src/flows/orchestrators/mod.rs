//! Orchestrators: partners that serve several platforms, created by the operator, and their links to client IDs.

pub mod create;
pub mod disable;
pub mod link;
pub mod list_links;
pub mod unlink;
