//! `prs reconcile`: compares the payments table with the chain.

use crate::{
    boot::{context, open_existing, output::say},
    domain::{block_range::BlockRange, network::Network, reconciliation::RecordDifference},
    flows::payments::reconcile::{self, ReconciliationReport},
    settings::Settings,
};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `prs reconcile`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0: no differences are left; 1: differences are left; 2: payments, requests or blocks \
                  could not be compared or fixed"
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
    /// Credits missing payments and reverses payments that are not on the chain.
    #[arg(long)]
    fix: bool,
    /// Prints one JSON object for each difference, and a summary object at the end.
    #[arg(long)]
    json: bool,
}

/// Error of a comparison: number of differences that were found and not fixed.
#[derive(Debug, thiserror::Error)]
#[error("{0} differences between the records and the chain; run with `--fix` to fix them")]
pub(super) struct UnfixedDifferences(usize);

/// Compares, and prints every difference when it is found or fixed.
///
/// Errors, after all output: [`UnfixedDifferences`] if differences are left; the number of payments, requests and blocks that
/// could not be compared or fixed.
pub(super) async fn run(settings: &Settings, arguments: &ReconcileArguments) -> anyhow::Result<()> {
    let network = &arguments.network;
    let known = Network::from_id(network);
    let known = known.with_context(|| {
        format!(
            "--network: {network} is not a supported network; supported networks are {}",
            Network::ids_in_words()
        )
    })?;
    let ctx = context(settings, open_existing(settings).await?)?;
    let chain = ctx.partners.chains.followed.get(&known).cloned();
    let chain = chain.with_context(|| format!("--network {network}: set {}", known.node_setting()))?;
    let range = BlockRange {
        from: arguments.from,
        to: arguments.to,
    };
    let mut told = 0_usize;
    let mut tell = |difference: &RecordDifference| {
        told += 1;
        if arguments.json {
            say!("{}", as_json(difference));
        } else {
            say!("{}", in_words(difference));
        }
    };
    let report = reconcile::run(&ctx, chain.as_ref(), range, arguments.fix, &mut tell).await;
    let ReconciliationReport {
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
            mended if arguments.fix && differences > 0 => format!(", {mended} of them fixed"),
            _ => String::new(),
        };
        say!("{same} payments match, {differences} differences{mended}");
    }
    if failures > 0 {
        bail!("{failures} payments, requests or blocks could not be compared or fixed");
    }
    if differences > 0 && !arguments.fix {
        return Err(UnfixedDifferences(differences).into());
    }
    Ok(())
}

fn as_json(difference: &RecordDifference) -> Value {
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

fn in_words(difference: &RecordDifference) -> String {
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
    let why = difference.unmended.as_ref().map(|why| format!("; not fixed: {why}"));
    format!(
        "{}{}{request}: {}{}",
        difference.kind.wire(),
        place.unwrap_or_default(),
        difference.detail,
        why.unwrap_or_default()
    )
}
