//! Takes back the credit of a payment that left the chain: marks it, counts its request again, tells its owner.

use crate::{
    ctx::Ctx,
    domain::{
        event::{Event, PaymentReversed},
        ids::PlatformId,
        payment::{Observation, ProvenTransfer, ReversalReason, Settled},
        request::Request,
    },
    flows::{FlowError, FlowResult, publish},
    store::{self, Scope, Tx, payments::PaymentRecord},
};
use chrono::{DateTime, Utc};

/// Reverses a payment in the given transaction; one that is reversed already stays as it is. When the chain proves it
/// again, it is credited again.
///
/// Source: decisions D37.
pub(super) async fn run(
    ctx: &Ctx,
    tx: &Tx,
    payment: &PaymentRecord,
    reason: ReversalReason,
    now: DateTime<Utc>,
) -> FlowResult<()> {
    let Some(reversals) = store::payments::reverse(tx, &payment.id, reason, now).await? else {
        return Ok(());
    };
    let Some(request) = recount(tx, &payment.platform, &payment.request_id, now).await? else {
        return Ok(());
    };
    tracing::warn!(network = %payment.network, tx_hash = %payment.tx_hash, request = %request.id, reason = reason.wire(), "payment reversed");
    metrics::counter!("prs_payments_reversed_total", "network" => payment.network.id()).increment(1);
    if ctx.webhooks.reversals {
        let event = Event::PaymentReversed(Box::new(PaymentReversed {
            request,
            payment: settled(payment),
            id: payment.id.clone(),
            reason,
            reversals,
        }));
        publish(ctx, tx, &event).await?;
    }
    Ok(())
}

/// Counts a request again from the payments that are recorded and not reversed; returns it as it is then.
pub(super) async fn recount(
    tx: &Tx,
    platform: &PlatformId,
    request_id: &str,
    now: DateTime<Utc>,
) -> FlowResult<Option<Request>> {
    let owner = Scope {
        platform: platform.clone(),
        client: None,
    };
    let Some(mut request) = store::requests::find(tx, &owner, request_id).await? else {
        return Ok(None);
    };
    let remaining = store::payments::list_of_request(tx, &request).await?;
    let remaining = remaining.iter().map(|left| (left.credited, left.tx_hash));
    let ledger = request.ledger.reverse(remaining);
    if !store::requests::advance(tx, &request, &ledger, now).await? {
        return Err(FlowError::Unavailable(anyhow::anyhow!(
            "request {} changed while its payments were counted again",
            request.id
        )));
    }
    request.ledger = ledger;
    Ok(Some(request))
}

/// The payment as it was settled. What a conversion proxy said about the invoice side is not kept; how much it settled is.
fn settled(payment: &PaymentRecord) -> Settled {
    Settled {
        observed: Observation {
            network: payment.network,
            tx_hash: payment.tx_hash,
            position: payment.position,
            block_number: payment.block_number,
            block_hash: payment.block_hash,
            log_index: payment.log_index,
            proxy: payment.proxy,
            reference_topic: payment.reference.topic(),
            token: payment.token,
            payee: payment.payee,
            units: payment.event_units,
            fee_units: payment.fee_units,
            fee_address: payment.fee_address,
            conversion: None,
        },
        proven: ProvenTransfer {
            received_units: payment.units,
            payer: payment.payer,
            payer_eoa: payment.payer_eoa,
        },
        credited: payment.credited,
        fee_shortfall: payment.fee_shortfall,
        at: payment.paid_at,
    }
}
