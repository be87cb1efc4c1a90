//! Migrations of the database, oldest first. Each one runs in a transaction on both databases and can be undone.

pub use sea_orm_migration::{MigrationStatus, prelude::*};

mod m20261202_0001_create_platforms;
mod m20261202_0002_create_accounts;
mod m20261202_0003_create_key_material;
mod m20261202_0004_create_destinations;
mod m20261202_0005_create_requests;
mod m20261202_0006_create_rates;
mod m20261202_0007_create_payments;
mod m20261202_0008_create_chains;
mod m20261202_0009_create_schedules;
mod m20261202_0010_create_events;
mod m20261202_0011_create_webhooks;
mod m20261202_0012_create_secure_payments;
mod m20261202_0013_create_payers;
mod m20261202_0014_create_off_ramp;
mod m20261203_0015_link_orchestrators;
mod m20261203_0016_create_fee_configs;
mod m20261204_0017_lock_links_for_safes;
mod m20261204_0018_keep_multicalls;
mod m20261204_0019_keep_payment_sources;
mod months;
mod tables;

/// Applies and undoes the migrations.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261202_0001_create_platforms::MIGRATION),
            Box::new(m20261202_0002_create_accounts::MIGRATION),
            Box::new(m20261202_0003_create_key_material::MIGRATION),
            Box::new(m20261202_0004_create_destinations::MIGRATION),
            Box::new(m20261202_0005_create_requests::MIGRATION),
            Box::new(m20261202_0006_create_rates::MIGRATION),
            Box::new(m20261202_0007_create_payments::MIGRATION),
            Box::new(m20261202_0008_create_chains::MIGRATION),
            Box::new(m20261202_0009_create_schedules::MIGRATION),
            Box::new(m20261202_0010_create_events::Migration),
            Box::new(m20261202_0011_create_webhooks::Migration),
            Box::new(m20261202_0012_create_secure_payments::MIGRATION),
            Box::new(m20261202_0013_create_payers::MIGRATION),
            Box::new(m20261202_0014_create_off_ramp::MIGRATION),
            Box::new(m20261203_0015_link_orchestrators::Migration),
            Box::new(m20261203_0016_create_fee_configs::Migration),
            Box::new(m20261204_0017_lock_links_for_safes::Migration),
            Box::new(m20261204_0018_keep_multicalls::Migration),
            Box::new(m20261204_0019_keep_payment_sources::Migration),
        ]
    }
}
