//! Goes back below what was final, when enough nodes agree that it is no longer part of the chain.
//!
//! Where the settings lower the confirmations, that is a risk that was taken: up to [`BLOCKS_MAX`] blocks are undone, and
//! each payment in them is looked for where the chain has it now. What is beyond it waits for the operator.

use super::reverse;
use crate::{
    ctx::Ctx,
    domain::payment::{Finality, Observation, ReversalReason},
    flows::FlowResult,
    ports::chain::Chain,
    store::{
        self,
        cursors::{Cursor, Mark},
        payments::PaymentRecord,
    },
};

/// Blocks that are undone without asking.
pub(super) const BLOCKS_MAX: u64 = 64;

/// What became of a payment whose block left the chain.
enum Fate {
    /// Its transaction is in another block that is final.
    Moved(Box<Observation>),
    /// It left the chain.
    Gone,
}

/// Walks back to the newest kept block on which enough nodes agree. Returns why the chain has to stop when that may not
/// be done without the operator.
pub(super) async fn run(ctx: &Ctx, chain: &dyn Chain, cursor: &mut Cursor) -> FlowResult<Option<String>> {
    let was_final = cursor.finalized.number;
    let window = store::cursors::window(ctx.db.reader(), cursor.network).await?;
    let mut common = None;
    let mut lowest = was_final;
    for block in window.iter().filter(|block| block.number < was_final) {
        lowest = block.number;
        let agreed = chain.agreed(block.number).await?;
        if agreed.hash == block.hash {
            common = Some(agreed);
            break;
        }
    }
    let is_within = common.is_some_and(|common| was_final - common.number <= BLOCKS_MAX);
    let is_allowed = cursor.may_rewind || (cursor.finality == Some(Finality::Setting) && is_within);
    if !is_allowed {
        return Ok(Some(format!(
            "block {was_final}, which was final, is no longer part of the chain"
        )));
    }
    let common = match common {
        Some(common) => common,
        None => chain.agreed(lowest.saturating_sub(1)).await?,
    };
    let network = cursor.network;
    let payments = store::payments::in_blocks(ctx.db.reader(), network, common.number + 1, u64::MAX).await?;
    let mut fates = Vec::new();
    for payment in payments {
        if chain.agreed(payment.block_number).await?.hash != payment.block_hash {
            fates.push((fate(chain, &payment, was_final).await?, payment));
        }
    }
    tracing::warn!(%network, from = was_final, to = common.number, payments = fates.len(), "blocks that were final left the chain");
    metrics::counter!("prs_chain_reorganisations_total", "network" => network.id()).increment(1);
    cursor.finalized = Mark {
        number: common.number,
        hash: common.hash,
    };
    cursor.seen = cursor.finalized;
    cursor.may_rewind = false;
    let tx = ctx.db.begin("rewind_chain").await?;
    let mut gone = Vec::new();
    for (fate, payment) in &fates {
        match fate {
            Fate::Moved(observed) => store::payments::place(&tx, &payment.id, observed).await?,
            Fate::Gone => gone.push(payment),
        }
    }
    reverse::run(ctx, &tx, &gone, ReversalReason::Reorganised, ctx.clock.now()).await?;
    store::observations::delete_above(&tx, network, common.number).await?;
    store::cursors::delete_blocks_above(&tx, network, common.number).await?;
    store::cursors::save(&tx, cursor).await?;
    tx.commit().await?;
    Ok(None)
}

async fn fate(chain: &dyn Chain, payment: &PaymentRecord, settled: u64) -> FlowResult<Fate> {
    let Some(height) = chain
        .height_of(payment.tx_hash)
        .await?
        .filter(|height| *height <= settled)
    else {
        return Ok(Fate::Gone);
    };
    let block = chain.settled(height).await?;
    let proof = block.transaction(&payment.tx_hash);
    let found = proof.and_then(|proof| proof.observations.iter().find(|observed| is_same(observed, payment)));
    Ok(found.map_or(Fate::Gone, |observed| Fate::Moved(Box::new(observed.clone()))))
}

fn is_same(observed: &Observation, payment: &PaymentRecord) -> bool {
    observed.position == payment.position
        && observed.reference_topic == payment.reference.topic()
        && observed.payee == payment.payee
        && observed.token == payment.token
        && observed.units == payment.event_units
}
