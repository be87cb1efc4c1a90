//! The operator's word about a rate.

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rate::Rate,
        rates::{Finding, Price, RateProvider, Reading},
        refusal::Refusal,
    },
    flows::{FlowResult, rates::waiting},
    store,
};
use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};

/// Readings that are looked at for those that were held back: more than a day of them.
pub(super) const RUN_MAX: u64 = 2_000;

/// What the operator says.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// The newest rate that was held back is right, and those in a row before it that tell about the same.
    Held,
    /// This was the rate at a time.
    Rate(Rate, DateTime<Utc>),
}

/// What was accepted.
#[derive(Debug, Clone)]
pub struct AcceptedRate {
    /// The newest reading of it.
    pub reading: Reading,
    /// How many readings are rates by it.
    pub readings: u64,
}

/// Has a rate believed, and payments that wait for one looked at again.
///
/// Errors: no feed tells a rate of the pair, nothing of it was held back, or the named time is still to come: such a
/// rate would be the last accepted one for every reading until then.
pub async fn run(ctx: &Ctx, pair: &Pair, word: Word) -> FlowResult<AcceptedRate> {
    if !ctx.catalogue.quoted_pairs().contains(pair) {
        return Err(
            Refusal::not_found(format!("{pair} is no pair of a quote; prs admin rates list shows them")).into(),
        );
    }
    let now = ctx.clock.now();
    if let Word::Rate(_, time) = word
        && time > now
    {
        let now = now.to_rfc3339_opts(SecondsFormat::Millis, true);
        return Err(Refusal::invalid(format!("--at: must not be after now, which is {now}")).into());
    }
    let last = store::rates::last_accepted(ctx.db.reader(), pair).await?;
    let tx = ctx.db.begin("accept_rate").await?;
    let accepted = match word {
        Word::Rate(rate, time) => {
            let time = time.trunc_subsecs(3);
            let reading = Reading {
                pair: pair.clone(),
                read_at: time,
                provider: RateProvider::Unknown,
                finding: Finding::Accepted(Price { rate, as_of: time }),
            };
            store::rates::replace(&tx, ctx.ids.ulid(), &reading).await?;
            AcceptedRate { reading, readings: 1 }
        }
        Word::Held => {
            let since = store::rates::after(&tx, pair, last.map(|last| last.read_at), RUN_MAX).await?;
            let mut since = since.as_slice();
            while let Some((newest, older)) = since.split_first()
                && newest.held().is_none()
            {
                since = older;
            }
            let newest = since.first().and_then(|newest| Some((newest, newest.held()?)));
            let Some((newest, rate)) = newest else {
                return Err(Refusal::conflict(format!("no rate of {pair} was held back; name one with --rate")).into());
            };
            let oldest = ctx.rates.guards.run(rate, since).last().unwrap_or(newest);
            let span = (oldest.read_at, newest.read_at);
            AcceptedRate {
                readings: store::rates::accept_held(&tx, pair, span).await?,
                reading: newest.clone(),
            }
        }
    };
    waiting::retry(&tx, ctx, pair, now).await?;
    tx.commit().await?;
    Ok(accepted)
}
