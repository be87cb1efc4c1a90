//! Tables as sea-orm entities, one module for each table: columns and the relations that joins need, nothing else.
//!
//! Identifiers and amounts are text. Amounts hold the decimal digits of an unsigned 256-bit number, because no numeric
//! column type keeps such a number on both databases; they are added up in Rust.

pub mod accounts;
pub mod bank_accounts;
pub mod chain_backlogs;
pub mod chain_blocks;
pub mod chain_cursors;
pub mod chain_leaders;
pub mod chain_quarantine;
pub mod client_ids;
pub mod deliveries;
pub mod delivery_attempts;
pub mod delivery_queue;
pub mod destination_nonces;
pub mod event_keys;
pub mod events;
pub mod former_payment_parties;
pub mod former_payments;
pub mod handed_out;
pub mod idempotency_keys;
pub mod invites;
pub mod key_material;
pub mod keys;
pub mod known_devices;
pub mod observations;
pub mod off_ramp_orders;
pub mod off_ramp_quotes;
pub mod orchestrators;
pub mod payee_destinations;
pub mod payer_keys;
pub mod payers;
pub mod payment_groups;
pub mod payment_parties;
pub mod payment_wallets;
pub mod payments;
pub mod platforms;
pub mod quotes;
pub mod rate_tiers;
pub mod rates;
pub mod relay_bids;
pub mod relay_transactions;
pub mod requests;
pub mod schedule_executions;
pub mod schedules;
pub mod screening_questions;
pub mod screenings;
pub mod secure_payment_intents;
pub mod secure_payment_items;
pub mod secure_payment_refusals;
pub mod secure_payments;
pub mod sessions;
pub mod wallet_challenges;
pub mod wallets;
pub mod webhook_endpoints;
