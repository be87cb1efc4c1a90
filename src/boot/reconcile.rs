//! `prs reconcile`: the payments table beside the chain.

use crate::{
    boot::{context, open_existing, output::say},
    domain::network::Network,
    domain::reconciliation::Difference,
    flows::payments::reconcile::{self, Report},
    settings::Settings,
};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

/// What is compared.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing differs any more, 1 there are differences, 2 some could not be compared or mended"
)]
pub(super) struct ReconcileArguments {
    /// Network ID, such as `base`.
    #[arg(long)]
    network: String,
    /// First block.
    #[arg(long)]
    from: u64,
    /// Last block; it must be final.
    #[arg(long)]
    to: u64,
    /// Credits what is missing and reverses what the chain does not hold.
    #[arg(long)]
    fix: bool,
    /// Prints one JSON object for each difference and one at the end.
    #[arg(long)]
    json: bool,
}

/// Differences that were found and not mended.
#[derive(Debug, thiserror::Error)]
#[error("{0} differences; `--fix` mends them")]
pub(super) struct Unmended(usize);

/// Compares, and prints every difference when it is found or mended. Errors: [`Unmended`]; that some could not be compared
/// or mended, after what was printed.
pub(super) async fn run(settings: &Settings, arguments: &ReconcileArguments) -> anyhow::Result<()> {
    let network = &arguments.network;
    let known = Network::from_id(network);
    let known = known.with_context(|| format!("--network {network}: accepted are {}", Network::ids_in_words()))?;
    let ctx = context(settings, open_existing(settings).await?)?;
    let chain = ctx.partners.chains.followed.get(&known).cloned();
    let chain = chain.with_context(|| format!("--network {network}: the settings name no node of it"))?;
    let range = (arguments.from, arguments.to);
    let mut told = 0_usize;
    let mut tell = |difference: &Difference| {
        told += 1;
        if arguments.json {
            say!("{}", as_json(difference));
        } else {
            say!("{}", in_words(difference));
        }
    };
    let report = reconcile::run(&ctx, chain.as_ref(), range, arguments.fix, &mut tell).await;
    let Report {
        same,
        differences,
        failures,
    } = report.with_context(|| format!("the comparison ended early, after {told} differences"))?;
    if arguments.json {
        say!(
            "{}",
            json!({ "same": same, "differences": differences, "failures": failures, "isFixed": arguments.fix })
        );
    } else {
        let mended = match differences - failures {
            mended if arguments.fix && differences > 0 => format!(", {mended} of them mended"),
            _ => String::new(),
        };
        say!("{same} payments are the same, {differences} differences{mended}");
    }
    if failures > 0 {
        bail!("{failures} differences could not be compared or mended");
    }
    if differences > 0 && !arguments.fix {
        return Err(Unmended(differences).into());
    }
    Ok(())
}

fn as_json(difference: &Difference) -> Value {
    json!({
        "kind": difference.kind.wire(),
        "blockNumber": difference.place.map(|place| place.block_number),
        "txHash": difference.place.map(|place| place.tx_hash),
        "position": difference.place.map(|place| place.position),
        "requestId": difference.request_id,
        "detail": difference.detail,
        "unmended": difference.unmended,
    })
}

fn in_words(difference: &Difference) -> String {
    let place = difference.place.map(|place| {
        format!(
            " block {} transaction {} position {}",
            place.block_number, place.tx_hash, place.position
        )
    });
    let request = match difference.request_id.as_str() {
        "" => String::new(),
        id => format!(" request {id}"),
    };
    let why = difference.unmended.as_ref().map(|why| format!("; not mended: {why}"));
    format!(
        "{}{}{request}: {}{}",
        difference.kind.wire(),
        place.unwrap_or_default(),
        difference.detail,
        why.unwrap_or_default()
    )
}
