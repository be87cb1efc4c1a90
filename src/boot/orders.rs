//! `prs admin offramp`: the orders by which payments reach bank accounts.

use super::output::{Output, print, say};
use crate::{
    ctx::Ctx,
    flows::off_ramp::list::{self, Listed, Wanted},
    http::forms::wire::Instant,
};
use clap::Subcommand;
use serde_json::{Value, json};

/// Verbs of `prs admin offramp`.
#[derive(Debug, Subcommand)]
pub enum OfframpVerb {
    /// Lists orders that are open, the oldest first; at most 1000.
    List {
        /// Also those that are over.
        #[arg(long)]
        all: bool,
        /// Only those without news for a day.
        #[arg(long)]
        silent: bool,
        /// How the result is printed.
        #[command(flatten)]
        output: Output,
    },
}

/// Runs a verb.
pub(super) async fn run(ctx: &Ctx, verb: OfframpVerb) -> anyhow::Result<()> {
    let OfframpVerb::List { all, silent, output } = verb;
    let listed = list::run(ctx, Wanted { all, silent }).await?;
    let listed = listed.iter().map(describe);
    if output.json {
        say!("{}", json!({ "orders": listed.collect::<Vec<_>>() }));
        return Ok(());
    }
    for order in listed {
        print(&output, &order);
        say!("");
    }
    Ok(())
}

fn describe(listed: &Listed) -> Value {
    let order = &listed.order;
    json!({
        "id": order.id.as_str(), "platform": order.platform.as_str(), "requestId": listed.request_id,
        "state": order.state.wire(), "partnerOrder": order.partner_id, "word": order.word,
        "failures": order.failures, "openedAt": Instant(order.created_at).to_string(),
        "lastNewsAt": Instant(order.changed_at).to_string(),
        "nextQuestionAt": order.next_at.map(|time| Instant(time).to_string()),
    })
}
