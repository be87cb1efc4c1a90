//! The catalogue as callers see it.

pub mod list;
pub mod routes;
