//! A node for a test: honest, failing or returning false data.

use alloy::{
    consensus::{
        Eip658Value, Header, Receipt, ReceiptEnvelope, SignableTransaction, TxEnvelope, TxLegacy,
        proofs::{calculate_receipt_root, calculate_transaction_root},
        transaction::SignerRecoverable,
    },
    primitives::{Address as EvmAddress, B256, Bloom, Bytes, Log, Signature, TxKind, U64, U256, b256, keccak256},
    sol,
    sol_types::{SolEvent, SolValue},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
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

/// Time of block 0 in seconds since 1970; each further block is twelve seconds later.
pub const GENESIS_S: u64 = 1_800_000_000;

/// The events that a payment of this number of units emits.
pub fn payment(units: u64) -> Vec<Log> {
    let transfer = Transfer {
        from: PAYER,
        to: PAYEE,
        value: U256::from(units),
    };
    let paid = TransferWithReferenceAndFee {
        tokenAddress: TOKEN,
        to: PAYEE,
        amount: U256::from(units),
        paymentReference: reference(units),
        feeAmount: U256::ZERO,
        feeAddress: EvmAddress::ZERO,
    };
    vec![log(TOKEN, &transfer), log(FEE_PROXY, &paid)]
}

/// The reference topic of the payment of this number of units. The tests derive it from the units.
pub fn reference(units: u64) -> B256 {
    keccak256(units.to_be_bytes())
}

pub fn log(address: EvmAddress, event: &impl SolEvent) -> Log {
    Log {
        address,
        data: event.encode_log_data(),
    }
}

/// A transaction to the proxy contract. Any two numbers are a valid signature of some account, and that account counts
/// as the sender.
fn transaction(block: u64, index: u64) -> TxEnvelope {
    // The first coordinate of the base point of the curve.
    let r = b256!("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798");
    let unsigned = TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce: block * 1_000 + index,
        gas_price: 7,
        gas_limit: 130_000,
        to: TxKind::Call(FEE_PROXY),
        value: U256::ZERO,
        input: Bytes::from_static(&[1, 2, 3]),
    };
    unsigned
        .into_signed(Signature::new(r.into(), U256::from(1), false))
        .into()
}

pub fn tx_hash(block: u64, index: u64) -> B256 {
    *transaction(block, index).tx_hash()
}

pub fn sender(block: u64, index: u64) -> EvmAddress {
    transaction(block, index).recover_signer().unwrap()
}

pub fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// A block in the form in which the node serves it.
pub struct Sealed {
    hash: B256,
    header: Value,
    transactions: Vec<Value>,
    receipts: Vec<Value>,
}

/// The data of a node, and how the node falsifies it.
#[derive(Clone)]
pub struct Served {
    pub chain_id: u64,
    pub blocks: u64,
    pub finalized: Option<u64>,
    /// The first block whose hash differs from that of the honest chain.
    pub fork_from: u64,
    /// Transactions by block and index.
    pub transactions: BTreeMap<(u64, u64), Vec<Log>>,
    pub lie: Lie,
    pub calls: Vec<Value>,
    pub sealed: OnceLock<Arc<Vec<Sealed>>>,
}

impl Served {
    pub fn honest(blocks: u64) -> Self {
        Self {
            chain_id: CHAIN_ID,
            blocks,
            finalized: Some(blocks.saturating_sub(20)),
            fork_from: u64::MAX,
            transactions: BTreeMap::new(),
            lie: Lie::Nothing,
            calls: Vec::new(),
            sealed: OnceLock::new(),
        }
    }

    pub fn with_payments(blocks: u64, payments: &[(u64, u64, u64)]) -> Self {
        let transactions = payments
            .iter()
            .map(|(block, index, units)| ((*block, *index), payment(*units)));
        Self {
            transactions: transactions.collect(),
            ..Self::honest(blocks)
        }
    }

    pub fn lying(&self, lie: Lie) -> Self {
        Self {
            lie,
            sealed: OnceLock::new(),
            ..self.clone()
        }
    }

    fn sealed(&self) -> &[Sealed] {
        self.sealed.get_or_init(|| Arc::new(self.seal()))
    }

    fn seal(&self) -> Vec<Sealed> {
        let mut parent = B256::repeat_byte(1);
        let mut chain = Vec::new();
        for number in 0..=self.blocks {
            let block = self.seal_block(number, parent);
            parent = block.hash;
            chain.push(block);
        }
        chain
    }

    fn seal_block(&self, number: u64, parent_hash: B256) -> Sealed {
        let own: Vec<_> = self.transactions.range((number, 0)..=(number, u64::MAX)).collect();
        let envelopes: Vec<TxEnvelope> = own
            .iter()
            .map(|((block, index), _)| transaction(*block, *index))
            .collect();
        let mut receipts = Vec::new();
        let mut bloom = Bloom::ZERO;
        for (place, (_, logs)) in own.iter().enumerate() {
            let receipt = Receipt {
                status: Eip658Value::Eip658(true),
                cumulative_gas_used: 100_000 * (place as u64 + 1),
                logs: logs.to_vec(),
            };
            let receipt = receipt.with_bloom();
            bloom.accrue_bloom(&receipt.logs_bloom);
            receipts.push(ReceiptEnvelope::Legacy(receipt));
        }
        let time_s = match self.lie {
            Lie::BlockTime(time_s) => time_s,
            _ => GENESIS_S + number * 12,
        };
        let header = Header {
            number,
            parent_hash,
            timestamp: time_s,
            logs_bloom: bloom,
            receipts_root: calculate_receipt_root(&receipts),
            transactions_root: calculate_transaction_root(&envelopes),
            extra_data: Bytes::copy_from_slice(if number >= self.fork_from { b"fork" } else { b"" }),
            ..Header::default()
        };
        let hash = header.hash_slow();
        let place = |value: &mut Value, index: usize| {
            value["blockHash"] = json!(hash);
            value["blockNumber"] = json!(U64::from(number));
            value["transactionIndex"] = json!(U64::from(index));
        };
        let mut log_index = 0_u64;
        let (mut told_transactions, mut told_receipts) = (Vec::new(), Vec::new());
        for (index, (envelope, receipt)) in envelopes.iter().zip(&receipts).enumerate() {
            let mut told = serde_json::to_value(envelope).unwrap();
            place(&mut told, index);
            told["from"] = json!(envelope.recover_signer().unwrap());
            told_transactions.push(told);
            let logs: Vec<Value> = receipt
                .logs()
                .iter()
                .map(|log| {
                    let mut told = json!({
                        "address": log.address, "topics": log.data.topics(), "data": log.data.data,
                        "transactionHash": envelope.tx_hash(), "logIndex": U64::from(log_index), "removed": false,
                    });
                    log_index += 1;
                    place(&mut told, index);
                    told
                })
                .collect();
            let mut told = json!({
                "type": "0x0", "status": "0x1", "cumulativeGasUsed": U64::from(receipt.cumulative_gas_used()),
                "gasUsed": "0x186a0", "logsBloom": receipt.logs_bloom(), "logs": logs,
                "transactionHash": envelope.tx_hash(), "from": envelope.recover_signer().unwrap(), "to": FEE_PROXY,
            });
            place(&mut told, index);
            told_receipts.push(told);
        }
        let mut told = serde_json::to_value(&header).unwrap();
        told["hash"] = json!(hash);
        Sealed {
            hash,
            header: told,
            transactions: told_transactions,
            receipts: told_receipts,
        }
    }

    pub fn block(&self, block: u64, is_full: bool) -> Value {
        let said = if self.lie == Lie::WrongNumbers {
            block + 1
        } else {
            block
        };
        let found = usize::try_from(said).ok().and_then(|place| self.sealed().get(place));
        let Some(sealed) = found.filter(|_| self.lie != Lie::NullBlocks) else {
            return Value::Null;
        };
        let mut told = sealed.header.clone();
        let hashes = || {
            sealed
                .transactions
                .iter()
                .map(|transaction| transaction["hash"].clone())
                .collect()
        };
        told["transactions"] = Value::Array(if is_full { sealed.transactions.clone() } else { hashes() });
        match self.lie {
            Lie::HashOfAnotherBlock => told["hash"] = json!(B256::repeat_byte(0xab)),
            Lie::NoBloom => told["logsBloom"] = json!(Bloom::ZERO),
            Lie::UnknownType if is_full => {
                let transactions = told["transactions"].as_array_mut().unwrap();
                transactions.iter_mut().for_each(|told| told["type"] = json!("0x7f"));
            }
            _ => {}
        }
        told
    }

    fn logs_of(&self, block: &Sealed) -> Vec<Value> {
        let logs = block.receipts.iter().filter_map(|receipt| receipt["logs"].as_array());
        logs.flatten().cloned().collect()
    }

    pub fn logs(&self, filter: &Value) -> Result<Value, (i64, &'static str)> {
        if filter["address"].as_array().is_some_and(Vec::is_empty) {
            panic!("an empty list of addresses means every contract to some nodes");
        }
        let in_list = |list: &Value, value: &Value| list.as_array().is_none_or(|list| list.contains(value));
        let wanted = |log: &Value| {
            in_list(&filter["address"], &log["address"]) && in_list(&filter["topics"][0], &log["topics"][0])
        };
        let blocks: Vec<&Sealed> = match &filter["blockHash"] {
            Value::Null => {
                let (from, to) = (number(&filter["fromBlock"]), number(&filter["toBlock"]));
                match self.lie {
                    Lie::LimitsBlocks(limit) if to - from + 1 > limit => return Err((-32_602, "range limit exceeded")),
                    Lie::RefusesEveryRange => return Err((-32_602, "query returned more than 10000 results")),
                    _ => {}
                }
                let all = self.sealed();
                let place = |block: u64| usize::try_from(block).unwrap().min(all.len());
                all[place(from)..place(to + 1)].iter().collect()
            }
            hash => self
                .sealed()
                .iter()
                .filter(|block| json!(block.hash) == *hash)
                .collect(),
        };
        let mut logs: Vec<Value> = blocks
            .into_iter()
            .flat_map(|block| self.logs_of(block))
            .filter(wanted)
            .collect();
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

    fn distort_receipt(&self, receipt: &mut Value) {
        let logs = receipt["logs"].as_array_mut().unwrap();
        match self.lie {
            Lie::NullReceipts => *receipt = Value::Null,
            Lie::DropsReceiptLogs => drop(logs.pop()),
            Lie::OtherAmounts | Lie::UnknownType => {
                for log in logs {
                    let data = log["data"].as_str().unwrap().replace("3e8", "3e9");
                    log["data"] = json!(data);
                }
                if self.lie == Lie::UnknownType {
                    receipt["type"] = json!("0x7f");
                }
            }
            Lie::OtherSender => receipt["from"] = json!(PAYER),
            _ => {}
        }
    }

    pub fn receipts(&self, block: u64) -> Value {
        let Some(sealed) = usize::try_from(block).ok().and_then(|place| self.sealed().get(place)) else {
            return Value::Null;
        };
        let mut receipts = sealed.receipts.clone();
        receipts.iter_mut().for_each(|receipt| self.distort_receipt(receipt));
        if self.lie == Lie::DropsReceipts {
            receipts.pop();
        }
        json!(receipts)
    }

    pub fn receipt(&self, tx: &Value) -> Value {
        let receipts = self.sealed().iter().flat_map(|block| &block.receipts);
        let mut found = receipts.filter(|receipt| receipt["transactionHash"] == *tx);
        let Some(mut receipt) = found.next().cloned() else {
            return Value::Null;
        };
        self.distort_receipt(&mut receipt);
        receipt
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
            "eth_getBlockByNumber" => {
                let is_full = params[1] == json!(true);
                if is_full && self.lie == Lie::RevertsBlocks {
                    return Err((3, "execution reverted"));
                }
                match params[0].as_str().unwrap() {
                    "latest" => Ok(self.block(self.blocks, is_full)),
                    "finalized" => match self.finalized {
                        Some(block) => Ok(self.block(block, is_full)),
                        None => Err((-32_000, "finalized block not found")),
                    },
                    text => Ok(self.block(number(&json!(text)), is_full)),
                }
            }
            "eth_getBlockByHash" => {
                let found = (0..)
                    .zip(self.sealed())
                    .find(|(_, block)| json!(block.hash) == params[0]);
                Ok(found.map_or(Value::Null, |(block, _)| self.block(block, params[1] == json!(true))))
            }
            "eth_getLogs" => self.logs(&params[0]),
            "eth_getBlockReceipts" if self.lie == Lie::NoBlockReceipts => Err((-32_601, "no such method")),
            "eth_getBlockReceipts" => Ok(self.receipts(number(&params[0]))),
            "eth_getTransactionReceipt" => Ok(self.receipt(&params[0])),
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
    /// The node sends each response after this number of milliseconds.
    Late(u64),
    /// The node fills blocks and receipts with tiny objects, up to this number of bytes.
    Structure(usize),
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
    RevertsBlocks,
    HashOfAnotherBlock,
    NoBloom,
    NullReceipts,
    DropsReceipts,
    DropsReceiptLogs,
    OtherAmounts,
    OtherSender,
    UnknownType,
    NoBlockReceipts,
    RefusesBatches,
}

/// A node whose behaviour can change while it runs.
#[derive(Clone)]
pub struct FakeNode(pub Arc<Mutex<Served>>);

impl FakeNode {
    pub fn change(&self, change: impl FnOnce(&mut Served)) {
        let mut served = self.0.lock().unwrap();
        change(&mut served);
        served.sealed = OnceLock::new();
    }

    pub fn calls(&self, method: &str) -> Vec<Value> {
        let served = self.0.lock().unwrap();
        let calls = served.calls.iter().filter(|call| call["method"] == method);
        calls.cloned().collect()
    }
}

impl Respond for FakeNode {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let asked: Value = serde_json::from_slice(&request.body).unwrap();
        let mut served = self.0.lock().unwrap();
        let calls = match &asked {
            Value::Array(calls) => calls.clone(),
            call => vec![call.clone()],
        };
        served.calls.extend(calls.iter().cloned());
        match served.lie {
            Lie::Status(status) => return ResponseTemplate::new(status),
            Lie::Garbage => return ResponseTemplate::new(200).set_body_string("<html>welcome</html>"),
            Lie::Hangs => return ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
            _ => {}
        }
        let refusal = |id: &Value, (code, message): (i64, &str)| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
        if asked.is_array() && served.lie == Lie::RefusesBatches {
            let refused = refusal(&Value::Null, (-32_600, "batches are not served"));
            return ResponseTemplate::new(200).set_body_json(refused);
        }
        let answer = |call: &Value| match served.answer(call["method"].as_str().unwrap(), &call["params"]) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
            Err(refused) => refusal(&call["id"], refused),
        };
        let answers: Vec<Value> = calls.iter().map(answer).collect();
        let is_block = |call: &Value| {
            let method = call["method"].as_str().unwrap();
            method == "eth_getBlockReceipts" || (method == "eth_getBlockByNumber" && call["params"][1] == json!(true))
        };
        if let Lie::Structure(bytes) = served.lie
            && is_block(&asked)
        {
            const OBJECT: &str = r#"{"":0},"#;
            let objects = OBJECT.repeat(bytes / OBJECT.len());
            let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":[{objects}0]}}"#, asked["id"]);
            return ResponseTemplate::new(200).set_body_raw(body, "application/json");
        }
        let delay = match served.lie {
            Lie::Late(delay_ms) => Duration::from_millis(delay_ms),
            _ => Duration::ZERO,
        };
        let template = ResponseTemplate::new(200).set_delay(delay);
        template.set_body_json(match asked {
            Value::Array(_) => Value::Array(answers),
            _ => answers.into_iter().next().unwrap(),
        })
    }
}
