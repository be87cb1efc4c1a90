//! The owner of the wallet: answers what the page asks, and sends through the node of the local chain.

use crate::support::dev::Dev;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Chain of the link, as wallets write it.
pub const CHAIN: &str = "0xaa36a7";

/// A wallet that does not answer as it should.
#[derive(Clone)]
pub struct Failure {
    /// What it was asked.
    pub method: &'static str,
    /// Whether it sends.
    pub is_sent: bool,
    /// What it answers. Errors: the error, or the text `nothing` for a rejection without one.
    pub answer: Result<Value, Value>,
}

/// A wallet in the browser.
pub struct Wallet {
    /// Its account.
    pub account: String,
    /// The chain that it is on.
    pub chain: String,
    /// Whether it knows the chain of the link.
    pub knows_chain: bool,
    /// Whether it has shown its account to the page.
    pub is_connected: bool,
    /// What it says of calls that are made together.
    pub atomic: Option<&'static str>,
    /// Codes with which the next questions of a method are refused.
    pub refusals: HashMap<&'static str, i64>,
    /// What it says to the next question of a method that it may send, and whether it sends it.
    pub failure: Option<Failure>,
    /// Methods that are left without an answer.
    pub silent: Option<&'static str>,
    /// After this question it goes to another network.
    pub leaves_after: Option<&'static str>,
    /// Another account that sends what it is asked for.
    pub carrier: Option<String>,
    /// What it shows of every transaction, instead of what its node knows.
    pub shown: Option<Value>,
    /// What it says of all calls that are made together. Errors: the code.
    pub calls_status: Option<Result<Value, i64>>,
    /// Every method that was asked.
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

    /// How often a method was asked.
    pub fn count(&self, method: &str) -> usize {
        self.asked.iter().filter(|asked| *asked == method).count()
    }

    /// What the wallet says to a question; `None` while its owner thinks. Errors: what it throws.
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
                assert_eq!(params[0]["chainId"], CHAIN, "asked for another network");
                let mut params = params.clone();
                if let Some(carrier) = &self.carrier {
                    params[0]["from"] = json!(carrier);
                }
                let hash = dev.ask_node(method, params).await;
                match hash.is_string() {
                    true => {
                        self.sent = Some(hash.clone());
                        Ok(hash)
                    }
                    false => Err(-32000),
                }
            }
            _ => Ok(dev.ask_node(method, params.clone()).await),
        })
    }

    /// Sends calls in one block: the node has no wallet that makes one transaction of them.
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
