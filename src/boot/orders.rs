//! `prs admin offramp`: the orders, which are payouts to bank accounts through the off-ramp partner.

use super::output::{Output, print, say};
use crate::{
    ctx::Ctx,
    flows::off_ramp::{
        close,
        list::{self, OrderFilter, OrderSummary, UnsettledRequest},
    },
    http::forms::wire::Instant,
};
use clap::Subcommand;
use serde_json::{Value, json};

/// Verbs of `prs admin offramp`.
#[derive(Debug, Subcommand)]
pub enum OfframpVerb {
    /// Lists open orders, oldest first; at most 1000.
    List {
        /// Also finished orders.
        #[arg(long)]
        all: bool,
        /// Only orders without an update from the partner for a day.
        #[arg(long)]
        silent: bool,
        /// Lists requests instead of orders: those with money that no order has paid out or will pay out. These are
        /// partial payments, payments of cancelled requests, and payments after the order was sent to the partner.
        #[arg(long, conflicts_with_all = ["all", "silent"])]
        unsettled: bool,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Closes a request whose money no order pays out, after you settled it with the partner. An unfinished request
    /// then fails.
    Close {
        /// Public id of the request.
        request: String,
        /// How the money was settled. The note is stored with the request.
        #[arg(long)]
        note: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Runs a verb.
pub(super) async fn run(ctx: &Ctx, verb: OfframpVerb) -> anyhow::Result<()> {
    match verb {
        OfframpVerb::List {
            unsettled: true,
            output,
            ..
        } => {
            let unsettled = list::unsettled(ctx).await?;
            print_all(&output, "requests", unsettled.iter().map(describe_unsettled));
        }
        OfframpVerb::List {
            all, silent, output, ..
        } => {
            let listed = list::run(ctx, OrderFilter { all, silent }).await?;
            print_all(&output, "orders", listed.iter().map(describe));
        }
        OfframpVerb::Close { request, note, output } => {
            let closed = close::run(ctx, &request, &note).await?;
            let status = closed.ledger.status.wire();
            print(
                &output,
                &json!({ "requestId": request, "closed": true, "status": status }),
            );
        }
    }
    Ok(())
}

fn print_all(output: &Output, name: &str, listed: impl Iterator<Item = Value>) {
    if output.json {
        say!("{}", json!({ name: listed.collect::<Vec<_>>() }));
        return;
    }
    for one in listed {
        print(output, &one);
        say!("");
    }
}

fn describe_unsettled(unsettled: &UnsettledRequest) -> Value {
    let request = &unsettled.request;
    json!({
        "requestId": request.id.as_str(), "platform": request.origin.platform.as_str(),
        "status": request.ledger.status.wire(), "payments": request.ledger.payment_count,
        "arrived": unsettled.arrived.to_string(), "asked": unsettled.asked.as_ref().map(ToString::to_string),
        "order": unsettled.order.as_ref().map(|order| order.id.as_str()),
        "orderState": unsettled.order.as_ref().map(|order| order.state.wire()),
    })
}

fn describe(listed: &OrderSummary) -> Value {
    let order = &listed.order;
    json!({
        "id": order.id.as_str(), "platform": order.platform.as_str(), "requestId": listed.request_id,
        "state": order.state.wire(), "partnerOrder": order.partner_id, "word": order.word,
        "failures": order.failures, "openedAt": Instant(order.created_at).to_string(),
        "lastNewsAt": Instant(order.changed_at).to_string(),
        "nextQuestionAt": order.next_at.map(|time| Instant(time).to_string()),
    })
}
