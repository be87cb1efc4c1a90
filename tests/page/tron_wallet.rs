//! The Tron wallet of the payer: responds to the requests that the page sends to `tron_wallet.js`, and signs with a key
//! of the local chain.

use alloy::{
    primitives::B256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use serde_json::{Value, json};

/// Chain id of Tron in the format of wallets.
const CHAIN: &str = "0x2b6653dc";

/// Selector of the call that pays.
const PAYMENT: &str = "c219a14d";

/// A change of a transaction before the wallet signs it.
type WalletChange = fn(&mut Value);

/// State of the Tron wallet in the browser.
pub struct InjectedTronWallet {
    /// Selected account.
    pub account: String,
    /// Selected chain; `None` for a wallet that does not report it.
    pub chain: Option<&'static str>,
    /// The response to requests for the account, if it is not the account.
    pub access: Option<Result<Value, Value>>,
    /// The error that the next request to sign gets.
    pub refusal: Option<Value>,
    /// Whether requests to sign a payment wait in `held`.
    pub holds: bool,
    /// Requests to sign that have no response yet.
    pub held: Vec<Value>,
    /// A change of every transaction that the wallet signs.
    pub change: Option<WalletChange>,
    /// All signed transactions.
    pub signed: Vec<Value>,
    key: PrivateKeySigner,
}

impl InjectedTronWallet {
    /// The wallet of an account of the local chain, as `prs dev` lists it.
    pub fn new(account: &Value) -> Self {
        let text = |member: &str| account[member].as_str().expect("a text").to_owned();
        Self {
            account: text("address"),
            chain: Some(CHAIN),
            access: None,
            refusal: None,
            holds: false,
            held: Vec::new(),
            change: None,
            signed: Vec::new(),
            key: text("privateKey").parse().expect("a key"),
        }
    }

    /// The response to a request; `None` while the owner of the wallet has not decided. `Err` holds the error that the
    /// page gets.
    pub fn answer(&mut self, ask: &Value) -> Option<Result<Value, Value>> {
        let refused = |code: i64| Err(json!({ "code": code, "message": "no" }));
        let method = ask["method"].as_str().unwrap_or_default();
        if let (true, Some(access)) = (method.ends_with("_requestAccounts"), &self.access) {
            return Some(access.clone());
        }
        Some(match method {
            "tron:eth_requestAccounts" => Ok(json!([self.account])),
            "tron:tron_requestAccounts" => Ok(json!({ "code": 200, "message": "ok" })),
            "tron:eth_chainId" => self.chain.map_or_else(|| refused(4200), |chain| Ok(json!(chain))),
            "tron:sign" if self.holds && is_payment(&ask["params"][0]) => {
                self.held.push(ask.clone());
                return None;
            }
            "tron:sign" => match self.refusal.take() {
                Some(refusal) => Err(refusal),
                None => Ok(self.sign(&ask["params"][0])),
            },
            _ => refused(4200),
        })
    }

    /// The signed transactions that pay.
    pub fn payments(&self) -> Vec<&Value> {
        self.signed.iter().filter(|signed| is_payment(signed)).collect()
    }

    /// The transaction with the signature of the wallet.
    pub fn sign(&mut self, transaction: &Value) -> Value {
        let mut signed = transaction.clone();
        if let Some(change) = self.change {
            change(&mut signed);
        }
        let id: B256 = signed["txID"].as_str().expect("an id").parse().expect("a hash");
        let signature = self.key.sign_hash_sync(&id).expect("a signature");
        signed["signature"] = json!([hex::encode(signature.as_bytes())]);
        self.signed.push(signed.clone());
        signed
    }
}

fn is_payment(transaction: &Value) -> bool {
    let data = transaction["raw_data"]["contract"][0]["parameter"]["value"]["data"].as_str();
    data.is_some_and(|data| data.starts_with(PAYMENT))
}
