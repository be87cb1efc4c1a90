//! The partner that proves payers and pays their bank accounts, over HTTP in the shapes of docs/partners/offramp.md.

mod answers;
mod http;
mod questions;
#[cfg(test)]
mod tests;

pub use http::{HttpOffRamp, HttpOffRampOptions, OPERATIONS, OUTCOMES};
