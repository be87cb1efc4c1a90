//! Shared test support: the application under test, a webhook receiver, a fixed clock.

pub mod app;
pub mod bent;
#[allow(dead_code, reason = "not every binary that shares this drives one")]
pub mod browser;
pub mod chain;
pub mod clock;
pub mod contract;
pub mod database;
#[allow(dead_code, reason = "not every binary that shares this starts one")]
pub mod dev;
#[allow(dead_code, reason = "not every binary that shares this draws numbers")]
pub mod dice;
#[allow(dead_code, reason = "not every binary that shares this sends events")]
pub mod events;
#[allow(dead_code, reason = "not every binary that shares this sets prices on the chain")]
pub mod feeds;
#[allow(dead_code, reason = "not every binary that shares this pays bank accounts")]
pub mod fiat;
#[allow(dead_code, reason = "not every binary that shares this reads the log")]
pub mod lines;
#[allow(dead_code, reason = "not every binary that shares this makes links")]
pub mod links;
#[allow(dead_code, reason = "not every binary that shares this pays several links at once")]
pub mod multicalls;
#[allow(dead_code, reason = "not every binary that shares this has a partner")]
pub mod off_ramp;
#[allow(dead_code, reason = "not every binary that shares this has payers")]
pub mod payers;
#[allow(dead_code, reason = "not every binary that shares this passes a port to a program")]
pub mod ports;
#[allow(dead_code, reason = "not every binary that shares this runs it")]
pub mod program;
#[allow(dead_code, reason = "not every binary that shares this runs them")]
pub mod published;
#[allow(dead_code, reason = "not every binary that shares this reads rates")]
pub mod rates;
pub mod receiver;
pub mod requests;
#[allow(dead_code, reason = "not every binary that shares this has Safes")]
pub mod safes;
#[allow(dead_code, reason = "not every binary that shares this repeats payments")]
pub mod schedules;
#[allow(dead_code, reason = "not every binary that shares this has screening providers")]
pub mod screening;
pub mod secrets;
pub mod session;
#[allow(dead_code, reason = "not every binary that shares this pays on Tron")]
pub mod tron_calls;
pub mod wallet;
#[allow(dead_code, reason = "not every binary that shares this holds responses back")]
pub mod wire;

#[allow(unused_imports, reason = "not every binary that shares this reads responses itself")]
pub use app::{Answer, TestApp};
