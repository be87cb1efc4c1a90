//! Compares OpenAPI documents by meaning.

pub mod compat;
pub mod conformance;
pub mod deviations;
mod document;
mod meaning;
pub mod rules;
mod walk;
