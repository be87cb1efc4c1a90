//! Asks the partner for what it may have told in vain, and ends erasures that were begun.

use crate::{
    ctx::Ctx,
    domain::{
        off_ramp_news::Taken,
        payer::{Payer, RegisteredAccount, asking},
    },
    flows::{
        FlowError, FlowResult,
        payers::{
            erase::{self, Whom},
            news,
        },
    },
    ports::off_ramp::OffRamp,
    store,
};
use chrono::TimeDelta;

/// Records of one step: each is asked for by itself, one after the other.
const BATCH: u64 = 20;

/// For how long a record belongs to whoever took it.
const LEASE: TimeDelta = TimeDelta::minutes(5);

/// Asks for a batch of what is due; tells whether there may be more. Without a partner nothing is due.
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
    // One emptying is for all of them: each would keep writes waiting while somebody reads the file.
    if !erased.is_empty() && ctx.db.checkpoint().await? {
        for (platform, payer) in &erased {
            store::payers::wiped(ctx.db.writer(), platform, payer).await?;
        }
    }
    let full = usize::try_from(BATCH).unwrap_or(usize::MAX);
    let may_be_more = [payers.len(), registered.len(), accounts.len()].contains(&full);
    let (leaving, staying): (Vec<_>, Vec<_>) = payers.into_iter().partition(|payer| payer.is_erasing);
    for payer in &staying {
        settled(ask(ctx, partner, payer).await)?;
    }
    let leaving = leaving.into_iter().map(|payer| Whom::Payer(Box::new(payer)));
    for whom in leaving.chain(registered.into_iter().map(Whom::Registered)) {
        let erased = erase::through(ctx, &whom, async |whom| erase::forget(partner, whom).await).await;
        settled(erased.map(|_| ()))?;
    }
    for account in &accounts {
        settled(ask_about_account(ctx, partner, account).await)?;
    }
    Ok(may_be_more)
}

/// What the partner did not answer well stands in the log, and keeps nobody else waiting. Errors: the database.
fn settled(asked: FlowResult<()>) -> FlowResult<()> {
    match asked {
        Err(FlowError::Refused(_)) => Ok(()),
        other => other,
    }
}

async fn ask(ctx: &Ctx, partner: &dyn OffRamp, payer: &Payer) -> FlowResult<()> {
    let (taken, is_news) = match partner.payer(&payer.details.partner).await {
        Ok(told) => {
            let taken = news::about(ctx, payer, &told).await?;
            (taken, taken != Taken::Unknown && told.version > payer.partner_version)
        }
        Err(_) => (Taken::Unknown, false),
    };
    // What is new says by itself when it is asked for again.
    if !is_news {
        let at = asking::about_payer(ctx.clock.now(), payer.changed_at, payer.standing);
        store::payers::ask_again(ctx.db.writer(), payer, at).await?;
    }
    count(taken, "payer");
    Ok(())
}

async fn ask_about_account(ctx: &Ctx, partner: &dyn OffRamp, account: &RegisteredAccount) -> FlowResult<()> {
    let (taken, is_news) = match partner.account(&account.details.partner).await {
        Ok(told) => {
            let taken = news::about_account(ctx, account, &told).await?;
            (taken, taken != Taken::Unknown && told.version > account.partner_version)
        }
        Err(_) => (Taken::Unknown, false),
    };
    // What is new says by itself when it is asked for again.
    if !is_news {
        let at = asking::about_account(ctx.clock.now(), account.changed_at, account.standing());
        store::bank_accounts::ask_again(ctx.db.writer(), account, at).await?;
    }
    count(taken, "account");
    Ok(())
}

/// What is asked about.
pub const ABOUT: [&str; 2] = ["payer", "account"];

/// What can come of it.
pub const RESULTS: [&str; 3] = ["changed", "nothing", "unanswered"];

fn count(taken: Taken, what: &'static str) {
    let result = match taken {
        Taken::Changed => "changed",
        Taken::Nothing => "nothing",
        Taken::Unknown => "unanswered",
    };
    metrics::counter!("prs_off_ramp_asked_total", "what" => what, "result" => result).increment(1);
}
