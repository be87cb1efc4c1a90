//! The service dies at any point of a payment to a bank account: while a payer registers, a quote is issued, a payment
//! is credited, an order is opened, or a report of the partner is processed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use alloy::primitives::U256;
use anyhow::{Context, Result, bail};
use devnet::Devnet;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use xtask::service::client::{CALL_TIMEOUT, Call};

use crate::bank::{Bank, CALLBACK_SECRET, KEY_ID, KEY_SECRET};
use crate::client::{Client, Outcome};
use crate::fault::{Database, Fault};
use crate::load::transactions;
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::rounds;
use crate::service::free_port;
use crate::stage::{PAYERS, Stage, member, wait_for};
use crate::verdict::{Acknowledged, Paid, Records};

/// Pause of a payer after each payment, so that the chain keeps up.
const PACE: Duration = Duration::from_millis(20);

/// Crash points, at which the process can die. Some are between a call to the partner and the commit that stores the
/// response. The others are before, inside and after each commit of an order.
const POINTS: [&str; 22] = [
    "register_payer.begun",
    "register_payer.after_commit",
    "add_bank_account.begun",
    "add_bank_account.after_commit",
    "create_request.inserted",
    "issue_deposit.quoted",
    "issue_deposit.begun",
    "issue_deposit.before_commit",
    "issue_deposit.after_commit",
    "confirm_blocks.recorded",
    "confirm_blocks.followed",
    "confirm_blocks.before_commit",
    "confirm_blocks.after_commit",
    "intend_order.begun",
    "intend_order.before_commit",
    "intend_order.after_commit",
    "open_order.intended",
    "open_order.answered",
    "take_order_news.moved",
    "take_order_news.told",
    "take_order_news.before_commit",
    "take_order_news.after_commit",
];

/// Number of payments to the bank account of one payer.
const PAYMENTS_OF_ONE: usize = 4;

/// Number of steps of an order that the service reports for each payment, in addition to the confirmation of the
/// payment.
const STEPS: usize = 5;

#[derive(Debug, Default)]
struct Done {
    acknowledged: Vec<Acknowledged>,
    paid: Vec<Paid>,
}

/// The payers of a run. Each payer has a thread and pays one bank account.
struct Payers<'a> {
    client: &'a Client,
    chain: &'a Devnet,
    runtime: &'a Handle,
    run: u64,
    next: AtomicU64,
    is_over: AtomicBool,
    done: Mutex<Done>,
}

impl Payers<'_> {
    /// Registers payers and pays their bank accounts until the run ends. Completes a payment that was begun.
    fn work(&self, account: usize) -> Result<()> {
        for turn in 0_u64.. {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let user = format!("payer-{account}-{turn}");
            let details = self.register(&user)?;
            for _ in 0..PAYMENTS_OF_ONE {
                self.pay(account, &user, &details)?;
                thread::sleep(PACE);
            }
        }
        Ok(())
    }

    /// Creates a payer with a bank account; returns the account's id.
    fn register(&self, user: &str) -> Result<String> {
        let person = json!({
            "clientUserId": user, "email": "ada@example.com", "firstName": "Ada", "lastName": "Lovelace",
            "beneficiaryType": "individual", "dateOfBirth": "1985-12-12", "addressLine1": "12 Analytical Way",
            "city": "New York", "state": "NY", "postcode": "10001", "country": "US", "nationality": "US",
            "phone": "+12125550123", "ssn": "123-45-6789",
        });
        wait_for("payer", || {
            let answer = self.client.insist("/v2/payer", &Call::Post(&person))?;
            Ok((answer.status == 200).then_some(()))
        })?;
        let path = format!("/v2/payer/{user}/payment-details");
        let bank = json!({
            "bankName": "First Engine Bank", "accountName": "Ada Lovelace", "accountNumber": "5551234567",
            "routingNumber": "021000021", "beneficiaryType": "individual", "currency": "usd",
            "addressLine1": "12 Analytical Way", "city": "New York", "state": "NY", "country": "US",
            "dateOfBirth": "1985-12-12", "postalCode": "10001", "rails": "local", "accountType": "checking",
        });
        wait_for("bank account", || {
            let answer = self.client.insist(&path, &Call::Post(&bank))?;
            let id = answer.body["payment_detail"]["id"].as_str();
            Ok(id.filter(|_| answer.status == 201).map(str::to_owned))
        })
    }

    /// Creates and pays a request to the bank account.
    fn pay(&self, account: usize, user: &str, details: &str) -> Result<()> {
        let wallet = self.chain.accounts().get(account).context("no such account")?.address;
        let acknowledged = self.ask()?;
        self.done().acknowledged.push(acknowledged.clone());
        let (id, amount) = (acknowledged.request_id, acknowledged.amount);
        let query = format!("wallet={wallet}&clientUserId={user}&paymentDetailsId={details}");
        let path = format!("/v2/request/{id}/pay?{query}");
        let calldata = wait_for("calldata", || {
            let answer = self.client.insist(&path, &Call::Get)?;
            // After the service died in the middle of a call to the partner, it treats the partner as unreachable for a
            // while.
            Ok((answer.status == 200).then_some(answer.body))
        })?;
        self.send(account, &calldata, id, amount)
    }

    /// Creates a request and returns it once the service has acknowledged it. Half of the calls have no idempotency
    /// key. If such a call gets no response, the next call uses another amount.
    fn ask(&self) -> Result<Acknowledged> {
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let amount = format!("1.{:06}", number * 10 + 1);
            let body = json!({
                "amount": amount, "invoiceCurrency": "USDC-sepolia", "paymentCurrency": "USDC-sepolia",
                "isCryptoToFiatAvailable": true,
            });
            let is_keyed = Rng::with_seed(self.run.wrapping_add(number)).bool();
            let key = is_keyed.then(|| format!("fiat-{:016x}-{number}", self.run));
            let outcome = match &key {
                Some(key) => Outcome::Known(self.client.insist("/v2/request", &Call::PostOnce(&body, key))?),
                None => self.client.create_unkeyed(CALL_TIMEOUT, "/v2/request", &body)?,
            };
            if let Outcome::Known(answer) = outcome {
                let request_id = member(&answer.expect(201)?, "requestId")?.to_owned();
                return Ok(Acknowledged {
                    key,
                    request_id,
                    amount,
                });
            }
        }
    }

    fn send(&self, account: usize, calldata: &Value, request_id: String, amount: String) -> Result<()> {
        let receipts = self
            .runtime
            .block_on(self.chain.pay(account, &transactions(calldata)?))?;
        let payment = receipts.last().context("nothing to send")?;
        if !receipts.iter().all(|receipt| receipt.status) {
            bail!("transaction {} failed on the chain", payment.tx_hash);
        }
        let tx_hash = payment.tx_hash.to_string();
        self.done().paid.push(Paid {
            request_id,
            tx_hash,
            amount,
        });
        Ok(())
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the process die at each point, `plan.rounds_per_point` times.
pub(crate) fn kills(plan: &Plan, database: Database) -> Result<Row> {
    let port = free_port()?;
    let environment = [
        ("PRS_PARTNERS__OFFRAMP", "http".to_owned()),
        ("PRS_OFFRAMP__URL", format!("http://127.0.0.1:{port}")),
        ("PRS_OFFRAMP__KEY_ID", KEY_ID.to_owned()),
        ("PRS_OFFRAMP__KEY_SECRET", KEY_SECRET.to_owned()),
        ("PRS_OFFRAMP__CALLBACK_SECRET", CALLBACK_SECRET.to_owned()),
    ];
    let mut stage = Stage::open_with(plan, Fault::FiatKills, database, false, &environment)?;
    let bank = Bank::open(port, stage.machines.service.base_url().to_owned())?;
    stage.register("late")?;
    let runtime = stage.runtime().clone();
    let (token, spender) = (stage.chain.tokens().usdc, stage.chain.contracts().erc20_fee_proxy);
    for payer in PAYERS {
        let account = stage.chain.accounts().get(payer).context("no such account")?.address;
        runtime.block_on(stage.chain.mint(token, account, U256::from(10).pow(U256::from(18))))?;
        runtime.block_on(stage.chain.approve(payer, token, spender, U256::MAX))?;
    }
    let (reached, done) = play(plan, &mut stage, &runtime)?;
    let mut records = Records {
        acknowledged: done.acknowledged,
        paid: done.paid,
        ..Records::default()
    };
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let mut row = Row::of(Fault::FiatKills, database, u64::try_from(reached.len())?, &verdict);
    judge(&stage, &records, &bank, &mut row)?;
    let never: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    row.check(never.is_empty(), || format!("never reached: {}", never.join(", ")));
    Ok(row)
}

fn play(plan: &Plan, stage: &mut Stage, runtime: &Handle) -> Result<(Vec<&'static str>, Done)> {
    let Stage {
        machines,
        client,
        chain,
        ..
    } = stage;
    let payers = Payers {
        client: &*client,
        chain: chain.as_ref(),
        runtime,
        run: plan.seed,
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        done: Mutex::new(Done::default()),
    };
    let reached = rounds::die(plan, &POINTS, (machines, client, &payers.is_over), |account| {
        payers.work(account)
    })?;
    Ok((
        reached,
        payers.done.into_inner().unwrap_or_else(PoisonError::into_inner),
    ))
}

/// Compares the payments on the chain with the steps that the service reported and with the orders at the partner.
fn judge(stage: &Stage, records: &Records, bank: &Bank, row: &mut Row) -> Result<()> {
    let mut told: HashMap<(String, String), usize> = HashMap::new();
    for event in stage.pages("/v2/events?event=payment.processing", "events")? {
        let body: Value = serde_json::from_str(event["body"].as_str().context("no body")?)?;
        let key = (
            member(&body, "requestId")?.to_owned(),
            member(&body, "subStatus")?.to_owned(),
        );
        *told.entry(key).or_default() += 1;
    }
    row.doubled += told.values().map(|count| count - 1).sum::<usize>();
    let mut steps: HashMap<&str, usize> = HashMap::new();
    for (request, _) in told.keys() {
        *steps.entry(request).or_default() += 1;
    }
    // A report of a step may be missing, because the service may poll the partner and see only a later step. The last
    // step must be reported.
    let is_told = |paid: &&Paid| told.contains_key(&(paid.request_id.clone(), "fiat_sent".to_owned()));
    row.lost += records.paid.iter().filter(|paid| !is_told(paid)).count();
    row.check(steps.values().all(|count| *count <= STEPS), || {
        "more steps than exist".to_owned()
    });
    let done = bank.done();
    row.doubled += done.orders.saturating_sub(records.paid.len());
    row.lost += records.paid.len().saturating_sub(done.orders);
    row.note(&format!(
        "{} payments, {} orders requested {} times, {} reported to their last step",
        records.paid.len(),
        done.orders,
        done.asked,
        done.told
    ));
    Ok(())
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
