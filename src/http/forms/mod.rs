//! Forms of what comes in and goes out: texts become values with every wrong field named at once, values become bodies.

pub mod body;
pub mod branding;
pub mod calldata;
pub mod idempotency;
pub mod json;
pub mod null;
mod overlong;
pub mod paging;
pub mod payer_step;
pub mod payment;
pub mod reason;
pub mod recurrence;
pub mod reply;
pub mod shape;
pub mod text;
pub mod wire;
pub mod words;
