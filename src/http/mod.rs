//! HTTP: the API contract, with one folder for each resource, and the rules for every call.
//!
//! A call passes [`edge`] (rules for every socket), [`gate`] (access control) and [`forms`] (parsing) before the
//! operation of its resource runs one flow; [`contract`] publishes what the resources declare.

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
pub mod orchestrators;
pub mod payers;
pub mod payments;
pub mod payouts;
pub mod provider_callbacks;
pub mod requests;
pub mod secure_payments;
pub mod wallets;
pub mod webhooks;
