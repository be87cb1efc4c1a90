//! `prs admin rates`: what the feeds tell, and the operator's word about it.

use super::output::{Output, print, say};
use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rate::Rate,
        rates::{Finding, Reading},
    },
    flows::rates::{
        accept::{self, Word},
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
    /// Lists every pair that a quote may need: its rate now or why it has none, and the last accepted one.
    List {
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
    /// Has a rate believed that was held back, or names one; payments that waited for it are looked at again.
    Accept {
        /// The pair, such as `USDC/USD`.
        pair: String,
        /// The rate, in units of the currency for one token; absent, the newest one that was held back.
        #[arg(long)]
        rate: Option<String>,
        /// The time from which on it held, such as `2030-01-01T12:00:00Z`; absent, now.
        #[arg(long, requires = "rate")]
        at: Option<DateTime<Utc>>,
        /// How the result is printed.
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
            let pair = Pair::parse(&pair).with_context(|| format!("{pair}: a pair is written USDC/USD"))?;
            let word = match rate {
                Some(text) => {
                    let rate = Rate::parse(&text).map_err(|why| anyhow!("--rate: {why}"))?;
                    Word::Rate(rate, at.unwrap_or_else(|| ctx.clock.now()))
                }
                None => Word::Held,
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

fn shown(reading: &Reading) -> Value {
    let (price, flaw) = match reading.finding {
        Finding::Accepted(price) | Finding::Held(price) => (Some(price), None),
        Finding::Refused(flaw) => (None, Some(flaw)),
    };
    json!({
        "state": reading.finding.state().wire(),
        "flaw": flaw.map(|flaw| flaw.wire()),
        "rate": price.map(|price| price.rate.to_string()),
        "asOf": price.map(|price| Instant(price.as_of).to_string()),
        "readAt": Instant(reading.read_at).to_string(),
    })
}
