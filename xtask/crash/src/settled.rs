//! Reads the result of a run with recurring payments and requests from the service, the chain and the receiver.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use alloy::primitives::utils::format_ether;
use alloy::primitives::{Address, B256, keccak256};
use alloy::rpc::types::Filter;
use alloy::sol;
use alloy::sol_types::SolEvent;
use anyhow::{Context, Result, bail};
use devnet::RELAYER_INDEX;
use serde_json::{Value, json};
use xtask::machine::command;
use xtask::service::client::{Call, Client};

use crate::asked::{AMOUNT, Asked};
use crate::calendar::{Calendar, periods_begun};
use crate::dues::{Dues, Parent, Relayer, Schedule, Tally, Told};
use crate::service::Service;
use crate::stage::{Stage, find, listed, member};
use crate::verdict::{Acknowledged, Paid, Records, Verdict};

sol! {
    event TransferWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
}
/// Seconds of an hour.
const HOUR_S: u64 = 3_600;
/// How long nothing may change at the end of a run. Items that are still missing then count as lost.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// If nothing changes for this time, the clock advances by an hour, because postponed work waits until a certain time.
const STANDSTILL: Duration = Duration::from_secs(6);

/// Maximum number of hours by which the clock is advanced.
const HOURS_MAX: u64 = 20;
/// Pause between two reads of the whole state.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The result of the run.
pub(crate) struct Ended {
    /// What happened to every payment, whether recurring or not.
    pub(crate) verdict: Verdict,
    /// What happened to the recurring items.
    pub(crate) tally: Tally,
    /// The account that executed the recurring payments.
    pub(crate) relayer: Relayer,
}

/// Waits until all due items have happened and been reported, and until nothing changes.
pub(crate) fn settle(
    stage: &Stage,
    workers: &[Service],
    calendar: &mut Calendar,
    asked: &Asked,
    quiet: Duration,
) -> Result<Ended> {
    let (mut last, mut hours) = (((0, usize::MAX), Instant::now()), 0);
    loop {
        if command::interrupted() {
            bail!("interrupted");
        }
        let (records, dues) = read_back(stage, calendar, asked)?;
        let mut verdict = Verdict::of(&records);
        // [`Tally`] counts the events of recurring items, so the verdict does not count them again.
        (verdict.events_lost, verdict.events_doubled) = (0, 0);
        let tally = Tally::of(&dues);
        let lost = verdict.lost() + tally.lost();
        let state = (records.deliveries.len(), lost);
        if state != last.0 {
            last = (state, Instant::now());
        }
        let silence = last.1.elapsed();
        if (lost == 0 && silence > quiet) || silence > SILENCE_MAX {
            let relayer = relayer(stage, workers)?;
            let dues = Dues {
                relayer: relayer.clone(),
                ..dues
            };
            return Ok(Ended {
                verdict,
                tally: Tally::of(&dues),
                relayer,
            });
        }
        if lost > 0 && silence > STANDSTILL && hours < HOURS_MAX {
            hours += 1;
            calendar.forward(HOUR_S)?;
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// Everything that the service, the chain and the receiver show.
fn read_back(stage: &Stage, calendar: &Calendar, asked: &Asked) -> Result<(Records, Dues)> {
    let mut records = Records::default();
    stage.collect(&mut records, "late");
    let mut on_chain = payments(stage)?;
    let mut dues = Dues::default();
    for (id, payee) in &asked.schedules {
        let view = stage.get(&format!("/v2/payouts/recurring/{id}"))?;
        let mut of_topic = HashMap::new();
        for request in view["requests"].as_array().context("no requests")? {
            let request_id = member(request, "requestId")?.to_owned();
            let reference = hex::decode(member(request, "paymentReference")?.trim_start_matches("0x"))?;
            of_topic.insert(keccak256(reference), request_id.clone());
            if let Some(found) = find(&stage.client, &request_id)? {
                records.found.insert(request_id.clone(), found);
            }
            records.acknowledged.push(Acknowledged {
                key: Some(id.clone()),
                request_id,
                amount: AMOUNT.to_owned(),
            });
        }
        let paid: Vec<Paid> = on_chain
            .remove(payee)
            .unwrap_or_default()
            .into_iter()
            .map(|(topic, tx_hash, amount)| Paid {
                // If no request has the payment's reference, the topic of the reference takes the place of the
                // request's id. Such an id equals that of no request.
                request_id: of_topic.get(&topic).cloned().unwrap_or_else(|| topic.to_string()),
                tx_hash: tx_hash.to_string(),
                amount,
            })
            .collect();
        records.listed.extend(listed(&stage.client, &payee.to_string())?);
        records.paid.extend(paid.iter().cloned());
        let counted = view["processedPayments"].as_u64().context("no processedPayments")?;
        dues.schedules.push(Schedule {
            id: id.clone(),
            due: asked.payments,
            counted: usize::try_from(counted)?,
            paid,
        });
    }
    if !on_chain.is_empty() {
        bail!("payments on the chain to unknown payees: {:?}", on_chain.keys());
    }
    let now = calendar.now();
    for (id, payee, first) in &asked.parents {
        let made = listed(&stage.client, payee)?
            .into_iter()
            .map(|request| request.request_id);
        let made = made.filter(|request_id| request_id != id).collect();
        dues.parents.push(Parent {
            id: id.clone(),
            due: periods_begun(*first, calendar.begun, now),
            made,
        });
    }
    dues.told = records
        .deliveries
        .iter()
        .map(|delivery| {
            let event: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
            let recurring = event.pointer("/recurringPayment/id").and_then(Value::as_str);
            let of = recurring.or_else(|| event["originalRequestId"].as_str());
            Told {
                id: delivery.id.clone().unwrap_or_default(),
                event: delivery.event.clone(),
                request_id: delivery.request_id.clone(),
                of: of.unwrap_or_default().to_owned(),
            }
        })
        .collect();
    Ok((records, dues))
}

/// A payment through the fee proxy: the topic of its payment reference, the transaction hash, and the amount.
type OnChain = (B256, B256, String);

/// Every payment of the chain, by payee.
fn payments(stage: &Stage) -> Result<HashMap<Address, Vec<OnChain>>> {
    let filter = Filter::new()
        .address(stage.chain.contracts().erc20_fee_proxy)
        .event_signature(TransferWithReferenceAndFee::SIGNATURE_HASH)
        .from_block(0);
    let mut payments: HashMap<Address, Vec<OnChain>> = HashMap::new();
    for log in stage.runtime().block_on(stage.chain.logs(&filter))? {
        let tx_hash = log.transaction_hash.context("a log of no transaction")?;
        let event = log.log_decode::<TransferWithReferenceAndFee>()?.inner.data;
        let payment = (event.paymentReference, tx_hash, format_ether(event.amount));
        payments.entry(event.to).or_default().push(payment);
    }
    Ok(payments)
}

/// The transactions of the executing account in all blocks, and the transactions that the service still waits for.
fn relayer(stage: &Stage, workers: &[Service]) -> Result<Relayer> {
    let (chain, runtime) = (&stage.chain, stage.runtime());
    let address = chain.accounts().get(RELAYER_INDEX).context("no relayer")?.address;
    let quantity = |value: &Value| -> Result<u64> {
        let digits = value.as_str().context("no quantity")?.trim_start_matches("0x");
        Ok(u64::from_str_radix(digits, 16)?)
    };
    let counted = runtime.block_on(chain.rpc("eth_getTransactionCount", json!([address, "latest"])))?;
    let mut nonces = Vec::new();
    for number in 0..=runtime.block_on(chain.block_number())? {
        let block = chain.rpc("eth_getBlockByNumber", json!([format!("{number:#x}"), true]));
        let block = runtime.block_on(block)?;
        for transaction in block["transactions"].as_array().context("no transactions")? {
            let from: Address = member(transaction, "from")?.parse()?;
            if from == address {
                nonces.push(quantity(&transaction["nonce"])?);
            }
        }
    }
    let mut pending = 0;
    let urls = workers.iter().map(Service::base_url);
    for url in urls.chain([stage.machines.service.base_url()]) {
        let page = Client::new(url, Vec::new()).call("/metrics", &Call::Get)?.expect(200)?;
        pending += gauge(page.as_str().unwrap_or_default(), "prs_relayer_pending_transactions");
    }
    Ok(Relayer {
        counted: quantity(&counted)?,
        nonces,
        pending,
    })
}

/// The sum of a gauge over its labels; `None` if it was never set.
fn gauge(page: &str, name: &str) -> usize {
    let lines = page.lines().filter(|line| line.starts_with(name));
    let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_read_from_a_page_of_metrics() {
        let page = "# TYPE prs_x gauge\nprs_x{network=\"sepolia\"} 2\nprs_x{network=\"base\"} 1\nprs_y 7\n";
        assert_eq!((gauge(page, "prs_x"), gauge(page, "prs_z")), (3, 0));
    }
}
