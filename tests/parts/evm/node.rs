//! A node as a test wants it: honest, failing or lying.

use alloy::{
    primitives::{Address as EvmAddress, B256, Bloom, Bytes, U256, keccak256},
    sol,
    sol_types::{SolEvent, SolValue},
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Request, Respond, ResponseTemplate};

sol! {
    event TransferWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
    event Transfer(address indexed from, address indexed to, uint256 value);
}

pub const CHAIN_ID: u64 = 31_337;

pub const FEE_PROXY: EvmAddress = EvmAddress::repeat_byte(0xfe);

pub const RATES: EvmAddress = EvmAddress::repeat_byte(0xaa);

pub const TOKEN: EvmAddress = EvmAddress::repeat_byte(0x70);

pub const PAYER: EvmAddress = EvmAddress::repeat_byte(0x0a);

pub const PAYEE: EvmAddress = EvmAddress::repeat_byte(0x0b);

/// Time of block 0; blocks follow every twelve seconds.
pub const GENESIS_S: u64 = 1_800_000_000;

/// A payment of `units` in a transaction of its own.
pub fn payment(block: u64, index: u64, units: u64) -> Vec<Value> {
    let transfer = Transfer {
        from: PAYER,
        to: PAYEE,
        value: U256::from(units),
    };
    let paid = TransferWithReferenceAndFee {
        tokenAddress: TOKEN,
        to: PAYEE,
        amount: U256::from(units),
        paymentReference: keccak256(units.to_be_bytes()),
        feeAmount: U256::ZERO,
        feeAddress: EvmAddress::ZERO,
    };
    vec![
        log(TOKEN, &transfer, block, index, index * 2),
        log(FEE_PROXY, &paid, block, index, index * 2 + 1),
    ]
}

pub fn log(address: EvmAddress, event: &impl SolEvent, block: u64, tx_index: u64, log_index: u64) -> Value {
    let encoded = event.encode_log_data();
    json!({
        "address": address,
        "topics": encoded.topics(),
        "data": encoded.data,
        "blockNumber": format!("0x{block:x}"),
        "blockHash": hash(block, 0),
        "transactionHash": tx_hash(block, tx_index),
        "transactionIndex": format!("0x{tx_index:x}"),
        "logIndex": format!("0x{log_index:x}"),
        "removed": false,
    })
}

pub fn hash(block: u64, fork: u64) -> B256 {
    keccak256(format!("block {block} of {fork}"))
}

pub fn tx_hash(block: u64, index: u64) -> B256 {
    keccak256(format!("transaction {index} of {block}"))
}

pub fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// What a node serves, and how it lies.
#[derive(Clone)]
pub struct Served {
    pub chain_id: u64,
    pub blocks: u64,
    pub finalized: Option<u64>,
    /// From this block on the hashes are others.
    pub fork_from: u64,
    pub logs: Vec<Value>,
    pub lie: Lie,
    pub calls: Vec<Value>,
}

impl Served {
    pub fn honest(blocks: u64) -> Self {
        Self {
            chain_id: CHAIN_ID,
            blocks,
            finalized: Some(blocks.saturating_sub(20)),
            fork_from: u64::MAX,
            logs: Vec::new(),
            lie: Lie::Nothing,
            calls: Vec::new(),
        }
    }

    pub fn with_payments(blocks: u64, payments: &[(u64, u64, u64)]) -> Self {
        let logs = payments
            .iter()
            .flat_map(|(block, index, units)| payment(*block, *index, *units));
        Self {
            logs: logs.collect(),
            ..Self::honest(blocks)
        }
    }

    pub fn lying(&self, lie: Lie) -> Self {
        Self { lie, ..self.clone() }
    }

    pub fn hash(&self, block: u64) -> B256 {
        hash(block, u64::from(block >= self.fork_from))
    }

    pub fn block(&self, block: u64) -> Value {
        if block > self.blocks || self.lie == Lie::NullBlocks {
            return Value::Null;
        }
        let mut bloom = Bloom::ZERO;
        for log in self.logs.iter().filter(|log| number(&log["blockNumber"]) == block) {
            let topics: Vec<B256> = serde_json::from_value(log["topics"].clone()).unwrap();
            bloom.accrue_raw_log(serde_json::from_value(log["address"].clone()).unwrap(), &topics);
        }
        let said = if self.lie == Lie::WrongNumbers {
            block + 1
        } else {
            block
        };
        let time_s = match self.lie {
            Lie::BlockTime(time_s) => time_s,
            _ => GENESIS_S + block * 12,
        };
        json!({
            "number": format!("0x{said:x}"),
            "hash": self.hash(block),
            "parentHash": block.checked_sub(1).map_or(B256::repeat_byte(1), |parent| self.hash(parent)),
            "timestamp": format!("0x{time_s:x}"),
            "logsBloom": bloom,
            "transactions": [],
        })
    }

    pub fn logs(&self, filter: &Value) -> Result<Value, (i64, &'static str)> {
        if filter["address"].as_array().is_some_and(Vec::is_empty) {
            panic!("an empty list of addresses means every contract to some nodes");
        }
        let wanted = |log: &Value| {
            let in_list = |list: &Value, value: &Value| list.as_array().is_none_or(|list| list.contains(value));
            let in_block = match &filter["blockHash"] {
                Value::Null => {
                    (number(&filter["fromBlock"])..=number(&filter["toBlock"])).contains(&number(&log["blockNumber"]))
                }
                hash => log["blockHash"] == *hash,
            };
            in_block && in_list(&filter["address"], &log["address"]) && in_list(&filter["topics"][0], &log["topics"][0])
        };
        if filter["blockHash"].is_null() {
            let asked = number(&filter["toBlock"]) - number(&filter["fromBlock"]) + 1;
            match self.lie {
                Lie::LimitsBlocks(limit) if asked > limit => return Err((-32_602, "range limit exceeded")),
                Lie::RefusesEveryRange => return Err((-32_602, "query returned more than 10000 results")),
                _ => {}
            }
        }
        let mut logs: Vec<Value> = self.logs.iter().filter(|log| wanted(log)).cloned().collect();
        match self.lie {
            Lie::EmptyLogs => logs.clear(),
            Lie::DropsHalfOfTheLogs => {
                let mut position = 0;
                logs.retain(|_| {
                    position += 1;
                    position % 2 == 0
                });
            }
            Lie::DuplicatesLogs => logs = logs.iter().flat_map(|log| [log.clone(), log.clone()]).collect(),
            Lie::ShufflesLogs => logs.reverse(),
            Lie::LogsOfAnotherBlock => logs
                .iter_mut()
                .for_each(|log| log["blockHash"] = json!(B256::repeat_byte(0xab))),
            Lie::LogsOfAnotherContract => logs
                .iter_mut()
                .for_each(|log| log["address"] = json!(EvmAddress::repeat_byte(0x99))),
            Lie::LogsWithoutPlace => logs.iter_mut().for_each(|log| log["transactionHash"] = Value::Null),
            _ => {}
        }
        Ok(json!(logs))
    }

    pub fn receipt(&self, tx: &Value) -> Value {
        let mut logs: Vec<Value> = self
            .logs
            .iter()
            .filter(|log| log["transactionHash"] == *tx)
            .cloned()
            .collect();
        let Some(first) = logs.first().cloned().filter(|_| self.lie != Lie::NullReceipts) else {
            return Value::Null;
        };
        let mut bloom = Bloom::ZERO;
        for log in &logs {
            let topics: Vec<B256> = serde_json::from_value(log["topics"].clone()).unwrap();
            bloom.accrue_raw_log(serde_json::from_value(log["address"].clone()).unwrap(), &topics);
        }
        if self.lie == Lie::DropsReceiptLogs {
            logs.pop();
        }
        json!({
            "transactionHash": tx, "blockHash": first["blockHash"], "blockNumber": first["blockNumber"],
            "status": "0x1", "from": PAYER, "to": FEE_PROXY, "logsBloom": bloom, "logs": logs,
        })
    }

    pub fn contract_call(&self, request: &Value) -> Result<Value, (i64, &'static str)> {
        if self.lie == Lie::Reverts {
            return Err((3, "execution reverted: No aggregator found"));
        }
        let data: Bytes = serde_json::from_value(request["data"].clone()).unwrap();
        Ok(match data[..4] {
            [0x70, 0xa0, 0x82, 0x31] => json!(Bytes::from(U256::from(700).abi_encode())),
            [0xdd, 0x62, 0xed, 0x3e] => json!(Bytes::from(U256::from(300).abi_encode())),
            [0xfb, 0xd4, 0x12, 0x2a] => json!(Bytes::from((U256::from(42), U256::from(GENESIS_S)).abi_encode())),
            _ => json!("0x"),
        })
    }

    pub fn answer(&self, method: &str, params: &Value) -> Result<Value, (i64, &'static str)> {
        if self.lie == Lie::RefusesWithStatus200 {
            return Err((-32_005, "rate limited"));
        }
        match method {
            "eth_chainId" => Ok(json!(format!("0x{:x}", self.chain_id))),
            "eth_getBlockByNumber" => match params[0].as_str().unwrap() {
                "latest" => Ok(self.block(self.blocks)),
                "finalized" => match self.finalized {
                    Some(block) => Ok(self.block(block)),
                    None => Err((-32_000, "finalized block not found")),
                },
                text => Ok(self.block(number(&json!(text)))),
            },
            "eth_getBlockByHash" => {
                let found = (0..=self.blocks).find(|block| json!(self.hash(*block)) == params[0]);
                Ok(found.map_or(Value::Null, |block| self.block(block)))
            }
            "eth_getLogs" => self.logs(&params[0]),
            "eth_getTransactionReceipt" => Ok(self.receipt(&params[0])),
            "eth_getTransactionByHash" => Ok(match self.receipt(&params[0]) {
                Value::Null => Value::Null,
                receipt => {
                    json!({ "hash": params[0], "blockHash": receipt["blockHash"], "from": PAYER, "to": FEE_PROXY })
                }
            }),
            "eth_call" => self.contract_call(&params[0]),
            "eth_getBalance" => Ok(json!("0x64")),
            "eth_gasPrice" => Ok(json!("0x7")),
            _ => Err((-32_601, "no such method")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Lie {
    Nothing,
    Status(u16),
    RefusesWithStatus200,
    Garbage,
    Hangs,
    EmptyLogs,
    DropsHalfOfTheLogs,
    DuplicatesLogs,
    ShufflesLogs,
    LogsOfAnotherBlock,
    LogsOfAnotherContract,
    LogsWithoutPlace,
    NullBlocks,
    WrongNumbers,
    BlockTime(u64),
    LimitsBlocks(u64),
    RefusesEveryRange,
    Reverts,
    NullReceipts,
    DropsReceiptLogs,
}

/// A node whose behaviour can change while it runs.
#[derive(Clone)]
pub struct FakeNode(pub Arc<Mutex<Served>>);

impl FakeNode {
    pub fn change(&self, change: impl FnOnce(&mut Served)) {
        change(&mut self.0.lock().unwrap());
    }

    pub fn calls(&self, method: &str) -> Vec<Value> {
        let served = self.0.lock().unwrap();
        let calls = served.calls.iter().filter(|call| call["method"] == method);
        calls.cloned().collect()
    }
}

impl Respond for FakeNode {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let call: Value = serde_json::from_slice(&request.body).unwrap();
        let mut served = self.0.lock().unwrap();
        served.calls.push(call.clone());
        match served.lie {
            Lie::Status(status) => return ResponseTemplate::new(status),
            Lie::Garbage => return ResponseTemplate::new(200).set_body_string("<html>welcome</html>"),
            Lie::Hangs => return ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
            _ => {}
        }
        ResponseTemplate::new(200).set_body_json(
            match served.answer(call["method"].as_str().unwrap(), &call["params"]) {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
                Err((code, message)) => {
                    json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } })
                }
            },
        )
    }
}
