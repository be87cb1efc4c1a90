//! Reads the feeds and keeps what they tell, with what it was found to be.

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rates::{Finding, Flaw, Known, Price, RateProvider, Reading},
    },
    flows::{
        FlowError, FlowResult,
        rates::{accept::RUN_MAX, waiting},
    },
    ports::rates::{FeedError, Told},
    store,
};
use chrono::{DateTime, SubsecRound, Utc};
use futures_util::future::join_all;
use std::collections::BTreeSet;

/// Reads the feeds, unless another instance just did. A feed that does not answer leaves everything as it is, so that the
/// last rates hold as long as they are fresh.
///
/// Errors: a feed does not answer.
pub async fn run(ctx: &Ctx) -> FlowResult<()> {
    let last = store::rates::last_read(ctx.db.reader()).await?;
    let now = ctx.clock.now();
    if last.is_some_and(|last| last <= now && now - last < ctx.rates.read_every / 2) {
        return Ok(());
    }
    now_once(ctx).await
}

/// Reads the feeds now. Errors: as [`run`].
pub async fn now_once(ctx: &Ctx) -> FlowResult<()> {
    let pairs = ctx.catalogue.quoted_pairs();
    let feeds = &ctx.partners.rate_feeds;
    let Some(provider) = feeds.first().map(|feed| feed.provider()) else {
        return Ok(());
    };
    let mut asked: BTreeSet<Pair> = pairs.clone();
    asked.extend(pairs.iter().map(Pair::in_dollars));
    let told = join_all(feeds.iter().map(|feed| feed.read(&asked))).await;
    let told: Vec<Told> = told.into_iter().collect::<Result<_, FeedError>>().map_err(|error| {
        let error = anyhow::Error::new(error);
        FlowError::NotYet(error)
    })?;
    // Texts of the database have milliseconds.
    let now = ctx.clock.now().trunc_subsecs(3);
    let of = |pair: &Pair| {
        let of_feeds: Vec<Result<Price, Flaw>> = told
            .iter()
            .map(|told| told.get(pair).copied().unwrap_or(Err(Flaw::Absent)))
            .collect();
        ctx.rates.guards.agreed(&of_feeds, now)
    };
    let mut judged = Vec::new();
    for pair in pairs {
        let found = ctx.rates.guards.on_peg(&pair, of(&pair), of(&pair.in_dollars()));
        // Several feeds have agreed about it.
        let is_confirmed = feeds.len() > 1 || found.is_ok_and(|price| ctx.rates.guards.is_confirmed(&pair, price, of));
        judged.push(judge(ctx, pair, provider, (found, is_confirmed), now).await?);
    }
    let readings = judged.iter().map(|judged| (ctx.ids.ulid(), &judged.reading)).collect();
    let tx = ctx.db.begin("keep_rates").await?;
    store::rates::insert_all(&tx, readings).await?;
    for judged in &judged {
        let pair = &judged.reading.pair;
        if let Some(from) = judged.believed_from
            && store::rates::accept_held(&tx, pair, (from, now)).await? > 0
        {
            waiting::retry(&tx, ctx, pair, now).await?;
        }
    }
    tx.commit().await?;
    judged.iter().for_each(Judged::tell);
    Ok(())
}

/// A reading, and what it changes about those before it.
struct Judged {
    reading: Reading,
    /// The one before it, when there is one.
    before: Option<Reading>,
    /// From when on readings that were held back are rates too.
    believed_from: Option<DateTime<Utc>>,
}

async fn judge(
    ctx: &Ctx,
    pair: Pair,
    provider: RateProvider,
    (found, is_confirmed): (Result<Price, Flaw>, bool),
    now: DateTime<Utc>,
) -> FlowResult<Judged> {
    let last = store::rates::last_accepted(ctx.db.reader(), &pair).await?;
    let decided = store::rates::last_decided(ctx.db.reader(), &pair).await?;
    let decided_at = decided.as_ref().map(|decided| decided.read_at);
    let since = store::rates::after(ctx.db.reader(), &pair, decided_at, RUN_MAX).await?;
    let known = match last.map(|last| last.finding) {
        Some(Finding::Accepted(price)) => Known::Last(price.rate),
        _ if is_confirmed => Known::Confirmed,
        _ => Known::Nothing,
    };
    let (finding, run) = ctx.rates.guards.judge(found, known, &since, now);
    let believed_from = run
        .checked_sub(1)
        .and_then(|first| since.get(first))
        .map(|first| first.read_at);
    Ok(Judged {
        believed_from,
        before: since.into_iter().next().or(decided),
        reading: Reading {
            pair,
            read_at: now,
            provider,
            finding,
        },
    })
}

impl Judged {
    /// Says when a pair gets its rate back or loses it, once that is committed.
    fn tell(&self) {
        let pair = &self.reading.pair;
        let is_rate = |reading: &Reading| matches!(reading.finding, Finding::Accepted(_));
        let was_rate = self.before.as_ref().map(is_rate);
        match self.reading.finding {
            Finding::Accepted(price) if was_rate != Some(true) => {
                tracing::info!(%pair, rate = %price.rate, "there is a rate");
            }
            Finding::Accepted(_) => {}
            Finding::Held(price) if was_rate != Some(false) => tracing::warn!(
                %pair, rate = %price.rate,
                "a rate is the first one or far from the last one: there is none until it has held, or prs admin rates accept {pair}"
            ),
            Finding::Refused(flaw) if was_rate != Some(false) => {
                tracing::warn!(%pair, reason = flaw.wire(), "there is no rate");
            }
            Finding::Held(_) | Finding::Refused(_) => {}
        }
    }
}
