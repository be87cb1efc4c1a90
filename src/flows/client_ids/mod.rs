//! Client IDs in their first form: create and list.

pub mod create;
pub mod list;
