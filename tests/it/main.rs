//! The integration suite: HTTP to the real router on a real database, with a fixed clock and seeded ids.
//!
//! `PRS_TEST_DATABASE` chooses `sqlite` (the default) or `postgres`; the latter needs `PRS_TEST_POSTGRES_URL`, an
//! address at which databases may be created. `cargo xtask test` provides both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

mod secrets;
#[path = "../support/mod.rs"]
mod support;

mod absence;
mod access;
mod access_persons;
mod accounts;
mod ahead;
mod api_keys;
mod at_rest;
mod bad_input;
mod batch;
mod browser;
mod cancel;
mod caps;
mod client_ids;
mod client_ids_change;
mod client_limits;
mod clock_jumps;
mod contract_wallets;
mod conversion_math;
mod counted_payments;
mod create_once;
mod currencies;
mod destinations;
mod destinations_bound;
mod dev_room;
mod documents;
mod events;
mod events_kinds;
mod export;
mod fair_shares;
mod growth;
mod guesses;
mod guides;
mod handed_out;
mod health;
mod idempotency;
mod leaders;
mod links;
mod links_access;
mod links_caps;
mod links_credentials;
mod links_fees;
mod links_input;
mod links_on_the_way;
mod links_races;
mod links_states;
mod links_strangers;
mod links_table;
mod log_lines;
mod off_ramp_partner;
mod orchestrators;
mod origins;
mod pay;
mod payments;
mod payout_fees;
mod payouts;
mod platform_webhooks;
mod process;
mod public_clients;
mod quarantine;
mod quotes;
mod rate_limits;
mod rates;
mod rates_accepted;
mod reconcile;
mod recovery;
mod refusals;
mod registration;
mod reorg;
mod repeats;
mod requests;
mod restart;
mod reversal;
mod rotation;
mod schedule_turns;
mod schedules;
mod schedules_in_step;
mod schedules_public;
mod screening;
mod search;
mod sessions;
mod sessions_manage;
mod sign_in_message;
mod standard_webhooks;
mod strict_clients;
mod vectors;
mod webhooks;
mod who_asked;
