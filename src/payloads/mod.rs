//! Bodies of webhooks: what each event says, rendered once, stored, signed and sent unchanged.

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

pub use forms::Names;
pub use kinds::{KINDS, Kind, body, sample};
pub use persons::without_persons;

#[cfg(test)]
mod tests;
