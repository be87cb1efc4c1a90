//! Rates that the operator accepts.

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rate::Rate,
        rates::{FeedPrice, RateProvider, ReadingResult, StoredReading},
        refusal::Refusal,
    },
    flows::{FlowResult, rates::waiting},
    store,
};
use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};

/// Maximum number of readings that are searched for held-back readings. It is more than one day of readings.
pub(super) const RUN_MAX: u64 = 2_000;

/// Decision of the operator.
#[derive(Debug, Clone, Copy)]
pub enum RateDecision {
    /// Accepts the newest reading that was held back, and the readings directly before it with about the same rate.
    Held,
    /// Sets this rate for this time.
    Rate(Rate, DateTime<Utc>),
}

/// An accepted rate.
#[derive(Debug, Clone)]
pub struct AcceptedRate {
    /// Its newest reading.
    pub reading: StoredReading,
    /// Number of readings that became rates.
    pub readings: u64,
}

/// Accepts a rate and reprocesses payments that wait for one.
///
/// Errors: no quote uses the pair; no reading of the pair is held back; or the time is in the future. A rate in the
/// future would be compared with every reading until then.
pub async fn run(ctx: &Ctx, pair: &Pair, word: RateDecision) -> FlowResult<AcceptedRate> {
    if !ctx.catalogue.quoted_pairs().contains(pair) {
        return Err(Refusal::not_found(format!(
            "no quote uses {pair}: `prs admin rates list` shows the pairs of the enabled networks; it is empty without \
             `chains.<network>.rpc_urls`"
        ))
        .into());
    }
    let now = ctx.clock.now();
    if let RateDecision::Rate(_, time) = word
        && time > now
    {
        let now = now.to_rfc3339_opts(SecondsFormat::Millis, true);
        return Err(Refusal::invalid(format!("--at: must not be after now, which is {now}")).into());
    }
    let last = store::rates::last_accepted(ctx.db.reader(), pair).await?;
    let tx = ctx.db.begin("accept_rate").await?;
    let accepted = match word {
        RateDecision::Rate(rate, time) => {
            let time = time.trunc_subsecs(3);
            let reading = StoredReading {
                pair: pair.clone(),
                read_at: time,
                provider: RateProvider::Unknown,
                finding: ReadingResult::Accepted(FeedPrice { rate, as_of: time }),
            };
            store::rates::replace(&tx, ctx.ids.ulid(), &reading).await?;
            AcceptedRate { reading, readings: 1 }
        }
        RateDecision::Held => {
            let since = store::rates::after(&tx, pair, last.map(|last| last.read_at), RUN_MAX).await?;
            let mut since = since.as_slice();
            while let Some((newest, older)) = since.split_first()
                && newest.held().is_none()
            {
                since = older;
            }
            let newest = since.first().and_then(|newest| Some((newest, newest.held()?)));
            let Some((newest, rate)) = newest else {
                return Err(Refusal::conflict(format!(
                    "no new rate of {pair} waits to be accepted; set a rate with --rate"
                ))
                .into());
            };
            let oldest = ctx.rates.guards.run(rate, since).last().unwrap_or(newest);
            AcceptedRate {
                readings: store::rates::accept_held(&tx, pair, oldest.read_at, newest.read_at).await?,
                reading: newest.clone(),
            }
        }
    };
    waiting::retry(&tx, ctx, pair, now).await?;
    tx.commit().await?;
    Ok(accepted)
}
