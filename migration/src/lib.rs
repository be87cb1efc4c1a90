//! Migrations of the database, oldest first. Each one runs in a transaction on both databases and can be undone.

pub use sea_orm_migration::{MigrationStatus, prelude::*};

mod m20261121_0001_create_platforms;
mod m20261121_0002_create_requests;
mod m20261121_0003_create_chain;
mod m20261121_0004_create_webhooks;
mod m20261121_0006_keep_event_log;
mod m20261121_0007_add_orchestrators;
mod m20261121_0008_add_sessions;
mod m20261121_0009_add_destinations;
mod m20261121_0010_add_rate_tiers;
mod m20261121_0011_join_keys;
mod m20261121_0012_index_deliveries;
mod m20261122_0013_drop_answer_status;
mod m20261122_0014_index_queue_and_log;
mod m20261122_0015_know_payments_by_position;
mod m20261122_0016_keep_handed_out;
mod m20261122_0017_add_quarantine;
mod m20261122_0018_mark_reversed_payments;
mod m20261122_0019_keep_who_asked;
mod m20261122_0020_seal_personal_details;
mod m20261122_0021_know_what_was_told;
mod m20261122_0022_add_invites;
mod m20261122_0023_count_wallet_checks;
mod m20261122_0024_know_devices;
mod m20261122_0025_measure_quarantined;
mod m20261122_0026_lead_chains;
mod m20261122_0027_recover_deliveries;
mod m20261122_0028_choose_header_prefix;
mod m20261122_0029_limit_client_ids;
mod m20261122_0030_approve_endpoints;
mod m20261122_0031_note_failed_tries;
mod m20261122_0032_add_schedules;
mod m20261122_0033_repeat_requests;
mod m20261122_0034_keep_rates;
mod m20261122_0035_keep_quotes;
mod m20261122_0036_keep_protocol_fees;
mod m20261122_0037_index_accepted_rates;
mod m20261122_0038_keep_who_asked_for_quotes;
mod m20261122_0039_know_quoted_payments;
mod m20261122_0040_divide_tries;
mod m20261122_0041_divide_events;
mod m20261122_0042_queue_deliveries;
mod m20261122_0043_limit_schedules;
mod m20261122_0044_index_relayer;
mod m20261122_0045_divide_deliveries;
mod m20261122_0046_search_payments;
mod m20261123_0047_add_secure_payments;
mod m20261123_0048_keep_screenings;
mod m20261123_0052_index_events_of_clients;
mod m20261123_0053_index_hiding_links;
mod m20261123_0054_add_payers;
mod m20261123_0055_add_off_ramp;
mod m20261123_0057_index_links_of_clients;
mod m20261124_0056_mark_hidden;
mod m20261124_0058_bind_requests;
mod m20261127_0059_note_calls_in_flight;
mod m20261128_0060_note_registrations;
mod m20261128_0061_index_quotes;
mod m20261128_0062_page_attempts;
mod m20261128_0063_fix_price_terms;
mod m20261128_0064_count_awaited_items;
mod m20261128_0065_note_where_set_up;
mod m20261129_0066_note_payer_access;
mod m20261129_0067_index_sessions;
mod months;
mod tables;

/// Applies and undoes the migrations.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261121_0001_create_platforms::Migration),
            Box::new(m20261121_0002_create_requests::Migration),
            Box::new(m20261121_0003_create_chain::Migration),
            Box::new(m20261121_0004_create_webhooks::Migration),
            Box::new(m20261121_0006_keep_event_log::Migration),
            Box::new(m20261121_0007_add_orchestrators::Migration),
            Box::new(m20261121_0008_add_sessions::Migration),
            Box::new(m20261121_0009_add_destinations::Migration),
            Box::new(m20261121_0010_add_rate_tiers::Migration),
            Box::new(m20261121_0011_join_keys::Migration),
            Box::new(m20261121_0012_index_deliveries::Migration),
            Box::new(m20261122_0013_drop_answer_status::Migration),
            Box::new(m20261122_0014_index_queue_and_log::Migration),
            Box::new(m20261122_0015_know_payments_by_position::Migration),
            Box::new(m20261122_0016_keep_handed_out::Migration),
            Box::new(m20261122_0017_add_quarantine::Migration),
            Box::new(m20261122_0018_mark_reversed_payments::Migration),
            Box::new(m20261122_0019_keep_who_asked::Migration),
            Box::new(m20261122_0020_seal_personal_details::Migration),
            Box::new(m20261122_0021_know_what_was_told::Migration),
            Box::new(m20261122_0022_add_invites::Migration),
            Box::new(m20261122_0023_count_wallet_checks::Migration),
            Box::new(m20261122_0024_know_devices::Migration),
            Box::new(m20261122_0025_measure_quarantined::Migration),
            Box::new(m20261122_0026_lead_chains::Migration),
            Box::new(m20261122_0027_recover_deliveries::Migration),
            Box::new(m20261122_0028_choose_header_prefix::Migration),
            Box::new(m20261122_0029_limit_client_ids::Migration),
            Box::new(m20261122_0030_approve_endpoints::Migration),
            Box::new(m20261122_0031_note_failed_tries::Migration),
            Box::new(m20261122_0032_add_schedules::Migration),
            Box::new(m20261122_0033_repeat_requests::Migration),
            Box::new(m20261122_0034_keep_rates::Migration),
            Box::new(m20261122_0035_keep_quotes::Migration),
            Box::new(m20261122_0036_keep_protocol_fees::Migration),
            Box::new(m20261122_0037_index_accepted_rates::Migration),
            Box::new(m20261122_0038_keep_who_asked_for_quotes::Migration),
            Box::new(m20261122_0039_know_quoted_payments::Migration),
            Box::new(m20261122_0040_divide_tries::Migration),
            Box::new(m20261122_0041_divide_events::Migration),
            Box::new(m20261122_0042_queue_deliveries::Migration),
            Box::new(m20261122_0043_limit_schedules::Migration),
            Box::new(m20261122_0044_index_relayer::Migration),
            Box::new(m20261122_0045_divide_deliveries::Migration),
            Box::new(m20261122_0046_search_payments::Migration),
            Box::new(m20261123_0047_add_secure_payments::Migration),
            Box::new(m20261123_0048_keep_screenings::Migration),
            Box::new(m20261123_0052_index_events_of_clients::Migration),
            Box::new(m20261123_0053_index_hiding_links::Migration),
            Box::new(m20261123_0054_add_payers::Migration),
            Box::new(m20261123_0055_add_off_ramp::Migration),
            Box::new(m20261124_0056_mark_hidden::Migration),
            Box::new(m20261123_0057_index_links_of_clients::Migration),
            Box::new(m20261124_0058_bind_requests::Migration),
            Box::new(m20261127_0059_note_calls_in_flight::Migration),
            Box::new(m20261128_0060_note_registrations::Migration),
            Box::new(m20261128_0061_index_quotes::Migration),
            Box::new(m20261128_0062_page_attempts::Migration),
            Box::new(m20261128_0063_fix_price_terms::Migration),
            Box::new(m20261128_0064_count_awaited_items::Migration),
            Box::new(m20261128_0065_note_where_set_up::Migration),
            Box::new(m20261129_0066_note_payer_access::Migration),
            Box::new(m20261129_0067_index_sessions::Migration),
        ]
    }
}
