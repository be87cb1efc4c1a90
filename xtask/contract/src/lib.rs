//! Compares OpenAPI documents by meaning.

pub mod compat;
pub mod conformance;
pub mod deviations;
mod document;
pub mod rules;
