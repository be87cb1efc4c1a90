//! The load while the service is killed: requests are created, recorded, and paid on the chain.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, bail};
use devnet::Devnet;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use xtask::service::client::{CALL_TIMEOUT, Call};

use crate::client::{Client, Outcome};
use crate::verdict::{Acknowledged, Paid, Terms};

/// One request in this number is paid in the native coin. All others are paid in a token.
const NATIVE_EVERY: u64 = 3;

/// One creation in this number loses its connection.
const CUT_EVERY: u64 = 4;

/// How many milliseconds after its start such a creation loses its connection: before, during or just after its commit.
/// Kills alone would rarely happen between a commit and its response.
const CUT_MS: std::ops::RangeInclusive<u64> = 1..=30;

/// A file with all acknowledged requests. Each request is written to the disk before the run continues.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// A new file.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
        })
    }

    fn append(&mut self, acknowledged: &Acknowledged) -> Result<()> {
        let mut line = serde_json::to_string(acknowledged)?;
        line.push('\n');
        self.file.write_all(line.as_bytes())?;
        Ok(self.file.sync_data()?)
    }

    /// The recorded requests.
    pub(crate) fn read(&self) -> Result<Vec<Acknowledged>> {
        let text = fs::read_to_string(&self.path)?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}

/// The state that writers and payers share.
pub(crate) struct Load<'a> {
    /// Client with the merchant's credential.
    pub(crate) client: &'a Client,
    /// Pause of each writer after a request.
    pub(crate) pace: Duration,
    /// Prefix of the idempotency keys of this run.
    pub(crate) run: u64,
    /// Records acknowledged requests.
    pub(crate) journal: Mutex<Journal>,
    /// The terms of requests that were sent without an idempotency key and got no response, so that it is unknown
    /// whether they exist.
    pub(crate) unanswered: Mutex<Vec<Terms>>,
    /// Requests that the service acknowledged, but did not find in a lookup directly afterwards.
    pub(crate) unknown: Mutex<HashSet<String>>,
    /// Payments on the chain.
    pub(crate) paid: Mutex<Vec<Paid>>,
    /// The number of the next request.
    pub(crate) next: AtomicU64,
    /// Number of kills so far. The requests of each round pay a wallet of their own.
    pub(crate) round: AtomicU64,
    /// Set when no more requests are needed.
    pub(crate) is_over: AtomicBool,
}

impl Load<'_> {
    /// Creates requests until the run ends. With an idempotency key, a creation is repeated until the service
    /// acknowledges it. Without a key, a creation is sent only once, and the next creation is sent when the service
    /// responds again.
    pub(crate) fn write(&self, is_keyed: bool, to_pay: &SyncSender<Acknowledged>) -> Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let key = is_keyed.then(|| format!("crash-{:016x}-{number}", self.run));
            let amount = amount(number);
            let currency = currency(number);
            let payee = payee(self.round.load(Ordering::SeqCst));
            let body = json!({
                "payee": payee,
                "amount": amount,
                "invoiceCurrency": currency,
                "paymentCurrency": currency,
            });
            let patience = if number.is_multiple_of(CUT_EVERY) {
                Duration::from_millis(Rng::with_seed(self.run.wrapping_add(number)).u64(CUT_MS))
            } else {
                CALL_TIMEOUT
            };
            let created = match &key {
                Some(key) => {
                    let call = Call::PostOnce(&body, key);
                    self.client.insist_after(patience, "/v2/request", &call)?
                }
                None => match self.client.create_unkeyed(patience, "/v2/request", &body)? {
                    Outcome::Known(answer) => answer,
                    Outcome::Unknown => {
                        let terms = Terms::new(&payee, &amount);
                        self.unanswered
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(terms);
                        let path = format!("/v2/request?walletAddress={payee}&limit=1");
                        self.client.insist(&path, &Call::Get)?;
                        continue;
                    }
                },
            };
            let created = created.expect(201).context("POST /v2/request")?;
            let acknowledged = Acknowledged {
                request_id: text(&created, "/requestId")?,
                key,
                amount,
            };
            self.journal
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&acknowledged)?;
            // Looks up the request at once. If it appeared only later, the service would have acknowledged a request
            // that it did not have.
            let path = format!("/v2/request/{}", acknowledged.request_id);
            if self.client.insist(&path, &Call::Get)?.status == 404 {
                let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
                unknown.insert(acknowledged.request_id.clone());
            }
            if to_pay.send(acknowledged).is_err() {
                bail!("every payer has stopped");
            }
            std::thread::sleep(self.pace);
        }
        Ok(())
    }

    /// Pays acknowledged requests until no more arrive, with the calldata that the service returns.
    pub(crate) fn pay(
        &self,
        chain: &Devnet,
        runtime: &Handle,
        account: usize,
        queue: &Arc<Mutex<Receiver<Acknowledged>>>,
    ) -> Result<()> {
        let wallet = chain.accounts().get(account).context("no such account")?.address;
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Acknowledged { request_id, amount, .. }) = next else {
                return Ok(());
            };
            let path = format!("/v2/request/{request_id}/pay?wallet={wallet}");
            let answer = self.client.insist(&path, &Call::Get)?;
            if answer.status == 404 {
                // If the service does not find an acknowledged request, the request is lost. The run continues, so that
                // all lost requests are counted.
                continue;
            }
            let calls = answer.expect(200).with_context(|| path.clone())?;
            let calls = transactions(&calls).with_context(|| path.clone())?;
            let receipts = runtime.block_on(chain.pay(account, &calls))?;
            let payment = receipts.last().with_context(|| format!("{path} has no transactions"))?;
            if !receipts.iter().all(|receipt| receipt.status) {
                bail!("transaction {} failed on the chain", payment.tx_hash);
            }
            self.paid.lock().unwrap_or_else(PoisonError::into_inner).push(Paid {
                request_id,
                tx_hash: payment.tx_hash.to_string(),
                amount,
            });
        }
    }
}

/// The wallet that the requests of a round pay.
pub(crate) fn payee(round: u64) -> String {
    format!("0xc4a5{round:036x}")
}

/// An amount that no other request of the run has.
pub(crate) fn amount(number: u64) -> String {
    let fraction = format!("{:09}", number + 1);
    format!("0.{}", fraction.trim_end_matches('0'))
}

fn currency(number: u64) -> &'static str {
    if number.is_multiple_of(NATIVE_EVERY) {
        "ETH-sepolia-sepolia"
    } else {
        "FAU-sepolia"
    }
}

/// A string in a response.
pub(crate) fn text(body: &Value, pointer: &str) -> Result<String> {
    let text = body.pointer(pointer).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no {pointer} in {body}"))?.to_owned())
}

/// Transactions to sign and send, in order.
pub(crate) fn transactions(calls: &Value) -> Result<Vec<(Address, Vec<u8>, U256)>> {
    let calls = calls["transactions"].as_array().context("no transactions")?;
    calls
        .iter()
        .map(|call| {
            let to: Address = text(call, "/to")?.parse()?;
            // In a link the value is a string, in a request an object.
            let value = text(call, "/value").or_else(|_| text(call, "/value/hex"))?;
            let value: U256 = value.parse()?;
            Ok((to, hex::decode(text(call, "/data")?)?, value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_returns_its_recorded_requests() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(&folder.path().join("acknowledged.jsonl")).unwrap();
        let acknowledged = Acknowledged {
            key: Some("k".to_owned()),
            request_id: "01a".to_owned(),
            amount: "0.1".to_owned(),
        };
        journal.append(&acknowledged).unwrap();
        journal.append(&acknowledged).unwrap();
        assert_eq!(journal.read().unwrap(), [acknowledged.clone(), acknowledged]);
    }

    #[test]
    fn amounts_differ_and_are_written_in_the_shortest_way() {
        let amounts: HashSet<String> = (0..2_000).map(amount).collect();
        assert_eq!(amounts.len(), 2_000);
        assert!(amounts.iter().all(|amount| !amount.ends_with('0')));
        assert_eq!(amount(9), "0.00000001");
    }

    #[test]
    fn every_round_has_its_own_wallet() {
        assert_ne!(payee(1), payee(16));
        assert!(payee(u64::MAX).parse::<Address>().is_ok());
    }

    #[test]
    fn calls_to_send_are_read_from_the_response() {
        let answer = json!({"transactions": [{
            "to": "0x00000000000000000000000000000000000000aa",
            "data": "0x0102",
            "value": {"type": "BigNumber", "hex": "0x10"},
        }]});
        let calls = transactions(&answer).unwrap();
        assert_eq!(calls[0].1, [1, 2]);
        assert_eq!(calls[0].2, U256::from(16));
        let link = json!({"transactions": [{
            "to": "0x00000000000000000000000000000000000000aa",
            "data": "0x",
            "value": "0x16345785d8a0000",
            "chainId": 11_155_111,
        }]});
        assert_eq!(
            transactions(&link).unwrap()[0].2,
            U256::from(100_000_000_000_000_000_u64)
        );
        assert!(transactions(&json!({})).is_err());
    }
}
