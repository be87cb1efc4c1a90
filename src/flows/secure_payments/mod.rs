//! Secure payments: links by which whoever has the token pays.
//!
//! What is read, paid and reported by token begins with [`opened::by_token`]; who may is asked in [`access::decide`] alone.

pub mod access;
pub mod attempt;
pub mod create;
pub mod create_batch_payout;
pub mod create_payout;
pub mod expire;
pub mod find;
pub mod forget;
mod made;
pub mod open;
pub mod opened;
mod options;
pub mod paid;
pub mod pay;
pub mod preview_fees;
pub mod record_intent;
pub mod screen;
mod tell;
pub mod user_event;
pub mod withdraw;

pub use made::Made;
