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
use futures_util::{StreamExt as _, stream};

/// Records of one step and kind: each is asked for by itself.
const BATCH: u64 = 20;

/// How many of a kind are asked for together.
const TOGETHER: usize = 3;

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
    let leaving = leaving.into_iter().map(|payer| Whom::Payer(Box::new(payer)));
    let leaving = leaving.chain(registered.into_iter().map(Whom::Registered));
    // Beside each other: whoever has many records that the partner is slow about keeps nobody's erasure waiting.
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

/// Does some of this at a time. Errors: the first one, once all is done.
async fn together<F: Future<Output = FlowResult<()>>>(steps: Vec<F>) -> FlowResult<()> {
    let done: Vec<FlowResult<()>> = stream::iter(steps).buffer_unordered(TOGETHER).collect().await;
    done.into_iter().try_for_each(settled)
}

/// What the partner did not answer well stands in the log, and keeps nobody else waiting. Errors: the database.
fn settled(asked: FlowResult<()>) -> FlowResult<()> {
    match asked {
        Err(FlowError::Refused(_)) => Ok(()),
        other => other,
    }
}

async fn forget(ctx: &Ctx, partner: &dyn OffRamp, whom: Whom) -> FlowResult<()> {
    let erased = erase::through(ctx, &whom, async |whom| erase::forget(partner, whom).await).await;
    erased.map(|_| ())
}

async fn ask(ctx: &Ctx, partner: &dyn OffRamp, payer: Payer) -> FlowResult<()> {
    let payer = &payer;
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

async fn ask_about_account(ctx: &Ctx, partner: &dyn OffRamp, account: RegisteredAccount) -> FlowResult<()> {
    let account = &account;
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
