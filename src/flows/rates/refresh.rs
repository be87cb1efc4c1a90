//! Reads the feeds and stores their readings with their state.

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rates::{FeedPrice, RateFlaw, RateProvider, RateReference, ReadingResult, StoredReading},
    },
    flows::{
        FlowError, FlowResult,
        rates::{accept::RUN_MAX, waiting},
    },
    ports::rates::{FeedError, FeedReadings},
    store,
};
use chrono::{DateTime, SubsecRound, Utc};
use futures_util::future::join_all;
use std::collections::BTreeSet;

/// Reads the feeds, unless another instance just read them. If a feed does not respond, nothing is stored, and the last
/// rates stay valid until they are too old.
///
/// Errors: a feed does not respond.
pub async fn run(ctx: &Ctx) -> FlowResult<()> {
    let last = store::rates::last_read(ctx.db.reader()).await?;
    let now = ctx.clock.now();
    if last.is_some_and(|last| last <= now && now - last < ctx.rates.read_every / 2) {
        return Ok(());
    }
    now_once(ctx).await
}

/// Reads the feeds now. Errors: those of [`run`].
pub async fn now_once(ctx: &Ctx) -> FlowResult<()> {
    let pairs = ctx.catalogue.quoted_pairs();
    let feeds = &ctx.partners.rate_feeds;
    let Some(provider) = feeds.first().map(|feed| feed.provider()) else {
        return Ok(());
    };
    let mut asked: BTreeSet<Pair> = pairs.clone();
    asked.extend(pairs.iter().map(Pair::in_dollars));
    let told = join_all(feeds.iter().map(|feed| feed.read(&asked))).await;
    let told: Vec<FeedReadings> = told.into_iter().collect::<Result<_, FeedError>>().map_err(|error| {
        let error = anyhow::Error::new(error);
        FlowError::NotYet(error)
    })?;
    // The database stores milliseconds.
    let now = ctx.clock.now().trunc_subsecs(3);
    let of = |pair: &Pair| {
        let of_feeds: Vec<Result<FeedPrice, RateFlaw>> = told
            .iter()
            .map(|told| told.get(pair).copied().unwrap_or(Err(RateFlaw::Absent)))
            .collect();
        ctx.rates.guards.agreed(&of_feeds, now)
    };
    let mut judged = Vec::new();
    for pair in pairs {
        let found = ctx.rates.guards.on_peg(&pair, of(&pair), of(&pair.in_dollars()));
        // With several feeds, the reading is already the rate on which they agree.
        let is_confirmed = feeds.len() > 1 || found.is_ok_and(|price| ctx.rates.guards.is_confirmed(&pair, price, of));
        judged.push(judge(ctx, pair, provider, found, is_confirmed, now).await?);
    }
    let readings = judged.iter().map(|judged| (ctx.ids.ulid(), &judged.reading)).collect();
    let tx = ctx.db.begin("keep_rates").await?;
    store::rates::insert_all(&tx, readings).await?;
    for judged in &judged {
        let pair = &judged.reading.pair;
        if let Some(from) = judged.believed_from
            && store::rates::accept_held(&tx, pair, from, now).await? > 0
        {
            waiting::retry(&tx, ctx, pair, now).await?;
        }
    }
    tx.commit().await?;
    judged.iter().for_each(JudgedReading::tell);
    Ok(())
}

/// A reading with its state, and from when on earlier held-back readings become valid with it.
struct JudgedReading {
    reading: StoredReading,
    /// The previous reading, if any.
    before: Option<StoredReading>,
    /// Time from which on earlier readings that were held back become rates too; `None` if they stay held back.
    believed_from: Option<DateTime<Utc>>,
}

async fn judge(
    ctx: &Ctx,
    pair: Pair,
    provider: RateProvider,
    found: Result<FeedPrice, RateFlaw>,
    is_confirmed: bool,
    now: DateTime<Utc>,
) -> FlowResult<JudgedReading> {
    let last = store::rates::last_accepted(ctx.db.reader(), &pair).await?;
    let decided = store::rates::last_decided(ctx.db.reader(), &pair).await?;
    let decided_at = decided.as_ref().map(|decided| decided.read_at);
    let since = store::rates::after(ctx.db.reader(), &pair, decided_at, RUN_MAX).await?;
    let known = match last.map(|last| last.finding) {
        Some(ReadingResult::Accepted(price)) => RateReference::Last(price.rate),
        _ if is_confirmed => RateReference::Confirmed,
        _ => RateReference::Nothing,
    };
    let (finding, run) = ctx.rates.guards.judge(found, known, &since, now);
    let believed_from = run
        .checked_sub(1)
        .and_then(|first| since.get(first))
        .map(|first| first.read_at);
    Ok(JudgedReading {
        believed_from,
        before: since.into_iter().next().or(decided),
        reading: StoredReading {
            pair,
            read_at: now,
            provider,
            finding,
        },
    })
}

impl JudgedReading {
    /// Logs when a pair gets or loses its rate, after the commit.
    fn tell(&self) {
        let pair = &self.reading.pair;
        let is_rate = |reading: &StoredReading| matches!(reading.finding, ReadingResult::Accepted(_));
        let was_rate = self.before.as_ref().map(is_rate);
        match self.reading.finding {
            ReadingResult::Accepted(price) if was_rate != Some(true) => {
                tracing::info!(%pair, rate = %price.rate, "a rate is available");
            }
            ReadingResult::Accepted(_) => {}
            ReadingResult::Held(price) if was_rate != Some(false) => tracing::warn!(
                %pair, rate = %price.rate,
                "the new rate of {pair} is not used yet, because it is the first rate or far from the last one; the \
                 rate is used once it has been stable for long enough, or after you run `prs admin rates accept {pair}`"
            ),
            ReadingResult::Refused(flaw) if was_rate != Some(false) => {
                tracing::warn!(%pair, reason = flaw.wire(), "no rate is available");
            }
            ReadingResult::Held(_) | ReadingResult::Refused(_) => {}
        }
    }
}
