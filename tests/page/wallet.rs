//! The wallet of the payer: responds to the requests of the page and sends transactions through the local chain's node.

use crate::support::dev::Dev;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Chain id of the link in the format of wallets.
pub const CHAIN: &str = "0xaa36a7";

/// One faulty response of a wallet.
#[derive(Clone)]
pub struct Failure {
    /// Method of the request.
    pub method: &'static str,
    /// Whether the wallet sends the transaction in spite of the faulty response.
    pub is_sent: bool,
    /// The response of the wallet. `Err` holds the error, or the text `nothing` for a rejection without an error.
    pub answer: Result<Value, Value>,
}

/// State of the wallet in the browser.
pub struct Wallet {
    /// Selected account.
    pub account: String,
    /// Selected chain.
    pub chain: String,
    /// Whether the wallet knows the chain of the link.
    pub knows_chain: bool,
    /// Whether the wallet shares its account with the page.
    pub is_connected: bool,
    /// Reported support for atomic batches.
    pub atomic: Option<&'static str>,
    /// Error codes for refusing the next requests, by method.
    pub refusals: HashMap<&'static str, i64>,
    /// The faulty response to the next request of one method.
    pub failure: Option<Failure>,
    /// Method that gets no response.
    pub silent: Option<&'static str>,
    /// The wallet switches to another network after a request of this method.
    pub leaves_after: Option<&'static str>,
    /// Another account of the same wallet; it sends the transactions in place of the connected account.
    pub carrier: Option<String>,
    /// Transaction data that the wallet returns for every hash, in place of the data of the node.
    pub shown: Option<Value>,
    /// The status that the wallet reports for every call batch. `Err` holds an error code.
    pub calls_status: Option<Result<Value, i64>>,
    /// All requested methods.
    pub asked: Vec<String>,
    /// Hash of the last transaction.
    pub sent: Option<Value>,
    bundles: HashMap<String, Vec<Value>>,
}

impl Wallet {
    pub fn new(account: &str) -> Self {
        Self {
            account: account.to_owned(),
            chain: CHAIN.to_owned(),
            knows_chain: true,
            is_connected: false,
            atomic: None,
            refusals: HashMap::new(),
            failure: None,
            silent: None,
            leaves_after: None,
            carrier: None,
            shown: None,
            calls_status: None,
            asked: Vec::new(),
            sent: None,
            bundles: HashMap::new(),
        }
    }

    /// How often a method was requested.
    pub fn count(&self, method: &str) -> usize {
        self.asked.iter().filter(|asked| *asked == method).count()
    }

    /// The response to a request; `None` while the owner of the wallet has not decided. `Err` holds the error that the
    /// page gets.
    pub async fn answer(&mut self, dev: &Dev, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        if let Some(failure) = self.failure.take_if(|failure| failure.method == method) {
            if failure.is_sent {
                self.said(dev, method, params).await;
            } else {
                self.asked.push(method.to_owned());
            }
            return Some(failure.answer);
        }
        let said = self.said(dev, method, params).await?;
        Some(said.map_err(|code| json!({ "code": code, "message": "no" })))
    }

    async fn said(&mut self, dev: &Dev, method: &str, params: &Value) -> Option<Result<Value, i64>> {
        self.asked.push(method.to_owned());
        if self.silent == Some(method) {
            return None;
        }
        if let Some(code) = self.refusals.remove(method) {
            return Some(Err(code));
        }
        if self.leaves_after == Some(method) {
            "0x1".clone_into(&mut self.chain);
        }
        Some(match method {
            "eth_requestAccounts" => {
                self.is_connected = true;
                Ok(json!([self.account]))
            }
            "eth_accounts" if self.is_connected => Ok(json!([self.account])),
            "eth_accounts" => Ok(json!([])),
            "eth_chainId" => Ok(json!(self.chain)),
            "wallet_switchEthereumChain" if !self.knows_chain => Err(4902),
            "wallet_switchEthereumChain" => {
                CHAIN.clone_into(&mut self.chain);
                Ok(Value::Null)
            }
            "wallet_addEthereumChain" => {
                assert!(params[0]["rpcUrls"][0].is_string(), "{params}");
                self.knows_chain = true;
                Ok(Value::Null)
            }
            "wallet_getCapabilities" => match self.atomic {
                Some(status) => Ok(json!({ CHAIN: { "atomic": { "status": status } } })),
                None => Err(-32601),
            },
            "wallet_sendCalls" => Ok(self.together(dev, &params[0]["calls"]).await),
            "wallet_getCallsStatus" if self.calls_status.is_some() => self.calls_status.clone()?,
            "wallet_getCallsStatus" => Ok(self.state(dev, params[0].as_str().expect("an id")).await),
            "eth_getTransactionCount" if self.chain != CHAIN => Ok(json!("0x1f4")),
            "eth_getTransactionByHash" if self.shown.is_some() => Ok(self.shown.clone()?),
            "eth_sendTransaction" => {
                assert_eq!(params[0]["chainId"], CHAIN, "requested on another network");
                let mut params = params.clone();
                if let Some(carrier) = &self.carrier {
                    params[0]["from"] = json!(carrier);
                }
                let hash = dev.ask_node(method, params).await;
                if hash.is_string() {
                    self.sent = Some(hash.clone());
                    Ok(hash)
                } else {
                    Err(-32000)
                }
            }
            _ => Ok(dev.ask_node(method, params.clone()).await),
        })
    }

    /// Sends the calls of a batch in one block, because the node cannot send them in one transaction.
    async fn together(&mut self, dev: &Dev, calls: &Value) -> Value {
        dev.ask_node("evm_setAutomine", json!([false])).await;
        let mut hashes = Vec::new();
        for call in calls.as_array().expect("calls") {
            let call = json!({ "from": self.account, "to": call["to"], "data": call["data"], "value": call["value"], "gas": "0x4c4b40" });
            hashes.push(dev.ask_node("eth_sendTransaction", json!([call])).await);
        }
        dev.ask_node("evm_mine", json!([])).await;
        dev.ask_node("evm_setAutomine", json!([true])).await;
        let id = format!("0x{:064x}", self.bundles.len() + 1);
        self.bundles.insert(id.clone(), hashes);
        json!({ "id": id })
    }

    async fn state(&self, dev: &Dev, id: &str) -> Value {
        let mut receipts = Vec::new();
        for hash in &self.bundles[id] {
            receipts.push(dev.ask_node("eth_getTransactionReceipt", json!([hash])).await);
        }
        let is_good = receipts.iter().all(|receipt| receipt["status"] == "0x1");
        json!({ "version": "2.0.0", "id": id, "status": if is_good { 200 } else { 500 }, "receipts": receipts })
    }
}
