//! Bodies of webhooks: each event body is rendered once, then stored, signed and sent unchanged.

pub mod endpoints;
mod forms;
mod kinds;
pub mod orchestrators;
mod pattern;
pub mod payers;
pub mod payments;
mod persons;
mod placeholders;
pub mod progress;
mod received;
mod render;
pub mod secure_payments;
mod words;

pub use forms::ProcessorNames;
pub use kinds::{KINDS, PayloadKind, body, sample};
pub use persons::without_persons;

#[cfg(test)]
mod tests;
