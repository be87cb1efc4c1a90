//! Helpers to create payment requests.

use super::TestApp;
use serde_json::{Value, json};

/// Payee of the tests.
pub const PAYEE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// The body of a request.
pub fn request(amount: &str, invoice_currency: &str, payment_currency: &str) -> Value {
    json!({ "payee": PAYEE, "amount": amount, "invoiceCurrency": invoice_currency, "paymentCurrency": payment_currency })
}

/// The body of a request in the test token with 18 decimals.
pub fn fau(amount: &str) -> Value {
    request(amount, "FAU-sepolia", "FAU-sepolia")
}

impl TestApp {
    /// Creates a request with the backend client ID and returns its id.
    pub async fn create_request(&self, body: &Value) -> String {
        self.create_request_as(("x-client-id", &self.backend_client), body)
            .await
    }

    /// Creates a request with a credential and returns its id.
    pub async fn create_request_as(&self, credential: (&str, &str), body: &Value) -> String {
        let call = self.post("/v2/request").header(credential.0, credential.1);
        let created = call.json(body).send().await.expect(201);
        created["requestId"].as_str().expect("an id").to_owned()
    }

    /// Creates a request in the test token and pays it in full; returns its id. The payment is mined, but the service
    /// has not detected it yet.
    pub async fn paid_request(&self, amount: &str) -> String {
        let id = self.create_request(&fau(amount)).await;
        self.pay(&id, "").await;
        id
    }

    /// Reads a request with the API key.
    pub async fn read_request(&self, id: &str) -> Value {
        let call = self.get(&format!("/v2/request/{id}")).with_key();
        call.send().await.expect(200)
    }
}
