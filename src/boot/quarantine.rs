//! `prs admin quarantine`: lists quarantined payments and decides about them.

use super::{
    network_of,
    output::{Output, print, say},
};
use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        ids::{QuarantineId, RequestRowId},
        oddity::{OddReason, OperatorDecision},
        request::{Request, progress::Scale},
    },
    flows::payments::quarantine::{self, QuarantineEntry, QuarantineQuery},
    http::forms::wire::Instant,
};
use alloy::primitives::B256;
use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Verbs of `prs admin quarantine`.
#[derive(Debug, Subcommand)]
pub enum QuarantineVerb {
    /// Lists payments that wait for a decision, newest first; at most 1000.
    List {
        /// Filter.
        #[command(flatten)]
        wanted: WantedArgs,
        /// Only payments older than the payment with this id. For the next page, pass the last id of the previous page.
        #[arg(long)]
        after: Option<String>,
        /// Also minor, accepted, rejected and settled payments.
        #[arg(long)]
        all: bool,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Shows one payment in full.
    Show {
        /// Id, as printed by `list`.
        id: String,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
    /// Reads the block again, and credits or removes the payment if it is no longer unexpected.
    Retry(QuarantineDecision),
    /// Accepts the payment: reads its block again and credits it, although it is unexpected.
    Accept(QuarantineDecision),
    /// Rejects one payment permanently, or all undecided payments that match the filter.
    Reject {
        /// Id, as printed by `list`.
        #[arg(
            required_unless_present_any = ["network", "request", "tx", "reason"],
            conflicts_with_all = ["network", "request", "tx", "reason", "min_amount"],
        )]
        id: Option<String>,
        /// Filter instead of an id.
        #[command(flatten)]
        wanted: WantedArgs,
        /// Reason, stored for later readers.
        #[arg(long)]
        note: Option<String>,
        /// Output format.
        #[command(flatten)]
        output: Output,
    },
}

/// Filter; all given conditions must match.
#[derive(Debug, Args)]
pub struct WantedArgs {
    /// Only this network.
    #[arg(long)]
    network: Option<String>,
    /// Only for this request, by its public id.
    #[arg(long)]
    request: Option<String>,
    /// Only this transaction.
    #[arg(long)]
    tx: Option<B256>,
    /// Only this reason, such as `path_not_handed_out`.
    #[arg(long)]
    reason: Option<String>,
    /// Only payments of at least this amount, in the payment currency of the request.
    #[arg(long, requires = "request")]
    min_amount: Option<String>,
}

impl WantedArgs {
    fn read(self) -> anyhow::Result<QuarantineQuery> {
        let reasons = || OddReason::ALL.map(OddReason::wire).join(", ");
        let reason = |text: String| {
            OddReason::from_wire(&text)
                .with_context(|| format!("{text:?} is an unknown reason; must be one of {}", reasons()))
        };
        let amount = |text: String| Amount::parse(&text).map_err(|why| anyhow::anyhow!("--min-amount {why}"));
        Ok(QuarantineQuery {
            network: self.network.as_deref().map(network_of).transpose()?,
            request_id: self.request,
            tx_hash: self.tx,
            reason: self.reason.map(reason).transpose()?,
            min_amount: self.min_amount.map(amount).transpose()?,
        })
    }
}

/// A decision about a quarantined payment.
#[derive(Debug, Args)]
pub struct QuarantineDecision {
    /// Id, as printed by `list`.
    id: String,
    /// Reason, stored for later readers.
    #[arg(long)]
    note: Option<String>,
    /// Output format.
    #[command(flatten)]
    output: Output,
}

/// Runs a verb.
pub(super) async fn run(ctx: &Ctx, verb: QuarantineVerb) -> anyhow::Result<()> {
    let (verdict, id, note, output) = match verb {
        QuarantineVerb::List {
            wanted,
            after,
            all,
            output,
        } => {
            let after = after.map(QuarantineId);
            let found = quarantine::list(ctx, &wanted.read()?, all, after.as_ref()).await?;
            let found = described(ctx, &found).await?;
            if output.json {
                say!("{}", json!({ "quarantined": found }));
                return Ok(());
            }
            for one in found {
                print(&output, &one);
                say!("");
            }
            return Ok(());
        }
        QuarantineVerb::Show { id, output } => {
            let found = quarantine::show(ctx, &QuarantineId(id)).await?;
            return print_one(ctx, &output, found).await;
        }
        QuarantineVerb::Reject {
            id: None,
            wanted,
            note,
            output,
        } => {
            let rejected = quarantine::reject_all(ctx, &wanted.read()?, note.as_deref()).await?;
            print(&output, &json!({ "rejected": rejected }));
            return Ok(());
        }
        QuarantineVerb::Reject {
            id: Some(id),
            note,
            output,
            ..
        } => (OperatorDecision::Reject, id, note, output),
        QuarantineVerb::Retry(decision) => (OperatorDecision::Retry, decision.id, decision.note, decision.output),
        QuarantineVerb::Accept(decision) => (OperatorDecision::Accept, decision.id, decision.note, decision.output),
    };
    let after = quarantine::decide(ctx, &QuarantineId(id), verdict, note.as_deref()).await?;
    print_one(ctx, &output, after).await
}

async fn print_one(ctx: &Ctx, output: &Output, quarantined: QuarantineEntry) -> anyhow::Result<()> {
    for shown in described(ctx, &[quarantined]).await? {
        print(output, &shown);
    }
    Ok(())
}

async fn described(ctx: &Ctx, quarantined: &[QuarantineEntry]) -> anyhow::Result<Vec<Value>> {
    let requests = quarantine::concerned(ctx, quarantined).await?;
    Ok(quarantined.iter().map(|one| describe(ctx, one, &requests)).collect())
}

fn describe(ctx: &Ctx, quarantined: &QuarantineEntry, requests: &HashMap<RequestRowId, Request>) -> Value {
    let odd = &quarantined.oddity;
    let concerned = odd.concerned.as_ref();
    let request = concerned.and_then(|concerned| requests.get(&concerned.request));
    let terms = request.map(|request| &request.terms);
    let (amount, settles) = terms
        .zip(odd.stake())
        .map(|(terms, stake)| {
            let scale = Scale::of(&ctx.catalogue, &terms.invoice_currency, &terms.payment_currency);
            (scale.paid(stake.units), scale.amount(stake.settlement))
        })
        .unzip();
    json!({
        "id": quarantined.id.as_str(), "network": odd.network.id(), "blockNumber": odd.block_number,
        "txHash": odd.tx_hash, "position": odd.position, "reason": odd.reason.wire(), "detail": odd.detail,
        "platform": concerned.map(|concerned| concerned.platform.as_str()),
        "requestId": request.map(|request| request.id.as_str()), "amount": amount,
        "currency": terms.map(|terms| &terms.payment_currency),
        "units": odd.stake().map(|stake| stake.units.to_string()), "wouldSettle": settles,
        "invoiceCurrency": terms.map(|terms| &terms.invoice_currency),
        "state": quarantined.state.wire(), "attempts": quarantined.attempts,
        "firstSeenAt": Instant(quarantined.first_seen).to_string(),
        "lastSeenAt": Instant(quarantined.last_seen).to_string(),
        "settledAt": quarantined.settled_at.map(|time| Instant(time).to_string()), "note": quarantined.note,
    })
}
