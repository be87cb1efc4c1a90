//! Secure payments: links that anyone with their token can pay.
//!
//! Reads, payments and reports by token start with [`opened::by_token`]; [`access::decide`] alone decides who may pay.

pub mod access;
pub mod attempt;
pub mod broadcast;
pub mod create;
pub mod create_batch_payout;
pub mod create_multicall;
pub mod create_payout;
pub mod expire;
pub mod find;
pub mod forget;
mod made;
pub mod multicall;
pub mod open;
pub mod opened;
mod options;
pub mod paid;
pub mod pay;
pub mod preview_fees;
pub mod record_intent;
pub mod release;
mod safe;
pub mod screen;
mod tell;
pub mod user_event;
pub mod withdraw;

pub use made::CreatedSecurePayment;
