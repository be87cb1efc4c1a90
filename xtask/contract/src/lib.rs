//! Compares OpenAPI documents by meaning, and writes their schemas for validators.

pub mod compat;
pub mod deviations;
mod document;
pub mod exceptions;
mod meaning;
pub mod published;
pub mod rules;
pub mod score;
pub mod turned;
pub mod validation;
mod walk;
