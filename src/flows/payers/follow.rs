//! Queries the partner for news that may have been lost, and finishes erasures.

use crate::{
    ctx::Ctx,
    domain::{
        off_ramp_news::NewsResult,
        payer::{CompliancePayer, RegisteredAccount, asking},
    },
    flows::{
        FlowError, FlowResult,
        payers::{
            erase::{self, ErasureSubject},
            news,
        },
    },
    ports::off_ramp::OffRamp,
    store,
};
use chrono::TimeDelta;
use futures_util::{StreamExt as _, stream};

/// Maximum number of records per step and kind. Each record is one query.
const BATCH: u64 = 20;

/// Number of concurrent queries per kind.
const TOGETHER: usize = 3;

/// How long a claimed record is reserved for this instance.
const LEASE: TimeDelta = TimeDelta::minutes(5);

/// Queries a batch of due records; returns whether there may be more. Without a partner nothing is due.
pub async fn step(ctx: &Ctx) -> FlowResult<bool> {
    let Some(partner) = ctx.partners.off_ramp.as_deref() else {
        return Ok(false);
    };
    let now = ctx.clock.now();
    let tx = ctx.db.begin("take_payers").await?;
    let payers = store::payers::take_due(&tx, now, now + LEASE, BATCH).await?;
    let erased = store::payers::unwiped(&tx, now, BATCH).await?;
    let registered = store::payer_registrations::take_due(&tx, now, now + LEASE, BATCH).await?;
    let accounts = store::bank_accounts::take_due(&tx, now, now + LEASE, BATCH).await?;
    tx.commit().await?;
    // One checkpoint of SQLite removes the keys of all erased payers. There is not one for each payer, because a
    // checkpoint blocks writes while another process reads the file.
    if !erased.is_empty() && ctx.db.checkpoint().await? {
        for (platform, payer) in &erased {
            store::payers::wiped(ctx.db.writer(), platform, payer).await?;
        }
    }
    let full = usize::try_from(BATCH).unwrap_or(usize::MAX);
    let may_be_more = [payers.len(), registered.len(), accounts.len()].contains(&full);
    let (leaving, staying): (Vec<_>, Vec<_>) = payers.into_iter().partition(|payer| payer.is_erasing);
    let leaving = leaving.into_iter().map(|payer| ErasureSubject::Payer(Box::new(payer)));
    let leaving = leaving.chain(registered.into_iter().map(ErasureSubject::Registered));
    // Erasures, payers and accounts are handled in parallel, so that slow queries about many records do not delay
    // erasures.
    tokio::try_join!(
        together(leaving.map(|whom| forget(ctx, partner, whom)).collect()),
        together(staying.into_iter().map(|payer| ask(ctx, partner, payer)).collect()),
        together(
            accounts
                .into_iter()
                .map(|account| ask_about_account(ctx, partner, account))
                .collect()
        ),
    )?;
    Ok(may_be_more)
}

/// Runs the futures, a few at a time. Errors: the first error, after all futures have finished.
async fn together<F: Future<Output = FlowResult<()>>>(steps: Vec<F>) -> FlowResult<()> {
    let done: Vec<FlowResult<()>> = stream::iter(steps).buffer_unordered(TOGETHER).collect().await;
    done.into_iter().try_for_each(settled)
}

/// Handles the result for one record. A failure of the partner is logged and does not delay other records. Errors: the
/// database.
fn settled(asked: FlowResult<()>) -> FlowResult<()> {
    match asked {
        Err(FlowError::Refused(_)) => Ok(()),
        other => other,
    }
}

async fn forget(ctx: &Ctx, partner: &dyn OffRamp, whom: ErasureSubject) -> FlowResult<()> {
    let erased = erase::through(ctx, &whom, async |whom| erase::forget(partner, whom).await).await;
    erased.map(|_| ())
}

async fn ask(ctx: &Ctx, partner: &dyn OffRamp, payer: CompliancePayer) -> FlowResult<()> {
    let payer = &payer;
    let (taken, is_news) = match partner.payer(&payer.details.partner).await {
        Ok(told) => {
            let taken = news::about(ctx, payer, &told).await?;
            (
                taken,
                taken != NewsResult::Unknown && told.version > payer.partner_version,
            )
        }
        Err(_) => (NewsResult::Unknown, false),
    };
    // News sets the time of the next query itself.
    if !is_news {
        let at = asking::about_payer(ctx.clock.now(), payer.changed_at, payer.standing);
        store::payers::ask_again(ctx.db.writer(), payer, at).await?;
    }
    count(taken, "payer");
    Ok(())
}

async fn ask_about_account(ctx: &Ctx, partner: &dyn OffRamp, account: RegisteredAccount) -> FlowResult<()> {
    let account = &account;
    let (taken, is_news) = match partner.account(&account.details.partner).await {
        Ok(told) => {
            let taken = news::about_account(ctx, account, &told).await?;
            (
                taken,
                taken != NewsResult::Unknown && told.version > account.partner_version,
            )
        }
        Err(_) => (NewsResult::Unknown, false),
    };
    // News sets the time of the next query itself.
    if !is_news {
        let at = asking::about_account(ctx.clock.now(), account.changed_at, account.standing());
        store::bank_accounts::ask_again(ctx.db.writer(), account, at).await?;
    }
    count(taken, "account");
    Ok(())
}

/// Kinds of records that are queried.
pub const ABOUT: [&str; 2] = ["payer", "account"];

/// Possible results of a query.
pub const RESULTS: [&str; 3] = ["changed", "nothing", "unanswered"];

fn count(taken: NewsResult, what: &'static str) {
    let result = match taken {
        NewsResult::Changed => "changed",
        NewsResult::Nothing => "nothing",
        NewsResult::Unknown => "unanswered",
    };
    metrics::counter!("prs_off_ramp_asked_total", "what" => what, "result" => result).increment(1);
}
