//! The service dies between any two effects of links: while they are made, combined, withdrawn, reported on and paid.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context, Result};
use xtask::service::client::Call;

use crate::fault::{Database, Fault};
use crate::payers::{Done, Payers, Wanted, approve_all, destination};
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::rounds;
use crate::stage::{PAYERS, Stage};
use crate::verdict::Records;

/// Account that is paid; those before it pay.
const PAYEE: usize = 6;

/// Where a process can end: the edges of each commit of a link, and the steps inside and between them.
const POINTS: [&str; 38] = [
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
    "withdraw_secure_payment.begun",
    "withdraw_secure_payment.before_commit",
    "withdraw_secure_payment.after_commit",
    "issue_calldata.before_commit",
    "issue_calldata.after_commit",
    "record_intent.begun",
    "record_intent.inserted",
    "record_intent.before_commit",
    "record_intent.after_commit",
    "tell_payer_step.begun",
    "tell_payer_step.hinted",
    "tell_payer_step.before_commit",
    "tell_payer_step.after_commit",
    "tell_refused_wallet.begun",
    "tell_refused_wallet.noted",
    "tell_refused_wallet.before_commit",
    "tell_refused_wallet.after_commit",
    "confirm_blocks.recorded",
    "confirm_blocks.followed",
    "confirm_blocks.credited",
    "confirm_blocks.before_commit",
    "confirm_blocks.after_commit",
];

/// How many points there are.
const POINTS_COUNT: u64 = POINTS.len() as u64;

/// Deaths at each point, `plan.rounds_per_point` times.
pub(crate) fn kills(plan: &Plan, database: Database) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::LinkKills, database)?;
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
    let never: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    row.check(never.is_empty(), || format!("never reached: {}", never.join(", ")));
    row.note(&format!(
        "{} of {POINTS_COUNT} points reached, {} links",
        POINTS_COUNT - u64::try_from(never.len())?,
        done.links.len()
    ));
    Ok(row)
}

/// Compares what links answer, and what was told of them, with what was done.
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
                "a link answers {} {message:?} instead of {:?}",
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_point_stands_twice() {
        assert_eq!(HashSet::from(POINTS).len(), POINTS.len());
    }
}
