//! The stage of the payer benchmarks: a service with one tenant, and its partner.

use std::ops::Range;

use prs::settings::{ChainSettings, Settings};
use serde_json::{Value, json};

use super::partner::Partner;
use crate::database::BenchDatabase;
use crate::load;
use crate::service::{self, Running, Tenant};

/// A separate service with one tenant in an otherwise empty database, and a partner.
pub(super) struct Stage {
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) database: BenchDatabase,
    pub(super) settings: Settings,
    pub(super) partner: Partner,
    pub(super) tenant: Tenant,
    pub(super) folder: tempfile::TempDir,
}

impl Stage {
    pub(super) fn set() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let database = runtime.block_on(BenchDatabase::create())?;
        let partner = Partner::start()?;
        let mut settings = service::settings(database.url.clone())?;
        partner.known_to(&mut settings);
        // The network must be enabled; creating a request calls no node.
        let chain = ChainSettings {
            rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
            ..ChainSettings::default()
        };
        settings.chains.insert("sepolia".to_owned(), chain);
        let tenant = runtime.block_on(service::seed(&settings))?;
        Ok(Self {
            runtime,
            database,
            settings,
            partner,
            tenant,
            folder: tempfile::tempdir()?,
        })
    }

    pub(super) fn serve(&self, role: &str) -> anyhow::Result<Running> {
        Running::serve(&self.settings, role, self.folder.path())
    }

    pub(super) fn key(&self) -> [(&'static str, &str); 1] {
        [("x-api-key", &self.tenant.api_key)]
    }

    /// The call that registers the payer with this number.
    pub(super) fn registration(&self, service: &Running, number: usize) -> Vec<u8> {
        load::post(service.address, "/v2/payer", &self.key(), &person(number).to_string())
    }

    /// Has the service register the payers with these numbers.
    pub(super) fn register(&self, service: &Running, numbers: Range<usize>) -> anyhow::Result<()> {
        let count = numbers.len();
        let calls = numbers.map(|number| self.registration(service, number)).collect();
        load::run_each(service.address, calls, (load::CONNECTIONS, count), 200)?;
        Ok(())
    }

    pub(super) fn strike(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.database.remove())
    }
}

/// The id of a payer, which is the same at the tenant and at the partner.
pub(super) fn name(number: usize) -> String {
    format!("payer-{number}")
}

fn person(number: usize) -> Value {
    json!({
        "clientUserId": name(number), "email": format!("{}@example.com", name(number)), "firstName": "Ada",
        "lastName": "Lovelace", "beneficiaryType": "individual", "dateOfBirth": "1985-12-12",
        "addressLine1": "123 Main Street", "city": "New York", "state": "NY", "postcode": "10001", "country": "US",
        "nationality": "US", "phone": "+12125550123", "ssn": "123-45-6789",
    })
}
