//! The Tron wallet of the payer: responds to the requests that the page sends to `tron_wallet.js`, and signs with a key
//! of the local chain.

use alloy::{
    primitives::B256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use serde_json::{Value, json};

/// Chain id of Tron in the format of wallets.
const CHAIN: &str = "0x2b6653dc";

/// Code with which a wallet reports that its owner rejected a request.
const REJECTED: i64 = 4001;

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
    /// Whether the owner rejects the next transaction.
    pub rejects: bool,
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
            rejects: false,
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
        Some(match ask["method"].as_str().unwrap_or_default() {
            "tron:eth_requestAccounts" => Ok(json!([self.account])),
            "tron:tron_requestAccounts" => Ok(json!({ "code": 200, "message": "ok" })),
            "tron:eth_chainId" => self.chain.map_or_else(|| refused(4200), |chain| Ok(json!(chain))),
            "tron:sign" if self.holds && is_payment(&ask["params"][0]) => {
                self.held.push(ask.clone());
                return None;
            }
            "tron:sign" if std::mem::take(&mut self.rejects) => refused(REJECTED),
            "tron:sign" => Ok(self.sign(&ask["params"][0])),
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
