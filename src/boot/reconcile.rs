//! `prs reconcile`: the payments table beside the chain.

use crate::{
    boot::{context, open_existing},
    domain::network::Network,
    flows::payments::reconcile,
    settings::Settings,
};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

/// What is compared.
#[derive(Debug, Args)]
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

/// Compares and prints every difference. Errors: differences that were not mended.
pub(super) async fn run(settings: &Settings, arguments: &ReconcileArguments) -> anyhow::Result<()> {
    let network = &arguments.network;
    let known = Network::from_id(network);
    let known = known.with_context(|| format!("--network {network}: accepted are {}", Network::ids_in_words()))?;
    let ctx = context(settings, open_existing(settings).await?)?;
    let chain = ctx.partners.chains.followed.get(&known).cloned();
    let chain = chain.with_context(|| format!("--network {network}: the settings name no node of it"))?;
    let range = (arguments.from, arguments.to);
    let report = reconcile::run(&ctx, chain.as_ref(), range, arguments.fix).await?;
    for difference in &report.differences {
        if arguments.json {
            let shown = json!({
                "kind": difference.kind.wire(), "blockNumber": difference.block_number, "txHash": difference.tx_hash,
                "position": difference.position, "requestId": difference.request_id, "detail": difference.detail,
            });
            println!("{shown}");
        } else {
            println!(
                "{} block {} transaction {} position {} request {}: {}",
                difference.kind.wire(),
                difference.block_number,
                difference.tx_hash,
                difference.position,
                difference.request_id,
                difference.detail
            );
        }
    }
    let (same, count, is_fixed) = (report.same, report.differences.len(), report.is_fixed);
    if arguments.json {
        println!("{}", json!({ "same": same, "differences": count, "isFixed": is_fixed }));
    } else {
        println!(
            "{same} payments are the same, {count} differ{}",
            if is_fixed && count > 0 { " and were mended" } else { "" }
        );
    }
    if count > 0 && !is_fixed {
        bail!("{count} differences; `--fix` mends them");
    }
    Ok(())
}
