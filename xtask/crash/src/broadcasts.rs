//! The service dies while it broadcasts transactions that Tron wallets have signed: before, inside and after the commit
//! that stores a hash, after the nodes got the transaction, and around the credit. The wallets repeat the same bytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use devnet::tron::{TronAccount, TronClock, TronDevnet, TronOptions, Tronweb};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use xtask::service::client::Call;

use crate::client::Client;
use crate::fault::{Database, Fault};
use crate::load::text;
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::rounds;
use crate::stage::{Stage, member};
use crate::verdict::{Acknowledged, Paid, Records};

/// Index of the account that receives payments. The accounts with a lower index pay.
const PAYEE: usize = 9;

/// Number of nodes of the chain.
const NODES: usize = 2;

/// Number of blocks by which the solid block lags the newest block.
const SOLID_LAG: u64 = 1;

/// Pause of a payer after each link, so that the chain keeps up.
const PACE: Duration = Duration::from_millis(100);

/// Crash points, at which the process can die.
const POINTS: [&str; 10] = [
    "broadcast_transaction.begun",
    "broadcast_transaction.inserted",
    "broadcast_transaction.before_commit",
    "broadcast_transaction.after_commit",
    "broadcast_transaction.sent",
    "confirm_blocks.recorded",
    "confirm_blocks.followed",
    "confirm_blocks.credited",
    "confirm_blocks.before_commit",
    "confirm_blocks.after_commit",
];

#[derive(Debug, Default)]
struct Done {
    acknowledged: Vec<Acknowledged>,
    paid: Vec<Paid>,
    /// Number of different transactions that the service broadcast.
    broadcasts: usize,
    /// Units of USDT that the payments pay.
    units: u128,
    /// Number of payments that were credited before their broadcast was repeated.
    completed: usize,
}

/// The wallets of a run. Each wallet has a thread.
struct Wallets<'a> {
    client: &'a Client,
    chain: &'a TronDevnet,
    tronweb: &'a Tronweb,
    runtime: &'a Handle,
    run: u64,
    next: AtomicU64,
    is_over: AtomicBool,
    done: Mutex<Done>,
}

impl Wallets<'_> {
    /// Creates links and pays them from an account until the run ends. Completes a link that was begun.
    fn work(&self, account: usize) -> Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            self.pay(account)?;
            thread::sleep(PACE);
        }
        Ok(())
    }

    /// Creates a link, and pays it with transactions that the service broadcasts.
    fn pay(&self, account: usize) -> Result<()> {
        let number = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        let amount = format!("1.{number:06}").trim_end_matches('0').to_owned();
        let payee = &self.account(PAYEE)?.address;
        let body = json!({
            "recipient": payee, "creatorWalletAddress": payee, "network": "tron", "currency": "USDT-tron",
            "amount": amount,
        });
        let key = format!("broadcasts-{:016x}-{number}", self.run);
        let path = "/v2/secure-payments/payouts";
        let made = self.client.insist(path, &Call::PostOnce(&body, &key))?.expect(201)?;
        let (token, request_id) = (text(&made, "/token")?, text(&made, "/requestIds/0")?);
        self.done().acknowledged.push(Acknowledged {
            key: Some(key),
            request_id: request_id.clone(),
            amount: amount.clone(),
        });
        let account = self.account(account)?;
        let path = format!("/v2/secure-payments/{token}/pay?wallet={}", account.address);
        let calldata = self.client.insist(&path, &Call::Get)?.expect(200).context(path)?;
        let steps = calldata["transactions"].as_array().context("no transactions")?;
        for step in steps {
            self.broadcast(&token, account, step)?;
        }
        let payment = steps.last().context("nothing to sign")?;
        let mut done = self.done();
        done.units += 1_000_000 + u128::from(number);
        done.paid.push(Paid {
            request_id,
            tx_hash: format!("0x{}", member(payment, "txID")?),
            amount,
        });
        Ok(())
    }

    /// Signs a transaction and sends it to the service until a response is final.
    fn broadcast(&self, token: &str, account: &TronAccount, step: &Value) -> Result<()> {
        let unsigned = json!({
            "txID": step["txID"], "raw_data": step["raw_data"], "raw_data_hex": step["raw_data_hex"],
        });
        let signed = self.runtime.block_on(self.tronweb.sign(account, &unsigned))?;
        let path = format!("/v2/secure-payments/{token}/tron/broadcast");
        let body = json!({ "signedTransaction": signed });
        let answer = self.client.insist(&path, &Call::Post(&body))?;
        let is_sent = answer.status == 200 && answer.body["txid"] == step["txID"];
        // The payment of a killed call can be final before the wallet repeats the call.
        let is_completed = answer.status == 403 && answer.body["message"] == COMPLETED;
        if !is_sent && !is_completed {
            bail!("{path} returned {} {}", answer.status, answer.body);
        }
        let mut done = self.done();
        done.broadcasts += 1;
        done.completed += usize::from(is_completed);
        Ok(())
    }

    fn account(&self, index: usize) -> Result<&TronAccount> {
        self.chain.summary().accounts.get(index).context("no such account")
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message for a link that is paid.
const COMPLETED: &str = "Secure payment has already been completed";

/// Makes the process die at each point, `plan.rounds_per_point` times.
pub(crate) fn kills(plan: &Plan, database: Database) -> Result<Row> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let options = TronOptions {
        nodes: NODES,
        // The next block makes a block solid. No transaction expires, because every block is as new as the clock.
        solid_lag: SOLID_LAG,
        clock: TronClock::Wall,
        ..TronOptions::default()
    };
    let chain = runtime.block_on(TronDevnet::start(options))?;
    let tronweb = {
        let _entered = runtime.enter();
        Tronweb::start(chain.api_url(0)?)?
    };
    let environment = [
        (
            "PRS_CHAINS__TRON__API_URLS",
            json!(chain.summary().api_urls).to_string(),
        ),
        ("PRS_CHAINS__TRON__POLL_MS", "50".to_owned()),
    ];
    let payee = chain.summary().accounts[PAYEE].address.clone();
    let balance = || runtime.block_on(tronweb.balance(&chain.summary().tokens.usdt, &payee));
    let before = balance()?;
    let mut stage = Stage::open_with(plan, Fault::BroadcastKills, database, false, &environment)?;
    stage.register("late")?;
    let (reached, done) = {
        let Stage { machines, client, .. } = &mut stage;
        let wallets = Wallets {
            client: &*client,
            chain: &chain,
            tronweb: &tronweb,
            runtime: runtime.handle(),
            run: plan.seed,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            done: Mutex::new(Done::default()),
        };
        let reached = rounds::die(plan, &POINTS, (machines, client, &wallets.is_over), |account| {
            wallets.work(account)
        })?;
        (
            reached,
            wallets.done.into_inner().unwrap_or_else(PoisonError::into_inner),
        )
    };
    // No further payment makes the last one solid.
    runtime.block_on(chain.mine(SOLID_LAG))?;
    let mut records = Records {
        acknowledged: done.acknowledged,
        paid: done.paid,
        payees: vec![payee.clone()],
        ..Records::default()
    };
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let mut row = Row::of(Fault::BroadcastKills, database, u64::try_from(reached.len())?, &verdict);
    let arrived = balance()? - before;
    row.check(arrived == done.units, || {
        format!("the payee got {arrived} units instead of {}", done.units)
    });
    let query = "SELECT hash FROM secure_payment_intents WHERE kind = 'broadcast'";
    if let Some(stored) = stage.query(query)? {
        row.lost += done.broadcasts.saturating_sub(stored.len());
        row.doubled += stored.len().saturating_sub(done.broadcasts);
    }
    let never: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    row.check(never.is_empty(), || format!("never reached: {}", never.join(", ")));
    row.note(&format!(
        "{} of {} points reached, {} transactions broadcast, {} of them credited before the repetition",
        POINTS.len() - never.len(),
        POINTS.len(),
        done.broadcasts,
        done.completed
    ));
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_point_is_listed_twice() {
        assert_eq!(HashSet::from(POINTS).len(), POINTS.len());
    }
}
