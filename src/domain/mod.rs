//! Values and rules. No I/O, no clock reads, no serde, no HTTP words, no floats.
#![deny(clippy::float_arithmetic)]

pub mod address;
pub mod amount;
pub mod calldata;
pub mod caller;
pub mod caps;
pub mod client_id;
pub mod client_limits;
pub mod conversion;
pub mod conversion_call;
pub mod currency;
pub mod destination;
pub mod event;
pub mod fees;
pub mod guesses;
pub mod handed_out;
pub mod ids;
pub mod interop_address;
pub mod ledger;
pub mod name;
pub mod network;
pub mod oddity;
pub mod pair;
pub mod payment;
pub mod quota;
pub mod quote;
pub mod rate;
pub mod rates;
pub mod recovery;
pub mod reference;
pub mod refusal;
pub mod registration;
pub mod request;
pub mod session;
pub mod webhook;
pub(crate) mod wire_text;
