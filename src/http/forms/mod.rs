//! Shared forms of inputs and outputs: parse texts into values, and write values as members of bodies.

pub mod branding;
pub mod calldata;
pub mod estimates;
pub mod handout;
pub mod null;
pub mod paging;
pub mod payer_step;
pub mod payment;
pub mod reason;
pub mod recurrence;
pub mod shape;
pub mod signed_transaction;
pub mod text;
pub mod unsigned;
pub mod wire;
pub mod words;
