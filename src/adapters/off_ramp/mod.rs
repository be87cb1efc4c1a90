//! The partner that proves payers and pays their bank accounts, over HTTP in the shapes of docs/partners/offramp.md, and the
//! partner of `prs dev`, which speaks them.

mod answers;
mod http;
mod questions;
pub mod sandbox;
pub mod teller;
#[cfg(test)]
mod tests;

pub use http::{HttpOffRamp, HttpOffRampOptions, OPERATIONS, OUTCOMES};
