//! Payers, their bank accounts, and a partner that verifies both.

use super::{Answer, TestApp, app, off_ramp::Partner};
use poem::http::Method;
use prs::{
    domain::payer::{CompliancePayer, RegisteredAccount},
    flows::payers::follow,
    settings::{ChainSettings, Settings},
    store,
};
use serde_json::{Value, json};

/// The settings of [`TestApp::start`].
fn settings() -> Settings {
    let mut settings = app::settings();
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    settings
}

/// The service without a reachable chain, and its partner.
pub async fn with_partner() -> (TestApp, Partner) {
    with_partner_as(|_| {}).await
}

/// Like [`with_partner`], but the service waits only a quarter of the usual time for the partner. For tests in which
/// the partner does not respond.
pub async fn hurried_with_partner() -> (TestApp, Partner) {
    let (app, partner) = with_partner().await;
    (app.hurried(|waits| waits.partner /= 4).await, partner)
}

/// Like [`with_partner`], with other settings.
pub async fn with_partner_as(change: impl FnOnce(&mut Settings)) -> (TestApp, Partner) {
    let partner = Partner::start().await;
    let mut settings = partner.settings(settings());
    change(&mut settings);
    (TestApp::with(settings, None).await, partner)
}

/// The request body that registers a person. The person's details occur nowhere else, so that a leak can be found.
pub fn person(id: &str) -> Value {
    json!({
        "clientUserId": id, "email": "canary.payer@example.com", "firstName": "Canaryfirst",
        "lastName": "Canaryfamily", "beneficiaryType": "individual", "companyName": "Canary company",
        "dateOfBirth": "1961-07-13", "addressLine1": "Canary street 77", "addressLine2": "Canary floor 7",
        "city": "Canary city", "state": "Canary state", "postcode": "CANARY-8812", "country": "us",
        "nationality": "IS", "phone": "+12125558917", "ssn": "912-66-1187", "sourceOfFunds": "Canary funds",
        "businessActivity": "Canary activity",
    })
}

/// A bank account in dollars.
pub fn dollars(number: &str) -> Value {
    json!({
        "bankName": "Canary bank", "accountName": "Canary holder", "accountNumber": number,
        "routingNumber": "021000021", "beneficiaryType": "individual", "currency": "USD",
        "addressLine1": "Canary street 78", "addressLine2": "Canary floor 8", "city": "Canary town",
        "state": "Canary province", "country": "US", "dateOfBirth": "1962-08-14", "postalCode": "CANARY-9913",
        "documentNumber": "CANARYDOC-55", "documentType": "Canary document",
    })
}

/// A text encoded as a path segment.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The path of a payer.
pub fn path_of(id: &str) -> String {
    format!("/v2/payer/{}", encoded(id))
}

impl TestApp {
    /// Registers a payer.
    pub async fn register_payer(&self, body: &Value) -> Answer {
        self.post("/v2/payer").with_key().json(body).send().await
    }

    /// Reads a payer.
    pub async fn payer(&self, id: &str) -> Answer {
        self.get(&path_of(id)).with_key().send().await
    }

    /// Reports whether a payer agreed.
    pub async fn agree(&self, id: &str, body: &Value) -> Answer {
        let call = self.call(Method::PATCH, &path_of(id)).with_key();
        call.json(body).send().await
    }

    /// Erases a payer.
    pub async fn erase_payer(&self, id: &str) -> Answer {
        self.call(Method::DELETE, &path_of(id)).with_key().send().await
    }

    /// Adds a bank account.
    pub async fn add_account(&self, id: &str, body: &Value) -> Answer {
        let path = format!("{}/payment-details", path_of(id));
        self.post(&path).with_key().json(body).send().await
    }

    /// Adds a valid bank account; returns its id.
    pub async fn account_of(&self, id: &str, body: &Value) -> String {
        let added = self.add_account(id, body).await.expect(201);
        added["payment_detail"]["id"].as_str().expect("an id").to_owned()
    }

    /// The bank accounts of a payer.
    pub async fn accounts(&self, id: &str) -> Vec<Value> {
        let path = format!("{}/payment-details", path_of(id));
        let listed = self.get(&path).with_key().send().await.expect(200);
        listed["paymentDetails"].as_array().expect("a list").clone()
    }

    /// The stored row of a payer.
    pub async fn stored_payer(&self, id: &str) -> CompliancePayer {
        let found = store::payers::find(self.ctx.db.writer(), &self.platform, id).await;
        found.expect("reads").expect("a payer")
    }

    /// The stored bank accounts of a payer.
    pub async fn stored_accounts(&self, id: &str) -> Vec<RegisteredAccount> {
        let payer = self.stored_payer(id).await;
        let found = store::bank_accounts::list(self.ctx.db.writer(), &self.platform, &payer.id).await;
        found.expect("reads")
    }

    /// The id that the partner has given to a payer.
    pub async fn partner_id(&self, id: &str) -> String {
        self.stored_payer(id).await.details.partner
    }

    /// Sends all due queries to the partner.
    pub async fn follow_payers(&self) {
        while follow::step(&self.ctx).await.expect("asks") {}
    }

    /// The event bodies of a kind, oldest first.
    pub async fn told(&self, kind: &str) -> Vec<Value> {
        let path = format!("/v2/events?limit=100&event={kind}");
        let listed = self.get(&path).with_key().send().await.expect(200);
        let events = listed["events"].as_array().expect("a list");
        let body = |event: &Value| serde_json::from_str(event["body"].as_str().expect("text")).expect("JSON");
        events.iter().rev().map(body).collect()
    }
}
