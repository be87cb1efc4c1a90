//! The line that `prs dev --json` prints when it is ready.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::service::client::Client;

/// The JSON that `prs dev --json` prints when it is ready.
pub struct Ready(Value);

impl Ready {
    /// Parses the line of standard output.
    pub fn parse(line: &str) -> Result<Self> {
        let value = serde_json::from_str(line).with_context(|| format!("`prs dev --json` printed `{line}`"))?;
        Ok(Self(value))
    }

    /// The line as text.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// A string member by JSON pointer.
    pub fn member(&self, pointer: &str) -> Result<&str> {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .with_context(|| format!("`prs dev --json` names no {pointer}"))
    }

    /// An object by JSON pointer.
    pub fn object(&self, pointer: &str) -> Result<&serde_json::Map<String, Value>> {
        let object = self.0.pointer(pointer).and_then(Value::as_object);
        object.with_context(|| format!("`prs dev --json` names no {pointer}"))
    }

    /// A client that calls with a credential of the tenant that `prs dev` creates. `header` is the credential's header,
    /// and `pointer` is the JSON pointer to its value.
    pub fn client(&self, header: &'static str, pointer: &str) -> Result<Client> {
        let headers = vec![(header, self.member(pointer)?.to_owned())];
        Ok(Client::new(self.member("/baseUrl")?, headers))
    }

    /// The address of an unlocked account of the local chain.
    pub fn account(&self, index: usize) -> Result<&str> {
        self.member(&format!("/chain/accounts/{index}/address"))
    }
}

/// The request that the printed curl command and the demonstration create.
pub fn sample_request(payee: &str) -> Value {
    json!({"payee": payee, "amount": "1.5", "invoiceCurrency": "FAU-sepolia", "paymentCurrency": "FAU-sepolia"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_member_is_named() {
        let ready = Ready::parse(r#"{"apiKey": "k", "chain": {"accounts": [{"address": "0x1"}]}}"#).unwrap();
        assert_eq!(ready.member("/apiKey").unwrap(), "k");
        assert_eq!(ready.account(0).unwrap(), "0x1");
        assert!(
            ready
                .account(1)
                .unwrap_err()
                .to_string()
                .contains("/chain/accounts/1/address")
        );
    }
}
