//! The service dies between any two changes to links: while they are created, combined, withdrawn, locked, released,
//! reported on and paid, and while an orchestrator links client IDs and sets its fees.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context, Result};
use serde_json::json;
use xtask::service::client::Call;

use crate::client::Client;
use crate::fault::{Database, Fault};
use crate::payers::{
    CLIENT_IDS, CONFIGS, DUE_S, Done, MULTICALLS, MulticallCreation, Partnership, Payers, SafeReport, Wanted,
    approve_all, destination,
};
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::rounds;
use crate::stage::{PAYERS, Stage, member};
use crate::verdict::Records;

/// Index of the account that receives payments. The accounts with a lower index pay.
const PAYEE: usize = 6;

/// Crash points, at which the process can die: before and after each commit of a link, and at steps inside and between
/// commits.
const POINTS: [&str; 63] = [
    "create_secure_payment.begun",
    "create_secure_payment.requests_inserted",
    "create_secure_payment.inserted",
    "create_secure_payment.before_commit",
    "create_secure_payment.after_commit",
    "create_secure_payout.begun",
    "create_secure_payout.request_inserted",
    "create_secure_payout.destination_noted",
    "create_secure_payout.inserted",
    "create_secure_payout.before_commit",
    "create_secure_payout.after_commit",
    "combine_secure_payments.begun",
    "combine_secure_payments.original_ended",
    "combine_secure_payments.inserted",
    "combine_secure_payments.before_commit",
    "combine_secure_payments.after_commit",
    "create_multicall.begun",
    "create_multicall.inserted",
    "create_multicall.before_commit",
    "create_multicall.after_commit",
    "withdraw_secure_payment.begun",
    "withdraw_secure_payment.before_commit",
    "withdraw_secure_payment.after_commit",
    "issue_calldata.before_commit",
    "issue_calldata.after_commit",
    "record_intent.begun",
    "record_intent.locked",
    "record_intent.inserted",
    "record_intent.before_commit",
    "record_intent.after_commit",
    "release_secure_payment.begun",
    "release_secure_payment.unlocked",
    "release_secure_payment.before_commit",
    "release_secure_payment.after_commit",
    "end_safe_lock.begun",
    "end_safe_lock.ended",
    "end_safe_lock.before_commit",
    "end_safe_lock.after_commit",
    "tell_payer_step.begun",
    "tell_payer_step.hinted",
    "tell_payer_step.before_commit",
    "tell_payer_step.after_commit",
    "tell_refused_wallet.begun",
    "tell_refused_wallet.noted",
    "tell_refused_wallet.before_commit",
    "tell_refused_wallet.after_commit",
    "link_client_id.inserted",
    "link_client_id.before_commit",
    "link_client_id.after_commit",
    "create_fee_config.inserted",
    "create_fee_config.before_commit",
    "create_fee_config.after_commit",
    "update_fee_config.updated",
    "update_fee_config.before_commit",
    "update_fee_config.after_commit",
    "unlink_client_id.ended",
    "unlink_client_id.before_commit",
    "unlink_client_id.after_commit",
    "confirm_blocks.recorded",
    "confirm_blocks.followed",
    "confirm_blocks.credited",
    "confirm_blocks.before_commit",
    "confirm_blocks.after_commit",
];

/// Number of points.
const POINTS_COUNT: u64 = POINTS.len() as u64;

/// Makes the process die at each point, `plan.rounds_per_point` times.
pub(crate) fn kills(plan: &Plan, database: Database) -> Result<Row> {
    // The merchant's consent to a link is tested elsewhere.
    let open = [("PRS_ORCHESTRATORS__DIRECT_LINKS", "open".to_owned())];
    let mut stage = Stage::open_with(plan, Fault::LinkKills, database, false, &open)?;
    let orchestrator = &["orchestrator", "create", "--name", "Crash test"];
    let orchestrator = stage.machines.service.provision(orchestrator)?;
    let orchestrator_key = member(&orchestrator, "orchestratorKey")?;
    stage.register("late")?;
    let payee = stage.chain.accounts().get(PAYEE).context("no such account")?.address;
    let runtime = stage.runtime().clone();
    for payer in PAYERS {
        approve_all(&stage.chain, &runtime, payer)?;
    }
    let base_url = stage.machines.service.base_url().to_owned();
    let destination = destination(&stage.client, &base_url, (&stage.chain, &runtime), payee)?;
    let (reached, done) = {
        let Stage {
            machines,
            client,
            chain,
            ..
        } = &mut stage;
        let payers = Payers {
            client: &*client,
            orchestrator_key,
            base_url: &base_url,
            chain: chain.as_ref(),
            runtime: &runtime,
            run: plan.seed,
            destination: &destination,
            recipient: payee,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            done: Mutex::new(Done::default()),
        };
        let reached = rounds::die(plan, &POINTS, (machines, client, &payers.is_over), |account| {
            payers.work(account)
        })?;
        (
            reached,
            payers.done.into_inner().unwrap_or_else(PoisonError::into_inner),
        )
    };
    // The last locks end when the chain shows a time after their deadlines, and no further payment brings a block.
    runtime.block_on(stage.chain.increase_time(DUE_S.unsigned_abs() + 1))?;
    let mut records = Records {
        acknowledged: done.acknowledged,
        unanswered: done.unanswered,
        paid: done.paid,
        payees: vec![payee.to_string()],
        ..Records::default()
    };
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let deaths = reached.len();
    let mut row = Row::of(Fault::LinkKills, database, u64::try_from(deaths)?, &verdict);
    judge(&stage, &done.links, &mut row)?;
    judge_safe_reports(&stage, &done.safe_reports, &mut row)?;
    judge_multicalls(&stage, &done.multicalls, &mut row)?;
    let orchestrator = Client::new(&base_url, vec![("x-orchestrator-key", orchestrator_key.to_owned())]);
    judge_partnerships(&orchestrator, &done.partnerships, &mut row)?;
    let never: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    row.check(never.is_empty(), || format!("never reached: {}", never.join(", ")));
    row.note(&format!(
        "{} of {POINTS_COUNT} points reached, {} links, {} multicalls, {} locks, {} linked client IDs",
        POINTS_COUNT - u64::try_from(never.len())?,
        done.links.len(),
        done.multicalls.len(),
        done.safe_reports.len(),
        done.partnerships.len()
    ));
    Ok(row)
}

/// Compares the responses and events of links with what the payers did.
fn judge(stage: &Stage, links: &[Wanted], row: &mut Row) -> Result<()> {
    let told = |kind: &str, by: &'static str| -> Result<HashMap<String, usize>> {
        let mut counts = HashMap::new();
        for event in stage.pages(&format!("/v2/events?event={kind}"), "events")? {
            let body: serde_json::Value = serde_json::from_str(event["body"].as_str().context("no body")?)?;
            *counts
                .entry(body[by].as_str().unwrap_or_default().to_owned())
                .or_default() += 1;
        }
        Ok(counts)
    };
    let steps = told("secure_payment.user_event", "securePaymentToken")?;
    let refusals: usize = told("secure_payment.access_rejected", "requestId")?.into_values().sum();
    for link in links {
        let path = format!("/v2/secure-payments/{}", link.token);
        let answer = stage.client.call(&path, &Call::Get)?;
        let message = answer.body["message"].as_str().unwrap_or_default();
        let is_as_wanted = (answer.status, message) == link.answer;
        row.lost += usize::from(!is_as_wanted);
        row.check(is_as_wanted, || {
            format!(
                "a link returns {} {message:?} instead of {:?}",
                answer.status, link.answer
            )
        });
        let of_link = steps.get(&link.token).copied().unwrap_or_default();
        row.lost += link.reports.saturating_sub(of_link);
        row.doubled += of_link.saturating_sub(link.reports);
    }
    let wanted: usize = links.iter().map(|link| link.refused).sum();
    row.lost += wanted.saturating_sub(refusals);
    row.doubled += refusals.saturating_sub(wanted);
    Ok(())
}

/// Compares the reported transactions of Safes with the events, and on PostgreSQL with the stored reports and locks.
/// Each report has one final state, no lock remains, and no event is about a lock.
fn judge_safe_reports(stage: &Stage, reports: &[SafeReport], row: &mut Row) -> Result<()> {
    let failed = stage.pages("/v2/events?event=payment.failed", "events")?.len();
    row.check(failed == 0, || format!("{failed} events report a failed payment"));
    let query = "SELECT hash, state FROM secure_payment_intents WHERE kind = 'safe'";
    let Some(mut stored) = stage.query(query)? else {
        return Ok(());
    };
    let reports = reports.iter().map(|report| format!("{}|{}", report.hash, report.state));
    let mut wanted: Vec<String> = reports.collect();
    stored.sort_unstable();
    wanted.sort_unstable();
    row.check(stored == wanted, || {
        let surplus: Vec<&String> = stored.iter().filter(|report| !wanted.contains(report)).collect();
        let missing: Vec<&String> = wanted.iter().filter(|report| !stored.contains(report)).collect();
        format!("reports of Safes: stored are {surplus:?} instead of {missing:?}")
    });
    let locked = stage.query("SELECT token FROM secure_payments WHERE locked_until >= now()")?;
    let locked = locked.unwrap_or_default();
    row.check(locked.is_empty(), || format!("the links {locked:?} are still locked"));
    Ok(())
}

/// Repeats each creation of a multicall with its key, which must return the same multicall. On PostgreSQL also counts
/// the stored multicalls.
fn judge_multicalls(stage: &Stage, multicalls: &[MulticallCreation], row: &mut Row) -> Result<()> {
    for MulticallCreation { key, body, token } in multicalls {
        let again = stage.client.call(MULTICALLS, &Call::PostOnce(body, key))?;
        row.check(again.status == 201 && again.body["token"] == *token, || {
            format!("the repeated creation of multicall {token} returned {}", again.status)
        });
    }
    let query = "SELECT DISTINCT secure_payment_id FROM secure_payment_items WHERE child_token IS NOT NULL";
    if let Some(stored) = stage.query(query)? {
        row.lost += multicalls.len().saturating_sub(stored.len());
        row.doubled += stored.len().saturating_sub(multicalls.len());
    }
    Ok(())
}

/// Compares the links and fee configs of the orchestrator with the client IDs that it linked: each has one link, which
/// has the right state, and one fee config, which is disabled.
fn judge_partnerships(orchestrator: &Client, partnerships: &[Partnership], row: &mut Row) -> Result<()> {
    let listed = orchestrator.get(&format!("{CLIENT_IDS}?limit=1"))?;
    let active = partnerships.iter().filter(|partnership| !partnership.is_ended).count();
    row.check(listed["total"] == active, || {
        format!("{active} links are active, and the list says {}", listed["total"])
    });
    for Partnership {
        client_id,
        config,
        is_ended,
    } in partnerships
    {
        let again = orchestrator.call(CLIENT_IDS, &Call::Post(&json!({ "clientId": client_id })))?;
        row.check(again.status == 409, || {
            format!("a second link of {client_id} returned {}", again.status)
        });
        let configs = orchestrator.call(&format!("{CONFIGS}?clientId={client_id}"), &Call::Get)?;
        if *is_ended {
            row.check(configs.status == 404, || format!("the link of {client_id} did not end"));
            continue;
        }
        let listed = configs.body["feeConfigs"].as_array().context("no feeConfigs")?;
        row.doubled += listed.len().saturating_sub(1);
        let is_disabled = listed
            .iter()
            .any(|one| one["id"] == *config && one["status"] == "disabled");
        row.lost += usize::from(!is_disabled);
    }
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
