//! `prs admin rates`: lists rates from the feeds and accepts held rates.

use super::output::{Output, print, say};
use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rate::Rate,
        rates::{ReadingResult, StoredReading},
    },
    flows::rates::{
        accept::{self, RateDecision},
        list,
    },
    http::forms::wire::Instant,
};
use anyhow::{Context, anyhow};
use chrono::{DateTime, Utc};
use clap::Subcommand;
use serde_json::{Value, json};

/// Verbs of `prs admin rates`.
#[derive(Debug, Subcommand)]
pub enum RatesVerb {
    /// Lists every pair that a quote may need. Shows its current rate or the reason why it has none, and the last
    /// accepted rate.
    List {
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Accepts a rate that was held back, or sets a rate. Payments that waited for the rate are checked again.
    Accept {
        /// The pair, such as `USDC/USD`.
        pair: String,
        /// The rate, in units of the currency for one token. Default: the newest rate that was held back.
        #[arg(long)]
        rate: Option<String>,
        /// The time from which the rate is valid, such as `2030-01-01T12:00:00Z`. Default: now.
        #[arg(long, requires = "rate")]
        at: Option<DateTime<Utc>>,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Runs a verb.
pub(super) async fn run(ctx: &Ctx, verb: RatesVerb) -> anyhow::Result<()> {
    match verb {
        RatesVerb::List { output } => {
            let listed = list::run(ctx).await?;
            let rows = listed.iter().map(|one| {
                json!({
                    "pair": one.pair.to_string(),
                    "rate": one.now.ok().map(|now| now.rate.to_string()),
                    "rateProvider": one.now.ok().map(|now| now.provider.wire()),
                    "why": one.now.err().map(|flaw| flaw.sentence()),
                    "newest": one.newest.as_ref().map(shown),
                    "lastAccepted": one.last_accepted.as_ref().map(shown),
                })
            });
            let rows: Vec<Value> = rows.collect();
            if output.json {
                say!("{}", json!({ "rates": rows }));
            } else {
                rows.iter().for_each(|row| print(&output, row));
            }
        }
        RatesVerb::Accept { pair, rate, at, output } => {
            let pair = Pair::parse(&pair).with_context(|| format!("{pair}: must be a pair such as USDC/USD"))?;
            let word = match rate {
                Some(text) => {
                    let rate = Rate::parse(&text).map_err(|why| anyhow!("--rate: {why}"))?;
                    RateDecision::Rate(rate, at.unwrap_or_else(|| ctx.clock.now()))
                }
                None => RateDecision::Held,
            };
            let accepted = accept::run(ctx, &pair, word).await?;
            tracing::warn!(%pair, "the operator accepted a rate");
            let mut row = shown(&accepted.reading);
            row["pair"] = json!(pair.to_string());
            row["acceptedReadings"] = json!(accepted.readings);
            print(&output, &row);
        }
    }
    Ok(())
}

fn shown(reading: &StoredReading) -> Value {
    let (price, flaw) = match reading.finding {
        ReadingResult::Accepted(price) | ReadingResult::Held(price) => (Some(price), None),
        ReadingResult::Refused(flaw) => (None, Some(flaw)),
    };
    json!({
        "state": reading.finding.state().wire(),
        "flaw": flaw.map(|flaw| flaw.wire()),
        "rate": price.map(|price| price.rate.to_string()),
        "asOf": price.map(|price| Instant(price.as_of).to_string()),
        "readAt": Instant(reading.read_at).to_string(),
    })
}
