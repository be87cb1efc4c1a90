//! The partner that verifies payers and pays their bank accounts, over HTTP as described in docs/partners/offramp.md.

mod answers;
mod http;
mod questions;
#[cfg(test)]
mod tests;

pub use http::{HttpOffRamp, HttpOffRampOptions, OPERATIONS, OUTCOMES};
