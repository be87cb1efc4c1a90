//! HTTP: the declared contract, one folder for each noun, and what holds for every call.
//!
//! A call passes [`edge`] (what holds for every socket), [`gate`] (who may) and [`forms`] (texts become values) before
//! the operation of its noun runs one flow; [`contract`] publishes what the nouns declare.

pub mod body;
pub mod call_id;
pub mod contract;
pub mod edge;
pub mod error;
mod files;
pub mod forms;
pub mod gate;
mod operation;
pub mod routes;
pub mod tags;

pub mod accounts;
pub mod api_keys;
pub mod client_ids;
pub mod currencies;
pub mod destinations;
pub mod dev;
pub mod events;
pub mod hosted;
pub mod payers;
pub mod payments;
pub mod payouts;
pub mod provider_callbacks;
pub mod requests;
pub mod secure_payments;
pub mod wallets;
pub mod webhooks;
