//! Payments to bank accounts: a service on its own chain, the scripted off-ramp partner, and helpers that create payers
//! and approved accounts.

use super::{
    Answer, TestApp,
    app::settings,
    chain::{PAYER, transactions},
    off_ramp::Partner,
};
use alloy::primitives::U256;
use chrono::TimeDelta;
use prs::{flows::off_ramp::ask, ports::off_ramp::OffRampError};
use serde_json::{Value, json};
use std::time::Duration;

/// The id that the tenant uses for the payer.
pub const CLIENT_USER: &str = "ada+1@example.com";

/// The service and its partner.
pub struct Fiat {
    /// The service.
    pub app: TestApp,
    /// The partner.
    pub partner: Partner,
}

/// The body of a payer. The family name selects how the partner behaves towards the payer.
pub fn person(client_user_id: &str, family_name: &str) -> Value {
    json!({
        "clientUserId": client_user_id, "email": "ada@example.com", "firstName": "Ada", "lastName": family_name,
        "beneficiaryType": "individual", "dateOfBirth": "1985-12-12", "addressLine1": "12 Analytical Way",
        "city": "New York", "state": "NY", "postcode": "10001", "country": "US", "nationality": "US",
        "phone": "+12125550123", "ssn": "123-45-6789",
    })
}

/// The body of a bank account. The last digits of its number select how the partner behaves towards the account.
pub fn bank_account(ending: &str) -> Value {
    json!({
        "bankName": "First Engine Bank", "accountName": "Ada Lovelace", "accountNumber": format!("55512{ending}"),
        "routingNumber": "021000021", "beneficiaryType": "individual", "currency": "usd",
        "addressLine1": "12 Analytical Way", "city": "New York", "state": "NY", "country": "US",
        "dateOfBirth": "1985-12-12", "postalCode": "10001", "rails": "local", "accountType": "checking",
    })
}

/// The body of a request that pays a bank account.
pub fn for_bank(amount: &str) -> Value {
    json!({
        "amount": amount, "invoiceCurrency": "USDC-sepolia", "paymentCurrency": "USDC-sepolia",
        "isCryptoToFiatAvailable": true,
    })
}

fn encoded(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string()
}

impl Fiat {
    /// A service and its partner.
    pub async fn start() -> Self {
        Self::with(|_| ()).await
    }

    /// Like [`Self::start`], with other settings.
    pub async fn with(change: impl FnOnce(&mut prs::settings::Settings)) -> Self {
        Self::final_after(1, change).await
    }

    /// Starts a service with its partner, on a chain whose payments are final after this number of blocks.
    pub async fn final_after(blocks: u64, change: impl FnOnce(&mut prs::settings::Settings)) -> Self {
        let partner = Partner::start().await;
        let mut settings = partner.settings(settings());
        change(&mut settings);
        let app = TestApp::on_chain_as(settings, blocks).await;
        Self { app, partner }
    }

    /// Mines blocks, and follows the chain after each.
    pub async fn mine(&self, blocks: u64) {
        for _ in 0..blocks {
            self.app.devnet().mine(1).await.expect("mined");
            self.app.follow().await;
        }
    }

    /// Advances the clocks of the service and of its partner; the partner then sends callbacks about changes.
    pub async fn pass(&self, seconds: i64) {
        self.app.clock.advance(TimeDelta::seconds(seconds));
        self.partner.tell_due(&self.app).await;
    }

    /// Registers a payer with the API key.
    pub async fn register(&self, client_user_id: &str, family_name: &str) -> Answer {
        let call = self.app.post("/v2/payer").with_key();
        call.json(&person(client_user_id, family_name)).send().await
    }

    /// Adds a bank account; returns its id.
    pub async fn add_account(&self, client_user_id: &str, ending: &str) -> String {
        let path = format!("/v2/payer/{}/payment-details", encoded(client_user_id));
        let added = self
            .app
            .post(&path)
            .with_key()
            .json(&bank_account(ending))
            .send()
            .await
            .expect(201);
        added["payment_detail"]["id"].as_str().expect("an id").to_owned()
    }

    /// Registers a payer and gets it approved; returns the id of an approved bank account whose number has this ending.
    pub async fn compliant(&self, client_user_id: &str, ending: &str) -> String {
        self.register(client_user_id, "Approved").await.expect(200);
        for _ in 0..4 {
            self.pass(1).await;
        }
        let account = self.add_account(client_user_id, ending).await;
        for _ in 0..3 {
            self.pass(1).await;
        }
        account
    }

    /// Creates a request with the API key.
    pub async fn request(&self, amount: &str) -> String {
        let call = self.app.post("/v2/request").with_key();
        let created = call.json(&for_bank(amount)).send().await.expect(201);
        created["requestId"].as_str().expect("an id").to_owned()
    }

    /// Requests the calldata that pays a request to a bank account of a payer.
    pub async fn ask(&self, request: &str, client_user_id: &str, account: &str, query: &str) -> Answer {
        let wallet = self.app.account(PAYER);
        let user = encoded(client_user_id);
        let path =
            format!("/v2/request/{request}/pay?wallet={wallet}&clientUserId={user}&paymentDetailsId={account}{query}");
        self.app.get(&path).with_key().send().await
    }

    /// Pays a request with the issued calldata and follows the chain.
    pub async fn pay(&self, request: &str, account: &str) {
        let calldata = self.ask(request, CLIENT_USER, account, "").await.expect(200);
        self.send(&calldata).await;
    }

    /// Sends issued calldata and follows the chain.
    pub async fn send(&self, calldata: &Value) {
        self.send_changed(calldata, |_| ()).await;
    }

    /// Sends issued calldata in which the token amount `from` is replaced with `to`.
    pub async fn send_units(&self, calldata: &Value, from: u64, to: u64) {
        let (from, to) = (U256::from(from).to_be_bytes::<32>(), U256::from(to).to_be_bytes::<32>());
        let changed = |data: &mut Vec<u8>| {
            let place = data.windows(32).position(|word| word == from).expect("the units");
            data[place..place + 32].copy_from_slice(&to);
        };
        self.send_changed(calldata, changed).await;
    }

    async fn send_changed(&self, calldata: &Value, change: impl Fn(&mut Vec<u8>)) {
        let mut steps = transactions(calldata);
        let last = steps.last_mut().expect("a payment");
        change(&mut last.1);
        let receipts = self.app.devnet().pay(PAYER, &steps).await.expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status), "a step failed");
        self.app.follow().await;
    }

    /// Runs the worker at the current time of the clock.
    pub async fn work(&self) {
        while ask::run(&self.app.ctx).await.expect("orders are followed") {}
    }

    /// Repeats these steps: run the worker, advance the clock a second, send the partner's callbacks.
    pub async fn seconds(&self, times: usize) {
        for _ in 0..times {
            self.work().await;
            self.pass(1).await;
        }
    }

    /// Waits until the service calls the partner again after a failure. The pause in between is measured by the clock
    /// of the machine.
    pub async fn partner_is_tried_again(&self) {
        let partner = self.app.ctx.partners.off_ramp.as_deref().expect("a partner");
        while partner.payer("unknown").await != Err(OffRampError::Unknown) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// State of a request.
    pub async fn status(&self, request: &str) -> String {
        self.app.read_request(request).await["status"]
            .as_str()
            .expect("a state")
            .to_owned()
    }

    /// Events of a request, oldest first: the kind of each, followed by its sub-status if it has one.
    pub async fn told(&self, request: &str) -> Vec<String> {
        self.events(request).await.iter().map(named).collect()
    }

    /// Event bodies of a request, oldest first, without scoped variants.
    pub async fn events(&self, request: &str) -> Vec<Value> {
        let path = format!("/v2/events?requestId={request}&limit=100");
        let listed = self.app.get(&path).with_key().send().await.expect(200);
        let newest_first = listed["events"].as_array().expect("a list");
        let body = |event: &Value| serde_json::from_str(event["body"].as_str().expect("a text")).expect("JSON");
        let mut bodies: Vec<Value> = newest_first.iter().rev().map(body).collect();
        bodies.retain(|body| !body["event"].as_str().is_some_and(|kind| kind.ends_with(".client_id")));
        bodies
    }

    /// Orders as the operator sees them.
    pub async fn orders(&self, all: bool) -> Vec<prs::flows::off_ramp::list::OrderSummary> {
        let wanted = prs::flows::off_ramp::list::OrderFilter { all, silent: false };
        prs::flows::off_ramp::list::run(&self.app.ctx, wanted)
            .await
            .expect("a list")
    }
}

fn named(body: &Value) -> String {
    let kind = body["event"].as_str().expect("a kind");
    match body["subStatus"].as_str().filter(|status| !status.is_empty()) {
        Some(status) => format!("{kind} {status}"),
        None => kind.to_owned(),
    }
}
